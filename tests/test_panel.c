/* Where a loaded weight lies. */
#include "engine/cpu/panel.h"

#include "tests/support/linears.h"

#include <stdlib.h>
#include <string.h>

/* Weight (k, n) of a loaded plain linear, found by the header's formula. */
static float plain_at(const port_linear *w, uint32_t k, uint32_t n) {
    uint32_t block = n / PANEL_BLOCK;
    uint32_t lane = n % PANEL_BLOCK;
    uint32_t left = w->n - block * PANEL_BLOCK;
    size_t lanes = left >= PANEL_BLOCK ? PANEL_BLOCK : (left + 15) / 16 * 16;
    size_t rows = w->dtype == DTYPE_BF16 ? (w->k + 1) / 2 * 2 : w->k;
    size_t at = block * PANEL_BLOCK * rows;
    if (w->dtype == DTYPE_BF16)
        return f32_from_bf16(((const uint16_t *)w->data)[at + (k / 2 * lanes + lane) * 2 + k % 2]);
    at += k * lanes + lane;
    if (w->dtype == DTYPE_F16) return f32_from_f16(((const uint16_t *)w->data)[at]);
    return ((const float *)w->data)[at];
}

static void *load(const device_source *s, port_linear *out) {
    size_t bytes = (panel_bytes(s) + 63) / 64 * 64;
    void *memory = aligned_alloc(64, bytes);
    memset(memory, 0xff, bytes);
    panel_load(s, memory, out);
    return memory;
}

static void plain_weights_lie_in_blocks(check_case *t) {
    check_random r = check_seed(t);
    static const uint32_t shapes[][2] = {{1, 1}, {7, 24}, {32, 128}, {33, 130}, {64, 385}};
    static const tf_dtype dtypes[] = {DTYPE_BF16, DTYPE_F16, DTYPE_F32};
    for (size_t i = 0; i < COUNT(shapes) * COUNT(dtypes); i++) {
        uint32_t k = shapes[i / 3][0];
        uint32_t n = shapes[i / 3][1];
        linear l = linear_plain(&r, dtypes[i % 3], k, n, true);
        port_linear w;
        void *memory = load(&l.source, &w);
        for (uint32_t at = 0; at < k * n; at++) {
            if (!CHECKF(t, f32_bits(plain_at(&w, at / n, at % n)) == f32_bits(l.value[at]),
                        "%s, K %u, N %u: weight %u of output %u lies elsewhere",
                        dtype_name(dtypes[i % 3]), k, n, at / n, at % n))
                break;
        }
        free(memory);
        linear_drop(&l);
    }
}

/* Short last panels and the k after an odd one are multiplied too. */
static void what_is_not_there_is_zero(check_case *t) {
    check_random r = check_seed(t);
    linear l = linear_plain(&r, DTYPE_BF16, 3, 5, false);
    port_linear w;
    void *memory = load(&l.source, &w);
    CHECK_U64(t, panel_bytes(&l.source), 4 * 16 * 2);
    for (uint32_t k = 0; k < 4; k++) {
        for (uint32_t n = 0; n < 16; n++) {
            if (k < 3 && n < 5) continue;
            CHECK_U64(t, ((const uint16_t *)w.data)[(k / 2 * 16 + n) * 2 + k % 2], 0);
        }
    }
    free(memory);
    linear_drop(&l);
}

static void states_lie_where_the_table_says(check_case *t) {
    check_random r = check_seed(t);
    enum {
        K = 128,
        N = 256
    };
    for (uint32_t bits2 = 2; bits2 <= 16; bits2++) {
        linear l = linear_exl3(&r, EXL3_MCG, bits2, K, N);
        port_linear w;
        void *memory = load(&l.source, &w);
        uint32_t wrong = 0;
        for (uint32_t at = 0; at < K * N; at++) {
            uint32_t k = at / N;
            uint32_t n = at % N;
            const uint16_t *tile = (const uint16_t *)w.data +
                                   ((n / 128 * (K / 16) + k / 16) * 8 + n % 128 / 16) * 8 * bits2;
            panel_place p = panel_places[bits2][k % 16][n % 16 / 8];
            uint32_t run = n % 8;
            uint16_t word = tile[p.word * 8 + run];
            uint16_t before =
                p.word > 0 ? tile[(p.word - 1) * 8 + run] : tile[(bits2 - 1) * 8 + (run + 7) % 8];
            uint32_t both = (uint32_t)before << 16 | word;
            uint16_t code = exl3_code(EXL3_MCG, (uint16_t)(both >> p.shift));
            if (f32_bits(f32_from_f16(code)) != f32_bits(l.value[at])) wrong++;
        }
        CHECKF(t, wrong == 0, "%u half bits: %u of %d weights", bits2, wrong, K * N);
        free(memory);
        linear_drop(&l);
    }
}

static void scales_are_widened(check_case *t) {
    check_random r = check_seed(t);
    linear l = linear_exl3(&r, EXL3_MUL1, 3, 128, 256);
    port_linear w;
    void *memory = load(&l.source, &w);
    for (uint32_t i = 0; i < 128; i++)
        CHECK_U64(t, f32_bits(w.suh[i]), f32_bits(f32_from_f16(l.suh[i])));
    for (uint32_t i = 0; i < 256; i++)
        CHECK_U64(t, f32_bits(w.svh[i]), f32_bits(f32_from_f16(l.svh[i])));
    /* Registers may read 64 bytes from any word of a tile. */
    CHECK(t, (const uint8_t *)(w.svh + 256) - (const uint8_t *)w.data >= 128 * 256 * 3 / 16 + 64);
    free(memory);
    linear_drop(&l);
}

static const check_entry cases[] = {
    {"panel/plain-weights-lie-in-blocks", plain_weights_lie_in_blocks},
    {"panel/what-is-not-there-is-zero", what_is_not_there_is_zero},
    {"panel/states-lie-where-the-table-says", states_lie_where_the_table_says},
    {"panel/scales-are-widened", scales_are_widened},
};

int main(int argc, char **argv) {
    return check_main(argc, argv, cases, COUNT(cases));
}
