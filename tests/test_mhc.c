/* Streams, norms and rotary positions (engine/cpu mhc, norm, rope, copy; engine/canon/ropetable). */
#include "engine/canon/ropetable.h"
#include "engine/cpu/norm.h"
#include "tests/support/golden.h"
#include "tests/support/launch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNIT TF_SOURCE_DIR "/tests/golden/unit/unit.safetensors"
#define S    4u
#define D    48u
#define ROWS 17u

/* ---- norm ---- */

static void a_norm_divides_by_the_root_mean_square(check_case *t) {
    check_random r = check_seed(t);
    float x[3][D];
    float w[D];
    float y[3][D];
    device *d = launch_device(t, NULL, 1);
    launch_fill(&r, &x[0][0], 3 * D, false);
    launch_fill(&r, w, D, false);
    for (uint32_t k = 0; k < D; k++)
        x[2][k] *= 1e-12f; /* an eps that is too large would show */
    args_norm a = {.x = launch_2(x, DTYPE_F32, 3, D),
                   .w = launch_1(w, DTYPE_F32, D),
                   .eps = 1e-30,
                   .y = launch_2(y, DTYPE_F32, 3, D)};
    if (d != NULL && launch_run(t, d, CALL_NORM, 3, &a)) {
        for (uint32_t i = 0; i < 3; i++) {
            double sum = 0;
            for (uint32_t k = 0; k < D; k++)
                sum += (double)x[i][k] * (double)x[i][k];
            for (uint32_t k = 0; k < D; k++) {
                double want = (double)w[k] * (double)x[i][k] / sqrt(sum / D + 1e-30);
                CHECKF(t, fabs((double)y[i][k] - want) < 1e-5, "row %u: %g, not %g", i,
                       (double)y[i][k], want);
            }
        }
        /* In place, and of zeros with an eps. */
        memset(x, 0, sizeof x);
        a.y = a.x;
        a.eps = 1e-6;
        launch_run(t, d, CALL_NORM, 3, &a);
        CHECK(t, x[1][3] == 0.0f);
    }
    if (d != NULL) d->ops->close(d);
}

/* The order of the sum is part of the engine's promise: sixteen partials, then halves. */
static void squares_are_summed_in_sixteen_chains(check_case *t) {
    check_random r = check_seed(t);
    float x[77];
    float p[16] = {0};
    launch_fill(&r, x, 77, false);
    for (uint32_t k = 0; k < 77; k++)
        p[k % 16] = fmaf(x[k], x[k], p[k % 16]);
    float eight[8];
    for (int i = 0; i < 8; i++)
        eight[i] = p[i] + p[i + 8];
    float want = ((eight[0] + eight[4]) + (eight[2] + eight[6])) +
                 ((eight[1] + eight[5]) + (eight[3] + eight[7]));
    float got = rows_plain.squares(x, 77);
    CHECKF(t, memcmp(&got, &want, sizeof got) == 0, "%.9g, not %.9g", (double)got, (double)want);
}

/* ---- mix ---- */

typedef struct mixer {
    float streams[ROWS][S][D], fn[24][S * D], base[24], scale[3];
    float pre[ROWS][S], post[ROWS][S], comb[ROWS][S][S];
} mixer;

static bool mix(check_case *t, mixer *m, const char *isa, uint32_t rows) {
    device *d = launch_device(t, isa, 3);
    port_linear fn;
    if (d == NULL) return false;
    args_mix a = {.streams = launch_3(m->streams, DTYPE_F32, rows, S, D),
                  .fn = {&fn, 1, 0},
                  .base = launch_1(m->base, DTYPE_F32, 24),
                  .scale = launch_1(m->scale, DTYPE_F32, 3),
                  .rms_eps = 1e-20,
                  .hc_eps = 1e-6,
                  .iterations = 20,
                  .pre = launch_2(m->pre, DTYPE_F32, rows, S),
                  .post = launch_2(m->post, DTYPE_F32, rows, S),
                  .comb = launch_3(m->comb, DTYPE_F32, rows, S, S)};
    bool held =
        launch_linear(t, d, &m->fn[0][0], S * D, 24, &fn) && launch_run(t, d, CALL_MIX, rows, &a);
    d->ops->close(d);
    return held;
}

static void make_mixer(check_case *t, mixer *m) {
    check_random r = check_seed(t);
    launch_fill(&r, &m->streams[0][0][0], ROWS * S * D, false);
    launch_fill(&r, &m->fn[0][0], 24 * S * D, false);
    launch_fill(&r, m->base, 24, false);
    launch_fill(&r, m->scale, 3, false);
}

/* MODEL 3 in double. */
static void mix_oracle(const mixer *m, uint32_t row, double pre[S], double post[S],
                       double c[S][S]) {
    double v[24];
    double sum = 0;
    const float *x = &m->streams[row][0][0];
    for (uint32_t k = 0; k < S * D; k++)
        sum += (double)x[k] * (double)x[k];
    for (uint32_t n = 0; n < 24; n++) {
        v[n] = 0;
        for (uint32_t k = 0; k < S * D; k++)
            v[n] += (double)m->fn[n][k] * (double)x[k];
        v[n] = v[n] / sqrt(sum / (S * D)) *
                   (double)m->scale[n < 4   ? 0
                                    : n < 8 ? 1
                                            : 2] +
               (double)m->base[n];
    }
    for (uint32_t i = 0; i < S; i++) {
        double most = -1e300;
        double total = 0;
        pre[i] = 1 / (1 + exp(-v[i])) + 1e-6;
        post[i] = 2 / (1 + exp(-v[4 + i]));
        for (uint32_t j = 0; j < S; j++)
            most = fmax(most, v[8 + 4 * i + j]);
        for (uint32_t j = 0; j < S; j++)
            total += c[i][j] = exp(v[8 + 4 * i + j] - most);
        for (uint32_t j = 0; j < S; j++)
            c[i][j] = c[i][j] / total + 1e-6;
    }
    for (int k = 0; k < 39; k++) {
        for (uint32_t i = 0; i < S; i++) {
            double total = 1e-6;
            for (uint32_t j = 0; j < S; j++)
                total += k % 2 == 0 ? c[j][i] : c[i][j];
            for (uint32_t j = 0; j < S; j++)
                *(k % 2 == 0 ? &c[j][i] : &c[i][j]) /= total;
        }
    }
}

static void a_mix_is_the_formula(check_case *t) {
    static mixer m;
    double most = 0;
    make_mixer(t, &m);
    if (!mix(t, &m, NULL, ROWS)) return;
    for (uint32_t row = 0; row < ROWS; row++) {
        double pre[S];
        double post[S];
        double c[S][S];
        mix_oracle(&m, row, pre, post, c);
        for (uint32_t i = 0; i < S; i++) {
            most = fmax(most, fabs((double)m.pre[row][i] - pre[i]));
            most = fmax(most, fabs((double)m.post[row][i] - post[i]));
            for (uint32_t j = 0; j < S; j++)
                most = fmax(most, fabs((double)m.comb[row][i][j] - c[i][j]));
        }
    }
    CHECKF(t, most < 1e-5, "off by %.2e", most);
}

static const double *unit_doubles(check_case *t, golden_file *unit, const char *name) {
    golden_tensor g;
    bool held = golden_find(unit, name, &g) && g.data != NULL && strcmp(g.dtype, "F64") == 0;
    return CHECKF(t, held, "no %s", name) ? (const double *)(const void *)g.data : NULL;
}

/* The products are the golden inputs when fn is the identity times the row's own root mean square. */
static void the_golden_sinkhorn_holds(check_case *t) {
    static const char *const names[] = {"sinkhorn.mixes", "sinkhorn.base", "sinkhorn.scale",
                                        "sinkhorn.pre",   "sinkhorn.post", "sinkhorn.comb"};
    enum {
        N = 24
    };
    const double *in[COUNT(names)] = {0};
    golden_file unit;
    if (!CHECK(t, golden_open(UNIT, &unit))) return;
    for (size_t i = 0; i < COUNT(names); i++)
        in[i] = unit_doubles(t, &unit, names[i]);
    for (uint32_t row = 0; !check_failed(t) && row < 16; row++) {
        float x[1][S][N / S];
        float fn[N][N] = {{0}};
        float base[N];
        float scale[3];
        float pre[S];
        float post[S];
        float comb[S][S];
        double sum = 0;
        port_linear linear;
        device *d = launch_device(t, NULL, 1);
        for (uint32_t k = 0; k < N; k++) {
            (&x[0][0][0])[k] = (float)in[0][row * N + k];
            base[k] = (float)in[1][k];
            sum += in[0][row * N + k] * in[0][row * N + k];
        }
        for (uint32_t k = 0; k < 3; k++)
            scale[k] = (float)in[2][k];
        for (uint32_t k = 0; k < N; k++)
            fn[k][k] = (float)sqrt(sum / N);
        args_mix a = {.streams = launch_3(x, DTYPE_F32, 1, S, N / S),
                      .fn = {&linear, 1, 0},
                      .base = launch_1(base, DTYPE_F32, N),
                      .scale = launch_1(scale, DTYPE_F32, 3),
                      .rms_eps = 1e-20,
                      .hc_eps = 1e-6,
                      .iterations = 20,
                      .pre = launch_2(pre, DTYPE_F32, 1, S),
                      .post = launch_2(post, DTYPE_F32, 1, S),
                      .comb = launch_3(comb, DTYPE_F32, 1, S, S)};
        bool held = d != NULL && launch_linear(t, d, &fn[0][0], N, N, &linear) &&
                    launch_run(t, d, CALL_MIX, 1, &a);
        for (uint32_t i = 0; held && i < S * S; i++) {
            CHECK(t, fabs((double)comb[i / S][i % S] - in[5][row * 16 + i]) < 2e-6);
            CHECK(t, fabs((double)pre[i / S] - in[3][row * S + i / S]) < 1e-6);
            CHECK(t, fabs((double)post[i / S] - in[4][row * S + i / S]) < 1e-6);
        }
        if (d != NULL) d->ops->close(d);
    }
    golden_close(&unit);
}

static void mixes_have_the_same_bits_everywhere(check_case *t) {
    static mixer want;
    static mixer got;
    make_mixer(t, &want);
    mix(t, &want, "scalar", ROWS);
    for (const char *const *isa = launch_isas(); *isa != NULL; isa++) {
        for (uint32_t rows = 1; rows <= ROWS; rows += 4) {
            got = want;
            memset(got.comb, 0, sizeof got.comb);
            mix(t, &got, *isa, rows);
            CHECKF(t, memcmp(got.comb, want.comb, rows * sizeof got.comb[0]) == 0, "%s, %u rows",
                   *isa, rows);
        }
    }
}

/* ---- collapse, post, tap, copies ---- */

static void streams_collapse_post_and_tap(check_case *t) {
    check_random r = check_seed(t);
    static float x[2][S][D];
    static float old[2][S][D];
    float pre[2][S];
    float post[2][S];
    float comb[2][S][S];
    float b[2][D];
    float y[2][D];
    device *d = launch_device(t, NULL, 1);
    launch_fill(&r, &x[0][0][0], 2 * S * D, false);
    launch_fill(&r, &pre[0][0], 2 * S, false);
    launch_fill(&r, &post[0][0], 2 * S, false);
    launch_fill(&r, &comb[0][0][0], 2 * S * S, false);
    launch_fill(&r, &b[0][0], 2 * D, false);
    memcpy(old, x, sizeof old);
    args_collapse c = {.streams = launch_3(x, DTYPE_F32, 2, S, D),
                       .pre = launch_2(pre, DTYPE_F32, 2, S),
                       .y = launch_2(y, DTYPE_F32, 2, D)};
    args_tap tap = {.streams = c.streams, .y = c.y};
    args_post p = {.x = launch_2(b, DTYPE_F32, 2, D),
                   .post = launch_2(post, DTYPE_F32, 2, S),
                   .comb = launch_3(comb, DTYPE_F32, 2, S, S),
                   .streams = c.streams};
    bool held = d != NULL && launch_run(t, d, CALL_COLLAPSE, 2, &c);
    for (uint32_t i = 0; held && i < 2 * D; i++) {
        double want = 0;
        for (uint32_t s = 0; s < S; s++)
            want += (double)pre[i / D][s] * (double)x[i / D][s][i % D];
        CHECK(t, fabs((double)y[i / D][i % D] - want) < 1e-5);
    }
    held = held && launch_run(t, d, CALL_TAP, 2, &tap);
    for (uint32_t i = 0; held && i < 2 * D; i++) {
        double want = 0;
        for (uint32_t s = 0; s < S; s++)
            want += (double)x[i / D][s][i % D] / S;
        CHECK(t, fabs((double)y[i / D][i % D] - want) < 1e-6);
    }
    held = held && launch_run(t, d, CALL_POST, 2, &p);
    for (uint32_t i = 0; held && i < 2 * S * D; i++) {
        uint32_t row = i / (S * D);
        uint32_t j = i / D % S;
        double want = (double)post[row][j] * (double)b[row][i % D];
        for (uint32_t s = 0; s < S; s++)
            want += (double)comb[row][s][j] * (double)old[row][s][i % D];
        CHECKF(t, fabs((double)x[row][j][i % D] - want) < 1e-5, "row %u stream %u dim %u", row, j,
               i % D);
    }
    if (d != NULL) d->ops->close(d);
}

static void four_copies_begin_with_the_first_stream_alone(check_case *t) {
    float x[1][3] = {{1, -0.0f, 3}};
    float streams[1][S][3];
    float pre[1][S];
    device *d = launch_device(t, NULL, 1);
    args_copies a = {.x = launch_2(x, DTYPE_F32, 1, 3),
                     .streams = launch_3(streams, DTYPE_F32, 1, S, 3),
                     .pre = launch_2(pre, DTYPE_F32, 1, S)};
    if (d != NULL && launch_run(t, d, CALL_COPIES, 1, &a)) {
        for (uint32_t s = 0; s < S; s++) {
            CHECK(t, memcmp(streams[0][s], x, sizeof x) == 0);
            CHECK(t, pre[0][s] == (s == 0 ? 1.0f : 0.0f));
        }
    }
    if (d != NULL) d->ops->close(d);
}

static void only_own_rows_are_embedded(check_case *t) {
    uint16_t w[4][2] = {{0x3f80, 0x8000}, {0x4000, 0}, {0x4040, 0}, {0x4080, 0}};
    int32_t ids[4] = {10, 9, 13, 14};
    float y[4][2];
    device *d = launch_device(t, NULL, 1);
    for (uint32_t i = 0; i < 8; i++)
        (&y[0][0])[i] = 7.0f;
    args_embed a = {.ids = launch_1(ids, DTYPE_I32, 4),
                    .w = launch_2(w, DTYPE_BF16, 4, 2),
                    .first = 10,
                    .y = launch_2(y, DTYPE_F32, 4, 2)};
    if (d != NULL && launch_run(t, d, CALL_EMBED, 4, &a)) {
        CHECK(t, y[0][0] == 1.0f && y[0][1] == 0.0f && signbit(y[0][1]));
        CHECK(t, y[1][0] == 7.0f && y[3][0] == 7.0f); /* others own them */
        CHECK(t, y[2][0] == 4.0f);
    }
    args_block_ids b = {.newest = launch_1(ids, DTYPE_I32, 1), .noise = 99};
    int32_t block[3];
    b.y = launch_1(block, DTYPE_I32, 3);
    if (d != NULL && launch_run(t, d, CALL_BLOCK_IDS, 3, &b))
        CHECK(t, block[0] == 10 && block[1] == 99 && block[2] == 99);
    if (d != NULL) d->ops->close(d);
}

/* ---- rope ---- */

static void tables_are_the_publishers(check_case *t) {
    static const struct {
        const char *name;
        rope_spec spec;
    } rows[] = {{"rope.plain", {64, 10000, false, 1, 32, 1, 65536}},
                {"rope.yarn", {64, 160000, true, 16, 32, 1, 65536}}};
    golden_file unit;
    char *json = NULL;
    size_t n = 0;
    bool opened = golden_open(UNIT, &unit) &&
                  golden_read(TF_SOURCE_DIR "/tests/golden/unit/unit.json", &json, &n);
    const char *list = opened ? strstr(json, "\"rope_positions\"") : NULL;
    if (!CHECK(t, list != NULL)) return;
    for (size_t i = 0; i < COUNT(rows); i++) {
        golden_tensor g;
        double freq[ROPE_PAIRS_MAX];
        const char *at = strchr(list, '[');
        if (!CHECK(t, golden_find(&unit, rows[i].name, &g))) continue;
        ropetable_frequencies(&rows[i].spec, freq);
        for (uint32_t p = 0; p < 9; p++) {
            char *end = NULL;
            float got[64];
            long position = strtol(at + 1, &end, 10);
            at = end;
            ropetable_row(freq, 32, position, got);
            const float *want = (const float *)(const void *)g.data + p * 64;
            for (uint32_t k = 0; k < 64; k++)
                CHECKF(t, fabs((double)got[k] - (double)want[k]) < 1e-7,
                       "%s position %ld, %u: %.9g, not %.9g", rows[i].name, position, k,
                       (double)got[k], (double)want[k]);
        }
    }
    free(json);
    golden_close(&unit);
}

/* Correctly rounded, or one step off where the value lies between two floats. */
static void tables_are_rounded_once(check_case *t) {
    rope_spec spec = {64, 10000, false, 1, 32, 1, 65536};
    double freq[ROPE_PAIRS_MAX];
    uint32_t off = 0;
    uint32_t all = 0;
    ropetable_frequencies(&spec, freq);
    for (int64_t position = 0; position < 1000000; position += 997) {
        float got[64];
        ropetable_row(freq, 32, position, got);
        for (uint32_t k = 0; k < 32; k++, all += 2) {
            long double angle = (long double)position * (long double)freq[k];
            float c = (float)cosl(angle);
            float s = (float)sinl(angle);
            off += got[2 * k] != c;
            off += got[2 * k + 1] != s;
            CHECK(t, fabs((double)got[2 * k] - (double)cosl(angle)) < 6.1e-8);
            CHECK(t, fabs((double)got[2 * k + 1] - (double)sinl(angle)) < 6.1e-8);
        }
    }
    CHECKF(t, off * 10000 <= all, "%u of %u are not the nearest float", off, all);
}

static void the_last_dims_turn_and_turn_back(check_case *t) {
    check_random r = check_seed(t);
    enum {
        H = 3,
        DIM = 20,
        ROPE = 8
    };
    float x[2][H][DIM];
    float old[2][H][DIM];
    int64_t positions[2] = {5, 40};
    double freq[ROPE_PAIRS_MAX];
    rope_spec spec = {ROPE, 10000, false, 1, 32, 1, 1024};
    device *d = launch_device(t, NULL, 1);
    launch_fill(&r, &x[0][0][0], 2 * H * DIM, false);
    memcpy(old, x, sizeof old);
    ropetable_frequencies(&spec, freq);
    args_rope a = {.x = launch_3(x, DTYPE_F32, 2, H, DIM),
                   .heads = H,
                   .dim = DIM,
                   .rope = ROPE,
                   .table = "plain",
                   .theta = 10000,
                   .factor = 1,
                   .beta_fast = 32,
                   .beta_slow = 1,
                   .original = 1024,
                   .floor = 4, /* 5 turns as 4 */
                   .where = {NULL, 0, positions, 0}};
    bool held = d != NULL && launch_run(t, d, CALL_ROPE, 2, &a);
    for (uint32_t h = 0; held && h < H; h++) {
        for (uint32_t k = 0; k < DIM - ROPE; k++)
            CHECK(t, x[0][h][k] == old[0][h][k]);
        for (uint32_t k = 0; k < ROPE / 2; k++) {
            double angle = 4.0 * freq[k];
            double e = (double)old[0][h][DIM - ROPE + 2 * k];
            double o = (double)old[0][h][DIM - ROPE + 2 * k + 1];
            CHECK(t, fabs((double)x[0][h][DIM - ROPE + 2 * k] - (e * cos(angle) - o * sin(angle))) <
                         1e-6);
            CHECK(t, fabs((double)x[0][h][DIM - ROPE + 2 * k + 1] -
                          (e * sin(angle) + o * cos(angle))) < 1e-6);
        }
    }
    a.inverse = true;
    held = held && launch_run(t, d, CALL_ROPE, 2, &a);
    for (uint32_t i = 0; held && i < 2 * H * DIM; i++)
        CHECK(t, fabs((double)(&x[0][0][0])[i] - (double)(&old[0][0][0])[i]) < 1e-6);
    if (d != NULL) d->ops->close(d);
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"norm/a-norm-divides-by-the-root-mean-square", a_norm_divides_by_the_root_mean_square},
        {"norm/squares-are-summed-in-sixteen-chains", squares_are_summed_in_sixteen_chains},
        {"mhc/a-mix-is-the-formula", a_mix_is_the_formula},
        {"mhc/the-golden-sinkhorn-holds", the_golden_sinkhorn_holds},
        {"mhc/mixes-have-the-same-bits-everywhere", mixes_have_the_same_bits_everywhere},
        {"mhc/streams-collapse-post-and-tap", streams_collapse_post_and_tap},
        {"copy/four-copies-begin-with-the-first-stream-alone",
         four_copies_begin_with_the_first_stream_alone},
        {"copy/only-own-rows-are-embedded", only_own_rows_are_embedded},
        {"ropetable/tables-are-the-publishers", tables_are_the_publishers},
        {"ropetable/tables-are-rounded-once", tables_are_rounded_once},
        {"rope/the-last-dims-turn-and-turn-back", the_last_dims_turn_and_turn_back},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
