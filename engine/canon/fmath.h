/* canon/fmath - elementary functions with the same bits everywhere.
 *
 * Idea: polynomials by explicit fmaf over IEEE operations, without a branch: a loop over them is
 * vectorised and changes no bit; one source for C and CUDA.  Sine and cosine, which no loop is hot
 * over, reduce their angle in integers and sum in double.
 * Trap: the platform's libm differs from machine to machine in the last bit; nothing of a forward pass
 * may call it. */
#ifndef TF_ENGINE_CANON_FMATH_H
#define TF_ENGINE_CANON_FMATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__CUDACC__)
#define FM_CALL static __host__ __device__ __forceinline__
#else
#define FM_CALL static inline
#endif

FM_CALL uint32_t fm_bits(float x) {
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

FM_CALL float fm_float(uint32_t u) {
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* 2^n for -126 <= n <= 127. */
FM_CALL float fm_power2(int32_t n) {
    return fm_float((uint32_t)(n + 127) << 23);
}

/* e^x.  Over 88.72: infinity; where the result would be subnormal: 0. */
FM_CALL float fm_exp(float x) {
    const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
    float c = x > 89.0f ? 89.0f : x;
    c = c < -88.0f ? -88.0f : c; /* NaN stays: it is neither */
    float t = fmaf(c, 1.44269504088896341f, magic);
    float n = t - magic;
    float exact = fmaf(n, -0.693145751953125f, c);
    float r = fmaf(n, -1.42860682030941723212e-6f, exact);
    float lost = fmaf(n, -1.42860682030941723212e-6f, exact - r);
    float p = 2.48015873015873016e-5f;
    p = fmaf(p, r, 1.98412698412698413e-4f);
    p = fmaf(p, r, 1.38888888888888889e-3f);
    p = fmaf(p, r, 8.33333333333333333e-3f);
    p = fmaf(p, r, 4.16666666666666667e-2f);
    p = fmaf(p, r, 1.66666666666666667e-1f);
    p = fmaf(p, r, 0.5f);
    float q = p * r * r; /* e^r - 1 - r */
    float one = 1.0f + r;
    float m = one + (q + (lost + (r - (one - 1.0f))));
    int32_t k = (int32_t)(fm_bits(t) - fm_bits(magic)); /* n, and anything for a NaN */
    k = k > 129 ? 129 : k < -128 ? -128 : k;
    int32_t half = k / 2;
    float e = m * fm_power2(half) * fm_power2(k - half);
    return x < -87.3365447505531f ? 0.0f : e;
}

/* ln x.  0 and subnormal: -infinity; below: NaN. */
FM_CALL float fm_log(float x) {
    uint32_t u = fm_bits(x);
    int32_t e = (int32_t)(u - 0x3f3504f3u) >> 23; /* so that the mantissa lies around 1 */
    float m = fm_float(u - ((uint32_t)e << 23));
    float f = m - 1.0f;
    float s = f / (2.0f + f);
    float z = s * s;
    /* ln(1 + f) = 2 atanh(s) = f - s (f - R), R = s^2 (2/3 + 2/5 s^2 + ...) / ... */
    float p = 2.4279078841e-1f;
    p = fmaf(p, z, 2.8498786688e-1f);
    p = fmaf(p, z, 4.0000972152e-1f);
    p = fmaf(p, z, 6.6666662693e-1f);
    float r = p * z;
    float h = 0.5f * f * f;
    float k = (float)e;
    float y = fmaf(k, 9.0580006145e-6f, s * (h + r));
    y = y - h + f;
    y = fmaf(k, 6.9313812256e-1f, y);
    y = x < 1.17549435e-38f ? -INFINITY : y;
    y = x <= -1.17549435e-38f || x != x ? NAN : y;
    return x > 3.40282347e38f ? x : y;
}

/* ln(1 + t) for t >= 0. */
FM_CALL float fm_log1p(float t) {
    float u = 1.0f + t;
    float lost = t - (u - 1.0f);
    float y = fm_log(u) + lost / u;
    return u > 3.40282347e38f ? u : y;
}

/* x / (1 + t), t > 0 finite: the sum's and the quotient's own errors are put back. */
FM_CALL float fm_over_one_plus(float x, float t) {
    float d = 1.0f + t;
    float lost = t > 1.0f ? 1.0f - (d - t) : t - (d - 1.0f);
    float q = x / d;
    float rest = fmaf(-d, q, x) - lost * q;
    return fmaf(rest, 1.0f / d, q);
}

/* 1 / (1 + e^-x). */
FM_CALL float fm_sigmoid(float x) {
    const float far = -80.0f; /* there 1 + e^-x is e^-x */
    float y = fm_over_one_plus(1.0f, fm_exp(x < far ? -far : -x));
    return x < far ? fm_exp(x) : y;
}

/* x / (1 + e^-x). */
FM_CALL float fm_silu(float x) {
    const float far = -80.0f; /* x e^x, and not by an e^x that flushes to 0 */
    float y = fm_over_one_plus(x, fm_exp(x < far ? -far : -x));
    /* x e^x = x e^-32 . e^(x + 32), with what the first product loses; 2^40 keeps that normal. */
    float a = x * 1.26641658e-14f;
    float lost = fmaf(x, -2.28157898e-22f, fmaf(x, 1.26641658e-14f, -a));
    float e = fm_exp(x + 32.0f) * 1.09951163e12f;
    float z = fmaf(e, a, e * lost) * 9.09494702e-13f;
    y = x > 3.40282347e38f ? x : y;
    z = x < -3.40282347e38f ? 0.0f : z;
    return x < far ? z : y;
}

/* ln(1 + e^x), as max(x, 0) + ln(1 + e^-|x|). */
FM_CALL float fm_softplus(float x) {
    float a = x < 0.0f ? x : -x;
    float m = x > 0.0f ? x : 0.0f;
    float y = m + fm_log1p(fm_exp(a));
    return x != x ? x : y;
}

/* 1 / sqrt(x): two IEEE roundings. */
FM_CALL float fm_rsqrt(float x) {
    return 1.0f / sqrtf(x);
}

/* x in quarter turns: returns their number mod 4, *rest in radians within pi / 4; x finite. */
FM_CALL uint32_t fm_quarters(float x, double *rest) {
    /* 32 zeros, then the bits of 2 / pi after the point. */
    const uint32_t two_over_pi[8] = {0,           0xa2f9836eu, 0x4e441529u, 0xfc2757d1u,
                                     0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu};
    uint32_t u = fm_bits(x);
    uint32_t e = u >> 23 & 255u;
    *rest = (double)x;
    if (e < 126u) return 0; /* below 1/2 */
    /* The 96 bits of 2 / pi that matter: those before make whole turns of the product. */
    uint32_t at = e - 120u;
    uint32_t window[3];
    for (uint32_t i = 0; i < 3; i++) {
        const uint32_t *w = two_over_pi + at / 32u + i;
        window[i] = (uint32_t)(((uint64_t)w[0] << 32 | w[1]) << at % 32u >> 32);
    }
    uint64_t m = (u & 0x7fffffu) | 0x800000u;
    uint64_t middle = m * window[1] + (m * window[2] >> 32);
    uint64_t turn = (m * window[0] + (middle >> 32)) << 32 | (middle & 0xffffffffu);
    uint32_t quarter = (uint32_t)((turn + (1ull << 61)) >> 62) & 3u;
    int64_t left = (int64_t)(turn - ((uint64_t)quarter << 62));
    *rest = (double)left * (1.57079632679489661923 / 4611686018427387904.0);
    *rest = x < 0.0f ? -*rest : *rest;
    return x < 0.0f ? (4u - quarter) & 3u : quarter;
}

/* sin(rest + quarter . pi / 2). */
FM_CALL float fm_wave(uint32_t quarter, double rest) {
    double z = rest * rest;
    double s = 1.6059043836821613e-10;
    s = fma(s, z, -2.5052108385441720e-8);
    s = fma(s, z, 2.7557319223985893e-6);
    s = fma(s, z, -1.9841269841269841e-4);
    s = fma(s, z, 8.3333333333333333e-3);
    s = fma(s, z, -1.6666666666666667e-1);
    s = fma(s, z, 1.0) * rest; /* -0 stays */
    double c = 2.0876756987868100e-9;
    c = fma(c, z, -2.7557319223985888e-7);
    c = fma(c, z, 2.4801587301587302e-5);
    c = fma(c, z, -1.3888888888888889e-3);
    c = fma(c, z, 4.1666666666666664e-2);
    c = fma(c, z, -0.5);
    c = fma(c, z, 1.0);
    double y = (quarter & 1u) != 0 ? c : s;
    return (float)((quarter & 2u) != 0 ? -y : y);
}

/* Of infinity: NaN. */
FM_CALL float fm_sin(float x) {
    double rest;
    uint32_t quarter = fm_quarters(x, &rest);
    return x - x != 0.0f ? NAN : fm_wave(quarter, rest);
}

FM_CALL float fm_cos(float x) {
    double rest;
    uint32_t quarter = fm_quarters(x, &rest);
    return x - x != 0.0f ? NAN : fm_wave(quarter + 1u, rest);
}

#undef FM_CALL

#endif
