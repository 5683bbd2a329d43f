#include "engine/pack/dtype.h"

#include "engine/base/check.h"

#include <string.h>

static const struct {
    const char *name;
    uint32_t bytes;
} DTYPES[DTYPE_COUNT] = {
    [DTYPE_BF16] = {"BF16", 2}, [DTYPE_F16] = {"F16", 2},         [DTYPE_F32] = {"F32", 4},
    [DTYPE_F64] = {"F64", 8},   [DTYPE_F8_E4M3] = {"F8_E4M3", 1}, [DTYPE_F8_E8M0] = {"F8_E8M0", 1},
    [DTYPE_I16] = {"I16", 2},   [DTYPE_I32] = {"I32", 4},         [DTYPE_I64] = {"I64", 8},
    [DTYPE_U8] = {"U8", 1},     [DTYPE_I8] = {"I8", 1},           [DTYPE_BOOL] = {"BOOL", 1},
};

uint32_t dtype_bytes(tf_dtype dtype) {
    return dtype < DTYPE_COUNT ? DTYPES[dtype].bytes : 0;
}

const char *dtype_name(tf_dtype dtype) {
    return dtype < DTYPE_COUNT ? DTYPES[dtype].name : "?";
}

bool dtype_parse(const char *name, size_t n, tf_dtype *out) {
    for (size_t i = 0; i < DTYPE_COUNT; i++) {
        if (strlen(DTYPES[i].name) != n || memcmp(DTYPES[i].name, name, n) != 0) continue;
        *out = (tf_dtype)i;
        return true;
    }
    return false;
}

uint32_t f32_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

float f32_from_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Widens a number of one sign bit, `exponent_bits` and `mantissa_bits` with IEEE's bias and gradual
 * underflow.  Infinity and NaN are the caller's. */
static float widen(uint32_t bits, uint32_t exponent_bits, uint32_t mantissa_bits) {
    uint32_t sign = bits >> (exponent_bits + mantissa_bits) & 1u;
    uint32_t exponent = bits >> mantissa_bits & ((1u << exponent_bits) - 1u);
    uint32_t mantissa = bits & ((1u << mantissa_bits) - 1u);
    uint32_t bias = (1u << (exponent_bits - 1u)) - 1u;
    if (exponent == 0 && mantissa == 0) return f32_from_bits(sign << 31);
    if (exponent == 0) {
        /* Subnormal: move the leading one up to the hidden place; float32 has room for it. */
        exponent = 1;
        while ((mantissa >> mantissa_bits & 1u) == 0) {
            mantissa <<= 1;
            exponent--; /* may wrap below zero; the bias below brings it back */
        }
        mantissa &= (1u << mantissa_bits) - 1u;
    }
    return f32_from_bits(sign << 31 | (exponent + 127u - bias) << 23 |
                         mantissa << (23u - mantissa_bits));
}

float f32_from_bf16(uint16_t bits) {
    return f32_from_bits((uint32_t)bits << 16);
}

float f32_from_f16(uint16_t bits) {
    if ((bits & 0x7c00u) == 0x7c00u) {
        return f32_from_bits((uint32_t)(bits & 0x8000u) << 16 | 0x7f800000u |
                             (uint32_t)(bits & 0x03ffu) << 13);
    }
    return widen(bits, 5, 10);
}

float f32_from_e4m3(uint8_t bits) {
    if ((bits & 0x7fu) == 0x7fu) return f32_from_bits((uint32_t)(bits & 0x80u) << 24 | 0x7fc00000u);
    return widen(bits, 4, 3);
}

float f32_from_e8m0(uint8_t bits) {
    if (bits == 0xffu) return f32_from_bits(0x7fc00000u);
    if (bits == 0) return f32_from_bits(0x00400000u); /* 2^-127 is a float32 subnormal */
    return f32_from_bits((uint32_t)bits << 23);
}

void dtype_widen(tf_dtype dtype, const void *from, size_t count, float *to) {
    const uint16_t *half = from;
    if (dtype == DTYPE_F32) {
        memcpy(to, from, count * sizeof *to);
        return;
    }
    TF_ASSERT(dtype == DTYPE_BF16 || dtype == DTYPE_F16);
    for (size_t i = 0; i < count; i++)
        to[i] = dtype == DTYPE_BF16 ? f32_from_bf16(half[i]) : f32_from_f16(half[i]);
}

uint16_t bf16_from_f32(float value) {
    uint32_t bits = f32_bits(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x0040u);
    /* Adding just under half, or half when the kept part is odd, carries exactly when RNE does. */
    bits += 0x7fffu + (bits >> 16 & 1u);
    return (uint16_t)(bits >> 16);
}

uint16_t f16_from_f32(float value) {
    return f16_from_f64((double)value); /* widening first is exact: still one rounding */
}

uint16_t f16_from_f64(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint16_t sign = (uint16_t)(bits >> 48 & 0x8000u);
    uint32_t exponent = (uint32_t)(bits >> 52 & 0x7ffu);
    uint64_t mantissa = bits & 0xfffffffffffffull;
    if (exponent == 0x7ff && mantissa != 0) return sign | 0x7e00u;
    if (exponent >= 1023 + 16) return sign | 0x7c00u;
    if (exponent < 1023 - 25) return sign; /* below half the least subnormal, or zero */
    mantissa |= 1ull << 52;
    /* The kept part, in units of f16's last place there: 11 bits when normal, fewer below 2^-14. */
    uint32_t drop = exponent >= 1023 - 14 ? 42u : 42u + (1023u - 14u - exponent);
    uint32_t kept = (uint32_t)(mantissa >> drop);
    uint64_t rest = mantissa & ((1ull << drop) - 1u);
    uint64_t half = 1ull << (drop - 1u);
    if (rest > half || (rest == half && (kept & 1u) != 0)) kept++;
    /* A carry out of the mantissa lands in the exponent, up to infinity, which is what RNE wants. */
    if (exponent >= 1023 - 14) kept += (exponent - (1023u - 14u)) << 10;
    return (uint16_t)(sign | kept);
}
