/* cpu/engram: hashes of steps that mix requests or are taken back, and the gate's bits. */
#include "engine/pack/engram.h"

#include "engine/canon/flush.h"
#include "engine/canon/fmath.h"
#include "tests/support/golden.h"
#include "tests/support/launch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define UNIT      TF_SOURCE_DIR "/tests/golden/unit/unit.safetensors"
#define IDS       64
#define NGRAM     4
#define COLUMNS   24
#define TABLES    2
#define CAPACITY  9
#define SLOTS     3
#define VOCAB     128000
#define APART     20   /* ids between the begins of two requests */
#define MOVED     1234 /* a raw id lies this much above its compressed one */
#define HASH_SIZE (TABLES * COLUMNS)

/* The publisher's 64 ids of the real configuration, and their hashes. */
typedef struct known {
    int32_t raw[IDS];
    int64_t hashes[IDS][HASH_SIZE];
    int64_t primes[HASH_SIZE], multipliers[TABLES * NGRAM];
    int32_t *compress; /* [VOCAB] */
    int32_t ring[SLOTS][CAPACITY];
} known;

static bool read_known(check_case *t, known *k) {
    static const tf_config real = {.vocab = 129280,
                                   .engram_count = TABLES,
                                   .engram_layers = {1, 14},
                                   .engram_ngram = NGRAM,
                                   .engram_heads = 8,
                                   .engram_head_dim = 256,
                                   .engram_vocab = 16000000,
                                   .engram_compressed_vocab = 99092,
                                   .engram_rows = {384006168, 384016682}};
    golden_file unit = {0};
    golden_tensor ids;
    golden_tensor hashes;
    bool held = golden_open(UNIT, &unit) && golden_find(&unit, "engram.compressed_ids", &ids) &&
                golden_find(&unit, "engram.hashes", &hashes);
    k->compress = malloc(VOCAB * sizeof *k->compress);
    if (CHECK(t, held)) {
        memcpy(k->raw, ids.data, sizeof k->raw);
        memcpy(k->hashes, hashes.data, sizeof k->hashes);
        for (int i = 0; i < IDS; i++)
            k->raw[i] += MOVED;
        for (int32_t i = 0; i < VOCAB; i++)
            k->compress[i] = i - MOVED;
        memset(k->ring, 0x5a, sizeof k->ring); /* nobody may look at what is not written */
        for (uint32_t table = 0; table < TABLES; table++) {
            engram_hasher h;
            tf_error err = {0};
            held = engram_hasher_make(&real, table, 77, &h, &err) == TF_OK && held;
            for (uint32_t i = 0; i < NGRAM; i++)
                k->multipliers[table * NGRAM + i] = (int64_t)h.multiplier[i];
            for (uint32_t i = 0; i < COLUMNS; i++) {
                int64_t prime = (int64_t)(h.begin[i + 1] - h.begin[i]);
                k->primes[table * COLUMNS + i] = prime;
                /* The publisher counts from the table's begin, the kernel from the column's. */
                for (int p = 0; p < IDS; p++)
                    k->hashes[p][table * COLUMNS + i] -= (int64_t)h.begin[i];
            }
        }
    }
    golden_close(&unit);
    return CHECK(t, held);
}

/* Rows of a step: of one request at `start`, or each with its slot and position. */
typedef struct step {
    uint32_t rows;
    const int32_t *ids;
    port_where where;
} step;

static void hash(check_case *t, device *d, known *k, const step *s, int64_t *y) {
    args_hash a = {
        .ids = launch_1((int32_t *)(uintptr_t)s->ids, DTYPE_I32, s->rows),
        .where = s->where,
        .ring = {k->ring, DTYPE_I32, sizeof k->ring[0], 1, 1},
        .capacity = CAPACITY,
        .compress = launch_1(k->compress, DTYPE_I32, VOCAB),
        .pad = 77 + MOVED,
        .ngram = NGRAM,
        .heads = 8,
        .primes = {k->primes, HASH_SIZE},
        .multipliers = {k->multipliers, TABLES * NGRAM},
        .y = launch_3(y, DTYPE_I64, s->rows, TABLES, COLUMNS),
    };
    launch_run(t, d, CALL_HASH, s->rows, &a);
}

static void is_known(check_case *t, const known *k, int64_t p, const int64_t *y, const char *how) {
    bool held = memcmp(y, k->hashes[p], sizeof k->hashes[p]) == 0;
    CHECKF(t, held, "%s: hashes at position %lld", how, (long long)p);
}

/* Requests that stand at different positions, each with one row or, as with drafts, with several. */
static void requests_of_a_step_do_not_meet(check_case *t) {
    int64_t y[9][HASH_SIZE];
    known k;
    device *d = launch_device(t, NULL, 1);
    if (d == NULL) return;
    int64_t at[SLOTS] = {0, 0, 0};
    bool held = read_known(t, &k);
    for (uint32_t round = 0; held && round < 11; round++) {
        int32_t ids[9];
        int32_t slots[9];
        int64_t positions[9];
        uint32_t rows = 0;
        for (uint32_t i = 0; i < SLOTS; i++) {
            int32_t slot = (int32_t)(SLOTS - 1 - i); /* not in the order of slots */
            for (uint32_t n = 0; n <= (round + i) % 3; n++, rows++) {
                ids[rows] = k.raw[at[slot] + slot * APART];
                slots[rows] = slot;
                positions[rows] = at[slot]++;
            }
        }
        step s = {rows, ids, {slots, rows, positions, 0}};
        hash(t, d, &k, &s, y[0]);
        /* From the fourth id on a hash does not know where its request began. */
        for (uint32_t i = 0; i < rows; i++) {
            if (slots[i] == 0 || positions[i] >= NGRAM - 1)
                is_known(t, &k, positions[i] + slots[i] * APART, y[i], "three requests");
        }
    }
    free(k.compress);
    d->ops->close(d);
}

/* Rows that were rejected are written over; those before them are still there. */
static void rejected_rows_leave_nothing(check_case *t) {
    static int64_t y[IDS][HASH_SIZE];
    int32_t slot = 0;
    known k;
    device *d = launch_device(t, NULL, 1);
    if (d == NULL) return;
    bool held = read_known(t, &k);
    for (uint32_t p = 0; held && p + 6 <= IDS; p++) {
        int32_t ids[6] = {k.raw[p], 5000, 5001, 5002, 5003, 5004};
        step s = {6, ids, {&slot, 1, NULL, p}};
        hash(t, d, &k, &s, y[0]);
        is_known(t, &k, p, y[0], "after five rejected rows");
    }
    free(k.compress);
    d->ops->close(d);
}

/* ---- the gate ---- */

#define WIDE    100 /* sixteen partials, the last ones shorter */
#define GATES   17
#define STREAMS 4

typedef struct gates {
    float streams[GATES][STREAMS][WIDE], kv[GATES][STREAMS + 1][WIDE];
    float qw[STREAMS][WIDE], kw[STREAMS][WIDE];
} gates;

static void fill(check_random *r, gates *g, bool wild) {
    launch_fill(r, g->streams[0][0], GATES * STREAMS * WIDE, wild);
    launch_fill(r, g->kv[0][0], (size_t)GATES * (STREAMS + 1) * WIDE, wild);
    launch_fill(r, g->qw[0], STREAMS * WIDE, false);
    launch_fill(r, g->kw[0], STREAMS * WIDE, false);
}

static bool gate(check_case *t, const char *isa, uint32_t threads, uint32_t rows, gates *g) {
    device *d = launch_device(t, isa, threads);
    if (d == NULL) return false;
    args_engram a = {
        .streams = launch_3(g->streams, DTYPE_F32, rows, STREAMS, WIDE),
        .kv = launch_2(g->kv, DTYPE_F32, rows, (STREAMS + 1) * WIDE),
        .q_weight = launch_2(g->qw, DTYPE_F32, STREAMS, WIDE),
        .k_weight = launch_2(g->kw, DTYPE_F32, STREAMS, WIDE),
        .eps = 1e-20,
        .floor = 1e-6,
    };
    bool held = launch_run(t, d, CALL_ENGRAM, rows, &a);
    d->ops->close(d);
    return held;
}

/* Sums of sixteen partials, a product's order, one fmaf an element: as cpu/engram says. */
static float gate_by_rule(const gates *g, uint32_t row, uint32_t s) {
    float part[3][16] = {{0}};
    for (uint32_t i = 0; i < WIDE; i++) {
        float x = g->streams[row][s][i];
        float key = g->kv[row][s][i];
        part[0][i % 16] = fmaf(x * g->qw[s][i], g->kw[s][i] * key, part[0][i % 16]);
        part[1][i % 16] = fmaf(x, x, part[1][i % 16]);
        part[2][i % 16] = fmaf(key, key, part[2][i % 16]);
    }
    for (uint32_t p = 0; p < 3; p++) {
        for (uint32_t half = 8; half >= 1; half /= 2) {
            for (uint32_t i = 0; i < half; i++)
                part[p][i] += part[p][i + half];
        }
    }
    float rx = 1.0f / sqrtf(part[1][0] / WIDE + 1e-20f);
    float rk = 1.0f / sqrtf(part[2][0] / WIDE + 1e-20f);
    float dot = part[0][0] * rx * rk / sqrtf(WIDE);
    float root = sqrtf(fabsf(dot) > 1e-6f ? fabsf(dot) : 1e-6f);
    return fm_sigmoid(dot < 0.0f ? -root : dot > 0.0f ? root : 0.0f);
}

static void gates_have_the_same_bits_everywhere(check_case *t) {
    check_random r = check_seed(t);
    static gates g;
    static gates was;
    static gates want;
    for (uint32_t rows = 1; rows <= GATES; rows += rows < 4 ? 1 : 6) {
        fill(&r, &was, true);
        want = was;
        uint64_t mode = flush_begin();
        for (uint32_t i = 0; i < rows * STREAMS; i++) {
            uint32_t row = i / STREAMS;
            uint32_t s = i % STREAMS;
            float by = gate_by_rule(&was, row, s);
            for (uint32_t k = 0; k < WIDE; k++)
                want.streams[row][s][k] = fmaf(by, was.kv[row][STREAMS][k], was.streams[row][s][k]);
        }
        flush_restore(mode);
        for (const char *const *isa = launch_isas(); *isa != NULL; isa++) {
            g = was;
            if (!gate(t, *isa, rows % 2 == 0 ? 1 : 3, rows, &g)) return;
            CHECKF(t, memcmp(&g, &want, sizeof g) == 0, "%s, %u rows", *isa, rows);
        }
    }
}

static const check_entry cases[] = {
    {"engram/requests-of-a-step-do-not-meet", requests_of_a_step_do_not_meet},
    {"engram/rejected-rows-leave-nothing", rejected_rows_leave_nothing},
    {"engram/gates-have-the-same-bits-everywhere", gates_have_the_same_bits_everywhere},
};

int main(int argc, char **argv) {
    return check_main(argc, argv, cases, COUNT(cases));
}
