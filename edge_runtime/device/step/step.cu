// A decoder pass of an encoder-decoder transformer over (rows, queries) tokens.
//
// A step of one token a row is bound by launches and latency, a pass that checks a draft by
// latency too: so each kernel does all that can be done before the next exchange between
// blocks (norms are computed by every block for itself; bias, gate and residual on the way
// out), asks for its weights first, and keeps sums in float32.
//
// Compiled with these definitions: HALF (weights and caches are float16, else float32),
// WIDTH, HEADS, DIM (padded head dimension), ROTARY, INNER, PAST, VOCABULARY, ALIGNED
// (number of alignment heads), LOG2_THETA, EPSILON.
//
// Matrices are (in, out), packed; the table is (VOCABULARY, WIDTH); caches (rows, HEADS, PAST,
// DIM); memory (rows, HEADS, frames, DIM); activations (rows · queries, …) float32, called lines
// here. A kernel named `…_many` takes several lines a block, MANY where it does not say how
// many, the other one line: their number is a multiple of MANY.

#include "common.cuh"

#define ALL (HEADS * DIM)
#define COLUMNS 16
#define THREADS 256
#define CHUNK 64
#define LOGITS 128
#define CHUNKS 32
#define MANY 8
#define WARPS (THREADS / 32)

// The warps' parts of LINES lines of COLUMNS columns, added up.
template <int LINES>
__device__ __forceinline__ float met(float (*meet)[WARPS][COLUMNS]) {
    __syncthreads();
    float total = 0.f;
    if (threadIdx.x < LINES * COLUMNS)
#pragma unroll
        for (int warp = 0; warp < WARPS; warp++)
            total += meet[threadIdx.x / COLUMNS][warp][threadIdx.x % COLUMNS];
    return total;
}

// COLUMNS columns of (LINES lines) · matrix, by one block. The weights are asked for when it is
// made, so that they arrive while the kernel does what comes first. `times` takes the lines
// from shared memory, PITCH apart, as `In`; thread t gets column t % COLUMNS of line
// t / COLUMNS, the others nothing.
//
// A warp takes every WARPS-th 16 rows of the matrix; a thread the eight weights of them that
// mma wants of its left operand: rows 2·(lane % 4) + {0, 1} and 8 below, of column lane / 4
// and of the eighth after it. They lie side by side: see `packed` in kernels/weights.py.
template <int SIZE>
struct Weights {
    enum { COUNT = (SIZE / 16 + WARPS - 1) / WARPS };
    Eight piece[COUNT];

    __device__ __forceinline__ Weights(const T *matrix, int block) {
        const Eight *at = (const Eight *)matrix + (size_t)block * (SIZE / 16) * 32 + threadIdx.x;
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            if ((int)threadIdx.x / 32 + i * WARPS < SIZE / 16) piece[i] = at[i * THREADS];
    }
};

template <int SIZE, int LINES>
struct Product : Weights<SIZE> {
    typedef float In;
    static const int PITCH = SIZE;
    using Weights<SIZE>::Weights;

    static __device__ __forceinline__ In put(float value) { return value; }

    __device__ __forceinline__ float times(const In *x, float (*meet)[WARPS][COLUMNS]) {
        int column = (threadIdx.x & 31) / 4, pair = (threadIdx.x & 3) * 2, warp = threadIdx.x / 32;
#pragma unroll 1
        for (int line = 0; line < LINES; line++) {
            float sum[2] = {0.f, 0.f};
#pragma unroll
            for (int i = 0; i < this->COUNT; i++) {
                int row = (warp + i * WARPS) * 16 + pair;
                if (row < SIZE) {
                    const In *at = x + line * PITCH + row;
                    float weight[8];
                    unpack(this->piece[i], weight);
#pragma unroll
                    for (int c = 0; c < 2; c++)
                        sum[c] += at[0] * weight[2 * c] + at[1] * weight[2 * c + 1] +
                                  at[8] * weight[2 * c + 4] + at[9] * weight[2 * c + 5];
                }
            }
#pragma unroll
            for (int c = 0; c < 2; c++) {
                sum[c] += __shfl_xor_sync(FULL, sum[c], 1);
                sum[c] += __shfl_xor_sync(FULL, sum[c], 2);
                if (!pair) meet[line][warp][column + 8 * c] = sum[c];
            }
        }
        return met<LINES>(meet);
    }
};

#if HALF
// Many lines of float16: in tensor cores.
template <int SIZE>
struct Product<SIZE, MANY> : Weights<SIZE> {
    typedef T In;
    static const int PITCH = SIZE + 8;
    using Weights<SIZE>::Weights;

    static __device__ __forceinline__ In put(float value) { return narrow(value); }

    __device__ __forceinline__ float times(const In *x, float (*meet)[WARPS][COLUMNS]) {
        int column = (threadIdx.x & 31) / 4, pair = (threadIdx.x & 3) * 2, warp = threadIdx.x / 32;
        float sum[4] = {0.f, 0.f, 0.f, 0.f};
#pragma unroll
        for (int i = 0; i < this->COUNT; i++) {
            int row = (warp + i * WARPS) * 16 + pair;
            if (row < SIZE) {
                const unsigned int *at = (const unsigned int *)(x + column * PITCH + row);
                multiply(sum, this->piece[i].word, at[0], at[4]);
            }
        }
        meet[pair][warp][column] = sum[0];
        meet[pair + 1][warp][column] = sum[1];
        meet[pair][warp][column + 8] = sum[2];
        meet[pair + 1][warp][column + 8] = sum[3];
        return met<MANY>(meet);
    }
};
#endif

// norm(x) of LINES lines into shared memory. A warp works out mean and deviation of a line
// for itself: of its own line where there are many, else all of the same one.
template <typename P, int LINES>
__device__ __forceinline__ void normalise(const float *x, const float *gamma, typename P::In *out) {
    const int EACH = (WIDTH + 31) / 32;
    int lane = threadIdx.x & 31, warp = threadIdx.x / 32, line = LINES == 1 ? 0 : warp;
    float value[EACH], total = 0.f, squares = 0.f;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        value[i] = lane + 32 * i < WIDTH ? x[line * WIDTH + lane + 32 * i] : 0.f;
        total += value[i];
    }
    float mean = sum_of_warp(total) / WIDTH;
#pragma unroll
    for (int i = 0; i < EACH; i++)
        if (lane + 32 * i < WIDTH) squares += (value[i] - mean) * (value[i] - mean);
    float scale = rsqrtf(sum_of_warp(squares) / WIDTH + EPSILON);
#pragma unroll
    for (int i = 0; i < EACH; i++)
        if ((LINES > 1 || i % WARPS == warp) && lane + 32 * i < WIDTH)
            out[line * P::PITCH + lane + 32 * i] =
                P::put((value[i] - mean) * scale * gamma[lane + 32 * i]);
    __syncthreads();
}

// x = table[token]
extern "C" __global__ void embed(const int64 *tokens, const T *table, float *x) {
    int line = blockIdx.x;
    let_next_begin();
    after_previous();
    for (int i = threadIdx.x; i < WIDTH; i += blockDim.x)
        x[line * WIDTH + i] = wide(table[(size_t)tokens[line] * WIDTH + i]);
}

// y = norm(x) · matrix
template <int LINES>
__device__ __forceinline__ void normed_lines(
    const float *x, const float *gamma, const T *matrix, float *y, int width) {
    typedef Product<WIDTH, LINES> P;
    __shared__ alignas(16) typename P::In in[LINES * P::PITCH];
    __shared__ float meet[LINES][WARPS][COLUMNS];
    int line = blockIdx.y * LINES + threadIdx.x / COLUMNS;
    let_next_begin();
    P product(matrix, blockIdx.x);
    after_previous();
    normalise<P, LINES>(x + blockIdx.y * LINES * WIDTH, gamma, in);
    float value = product.times(in, meet);
    if (threadIdx.x < LINES * COLUMNS)
        y[(size_t)line * width + blockIdx.x * COLUMNS + threadIdx.x % COLUMNS] = value;
}

extern "C" __global__ void __launch_bounds__(THREADS) normed(
    const float *x, const float *gamma, const T *matrix, float *y, int width) {
    normed_lines<1>(x, gamma, matrix, y, width);
}

extern "C" __global__ void __launch_bounds__(THREADS) normed_many(
    const float *x, const float *gamma, const T *matrix, float *y, int width) {
    normed_lines<MANY>(x, gamma, matrix, y, width);
}

// y = value · silu(gate), where (value | gate) = norm(x) · matrix + bias
template <int LINES>
__device__ __forceinline__ void gated_lines(
    const float *x, const float *gamma, const T *matrix, const T *bias, T *y) {
    typedef Product<WIDTH, LINES> P;
    __shared__ alignas(16) typename P::In in[LINES * P::PITCH];
    __shared__ float meet[2][LINES][WARPS][COLUMNS];
    int line = blockIdx.y * LINES + threadIdx.x / COLUMNS, first = blockIdx.x * COLUMNS;
    let_next_begin();
    P values(matrix, blockIdx.x), gates(matrix, INNER / COLUMNS + blockIdx.x);
    after_previous();
    normalise<P, LINES>(x + blockIdx.y * LINES * WIDTH, gamma, in);
    float value = values.times(in, meet[0]);
    float gate = gates.times(in, meet[1]);
    if (threadIdx.x < LINES * COLUMNS) {
        int column = first + threadIdx.x % COLUMNS;
        value += wide(bias[column]);
        gate += wide(bias[INNER + column]);
        y[(size_t)line * INNER + column] = narrow(value * gate / (1.f + expf(-gate)));
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) gated(
    const float *x, const float *gamma, const T *matrix, const T *bias, T *y) {
    gated_lines<1>(x, gamma, matrix, bias, y);
}

extern "C" __global__ void __launch_bounds__(THREADS) gated_many(
    const float *x, const float *gamma, const T *matrix, const T *bias, T *y) {
    gated_lines<MANY>(x, gamma, matrix, bias, y);
}

// x += from · matrix + bias
template <int SIZE, int LINES, typename From>
__device__ __forceinline__ void added(
    const From *from, const T *matrix, const T *bias, float *x) {
    typedef Product<SIZE, LINES> P;
    __shared__ alignas(16) typename P::In in[LINES * P::PITCH];
    __shared__ float meet[LINES][WARPS][COLUMNS];
    int line = blockIdx.y * LINES + threadIdx.x / COLUMNS;
    int column = blockIdx.x * COLUMNS + threadIdx.x % COLUMNS;
    let_next_begin();
    P product(matrix, blockIdx.x);
    after_previous();
    float residual = 0.f;
    if (threadIdx.x < LINES * COLUMNS)
        residual = x[line * WIDTH + column] + (bias ? wide(bias[column]) : 0.f);
    for (int i = threadIdx.x; i < LINES * SIZE; i += THREADS)
        in[i / SIZE * P::PITCH + i % SIZE] =
            P::put(wide(from[(size_t)blockIdx.y * LINES * SIZE + i]));
    __syncthreads();
    float value = product.times(in, meet);
    if (threadIdx.x < LINES * COLUMNS) x[line * WIDTH + column] = residual + value;
}

extern "C" __global__ void __launch_bounds__(THREADS) mlp_out(
    const T *inner, const T *matrix, const T *bias, float *x) {
    added<INNER, 1>(inner, matrix, bias, x);
}

extern "C" __global__ void __launch_bounds__(THREADS) mlp_out_many(
    const T *inner, const T *matrix, const T *bias, float *x) {
    added<INNER, MANY>(inner, matrix, bias, x);
}

extern "C" __global__ void __launch_bounds__(THREADS) mix_out(
    const float *mixed, const T *matrix, float *x) {
    added<ALL, 1>(mixed, matrix, 0, x);
}

extern "C" __global__ void __launch_bounds__(THREADS) mix_out_many(
    const float *mixed, const T *matrix, float *x) {
    added<ALL, MANY>(mixed, matrix, 0, x);
}

// Self-attention of one head: rotate, append to the cache, attend. One thread for each key.
extern "C" __global__ void __launch_bounds__(PAST) self_mix(
    const float *qkv, const int64 *position, const T *past_k, const T *past_v, T *new_k, T *new_v,
    float *mixed) {
    __shared__ float query[DIM];
    __shared__ alignas(16) T key[DIM], value[DIM];
    __shared__ float weight[PAST];
    __shared__ float values[PAST][DIM + 1];
    __shared__ float meet[2][PAST / 32];
    __shared__ float parts[PAST / DIM][DIM];
    int head = blockIdx.x, row = blockIdx.y, thread = threadIdx.x;
    let_next_begin();
    int at = (int)position[row];
    const float *in = qkv + (size_t)row * 3 * ALL + head * DIM;
    size_t base = ((size_t)row * HEADS + head) * PAST * DIM + (size_t)thread * DIM;
    Eight keys[DIM / 8], mine[DIM / 8];
    if (thread < at)
#pragma unroll
        for (int i = 0; i < DIM / 8; i++) {
            keys[i] = *(const Eight *)(past_k + base + 8 * i);
            mine[i] = *(const Eight *)(past_v + base + 8 * i);
        }
    after_previous();
    if (thread < ROTARY / 2) {
        float angle = (float)at * exp2f(-2.f * thread / ROTARY * LOG2_THETA), sine, cosine;
        sincosf(angle, &sine, &cosine);
        float a = in[thread], b = in[thread + ROTARY / 2];
        query[thread] = a * cosine - b * sine;
        query[thread + ROTARY / 2] = b * cosine + a * sine;
        a = in[ALL + thread], b = in[ALL + thread + ROTARY / 2];
        key[thread] = narrow(a * cosine - b * sine);
        key[thread + ROTARY / 2] = narrow(b * cosine + a * sine);
    } else if (thread >= ROTARY && thread < DIM) {
        query[thread] = in[thread];
        key[thread] = narrow(in[ALL + thread]);
    }
    if (thread >= DIM && thread < 2 * DIM) value[thread - DIM] = narrow(in[2 * ALL + thread - DIM]);
    __syncthreads();
    float score = 0.f;
    if (thread <= at) {
        if (thread == at)
#pragma unroll
            for (int i = 0; i < DIM / 8; i++) {
                keys[i] = ((const Eight *)key)[i];
                mine[i] = ((const Eight *)value)[i];
            }
#pragma unroll
        for (int i = 0; i < DIM / 8; i++) {
            float eight[8];
            unpack(keys[i], eight);
#pragma unroll
            for (int c = 0; c < 8; c++) score += query[8 * i + c] * eight[c];
            unpack(mine[i], eight);
#pragma unroll
            for (int c = 0; c < 8; c++) values[thread][8 * i + c] = eight[c];
        }
        // What lies behind is written before it is read.
#pragma unroll
        for (int i = 0; i < DIM / 8; i++) {
            *(Eight *)(new_k + base + 8 * i) = keys[i];
            *(Eight *)(new_v + base + 8 * i) = mine[i];
        }
    }
    if (thread > at) score = NOTHING;
    float most = most_of_warp(score);
    if (!(thread & 31)) meet[0][thread / 32] = most;
    __syncthreads();
#pragma unroll
    for (int warp = 0; warp < PAST / 32; warp++) most = fmaxf(most, meet[0][warp]);
    float each = thread > at ? 0.f : expf(score - most);
    weight[thread] = each;
    float total = sum_of_warp(each);
    if (!(thread & 31)) meet[1][thread / 32] = total;
    __syncthreads();
    total = 0.f;
#pragma unroll
    for (int warp = 0; warp < PAST / 32; warp++) total += meet[1][warp];
    int part = thread / DIM, column = thread % DIM;
    if (part < PAST / DIM) {
        float sum = 0.f;
        for (int s = part; s <= at; s += PAST / DIM) sum += weight[s] * values[s][column];
        parts[part][column] = sum;
    }
    __syncthreads();
    if (thread < DIM) {
        float sum = 0.f;
#pragma unroll
        for (int p = 0; p < PAST / DIM; p++) sum += parts[p][thread];
        mixed[(size_t)row * ALL + head * DIM + thread] = sum / total;
    }
}

#include "many.cuh"

// Cross-attention of one head over CHUNK frames: (most, total, mix) of them, to be joined.
// `slot` is the head's place among the alignment heads (or -1): its scores are kept then.
extern "C" __global__ void __launch_bounds__(2 * CHUNK) cross(
    const float *queries, const int64 *length, const T *memory_k, const T *memory_v, int frames,
    int slots, float *pieces, float *scores) {
    __shared__ float query[DIM];
    __shared__ float weight[CHUNK];
    __shared__ float values[CHUNK][DIM + 1];
    __shared__ float meet[2][2 * CHUNK / 32];
    __shared__ float parts[2 * CHUNK / DIM][DIM];
    int head = blockIdx.x, chunk = blockIdx.y, row = blockIdx.z, thread = threadIdx.x;
    let_next_begin();
    int first = chunk * CHUNK, last = min(frames, (int)length[row]);
    size_t base = ((size_t)row * HEADS + head) * frames * DIM;
    int key = thread / 2, frame = first + key, half = thread % 2;
    const int MINE = (DIM / 8 + 1) / 2, EACH = (CHUNK * DIM / 8 + 2 * CHUNK - 1) / (2 * CHUNK);
    Eight keys[MINE], mixed[EACH];
    if (frame < last)
#pragma unroll
        for (int i = 0; i < MINE; i++)
            if (2 * i + half < DIM / 8)
                keys[i] = *(const Eight *)(memory_k + base + (size_t)frame * DIM + 8 * (2 * i + half));
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        int at = (thread + i * 2 * CHUNK) * 8;
        if (at < CHUNK * DIM && first + at / DIM < last)
            mixed[i] = *(const Eight *)(memory_v + base + (size_t)first * DIM + at);
    }
    after_previous();
    if (thread < DIM) query[thread] = queries[(size_t)row * ALL + head * DIM + thread];
    __syncthreads();
    float score = 0.f;
    if (frame < last)
#pragma unroll
        for (int i = 0; i < MINE; i++)
            if (2 * i + half < DIM / 8) {
                float eight[8];
                unpack(keys[i], eight);
#pragma unroll
                for (int c = 0; c < 8; c++) score += query[8 * (2 * i + half) + c] * eight[c];
            }
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        int at = (thread + i * 2 * CHUNK) * 8;
        if (at < CHUNK * DIM) {
            float eight[8] = {0.f, 0.f, 0.f, 0.f, 0.f, 0.f, 0.f, 0.f};
            if (first + at / DIM < last) unpack(mixed[i], eight);
#pragma unroll
            for (int c = 0; c < 8; c++) values[at / DIM][at % DIM + c] = eight[c];
        }
    }
    score += __shfl_xor_sync(FULL, score, 1);
    if (frame >= last) score = NOTHING;
    int slot = slots >> (4 * head) & 15;
    if (slot != 15 && !half && frame < frames)
        scores[((size_t)row * ALIGNED + slot) * frames + frame] = score;
    float most = most_of_warp(score);
    if (!(thread & 31)) meet[0][thread / 32] = most;
    __syncthreads();
#pragma unroll
    for (int warp = 0; warp < 2 * CHUNK / 32; warp++) most = fmaxf(most, meet[0][warp]);
    float each = frame < last && !half ? expf(score - most) : 0.f;
    if (!half) weight[key] = each;
    float total = sum_of_warp(each);
    if (!(thread & 31)) meet[1][thread / 32] = total;
    __syncthreads();
    int part = thread / DIM, column = thread % DIM;
    if (part < 2 * CHUNK / DIM) {
        float sum = 0.f;
        for (int s = part; s < CHUNK; s += 2 * CHUNK / DIM) sum += weight[s] * values[s][column];
        parts[part][column] = sum;
    }
    __syncthreads();
    float *out = pieces + (((size_t)row * HEADS + head) * gridDim.y + chunk) * (DIM + 2);
    if (thread < DIM) {
        float sum = 0.f;
#pragma unroll
        for (int p = 0; p < 2 * CHUNK / DIM; p++) sum += parts[p][thread];
        out[2 + thread] = sum;
    }
    if (!thread) {
        total = 0.f;
#pragma unroll
        for (int warp = 0; warp < 2 * CHUNK / 32; warp++) total += meet[1][warp];
        out[0] = most;
        out[1] = total;
    }
}

// The pieces of one line's cross-attention, joined into `out` (ALL values), by one block. With
// `keep` the alignment heads' (most, total) are kept for `finish`.
__device__ __forceinline__ void joined_pieces(
    const float *pieces, int line, int chunks, int slots, bool keep, float *out, float *shares) {
    __shared__ float most[HEADS][CHUNKS], total[HEADS][CHUNKS], share[HEADS][CHUNKS];
    const float *mine = pieces + (size_t)line * HEADS * chunks * (DIM + 2);
    for (int i = threadIdx.x; i < HEADS * chunks; i += THREADS) {
        most[i / chunks][i % chunks] = mine[i * (DIM + 2)];
        total[i / chunks][i % chunks] = mine[i * (DIM + 2) + 1];
    }
    __syncthreads();
    for (int i = threadIdx.x; i < HEADS * chunks; i += THREADS) {
        int head = i / chunks, chunk = i % chunks;
        float top = NOTHING, sum = 0.f;
        for (int c = 0; c < chunks; c++) top = fmaxf(top, most[head][c]);
        for (int c = 0; c < chunks; c++) sum += total[head][c] * expf(most[head][c] - top);
        share[head][chunk] = expf(most[head][chunk] - top) / sum;
        int slot = slots >> (4 * head) & 15;
        if (slot != 15 && !chunk && keep) {
            shares[2 * (line * ALIGNED + slot)] = top;
            shares[2 * (line * ALIGNED + slot) + 1] = sum;
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < ALL; i += THREADS) {
        int head = i / DIM;
        const float *at = mine + (size_t)head * chunks * (DIM + 2) + 2 + i % DIM;
        float sum = 0.f;
#pragma unroll 4
        for (int c = 0; c < chunks; c++) sum += at[c * (DIM + 2)] * share[head][c];
        out[i] = sum;
    }
}

// x += (pieces, joined) · matrix, for one line.
extern "C" __global__ void __launch_bounds__(THREADS) cross_out(
    const float *pieces, int chunks, int slots, const T *matrix, float *x, float *shares) {
    __shared__ float in[ALL];
    __shared__ float meet[1][WARPS][COLUMNS];
    int row = blockIdx.y, column = blockIdx.x * COLUMNS + threadIdx.x;
    let_next_begin();
    Product<ALL, 1> product(matrix, blockIdx.x);
    after_previous();
    float residual = 0.f;
    if (threadIdx.x < COLUMNS) residual = x[row * WIDTH + column];
    joined_pieces(pieces, row, chunks, slots, !blockIdx.x, in, shares);
    __syncthreads();
    float value = product.times(in, meet);
    if (threadIdx.x < COLUMNS) x[row * WIDTH + column] = residual + value;
}

struct Best {
    float first, second, total;
    int token;
};

// Of two parts of a row of logits: the best two, and the sum of exp(logit - best).
__device__ __forceinline__ Best joined(const Best &a, const Best &b) {
    bool left = a.first > b.first || (a.first == b.first && a.token < b.token);
    Best result;
    result.first = left ? a.first : b.first;
    result.token = left ? a.token : b.token;
    result.second = fmaxf(left ? b.first : a.first, left ? a.second : b.second);
    result.total = a.total * expf(a.first - result.first) + b.total * expf(b.first - result.first);
    return result;
}

__device__ __forceinline__ Best best_of_warp(Best mine) {
#pragma unroll
    for (int step = 16; step; step >>= 1) {
        Best other;
        other.first = __shfl_xor_sync(FULL, mine.first, step);
        other.second = __shfl_xor_sync(FULL, mine.second, step);
        other.total = __shfl_xor_sync(FULL, mine.total, step);
        other.token = __shfl_xor_sync(FULL, mine.token, step);
        mine = joined(mine, other);
    }
    return mine;
}

// The best of a block's LOGITS tokens for `lines` lines: a warp takes a line at a time.
__device__ __forceinline__ void choose(
    const float (*logit)[LOGITS], int lines, int first, Best *bests) {
    __syncthreads();
    for (int line = threadIdx.x / 32; line < lines; line += WARPS) {
        Best mine = {NOTHING, NOTHING, 0.f, VOCABULARY};
        for (int token = threadIdx.x & 31; token < LOGITS; token += 32) {
            Best one = {logit[line][token], NOTHING, 1.f, first + token};
            mine = joined(mine, one);
        }
        mine = best_of_warp(mine);
        if (!(threadIdx.x & 31)) bests[(size_t)line * gridDim.x + blockIdx.x] = mine;
    }
}

// The logits of LOGITS tokens for LINES lines, and the best of them: four threads for each row
// of the table.
template <int LINES>
__device__ __forceinline__ void logits_lines(
    const float *x, const float *gamma, const T *table, Best *bests) {
    typedef Product<WIDTH, 1> P;  // for its layout: lines of float32
    __shared__ alignas(16) float in[LINES * WIDTH];
    __shared__ float logit[LINES][LOGITS];
    const int TURNS = LOGITS / (THREADS / 4), EACH = (WIDTH / 8 + 3) / 4;
    int first = blockIdx.x * LOGITS, part = threadIdx.x % 4;
    Eight rows[TURNS][EACH];
    let_next_begin();
#pragma unroll
    for (int turn = 0; turn < TURNS; turn++)
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            int token = first + turn * (THREADS / 4) + threadIdx.x / 4, chunk = part + 4 * i;
            if (chunk < WIDTH / 8)
                rows[turn][i] = *(const Eight *)(table + (size_t)token * WIDTH + chunk * 8);
        }
    after_previous();
    normalise<P, LINES>(x + blockIdx.y * LINES * WIDTH, gamma, in);
#pragma unroll
    for (int turn = 0; turn < TURNS; turn++) {
        int token = turn * (THREADS / 4) + threadIdx.x / 4;
        float sum[LINES];
#pragma unroll
        for (int line = 0; line < LINES; line++) sum[line] = 0.f;
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            int chunk = part + 4 * i;
            if (chunk < WIDTH / 8) {
                float eight[8];
                unpack(rows[turn][i], eight);
#pragma unroll
                for (int line = 0; line < LINES; line++)
#pragma unroll
                    for (int c = 0; c < 8; c++)
                        sum[line] += eight[c] * in[line * WIDTH + chunk * 8 + c];
            }
        }
#pragma unroll
        for (int line = 0; line < LINES; line++) {
            sum[line] += __shfl_xor_sync(FULL, sum[line], 1);
            sum[line] += __shfl_xor_sync(FULL, sum[line], 2);
            if (!part) logit[line][token] = sum[line];
        }
    }
    choose(logit, LINES, first, bests + (size_t)blockIdx.y * LINES * gridDim.x);
}

extern "C" __global__ void __launch_bounds__(THREADS) logits(
    const float *x, const float *gamma, const T *table, Best *bests) {
    logits_lines<1>(x, gamma, table, bests);
}

#if HALF
// In tensor cores, up to 4 · MANY lines a block: each warp takes 16 tokens and reads their rows
// of the table once. Blocks of which fewer lines are left do fewer.
extern "C" __global__ void __launch_bounds__(THREADS) logits_many(
    const float *x, const float *gamma, const T *table, int lines, Best *bests) {
    typedef Product<WIDTH, MANY> P;
    __shared__ alignas(16) T in[4 * MANY * P::PITCH];
    __shared__ float logit[4 * MANY][LOGITS];
    int base = blockIdx.y * 4 * MANY, tiles = min(4, (lines - base) / MANY);
    int first = blockIdx.x * LOGITS, warp = threadIdx.x / 32;
    int token = warp * 16 + (threadIdx.x & 31) / 4, pair = (threadIdx.x & 3) * 2;
    // Of each 32 values of a line a thread takes eight neighbours, whatever mma calls them: of
    // the table and of the lines alike.
    Eight row[WIDTH / 32][2];
    const T *at = table + (size_t)(first + token) * WIDTH + pair * 4;
    let_next_begin();
#pragma unroll
    for (int i = 0; i < WIDTH / 32; i++)
#pragma unroll
        for (int half = 0; half < 2; half++)
            row[i][half] = *(const Eight *)(at + half * 8 * WIDTH + i * 32);
    after_previous();
    for (int tile = 0; tile < tiles; tile++)
        normalise<P, MANY>(x + (base + tile * MANY) * WIDTH, gamma, in + tile * MANY * P::PITCH);
    float sum[4][4] = {};
#pragma unroll
    for (int i = 0; i < WIDTH / 32; i++)
#pragma unroll
        for (int tile = 0; tile < 4; tile++)
            if (tile < tiles) {
                int line = tile * MANY + (threadIdx.x & 31) / 4;
                Eight right = *(const Eight *)(in + line * P::PITCH + i * 32 + pair * 4);
                const unsigned int *a = row[i][0].word, *b = row[i][1].word, *w = right.word;
                unsigned int upper[4] = {a[0], b[0], a[1], b[1]}, lower[4] = {a[2], b[2], a[3], b[3]};
                multiply(sum[tile], upper, w[0], w[1]);
                multiply(sum[tile], lower, w[2], w[3]);
            }
#pragma unroll
    for (int tile = 0; tile < 4; tile++)
        if (tile < tiles) {
            logit[tile * MANY + pair][token] = sum[tile][0];
            logit[tile * MANY + pair + 1][token] = sum[tile][1];
            logit[tile * MANY + pair][token + 8] = sum[tile][2];
            logit[tile * MANY + pair + 1][token + 8] = sum[tile][3];
        }
    choose(logit, tiles * MANY, first, bests + (size_t)base * gridDim.x);
}
#else
extern "C" __global__ void __launch_bounds__(THREADS) logits_many(
    const float *x, const float *gamma, const T *table, int lines, Best *bests) {
    for (int base = blockIdx.y * 4 * MANY; base < min(lines, (int)(blockIdx.y + 1) * 4 * MANY); base += MANY) {
        __syncthreads();
        logits_lines<MANY>(
            x + base * WIDTH - blockIdx.y * MANY * WIDTH, gamma, table,
            bests + (size_t)base * gridDim.x - (size_t)blockIdx.y * MANY * gridDim.x);
    }
}
#endif

// The highest value of a warp and the first place that has it.
__device__ __forceinline__ void peak_of_warp(float &high, int &where) {
#pragma unroll
    for (int step = 16; step; step >>= 1) {
        float other = __shfl_xor_sync(FULL, high, step);
        int there = __shfl_xor_sync(FULL, where, step);
        if (other > high || (other == high && there < where)) high = other, where = there;
    }
}

// The answer to a line: token, log-probability, margin; alignment and its peak. The first line
// of a row also says where the next pass begins.
extern "C" __global__ void __launch_bounds__(THREADS) finish(
    const Best *bests, int count, const float *scores, const float *shares, int frames,
    int queries, const int64 *position, int64 *next_token, float *logprob, float *margin, int64 *frame,
    float *align, int64 *position_next) {
    __shared__ Best meet[THREADS / 32];
    __shared__ float peak[THREADS / 32];
    __shared__ int place[THREADS / 32];
    int line = blockIdx.x, thread = threadIdx.x;
    let_next_begin();
    after_previous();
    Best mine = {NOTHING, NOTHING, 0.f, VOCABULARY};
    if (thread < count) mine = bests[(size_t)line * count + thread];
    float high = -1.f;
    int where = 0;
    for (int t = thread; t < frames; t += THREADS) {
        float sum = 0.f;
#pragma unroll
        for (int a = 0; a < ALIGNED; a++) {
            const float *share = shares + 2 * (line * ALIGNED + a);
            sum += expf(scores[((size_t)line * ALIGNED + a) * frames + t] - share[0]) / share[1];
        }
        sum /= ALIGNED;
        align[(size_t)line * frames + t] = sum;
        if (sum > high) high = sum, where = t;
    }
    for (int i = thread + THREADS; i < count; i += THREADS)
        mine = joined(mine, bests[(size_t)line * count + i]);
    mine = best_of_warp(mine);
    peak_of_warp(high, where);
    if (!(thread & 31)) meet[thread / 32] = mine, peak[thread / 32] = high, place[thread / 32] = where;
    __syncthreads();
    if (thread >= 32) return;
    Best none = {NOTHING, NOTHING, 0.f, VOCABULARY};
    mine = best_of_warp(thread < WARPS ? meet[thread] : none);
    high = thread < WARPS ? peak[thread] : -1.f;
    where = thread < WARPS ? place[thread] : 0;
    peak_of_warp(high, where);
    if (thread) return;
    next_token[line] = mine.token;
    logprob[line] = -logf(mine.total);
    margin[line] = mine.first - mine.second;
    frame[line] = where;
    if (line % queries == 0) position_next[line / queries] = position[line / queries] + queries;
}
