/* The collectives of a list (engine/run/share), over ranks as threads. */
#include "engine/run/share.h"
#include "tests/support/check.h"
#include "tests/support/ring.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORLD 3
#define ROWS  4
#define DIM   5

typedef struct scene {
    check_case *t;
    char stage[WORLD][2][4096];
} scene;

static share_stage stage_of(scene *s, uint32_t rank) {
    return (share_stage){.send = s->stage[rank][0],
                         .recv = s->stage[rank][1],
                         .send_bytes = 4096,
                         .recv_bytes = 4096};
}

static port_tensor matrix(void *data, tf_dtype dtype, uint32_t rows, uint32_t columns,
                          size_t stride) {
    return (port_tensor){data, dtype, 2, {rows, columns}, {stride, 1}};
}

static bool same(const float *got, const float *want, size_t count) {
    return memcmp(got, want, count * sizeof *got) == 0;
}

/* ---- rows ---- */

static const int64_t VOCAB[] = {0, 4, 7, 10};
static const int32_t IDS[ROWS] = {9, 0, 3, 7}; /* nobody asks rank 1 */

static tf_status rows_act(ring_seat *seat) {
    scene *s = seat->context;
    uint32_t rank = seat->x->rank;
    float x[ROWS][DIM];
    float y[ROWS][DIM + 2];
    int32_t ids[ROWS];
    memcpy(ids, IDS, sizeof ids);
    memset(y, 0x55, sizeof y);
    for (uint32_t i = 0; i < ROWS; i++) {
        bool own = ids[i] >= VOCAB[rank] && ids[i] < VOCAB[rank + 1];
        for (uint32_t k = 0; k < DIM; k++)
            x[i][k] = own ? (k == 0 ? -0.0f : (float)(ids[i] * 10 + (int)k)) : (float)NAN;
    }
    args_share_rows a = {.site = "embed",
                         .ids = {ids, DTYPE_I32, 1, {ROWS}, {1}},
                         .x = matrix(x, DTYPE_F32, ROWS, DIM, DIM),
                         .y = matrix(y, DTYPE_F32, ROWS, DIM, DIM + 2),
                         .begins = {VOCAB, WORLD + 1}};
    port_launch l = {CALL_SHARE_ROWS, "embed", ROWS, &a};
    share_stage stage = stage_of(s, rank);
    tf_status status = share_run(seat->x, &l, &stage, 0, &seat->err);
    for (uint32_t i = 0; status == TF_OK && i < ROWS; i++) {
        float want[DIM] = {-0.0f};
        for (uint32_t k = 1; k < DIM; k++)
            want[k] = (float)(ids[i] * 10 + (int)k);
        if (!same(y[i], want, DIM)) seat->wrong = true;
    }
    return status;
}

static void check_all(check_case *t, ring_act act) {
    ring r;
    scene *s = calloc(1, sizeof *s);
    if (s == NULL) abort();
    s->t = t;
    if (ring_open(t, &r, WORLD, 40)) {
        ring_run(&r, act, s);
        for (uint32_t i = 0; i < WORLD; i++) {
            CHECKF(t, r.seats[i].status == TF_OK, "rank %u: %s", i, r.seats[i].err.what);
            CHECKF(t, !r.seats[i].wrong, "rank %u has other values", i);
        }
        ring_close(&r);
    }
    free(s);
}

/* A row comes from its owner with its very bits: -0 stays -0, and no one else's row is looked at. */
static void rows_are_copied_from_their_owner(check_case *t) {
    check_all(t, rows_act);
}

/* ---- columns ---- */

static tf_status columns_act(ring_seat *seat) {
    static const int64_t begins[] = {0, 3, 4, 6};
    scene *s = seat->context;
    uint32_t rank = seat->x->rank;
    uint32_t own = (uint32_t)(begins[rank + 1] - begins[rank]);
    float x[ROWS][6];
    float y[ROWS][6];
    for (uint32_t i = 0; i < ROWS; i++) {
        for (uint32_t k = 0; k < own; k++)
            x[i][k] = i == 2 ? -0.0f : (float)(i * 100 + (uint32_t)begins[rank] + k);
    }
    args_share_columns a = {.site = "logits",
                            .x = matrix(x, DTYPE_F32, ROWS, own, 6),
                            .y = matrix(y, DTYPE_F32, ROWS, 6, 6),
                            .begins = {begins, WORLD + 1}};
    port_launch l = {CALL_SHARE_COLUMNS, "logits", ROWS, &a};
    share_stage stage = stage_of(s, rank);
    size_t send = 0;
    size_t recv = 0;
    share_need(&l, WORLD, &send, &recv);
    if (send != ROWS * own * sizeof(float) || recv != ROWS * 6 * sizeof(float)) seat->wrong = true;
    tf_status status = share_run(seat->x, &l, &stage, 0, &seat->err);
    for (uint32_t i = 0; status == TF_OK && i < ROWS; i++) {
        float want[6];
        for (uint32_t k = 0; k < 6; k++)
            want[k] = i == 2 ? -0.0f : (float)(i * 100 + k);
        if (!same(y[i], want, 6)) seat->wrong = true;
    }
    return status;
}

static void columns_go_to_where_they_begin(check_case *t) {
    check_all(t, columns_act);
}

/* ---- partials ---- */

static tf_status partials_act(ring_seat *seat) {
    /* Leaves 0-2, 3-5, 6-7 of 8: the intervals of canon_cover. */
    static const int64_t cover[] = {0, 2, 2, 3, 3, 4, 4, 6, 6, 8};
    static const int64_t owners[] = {0, 0, 1, 1, 2};
    static const uint32_t first[] = {0, 2, 4, 5};
    scene *s = seat->context;
    uint32_t rank = seat->x->rank;
    uint32_t own = first[rank + 1] - first[rank];
    float x[2][ROWS][DIM];
    float y[5][ROWS][DIM];
    for (uint32_t i = 0; i < own; i++) {
        for (uint32_t k = 0; k < ROWS * DIM; k++)
            x[i][k / DIM][k % DIM] = (float)((first[rank] + i) * 1000 + k);
    }
    args_share_partials a = {
        .site = "attn",
        .x = {x, DTYPE_F32, 3, {own, ROWS, DIM}, {ROWS * DIM, DIM, 1}},
        .y = {y, DTYPE_F32, 3, {5, ROWS, DIM}, {ROWS * DIM, DIM, 1}},
        .cover = {cover, 10},
        .owners = {owners, 5},
    };
    port_launch l = {CALL_SHARE_PARTIALS, "attn", ROWS, &a};
    share_stage stage = stage_of(s, rank);
    tf_status status = share_run(seat->x, &l, &stage, 0, &seat->err);
    for (uint32_t i = 0; status == TF_OK && i < 5; i++) {
        for (uint32_t k = 0; k < ROWS * DIM; k++) {
            if (y[i][k / DIM][k % DIM] != (float)(i * 1000 + k)) seat->wrong = true;
        }
    }
    return status;
}

static void partials_stand_in_the_order_of_their_leaves(check_case *t) {
    check_all(t, partials_act);
}

/* ---- best ---- */

static tf_status best_act(ring_seat *seat) {
    scene *s = seat->context;
    uint32_t rank = seat->x->rank;
    float x[ROWS][2];
    float y[WORLD][ROWS][2];
    for (uint32_t i = 0; i < ROWS; i++) {
        x[i][0] = (float)(rank + i);
        x[i][1] = (float)(rank * 10 + i);
    }
    args_share_best a = {
        .site = "choose",
        .x = matrix(x, DTYPE_F32, ROWS, 2, 2),
        .y = {y, DTYPE_F32, 3, {WORLD, ROWS, 2}, {ROWS * 2, 2, 1}},
    };
    port_launch l = {CALL_SHARE_BEST, "choose", ROWS, &a};
    share_stage stage = stage_of(s, rank);
    tf_status status = share_run(seat->x, &l, &stage, 0, &seat->err);
    for (uint32_t r = 0; status == TF_OK && r < WORLD; r++) {
        for (uint32_t i = 0; i < ROWS; i++) {
            if (y[r][i][1] != (float)(r * 10 + i)) seat->wrong = true;
        }
    }
    return status;
}

static void every_rank_gets_every_ranks_best(check_case *t) {
    check_all(t, best_act);
}

/* ---- decisions ---- */

static tf_status decided_act(ring_seat *seat) {
    scene *s = seat->context;
    float x[1][2] = {{1, 2}};
    float y[WORLD][1][2];
    args_share_best a = {
        .site = "choose",
        .x = matrix(x, DTYPE_F32, 1, 2, 2),
        .y = {y, DTYPE_F32, 3, {WORLD, 1, 2}, {2, 2, 1}},
    };
    port_launch l = {CALL_SHARE_BEST, "choose", 1, &a};
    share_stage stage = stage_of(s, seat->x->rank);
    return share_run(seat->x, &l, &stage, seat->x->rank == 1 ? 99 : 98, &seat->err);
}

/* A rank that decided otherwise is found before its numbers are taken. */
static void decisions_are_compared_with_every_exchange(check_case *t) {
    ring r;
    scene *s = calloc(1, sizeof *s);
    if (s == NULL) abort();
    if (ring_open(t, &r, WORLD, 0)) {
        ring_run(&r, decided_act, s);
        for (uint32_t i = 0; i < WORLD; i++)
            CHECK_U64(t, r.seats[i].err.word, TF_W_DECISION_DIFFERS);
        ring_close(&r);
    }
    free(s);
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"share/rows-are-copied-from-their-owner", rows_are_copied_from_their_owner},
        {"share/columns-go-to-where-they-begin", columns_go_to_where_they_begin},
        {"share/partials-stand-in-the-order-of-their-leaves",
         partials_stand_in_the_order_of_their_leaves},
        {"share/every-rank-gets-every-ranks-best", every_rank_gets_every_ranks_best},
        {"share/decisions-are-compared-with-every-exchange",
         decisions_are_compared_with_every_exchange},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
