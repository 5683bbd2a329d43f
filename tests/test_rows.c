/* What is done to a row by itself (engine/cpu/rows): every step by its rule, bit for bit, by every
 * instruction set; and kernels whose rows do not meet, by every number of rows and threads. */
#include "engine/cpu/rows.h"

#include "engine/canon/flush.h"
#include "engine/canon/fmath.h"
#include "tests/support/launch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define S    ROWS_STREAMS
#define WIDE 100u /* six times sixteen, and a rest */

/* Where rows begin and how long they are: none, rests alone, whole pieces, both. */
static const size_t lengths[] = {0, 1, 2, 7, 15, 16, 17, 31, 32, 33, 64, WIDE};

static size_t steps_here(const rows_steps *steps[CPU_ISAS]) {
    size_t count = 0;
    for (cpu_isa isa = CPU_SCALAR; isa <= cpu_best_isa(); isa++)
        steps[count++] = rows_steps_of(isa);
    return count;
}

static bool same(check_case *t, const char *what, size_t n, const float *got, const float *want) {
    for (size_t i = 0; i < n; i++) {
        if (memcmp(&got[i], &want[i], sizeof *got) != 0)
            return CHECKF(t, false, "%s of %zu: element %zu is %a, not %a", what, n, i,
                          (double)got[i], (double)want[i]);
    }
    return true;
}

/* A step's own case: makes data of length n, works out `want`, runs `steps`. */
typedef void (*step_case)(check_case *t, check_random *r, const rows_steps *steps, size_t n);

static void by_every_set(check_case *t, step_case one) {
    check_random r = check_seed(t);
    const rows_steps *steps[CPU_ISAS];
    size_t sets = steps_here(steps);
    uint64_t mode = flush_begin();
    for (size_t i = 0; i < COUNT(lengths) && !check_failed(t); i++) {
        check_random again = r;
        for (size_t s = 0; s < sets && !check_failed(t); s++) {
            again = r;
            one(t, &again, steps[s], lengths[i]);
        }
        r = again;
    }
    flush_restore(mode);
}

/* ---- sums ---- */

static float tree(const float p[16]) {
    float h[8];
    for (int i = 0; i < 8; i++)
        h[i] = p[i] + p[i + 8];
    return ((h[0] + h[4]) + (h[2] + h[6])) + ((h[1] + h[5]) + (h[3] + h[7]));
}

static void sum_case(check_case *t, check_random *r, const rows_steps *steps, size_t n) {
    float in[4][WIDE + 1];
    float p[2][16] = {{0}};
    launch_fill(r, in[0], 4 * (WIDE + 1), true);
    const float *x = in[0] + 1;
    const float *key = in[1] + 1;
    const float *qw = in[2];
    const float *kw = in[3];
    for (size_t k = 0; k < n; k++) {
        p[0][k % 16] = fmaf(x[k], x[k], p[0][k % 16]);
        p[1][k % 16] = fmaf(x[k] * qw[k], kw[k] * key[k], p[1][k % 16]);
    }
    float want[2] = {tree(p[0]), tree(p[1])};
    float got[2] = {steps->squares(x, n), steps->gate(x, key, qw, kw, n)};
    CHECKF(t, memcmp(got, want, sizeof got) == 0, "of %zu: %a and %a, not %a and %a", n,
           (double)got[0], (double)got[1], (double)want[0], (double)want[1]);
}

static void sums_have_sixteen_chains(check_case *t) {
    by_every_set(t, sum_case);
}

/* ---- element by element ---- */

static void element_case(check_case *t, check_random *r, const rows_steps *steps, size_t n) {
    float x[WIDE + 1];
    float w[WIDE + 1];
    float y[WIDE + 1];
    float want[WIDE + 1];
    launch_fill(r, x, WIDE + 1, true);
    launch_fill(r, w, WIDE + 1, true);
    launch_fill(r, y, WIDE + 1, true);
    want[n] = y[n] = 77.0f; /* nobody writes past the end */
    for (size_t k = 0; k < n; k++)
        want[k] = w[k + 1] * (x[k + 1] * 0.3f);
    if (n < WIDE) steps->scale(x + 1, w + 1, 0.3f, n, y);
    if (n < WIDE) same(t, "scale", n + 1, y, want);
    memcpy(y, x, sizeof y);
    for (size_t k = 0; k < n; k++)
        want[k] = w[k] * (x[k] * -2.5f);
    steps->scale(y, w, -2.5f, n, y);
    same(t, "scale in place", n, y, want);
    memcpy(y, x, sizeof y);
    for (size_t k = 0; k < n; k++)
        want[k] = fmaf(1.7f, w[k], x[k]);
    steps->add(1.7f, w, n, y);
    same(t, "add", n, y, want);
    /* Twenty times as wide, so that both ends are met. */
    for (size_t k = 0; k < n; k++) {
        y[k] = x[k] * 20.0f;
        want[k] = sqrtf(fm_softplus(y[k]));
    }
    steps->affinity(y, n);
    same(t, "affinity", n, y, want);
}

static void elements_do_not_meet(check_case *t) {
    by_every_set(t, element_case);
}

/* ---- rotation ---- */

static void rotation_case(check_case *t, check_random *r, const rows_steps *steps, size_t n) {
    static const int64_t positions[] = {0, 1, 3, 4095, 65536, 1000003, 2147483647};
    rope_spec spec = {2 * WIDE, 160000, true, 16, 32, 1, 65536};
    double freq[ROPE_PAIRS_MAX];
    float got[2 * WIDE];
    float want[2 * WIDE];
    float x[2 * WIDE];
    float y[2 * WIDE];
    ropetable_frequencies(&spec, freq);
    for (size_t i = 0; i < COUNT(positions); i++) {
        ropetable_row(freq, (uint32_t)n, positions[i], want);
        steps->angles(freq, (uint32_t)n, positions[i], got);
        same(t, "angles", 2 * n, got, want);
    }
    launch_fill(r, x, 2 * WIDE, true);
    for (int back = 0; back < 2; back++) {
        memcpy(y, x, sizeof y);
        steps->turn(got, (uint32_t)n, back == 1, y);
        for (size_t k = 0; k < n; k++) {
            float c = got[2 * k];
            float s = back == 1 ? -got[2 * k + 1] : got[2 * k + 1];
            float product[2] = {x[2 * k + 1] * s, x[2 * k + 1] * c};
            want[2 * k] = fmaf(x[2 * k], c, -product[0]);
            want[2 * k + 1] = fmaf(x[2 * k], s, product[1]);
        }
        same(t, back == 1 ? "turn back" : "turn", 2 * n, y, want);
    }
}

static void pairs_turn(check_case *t) {
    by_every_set(t, rotation_case);
}

/* ---- streams ---- */

static void stream_case(check_case *t, check_random *r, const rows_steps *steps, size_t n) {
    float x[S][WIDE + 3]; /* streams lie apart */
    float want[S][WIDE + 3];
    float b[WIDE];
    float y[WIDE];
    float pre[S];
    float post[S];
    float comb[S][S];
    launch_fill(r, x[0], (size_t)S * (WIDE + 3), true);
    launch_fill(r, b, WIDE, true);
    launch_fill(r, pre, S, false);
    launch_fill(r, post, S, false);
    launch_fill(r, comb[0], (size_t)S * S, false);
    memcpy(want, x, sizeof want);
    for (size_t k = 0; k < n; k++) {
        want[0][k] = pre[0] * x[0][k];
        for (size_t s = 1; s < S; s++)
            want[0][k] = fmaf(pre[s], x[s][k], want[0][k]);
    }
    steps->collapse(x[0], WIDE + 3, pre, n, y);
    same(t, "collapse", n, y, want[0]);
    memcpy(want, x, sizeof want);
    for (size_t k = 0; k < n; k++) {
        for (size_t j = 0; j < S; j++) {
            want[j][k] = post[j] * b[k];
            for (size_t i = 0; i < S; i++)
                want[j][k] = fmaf(comb[i][j], x[i][k], want[j][k]);
        }
    }
    steps->post(b, post, comb[0], n, WIDE + 3, x[0]);
    same(t, "post", (size_t)S * (WIDE + 3), x[0], want[0]);
}

static void streams_are_added_in_ascending_order(check_case *t) {
    by_every_set(t, stream_case);
}

/* ---- mixing ---- */

/* MODEL 3 in its own words, every operation rounded alone. */
static void mix_rule(const float v[24], float eps, int64_t iterations, float *pre, float *post,
                     float c[S][S]) {
    for (size_t i = 0; i < S; i++) {
        pre[i] = fm_sigmoid(v[i]) + eps;
        post[i] = 2.0f * fm_sigmoid(v[4 + i]);
        float most = fmaxf(fmaxf(v[8 + 4 * i], v[9 + 4 * i]), fmaxf(v[10 + 4 * i], v[11 + 4 * i]));
        float sum = 0.0f;
        for (size_t j = 0; j < S; j++)
            sum += c[i][j] = fm_exp(v[8 + 4 * i + j] - most);
        for (size_t j = 0; j < S; j++)
            c[i][j] = c[i][j] / sum + eps;
    }
    for (int64_t k = 0; k < 2 * iterations - 1; k++) {
        for (size_t i = 0; i < S; i++) {
            float sum = 0.0f;
            for (size_t j = 0; j < S; j++)
                sum += k % 2 == 0 ? c[j][i] : c[i][j];
            sum += eps;
            for (size_t j = 0; j < S; j++)
                *(k % 2 == 0 ? &c[j][i] : &c[i][j]) /= sum;
        }
    }
}

static void mix_case(check_case *t, check_random *r, const rows_steps *steps, size_t n) {
    float m[24];
    float base[24];
    float scale[3];
    float v[24];
    float got[24];
    float want[24];
    launch_fill(r, m, 24, true);
    launch_fill(r, base, 24, false);
    launch_fill(r, scale, 3, false);
    for (size_t i = 0; i < 24; i++) {
        m[i] = n % 2 == 1 ? m[i] * 300.0f : m[i]; /* no exponential may overflow */
        v[i] = fmaf(m[i], scale[i / 4 < 2 ? i / 4 : 2], base[i]);
    }
    for (int64_t iterations = 1; iterations <= 20; iterations += iterations < 3 ? 1 : 17) {
        rows_mix row = {m, base, scale, 1e-6f, iterations, got, got + 4, got + 8};
        float comb[S][S];
        mix_rule(v, 1e-6f, iterations, want, want + 4, comb);
        memcpy(want + 8, comb, sizeof comb);
        steps->mix(&row);
        same(t, "mix", 24, got, want);
        for (size_t i = 0; i < 24; i++)
            CHECKF(t, got[i] >= 0.0f && got[i] <= 2.0f, "mix %zu is %g", i, (double)got[i]);
    }
}

static void mixes_follow_the_model(check_case *t) {
    by_every_set(t, mix_case);
}

/* ---- draws ---- */

#define STEP 0x9e3779b97f4a7c15ull

static void draw_case(check_case *t, check_random *r, const rows_steps *steps, size_t n) {
    float logits[WIDE];
    float got[WIDE];
    float want[WIDE];
    launch_fill(r, logits, WIDE, false);
    rows_draw d = {logits, (uint32_t)n, 0.7f, check_next(r), 1000, got};
    for (size_t i = 0; i < n; i++) {
        uint64_t bits = rows_mixed(d.key + (1000 + i + 1) * STEP) >> 33;
        float v = fminf(((float)bits + 0.5f) / 2147483648.0f, 1.0f - 0x1p-24f);
        float noise = -fm_log(fm_log1p(v / (1.0f - v)));
        want[i] = fmaf(0.7f, noise, logits[i]);
    }
    steps->draw(&d);
    same(t, "draw", n, got, want);
}

static void draws_follow_their_rule(check_case *t) {
    by_every_set(t, draw_case);
}

/* What rows_mixed makes `z` of. */
static uint64_t unmixed(uint64_t z) {
    uint64_t factor[2] = {0x94d049bb133111ebull, 0xbf58476d1ce4e5b9ull};
    uint32_t shift[3] = {31, 27, 30};
    for (int k = 0; k < 3; k++) {
        uint64_t x = z;
        for (uint32_t i = shift[k]; i < 64; i += shift[k])
            x = z ^ x >> shift[k];
        z = x;
        if (k == 2) break;
        uint64_t inverse = factor[k];
        for (int i = 0; i < 6; i++) /* of an odd number: every round doubles the digits that hold */
            inverse *= 2 - factor[k] * inverse;
        z *= inverse;
    }
    return z;
}

/* No logit may be overruled for good: the noise of the last of all random numbers is a number. */
static void noise_has_two_ends(check_case *t) {
    const rows_steps *steps[CPU_ISAS];
    size_t sets = steps_here(steps);
    float none[1] = {0.0f};
    uint64_t mode = flush_begin();
    CHECK(t, rows_mixed(unmixed(12345)) == 12345);
    for (size_t s = 0; s < sets; s++) {
        float last = 23.0f;
        for (uint32_t k = 0; k <= 64; k++) {
            uint64_t bits = k == 64 ? UINT64_MAX : (UINT64_MAX >> 6) * k;
            float noise = NAN;
            rows_draw d = {none, 1, 1.0f, unmixed(bits) - STEP, 0, &noise};
            steps[s]->draw(&d);
            CHECKF(t, noise > -3.0f && noise <= last, "of %016llx: %g", (unsigned long long)bits,
                   (double)noise);
            CHECK(t, k != 0 || noise > 22.0f);
            last = noise;
        }
    }
    flush_restore(mode);
}

/* ---- kernels ---- */

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
    {"rows/sums-have-sixteen-chains", sums_have_sixteen_chains},
    {"rows/elements-do-not-meet", elements_do_not_meet},
    {"rows/pairs-turn", pairs_turn},
    {"rows/streams-are-added-in-ascending-order", streams_are_added_in_ascending_order},
    {"rows/mixes-follow-the-model", mixes_follow_the_model},
    {"rows/draws-follow-their-rule", draws_follow_their_rule},
    {"rows/noise-has-two-ends", noise_has_two_ends},
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
