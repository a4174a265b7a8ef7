// Attention of 16 lines of one head by the warps of a block, in tensor cores: each warp takes
// 16 keys at a time, with a softmax of its own (Dao et al. 2022, "FlashAttention"); `assembled`
// puts the warps' parts together.
//
// Wants DIM (padded head dimension, a multiple of 8) and WARPS (of a block); float16 only.

#pragma once

// 16 lines of DIM values as a warp holds them: a thread has, of lines lane / 4 and 8 below, the
// values 2·(lane % 4) + {0, 1} of each eight. This is the left operand of mma, and the right one
// of keys.
struct Rows {
    unsigned int word[2][DIM / 8];

    __device__ __forceinline__ void clear(int half) {
#pragma unroll
        for (int j = 0; j < DIM / 8; j++) word[half][j] = 0;
    }
    // `line`: where this thread's line begins.
    __device__ __forceinline__ void read(int half, const T *line) {
        const T *at = line + (threadIdx.x & 3) * 2;
#pragma unroll
        for (int j = 0; j < DIM / 8; j++) word[half][j] = *(const unsigned int *)(at + 8 * j);
    }
    __device__ __forceinline__ void read(int half, const float *line) {
        const float *at = line + (threadIdx.x & 3) * 2;
#pragma unroll
        for (int j = 0; j < DIM / 8; j++) {
            float2 two = *(const float2 *)(at + 8 * j);
            word[half][j] = pair(two.x, two.y);
        }
    }
    __device__ __forceinline__ void write(int half, T *line) const {
        T *at = line + (threadIdx.x & 3) * 2;
#pragma unroll
        for (int j = 0; j < DIM / 8; j++) *(unsigned int *)(at + 8 * j) = word[half][j];
    }
};

// An 8 × 8 matrix of float16 across a warp, transposed.
__device__ __forceinline__ unsigned int transposed(unsigned int word) {
    unsigned int result;
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(result) : "r"(word));
    return result;
}

__device__ __forceinline__ float most_of_four(float value) {
    value = fmaxf(value, __shfl_xor_sync(FULL, value, 1));
    return fmaxf(value, __shfl_xor_sync(FULL, value, 2));
}

__device__ __forceinline__ float sum_of_four(float value) {
    value += __shfl_xor_sync(FULL, value, 1);
    return value + __shfl_xor_sync(FULL, value, 2);
}

// What a warp found so far, for this thread's two lines.
struct Mix {
    float most[2] = {NOTHING, NOTHING}, total[2] = {0.f, 0.f}, sum[DIM / 8][4] = {};

    // 16 keys more, of which the first `seen` count for each of the two lines. Scores are left
    // in `scores`: [keys' eight][line · 2 + place], NOTHING for keys that do not count.
    __device__ __forceinline__ void add(
        const Rows &query, const Rows &keys, const Rows &values, const int (&seen)[2],
        float (&scores)[2][4]) {
#pragma unroll
        for (int n = 0; n < 2; n++) {
#pragma unroll
            for (int i = 0; i < 4; i++) scores[n][i] = 0.f;
#pragma unroll
            for (int j = 0; j + 1 < DIM / 8; j += 2) {
                unsigned int left[4] = {
                    query.word[0][j], query.word[1][j], query.word[0][j + 1], query.word[1][j + 1]};
                multiply(scores[n], left, keys.word[n][j], keys.word[n][j + 1]);
            }
            if (DIM / 8 % 2) {
                const int j = DIM / 8 - 1;
                multiply(scores[n], query.word[0][j], query.word[1][j], keys.word[n][j]);
            }
        }
        float each[2][4];
#pragma unroll
        for (int line = 0; line < 2; line++) {
            float high = most[line], parts = 0.f;
#pragma unroll
            for (int i = 0; i < 4; i++) {
                float &score = scores[i / 2][line * 2 + i % 2];
                if (i / 2 * 8 + (int)(threadIdx.x & 3) * 2 + i % 2 >= seen[line]) score = NOTHING;
                high = fmaxf(high, score);
            }
            high = most_of_four(high);
#pragma unroll
            for (int i = 0; i < 4; i++) {
                float score = scores[i / 2][line * 2 + i % 2];
                float weight = score == NOTHING ? 0.f : __expf(score - high);
                each[i / 2][line * 2 + i % 2] = weight;
                parts += weight;
            }
            float less = __expf(most[line] - high);
            total[line] = total[line] * less + sum_of_four(parts);
            most[line] = high;
#pragma unroll
            for (int j = 0; j < DIM / 8; j++) sum[j][line * 2] *= less, sum[j][line * 2 + 1] *= less;
        }
        unsigned int weights[4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            weights[i] = pair(each[i / 2][i % 2 * 2], each[i / 2][i % 2 * 2 + 1]);
#pragma unroll
        for (int j = 0; j < DIM / 8; j++)
            multiply(
                sum[j], weights, transposed(values.word[0][j]), transposed(values.word[1][j]));
    }
};

// Where a block's warps meet.
struct Meeting {
    float most[WARPS][16], total[WARPS][16], share[WARPS][16], sum[WARPS][16][DIM];
};

// The warps' parts put together: `out(line, column, value)` for every value of the 16 lines,
// `told(line, most, total)` once for each line.
template <typename Out, typename Told>
__device__ __forceinline__ void assembled(const Mix &mine, Meeting &meet, Out out, Told told) {
    int warp = threadIdx.x / 32, lane = threadIdx.x & 31, line = lane / 4, column = lane % 4 * 2;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        if (!column) {
            meet.most[warp][line + 8 * half] = mine.most[half];
            meet.total[warp][line + 8 * half] = mine.total[half];
        }
#pragma unroll
        for (int j = 0; j < DIM / 8; j++)
            *(float2 *)&meet.sum[warp][line + 8 * half][8 * j + column] =
                make_float2(mine.sum[j][half * 2], mine.sum[j][half * 2 + 1]);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < WARPS * 16; i += WARPS * 32) {
        int one = i / 16, of = i % 16;
        float high = NOTHING, total = 0.f;
#pragma unroll
        for (int w = 0; w < WARPS; w++) high = fmaxf(high, meet.most[w][of]);
#pragma unroll
        for (int w = 0; w < WARPS; w++) total += meet.total[w][of] * __expf(meet.most[w][of] - high);
        meet.share[one][of] = __expf(meet.most[one][of] - high) / total;
        if (!one) told(of, high, total);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 16 * DIM; i += WARPS * 32) {
        float value = 0.f;
#pragma unroll
        for (int w = 0; w < WARPS; w++)
            value += meet.sum[w][i / DIM][i % DIM] * meet.share[w][i / DIM];
        out(i / DIM, i % DIM, value);
    }
}
