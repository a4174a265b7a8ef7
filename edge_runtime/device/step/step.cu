// One decoder step of an encoder-decoder transformer, for rows of one token each.
//
// A step is bound by launches and latency, not by arithmetic: a row times a matrix. So each
// kernel does all that can be done before the next exchange between blocks is needed (norms
// are computed by every block for itself, bias, gate and residual on the way out), and sums
// are kept in float32.
//
// Compiled with these definitions: HALF (weights and caches are float16, else float32),
// WIDTH, HEADS, DIM (padded head dimension), ROTARY, INNER, PAST, VOCABULARY, ALIGNED
// (number of alignment heads), THETA, EPSILON.
//
// Matrices are (in, out), row-major; caches (rows, HEADS, PAST, DIM); memory (rows, HEADS,
// frames, DIM); activations float32. The row is blockIdx.y (blockIdx.z in `cross`).

#define ALL (HEADS * DIM)
#define COLUMNS 16
#define THREADS 256
#define GROUPS (THREADS / (COLUMNS / 8))
#define CHUNK 64
#define LOGITS 128
#define NOTHING (-3.0e38f)
#define FULL 0xffffffffu

typedef long long int64;

#if HALF
typedef unsigned short T;
struct alignas(16) Eight { unsigned int word[4]; };

__device__ __forceinline__ float wide(T value) {
    float result;
    asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(value));
    return result;
}
__device__ __forceinline__ T narrow(float value) {
    T result;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result) : "f"(value));
    return result;
}
__device__ __forceinline__ void unpack(const Eight &packed, float *out) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
        out[2 * i] = wide((T)(packed.word[i] & 0xffffu));
        out[2 * i + 1] = wide((T)(packed.word[i] >> 16));
    }
}
#else
typedef float T;
struct alignas(16) Eight { float value[8]; };

__device__ __forceinline__ float wide(T value) { return value; }
__device__ __forceinline__ T narrow(float value) { return value; }
__device__ __forceinline__ void unpack(const Eight &packed, float *out) {
#pragma unroll
    for (int i = 0; i < 8; i++) out[i] = packed.value[i];
}
#endif

__device__ __forceinline__ float sum_of_warp(float value) {
#pragma unroll
    for (int step = 16; step; step >>= 1) value += __shfl_xor_sync(FULL, value, step);
    return value;
}

__device__ __forceinline__ float most_of_warp(float value) {
#pragma unroll
    for (int step = 16; step; step >>= 1)
        value = fmaxf(value, __shfl_xor_sync(FULL, value, step));
    return value;
}

// Mean and 1/deviation of WIDTH values in shared memory, by each warp for itself.
__device__ __forceinline__ void statistics(const float *x, float &mean, float &scale) {
    int lane = threadIdx.x & 31;
    float total = 0.f, squares = 0.f;
    for (int i = lane; i < WIDTH; i += 32) total += x[i];
    mean = sum_of_warp(total) / WIDTH;
    for (int i = lane; i < WIDTH; i += 32) squares += (x[i] - mean) * (x[i] - mean);
    scale = rsqrtf(sum_of_warp(squares) / WIDTH + EPSILON);
}

// The block's COLUMNS sums of x (`size` values in shared memory) times a matrix: thread t
// takes 8 columns and every GROUPS-th row, then the partial sums meet. Valid in the first
// COLUMNS threads.
template <int SIZE>
__device__ __forceinline__ float columns(
    const float *x, const T *matrix, int width, int first, float (*meet)[COLUMNS]) {
    int part = threadIdx.x % (COLUMNS / 8), group = threadIdx.x / (COLUMNS / 8);
    const T *at = matrix + (size_t)group * width + first + part * 8;
    float sum[8] = {0.f, 0.f, 0.f, 0.f, 0.f, 0.f, 0.f, 0.f};
#pragma unroll
    for (int i = 0; i < (SIZE + GROUPS - 1) / GROUPS; i++) {
        int row = group + i * GROUPS;
        if (row < SIZE) {
            float weight[8];
            unpack(*(const Eight *)(at + (size_t)i * GROUPS * width), weight);
            float value = x[row];
#pragma unroll
            for (int c = 0; c < 8; c++) sum[c] += value * weight[c];
        }
    }
#pragma unroll
    for (int step = COLUMNS / 8; step < 32; step <<= 1)
#pragma unroll
        for (int c = 0; c < 8; c++) sum[c] += __shfl_xor_sync(FULL, sum[c], step);
    if ((threadIdx.x & 31) < COLUMNS / 8)
#pragma unroll
        for (int c = 0; c < 8; c++) meet[threadIdx.x / 32][part * 8 + c] = sum[c];
    __syncthreads();
    float total = 0.f;
    if (threadIdx.x < COLUMNS)
#pragma unroll
        for (int warp = 0; warp < THREADS / 32; warp++) total += meet[warp][threadIdx.x];
    return total;
}

// x = table[token]
extern "C" __global__ void embed(const int64 *tokens, const T *table, float *x) {
    int row = blockIdx.y;
    for (int i = threadIdx.x; i < WIDTH; i += blockDim.x)
        x[row * WIDTH + i] = wide(table[(size_t)tokens[row] * WIDTH + i]);
}

// y = norm(x) · matrix
extern "C" __global__ void __launch_bounds__(THREADS) normed(
    const float *x, const float *gamma, const T *matrix, float *y, int width) {
    __shared__ float in[WIDTH];
    __shared__ float meet[THREADS / 32][COLUMNS];
    int row = blockIdx.y, first = blockIdx.x * COLUMNS;
    for (int i = threadIdx.x; i < WIDTH; i += THREADS) in[i] = x[row * WIDTH + i];
    __syncthreads();
    float mean, scale;
    statistics(in, mean, scale);
    __syncthreads();
    for (int i = threadIdx.x; i < WIDTH; i += THREADS) in[i] = (in[i] - mean) * scale * gamma[i];
    __syncthreads();
    float value = columns<WIDTH>(in, matrix, width, first, meet);
    if (threadIdx.x < COLUMNS) y[(size_t)row * width + first + threadIdx.x] = value;
}

// y = value · silu(gate), where (value | gate) = norm(x) · matrix + bias
extern "C" __global__ void __launch_bounds__(THREADS) gated(
    const float *x, const float *gamma, const T *matrix, const T *bias, float *y) {
    __shared__ float in[WIDTH];
    __shared__ float meet[2][THREADS / 32][COLUMNS];
    int row = blockIdx.y, first = blockIdx.x * COLUMNS;
    for (int i = threadIdx.x; i < WIDTH; i += THREADS) in[i] = x[row * WIDTH + i];
    __syncthreads();
    float mean, scale;
    statistics(in, mean, scale);
    __syncthreads();
    for (int i = threadIdx.x; i < WIDTH; i += THREADS) in[i] = (in[i] - mean) * scale * gamma[i];
    __syncthreads();
    float value = columns<WIDTH>(in, matrix, 2 * INNER, first, meet[0]);
    float gate = columns<WIDTH>(in, matrix, 2 * INNER, INNER + first, meet[1]);
    if (threadIdx.x < COLUMNS) {
        int column = first + threadIdx.x;
        value += wide(bias[column]);
        gate += wide(bias[INNER + column]);
        y[(size_t)row * INNER + column] = value * gate / (1.f + expf(-gate));
    }
}

// x += in · matrix (+ bias)
template <int SIZE>
__device__ __forceinline__ void added(
    const float *in, const T *matrix, const T *bias, float *x, float (*meet)[COLUMNS]) {
    int row = blockIdx.y, first = blockIdx.x * COLUMNS;
    float value = columns<SIZE>(in, matrix, WIDTH, first, meet);
    if (threadIdx.x < COLUMNS) {
        int column = first + threadIdx.x;
        if (bias) value += wide(bias[column]);
        x[row * WIDTH + column] += value;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) mlp_out(
    const float *inner, const T *matrix, const T *bias, float *x) {
    __shared__ float in[INNER];
    __shared__ float meet[THREADS / 32][COLUMNS];
    for (int i = threadIdx.x; i < INNER; i += THREADS) in[i] = inner[(size_t)blockIdx.y * INNER + i];
    __syncthreads();
    added<INNER>(in, matrix, bias, x, meet);
}

extern "C" __global__ void __launch_bounds__(THREADS) self_out(
    const float *mixed, const T *matrix, float *x) {
    __shared__ float in[ALL];
    __shared__ float meet[THREADS / 32][COLUMNS];
    for (int i = threadIdx.x; i < ALL; i += THREADS) in[i] = mixed[blockIdx.y * ALL + i];
    __syncthreads();
    added<ALL>(in, matrix, 0, x, meet);
}

// Self-attention of one head: rotate, append to the cache, attend. One thread for each key.
extern "C" __global__ void __launch_bounds__(PAST) self_mix(
    const float *qkv, const int64 *position, const T *past_k, const T *past_v, T *new_k, T *new_v,
    float *mixed) {
    __shared__ float query[DIM], key[DIM], value[DIM];
    __shared__ float weight[PAST];
    __shared__ float values[PAST][DIM + 1];
    __shared__ float meet[2][PAST / 32];
    __shared__ float parts[PAST / DIM][DIM];
    int head = blockIdx.x, row = blockIdx.y, thread = threadIdx.x;
    int at = (int)position[row];
    const float *in = qkv + (size_t)row * 3 * ALL + head * DIM;
    size_t base = ((size_t)row * HEADS + head) * PAST * DIM + (size_t)thread * DIM;
    float mine[DIM];
#pragma unroll
    for (int i = 0; i < DIM; i += 8) unpack(*(const Eight *)(past_k + base + i), mine + i);
#pragma unroll
    for (int i = 0; i < DIM; i += 8) {
        float eight[8];
        unpack(*(const Eight *)(past_v + base + i), eight);
#pragma unroll
        for (int c = 0; c < 8; c++) values[thread][i + c] = eight[c];
    }
    if (thread < ROTARY / 2) {
        float angle = (float)at * powf(THETA, -2.f * thread / ROTARY), sine, cosine;
        sincosf(angle, &sine, &cosine);
        float a = in[thread], b = in[thread + ROTARY / 2];
        query[thread] = a * cosine - b * sine;
        query[thread + ROTARY / 2] = b * cosine + a * sine;
        a = in[ALL + thread], b = in[ALL + thread + ROTARY / 2];
        key[thread] = wide(narrow(a * cosine - b * sine));
        key[thread + ROTARY / 2] = wide(narrow(b * cosine + a * sine));
    } else if (thread >= ROTARY && thread < DIM) {
        query[thread] = in[thread];
        key[thread] = wide(narrow(in[ALL + thread]));
    }
    if (thread < DIM) value[thread] = wide(narrow(in[2 * ALL + thread]));
    __syncthreads();
    if (thread == at)
#pragma unroll
        for (int i = 0; i < DIM; i++) {
            mine[i] = key[i];
            values[thread][i] = value[i];
        }
    float score = 0.f;
#pragma unroll
    for (int i = 0; i < DIM; i++) {
        score += query[i] * mine[i];
        new_k[base + i] = narrow(mine[i]);
    }
    for (int i = 0; i < DIM; i++) new_v[base + i] = narrow(values[thread][i]);
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
    int first = chunk * CHUNK, last = min(frames, (int)length[row]);
    size_t base = ((size_t)row * HEADS + head) * frames * DIM;
    int key = thread / 2, frame = first + key, half = thread % 2;
    for (int i = thread; i < CHUNK * DIM / 8; i += 2 * CHUNK) {
        int at = i * 8 / DIM, column = i * 8 % DIM;
        float eight[8] = {0.f, 0.f, 0.f, 0.f, 0.f, 0.f, 0.f, 0.f};
        if (first + at < last)
            unpack(*(const Eight *)(memory_v + base + (size_t)(first + at) * DIM + column), eight);
#pragma unroll
        for (int c = 0; c < 8; c++) values[at][column + c] = eight[c];
    }
    if (thread < DIM) query[thread] = queries[(size_t)row * ALL + head * DIM + thread];
    __syncthreads();
    float score = 0.f;
    if (frame < last) {
        const T *at = memory_k + base + (size_t)frame * DIM;
#pragma unroll
        for (int i = 0; i < DIM; i += 8)
            if ((i / 8) % 2 == half) {
                float eight[8];
                unpack(*(const Eight *)(at + i), eight);
#pragma unroll
                for (int c = 0; c < 8; c++) score += query[i + c] * eight[c];
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

// x += (pieces, joined) · matrix. The alignment heads' (most, total) are kept for `finish`.
extern "C" __global__ void __launch_bounds__(THREADS) cross_out(
    const float *pieces, int chunks, int slots, const T *matrix, float *x, float *shares) {
    __shared__ float in[ALL];
    __shared__ float meet[THREADS / 32][COLUMNS];
    __shared__ float most[HEADS], total[HEADS];
    int row = blockIdx.y;
    const float *mine = pieces + (size_t)row * HEADS * chunks * (DIM + 2);
    if (threadIdx.x < HEADS) {
        int head = threadIdx.x;
        const float *at = mine + (size_t)head * chunks * (DIM + 2);
        float top = NOTHING, sum = 0.f;
        for (int c = 0; c < chunks; c++) top = fmaxf(top, at[c * (DIM + 2)]);
        for (int c = 0; c < chunks; c++)
            sum += at[c * (DIM + 2) + 1] * expf(at[c * (DIM + 2)] - top);
        most[head] = top;
        total[head] = sum;
        int slot = slots >> (4 * head) & 15;
        if (slot != 15 && !blockIdx.x) {
            shares[2 * (row * ALIGNED + slot)] = top;
            shares[2 * (row * ALIGNED + slot) + 1] = sum;
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < ALL; i += THREADS) {
        int head = i / DIM;
        const float *at = mine + (size_t)head * chunks * (DIM + 2);
        float sum = 0.f;
        for (int c = 0; c < chunks; c++)
            sum += at[c * (DIM + 2) + 2 + i % DIM] * expf(at[c * (DIM + 2)] - most[head]);
        in[i] = sum / total[head];
    }
    __syncthreads();
    added<ALL>(in, matrix, 0, x, meet);
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

// The best of LOGITS tokens: four threads for each row of the table.
extern "C" __global__ void __launch_bounds__(THREADS) logits(
    const float *x, const float *gamma, const T *table, Best *bests) {
    __shared__ float in[WIDTH];
    __shared__ float logit[LOGITS];
    int row = blockIdx.y, first = blockIdx.x * LOGITS;
    for (int i = threadIdx.x; i < WIDTH; i += THREADS) in[i] = x[row * WIDTH + i];
    __syncthreads();
    float mean, scale;
    statistics(in, mean, scale);
    __syncthreads();
    for (int i = threadIdx.x; i < WIDTH; i += THREADS) in[i] = (in[i] - mean) * scale * gamma[i];
    __syncthreads();
    int part = threadIdx.x % 4;
#pragma unroll
    for (int token = threadIdx.x / 4; token < LOGITS; token += THREADS / 4) {
        const T *at = table + (size_t)(first + token) * WIDTH;
        float sum = 0.f;
#pragma unroll
        for (int i = 0; i < (WIDTH / 8 + 3) / 4; i++) {
            int chunk = part + 4 * i;
            if (chunk < WIDTH / 8) {
                float eight[8];
                unpack(*(const Eight *)(at + chunk * 8), eight);
#pragma unroll
                for (int c = 0; c < 8; c++) sum += eight[c] * in[chunk * 8 + c];
            }
        }
        sum += __shfl_xor_sync(FULL, sum, 1);
        sum += __shfl_xor_sync(FULL, sum, 2);
        if (!part) logit[token] = sum;
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        Best mine = {NOTHING, NOTHING, 0.f, VOCABULARY};
        for (int token = threadIdx.x; token < LOGITS; token += 32) {
            Best one = {logit[token], NOTHING, 1.f, first + token};
            mine = joined(mine, one);
        }
        mine = best_of_warp(mine);
        if (!threadIdx.x) bests[(size_t)row * gridDim.x + blockIdx.x] = mine;
    }
}

// The answer of a row: token, log-probability, margin; alignment and its peak; next position.
extern "C" __global__ void __launch_bounds__(THREADS) finish(
    const Best *bests, int count, const float *scores, const float *shares, int frames,
    const int64 *position, int64 *next_token, float *logprob, float *margin, int64 *frame,
    float *align, int64 *position_next) {
    __shared__ Best meet[THREADS / 32];
    __shared__ float peak[THREADS / 32];
    __shared__ int place[THREADS / 32];
    int row = blockIdx.y, thread = threadIdx.x;
    Best mine = {NOTHING, NOTHING, 0.f, VOCABULARY};
    for (int i = thread; i < count; i += THREADS) mine = joined(mine, bests[(size_t)row * count + i]);
    mine = best_of_warp(mine);
    float high = -1.f;
    int where = 0;
    for (int t = thread; t < frames; t += THREADS) {
        float sum = 0.f;
#pragma unroll
        for (int a = 0; a < ALIGNED; a++) {
            const float *share = shares + 2 * (row * ALIGNED + a);
            sum += expf(scores[((size_t)row * ALIGNED + a) * frames + t] - share[0]) / share[1];
        }
        sum /= ALIGNED;
        align[(size_t)row * frames + t] = sum;
        if (sum > high) high = sum, where = t;
    }
#pragma unroll
    for (int step = 16; step; step >>= 1) {
        float other = __shfl_xor_sync(FULL, high, step);
        int there = __shfl_xor_sync(FULL, where, step);
        if (other > high || (other == high && there < where)) high = other, where = there;
    }
    if (!(thread & 31)) meet[thread / 32] = mine, peak[thread / 32] = high, place[thread / 32] = where;
    __syncthreads();
    if (thread) return;
    for (int warp = 1; warp < THREADS / 32; warp++) {
        mine = joined(mine, meet[warp]);
        if (peak[warp] > high || (peak[warp] == high && place[warp] < where))
            high = peak[warp], where = place[warp];
    }
    next_token[row] = mine.token;
    logprob[row] = -logf(mine.total);
    margin[row] = mine.first - mine.second;
    frame[row] = where;
    position_next[row] = position[row] + 1;
}
