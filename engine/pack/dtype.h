/* pack/dtype - stored number formats, and exact conversions between them and what is computed in.
 *
 * Idea: every conversion works on bits with integer arithmetic, so that no flag, library or machine
 * has a say; widening is exact, narrowing is one round-to-nearest-even (NUMERICS).
 * Trap: double -> f16 by way of float32 rounds twice and differs in rare halfway cases. */
#ifndef TF_ENGINE_PACK_DTYPE_H
#define TF_ENGINE_PACK_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    DTYPE_BF16,
    DTYPE_F16,
    DTYPE_F32,
    DTYPE_F64,
    DTYPE_F8_E4M3,
    DTYPE_F8_E8M0,
    DTYPE_I16,
    DTYPE_I32,
    DTYPE_I64,
    DTYPE_U8,
    DTYPE_I8,
    DTYPE_BOOL,
    DTYPE_COUNT,
} tf_dtype;

uint32_t dtype_bytes(tf_dtype dtype);
const char *dtype_name(tf_dtype dtype); /* safetensors' spelling: "BF16", "F8_E4M3"; static */
bool dtype_parse(const char *name, size_t n, tf_dtype *out);

uint32_t f32_bits(float value);
float f32_from_bits(uint32_t bits);

/* Widening: every value has an exact float32, NaN stays NaN. */
float f32_from_bf16(uint16_t bits);
float f32_from_f16(uint16_t bits);
float f32_from_e4m3(uint8_t bits); /* the "fn" form: no infinity, 0x7f and 0xff are NaN */
float f32_from_e8m0(uint8_t bits); /* 2^(bits - 127); 255 is NaN */

/* count values of bf16, f16 or f32 as they are stored, to float32. */
void dtype_widen(tf_dtype dtype, const void *from, size_t count, float *to);

/* Narrowing: to nearest, ties to even, overflow to infinity, subnormals kept; NaN stays a quiet NaN
 * of the same sign. */
uint16_t bf16_from_f32(float value);
uint16_t f16_from_f32(float value);
uint16_t f16_from_f64(double value);

#endif
