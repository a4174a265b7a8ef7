// Moonshine's encoder: three convolutions of the wave, transformer layers, and the keys and values
// of the decoder's cross-attention.
//
// It is bound by launches and latency, hardly by arithmetic: so every convolution is a matrix
// product of windows that lie in memory as they are (channels last), norms are computed where
// they are read, and a kernel has asked for its weights when the one before it ends.
//
// Compiled with HALF 1 and: WIDTH, HEADS, DIM (padded head dimension), ROTARY, INNER, MIDDLE
// (channels between the second and third convolution), KERNEL_1 to KERNEL_3, STRIDE_1 to
// STRIDE_3, LOG2_THETA, EPSILON.
//
// Activations are (rows, frames, channels); x is float32, the others float16. Matrices are (in,
// out), packed, their rows in the order of `Tile`. A block takes LINES frames of a row, or twice
// as many in `listen`, which reads most.

#include "common.cuh"

#define ALL (HEADS * DIM)
#define LINES 32
#define WARPS 8
#define THREADS (WARPS * 32)

#include "attention.cuh"
#include "rotary.cuh"

#define DEPTH_1 ((KERNEL_1 + 31) / 32 * 32)
#define DEPTH_2 (KERNEL_2 * WIDTH)
#define DEPTH_3 (KERNEL_3 * MIDDLE)

typedef uint4 Octet;  // eight neighbours of float16

__device__ __forceinline__ float gelu(float value) {
    return 0.5f * value * (1.f + erff(value * 0.70710678f));
}

__device__ __forceinline__ int frames_after(int length, int kernel, int stride) {
    return max(0, (length - kernel) / stride + 1);
}

__device__ __forceinline__ int frames_of(int64 length) {
    int frames = frames_after((int)length, KERNEL_1, STRIDE_1);
    return frames_after(frames_after(frames, KERNEL_2, STRIDE_2), KERNEL_3, STRIDE_3);
}

// 16·M lines by 16·P columns of a matrix product, as one warp holds them: of each 32 values a
// line is deep, a thread reads eight neighbours, so the matrix has its rows in that order (see
// `in_octets` in program.py). Sums: [16 lines][8 columns][lane / 4, 8 below: two columns each].
template <int M, int P>
struct Tile {
    float sum[M][2 * P][4] = {};

    __device__ __forceinline__ void add(const Octet (&line)[M][2], const Eight (&weight)[P][2]) {
#pragma unroll
        for (int m = 0; m < M; m++) {
            const Octet &a = line[m][0], &b = line[m][1];
            unsigned int first[4] = {a.x, b.x, a.y, b.y}, second[4] = {a.z, b.z, a.w, b.w};
#pragma unroll
            for (int p = 0; p < P; p++)
#pragma unroll
                for (int n = 0; n < 2; n++) {
                    const unsigned int *w = weight[p][0].word, *v = weight[p][1].word;
                    multiply(sum[m][2 * p + n], first, w[n], w[n + 2]);
                    multiply(sum[m][2 * p + n], second, v[n], v[n + 2]);
                }
        }
    }

    // 16 lines of it into shared memory, PITCH apart.
    template <int PITCH>
    __device__ __forceinline__ void write(int m, float *out) const {
        int lane = threadIdx.x & 31;
#pragma unroll
        for (int n = 0; n < 2 * P; n++)
#pragma unroll
            for (int half = 0; half < 2; half++)
                *(float2 *)(out + (half * 8 + lane / 4) * PITCH + n * 8 + lane % 4 * 2) =
                    make_float2(sum[m][n][2 * half], sum[m][n][2 * half + 1]);
    }
};

// What a warp reads of 16·P columns of a packed matrix DEPTH deep: 32 rows at `chunk`.
template <int DEPTH, int P>
__device__ __forceinline__ void weights(const T *matrix, int column, int chunk, Eight (&out)[P][2]) {
    const Eight *at = (const Eight *)matrix + (threadIdx.x & 31);
#pragma unroll
    for (int p = 0; p < P; p++)
#pragma unroll
        for (int i = 0; i < 2; i++)
            out[p][i] = at[((size_t)(column / 16 + p) * (DEPTH / 16) + chunk * 2 + i) * 32];
}

// 16·M lines by 32·GROUPS columns, 32 a warp; the warps of a group share the depth, AHEAD
// chunks of it asked for at a time. `at(line)` is where a line lies; `out(line, column, four)`
// gets four neighbours of the result. Weights do not wait for the kernel before, all else comes
// after `ready()`.
template <int DEPTH, int M, int GROUPS, int AHEAD, typename At, typename Ready, typename Out>
__device__ __forceinline__ void product(const T *matrix, At at, Ready ready, Out out) {
    const int SPLIT = WARPS / GROUPS, CHUNKS = DEPTH / 32, MOST = (CHUNKS + SPLIT - 1) / SPLIT;
    const int PITCH = GROUPS * 32 + 8;
    __shared__ alignas(16) float meet[SPLIT][32][PITCH];
    int part = threadIdx.x / 32 % SPLIT, group = threadIdx.x / 32 / SPLIT, lane = threadIdx.x & 31;
    int column = (blockIdx.x * GROUPS + group) * 32;
    Eight weight[AHEAD][2][2];
    Octet line[AHEAD][M][2];
#pragma unroll
    for (int i = 0; i < AHEAD; i++)
        if (part + i * SPLIT < CHUNKS) weights<DEPTH, 2>(matrix, column, part + i * SPLIT, weight[i]);
    ready();
    const T *from[M][2];
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int half = 0; half < 2; half++)
            from[m][half] = at(m * 16 + half * 8 + lane / 4) + lane % 4 * 8;
    auto read = [&](int chunk, Octet (&into)[M][2]) {
#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
            for (int half = 0; half < 2; half++)
                into[m][half] = *(const Octet *)(from[m][half] + chunk * 32);
    };
#pragma unroll
    for (int i = 0; i < AHEAD; i++)
        if (part + i * SPLIT < CHUNKS) read(part + i * SPLIT, line[i]);
    Tile<M, 2> tile;
#pragma unroll
    for (int i = 0; i < MOST; i++) {
        if (part + i * SPLIT < CHUNKS) tile.add(line[i % AHEAD], weight[i % AHEAD]);
        int next = part + (i + AHEAD) * SPLIT;
        if (i + AHEAD < MOST && next < CHUNKS) {
            weights<DEPTH, 2>(matrix, column, next, weight[i % AHEAD]);
            read(next, line[i % AHEAD]);
        }
    }
#pragma unroll
    for (int m = 0; m < M; m += 2) {
        if (m) __syncthreads();
        tile.template write<PITCH>(m, &meet[part][0][group * 32]);
        tile.template write<PITCH>(m + 1, &meet[part][16][group * 32]);
        __syncthreads();
#pragma unroll
        for (int i = threadIdx.x; i < 32 * GROUPS * 8; i += THREADS) {
            int mine = i / (GROUPS * 8), first = i % (GROUPS * 8) * 4;
            float4 four = make_float4(0.f, 0.f, 0.f, 0.f);
#pragma unroll
            for (int p = 0; p < SPLIT; p++) {
                float4 added = *(const float4 *)&meet[p][mine][first];
                four.x += added.x, four.y += added.y, four.z += added.z, four.w += added.w;
            }
            out(m * 16 + mine, blockIdx.x * GROUPS * 32 + first, four);
        }
    }
}

// Several sums of a warp at a time.
template <int COUNT>
__device__ __forceinline__ void sums_of_warp(float (&value)[COUNT]) {
#pragma unroll
    for (int step = 16; step; step >>= 1)
#pragma unroll
        for (int i = 0; i < COUNT; i++) value[i] += __shfl_xor_sync(FULL, value[i], step);
}

// norm(x) · matrix: 16·PIECES columns of LINES lines, 16 a warp; SPLIT warps share the depth of
// each. `two` reads the result, which is left in shared memory.
template <int PIECES, int SPLIT>
struct Normed {
    enum {
        SIZE = PIECES * SPLIT * 32,
        PITCH = PIECES * 16 + 8,
        IN = WIDTH + 8,
        BYTES_IN = LINES * IN * 2,
        BYTES_OUT = SPLIT * LINES * PITCH * 4,
        BYTES = BYTES_IN > BYTES_OUT ? BYTES_IN : BYTES_OUT
    };

    static __device__ __forceinline__ void run(
        const float *x, int lines, const float *gamma, const T *matrix, char *shared) {
        const int CHUNKS = WIDTH / 32, MOST = (CHUNKS + SPLIT - 1) / SPLIT;
        int warp = threadIdx.x / 32, lane = threadIdx.x & 31, part = warp % SPLIT;
        int column = (blockIdx.x * PIECES + warp / SPLIT) * 16;
        Eight weight[MOST][1][2];
#pragma unroll
        for (int i = 0; i < MOST; i++)
            if (part + i * SPLIT < CHUNKS)
                weights<WIDTH, 1>(matrix, column, part + i * SPLIT, weight[i]);
        after_previous();
        T *in = (T *)shared;
        normalise(x, lines, gamma, in);
        __syncthreads();
        Tile<LINES / 16, 1> tile;
#pragma unroll
        for (int i = 0; i < MOST; i++) {
            int chunk = part + i * SPLIT;
            if (chunk >= CHUNKS) continue;
            Octet line[LINES / 16][2];
#pragma unroll
            for (int m = 0; m < LINES / 16; m++)
#pragma unroll
                for (int half = 0; half < 2; half++)
                    line[m][half] = *(const Octet *)(in + (m * 16 + half * 8 + lane / 4) * IN +
                                                     chunk * 32 + lane % 4 * 8);
            tile.add(line, weight[i]);
        }
        __syncthreads();
        float *out = (float *)shared;
#pragma unroll
        for (int m = 0; m < LINES / 16; m++)
            tile.template write<PITCH>(m, out + (part * LINES + m * 16) * PITCH + warp / SPLIT * 16);
        __syncthreads();
    }

    // Two neighbours of the product.
    static __device__ __forceinline__ float2 two(const char *shared, int line, int column) {
        const float *out = (const float *)shared + line * PITCH + column;
        float2 sum = *(const float2 *)out;
#pragma unroll
        for (int s = 1; s < SPLIT; s++) {
            float2 part = *(const float2 *)(out + s * LINES * PITCH);
            sum.x += part.x, sum.y += part.y;
        }
        return sum;
    }

    // All lines of a warp at once, and one of the last again rather than a branch.
    static __device__ __forceinline__ void normalise(
        const float *x, int lines, const float *gamma, T *in) {
        const int EACH = WIDTH / 32, MINE = (LINES * 32 + SIZE - 1) / SIZE;
        int lane = threadIdx.x & 31, warp = threadIdx.x / 32;
        float value[MINE][EACH], total[MINE], squares[MINE], weight[EACH];
#pragma unroll
        for (int l = 0; l < MINE; l++) {
            int line = min(warp + l * (SIZE / 32), lines - 1);
#pragma unroll
            for (int i = 0; i < EACH; i++) value[l][i] = x[(size_t)line * WIDTH + lane + 32 * i];
        }
#pragma unroll
        for (int i = 0; i < EACH; i++) weight[i] = gamma[lane + 32 * i];
#pragma unroll
        for (int l = 0; l < MINE; l++) {
            total[l] = 0.f;
#pragma unroll
            for (int i = 0; i < EACH; i++) total[l] += value[l][i];
        }
        sums_of_warp<MINE>(total);
#pragma unroll
        for (int l = 0; l < MINE; l++) {
            total[l] /= WIDTH;
            squares[l] = 0.f;
#pragma unroll
            for (int i = 0; i < EACH; i++)
                squares[l] += (value[l][i] - total[l]) * (value[l][i] - total[l]);
        }
        sums_of_warp<MINE>(squares);
#pragma unroll
        for (int l = 0; l < MINE; l++) {
            float scale = rsqrtf(squares[l] / WIDTH + EPSILON);
            T *out = in + min(warp + l * (SIZE / 32), LINES - 1) * IN + lane;
#pragma unroll
            for (int i = 0; i < EACH; i++)
                out[32 * i] = narrow((value[l][i] - total[l]) * scale * weight[i]);
        }
    }
};

// The sum of a value over the block, for every thread.
template <int COUNT>
__device__ __forceinline__ float sum_of_block(float value, float *meet) {
    value = sum_of_warp(value);
    __syncthreads();
    if (!(threadIdx.x & 31)) meet[threadIdx.x / 32] = value;
    __syncthreads();
    value = 0.f;
#pragma unroll
    for (int warp = 0; warp < COUNT; warp++) value += meet[warp];
    return value;
}

// tanh(wave * kernel), and for each block what its true frames have: count, mean, sum of squares
// around it. 16 columns a warp, PARTS blocks a line.
#define PARTS 2
#define WARPS_1 (WIDTH / 16 / PARTS)

extern "C" __global__ void __launch_bounds__(WARPS_1 * 32) hear(
    const float *audio, int samples, const int64 *length, const T *matrix, T *out, int frames,
    float *moments) {
    const int SPAN = (LINES - 1) * STRIDE_1 + DEPTH_1, PITCH = WARPS_1 * 16 + 8;
    __shared__ alignas(16) T in[SPAN];
    __shared__ alignas(16) float values[LINES * PITCH];
    __shared__ float meet[WARPS_1];
    let_next_begin();
    int warp = threadIdx.x / 32, lane = threadIdx.x & 31, row = blockIdx.z;
    int first = blockIdx.y * LINES, column = (blockIdx.x * WARPS_1 + warp) * 16;
    Eight weight[DEPTH_1 / 32][1][2];
#pragma unroll
    for (int i = 0; i < DEPTH_1 / 32; i++) weights<DEPTH_1, 1>(matrix, column, i, weight[i]);
    after_previous();
    for (int i = threadIdx.x; i < SPAN; i += WARPS_1 * 32) {
        int at = first * STRIDE_1 + i;
        in[i] = narrow(at < samples ? audio[(size_t)row * samples + at] : 0.f);
    }
    __syncthreads();
    Tile<LINES / 16, 1> tile;
#pragma unroll
    for (int i = 0; i < DEPTH_1 / 32; i++) {
        Octet line[LINES / 16][2];
#pragma unroll
        for (int m = 0; m < LINES / 16; m++)
#pragma unroll
            for (int half = 0; half < 2; half++)
                line[m][half] = *(const Octet *)(in + (m * 16 + half * 8 + lane / 4) * STRIDE_1 +
                                                 i * 32 + lane % 4 * 8);
        tile.add(line, weight[i]);
    }
#pragma unroll
    for (int m = 0; m < LINES / 16; m++) tile.write<PITCH>(m, values + m * 16 * PITCH + warp * 16);
    __syncthreads();
    int real = frames_after((int)length[row], KERNEL_1, STRIDE_1) - first;
    int count = max(0, min(real, LINES)) * WARPS_1 * 16;
    float total = 0.f;
    for (int i = threadIdx.x; i < LINES * WARPS_1 * 8; i += WARPS_1 * 32) {
        int line = i / (WARPS_1 * 8), at = line * PITCH + i % (WARPS_1 * 8) * 2;
        unsigned int two = pair(tanhf(values[at]), tanhf(values[at + 1]));
        // What is normalised is what was stored.
        values[at] = wide((T)(two & 0xffffu));
        values[at + 1] = wide((T)(two >> 16));
        if (line < real) total += values[at] + values[at + 1];
        if (first + line < frames)
            *(unsigned int *)(out + ((size_t)row * frames + first + line) * WIDTH +
                              blockIdx.x * WARPS_1 * 16 + i % (WARPS_1 * 8) * 2) = two;
    }
    float mean = sum_of_block<WARPS_1>(total, meet) / max(count, 1), squares = 0.f;
    for (int i = threadIdx.x; i < LINES * WARPS_1 * 16; i += WARPS_1 * 32) {
        int line = i / (WARPS_1 * 16);
        float apart = values[line * PITCH + i % (WARPS_1 * 16)] - mean;
        if (line < real) squares += apart * apart;
    }
    squares = sum_of_block<WARPS_1>(squares, meet);
    if (threadIdx.x) return;
    float *told = moments + (((size_t)row * gridDim.y + blockIdx.y) * PARTS + blockIdx.x) * 3;
    told[0] = count, told[1] = mean, told[2] = squares;
}

// gelu(norm(in) * kernel + bias), where the norm is over all true frames and channels (GroupNorm
// of one group). It is linear: `matrix` has the norm's weights in it, `sums` what the mean takes
// away and `bias` what the norm's bias adds. Moments are put together as by Chan et al. 1979.
extern "C" __global__ void __launch_bounds__(THREADS) listen(
    const T *in, int frames_in, const float *moments, int parts, const T *matrix,
    const float *sums, const float *bias, T *out, int frames) {
    __shared__ float meet[WARPS];
    let_next_begin();
    int row = blockIdx.z, first = blockIdx.y * 2 * LINES;
    float mean = 0.f, scale = 0.f;
    auto ready = [&]() {
        after_previous();
        const float *told = moments + (size_t)row * parts * 3;
        float count = 0.f, total = 0.f, squares = 0.f;
        for (int i = threadIdx.x; i < parts; i += THREADS) {
            count += told[3 * i];
            total += told[3 * i] * told[3 * i + 1];
        }
        count = sum_of_block<WARPS>(count, meet);
        mean = sum_of_block<WARPS>(total, meet) / count;
        for (int i = threadIdx.x; i < parts; i += THREADS) {
            float apart = told[3 * i + 1] - mean;
            squares += told[3 * i + 2] + told[3 * i] * apart * apart;
        }
        scale = rsqrtf(sum_of_block<WARPS>(squares, meet) / count + EPSILON);
    };
    auto at = [&](int line) {
        return in + ((size_t)row * frames_in + min(first + line, frames - 1) * STRIDE_2) * WIDTH;
    };
    product<DEPTH_2, 4, 2, 2>(matrix, at, ready, [&](int line, int column, float4 four) {
        if (first + line >= frames) return;
        float value[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (int i = 0; i < 4; i++)
            value[i] = gelu(scale * (value[i] - mean * sums[column + i]) + bias[column + i]);
        *(uint2 *)(out + ((size_t)row * frames + first + line) * MIDDLE + column) =
            make_uint2(pair(value[0], value[1]), pair(value[2], value[3]));
    });
}

// x = gelu(in * kernel + bias)
extern "C" __global__ void __launch_bounds__(THREADS) gather(
    const T *in, int frames_in, const T *matrix, const float *bias, float *x, int frames) {
    let_next_begin();
    int row = blockIdx.z, first = blockIdx.y * LINES;
    auto at = [&](int line) {
        return in + ((size_t)row * frames_in + min(first + line, frames - 1) * STRIDE_3) * MIDDLE;
    };
    product<DEPTH_3, 2, 1, 4>(matrix, at, after_previous, [&](int line, int column, float4 four) {
        if (first + line >= frames) return;
        const float *b = bias + column;
        *(float4 *)(x + ((size_t)row * frames + first + line) * WIDTH + column) = make_float4(
            gelu(four.x + b[0]), gelu(four.y + b[1]), gelu(four.z + b[2]), gelu(four.w + b[3]));
    });
}

// x += in · matrix + bias
template <int DEPTH>
__device__ __forceinline__ void added(
    const T *in, const T *matrix, const float *bias, float *x, int frames) {
    let_next_begin();
    int first = blockIdx.y * LINES;
    size_t row = (size_t)blockIdx.z * frames;
    auto at = [&](int line) { return in + (row + min(first + line, frames - 1)) * DEPTH; };
    product<DEPTH, 2, 1, 4>(matrix, at, after_previous, [&](int line, int column, float4 four) {
        if (first + line >= frames) return;
        float4 *place = (float4 *)(x + (row + first + line) * WIDTH + column), value = *place;
        if (bias)
            four.x += bias[column], four.y += bias[column + 1], four.z += bias[column + 2],
                four.w += bias[column + 3];
        *place = make_float4(
            value.x + four.x, value.y + four.y, value.z + four.z, value.w + four.w);
    });
}

extern "C" __global__ void __launch_bounds__(THREADS) mix_out(
    const T *mixed, const T *matrix, float *x, int frames) {
    added<ALL>(mixed, matrix, 0, x, frames);
}

extern "C" __global__ void __launch_bounds__(THREADS) mlp_out(
    const T *inner, const T *matrix, const float *bias, float *x, int frames) {
    added<INNER>(inner, matrix, bias, x, frames);
}

// Queries and keys (turned) and values of norm(x), each (rows, HEADS, frames, DIM): two heads a
// block.
typedef Normed<2 * DIM / 16, 2> Heads;

extern "C" __global__ void __launch_bounds__(Heads::SIZE) project(
    const float *x, const float *gamma, const T *matrix, T *q, T *k, T *v, int frames) {
    __shared__ alignas(16) char shared[Heads::BYTES];
    let_next_begin();
    int first = blockIdx.y * LINES, row = blockIdx.z, lines = min(LINES, frames - first);
    Heads::run(x + ((size_t)row * frames + first) * WIDTH, lines, gamma, matrix, shared);
    int heads = blockIdx.x * 2, kind = heads / HEADS;
    T *out = kind == 0 ? q : kind == 1 ? k : v;
    size_t place = (((size_t)row * HEADS + heads % HEADS) * frames + first) * DIM;
    // Two neighbours at a time, and with them those that they turn with.
    const int PAIRS = DIM / 2, TURNED = ROTARY / 4, EACH = PAIRS - TURNED;
    for (int i = threadIdx.x; i < lines * 2 * EACH; i += Heads::SIZE) {
        int line = i / (2 * EACH), head = i / EACH % 2, at = i % EACH * 2;
        T *to = out + place + (head * frames + line) * DIM;
        if (at >= ROTARY / 2) {
            at += ROTARY / 2;
            float2 rest = Heads::two(shared, line, head * DIM + at);
            *(unsigned int *)(to + at) = pair(rest.x, rest.y);
            continue;
        }
        float2 low = Heads::two(shared, line, head * DIM + at);
        float2 high = Heads::two(shared, line, head * DIM + ROTARY / 2 + at);
        if (kind < 2) {
            float2 one = turned(low.x, high.x, at, first + line);
            float2 other = turned(low.y, high.y, at + 1, first + line);
            low = make_float2(one.x, other.x), high = make_float2(one.y, other.y);
        }
        *(unsigned int *)(to + at) = pair(low.x, low.y);
        *(unsigned int *)(to + ROTARY / 2 + at) = pair(high.x, high.y);
    }
}

// The mix of all true frames for 16 of one head: (rows, frames, ALL).
extern "C" __global__ void __launch_bounds__(THREADS) attend(
    const T *q, const T *k, const T *v, const int64 *length, T *mixed, int frames) {
    __shared__ Meeting meet;
    let_next_begin();
    int head = blockIdx.x, begin = blockIdx.y * 16, row = blockIdx.z;
    int warp = threadIdx.x / 32, lane = threadIdx.x & 31, last = min(frames, frames_of(length[row]));
    size_t base = ((size_t)row * HEADS + head) * frames;
    after_previous();
    Rows query, keys, values;
    auto ask = [&](int place) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int frame = place + lane / 4 + 8 * half;
            if (frame < last) {
                keys.read(half, k + (base + frame) * DIM);
                values.read(half, v + (base + frame) * DIM);
            } else {
                keys.clear(half);
                values.clear(half);
            }
        }
    };
    ask(warp * 16);
#pragma unroll
    for (int half = 0; half < 2; half++)
        query.read(half, q + (base + min(begin + lane / 4 + 8 * half, frames - 1)) * DIM);
    Mix mix;
    for (int place = warp * 16; place < last; place += 16 * WARPS) {
        Rows mine = keys, theirs = values;
        ask(place + 16 * WARPS);
        int seen[2] = {last - place, last - place};
        float scores[2][4];
        mix.add(query, mine, theirs, seen, scores);
    }
    assembled(
        mix, meet,
        [&](int line, int column, float value) {
            if (begin + line < frames)
                mixed[((size_t)row * frames + begin + line) * ALL + head * DIM + column] =
                    narrow(value);
        },
        [](int line, float most, float total) {});
}

// gelu(norm(x) · matrix + bias)
#define INNER_PIECES (INNER % 96 ? 4 : 6)
typedef Normed<INNER_PIECES, 2> Inner;

extern "C" __global__ void __launch_bounds__(Inner::SIZE) mlp_in(
    const float *x, const float *gamma, const T *matrix, const float *bias, T *inner, int frames) {
    __shared__ alignas(16) char shared[Inner::BYTES];
    let_next_begin();
    int first = blockIdx.y * LINES, row = blockIdx.z, lines = min(LINES, frames - first);
    Inner::run(x + ((size_t)row * frames + first) * WIDTH, lines, gamma, matrix, shared);
    for (int i = threadIdx.x; i < lines * INNER_PIECES * 8; i += Inner::SIZE) {
        int line = i / (INNER_PIECES * 8), at = i % (INNER_PIECES * 8) * 2;
        int column = blockIdx.x * INNER_PIECES * 16 + at;
        float2 two = Inner::two(shared, line, at);
        *(unsigned int *)(inner + ((size_t)row * frames + first + line) * INNER + column) =
            pair(gelu(two.x + bias[column]), gelu(two.y + bias[column + 1]));
    }
}

// Keys and values of cross-attention of every decoder layer, from norm(x): (rows, HEADS, frames,
// DIM) each, `apart` from one to the next; as many heads a block as its threads are enough for.
#define REMEMBERED (HEADS * DIM > 320 ? HEADS / 2 : HEADS)
typedef Normed<REMEMBERED * DIM / 16, 1> Memory;

extern "C" __global__ void __launch_bounds__(Memory::SIZE) remember(
    const float *x, const float *gamma, const T *matrix, const int64 *length, T *memory,
    int64 apart, int64 *memory_length, int frames) {
    __shared__ alignas(16) char shared[Memory::BYTES];
    let_next_begin();
    int first = blockIdx.y * LINES, row = blockIdx.z, lines = min(LINES, frames - first);
    Memory::run(x + ((size_t)row * frames + first) * WIDTH, lines, gamma, matrix, shared);
    int heads = blockIdx.x * REMEMBERED;
    T *out = memory + apart * (heads / HEADS);
    for (int i = threadIdx.x; i < lines * REMEMBERED * DIM / 2; i += Memory::SIZE) {
        int head = i / (lines * DIM / 2), line = i / (DIM / 2) % lines, at = i % (DIM / 2) * 2;
        float2 two = Memory::two(shared, line, head * DIM + at);
        size_t place = (((size_t)row * HEADS + heads % HEADS + head) * frames + first + line) * DIM;
        *(unsigned int *)(out + place + at) = pair(two.x, two.y);
    }
    if (!blockIdx.x && !blockIdx.y && !threadIdx.x) memory_length[row] = frames_of(length[row]);
}
