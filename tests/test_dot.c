/* cpu/dot against sums written in support/linears from NUMERICS and MODEL 8, and every instruction set
 * against the plain one, bit for bit. */
#include "engine/cpu/dot.h"

#include "engine/canon/flush.h"
#include "tests/support/linears.h"

#include <stdio.h>
#include <stdlib.h>

static args_dot one_leaf(float *x, float *y, uint32_t rows, uint32_t k, uint32_t n) {
    return (args_dot){.x = linear_matrix(x, DTYPE_F32, rows, k),
                      .y = linear_matrix(y, DTYPE_F32, rows, n),
                      .leaf = k,
                      .leaves = 1,
                      .all_leaves = 1};
}

/* A linear over `rows` rows on a device, against the rule. */
static void hold(check_case *t, check_random *r, const linear_setting *s, const linear *l,
                 uint32_t rows, bool wild) {
    uint32_t k = l->source.k;
    uint32_t n = l->source.n;
    float *x = linear_floats(r, (size_t)rows * k, wild);
    float *y = malloc((size_t)rows * n * sizeof *y);
    float *want = malloc((size_t)rows * n * sizeof *want);
    char what[96];
    device *d = linear_device(t, s);
    port_linear loaded = linear_load(t, d, l);
    args_dot a = one_leaf(x, y, rows, k, n);
    a.w = (port_weight){&loaded, 1, 0};
    linear_launch(t, d, &(port_launch){CALL_DOT, "dot", rows, &a});
    uint64_t mode = flush_begin();
    for (uint32_t i = 0; i < rows; i++)
        linear_leaf(l, s->profile, x + (size_t)i * k, 0, k, want + (size_t)i * n);
    flush_restore(mode);
    snprintf(what, sizeof what, "%s, %u threads, profile %d, %u rows, K %u, N %u", s->isa,
             s->threads, (int)s->profile, rows, k, n);
    linear_same(t, y, want, (size_t)rows * n, what);
    d->ops->close(d);
    free(x);
    free(y);
    free(want);
}

static void holds_everywhere(check_case *t, check_random *r, const linear *l, uint32_t rows,
                             bool wild) {
    const char *isas[4];
    size_t count = linear_isas(isas);
    for (size_t i = 0; i < count; i++) {
        uint32_t threads = rows % 2 == 0 ? 1 : 3;
        hold(t, r, &(linear_setting){isas[i], threads, PROFILE_F32}, l, rows, wild);
        hold(t, r, &(linear_setting){isas[i], threads, PROFILE_BF16}, l, rows, wild);
    }
}

/* ---- cases ---- */

static void sums_in_the_canonical_order(check_case *t) {
    check_random r = check_seed(t);
    static const uint32_t shapes[][2] = {{1, 1}, {2, 24}, {31, 6}, {33, 16}, {64, 130}, {257, 40}};
    static const tf_dtype dtypes[] = {DTYPE_BF16, DTYPE_F16, DTYPE_F32};
    for (size_t i = 0; i < COUNT(shapes); i++) {
        for (size_t k = 0; k < COUNT(dtypes); k++) {
            linear l = linear_plain(&r, dtypes[k], shapes[i][0], shapes[i][1], true);
            for (uint32_t rows = 1; rows <= 17; rows += 1 + (uint32_t)(i % 3))
                holds_everywhere(t, &r, &l, rows, true);
            linear_drop(&l);
        }
    }
}

static void exl3_is_turned_around_each_leaf(check_case *t) {
    check_random r = check_seed(t);
    for (exl3_codebook c = EXL3_DEFAULT; c < EXL3_CODEBOOKS; c++) {
        for (uint32_t bits2 = 2; bits2 <= 16; bits2++) {
            linear l = linear_exl3(&r, c, bits2, 128, bits2 % 3 == 0 ? 256 : 128);
            holds_everywhere(t, &r, &l, 1, false);
            linear_drop(&l);
        }
    }
}

static const check_entry cases[] = {
    {"dot/sums-in-the-canonical-order", sums_in_the_canonical_order},
    {"dot/exl3-is-turned-around-each-leaf", exl3_is_turned_around_each_leaf},
};

int main(int argc, char **argv) {
    return check_main(argc, argv, cases, COUNT(cases));
}
