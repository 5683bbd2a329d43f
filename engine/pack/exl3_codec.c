#include "engine/pack/exl3_codec.h"

#include "engine/base/check.h"
#include "engine/pack/dtype.h"

static const struct {
    const char *name;
    uint32_t marker;
} CODEBOOKS[EXL3_CODEBOOKS] = {
    [EXL3_DEFAULT] = {"default", 0},
    [EXL3_MCG] = {"mcg", 0xCBAC1FEDu},
    [EXL3_MUL1] = {"mul1", 0x83DCD12Du},
};

const char *exl3_codebook_name(exl3_codebook codebook) {
    return codebook < EXL3_CODEBOOKS ? CODEBOOKS[codebook].name : "?";
}

uint32_t exl3_marker(exl3_codebook codebook) {
    return codebook < EXL3_CODEBOOKS ? CODEBOOKS[codebook].marker : 0;
}

/* Two f16 halves made to lie near +-1, whose sum is the code. */
static uint16_t sum_of_halves(uint32_t x) {
    x = (x & 0x8FFF8FFFu) ^ 0x3B603B60u;
    double low = (double)f32_from_f16((uint16_t)x);
    double high = (double)f32_from_f16((uint16_t)(x >> 16));
    return f16_from_f64(low + high);
}

/* The sum of four bytes, near normal by itself, scaled and centred. */
static uint16_t sum_of_bytes(uint32_t x) {
    uint32_t sum = (x & 0xff) + (x >> 8 & 0xff) + (x >> 16 & 0xff) + (x >> 24);
    double scale = (double)f32_from_f16(0x1EEE);
    double shift = (double)f32_from_f16(0xC931);
    return f16_from_f64((double)(1024 + sum) * scale + shift); /* exact until the rounding */
}

uint16_t exl3_code(exl3_codebook codebook, uint16_t state) {
    uint32_t x = state;
    switch (codebook) {
    case EXL3_DEFAULT:
        return sum_of_halves(x * 89226354u + 64248484u);
    case EXL3_MCG:
        return sum_of_halves(x * CODEBOOKS[EXL3_MCG].marker);
    case EXL3_MUL1:
        return sum_of_bytes(x * CODEBOOKS[EXL3_MUL1].marker);
    case EXL3_CODEBOOKS:
        break;
    }
    TF_ASSERT(false);
    return 0;
}

/* The 16 bits of the ring that end before bit `end`. */
static uint16_t state_at(const uint16_t *words, uint32_t ring_bits, uint32_t end) {
    uint32_t begin = (end + ring_bits - 16) % ring_bits;
    uint32_t count = ring_bits / 32;
    uint32_t first = begin / 32;
    uint32_t second = (first + 1) % count;
    uint64_t pair = (uint64_t)words[2 * first + 1] << 48 | (uint64_t)words[2 * first] << 32 |
                    (uint64_t)words[2 * second + 1] << 16 | words[2 * second];
    return (uint16_t)(pair >> (48 - begin % 32));
}

void exl3_decode_tile(exl3_codebook codebook, uint32_t half_bits, const uint16_t *words,
                      uint16_t *tile) {
    TF_ASSERT(half_bits >= 2 && half_bits <= 16);
    uint32_t ring_bits = 128 * half_bits;
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t lane = i / 8;
        uint32_t j = i % 8;
        uint32_t row = 2 * (lane % 4) + (j & 1) + 8 * (j >> 1 & 1);
        uint32_t column = lane / 4 + 8 * (j >> 2);
        uint32_t end = half_bits * (i + 1) / 2;
        tile[row * EXL3_TILE + column] = exl3_code(codebook, state_at(words, ring_bits, end));
    }
}

void exl3_decode(const exl3_shape *shape, const uint16_t *trellis, uint16_t *codes) {
    uint64_t tile_words = 8ull * shape->half_bits;
    uint64_t columns = shape->n / EXL3_TILE;
    for (uint64_t tr = 0; tr < shape->k / EXL3_TILE; tr++) {
        for (uint64_t tc = 0; tc < columns; tc++) {
            uint16_t tile[EXL3_TILE * EXL3_TILE];
            exl3_decode_tile(shape->codebook, shape->half_bits,
                             trellis + (tr * columns + tc) * tile_words, tile);
            for (uint32_t i = 0; i < EXL3_TILE * EXL3_TILE; i++) {
                uint64_t row = tr * EXL3_TILE + i / EXL3_TILE;
                uint64_t column = tc * EXL3_TILE + i % EXL3_TILE;
                codes[row * shape->n + column] = tile[i];
            }
        }
    }
}

/* Sylvester's Hadamard transform of 128 values, unscaled. */
static void rotate(double v[EXL3_ROTATION]) {
    for (uint32_t half = 1; half < EXL3_ROTATION; half *= 2) {
        for (uint32_t i = 0; i < EXL3_ROTATION; i++) {
            if ((i & half) != 0) continue;
            double a = v[i];
            double b = v[i + half];
            v[i] = a + b;
            v[i + half] = a - b;
        }
    }
}

/* Rotates a 128x128 block along both sides. */
static void rotate_block(double block[EXL3_ROTATION][EXL3_ROTATION]) {
    for (uint32_t r = 0; r < EXL3_ROTATION; r++) {
        rotate(block[r]);
    }
    for (uint32_t c = 0; c < EXL3_ROTATION; c++) {
        double column[EXL3_ROTATION];
        for (uint32_t r = 0; r < EXL3_ROTATION; r++) {
            column[r] = block[r][c];
        }
        rotate(column);
        for (uint32_t r = 0; r < EXL3_ROTATION; r++) {
            block[r][c] = column[r];
        }
    }
}

void exl3_dequantise(const exl3_shape *shape, const uint16_t *codes, const uint16_t *suh,
                     const uint16_t *svh, float *weight) {
    TF_ASSERT(shape->k % EXL3_ROTATION == 0 && shape->n % EXL3_ROTATION == 0);
    double block[EXL3_ROTATION][EXL3_ROTATION];
    for (uint64_t k = 0; k < shape->k; k += EXL3_ROTATION) {
        for (uint64_t n = 0; n < shape->n; n += EXL3_ROTATION) {
            for (uint32_t i = 0; i < EXL3_ROTATION * EXL3_ROTATION; i++) {
                uint64_t at = (k + i / EXL3_ROTATION) * shape->n + n + i % EXL3_ROTATION;
                block[i / EXL3_ROTATION][i % EXL3_ROTATION] = (double)f32_from_f16(codes[at]);
            }
            rotate_block(block);
            for (uint32_t i = 0; i < EXL3_ROTATION * EXL3_ROTATION; i++) {
                uint64_t row = k + i / EXL3_ROTATION;
                uint64_t column = n + i % EXL3_ROTATION;
                double value = block[i / EXL3_ROTATION][i % EXL3_ROTATION] / EXL3_ROTATION;
                value *= (double)f32_from_f16(suh[row]) * (double)f32_from_f16(svh[column]);
                weight[row * shape->n + column] = (float)value;
            }
        }
    }
}
