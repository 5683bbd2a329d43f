/* Kernels whose rows do not meet (engine/cpu norm, rope, mhc, engram, choice): the same bits by every
 * number of rows and threads, and what a row's own setting is. */
#include "engine/canon/ropetable.h"
#include "engine/cpu/norm.h"
#include "tests/support/launch.h"
#include "tests/support/linears.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define S ROWS_STREAMS

static void same(check_case *t, const char *what, size_t n, const float *got, const float *want) {
    linear_same(t, got, want, n, what);
}

#define ROWS  17u
#define HEADS 3u
#define DIM   44u
#define ROPE  34u /* seventeen pairs */

typedef struct work {
    float x[ROWS][HEADS * DIM + 5], w[HEADS * DIM]; /* rows lie apart */
    float turned[ROWS][HEADS][DIM];
    float streams[ROWS][S][DIM], pre[ROWS][S], post[ROWS][S], comb[ROWS][S][S];
    float norm[ROWS][HEADS * DIM], collapsed[ROWS][DIM], best[ROWS][2];
    int64_t positions[ROWS], seeds[ROWS];
    double temperatures[ROWS];
    int32_t slots[ROWS];
} work;

static work *make_work(check_case *t) {
    check_random r = check_seed(t);
    work *w = calloc(1, sizeof *w);
    launch_fill(&r, w->x[0], sizeof w->x / sizeof(float), true);
    launch_fill(&r, w->w, HEADS * DIM, false);
    launch_fill(&r, w->turned[0][0], sizeof w->turned / sizeof(float), true);
    launch_fill(&r, w->streams[0][0], sizeof w->streams / sizeof(float), true);
    launch_fill(&r, w->pre[0], ROWS * S, false);
    launch_fill(&r, w->post[0], ROWS * S, false);
    launch_fill(&r, w->comb[0][0], (size_t)ROWS * S * S, false);
    for (uint32_t i = 0; i < ROWS; i++) {
        w->positions[i] = (int64_t)check_below(&r, 100000);
        w->seeds[i] = (int64_t)check_next(&r);
        w->temperatures[i] = i % 3 == 0 ? 0.0 : 0.5 * i;
        w->slots[i] = (int32_t)i;
    }
    return w;
}

static void best(check_case *t, device *d, work *w, uint32_t first, uint32_t rows, bool alone) {
    port_tensor logits = launch_2(w->x[first], DTYPE_F32, rows, HEADS * DIM);
    logits.stride[0] = HEADS * DIM + 5;
    args_best a = {
        .logits = logits,
        .first = 7,
        .temperature = launch_1(w->temperatures + first, DTYPE_F64, rows),
        .seed = launch_1(w->seeds + first, DTYPE_I64, rows),
        .where = {w->slots + first, alone ? 1 : rows, w->positions + first, 0},
        .ahead = 1,
        .y = launch_2(w->best[first], DTYPE_F32, rows, 2),
    };
    launch_run(t, d, CALL_BEST, rows, &a);
}

static void do_work(check_case *t, work *w, const char *isa, uint32_t threads, uint32_t rows) {
    device *d = launch_device(t, isa, threads);
    if (d == NULL) return;
    port_tensor x = launch_2(w->x, DTYPE_F32, rows, HEADS * DIM);
    x.stride[0] = HEADS * DIM + 5;
    args_norm n = {.x = x,
                   .w = launch_1(w->w, DTYPE_F32, HEADS * DIM),
                   .eps = 1e-20,
                   .y = launch_2(w->norm, DTYPE_F32, rows, HEADS * DIM)};
    launch_run(t, d, CALL_NORM, rows, &n);
    args_rope turn = {.x = launch_3(w->turned, DTYPE_F32, rows, HEADS, DIM),
                      .heads = HEADS,
                      .dim = DIM,
                      .rope = ROPE,
                      .table = "yarn",
                      .theta = 160000,
                      .factor = 16,
                      .beta_fast = 32,
                      .beta_slow = 1,
                      .original = 65536,
                      .floor = 2,
                      .where = {NULL, 0, w->positions, 0}};
    launch_run(t, d, CALL_ROPE, rows, &turn);
    args_collapse c = {.streams = launch_3(w->streams, DTYPE_F32, rows, S, DIM),
                       .pre = launch_2(w->pre, DTYPE_F32, rows, S),
                       .y = launch_2(w->collapsed, DTYPE_F32, rows, DIM)};
    launch_run(t, d, CALL_COLLAPSE, rows, &c);
    args_post p = {.x = c.y,
                   .post = launch_2(w->post, DTYPE_F32, rows, S),
                   .comb = launch_3(w->comb, DTYPE_F32, rows, S, S),
                   .streams = c.streams};
    launch_run(t, d, CALL_POST, rows, &p);
    best(t, d, w, 0, rows, false);
    d->ops->close(d);
}

static void rows_do_not_see_each_other(check_case *t) {
    work *start = make_work(t);
    work *want = malloc(sizeof *want);
    work *got = malloc(sizeof *got);
    *want = *start;
    do_work(t, want, "scalar", 1, ROWS);
    for (const char *const *isa = launch_isas(); *isa != NULL; isa++) {
        for (uint32_t rows = 1; rows <= ROWS && !check_failed(t); rows++) {
            *got = *start;
            do_work(t, got, *isa, rows % 2 == 0 ? 1 : 3, rows);
            same(t, "norm", rows * sizeof got->norm[0] / 4, got->norm[0], want->norm[0]);
            same(t, "rope", rows * sizeof got->turned[0] / 4, got->turned[0][0],
                 want->turned[0][0]);
            same(t, "collapse", rows * (size_t)DIM, got->collapsed[0], want->collapsed[0]);
            same(t, "post", rows * sizeof got->streams[0] / 4, got->streams[0][0],
                 want->streams[0][0]);
            same(t, "best", rows * (size_t)2, got->best[0], want->best[0]);
            CHECK(t, rows == ROWS || memcmp(got->streams[rows], start->streams[rows],
                                            sizeof got->streams[rows]) == 0);
        }
    }
    free(start);
    free(want);
    free(got);
}

/* Large enough that the team shares the rows. */
static void a_team_shares_rows(check_case *t) {
    enum {
        MANY = 230,
        N = 2048
    };
    check_random r = check_seed(t);
    float *x = malloc(sizeof(float) * MANY * N);
    float *y[2] = {malloc(sizeof(float) * MANY * N), malloc(sizeof(float) * MANY * N)};
    launch_fill(&r, x, (size_t)MANY * N, true);
    for (uint32_t k = 0; k < 2; k++) {
        device *d = launch_device(t, NULL, k == 0 ? 1 : 3);
        args_norm a = {.x = launch_2(x, DTYPE_F32, MANY, N),
                       .w = launch_1(x, DTYPE_F32, N),
                       .eps = 1e-20,
                       .y = launch_2(y[k], DTYPE_F32, MANY, N)};
        memset(y[k], 0xff, sizeof(float) * MANY * N);
        if (d == NULL) continue;
        launch_run(t, d, CALL_NORM, MANY, &a);
        d->ops->close(d);
    }
    same(t, "norm by three threads", (size_t)MANY * N, y[1], y[0]);
    CHECK(t, !isnan(y[0][(size_t)MANY * N - 1]));
    free(x);
    free(y[0]);
    free(y[1]);
}

/* A device keeps some frequencies; every launch gets its own all the same. */
static void tables_of_many_kinds_do_not_mix(check_case *t) {
    device *d = launch_device(t, NULL, 1);
    if (d == NULL) return;
    for (uint32_t k = 0; k < 40; k++) {
        uint32_t kind = k * 7 % 6;
        rope_spec spec = {8 + 2 * (kind % 2), kind < 4 ? 10000 : 160000, kind % 3 == 0, 16, 32, 1,
                          1024 + kind / 4};
        double freq[ROPE_PAIRS_MAX];
        float cos_sin[10];
        float x[10] = {0};
        int64_t position = 900 + k;
        for (uint32_t i = 0; i < spec.rope / 2; i++)
            x[2 * i] = 1.0f; /* turns into cosine and sine */
        args_rope a = {.x = launch_3(x, DTYPE_F32, 1, 1, spec.rope),
                       .heads = 1,
                       .dim = spec.rope,
                       .rope = spec.rope,
                       .table = spec.yarn ? "yarn" : "plain",
                       .theta = spec.theta,
                       .factor = spec.factor,
                       .beta_fast = spec.beta_fast,
                       .beta_slow = spec.beta_slow,
                       .original = spec.original,
                       .floor = 1,
                       .where = {NULL, 0, &position, 0}};
        launch_run(t, d, CALL_ROPE, 1, &a);
        ropetable_frequencies(&spec, freq);
        ropetable_row(freq, spec.rope / 2, position, cos_sin);
        same(t, "rope", spec.rope, x, cos_sin);
    }
    d->ops->close(d);
}

/* ---- the n-gram memory ---- */

/* A key that is no number must not pass as one that says nothing. */
static void a_nan_key_is_not_hidden(check_case *t) {
    float streams[1][S][2] = {{{1, 2}, {3, 4}, {5, 6}, {7, 8}}};
    float kv[1][(S + 1) * 2] = {{1, 1, NAN, 1, 1, 1, 1, 1, 1, 1}};
    float ones[S][2] = {{1, 1}, {1, 1}, {1, 1}, {1, 1}};
    device *d = launch_device(t, NULL, 1);
    if (d == NULL) return;
    args_engram a = {.streams = launch_3(streams, DTYPE_F32, 1, S, 2),
                     .kv = launch_2(kv, DTYPE_F32, 1, (S + 1) * 2),
                     .q_weight = launch_2(ones, DTYPE_F32, S, 2),
                     .k_weight = launch_2(ones, DTYPE_F32, S, 2),
                     .eps = 1e-20,
                     .floor = 1e-6};
    launch_run(t, d, CALL_ENGRAM, 1, &a);
    CHECK(t, isnan(streams[0][1][0]) && isnan(streams[0][1][1]));
    CHECK(t, !isnan(streams[0][0][0]) && !isnan(streams[0][2][0]));
    d->ops->close(d);
}

/* ---- tokens ---- */

/* A row's draw depends on its own temperature, seed and position, not on the step it is part of. */
static void a_draw_is_its_rows_alone(check_case *t) {
    work *together = make_work(t);
    device *d = launch_device(t, NULL, 2);
    if (d == NULL) return;
    work *alone = malloc(sizeof *alone);
    *alone = *together;
    best(t, d, together, 0, ROWS, false);
    for (uint32_t i = 0; i < ROWS; i++)
        best(t, d, alone, i, 1, i % 2 == 0);
    same(t, "best", (size_t)2 * ROWS, alone->best[0], together->best[0]);
    /* The same token for a row that ends one position earlier and looks one further ahead. */
    for (uint32_t i = 0; i < ROWS; i++) {
        port_tensor logits = launch_2(alone->x[i], DTYPE_F32, 1, HEADS * DIM);
        args_best a = {
            .logits = logits,
            .first = 7,
            .temperature = launch_1(alone->temperatures + i, DTYPE_F64, 1),
            .seed = launch_1(alone->seeds + i, DTYPE_I64, 1),
            .where = {alone->slots, 1, NULL, alone->positions[i] - 4},
            .ahead = 5,
            .y = launch_2(alone->best[i], DTYPE_F32, 1, 2),
        };
        launch_run(t, d, CALL_BEST, 1, &a);
    }
    same(t, "best, further ahead", (size_t)2 * ROWS, alone->best[0], together->best[0]);
    free(together);
    free(alone);
    d->ops->close(d);
}

/* However cold: nothing overflows, and the best logit is drawn. */
static void a_cold_draw_is_the_best(check_case *t) {
    static const double cold[] = {0.0, 1e-300, 1e-45, 1e-39, 1e-37, 1e-20, 1e-6};
    float logits[5] = {-3.0f, 40.0f, 5.0f, 60.0f, 59.0f};
    device *d = launch_device(t, NULL, 1);
    if (d == NULL) return;
    for (size_t i = 0; i < COUNT(cold); i++) {
        int32_t slot = 0;
        int64_t seed = (int64_t)i;
        double temperature = cold[i];
        float y[2] = {0};
        args_best a = {
            .logits = launch_2(logits, DTYPE_F32, 1, 5),
            .temperature = launch_1(&temperature, DTYPE_F64, 1),
            .seed = launch_1(&seed, DTYPE_I64, 1),
            .where = {&slot, 1, NULL, 11},
            .ahead = 1,
            .y = launch_2(y, DTYPE_F32, 1, 2),
        };
        launch_run(t, d, CALL_BEST, 1, &a);
        CHECKF(t, y[1] == 3.0f && isfinite(y[0]), "temperature %g: token %g of value %g", cold[i],
               (double)y[1], (double)y[0]);
    }
    d->ops->close(d);
}

static const check_entry cases[] = {
    {"rows/rows-do-not-see-each-other", rows_do_not_see_each_other},
    {"rows/a-team-shares-rows", a_team_shares_rows},
    {"rope/tables-of-many-kinds-do-not-mix", tables_of_many_kinds_do_not_mix},
    {"engram/a-nan-key-is-not-hidden", a_nan_key_is_not_hidden},
    {"choice/a-draw-is-its-rows-alone", a_draw_is_its_rows_alone},
    {"choice/a-cold-draw-is-the-best", a_cold_draw_is_the_best},
};

int main(int argc, char **argv) {
    return check_main(argc, argv, cases, COUNT(cases));
}
