/* The n-gram memory as kernels compute it (engine/cpu/engram), and the machine under them (team, isa,
 * device). */
#include "engine/cpu/isa.h"
#include "engine/cpu/team.h"
#include "engine/pack/engram.h"
#include "tests/support/golden.h"
#include "tests/support/launch.h"
#include "tests/support/lists.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define UNIT TF_SOURCE_DIR "/tests/golden/unit/unit.safetensors"

/* ---- hashes ---- */

#define TABLES  2u
#define COLUMNS 24u
#define IDS     64u

typedef struct hasher {
    int64_t primes[TABLES * COLUMNS], multipliers[TABLES * 4];
    int32_t compress[99092];
    int32_t ids[IDS];
    const int64_t *want; /* [IDS][TABLES][COLUMNS] rows of the table */
    golden_file unit;
} hasher;

/* The real configuration; a vocabulary whose token map is the identity. */
static bool hasher_open(check_case *t, hasher *h) {
    const tf_pack *flash = lists_pack(t, "flash");
    golden_tensor ids;
    golden_tensor hashes;
    if (flash == NULL || !CHECK(t, golden_open(UNIT, &h->unit))) return false;
    if (!CHECK(t, golden_find(&h->unit, "engram.compressed_ids", &ids) &&
                      golden_find(&h->unit, "engram.hashes", &hashes)))
        return false;
    for (uint32_t table = 0; table < TABLES; table++) {
        engram_hasher made;
        tf_error err = {0};
        if (!CHECK(t, engram_hasher_make(&flash->config, table, 0, &made, &err) == TF_OK))
            return false;
        for (uint32_t k = 0; k < COLUMNS; k++)
            h->primes[table * COLUMNS + k] = (int64_t)(made.begin[k + 1] - made.begin[k]);
        for (uint32_t k = 0; k < 4; k++)
            h->multipliers[table * 4 + k] = (int64_t)made.multiplier[k];
    }
    for (int32_t i = 0; i < 99092; i++)
        h->compress[i] = i;
    memcpy(h->ids, ids.data, sizeof h->ids);
    h->want = (const int64_t *)(const void *)hashes.data;
    return true;
}

/* Positions [at, at + rows) of the golden ids, in slot 1. */
static bool hash_some(check_case *t, device *d, hasher *h, int32_t ring[2][9], uint32_t at,
                      uint32_t rows, int64_t *y) {
    int32_t slot = 1;
    args_hash a = {.ids = launch_1(h->ids + at, DTYPE_I32, rows),
                   .where = {&slot, 1, NULL, at},
                   .ring = {ring, DTYPE_I32, sizeof ring[0], 1, 1},
                   .capacity = 9,
                   .compress = launch_1(h->compress, DTYPE_I32, 99092),
                   .pad = 77, /* as the golden file was made */
                   .ngram = 4,
                   .heads = 8,
                   .primes = {h->primes, TABLES * COLUMNS},
                   .multipliers = {h->multipliers, TABLES * 4},
                   .y = launch_3(y, DTYPE_I64, rows, TABLES, COLUMNS)};
    return launch_run(t, d, CALL_HASH, rows, &a);
}

/* In chunks of every length: ids before the chunk come from the ring, before the first the pad. */
static void the_golden_hashes_hold_in_chunks(check_case *t) {
    static hasher h;
    static int64_t y[IDS][TABLES][COLUMNS];
    device *d = launch_device(t, NULL, 1);
    bool held = d != NULL && hasher_open(t, &h);
    for (uint32_t chunk = 1; held && chunk <= IDS; chunk += chunk < 8 ? 1 : 19) {
        int32_t ring[2][9] = {{0}};
        for (uint32_t at = 0; held && at < IDS; at += chunk)
            held = hash_some(t, d, &h, ring, at, IDS - at < chunk ? IDS - at : chunk, &y[at][0][0]);
        for (uint32_t i = 0; held && i < IDS * TABLES * COLUMNS; i++) {
            uint32_t table = i / COLUMNS % TABLES;
            int64_t begin = 0;
            for (uint32_t k = 0; k < i % COLUMNS; k++)
                begin += h.primes[table * COLUMNS + k];
            int64_t got = begin + (&y[0][0][0])[i];
            CHECKF(t, got == h.want[i], "chunks of %u, value %u: %lld, not %lld", chunk, i,
                   (long long)got, (long long)h.want[i]);
        }
    }
    golden_close(&h.unit);
    if (d != NULL) d->ops->close(d);
}

/* ---- rows and gate ---- */

static void rows_are_dequantised_from_their_columns_begin(check_case *t) {
    /* 1.5, -2 and 0 as e4m3; scales 2^1 and 2^-2. */
    uint8_t w[6][4] = {{0x3c, 0, 0, 0}, {0xc0, 0x3c, 0, 0}, {0}, {0x3c, 0x3c, 0xc0, 0}, {0},
                       {0xc0}};
    uint8_t scale[6][2] = {{128, 0}, {128, 125}, {127, 127}, {127, 125}, {127, 127}, {126, 127}};
    int64_t hashes[1][2][3] = {{{9, 9, 9}, {7, 1, 2}}};
    int64_t begins[3] = {0, 3, 6};
    float y[1][2][4];
    device *d = launch_device(t, NULL, 1);
    args_lookup a = {.hashes = launch_3(hashes, DTYPE_I64, 1, 2, 3),
                     .which = 1,
                     .first = 1,
                     .columns = 2,
                     .begins = {begins, 3},
                     .w = launch_2(w, DTYPE_F8_E4M3, 6, 4),
                     .scale = launch_2(scale, DTYPE_F8_E8M0, 6, 2),
                     .block = 2,
                     .y = launch_3(y, DTYPE_F32, 1, 2, 4)};
    if (d != NULL && launch_run(t, d, CALL_LOOKUP, 1, &a)) {
        CHECK(t, y[0][0][0] == -4.0f && y[0][0][1] == 3.0f && y[0][0][2] == 0.0f);
        CHECK(t, y[0][1][0] == -1.0f); /* row 3 + 2 */
    }
    if (d != NULL) d->ops->close(d);
}

static void a_gate_opens_by_the_signed_root(check_case *t) {
    enum {
        S = 4,
        D = 40
    };
    static float x[2][S][D];
    static float old[2][S][D];
    static float kv[2][(S + 1) * D];
    static float qw[S][D];
    static float kw[S][D];
    check_random r = check_seed(t);
    device *d = launch_device(t, NULL, 1);
    launch_fill(&r, &x[0][0][0], 2 * S * D, false);
    launch_fill(&r, &kv[0][0], 2 * (S + 1) * D, false);
    launch_fill(&r, &qw[0][0], S * D, false);
    launch_fill(&r, &kw[0][0], S * D, false);
    memset(x[1][2], 0, sizeof x[1][2]); /* no product: the gate is half open */
    for (uint32_t k = 0; k < D; k++)
        kw[3][k] *= 1e-7f; /* below the floor */
    memcpy(old, x, sizeof old);
    args_engram a = {.streams = launch_3(x, DTYPE_F32, 2, S, D),
                     .kv = launch_2(kv, DTYPE_F32, 2, (S + 1) * D),
                     .q_weight = launch_2(qw, DTYPE_F32, S, D),
                     .k_weight = launch_2(kw, DTYPE_F32, S, D),
                     .eps = 1e-20,
                     .floor = 1e-6};
    bool held = d != NULL && launch_run(t, d, CALL_ENGRAM, 2, &a);
    for (uint32_t i = 0; held && i < 2 * S; i++) {
        uint32_t row = i / S;
        uint32_t s = i % S;
        const float *key = &kv[row][s * D];
        double dot = 0;
        double xx = 0;
        double kk = 0;
        for (uint32_t k = 0; k < D; k++) {
            double v = (double)old[row][s][k];
            dot += v * (double)qw[s][k] * (double)kw[s][k] * (double)key[k];
            xx += v * v;
            kk += (double)key[k] * (double)key[k];
        }
        dot = dot / sqrt(xx / D + 1e-20) / sqrt(kk / D + 1e-20) / sqrt(D);
        double root = sqrt(fmax(fabs(dot), 1e-6));
        double gate = 1 / (1 + exp(-(dot > 0 ? root : dot < 0 ? -root : 0)));
        for (uint32_t k = 0; k < D; k++) {
            double want = (double)old[row][s][k] + gate * (double)kv[row][S * D + k];
            CHECKF(t, fabs((double)x[row][s][k] - want) < 1e-5, "row %u stream %u", row, s);
        }
    }
    if (d != NULL) d->ops->close(d);
}

/* ---- machine ---- */

typedef struct tally {
    atomic_uint count[512];
    atomic_uint strangers; /* jobs of a worker that is not there */
    uint32_t threads;
} tally;

static void count_job(void *context, size_t index, uint32_t worker) {
    tally *c = context;
    atomic_fetch_add(&c->count[index], 1);
    if (worker >= c->threads) atomic_fetch_add(&c->strangers, 1);
}

static void a_team_runs_every_job_once(check_case *t) {
    for (uint32_t threads = 1; threads <= 5; threads++) {
        static tally all;
        tf_error err = {0};
        team *crew = NULL;
        memset(&all, 0, sizeof all);
        all.threads = threads;
        if (!CHECK(t, team_open(threads, &crew, &err) == TF_OK)) return;
        for (uint32_t round = 0; round < 1000; round++)
            team_run(crew, round % 512, count_job, &all);
        team_close(crew);
        for (uint32_t i = 0; i < 512; i++) {
            uint32_t want = 0;
            for (uint32_t round = 0; round < 1000; round++)
                want += round % 512 > i;
            CHECK_U64(t, atomic_load(&all.count[i]), want);
        }
        CHECK_U64(t, atomic_load(&all.strangers), 0);
    }
}

static void instruction_sets_are_refused_by_name(check_case *t) {
    static const char *const bad[] = {"sse9", "", "AVX2"};
    cpu_isa isa;
    for (size_t i = 0; i < COUNT(bad); i++) {
        tf_error err = {0};
        CHECK(t, isa_choose(bad[i], &isa, &err) == TF_USAGE);
        CHECK_U64(t, err.word, TF_W_ISA_MISSING);
        CHECK(t, err.remedy[0] != '\0');
    }
    tf_error err = {0};
    CHECK(t, isa_choose(NULL, &isa, &err) == TF_OK && isa == cpu_best_isa());
    CHECK(t, isa_choose("scalar", &isa, &err) == TF_OK && isa == CPU_SCALAR);
    CHECK_STR(t, launch_isas()[0], "scalar");
}

static void a_kind_without_a_kernel_is_refused(check_case *t) {
    device *d = launch_device(t, NULL, 1);
    tf_error err = {0};
    CHECK(t, !cpu_has(CALL_TOUCH) && cpu_has(CALL_DOT));
    CHECK(t, d != NULL && launch_try(d, CALL_TOUCH, 1, NULL, &err) == TF_INTERNAL);
    CHECK_U64(t, err.word, TF_W_NO_KERNEL);
    if (d != NULL) d->ops->close(d);
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"memory/the-golden-hashes-hold-in-chunks", the_golden_hashes_hold_in_chunks},
        {"memory/rows-are-dequantised-from-their-columns-begin",
         rows_are_dequantised_from_their_columns_begin},
        {"memory/a-gate-opens-by-the-signed-root", a_gate_opens_by_the_signed_root},
        {"team/a-team-runs-every-job-once", a_team_runs_every_job_once},
        {"isa/instruction-sets-are-refused-by-name", instruction_sets_are_refused_by_name},
        {"device/a-kind-without-a-kernel-is-refused", a_kind_without_a_kernel_is_refused},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
