/* cpu/moe against the sum of MODEL's MoE written here, on every instruction set. */
#include "engine/cpu/moe.h"

#include "engine/canon/flush.h"
#include "engine/canon/fmath.h"
#include "engine/canon/reduce.h"
#include "tests/support/linears.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOPK    3u
#define SLOTS   (TOPK + 1)
#define EXPERTS 6u
#define HIDDEN  256u

/* Experts first, the shared one last. */
typedef struct experts {
    uint32_t width, leaves, first_leaf, all_leaves;
    linear w1[EXPERTS + 1], w3[EXPERTS + 1], w2[EXPERTS + 1];
    int64_t cover[2 * CANON_COVER_MAX];
    uint32_t intervals;
} experts;

static experts make(check_random *r, bool exl3, uint32_t first_leaf, uint32_t leaves,
                    uint32_t all_leaves) {
    experts x = {.width = leaves * 128,
                 .leaves = leaves,
                 .first_leaf = first_leaf,
                 .all_leaves = all_leaves};
    for (uint32_t e = 0; e <= EXPERTS; e++) {
        uint32_t bits2 = e % 3 == 0 ? 6 : 4 + e / 3; /* widths may differ inside a projection */
        if (exl3) {
            x.w1[e] = linear_exl3(r, EXL3_MUL1, bits2, HIDDEN, x.width);
            x.w3[e] = linear_exl3(r, EXL3_MUL1, bits2, HIDDEN, x.width);
            x.w2[e] = linear_exl3(r, EXL3_MUL1, bits2, x.width, HIDDEN);
        } else {
            x.w1[e] = linear_plain(r, DTYPE_BF16, HIDDEN, x.width, false);
            x.w3[e] = linear_plain(r, DTYPE_BF16, HIDDEN, x.width, false);
            x.w2[e] = linear_plain(r, DTYPE_BF16, x.width, HIDDEN, false);
        }
    }
    canon_range cover[CANON_COVER_MAX];
    x.intervals = canon_cover((canon_range){first_leaf, first_leaf + leaves}, all_leaves, cover);
    for (uint32_t i = 0; i < x.intervals; i++) {
        x.cover[2 * i] = cover[i].begin;
        x.cover[2 * i + 1] = cover[i].end;
    }
    return x;
}

static void drop(experts *x) {
    for (uint32_t e = 0; e <= EXPERTS; e++) {
        linear_drop(&x->w1[e]);
        linear_drop(&x->w3[e]);
        linear_drop(&x->w2[e]);
    }
}

/* Rows that go through both kernels. */
typedef struct batch {
    uint32_t rows;
    float *x;       /* [rows, HIDDEN] */
    int32_t *ids;   /* [rows, TOPK] ascending */
    float *weights; /* [rows, TOPK] */
    float *up;      /* [rows, SLOTS, width] */
    float *parts;   /* [intervals, rows, HIDDEN] */
} batch;

static batch make_batch(check_random *r, const experts *e, uint32_t rows) {
    batch b = {.rows = rows};
    b.x = linear_floats(r, (size_t)rows * HIDDEN, false);
    b.weights = linear_floats(r, (size_t)rows * TOPK, false);
    b.ids = malloc((size_t)rows * TOPK * sizeof *b.ids);
    b.up = malloc((size_t)rows * SLOTS * e->width * sizeof *b.up);
    b.parts = malloc((size_t)rows * e->intervals * HIDDEN * sizeof *b.parts);
    for (uint32_t i = 0; i < rows; i++) {
        uint32_t absent = (uint32_t)check_below(r, EXPERTS);
        uint32_t step = 1 + (uint32_t)check_below(r, 2);
        for (uint32_t s = 0, id = step - 1; s < TOPK; s++, id += step) {
            if (step == 1 && id == absent) id++;
            b.ids[i * TOPK + s] = (int32_t)id;
        }
    }
    return b;
}

static void drop_batch(batch *b) {
    free(b->x);
    free(b->ids);
    free(b->weights);
    free(b->up);
    free(b->parts);
}

static const float LIMIT = 2.0f;

/* One row by the rule: up [SLOTS, width], parts [intervals][HIDDEN]. */
static void want_row(const experts *e, port_profile profile, const batch *b, uint32_t row,
                     float *up, float *parts, size_t stride) {
    float *leaf = calloc(e->leaves * HIDDEN, sizeof *leaf);
    float *g = malloc(e->width * sizeof *g);
    float *u = malloc(e->width * sizeof *u);
    float part[HIDDEN];
    for (uint32_t s = 0; s < SLOTS; s++) {
        uint32_t id = s == TOPK ? EXPERTS : (uint32_t)b->ids[row * TOPK + s];
        linear_leaf(&e->w1[id], profile, b->x + row * HIDDEN, 0, HIDDEN, g);
        linear_leaf(&e->w3[id], profile, b->x + row * HIDDEN, 0, HIDDEN, u);
        for (uint32_t i = 0; i < e->width; i++) {
            float clamped = u[i] > LIMIT ? LIMIT : u[i] < -LIMIT ? -LIMIT : u[i];
            up[s * e->width + i] = fm_silu(g[i] > LIMIT ? LIMIT : g[i]) * clamped;
        }
        for (uint32_t i = 0; i < e->leaves; i++) {
            linear_leaf(&e->w2[id], profile, up + s * e->width, i * 128, i * 128 + 128, part);
            float weight = s == TOPK ? 1.0f : b->weights[row * TOPK + s];
            for (uint32_t n = 0; n < HIDDEN; n++)
                leaf[i * HIDDEN + n] = fmaf(weight, part[n], leaf[i * HIDDEN + n]);
        }
    }
    for (uint32_t i = 0; i < e->intervals; i++) {
        uint32_t begin = (uint32_t)e->cover[2 * i];
        uint32_t end = (uint32_t)e->cover[2 * i + 1];
        uint32_t size = 1;
        while (size < end - begin)
            size *= 2;
        linear_tree(leaf, e->first_leaf, HIDDEN, begin, size, end, parts + i * stride);
    }
    free(leaf);
    free(g);
    free(u);
}

static port_tensor cube(float *data, uint32_t a, uint32_t b, uint32_t c) {
    return (port_tensor){.data = data,
                         .dtype = DTYPE_F32,
                         .dims = 3,
                         .shape = {a, b, c},
                         .stride = {(size_t)b * c, c, 1}};
}

typedef struct bound {
    device *d;
    const experts *e;
    port_linear w1[EXPERTS + 1], w3[EXPERTS + 1], w2[EXPERTS + 1];
} bound;

static bound bind(check_case *t, const linear_setting *s, const experts *e) {
    bound b = {.d = linear_device(t, s), .e = e};
    for (uint32_t i = 0; i <= EXPERTS; i++) {
        b.w1[i] = linear_load(t, b.d, &e->w1[i]);
        b.w3[i] = linear_load(t, b.d, &e->w3[i]);
        b.w2[i] = linear_load(t, b.d, &e->w2[i]);
    }
    return b;
}

static void run(check_case *t, const bound *w, batch *b) {
    const experts *e = w->e;
    args_experts_up up = {
        .x = linear_matrix(b->x, DTYPE_F32, b->rows, HIDDEN),
        .ids = linear_matrix(b->ids, DTYPE_I32, b->rows, TOPK),
        .w1 = {w->w1, EXPERTS, 0},
        .w3 = {w->w3, EXPERTS, 0},
        .shared_w1 = {w->w1 + EXPERTS, 1, 0},
        .shared_w3 = {w->w3 + EXPERTS, 1, 0},
        .limit = (double)LIMIT,
        .y = cube(b->up, b->rows, SLOTS, e->width),
    };
    linear_launch(t, w->d, &(port_launch){CALL_EXPERTS_UP, "up", b->rows, &up});
    args_experts_down down = {
        .x = up.y,
        .ids = up.ids,
        .weights = linear_matrix(b->weights, DTYPE_F32, b->rows, TOPK),
        .w2 = {w->w2, EXPERTS, 0},
        .shared_w2 = {w->w2 + EXPERTS, 1, 0},
        .leaf = 128,
        .first_leaf = e->first_leaf,
        .leaves = e->leaves,
        .all_leaves = e->all_leaves,
        .cover = {e->cover, 2 * e->intervals},
        .y = cube(b->parts, e->intervals, b->rows, HIDDEN),
    };
    linear_launch(t, w->d, &(port_launch){CALL_EXPERTS_DOWN, "down", b->rows, &down});
}

static void hold(check_case *t, check_random *r, const linear_setting *s, const experts *e,
                 uint32_t rows) {
    batch b = make_batch(r, e, rows);
    float *up = malloc((size_t)rows * SLOTS * e->width * sizeof *up);
    float *parts = malloc((size_t)rows * e->intervals * HIDDEN * sizeof *parts);
    char what[96];
    bound w = bind(t, s, e);
    run(t, &w, &b);
    w.d->ops->close(w.d);
    uint64_t mode = flush_begin();
    for (uint32_t i = 0; i < rows; i++)
        want_row(e, s->profile, &b, i, up + (size_t)i * SLOTS * e->width, parts + i * HIDDEN,
                 (size_t)rows * HIDDEN);
    flush_restore(mode);
    snprintf(what, sizeof what, "up, %s, profile %d, %u rows", s->isa, (int)s->profile, rows);
    linear_same(t, b.up, up, (size_t)rows * SLOTS * e->width, what);
    snprintf(what, sizeof what, "down, %s, profile %d, %u rows", s->isa, (int)s->profile, rows);
    linear_same(t, b.parts, parts, (size_t)rows * e->intervals * HIDDEN, what);
    free(up);
    free(parts);
    drop_batch(&b);
}

static void sums_experts_by_leaf_in_ascending_order(check_case *t) {
    check_random r = check_seed(t);
    const char *isas[4];
    size_t count = linear_isas(isas);
    for (uint32_t form = 0; form < 2; form++) {
        experts e = make(&r, form == 1, 2, 2 + form, 5);
        for (size_t i = 0; i < count; i++) {
            hold(t, &r, &(linear_setting){isas[i], 1, PROFILE_F32}, &e, 1);
            hold(t, &r, &(linear_setting){isas[i], 3, PROFILE_F32}, &e, 17);
            hold(t, &r, &(linear_setting){isas[i], 1, PROFILE_BF16}, &e, 5);
        }
        drop(&e);
    }
}

/* More rows than are listed together, some experts chosen by more rows than one product takes. */
static void rows_of_one_expert_never_meet(check_case *t) {
    enum {
        ROWS = MOE_ROWS + 40
    };
    check_random r = check_seed(t);
    experts e = make(&r, true, 0, 2, 5);
    batch b = make_batch(&r, &e, ROWS);
    bound w = bind(t, &(linear_setting){NULL, 3, PROFILE_F32}, &e);
    run(t, &w, &b);
    size_t up = SLOTS * e.width;
    float *one_up = malloc(up * sizeof *one_up);
    float *one_part = malloc(e.intervals * HIDDEN * sizeof *one_part);
    for (uint32_t i = 0; i < ROWS; i += i < 3 || i > MOE_ROWS - 3 ? 1 : 9) {
        batch one = {1, b.x + i * HIDDEN, b.ids + i * TOPK, b.weights + i * TOPK, one_up, one_part};
        run(t, &w, &one);
        linear_same(t, b.up + i * up, one_up, up, "up");
        for (uint32_t k = 0; k < e.intervals; k++)
            linear_same(t, b.parts + ((size_t)k * ROWS + i) * HIDDEN, one_part + k * HIDDEN, HIDDEN,
                        "down");
    }
    w.d->ops->close(w.d);
    free(one_up);
    free(one_part);
    drop_batch(&b);
    drop(&e);
}

static const check_entry cases[] = {
    {"moe/sums-experts-by-leaf-in-ascending-order", sums_experts_by_leaf_in_ascending_order},
    {"moe/rows-of-one-expert-never-meet", rows_of_one_expert_never_meet},
};

int main(int argc, char **argv) {
    return check_main(argc, argv, cases, COUNT(cases));
}
