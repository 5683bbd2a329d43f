/* canon/ropetable - cosines and sines of the rotary embedding (MODEL 3, RoPE).
 *
 * Idea: frequencies and angles are worked out in double with series of our own, then rounded once to
 * float32: the table is data, the same on every machine.
 * Trap: the platform's sin and pow differ in the last bit of a double; rounded, that shows once in
 * some hundred million values, which is often enough. */
#ifndef TF_ENGINE_CANON_ROPETABLE_H
#define TF_ENGINE_CANON_ROPETABLE_H

#include "engine/base/limits.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef struct rope_spec {
    uint32_t rope; /* dims that rotate: pairs of two */
    double theta;
    bool yarn; /* the fields below count */
    double factor, beta_fast, beta_slow, original;
} rope_spec;

#define ROPE_PAIRS_MAX (TF_ROPE_DIM_MAX / 2)

/* freq [rope / 2]: radians a position. */
void ropetable_frequencies(const rope_spec *spec, double *freq);
/* cos_sin [pairs][2] f32 of a position, 0 <= position < 2^31. */
void ropetable_row(const double *freq, uint32_t pairs, int64_t position, float *cos_sin);

/* pi / 2 in three parts; the first two have room for a quarter count of 31 bits. */
#define ROPE_QUARTER_1 0x1.921fb54000000p0
#define ROPE_QUARTER_2 0x1.10b4611800000p-30
#define ROPE_QUARTER_3 0x1.313198a2e0370p-61

static inline double ropetable_sin(double r) {
    double z = r * r;
    double p = -0x1.ae7f3e733b81fp-41;
    p = fma(p, z, 0x1.6124613a86d09p-33);
    p = fma(p, z, -0x1.ae64567f544e4p-26);
    p = fma(p, z, 0x1.71de3a556c734p-19);
    p = fma(p, z, -0x1.a01a01a01a01ap-13);
    p = fma(p, z, 0x1.1111111111111p-7);
    p = fma(p, z, -0x1.5555555555555p-3);
    return fma(p * z, r, r);
}

static inline double ropetable_cos(double r) {
    double z = r * r;
    double p = 0x1.ae7f3e733b81fp-45;
    p = fma(p, z, -0x1.93974a8c07c9dp-37);
    p = fma(p, z, 0x1.1eed8eff8d898p-29);
    p = fma(p, z, -0x1.27e4fb7789f5cp-22);
    p = fma(p, z, 0x1.a01a01a01a01ap-16);
    p = fma(p, z, -0x1.6c16c16c16c17p-10);
    p = fma(p, z, 0x1.5555555555555p-5);
    p = fma(p, z, -0.5);
    return fma(p, z, 1.0);
}

/* Of one frequency; without a branch, so that a loop over frequencies is vectorised. */
static inline void ropetable_angle(double freq, double position, float *cosine, float *sine) {
    const double magic = 0x1.8p52; /* adding it rounds to an integer, which its last digits hold */
    double x = position * freq;
    double lost = fma(position, freq, -x); /* the angle's own rounding, put back below */
    double sum = x * 0x1.45f306dc9c883p-1 + magic;
    double n = sum - magic;
    double r = fma(n, -ROPE_QUARTER_1, x);
    r = fma(n, -ROPE_QUARTER_2, r);
    r = fma(n, -ROPE_QUARTER_3, r + lost);
    double s = ropetable_sin(r);
    double c = ropetable_cos(r);
    uint64_t quarter;
    memcpy(&quarter, &sum, sizeof quarter);
    double a = (quarter & 1) != 0 ? s : c;
    double b = (quarter & 1) != 0 ? c : s;
    *cosine = (float)(((quarter + 1) & 2) != 0 ? -a : a);
    *sine = (float)((quarter & 2) != 0 ? -b : b);
}

#endif
