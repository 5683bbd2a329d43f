/* pack/exl3_codec - from trellis words to codes and to float32 weights (MODEL 8).
 *
 * Idea: a 16x16 tile is a ring of bits; weight i is the code of the 16 bits that end at floor(b*(i+1)),
 * so neighbours share bits and a tile has no beginning.
 * Trap: bits are counted from the top of little-endian 32-bit words, not of the stored 16-bit ones.
 * Trap: codes have 11 significant bits: they are exact as f16 and never as bf16. */
#ifndef TF_ENGINE_PACK_EXL3_CODEC_H
#define TF_ENGINE_PACK_EXL3_CODEC_H

#include <stdint.h>

typedef enum {
    EXL3_DEFAULT, /* no marker tensor */
    EXL3_MCG,
    EXL3_MUL1,
    EXL3_CODEBOOKS,
} exl3_codebook;

#define EXL3_TILE     16u  /* rows and columns of a tile */
#define EXL3_ROTATION 128u /* size of the Hadamard blocks, and so of the cuts */

const char *exl3_codebook_name(exl3_codebook codebook);
/* The value that X.mcg or X.mul1 holds; 0 for the default codebook. */
uint32_t exl3_marker(exl3_codebook codebook);

/* f16 bits of a state. */
uint16_t exl3_code(exl3_codebook codebook, uint16_t state);

/* half_bits: twice the bits a weight, 2 to 16.
 *   words [8 * half_bits] i16    one tile as stored
 *   tile  [16, 16] f16           its codes, row (K) by column (N) */
void exl3_decode_tile(exl3_codebook codebook, uint32_t half_bits, const uint16_t *words,
                      uint16_t *tile);

typedef struct exl3_shape {
    uint64_t k, n;
    uint32_t half_bits;
    exl3_codebook codebook;
} exl3_shape;

/* trellis [K/16, N/16, 8 * half_bits] i16; codes [K, N] f16. */
void exl3_decode(const exl3_shape *shape, const uint16_t *trellis, uint16_t *codes);
/* codes [K, N] f16, suh [K] f16, svh [N] f16; weight [K, N] f32 of y = x W.  Computed in double and
 * rounded once: a reference, not what a kernel does. */
void exl3_dequantise(const exl3_shape *shape, const uint16_t *codes, const uint16_t *suh,
                     const uint16_t *svh, float *weight);

#endif
