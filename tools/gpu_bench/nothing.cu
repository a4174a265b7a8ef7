// What a kernel costs that does nothing.
extern "C" __global__ void nothing(int) {}
