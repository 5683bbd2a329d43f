/* cpu/dot against sums written in support/linears from NUMERICS and MODEL 8, and every instruction set
 * against the plain one, bit for bit. */
#include "engine/cpu/dot.h"

#include "engine/canon/flush.h"
#include "engine/canon/reduce.h"
#include "engine/cpu/dot_inner.h"
#include "tests/support/golden.h"
#include "tests/support/linears.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    static const uint32_t shapes[][2] = {{1, 1},    {2, 24},   {31, 6},  {33, 16},
                                         {64, 130}, {257, 40}, {97, 256}};
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
            holds_everywhere(t, &r, &l, 4, true);
            linear_drop(&l);
        }
    }
}

/* Every state of every codebook: tiles of 8 bits a weight, whose ring has every pair of bytes. */
static void every_code_is_exact(check_case *t) {
    check_random r = check_seed(t);
    const char *isas[4];
    size_t count = linear_isas(isas);
    for (exl3_codebook c = EXL3_DEFAULT; c < EXL3_CODEBOOKS; c++) {
        linear l = linear_exl3(&r, c, 16, 1024, 128);
        uint16_t *words = l.stored;
        for (uint32_t tile = 0; tile < 512; tile++) {
            for (uint32_t i = 0; i < 128; i++)
                words[(tile * 128 + i) ^ 1] = (uint16_t)(tile / 2 << 8 | (tile % 2 * 128 + i));
        }
        uint16_t *codes = malloc(1024 * 128 * sizeof *codes);
        exl3_decode(&(exl3_shape){1024, 128, 16, c}, words, codes);
        for (size_t i = 0; i < count; i++) {
            device *d = linear_device(t, &(linear_setting){isas[i], 1, PROFILE_F32});
            port_linear w = linear_load(t, d, &l);
            const dot_steps *steps = dot_steps_of(((cpu_device *)d)->isa);
            float slab[DOT_SUB * DOT_BLOCK];
            float want[DOT_SUB * DOT_BLOCK];
            for (uint32_t k = 0; k < 1024; k += DOT_SUB) {
                dot_slab out = {.panels = 8, .stride = DOT_BLOCK, .count = DOT_SUB};
                dot_widen(steps, &w, 0, k, slab, &out);
                for (uint32_t e = 0; e < DOT_SUB * DOT_BLOCK; e++)
                    want[e] = f32_from_f16(codes[k * 128 + e]);
                if (!linear_same(t, out.w, want, COUNT(want), isas[i])) break;
            }
            d->ops->close(d);
        }
        free(codes);
        linear_drop(&l);
    }
}

static void threads_and_levels_agree_on_large_products(check_case *t) {
    check_random r = check_seed(t);
    const char *isas[4];
    size_t count = linear_isas(isas);
    linear l = linear_plain(&r, DTYPE_BF16, 400, 1300, false);
    linear e = linear_exl3(&r, EXL3_MUL1, 6, 256, 640);
    for (size_t i = 0; i < count; i++) {
        for (uint32_t threads = 1; threads <= 3; threads += 2) {
            hold(t, &r, &(linear_setting){isas[i], threads, PROFILE_F32}, &l, 5, false);
            hold(t, &r, &(linear_setting){isas[i], threads, PROFILE_BF16}, &e, 9, false);
        }
    }
    linear_drop(&l);
    linear_drop(&e);
}

/* Leaves [first, first + leaves) of all, as a rank has them. */
typedef struct share {
    uint32_t first, leaves, all;
} share;

static void hold_leaves(check_case *t, check_random *r, const char *isa, const linear *l, share own,
                        bool covered) {
    enum {
        ROWS = 3
    };
    uint32_t k = l->source.k;
    uint32_t n = l->source.n;
    canon_range cover[CANON_COVER_MAX];
    int64_t values[2 * CANON_COVER_MAX];
    uint32_t count = canon_cover((canon_range){own.first, own.first + own.leaves}, own.all, cover);
    for (uint32_t i = 0; i < count; i++) {
        values[2 * i] = cover[i].begin;
        values[2 * i + 1] = cover[i].end;
    }
    float *x = linear_floats(r, (size_t)ROWS * k, false);
    float *y = malloc((size_t)count * ROWS * n * sizeof *y);
    float *leaf = malloc((size_t)own.leaves * n * sizeof *leaf);
    float *want = malloc((size_t)count * ROWS * n * sizeof *want);
    device *d = linear_device(t, &(linear_setting){isa, 3, PROFILE_F32});
    port_linear loaded = linear_load(t, d, l);
    args_dot a = one_leaf(x, y, ROWS, k, n);
    a.w = (port_weight){&loaded, 1, 0};
    a.leaf = 128;
    a.first_leaf = own.first;
    a.leaves = own.leaves;
    a.all_leaves = own.all;
    if (covered) {
        a.cover = (port_ints){values, 2 * count};
        a.y = (port_tensor){.data = y,
                            .dtype = DTYPE_F32,
                            .dims = 3,
                            .shape = {count, ROWS, n},
                            .stride = {(size_t)ROWS * n, n, 1}};
    }
    linear_launch(t, d, &(port_launch){CALL_DOT, "dot", ROWS, &a});
    uint64_t mode = flush_begin();
    for (uint32_t row = 0; row < ROWS; row++) {
        for (uint32_t i = 0; i < own.leaves; i++)
            linear_leaf(l, PROFILE_F32, x + row * k, i * 128, i * 128 + 128, leaf + i * n);
        for (uint32_t i = 0; i < count; i++) {
            uint32_t size = 1;
            while (size < canon_size(cover[i]))
                size *= 2;
            linear_tree(leaf, own.first, n, cover[i].begin, size, cover[i].end,
                        want + ((size_t)i * ROWS + row) * n);
        }
    }
    flush_restore(mode);
    linear_same(t, y, want, (size_t)count * ROWS * n, isa);
    d->ops->close(d);
    free(x);
    free(y);
    free(leaf);
    free(want);
}

static void leaves_are_joined_by_the_tree(check_case *t) {
    check_random r = check_seed(t);
    static const share shares[] = {{0, 8, 8}, {3, 3, 8}, {5, 3, 8},
                                   {0, 5, 5}, {1, 4, 5}, {2, 1, 3}};
    const char *isas[4];
    size_t count = linear_isas(isas);
    for (size_t i = 0; i < COUNT(shares); i++) {
        uint32_t k = shares[i].leaves * 128;
        linear plain = linear_plain(&r, DTYPE_BF16, k, 40, false);
        linear exl3 = linear_exl3(&r, EXL3_MUL1, 6, k, 256);
        for (size_t level = 0; level < count; level++) {
            hold_leaves(t, &r, isas[level], &plain, shares[i], true);
            hold_leaves(t, &r, isas[level], &exl3, shares[i], true);
            if (shares[i].first == 0) {
                hold_leaves(t, &r, isas[level], &plain, shares[i], false);
                hold_leaves(t, &r, isas[level], &exl3, shares[i], false);
            }
        }
        linear_drop(&plain);
        linear_drop(&exl3);
    }
}

/* x and y are views with rows of their own strides; members lie side by side. */
static void families_and_strides_are_kept_apart(check_case *t) {
    enum {
        ROWS = 5,
        MEMBERS = 3,
        K = 70,
        N = 136,
        X = 300,
        Y = 500
    };
    check_random r = check_seed(t);
    linear l[MEMBERS];
    port_linear loaded[MEMBERS];
    float *x = linear_floats(&r, (size_t)ROWS * X, false);
    float *y = linear_floats(&r, (size_t)ROWS * Y, false);
    float want[ROWS * Y];
    memcpy(want, y, sizeof want);
    device *d = linear_device(t, &(linear_setting){NULL, 3, PROFILE_F32});
    for (uint32_t m = 0; m < MEMBERS; m++) {
        l[m] = linear_plain(&r, DTYPE_BF16, K, N, false);
        loaded[m] = linear_load(t, d, &l[m]);
        for (uint32_t i = 0; i < ROWS; i++)
            linear_leaf(&l[m], PROFILE_F32, x + i * X + m * 90, 0, K, want + i * Y + m * 140);
    }
    args_dot a = {
        .x = {x, DTYPE_F32, 3, {ROWS, MEMBERS, K}, {X, 90, 1}},
        .w = {loaded, MEMBERS, 4},
        .leaf = K,
        .leaves = 1,
        .all_leaves = 1,
        .y = {y, DTYPE_F32, 3, {ROWS, MEMBERS, N}, {Y, 140, 1}},
    };
    linear_launch(t, d, &(port_launch){CALL_DOT, "family", ROWS, &a});
    linear_same(t, y, want, COUNT(want), "family");
    for (uint32_t m = 0; m < MEMBERS; m++)
        linear_drop(&l[m]);
    d->ops->close(d);
    free(x);
    free(y);
}

static void what_is_added_comes_after_the_sum(check_case *t) {
    enum {
        ROWS = 4,
        K = 64,
        N = 50
    };
    check_random r = check_seed(t);
    linear l = linear_plain(&r, DTYPE_F16, K, N, false);
    float *x = linear_floats(&r, ROWS * K, false);
    float *add = linear_floats(&r, ROWS * N, false);
    float y[ROWS * N];
    float want[ROWS * N];
    device *d = linear_device(t, &(linear_setting){NULL, 1, PROFILE_F32});
    port_linear loaded = linear_load(t, d, &l);
    args_dot a = one_leaf(x, y, ROWS, K, N);
    a.w = (port_weight){&loaded, 1, 0};
    a.add = linear_matrix(add, DTYPE_F32, ROWS, N);
    linear_launch(t, d, &(port_launch){CALL_DOT, "add", ROWS, &a});
    for (uint32_t i = 0; i < ROWS; i++)
        linear_leaf(&l, PROFILE_F32, x + i * K, 0, K, want + i * N);
    for (uint32_t i = 0; i < ROWS * N; i++)
        want[i] = add[i] + want[i];
    linear_same(t, y, want, COUNT(want), "add");
    d->ops->close(d);
    linear_drop(&l);
    free(x);
    free(add);
}

/* More rows than one job takes, and each of them alone. */
static void rows_never_meet(check_case *t) {
    enum {
        ROWS = DOT_ROWS + 20,
        K = 256,
        N = 128
    };
    check_random r = check_seed(t);
    const char *isas[4];
    size_t count = linear_isas(isas);
    linear l[2] = {linear_plain(&r, DTYPE_BF16, K, N, true), linear_exl3(&r, EXL3_MUL1, 5, K, N)};
    float *x = linear_floats(&r, (size_t)ROWS * K, true);
    float *y = malloc((size_t)ROWS * N * sizeof *y);
    float *alone = malloc((size_t)ROWS * N * sizeof *alone);
    for (size_t i = 0; i < 2 * count; i++) {
        device *d = linear_device(t, &(linear_setting){isas[i / 2], 3, PROFILE_BF16});
        port_linear loaded = linear_load(t, d, &l[i % 2]);
        args_dot a = one_leaf(x, y, ROWS, K, N);
        a.w = (port_weight){&loaded, 1, 0};
        linear_launch(t, d, &(port_launch){CALL_DOT, "all", ROWS, &a});
        for (uint32_t row = 0; row < ROWS; row += i < 2 ? 16 : 1) {
            a.x.data = x + (size_t)row * K;
            a.y.data = alone + (size_t)row * N;
            linear_launch(t, d, &(port_launch){CALL_DOT, "one", 1, &a});
            linear_same(t, y + (size_t)row * N, alone + (size_t)row * N, N, isas[i / 2]);
        }
        dot_rows whole = {x, K, ROWS, alone, N};
        void *scratch = aligned_alloc(64, (DOT_WHOLE_BYTES + 63) / 64 * 64);
        uint64_t mode = flush_begin();
        dot_whole((cpu_device *)d, scratch, &loaded, &whole);
        flush_restore(mode);
        linear_same(t, alone, y, (size_t)ROWS * N, "whole");
        free(scratch);
        d->ops->close(d);
    }
    linear_drop(&l[0]);
    linear_drop(&l[1]);
    free(x);
    free(y);
    free(alone);
}

/* y = xW of the golden weights, which were rotated in double. */
static void golden_trellis_gives_golden_weights(check_case *t) {
    enum {
        ROWS = 4,
        K = 256,
        N = 128
    };
    static const uint32_t bits[] = {2, 3, 4, 5, 6, 8};
    check_random r = check_seed(t);
    float *x = linear_floats(&r, ROWS * K, false);
    float y[ROWS * N];
    golden_file file;
    if (!CHECK(t, golden_open(TF_SOURCE_DIR "/tests/golden/unit/unit.safetensors", &file))) return;
    device *d = linear_device(t, &(linear_setting){NULL, 1, PROFILE_F32});
    for (size_t b = 0; b < COUNT(bits); b++) {
        golden_tensor part[4];
        static const char *const names[4] = {"trellis", "suh", "svh", "weight"};
        for (size_t i = 0; i < 4; i++) {
            char name[32];
            snprintf(name, sizeof name, "exl3.%u.%s", bits[b], names[i]);
            if (!CHECK(t, golden_find(&file, name, &part[i]))) return;
        }
        linear l = {
            .source = {
                .form = WEIGHT_EXL3, .codebook = EXL3_MUL1, .bits2 = 2 * bits[b], .k = K, .n = N}};
        uint16_t *copy[3];
        for (size_t i = 0; i < 3; i++) {
            copy[i] = malloc(part[i].end - part[i].begin);
            memcpy(copy[i], part[i].data, part[i].end - part[i].begin);
        }
        l.source.trellis = copy[0];
        l.source.suh = copy[1];
        l.source.svh = copy[2];
        port_linear loaded = linear_load(t, d, &l);
        args_dot a = one_leaf(x, y, ROWS, K, N);
        a.w = (port_weight){&loaded, 1, 0};
        linear_launch(t, d, &(port_launch){CALL_DOT, "golden", ROWS, &a});
        double worst = 0.0;
        for (uint32_t i = 0; i < ROWS * N; i++) {
            double sum = 0.0;
            double size = 0.0;
            for (uint32_t k = 0; k < K; k++) {
                float w;
                memcpy(&w, part[3].data + 4 * (k * N + i % N), sizeof w);
                double product = (double)x[i / N * K + k] * (double)w;
                sum += product;
                size += product < 0.0 ? -product : product;
            }
            double away = (double)y[i] > sum ? (double)y[i] - sum : sum - (double)y[i];
            if (away / size > worst) worst = away / size;
        }
        CHECKF(t, worst < 2e-6, "%u bits: %g of the sum of absolute products away", bits[b], worst);
        for (size_t i = 0; i < 3; i++)
            free(copy[i]);
    }
    d->ops->close(d);
    golden_close(&file);
    free(x);
}

/* Every other case runs on tiles too where they are; this one says when they were not. */
static void tiles_give_the_same_bits(check_case *t) {
    check_random r = check_seed(t);
    if (cpu_best_isa() != CPU_AMX) {
        check_skip(t, "this machine has no AMX");
        return;
    }
    linear l = linear_plain(&r, DTYPE_BF16, 1100, 344, true);
    for (uint32_t rows = 1; rows <= 81; rows += rows < 17 ? 1 : 16)
        hold(t, &r, &(linear_setting){"amx", 3, PROFILE_BF16}, &l, rows, true);
    linear_drop(&l);
}

/* Intervals lie apart, rows have a stride. */
static void reduces_as_the_tree_does(check_case *t) {
    enum {
        ROWS = 3,
        N = 1500,
        PARTS = 4
    };
    static const int64_t cover[] = {0, 2, 2, 3, 3, 4, 4, 5};
    check_random r = check_seed(t);
    float *x = linear_floats(&r, (size_t)PARTS * (ROWS + 1) * N, true);
    float *y = malloc((size_t)ROWS * N * sizeof *y);
    float *want = malloc((size_t)ROWS * N * sizeof *want);
    tf_error err = {0};
    device *d = linear_device(t, &(linear_setting){NULL, 3, PROFILE_F32});
    args_reduce a = {
        .x = {x, DTYPE_F32, 3, {PARTS, ROWS, N}, {(ROWS + 1) * N, N, 1}},
        .cover = {cover, COUNT(cover)},
        .leaves = 5,
        .y = linear_matrix(y, DTYPE_F32, ROWS, N),
    };
    port_launch launch = {CALL_REDUCE, "reduce", ROWS, &a};
    linear_launch(t, d, &launch);
    uint64_t mode = flush_begin();
    for (uint32_t row = 0; row < ROWS; row++) {
        const float *p[PARTS];
        for (uint32_t i = 0; i < PARTS; i++)
            p[i] = x + ((size_t)i * (ROWS + 1) + row) * N;
        for (uint32_t i = 0; i < N; i++)
            want[row * N + i] = (p[0][i] + (p[1][i] + p[2][i])) + p[3][i];
    }
    flush_restore(mode);
    linear_same(t, y, want, (size_t)ROWS * N, "reduce");
    a.leaves = 6;
    CHECK(t, d->ops->launch(d, &launch, &err) == TF_INTERNAL);
    CHECK_U64(t, err.word, TF_W_COVER_NOT_WHOLE);
    d->ops->close(d);
    free(x);
    free(y);
    free(want);
}

static const check_entry cases[] = {
    {"dot/sums-in-the-canonical-order", sums_in_the_canonical_order},
    {"dot/exl3-is-turned-around-each-leaf", exl3_is_turned_around_each_leaf},
    {"dot/every-code-is-exact", every_code_is_exact},
    {"dot/threads-and-levels-agree-on-large-products", threads_and_levels_agree_on_large_products},
    {"dot/leaves-are-joined-by-the-tree", leaves_are_joined_by_the_tree},
    {"dot/families-and-strides-are-kept-apart", families_and_strides_are_kept_apart},
    {"dot/what-is-added-comes-after-the-sum", what_is_added_comes_after_the_sum},
    {"dot/rows-never-meet", rows_never_meet},
    {"dot/golden-trellis-gives-golden-weights", golden_trellis_gives_golden_weights},
    {"dot/tiles-give-the-same-bits", tiles_give_the_same_bits},
    {"dot/reduces-as-the-tree-does", reduces_as_the_tree_does},
};

int main(int argc, char **argv) {
    return check_main(argc, argv, cases, COUNT(cases));
}
