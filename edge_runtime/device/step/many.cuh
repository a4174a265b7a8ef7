// Attention of the decoder for many lines of a row: a block takes SOME of one head, as many as
// tensor cores take at a time, or warps without them.

#pragma once

#define SOME (HALF ? 16 : WARPS)

#include "rotary.cuh"

#if HALF
#include "attention.cuh"

// A line of `in`, turned, as one of 16.
__device__ __forceinline__ void turn(Rows &rows, int half, const float *in, int place) {
    const int APART = ROTARY / 16;  // eights from one of a pair to the other
    rows.read(half, in);
    const float *at = in + (threadIdx.x & 3) * 2;
#pragma unroll
    for (int j = 0; j < APART; j++) {
        float2 a = *(const float2 *)(at + 8 * j), b = *(const float2 *)(at + 8 * (j + APART));
        int i = 8 * j + (threadIdx.x & 3) * 2;
        float2 one = turned(a.x, b.x, i, place), two = turned(a.y, b.y, i + 1, place);
        rows.word[half][j] = pair(one.x, two.x);
        rows.word[half][j + APART] = pair(one.y, two.y);
    }
}

// Self-attention: rotate, append to the cache, attend. Blocks with the same lines write what
// these add to the cache, those with the first lines also what was there.
extern "C" __global__ void __launch_bounds__(THREADS) self_many(
    const float *qkv, const int64 *position, int queries, const T *past_k, const T *past_v,
    T *new_k, T *new_v, float *mixed) {
    __shared__ Meeting meet;
    let_next_begin();
    int head = blockIdx.x, begin = blockIdx.y * SOME, row = blockIdx.z;
    int warp = threadIdx.x / 32, lane = threadIdx.x & 31, first = (int)position[row];
    size_t cache = ((size_t)row * HEADS + head) * PAST * DIM;
    const float *in = qkv + (size_t)row * queries * 3 * ALL + head * DIM;
    after_previous();
    Rows query;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int line = begin + lane / 4 + 8 * half;
        if (line < queries)
            turn(query, half, in + (size_t)line * 3 * ALL, first + line);
        else
            query.clear(half);
    }
    Mix mix;
    for (int place = warp * 16; place < min(PAST, first + begin + SOME); place += 16 * WARPS) {
        Rows keys, values;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int key = place + lane / 4 + 8 * half, line = key - first;
            size_t at = cache + (size_t)key * DIM;
            bool mine = line < 0 ? !begin : line / SOME == begin / SOME;
            if (line < 0) {
                keys.read(half, past_k + at);
                values.read(half, past_v + at);
            } else if (line < queries && key < PAST) {
                turn(keys, half, in + (size_t)line * 3 * ALL + ALL, key);
                values.read(half, in + (size_t)line * 3 * ALL + 2 * ALL);
            } else {
                keys.clear(half);
                values.clear(half);
                mine = false;
            }
            if (mine) {
                keys.write(half, new_k + at);
                values.write(half, new_v + at);
            }
        }
        int seen[2] = {first + begin + lane / 4 + 1 - place, first + begin + lane / 4 + 9 - place};
        float scores[2][4];
        mix.add(query, keys, values, seen, scores);
    }
    float *out = mixed + ((size_t)row * queries + begin) * ALL + head * DIM;
    assembled(
        mix, meet,
        [&](int line, int column, float value) {
            if (begin + line < queries) out[(size_t)line * ALL + column] = value;
        },
        [](int line, float most, float total) {});
}

// Cross-attention. `slots` says which place among the alignment heads a head has (or 15): its
// scores, and what makes weights of them, are kept.
extern "C" __global__ void __launch_bounds__(THREADS) cross_many(
    const float *queries, const int64 *length, int lines, const T *memory_k, const T *memory_v,
    int frames, int slots, float *mixed, float *scores, float *shares) {
    __shared__ Meeting meet;
    let_next_begin();
    int head = blockIdx.x, begin = blockIdx.y * SOME, row = blockIdx.z;
    int warp = threadIdx.x / 32, lane = threadIdx.x & 31, last = min(frames, (int)length[row]);
    int slot = slots >> (4 * head) & 15;
    size_t memory = ((size_t)row * HEADS + head) * frames * DIM, first = (size_t)row * lines + begin;
    Rows keys, values, query;
    auto ask = [&](int place) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int frame = place + lane / 4 + 8 * half;
            if (frame < last) {
                keys.read(half, memory_k + memory + (size_t)frame * DIM);
                values.read(half, memory_v + memory + (size_t)frame * DIM);
            } else {
                keys.clear(half);
                values.clear(half);
            }
        }
    };
    ask(warp * 16);
    after_previous();
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int line = lane / 4 + 8 * half;
        if (begin + line < lines)
            query.read(half, queries + (first + line) * ALL + head * DIM);
        else
            query.clear(half);
    }
    Mix mix;
    for (int place = warp * 16; place < frames; place += 16 * WARPS) {
        Rows mine = keys, theirs = values;
        ask(place + 16 * WARPS);
        int seen[2] = {last - place, last - place};
        float score[2][4];
        mix.add(query, mine, theirs, seen, score);
        if (slot == 15) continue;
#pragma unroll
        for (int i = 0; i < 8; i++) {
            int line = lane / 4 + i / 2 % 2 * 8, frame = place + i / 4 * 8 + lane % 4 * 2 + i % 2;
            if (begin + line < lines && frame < frames)
                scores[((first + line) * ALIGNED + slot) * frames + frame] = score[i / 4][i % 4];
        }
    }
    assembled(
        mix, meet,
        [&](int line, int column, float value) {
            if (begin + line < lines) mixed[(first + line) * ALL + head * DIM + column] = value;
        },
        [&](int line, float most, float total) {
            if (slot == 15 || begin + line >= lines) return;
            shares[2 * ((first + line) * ALIGNED + slot)] = most;
            shares[2 * ((first + line) * ALIGNED + slot) + 1] = total;
        });
}
#else
// The mix of CHUNK keys for one line, by one warp, added to what it found so far: two values a
// lane. `seen` is how many keys count; scores go to `kept` where it is there.
struct Line {
    float most = NOTHING, total = 0.f, sum[2] = {0.f, 0.f};

    __device__ __forceinline__ void add(
        const float *query, const float (*keys)[DIM + 1], const float (*values)[DIM + 1], int seen,
        float *weight, float *kept, int count) {
        int lane = threadIdx.x & 31;
        float score[CHUNK / 32], high = most;
#pragma unroll
        for (int j = 0; j < CHUNK / 32; j++) {
            int key = lane + 32 * j;
            score[j] = 0.f;
#pragma unroll
            for (int i = 0; i < DIM; i++) score[j] += query[i] * keys[key][i];
            if (key >= seen) score[j] = NOTHING;
            if (kept && key < count) kept[key] = score[j];
            high = fmaxf(high, score[j]);
        }
        high = most_of_warp(high);
        float parts = 0.f, less = expf(most - high);
#pragma unroll
        for (int j = 0; j < CHUNK / 32; j++) {
            float each = lane + 32 * j < seen ? expf(score[j] - high) : 0.f;
            weight[lane + 32 * j] = each;
            parts += each;
        }
        total = total * less + sum_of_warp(parts);
        most = high;
        sum[0] *= less, sum[1] *= less;
        __syncwarp();
        for (int key = 0; key < min(CHUNK, seen); key++) {
            sum[0] += weight[key] * values[key][lane];
            if (lane < DIM - 32) sum[1] += weight[key] * values[key][lane + 32];
        }
        __syncwarp();
    }

    __device__ __forceinline__ void write(float *out) const {
        int lane = threadIdx.x & 31;
        out[lane] = sum[0] / total;
        if (lane < DIM - 32) out[lane + 32] = sum[1] / total;
    }
};

struct Chunk {
    float keys[CHUNK][DIM + 1], values[CHUNK][DIM + 1], weight[WARPS][CHUNK], query[SOME][DIM];
};

// Value `i` of a line, turned to its place.
__device__ __forceinline__ float turn(const float *in, int i, int place) {
    if (i >= ROTARY) return in[i];
    if (i < ROTARY / 2) return turned(in[i], in[i + ROTARY / 2], i, place).x;
    return turned(in[i - ROTARY / 2], in[i], i - ROTARY / 2, place).y;
}

extern "C" __global__ void __launch_bounds__(THREADS) self_many(
    const float *qkv, const int64 *position, int queries, const T *past_k, const T *past_v,
    T *new_k, T *new_v, float *mixed) {
    __shared__ Chunk shared;
    let_next_begin();
    int head = blockIdx.x, begin = blockIdx.y * SOME, row = blockIdx.z, warp = threadIdx.x / 32;
    int first = (int)position[row], lines = min(SOME, queries - begin);
    size_t cache = ((size_t)row * HEADS + head) * PAST * DIM;
    const float *in = qkv + (size_t)row * queries * 3 * ALL + head * DIM;
    after_previous();
    for (int i = threadIdx.x; i < lines * DIM; i += THREADS) {
        int line = begin + i / DIM;
        shared.query[i / DIM][i % DIM] = turn(in + (size_t)line * 3 * ALL, i % DIM, first + line);
    }
    Line found[SOME / WARPS];
    for (int place = 0; place < min(PAST, first + begin + lines); place += CHUNK) {
        __syncthreads();
        for (int i = threadIdx.x; i < CHUNK * DIM; i += THREADS) {
            int key = place + i / DIM, column = i % DIM, line = key - first;
            size_t at = cache + (size_t)key * DIM + column;
            bool mine = line < 0 ? !begin : line / SOME == begin / SOME;
            float k = 0.f, v = 0.f;
            if (line < 0 && key < PAST) {
                k = wide(past_k[at]), v = wide(past_v[at]);
            } else if (line < queries && key < PAST) {
                const float *from = in + (size_t)line * 3 * ALL;
                k = turn(from + ALL, column, key), v = from[2 * ALL + column];
            } else {
                mine = false;
            }
            if (mine) new_k[at] = narrow(k), new_v[at] = narrow(v);
            shared.keys[i / DIM][column] = k;
            shared.values[i / DIM][column] = v;
        }
        __syncthreads();
        for (int each = 0; each < SOME / WARPS; each++) {
            int line = warp + each * WARPS;
            if (line < lines)
                found[each].add(
                    shared.query[line], shared.keys, shared.values, first + begin + line + 1 - place,
                    shared.weight[warp], 0, 0);
        }
    }
    float *out = mixed + ((size_t)row * queries + begin) * ALL + head * DIM;
    for (int each = 0; each < SOME / WARPS; each++)
        if (warp + each * WARPS < lines) found[each].write(out + (size_t)(warp + each * WARPS) * ALL);
}

extern "C" __global__ void __launch_bounds__(THREADS) cross_many(
    const float *queries, const int64 *length, int lines, const T *memory_k, const T *memory_v,
    int frames, int slots, float *mixed, float *scores, float *shares) {
    __shared__ Chunk shared;
    let_next_begin();
    int head = blockIdx.x, begin = blockIdx.y * SOME, row = blockIdx.z, warp = threadIdx.x / 32;
    int last = min(frames, (int)length[row]), slot = slots >> (4 * head) & 15;
    int count = min(SOME, lines - begin);
    size_t memory = ((size_t)row * HEADS + head) * frames * DIM, first = (size_t)row * lines + begin;
    after_previous();
    for (int i = threadIdx.x; i < count * DIM; i += THREADS)
        shared.query[i / DIM][i % DIM] = queries[(first + i / DIM) * ALL + head * DIM + i % DIM];
    Line found[SOME / WARPS];
    for (int place = 0; place < frames; place += CHUNK) {
        __syncthreads();
        for (int i = threadIdx.x; i < CHUNK * DIM; i += THREADS) {
            bool there = place + i / DIM < last;
            size_t at = memory + (size_t)place * DIM + i;
            shared.keys[i / DIM][i % DIM] = there ? wide(memory_k[at]) : 0.f;
            shared.values[i / DIM][i % DIM] = there ? wide(memory_v[at]) : 0.f;
        }
        __syncthreads();
        for (int each = 0; each < SOME / WARPS; each++) {
            int line = warp + each * WARPS;
            if (line >= count) continue;
            float *kept =
                slot == 15 ? 0 : scores + ((first + line) * ALIGNED + slot) * frames + place;
            found[each].add(
                shared.query[line], shared.keys, shared.values, last - place, shared.weight[warp],
                kept, frames - place);
        }
    }
    for (int each = 0; each < SOME / WARPS; each++) {
        int line = warp + each * WARPS;
        if (line >= count) continue;
        found[each].write(mixed + (first + line) * ALL + head * DIM);
        if (slot != 15 && !(threadIdx.x & 31)) {
            shares[2 * ((first + line) * ALIGNED + slot)] = found[each].most;
            shares[2 * ((first + line) * ALIGNED + slot) + 1] = found[each].total;
        }
    }
}
#endif
