/* Attention, its rings and its choice of rows (engine/cpu attend, ring, topk). */
#include "engine/canon/flush.h"
#include "engine/cpu/attend.h"
#include "engine/cpu/topk.h"
#include "engine/cpu/where.h"
#include "tests/support/launch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HEADS    18u
#define DIM      40u
#define WINDOW   5u
#define CAPACITY 9u /* of the ring: window and what a step may take back */
#define SLOTS    3u
#define LONG     16u /* compressed rows a slot can hold */
#define TOPK     4u
#define STEPS    24u

/* ---- a request's history: every position's key, and what each position attends ---- */

typedef struct history {
    float key[SLOTS][STEPS][DIM];
    float query[SLOTS][STEPS][HEADS][DIM];
    float rows[SLOTS][LONG][DIM];
    int32_t choice[SLOTS][STEPS][TOPK];
    float sink[HEADS];
} history;

static void make_history(check_random *r, history *h) {
    launch_fill(r, &h->key[0][0][0], SLOTS * STEPS * DIM, false);
    launch_fill(r, &h->query[0][0][0][0], (size_t)SLOTS * STEPS * HEADS * DIM, false);
    launch_fill(r, &h->rows[0][0][0], SLOTS * LONG * DIM, false);
    launch_fill(r, h->sink, HEADS, false);
    for (uint32_t s = 0; s < SLOTS; s++) {
        for (uint32_t p = 0; p < STEPS; p++) {
            uint32_t count = p < TOPK ? p : TOPK - (uint32_t)check_below(r, 2);
            for (uint32_t k = 0; k < TOPK; k++)
                h->choice[s][p][k] = k < count ? (int32_t)(k * 3 + check_below(r, 3)) : -1;
        }
    }
}

/* The formula in double: chosen rows, window positions, the sink in the sum alone. */
static void oracle(const history *h, uint32_t slot, uint32_t p, uint32_t head, double *out) {
    const float *keys[TOPK + WINDOW];
    double weight[TOPK + WINDOW];
    uint32_t count = 0;
    for (uint32_t k = 0; k < TOPK && h->choice[slot][p][k] >= 0; k++)
        keys[count++] = h->rows[slot][h->choice[slot][p][k]];
    for (uint32_t q = p < WINDOW ? 0 : p - WINDOW + 1; q <= p; q++)
        keys[count++] = h->key[slot][q];
    double sum = exp((double)h->sink[head]);
    for (uint32_t j = 0; j < count; j++) {
        double s = 0;
        for (uint32_t k = 0; k < DIM; k++)
            s += (double)h->query[slot][p][head][k] * (double)keys[j][k];
        weight[j] = exp(s * 0.25);
        sum += weight[j];
    }
    for (uint32_t k = 0; k < DIM; k++) {
        out[k] = 0;
        for (uint32_t j = 0; j < count; j++)
            out[k] += weight[j] / sum * (double)keys[j][k];
    }
}

/* State of all slots, as an executor would lay it out. */
typedef struct scene {
    device *d;
    const history *h;
    float ring[SLOTS][CAPACITY][DIM];
    float rows[SLOTS][LONG][DIM];
} scene;

static bool scene_open(check_case *t, scene *s, const history *h, const char *isa,
                       uint32_t threads) {
    memset(s, 0, sizeof *s);
    s->h = h;
    s->d = launch_device(t, isa, threads);
    memcpy(s->rows, h->rows, sizeof s->rows);
    return s->d != NULL;
}

static void scene_close(scene *s) {
    if (s->d != NULL) s->d->ops->close(s->d);
}

static port_state ring_of(scene *s) {
    return (port_state){s->ring, DTYPE_F32, sizeof s->ring[0], DIM, DIM};
}

#define ROWS_MAX 20u

/* Rows of a step: position and slot of each; y [rows][HEADS][DIM]. */
static bool step(check_case *t, scene *s, const int32_t *slots, const int64_t *positions,
                 uint32_t rows, float *y) {
    static float q[ROWS_MAX][HEADS][DIM];
    static float kv[ROWS_MAX][DIM];
    static int32_t choice[ROWS_MAX][TOPK];
    float sink[HEADS];
    memcpy(sink, s->h->sink, sizeof sink);
    for (uint32_t i = 0; i < rows; i++) {
        memcpy(q[i], s->h->query[slots[i]][positions[i]], sizeof q[i]);
        memcpy(kv[i], s->h->key[slots[i]][positions[i]], sizeof kv[i]);
        memcpy(choice[i], s->h->choice[slots[i]][positions[i]], sizeof choice[i]);
    }
    port_where where = {slots, rows, positions, 0};
    args_attend a = {
        .q = launch_3(q, DTYPE_F32, rows, HEADS, DIM),
        .kv = launch_2(kv, DTYPE_F32, rows, DIM),
        .sink = launch_1(sink, DTYPE_F32, HEADS),
        .scale = 0.25,
        .window = WINDOW,
        .ring = ring_of(s),
        .capacity = CAPACITY,
        .rows = {s->rows, DTYPE_F32, sizeof s->rows[0], DIM, DIM},
        .rows_capacity = LONG,
        .choice = launch_2(choice, DTYPE_I32, rows, TOPK),
        .causal = true,
        .where = where,
        .y = launch_3(y, DTYPE_F32, rows, HEADS, DIM),
    };
    args_store store = {.x = launch_2(kv, DTYPE_F32, rows, DIM),
                        .where = where,
                        .ratio = 1,
                        .y = ring_of(s),
                        .capacity = CAPACITY};
    return launch_run(t, s->d, CALL_ATTEND, rows, &a) &&
           launch_run(t, s->d, CALL_STORE, rows, &store);
}

/* Every position of every slot, one row a step: what other ways of running must equal. */
static void run_alone(check_case *t, const history *h, const char *isa, float *y) {
    scene s;
    if (scene_open(t, &s, h, isa, 1)) {
        for (int32_t slot = 0; slot < (int32_t)SLOTS; slot++) {
            for (int64_t p = 0; p < (int64_t)STEPS; p++)
                step(t, &s, &slot, &p, 1, y + ((uint32_t)slot * STEPS + (uint32_t)p) * HEADS * DIM);
        }
    }
    scene_close(&s);
}

#define ALL ((size_t)SLOTS * STEPS * HEADS * DIM)

static float *take(void) {
    float *y = malloc(ALL * sizeof *y);
    if (y == NULL) abort();
    memset(y, 0x7f, ALL * sizeof *y);
    return y;
}

static history *history_of(check_case *t) {
    check_random r = check_seed(t);
    history *h = malloc(sizeof *h);
    if (h == NULL) abort();
    make_history(&r, h);
    return h;
}

static void outputs_are_the_softmax_over_rows_window_and_sink(check_case *t) {
    history *h = history_of(t);
    float *y = take();
    double want[DIM];
    double most = 0;
    run_alone(t, h, NULL, y);
    for (uint32_t i = 0; i < SLOTS * STEPS * HEADS; i++) {
        uint32_t p = i / HEADS;
        oracle(h, p / STEPS, p % STEPS, i % HEADS, want);
        for (uint32_t k = 0; k < DIM; k++)
            most = fmax(most, fabs((double)y[(size_t)i * DIM + k] - want[k]));
    }
    CHECKF(t, most < 2e-6, "off by %.2e", most);
    free(y);
    free(h);
}

static void every_instruction_set_gives_the_same_bits(check_case *t) {
    history *h = history_of(t);
    float *want = take();
    float *got = take();
    h->key[0][3][5] = 1e-41f; /* flushed */
    h->query[1][7][2][1] = 3e18f;
    h->sink[4] = 80.0f;
    run_alone(t, h, "scalar", want);
    for (const char *const *isa = launch_isas(); *isa != NULL; isa++) {
        run_alone(t, h, *isa, got);
        CHECKF(t, memcmp(got, want, ALL * sizeof *got) == 0, "%s differs", *isa);
    }
    free(want);
    free(got);
    free(h);
}

/* Chunks of one request, whose rows see each other and the ring. */
static void chunks_give_the_bits_of_single_rows(check_case *t) {
    history *h = history_of(t);
    float *want = take();
    run_alone(t, h, NULL, want);
    for (uint32_t chunk = 1; chunk <= 17; chunk++) {
        static float y[ROWS_MAX * HEADS * DIM];
        scene s;
        if (!scene_open(t, &s, h, NULL, chunk % 3 + 1)) break;
        for (uint32_t at = 0; at < STEPS; at += chunk) {
            uint32_t rows = STEPS - at < chunk ? STEPS - at : chunk;
            int32_t slots[ROWS_MAX];
            int64_t positions[ROWS_MAX];
            for (uint32_t i = 0; i < rows; i++) {
                slots[i] = 1;
                positions[i] = at + i;
            }
            step(t, &s, slots, positions, rows, y);
            CHECKF(t,
                   memcmp(y, want + (size_t)(STEPS + at) * HEADS * DIM,
                          (size_t)rows * HEADS * DIM * sizeof *y) == 0,
                   "chunks of %u at %u", chunk, at);
        }
        scene_close(&s);
    }
    free(want);
    free(h);
}

/* A step of several requests, of which one has three rows; then some of its rows are taken back and
 * come again, as after rejected drafts. */
static void rows_of_several_requests_do_not_meet(check_case *t) {
    static float y[ROWS_MAX * HEADS * DIM];
    history *h = history_of(t);
    float *want = take();
    scene s;
    run_alone(t, h, NULL, want);
    if (scene_open(t, &s, h, NULL, 3)) {
        int64_t next[SLOTS] = {0};
        for (uint32_t round = 0; round + 4 < STEPS; round++) {
            int32_t slots[] = {2, 0, 0, 0, 1};
            int64_t positions[] = {next[2], next[0], next[0] + 1, next[0] + 2, next[1]};
            step(t, &s, slots, positions, 5, y);
            for (uint32_t i = 0; i < 5; i++) {
                size_t at = ((size_t)slots[i] * STEPS + (size_t)positions[i]) * HEADS * DIM;
                CHECKF(t,
                       memcmp(y + (size_t)i * HEADS * DIM, want + at, HEADS * DIM * sizeof *y) == 0,
                       "round %u row %u", round, i);
            }
            for (uint32_t k = 0; k < SLOTS; k++)
                next[k]++; /* slot 0 takes two of three back */
        }
    }
    scene_close(&s);
    free(want);
    free(h);
}

/* A draft block: `window` positions before its first row, then all of its rows, no mask. */
static void a_draft_block_sees_all_of_its_rows(check_case *t) {
    static float y[3 * HEADS * DIM];
    history *h = history_of(t);
    scene s;
    if (scene_open(t, &s, h, NULL, 2)) {
        float q[3][HEADS][DIM];
        float kv[3][DIM];
        int32_t slot = 1;
        int64_t positions[3] = {7, 8, 9};
        for (int64_t p = 0; p < 7; p++) {
            float x[DIM];
            memcpy(x, h->key[1][p], sizeof x);
            args_store store = {.x = launch_2(x, DTYPE_F32, 1, DIM),
                                .where = {&slot, 1, &p, 0},
                                .ratio = 1,
                                .y = ring_of(&s),
                                .capacity = CAPACITY};
            launch_run(t, s.d, CALL_STORE, 1, &store);
        }
        memcpy(q, h->query[1][7], sizeof q);
        memcpy(kv, h->key[1][7], sizeof kv);
        args_attend a = {.q = launch_3(q, DTYPE_F32, 3, HEADS, DIM),
                         .kv = launch_2(kv, DTYPE_F32, 3, DIM),
                         .sink = launch_1(h->sink, DTYPE_F32, HEADS),
                         .scale = 0.25,
                         .window = WINDOW,
                         .ring = ring_of(&s),
                         .capacity = CAPACITY,
                         .where = {&slot, 1, positions, 0},
                         .y = launch_3(y, DTYPE_F32, 3, HEADS, DIM)};
        launch_run(t, s.d, CALL_ATTEND, 3, &a);
        for (uint32_t i = 0; i < 3; i++) {
            double sum = exp((double)h->sink[3]);
            double want = 0;
            for (uint32_t p = 2; p < 10; p++) {
                double score = 0;
                for (uint32_t k = 0; k < DIM; k++)
                    score += (double)h->query[1][7 + i][3][k] * (double)h->key[1][p][k];
                sum += exp(score * 0.25);
                want += exp(score * 0.25) * (double)h->key[1][p][11];
            }
            double got = (double)y[(i * HEADS + 3) * DIM + 11];
            CHECKF(t, fabs(got - want / sum) < 2e-6, "row %u: %.8f, not %.8f", i, got, want / sum);
        }
    }
    scene_close(&s);
    free(h);
}

/* ---- rings ---- */

static void compressed_rows_are_stored_where_pairs_close(check_case *t) {
    float ring[2][8][3];
    float x[6][3];
    int32_t slot = 1;
    device *d = launch_device(t, NULL, 1);
    memset(ring, 0, sizeof ring);
    for (uint32_t i = 0; i < 6; i++) {
        for (uint32_t k = 0; k < 3; k++)
            x[i][k] = (float)(10 * i + k + 1);
    }
    args_store a = {.x = launch_2(x, DTYPE_F32, 6, 3),
                    .where = {&slot, 1, NULL, 3}, /* positions 3 to 8 */
                    .ratio = 2,
                    .y = {ring, DTYPE_F32, sizeof ring[0], 3, 3},
                    .capacity = 8};
    if (d != NULL && launch_run(t, d, CALL_STORE, 6, &a)) {
        CHECK(t, ring[1][1][0] == x[0][0]); /* position 3 closes row 1 */
        CHECK(t, ring[1][2][2] == x[2][2]); /* 5, row 2 */
        CHECK(t, ring[1][3][0] == x[4][0]); /* 7, row 3 */
        CHECK(t, ring[1][4][0] == 0.0f);    /* 8 is open */
        CHECK(t, ring[0][1][0] == 0.0f);    /* another slot's */
    }
    if (d != NULL) d->ops->close(d);
}

/* Pairs close over the border of steps as within one; open ones wait in the ring. */
static void pairs_close_over_steps_as_within_one(check_case *t) {
    enum {
        N = 12,
        D = 20,
        RING = 4
    };
    float keys[N][D];
    float gates[N][D];
    float want[N][D];
    check_random r = check_seed(t);
    launch_fill(&r, &keys[0][0], N * D, false);
    launch_fill(&r, &gates[0][0], N * D, false);
    for (uint32_t chunk = N; chunk >= 1; chunk--) {
        float ring[2][RING][2][D];
        float y[N][D];
        int32_t slot = 1;
        device *d = launch_device(t, NULL, 1);
        memset(ring, 0, sizeof ring);
        for (uint32_t at = 0; d != NULL && at < N; at += chunk) {
            uint32_t rows = N - at < chunk ? N - at : chunk;
            args_compress a = {.keys = launch_2(keys[at], DTYPE_F32, rows, D),
                               .gates = launch_2(gates[at], DTYPE_F32, rows, D),
                               .where = {&slot, 1, NULL, at},
                               .ring = {ring, DTYPE_F32, sizeof ring[0], 2 * D, 2 * D},
                               .capacity = RING,
                               .y = launch_2(y[at], DTYPE_F32, rows, D)};
            launch_run(t, d, CALL_COMPRESS, rows, &a);
        }
        if (chunk == N) memcpy(want, y, sizeof want);
        CHECKF(t, memcmp(y, want, sizeof want) == 0, "chunks of %u", chunk);
        if (d != NULL) d->ops->close(d);
    }
    for (uint32_t i = 0; i < N; i++) {
        for (uint32_t k = 0; k < D; k++) {
            double e = i % 2 == 0 ? 0 : exp((double)gates[i - 1][k]);
            double f = exp((double)gates[i][k]);
            double mean =
                i % 2 == 0 ? 0 : (e * (double)keys[i - 1][k] + f * (double)keys[i][k]) / (e + f);
            CHECKF(t, fabs((double)want[i][k] - mean) < 1e-6, "row %u dim %u", i, k);
        }
    }
}

static void fetched_rows_are_those_of_their_positions(check_case *t) {
    float ring[2][5][4];
    float y[3][4];
    int32_t slots[3] = {1, 1, 0};
    int64_t positions[3] = {11, 12, 4};
    device *d = launch_device(t, NULL, 1);
    for (uint32_t i = 0; i < 40; i++)
        (&ring[0][0][0])[i] = (float)i;
    args_fetch a = {.x = {ring, DTYPE_F32, sizeof ring[0], 4, 4},
                    .where = {slots, 3, positions, 0},
                    .capacity = 5,
                    .y = launch_2(y, DTYPE_F32, 3, 4)};
    if (d != NULL && launch_run(t, d, CALL_FETCH, 3, &a)) {
        CHECK(t, memcmp(y[0], ring[1][1], sizeof y[0]) == 0);
        CHECK(t, memcmp(y[1], ring[1][2], sizeof y[1]) == 0);
        CHECK(t, memcmp(y[2], ring[0][4], sizeof y[2]) == 0);
    }
    if (d != NULL) d->ops->close(d);
}

/* ---- the inner loops, of every shape ---- */

#define KEYS_MAX 40u
#define DIM_MAX  200u

typedef struct shape {
    float q[2][DIM_MAX][ATTEND_LANES], keys[KEYS_MAX][DIM_MAX], sink[ATTEND_LANES];
    const float *at[KEYS_MAX];
    uint32_t dim, count, heads;
} shape;

static void make_shape(check_random *r, shape *s, uint32_t round) {
    static const uint32_t dims[] = {1, 2, 7, 16, 31, 33, 40, 63, 64, 65, 80, 100, 128, 200};
    s->dim = dims[round % COUNT(dims)];
    s->count = 1 + (uint32_t)check_below(r, KEYS_MAX);
    s->heads = 1 + (uint32_t)check_below(r, ATTEND_LANES);
    launch_fill(r, s->q[0][0], 2 * DIM_MAX * ATTEND_LANES, round % 2 == 1);
    launch_fill(r, s->keys[0], KEYS_MAX * DIM_MAX, round % 3 == 2);
    launch_fill(r, s->sink, ATTEND_LANES, false);
    for (uint32_t j = 0; j < s->count; j++)
        s->at[j] = s->keys[check_below(r, KEYS_MAX)];
}

static void attend_shape(const attend_steps *steps, const shape *s, float *y) {
    static float scores[KEYS_MAX * ATTEND_LANES];
    attend_task t = {.keys = s->at,
                     .count = s->count,
                     .dim = s->dim,
                     .scale = 0.2f,
                     .q = s->q[0][0],
                     .scores = scores,
                     .sink = s->sink,
                     .heads = s->heads,
                     .y = y};
    steps->attend(&t);
}

static void index_shape(const attend_steps *steps, const shape *s, float *y) {
    float weights[2 * ATTEND_LANES] = {0};
    uint32_t heads = s->heads + ATTEND_LANES;
    uint32_t count = s->count < ATTEND_LANES ? s->count : ATTEND_LANES;
    memcpy(weights, s->keys[0], (heads < s->dim ? heads : s->dim) * sizeof *weights);
    index_task t = {s->at, count, s->dim, 2, s->q[0][0], weights, heads, y};
    /* Groups stand side by side. */
    static float q[2 * DIM_MAX * ATTEND_LANES];
    for (uint32_t g = 0; g < 2; g++)
        memcpy(q + (size_t)g * s->dim * ATTEND_LANES, s->q[g],
               (size_t)s->dim * ATTEND_LANES * sizeof *q);
    t.q = q;
    steps->index(&t);
}

static const attend_steps *level(size_t i) {
#if defined(__x86_64__)
    if (i == 1 && cpu_best_isa() >= CPU_AVX2) return &attend_avx2;
    if (i == 2 && cpu_best_isa() >= CPU_AVX512) return &attend_avx512;
#endif
    return i == 0 ? &attend_plain : NULL;
}

/* What is past the end of y stays as it is. */
static void every_shape_has_the_bits_of_the_definition(check_case *t) {
    enum {
        SIZE = ATTEND_LANES * DIM_MAX + 16
    };
    static shape s;
    static float want[3][SIZE];
    static float got[3][SIZE];
    check_random r = check_seed(t);
    uint64_t mode = flush_begin();
    for (uint32_t round = 0; round < 300; round++) {
        make_shape(&r, &s, round);
        memset(want, 0x7e, sizeof want);
        attend_shape(&attend_plain, &s, want[0]);
        index_shape(&attend_plain, &s, want[1]);
        attend_plain.turn(s.keys[0], s.heads, s.dim < 12 ? s.dim : 12, want[2]);
        for (size_t i = 1; level(i) != NULL; i++) {
            memset(got, 0x7e, sizeof got);
            attend_shape(level(i), &s, got[0]);
            index_shape(level(i), &s, got[1]);
            level(i)->turn(s.keys[0], s.heads, s.dim < 12 ? s.dim : 12, got[2]);
            for (uint32_t k = 0; k < 3; k++)
                CHECKF(t, memcmp(got[k], want[k], sizeof got[k]) == 0,
                       "level %zu, function %u: %u keys of %u, %u heads", i, k, s.count, s.dim,
                       s.heads);
        }
    }
    flush_restore(mode);
}

/* Scores of thousands, of either sign: the best key alone is what comes out. */
static void great_scores_do_not_overflow(check_case *t) {
    static shape s;
    float y[ATTEND_LANES * DIM_MAX];
    check_random r = check_seed(t);
    for (uint32_t round = 0; round < 40; round++) {
        make_shape(&r, &s, 5);
        s.count = 3;
        s.heads = ATTEND_LANES;
        for (uint32_t i = 0; i < ATTEND_LANES; i++) {
            s.sink[i] = round % 2 == 0 ? -2000.0f : 0.0f;
            for (uint32_t k = 0; k < s.dim; k++)
                s.q[0][k][i] = k == 0 ? 1.0f : 0.0f;
        }
        /* Where all are far below 0, the sink is too. */
        for (uint32_t j = 0; j < 3; j++) {
            for (uint32_t k = 0; k < s.dim; k++)
                s.keys[j][k] = (float)j;
            s.keys[j][0] = (round % 2 == 0 ? -5000.0f : 50000.0f) + 400.0f * (float)j;
            s.at[j] = s.keys[j];
        }
        for (size_t i = 0; i < 3 && level(i) != NULL; i++) {
            attend_shape(level(i), &s, y);
            for (uint32_t h = 0; h < ATTEND_LANES; h++)
                CHECKF(t, y[h * s.dim + 1] == 2.0f, "level %zu, round %u: %g", i, round,
                       (double)y[h * s.dim + 1]);
        }
    }
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"attend/outputs-are-the-softmax-over-rows-window-and-sink",
         outputs_are_the_softmax_over_rows_window_and_sink},
        {"attend/every-instruction-set-gives-the-same-bits",
         every_instruction_set_gives_the_same_bits},
        {"attend/chunks-give-the-bits-of-single-rows", chunks_give_the_bits_of_single_rows},
        {"attend/rows-of-several-requests-do-not-meet", rows_of_several_requests_do_not_meet},
        {"attend/a-draft-block-sees-all-of-its-rows", a_draft_block_sees_all_of_its_rows},
        {"attend/every-shape-has-the-bits-of-the-definition",
         every_shape_has_the_bits_of_the_definition},
        {"attend/great-scores-do-not-overflow", great_scores_do_not_overflow},
        {"ring/compressed-rows-are-stored-where-pairs-close",
         compressed_rows_are_stored_where_pairs_close},
        {"ring/pairs-close-over-steps-as-within-one", pairs_close_over_steps_as_within_one},
        {"ring/fetched-rows-are-those-of-their-positions",
         fetched_rows_are_those_of_their_positions},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
