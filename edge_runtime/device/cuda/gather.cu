// A row of audio from at most two pieces of the host's mapped memory, and zeros behind them.

extern "C" __global__ void gather(
    float *row, int size, const float *first, int count, const float *second, int more) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= size) return;
    float sample = 0.0f;
    if (at < count) sample = first[at];
    else if (at - count < more) sample = second[at - count];
    row[at] = sample;
}
