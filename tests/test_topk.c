/* Index scores and the choice of rows (engine/cpu topk, attend's scores). */
#include "engine/cpu/topk.h"
#include "tests/support/launch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MANY 300u

/* ---- the best k ---- */

typedef struct ranked {
    float value;
    int32_t index;
} ranked;

static int by_rule(const void *a, const void *b) {
    const ranked *x = a;
    const ranked *y = b;
    if (x->value != y->value) return x->value > y->value ? -1 : 1;
    return x->index - y->index;
}

static int by_index(const void *a, const void *b) {
    return ((const ranked *)a)->index - ((const ranked *)b)->index;
}

/* What a sort by value, then index gives; ascending by index. */
static void sorted_choice(const float *values, uint32_t n, uint32_t k, ranked *out) {
    for (uint32_t i = 0; i < n; i++)
        out[i] = (ranked){values[i], (int32_t)i};
    qsort(out, n, sizeof *out, by_rule);
    qsort(out, n < k ? n : k, sizeof *out, by_index);
}

static void the_best_are_those_of_a_sort(check_case *t) {
    check_random r = check_seed(t);
    for (int round = 0; round < 400; round++) {
        float values[MANY];
        uint32_t keys[MANY];
        int32_t got[MANY];
        ranked want[MANY];
        uint32_t n = 1 + (uint32_t)check_below(&r, MANY);
        uint32_t k = 1 + (uint32_t)check_below(&r, n + 3 < MANY ? n + 3 : MANY);
        launch_fill(&r, values, n, true);
        /* Few different values: ties decide. */
        for (uint32_t i = 0; round % 2 == 0 && i < n; i++)
            values[i] = (float)(int)check_below(&r, 5) - 2.0f;
        for (uint32_t i = 0; i < n; i++)
            keys[i] = topk_key(values[i]);
        uint32_t count = topk_choose(keys, n, k, got);
        sorted_choice(values, n, k, want);
        CHECK_U64(t, count, n < k ? n : k);
        for (uint32_t i = 0; i < count; i++)
            CHECKF(t, got[i] == want[i].index, "round %d: %u of %u of %u is %d, not %d", round, i,
                   k, n, got[i], want[i].index);
    }
}

static void keys_order_as_values_do(check_case *t) {
    static const float ascending[] = {-INFINITY, -3e38f, -1.0f, -1e-38f, 0.0f,
                                      1e-38f,    1.0f,   3e38f, INFINITY};
    for (size_t i = 0; i + 1 < COUNT(ascending); i++)
        CHECK(t, topk_key(ascending[i]) < topk_key(ascending[i + 1]));
    CHECK_U64(t, topk_key(-0.0f), topk_key(0.0f));
    CHECK(t, topk_is_nan(NAN) && topk_is_nan(-NAN));
    CHECK(t, !topk_is_nan(INFINITY) && !topk_is_nan(0.0f));
}

/* ---- scores ---- */

#define HEADS 19u
#define DIM   33u
#define KEYS  64u
#define ROWS  7u

typedef struct scene {
    float q[ROWS][HEADS][DIM], weights[ROWS][HEADS], keys[2][KEYS][DIM];
    int32_t slots[ROWS];
    int64_t positions[ROWS];
} scene;

static scene *make_scene(check_case *t) {
    static const int64_t positions[ROWS] = {0, 1, 2, 37, 90, 126, 127};
    check_random r = check_seed(t);
    scene *s = calloc(1, sizeof *s);
    if (s == NULL) abort();
    launch_fill(&r, &s->q[0][0][0], sizeof s->q / sizeof(float), true);
    launch_fill(&r, &s->weights[0][0], sizeof s->weights / sizeof(float), false);
    launch_fill(&r, &s->keys[0][0][0], sizeof s->keys / sizeof(float), false);
    memcpy(s->positions, positions, sizeof positions);
    for (uint32_t i = 0; i < ROWS; i++)
        s->slots[i] = i % 2;
    return s;
}

static bool run_scores(check_case *t, scene *s, const char *isa, uint32_t threads, float *y) {
    device *d = launch_device(t, isa, threads);
    if (d == NULL) return false;
    args_scores a = {.q = launch_3(s->q, DTYPE_F32, ROWS, HEADS, DIM),
                     .weights = launch_2(s->weights, DTYPE_F32, ROWS, HEADS),
                     .scale = 0.125,
                     .keys = {s->keys, DTYPE_F32, sizeof s->keys[0], DIM, DIM},
                     .capacity = KEYS,
                     .ratio = 2,
                     .where = {s->slots, ROWS, s->positions, 0},
                     .y = launch_2(y, DTYPE_F32, ROWS, KEYS)};
    bool held = launch_run(t, d, CALL_SCORES, ROWS, &a);
    d->ops->close(d);
    return held;
}

static void scores_are_weighed_relus_of_rows_in_sight(check_case *t) {
    static float y[ROWS][KEYS];
    scene *s = make_scene(t);
    for (uint32_t i = 0; i < ROWS * KEYS; i++)
        (&y[0][0])[i] = 7777.0f;
    if (run_scores(t, s, NULL, 1, &y[0][0])) {
        for (uint32_t i = 0; i < ROWS; i++) {
            uint32_t visible = (uint32_t)(s->positions[i] + 1) / 2;
            for (uint32_t j = 0; j < KEYS; j++) {
                double sum = 0;
                double size = 1;
                for (uint32_t h = 0; h < HEADS; h++) {
                    double dot = 0;
                    for (uint32_t k = 0; k < DIM; k++)
                        dot += (double)s->q[i][h][k] * (double)s->keys[i % 2][j][k];
                    if (dot > 0) sum += 0.125 * (double)s->weights[i][h] * dot;
                    size += fabs(dot);
                }
                double got = (double)y[i][j];
                if (j >= visible)
                    CHECKF(t, y[i][j] == 7777.0f, "row %u score %u is out of sight", i, j);
                else
                    CHECKF(t, fabs(got - sum) < 1e-5 * size, "row %u score %u: %g, not %g", i, j,
                           got, sum);
            }
        }
    }
    free(s);
}

static void scores_have_the_same_bits_everywhere(check_case *t) {
    static float want[ROWS][KEYS];
    static float got[ROWS][KEYS];
    scene *s = make_scene(t);
    memset(want, 0, sizeof want);
    memset(got, 0, sizeof got);
    run_scores(t, s, "scalar", 1, &want[0][0]);
    for (const char *const *isa = launch_isas(); *isa != NULL; isa++) {
        run_scores(t, s, *isa, 3, &got[0][0]);
        CHECKF(t, memcmp(got, want, sizeof got) == 0, "%s differs", *isa);
    }
    free(s);
}

/* ---- rows and blocks ---- */

#define BLOCK 4u
#define KEPT  3u

static bool choose(check_case *t, float *scores, int64_t position, int32_t *candidates,
                   int32_t *rows, tf_error *err) {
    device *d = launch_device(t, NULL, 1);
    if (d == NULL) return false;
    args_candidates c = {.scores = launch_2(scores, DTYPE_F32, 1, KEYS),
                         .ratio = 1,
                         .block = BLOCK,
                         .topk = KEPT,
                         .where = {NULL, 0, &position, 0},
                         .y = launch_2(candidates, DTYPE_I32, 1, KEPT)};
    args_topk a = {.scores = launch_2(scores, DTYPE_F32, 1, KEYS),
                   .candidates = launch_2(candidates, DTYPE_I32, 1, KEPT),
                   .block = BLOCK,
                   .ratio = 1,
                   .topk = 6,
                   .where = {NULL, 0, &position, 0},
                   .y = launch_2(rows, DTYPE_I32, 1, 6)};
    bool held = launch_try(d, CALL_CANDIDATES, 1, &c, err) == TF_OK &&
                launch_try(d, CALL_TOPK, 1, &a, err) == TF_OK;
    d->ops->close(d);
    return held;
}

static void blocks_are_kept_by_their_best_row_and_the_newest_always(check_case *t) {
    float scores[KEYS] = {0};
    int32_t blocks[KEPT];
    int32_t rows[6];
    tf_error err = {0};
    /* 22 rows in sight, blocks 0 to 5, the last of them short and the worst. */
    for (uint32_t j = 0; j < KEYS; j++)
        scores[j] = j < 22 ? -(float)j : 100.0f;
    scores[9] = 5.0f;  /* block 2 */
    scores[13] = 5.0f; /* block 3: a tie that block 2 wins only with room for one */
    CHECK(t, choose(t, scores, 21, blocks, rows, &err));
    CHECK(t, blocks[0] == 2 && blocks[1] == 3 && blocks[2] == 5);
    /* Only rows of those blocks are chosen: 8-11, 12-15, 20-21. */
    static const int32_t want[6] = {8, 9, 10, 11, 12, 13};
    CHECK(t, memcmp(rows, want, sizeof want) == 0);
    /* Without room a tie goes to the lower block. */
    scores[1] = 9.0f;
    CHECK(t, choose(t, scores, 21, blocks, rows, &err));
    CHECK(t, blocks[0] == 0 && blocks[1] == 2 && blocks[2] == 5);
}

static void few_rows_are_all_chosen_and_none_is_invented(check_case *t) {
    float scores[KEYS] = {1, 2, 3};
    int32_t blocks[KEPT];
    int32_t rows[6];
    tf_error err = {0};
    CHECK(t, choose(t, scores, 2, blocks, rows, &err));
    CHECK(t, blocks[0] == 0 && blocks[1] == -1 && blocks[2] == -1);
    CHECK(t, rows[0] == 0 && rows[2] == 2 && rows[3] == -1 && rows[5] == -1);
}

static void a_nan_is_refused_by_name(check_case *t) {
    float scores[KEYS] = {0};
    int32_t blocks[KEPT];
    int32_t rows[6];
    tf_error err = {0};
    scores[7] = NAN;
    CHECK(t, choose(t, scores, 5, blocks, rows, &err)); /* out of sight */
    CHECK(t, !choose(t, scores, 20, blocks, rows, &err));
    CHECK_U64(t, err.word, TF_W_NOT_A_NUMBER);
    CHECKF(t, strstr(err.found, "7") != NULL, "%s", err.found);
}

/* At ratio 2 a row is in sight from its second position on. */
static void an_open_pair_is_out_of_sight(check_case *t) {
    float scores[KEYS] = {1, 2, 3, 4, 5, 6};
    device *d = launch_device(t, NULL, 1);
    for (int64_t position = 0; d != NULL && position < 12; position++) {
        int32_t rows[6];
        args_topk a = {.scores = launch_2(scores, DTYPE_F32, 1, KEYS),
                       .block = BLOCK,
                       .ratio = 2,
                       .topk = 6,
                       .where = {NULL, 0, &position, 0},
                       .y = launch_2(rows, DTYPE_I32, 1, 6)};
        launch_run(t, d, CALL_TOPK, 1, &a);
        for (int32_t k = 0; k < 6; k++)
            CHECKF(t, rows[k] == (2 * k + 1 <= position ? k : -1), "position %lld: rows[%d] is %d",
                   (long long)position, k, rows[k]);
    }
    if (d != NULL) d->ops->close(d);
}

/* ---- many rows ---- */

#define WIDE  4096u
#define STEP  17u
#define TAKEN 64u

typedef struct wide_choice {
    float scores[STEP][WIDE];
    int64_t positions[STEP];
    int32_t blocks[STEP][TAKEN], rows[STEP][TAKEN];
} wide_choice;

/* Rows [begin, begin + count) in one launch; by the blocks of the first, then rows of those. */
static tf_status choose_wide(device *d, wide_choice *w, uint32_t begin, uint32_t count,
                             tf_error *err) {
    port_where where = {NULL, 0, w->positions + begin, 0};
    port_tensor scores = launch_2(w->scores[begin], DTYPE_F32, count, WIDE);
    port_tensor blocks = launch_2(w->blocks[begin], DTYPE_I32, count, TAKEN);
    args_candidates c = {scores, 2, 8, TAKEN, where, blocks};
    args_topk a = {
        scores, blocks, 8, 2, TAKEN, where, launch_2(w->rows[begin], DTYPE_I32, count, TAKEN)};
    tf_status status = launch_try(d, CALL_CANDIDATES, count, &c, err);
    return status == TF_OK ? launch_try(d, CALL_TOPK, count, &a, err) : status;
}

static void make_wide(check_random *r, wide_choice *w) {
    memset(w, 0, sizeof *w);
    launch_fill(r, w->scores[0], STEP * WIDE, true);
    for (uint32_t i = 0; i < STEP; i++)
        w->positions[i] = (int64_t)check_below(r, 2 * WIDE);
}

static void rows_choose_for_themselves_on_every_thread(check_case *t) {
    static wide_choice w;
    static wide_choice alone;
    check_random r = check_seed(t);
    tf_error err = {0};
    device *one = launch_device(t, NULL, 1);
    device *three = launch_device(t, NULL, 3);
    make_wide(&r, &w);
    alone = w;
    for (uint32_t i = 0; one != NULL && i < STEP; i++)
        CHECK(t, choose_wide(one, &alone, i, 1, &err) == TF_OK);
    if (three != NULL) CHECK(t, choose_wide(three, &w, 0, STEP, &err) == TF_OK);
    CHECK(t, memcmp(w.blocks, alone.blocks, sizeof w.blocks) == 0);
    CHECK(t, memcmp(w.rows, alone.rows, sizeof w.rows) == 0);
    if (one != NULL) one->ops->close(one);
    if (three != NULL) three->ops->close(three);
}

/* Whoever meets it first: the lowest row's first one is named. */
static void of_several_nans_the_first_is_named(check_case *t) {
    static wide_choice w;
    check_random r = check_seed(t);
    device *d = launch_device(t, NULL, 3);
    for (uint32_t round = 0; d != NULL && round < 20; round++) {
        tf_error err = {0};
        make_wide(&r, &w);
        w.positions[5] = w.positions[11] = 2 * WIDE - 1;
        w.scores[5][3000] = w.scores[5][4000] = w.scores[11][1] = NAN;
        CHECK(t, choose_wide(d, &w, 0, STEP, &err) == TF_MISMATCH);
        CHECKF(t, strstr(err.what, "row 5") != NULL, "%s", err.what);
        CHECKF(t, strstr(err.found, "3000") != NULL, "%s", err.found);
    }
    if (d != NULL) d->ops->close(d);
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"topk/the-best-are-those-of-a-sort", the_best_are_those_of_a_sort},
        {"topk/keys-order-as-values-do", keys_order_as_values_do},
        {"topk/scores-are-weighed-relus-of-rows-in-sight",
         scores_are_weighed_relus_of_rows_in_sight},
        {"topk/scores-have-the-same-bits-everywhere", scores_have_the_same_bits_everywhere},
        {"topk/blocks-are-kept-by-their-best-row-and-the-newest-always",
         blocks_are_kept_by_their_best_row_and_the_newest_always},
        {"topk/few-rows-are-all-chosen-and-none-is-invented",
         few_rows_are_all_chosen_and_none_is_invented},
        {"topk/a-nan-is-refused-by-name", a_nan_is_refused_by_name},
        {"topk/an-open-pair-is-out-of-sight", an_open_pair_is_out_of_sight},
        {"topk/rows-choose-for-themselves-on-every-thread",
         rows_choose_for_themselves_on_every_thread},
        {"topk/of-several-nans-the-first-is-named", of_several_nans_the_first_is_named},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
