/* The EXL3 codec against vectors of the public codec: codes bit for bit, weights nearly. */
#include "engine/pack/dtype.h"
#include "engine/pack/exl3_codec.h"
#include "tests/support/check.h"
#include "tests/support/golden.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNIT TF_SOURCE_DIR "/tests/golden/unit/unit.safetensors"

enum {
    K = 256,
    N = 128
};

static const uint32_t WIDTHS[] = {2, 3, 4, 5, 6, 8};

/* One part of a vector, copied so that it is aligned; NULL when absent. */
static void *part(golden_file *unit, uint32_t bits, const char *name) {
    char full[64];
    golden_tensor tensor;
    snprintf(full, sizeof full, "exl3.%u.%s", bits, name);
    if (!golden_find(unit, full, &tensor) || tensor.data == NULL) return NULL;
    void *copy = malloc(tensor.end - tensor.begin);
    if (copy != NULL) memcpy(copy, tensor.data, tensor.end - tensor.begin);
    return copy;
}

static void codes_equal_the_public_codecs(check_case *t) {
    golden_file unit;
    if (!CHECK(t, golden_open(UNIT, &unit))) return;
    for (size_t w = 0; w < COUNT(WIDTHS); w++) {
        static uint16_t codes[K * N];
        uint16_t *trellis = part(&unit, WIDTHS[w], "trellis");
        uint16_t *want = part(&unit, WIDTHS[w], "codes");
        if (!CHECK(t, trellis != NULL && want != NULL)) return;
        exl3_shape shape = {K, N, 2 * WIDTHS[w], EXL3_MUL1};
        exl3_decode(&shape, trellis, codes);
        size_t wrong = 0;
        for (size_t i = 0; i < K * N; i++) {
            wrong += codes[i] != want[i];
        }
        CHECKF(t, wrong == 0, "%u bits: %zu codes of %d differ", WIDTHS[w], wrong, K * N);
        free(trellis);
        free(want);
    }
    golden_close(&unit);
}

static void weights_equal_the_public_codecs(check_case *t) {
    golden_file unit;
    if (!CHECK(t, golden_open(UNIT, &unit))) return;
    for (size_t w = 0; w < COUNT(WIDTHS); w++) {
        static float weight[K * N];
        uint16_t *codes = part(&unit, WIDTHS[w], "codes");
        uint16_t *suh = part(&unit, WIDTHS[w], "suh");
        uint16_t *svh = part(&unit, WIDTHS[w], "svh");
        float *want = part(&unit, WIDTHS[w], "weight");
        if (!CHECK(t, codes != NULL && suh != NULL && svh != NULL && want != NULL)) return;
        exl3_shape shape = {K, N, 2 * WIDTHS[w], EXL3_MUL1};
        exl3_dequantise(&shape, codes, suh, svh, weight);
        double worst = 0;
        double largest = 0;
        for (size_t i = 0; i < K * N; i++) {
            worst = fmax(worst, fabs((double)weight[i] - (double)want[i]));
            largest = fmax(largest, fabs((double)want[i]));
        }
        CHECKF(t, worst <= 0x1p-22 * largest, "%u bits: off by %g of %g", WIDTHS[w], worst,
               largest);
        free(codes);
        free(suh);
        free(svh);
        free(want);
    }
    golden_close(&unit);
}

/* Bit `at` of a tile's ring, straight from the definition. */
static uint32_t ring_bit(const uint16_t *words, uint32_t at) {
    uint32_t word = (uint32_t)words[at / 32 * 2] | (uint32_t)words[at / 32 * 2 + 1] << 16;
    return word >> (31 - at % 32) & 1u;
}

static void every_width_reads_the_ring_as_defined(check_case *t) {
    check_random random = check_seed(t);
    for (uint32_t half_bits = 2; half_bits <= 16; half_bits++) {
        uint16_t words[128];
        uint16_t tile[256];
        for (uint32_t i = 0; i < 8 * half_bits; i++) {
            words[i] = (uint16_t)check_next(&random);
        }
        exl3_decode_tile(EXL3_MCG, half_bits, words, tile);
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t end = (uint32_t)floor((double)half_bits / 2.0 * (double)(i + 1));
            uint16_t state = 0;
            for (uint32_t b = 0; b < 16; b++) {
                uint32_t at = (end + 128 * half_bits - 16 + b) % (128 * half_bits);
                state = (uint16_t)((uint32_t)state << 1 | ring_bit(words, at));
            }
            uint32_t lane = i / 8;
            uint32_t j = i % 8;
            uint32_t row = 2 * (lane % 4) + j % 2 + 8 * (j / 2 % 2);
            uint32_t column = lane / 4 + 8 * (j / 4);
            bool held = tile[row * 16 + column] == exl3_code(EXL3_MCG, state);
            if (!CHECKF(t, held, "%u half bits, weight %u", half_bits, i)) return;
        }
    }
}

/* Half of an f16 sum by hand: both halves are sign, exponent 14 or 15 of a few values. */
static void two_half_codebooks_round_one_exact_sum(check_case *t) {
    static const struct {
        exl3_codebook codebook;
        uint32_t multiply, add;
    } books[] = {{EXL3_DEFAULT, 89226354u, 64248484u}, {EXL3_MCG, 0xCBAC1FEDu, 0}};
    for (size_t b = 0; b < COUNT(books); b++) {
        for (uint32_t state = 0; state < 0x10000; state++) {
            uint32_t x = state * books[b].multiply + books[b].add;
            x = (x & 0x8FFF8FFFu) ^ 0x3B603B60u;
            double sum = (double)f32_from_f16((uint16_t)(x & 0xffff)) +
                         (double)f32_from_f16((uint16_t)(x >> 16));
            double code = (double)f32_from_f16(exl3_code(books[b].codebook, (uint16_t)state));
            double ulp = fabs(sum) < 0x1p-14 ? 0x1p-24 : ldexp(1.0, ilogb(sum) - 10);
            if (!CHECKF(t, fabs(code - sum) <= ulp / 2, "state %u", state)) return;
        }
    }
}

static void mul1_codes_are_centred_bytes(check_case *t) {
    double total = 0;
    for (uint32_t state = 0; state < 0x10000; state++) {
        total += (double)f32_from_f16(exl3_code(EXL3_MUL1, (uint16_t)state));
    }
    CHECKF(t, fabs(total / 65536) < 0.01, "mean %g", total / 65536);
    /* State 0 has the sum 0, the least code: 1024 s + t. */
    double least = 1024 * (double)f32_from_f16(0x1EEE) + (double)f32_from_f16(0xC931);
    CHECK_U64(t, exl3_code(EXL3_MUL1, 0), f16_from_f64(least));
}

static void markers_are_the_multipliers(check_case *t) {
    CHECK_U64(t, exl3_marker(EXL3_MUL1), 0x83DCD12Du);
    CHECK_U64(t, exl3_marker(EXL3_MCG), 0xCBAC1FEDu);
    CHECK_STR(t, exl3_codebook_name(EXL3_MUL1), "mul1");
    CHECK_STR(t, exl3_codebook_name(EXL3_MCG), "mcg");
    CHECK_STR(t, exl3_codebook_name(EXL3_DEFAULT), "default");
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"exl3_codec/codes-equal-the-public-codecs", codes_equal_the_public_codecs},
        {"exl3_codec/weights-equal-the-public-codecs", weights_equal_the_public_codecs},
        {"exl3_codec/every-width-reads-the-ring-as-defined", every_width_reads_the_ring_as_defined},
        {"exl3_codec/two-half-codebooks-round-one-exact-sum",
         two_half_codebooks_round_one_exact_sum},
        {"exl3_codec/mul1-codes-are-centred-bytes", mul1_codes_are_centred_bytes},
        {"exl3_codec/markers-are-the-multipliers", markers_are_the_multipliers},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
