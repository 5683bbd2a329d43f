/* The collectives of a list (engine/run/share), over ranks as threads. */
#include "engine/port/backends.h"
#include "engine/run/share.h"
#include "tests/support/check.h"
#include "tests/support/far.h"
#include "tests/support/ring.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORLD 3
#define ROWS  4
#define DIM   5

/* Whose memory the device's is, and whose the exchange takes. */
typedef struct scene {
    const char *name;
    bool far_device, far_exchange;
} scene;

static const scene scenes[] = {
    {"all in the host's memory", false, false},
    {"a device with memory of its own", true, false},
    {"an exchange within the device's memory", true, true},
};

/* A rank's side of a share: what lies in the device's memory is put and got. */
typedef struct side {
    device *device;
    share share;
    bool held;
} side;

static side side_open(ring_seat *seat) {
    const scene *s = seat->context;
    device_settings settings = {.threads = 1};
    side out = {.held = true};
    if (backend_device("cpu", &settings, &out.device, &seat->err) != TF_OK) abort();
    if (s->far_device) out.device = far_device(out.device);
    exchange *x = s->far_exchange ? far_exchange(seat->x) : seat->x;
    seat->x = x;
    out.share = (share){.device = out.device, .exchange = x};
    return out;
}

static void side_close(side *s) {
    share_close(&s->share);
    s->device->ops->close(s->device);
}

/* The device's copy of `bytes` at host. */
static void *put(side *s, const void *host, size_t bytes) {
    void *data = NULL;
    tf_error err = {0};
    s->held = s->held && s->device->ops->take(s->device, bytes, &data, &err) == TF_OK &&
              s->device->ops->write(s->device, data, host, bytes, &err) == TF_OK;
    return data;
}

static void get(side *s, void *host, const void *data, size_t bytes) {
    tf_error err = {0};
    s->held = s->held && s->device->ops->read(s->device, host, data, bytes, &err) == TF_OK;
}

static tf_status carry_out(side *s, ring_seat *seat, const port_launch *l, uint64_t decision) {
    tf_status status = share_reserve(&s->share, l, &seat->err);
    return status == TF_OK ? share_run(&s->share, l, decision, &seat->err) : status;
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
    side s = side_open(seat);
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
                         .ids = {put(&s, ids, sizeof ids), DTYPE_I32, 1, {ROWS}, {1}},
                         .x = matrix(put(&s, x, sizeof x), DTYPE_F32, ROWS, DIM, DIM),
                         .y = matrix(put(&s, y, sizeof y), DTYPE_F32, ROWS, DIM, DIM + 2),
                         .begins = {VOCAB, WORLD + 1}};
    port_launch l = {CALL_SHARE_ROWS, "embed", ROWS, &a};
    tf_status status = carry_out(&s, seat, &l, 0);
    get(&s, y, a.y.data, sizeof y);
    for (uint32_t i = 0; status == TF_OK && i < ROWS; i++) {
        float want[DIM] = {-0.0f};
        for (uint32_t k = 1; k < DIM; k++)
            want[k] = (float)(ids[i] * 10 + (int)k);
        if (!same(y[i], want, DIM)) seat->wrong = true;
    }
    if (!s.held) seat->wrong = true;
    side_close(&s);
    return status;
}

static void check_all(check_case *t, ring_act act) {
    for (size_t i = 0; i < COUNT(scenes); i++) {
        ring r;
        scene s = scenes[i];
        if (!ring_open(t, &r, WORLD, 40)) return;
        ring_run(&r, act, &s);
        for (uint32_t k = 0; k < WORLD; k++) {
            const ring_seat *seat = &r.seats[k];
            CHECKF(t, seat->status == TF_OK, "%s, rank %u: %s", s.name, k, seat->err.what);
            CHECKF(t, !seat->wrong, "%s: rank %u has other values", s.name, k);
        }
        ring_close(&r);
    }
}

/* A row comes from its owner with its very bits: -0 stays -0, and no one else's row is looked at. */
static void rows_are_copied_from_their_owner(check_case *t) {
    check_all(t, rows_act);
}

/* ---- columns ---- */

static tf_status columns_act(ring_seat *seat) {
    static const int64_t begins[] = {0, 3, 4, 6};
    side s = side_open(seat);
    uint32_t rank = seat->x->rank;
    uint32_t own = (uint32_t)(begins[rank + 1] - begins[rank]);
    float x[ROWS][6];
    float y[ROWS][6];
    for (uint32_t i = 0; i < ROWS; i++) {
        for (uint32_t k = 0; k < own; k++)
            x[i][k] = i == 2 ? -0.0f : (float)(i * 100 + (uint32_t)begins[rank] + k);
    }
    args_share_columns a = {.site = "logits",
                            .x = matrix(put(&s, x, sizeof x), DTYPE_F32, ROWS, own, 6),
                            .y = matrix(put(&s, y, sizeof y), DTYPE_F32, ROWS, 6, 6),
                            .begins = {begins, WORLD + 1}};
    port_launch l = {CALL_SHARE_COLUMNS, "logits", ROWS, &a};
    tf_status status = carry_out(&s, seat, &l, 0);
    if (s.share.send.bytes != ROWS * own * sizeof(float)) seat->wrong = true;
    if (s.share.recv.bytes != ROWS * 6 * sizeof(float)) seat->wrong = true;
    get(&s, y, a.y.data, sizeof y);
    for (uint32_t i = 0; status == TF_OK && i < ROWS; i++) {
        float want[6];
        for (uint32_t k = 0; k < 6; k++)
            want[k] = i == 2 ? -0.0f : (float)(i * 100 + k);
        if (!same(y[i], want, 6)) seat->wrong = true;
    }
    if (!s.held) seat->wrong = true;
    side_close(&s);
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
    side s = side_open(seat);
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
        .x = {put(&s, x, sizeof x), DTYPE_F32, 3, {own, ROWS, DIM}, {ROWS * DIM, DIM, 1}},
        .y = {put(&s, y, sizeof y), DTYPE_F32, 3, {5, ROWS, DIM}, {ROWS * DIM, DIM, 1}},
        .cover = {cover, 10},
        .owners = {owners, 5},
    };
    port_launch l = {CALL_SHARE_PARTIALS, "attn", ROWS, &a};
    tf_status status = carry_out(&s, seat, &l, 0);
    get(&s, y, a.y.data, sizeof y);
    for (uint32_t i = 0; status == TF_OK && i < 5; i++) {
        for (uint32_t k = 0; k < ROWS * DIM; k++) {
            if (y[i][k / DIM][k % DIM] != (float)(i * 1000 + k)) seat->wrong = true;
        }
    }
    if (!s.held) seat->wrong = true;
    side_close(&s);
    return status;
}

static void partials_stand_in_the_order_of_their_leaves(check_case *t) {
    check_all(t, partials_act);
}

/* ---- best ---- */

static tf_status best_act(ring_seat *seat) {
    side s = side_open(seat);
    uint32_t rank = seat->x->rank;
    float x[ROWS][2];
    float y[WORLD][ROWS][2];
    for (uint32_t i = 0; i < ROWS; i++) {
        x[i][0] = (float)(rank + i);
        x[i][1] = (float)(rank * 10 + i);
    }
    args_share_best a = {
        .site = "choose",
        .x = matrix(put(&s, x, sizeof x), DTYPE_F32, ROWS, 2, 2),
        .y = {put(&s, y, sizeof y), DTYPE_F32, 3, {WORLD, ROWS, 2}, {ROWS * 2, 2, 1}},
    };
    port_launch l = {CALL_SHARE_BEST, "choose", ROWS, &a};
    tf_status status = carry_out(&s, seat, &l, 0);
    get(&s, y, a.y.data, sizeof y);
    for (uint32_t r = 0; status == TF_OK && r < WORLD; r++) {
        for (uint32_t i = 0; i < ROWS; i++) {
            if (y[r][i][1] != (float)(r * 10 + i)) seat->wrong = true;
        }
    }
    if (!s.held) seat->wrong = true;
    side_close(&s);
    return status;
}

static void every_rank_gets_every_ranks_best(check_case *t) {
    check_all(t, best_act);
}

/* ---- decisions ---- */

static tf_status decided_act(ring_seat *seat) {
    side s = side_open(seat);
    float x[1][2] = {{1, 2}};
    float y[WORLD][1][2] = {{{0}}};
    args_share_best a = {
        .site = "choose",
        .x = matrix(put(&s, x, sizeof x), DTYPE_F32, 1, 2, 2),
        .y = {put(&s, y, sizeof y), DTYPE_F32, 3, {WORLD, 1, 2}, {2, 2, 1}},
    };
    port_launch l = {CALL_SHARE_BEST, "choose", 1, &a};
    tf_status status = carry_out(&s, seat, &l, seat->x->rank == 1 ? 99 : 98);
    side_close(&s);
    return status;
}

/* A rank that decided otherwise is found before its numbers are taken. */
static void decisions_are_compared_with_every_exchange(check_case *t) {
    ring r;
    scene s = scenes[0];
    if (ring_open(t, &r, WORLD, 0)) {
        ring_run(&r, decided_act, &s);
        for (uint32_t i = 0; i < WORLD; i++)
            CHECK_U64(t, r.seats[i].err.word, TF_W_DECISION_DIFFERS);
        ring_close(&r);
    }
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
