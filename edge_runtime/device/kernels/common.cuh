// What our own kernels share: numbers as they are stored, the threads of a warp together, and
// the order of kernels.
//
// Wants HALF defined: weights and caches are float16, else float32.

#pragma once

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
__device__ __forceinline__ float wide(float value) { return value; }
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

// Where kernels may overlap, the next one begins once every block of this one did, and gets as
// far as `after_previous`: until then it may only read what no kernel of the pass writes.
__device__ __forceinline__ void let_next_begin() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}
__device__ __forceinline__ void after_previous() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

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

#if HALF
// Two neighbours of float16 in one word, the first in its lower half.
__device__ __forceinline__ unsigned int pair(float first, float second) {
    unsigned int result;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(second), "f"(first));
    return result;
}

// sum (16 × 8) += left (16 × 16) · right (16 × 8), in the layouts of mma.
__device__ __forceinline__ void multiply(
    float (&sum)[4], const unsigned int (&left)[4], unsigned int low, unsigned int high) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(low), "r"(high));
}

// The same of half the depth.
__device__ __forceinline__ void multiply(
    float (&sum)[4], unsigned int upper, unsigned int lower, unsigned int right) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(upper), "r"(lower), "r"(right));
}
#endif
