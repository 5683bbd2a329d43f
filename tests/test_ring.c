/* Rows of state by position (engine/cpu ring): who writes where, and what drafts leave behind. */
#include "tests/support/launch.h"

#include <string.h>

#define SLOTS    3u
#define DIM      5u
#define STEPS    40u
#define WINDOW   6u
#define DRAFTS   3u
#define CAPACITY (WINDOW + DRAFTS + 1)
#define ROWS_MAX (SLOTS * (DRAFTS + 1))

/* Rows of one request that wrap the ring, more than once in a step. */
static void of_rows_that_meet_the_newest_stays(check_case *t) {
    check_random r = check_seed(t);
    device *d = launch_device(t, NULL, 3);
    for (uint32_t round = 0; d != NULL && round < 200; round++) {
        float ring[SLOTS][7][DIM];
        float want[SLOTS][7][DIM];
        float x[STEPS][DIM];
        int32_t slot = (int32_t)check_below(&r, SLOTS);
        uint32_t capacity = 1 + (uint32_t)check_below(&r, 7);
        uint32_t ratio = 1 + (uint32_t)check_below(&r, 2);
        uint32_t rows = 1 + (uint32_t)check_below(&r, STEPS);
        uint32_t start = (uint32_t)check_below(&r, 50);
        launch_fill(&r, &ring[0][0][0], SLOTS * 7 * DIM, false);
        launch_fill(&r, &x[0][0], STEPS * DIM, true);
        memcpy(want, ring, sizeof want);
        for (uint32_t p = start; p < start + rows; p++) {
            if (ratio == 1 || p % 2 == 1)
                memcpy(want[slot][p / ratio % capacity], x[p - start], sizeof x[0]);
        }
        args_store a = {.x = launch_2(x, DTYPE_F32, rows, DIM),
                        .where = {&slot, 1, NULL, start},
                        .ratio = ratio,
                        .y = {ring, DTYPE_F32, sizeof ring[0], DIM, DIM},
                        .capacity = capacity};
        launch_run(t, d, CALL_STORE, rows, &a);
        CHECKF(t, memcmp(ring, want, sizeof ring) == 0, "%u rows from %u, ratio %u, %u places",
               rows, start, ratio, capacity);
    }
    if (d != NULL) d->ops->close(d);
}

/* ---- several requests, whose drafts are partly taken back ---- */

/* What is so in the end, and where every request stands. */
typedef struct truth {
    float key[SLOTS][STEPS + DRAFTS + 1][DIM], gate[SLOTS][STEPS + DRAFTS + 1][DIM];
    float pair[SLOTS][STEPS + DRAFTS + 1][DIM]; /* what closing gives in one step of all rows */
    uint32_t next[SLOTS];
} truth;

/* A step: every request, in any order, with one to four rows; those from `good` on are drafts that
 * will not hold, and have other values. */
typedef struct draft_step {
    int32_t slots[ROWS_MAX];
    int64_t positions[ROWS_MAX];
    float key[ROWS_MAX][DIM], gate[ROWS_MAX][DIM];
    bool good[ROWS_MAX];
    uint32_t rows;
} draft_step;

static void add_request(check_random *r, truth *h, uint32_t slot, draft_step *s) {
    uint32_t rows = 1 + (uint32_t)check_below(r, DRAFTS + 1);
    uint32_t good = 1 + (uint32_t)check_below(r, rows);
    if (h->next[slot] >= STEPS) return;
    for (uint32_t i = 0; i < rows; i++, s->rows++) {
        uint32_t p = h->next[slot] + i;
        s->slots[s->rows] = (int32_t)slot;
        s->positions[s->rows] = p;
        s->good[s->rows] = i < good;
        launch_fill(r, s->key[s->rows], DIM, false);
        launch_fill(r, s->gate[s->rows], DIM, false);
        if (i >= good) continue;
        memcpy(s->key[s->rows], h->key[slot][p], sizeof s->key[0]);
        memcpy(s->gate[s->rows], h->gate[slot][p], sizeof s->gate[0]);
    }
    h->next[slot] += good;
}

static void make_step(check_random *r, truth *h, draft_step *s) {
    uint32_t first = (uint32_t)check_below(r, SLOTS);
    uint32_t turn = 1 + (uint32_t)check_below(r, SLOTS - 1);
    memset(s, 0, sizeof *s);
    for (uint32_t k = 0; k < SLOTS; k++)
        add_request(r, h, (first + k * turn) % SLOTS, s);
}

static void make_truth(check_random *r, truth *h) {
    memset(h, 0, sizeof *h);
    launch_fill(r, &h->key[0][0][0], sizeof h->key / sizeof(float), false);
    launch_fill(r, &h->gate[0][0][0], sizeof h->gate / sizeof(float), false);
}

static bool run_compress(check_case *t, device *d, draft_step *s, port_state ring,
                         float (*y)[DIM]) {
    args_compress a = {.keys = launch_2(s->key, DTYPE_F32, s->rows, DIM),
                       .gates = launch_2(s->gate, DTYPE_F32, s->rows, DIM),
                       .where = {s->slots, s->rows, s->positions, 0},
                       .ring = ring,
                       .capacity = CAPACITY,
                       .y = launch_2(y, DTYPE_F32, s->rows, DIM)};
    return launch_run(t, d, CALL_COMPRESS, s->rows, &a);
}

/* All rows of each request in one step. */
static bool close_at_once(check_case *t, device *d, truth *h) {
    static float ring[SLOTS][CAPACITY][2][DIM];
    bool held = true;
    for (int32_t slot = 0; held && slot < (int32_t)SLOTS; slot++) {
        args_compress a = {.keys = launch_2(h->key[slot], DTYPE_F32, STEPS + DRAFTS, DIM),
                           .gates = launch_2(h->gate[slot], DTYPE_F32, STEPS + DRAFTS, DIM),
                           .where = {&slot, 1, NULL, 0},
                           .ring = {ring, DTYPE_F32, sizeof ring[0], (size_t)2 * DIM, 2 * DIM},
                           .capacity = CAPACITY,
                           .y = launch_2(h->pair[slot], DTYPE_F32, STEPS + DRAFTS, DIM)};
        held = launch_run(t, d, CALL_COMPRESS, STEPS + DRAFTS, &a);
    }
    return held;
}

static void pairs_of_several_requests_survive_rejected_drafts(check_case *t) {
    static truth h;
    check_random r = check_seed(t);
    device *d = launch_device(t, NULL, 1);
    for (uint32_t round = 0; d != NULL && round < 50; round++) {
        static float ring[SLOTS][CAPACITY][2][DIM];
        port_state state = {ring, DTYPE_F32, sizeof ring[0], (size_t)2 * DIM, 2 * DIM};
        draft_step s;
        float y[ROWS_MAX][DIM];
        make_truth(&r, &h);
        memset(ring, 0, sizeof ring);
        if (!close_at_once(t, d, &h)) break;
        for (make_step(&r, &h, &s); s.rows > 0; make_step(&r, &h, &s)) {
            if (!run_compress(t, d, &s, state, y)) break;
            for (uint32_t i = 0; i < s.rows; i++) {
                const float *want = h.pair[s.slots[i]][s.positions[i]];
                CHECKF(t, !s.good[i] || memcmp(y[i], want, sizeof y[i]) == 0,
                       "round %u: slot %d position %d", round, s.slots[i], (int)s.positions[i]);
            }
        }
    }
    if (d != NULL) d->ops->close(d);
}

/* The newest WINDOW positions of a request, read back. */
static void check_window(check_case *t, device *d, const truth *h, int32_t slot, port_state ring) {
    float y[WINDOW][DIM];
    uint32_t next = h->next[slot];
    uint32_t rows = next < WINDOW ? next : WINDOW;
    args_fetch a = {.x = ring,
                    .where = {&slot, 1, NULL, next - rows},
                    .capacity = CAPACITY,
                    .y = launch_2(y, DTYPE_F32, rows, DIM)};
    if (rows == 0 || !launch_run(t, d, CALL_FETCH, rows, &a)) return;
    CHECKF(t, memcmp(y, h->key[slot][next - rows], rows * sizeof y[0]) == 0,
           "slot %d before position %u", slot, next);
}

static void a_window_is_whole_after_rejected_drafts(check_case *t) {
    static truth h;
    check_random r = check_seed(t);
    device *d = launch_device(t, NULL, 1);
    for (uint32_t round = 0; d != NULL && round < 50; round++) {
        float ring[SLOTS][CAPACITY][DIM];
        port_state state = {ring, DTYPE_F32, sizeof ring[0], DIM, DIM};
        draft_step s;
        make_truth(&r, &h);
        memset(ring, 0, sizeof ring);
        for (make_step(&r, &h, &s); s.rows > 0; make_step(&r, &h, &s)) {
            args_store a = {.x = launch_2(s.key, DTYPE_F32, s.rows, DIM),
                            .where = {s.slots, s.rows, s.positions, 0},
                            .ratio = 1,
                            .y = state,
                            .capacity = CAPACITY};
            if (!launch_run(t, d, CALL_STORE, s.rows, &a)) break;
            for (int32_t slot = 0; slot < (int32_t)SLOTS; slot++)
                check_window(t, d, &h, slot, state);
        }
    }
    if (d != NULL) d->ops->close(d);
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"ring/of-rows-that-meet-the-newest-stays", of_rows_that_meet_the_newest_stays},
        {"ring/pairs-of-several-requests-survive-rejected-drafts",
         pairs_of_several_requests_survive_rejected_drafts},
        {"ring/a-window-is-whole-after-rejected-drafts", a_window_is_whole_after_rejected_drafts},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
