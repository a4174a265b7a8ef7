// Rotary positions (Su et al. 2021). Wants ROTARY and LOG2_THETA.

#pragma once

// Values i and i + ROTARY / 2 of a line, turned to its place.
__device__ __forceinline__ float2 turned(float first, float second, int i, int place) {
    float angle = (float)place * exp2f(-2.f * i / ROTARY * LOG2_THETA), sine, cosine;
#if HALF
    // The fast sine is good to 2^-21 between -π and π (CUDA C++ programming guide): less than
    // what float16 rounds.
    float turns = rintf(angle * 0.15915494f);
    angle = fmaf(turns, -6.28125f, angle);
    angle = fmaf(turns, -1.9353072e-3f, angle);
    __sincosf(angle, &sine, &cosine);
#else
    sincosf(angle, &sine, &cosine);
#endif
    return make_float2(first * cosine - second * sine, second * cosine + first * sine);
}
