/* Rows of `tfverify run bench rows=forward`: whole tokens of a wide model, beside the machine's own
 * limits measured between the rounds.
 *
 * Trap: the packs are gigabytes; they are made in the bench folder on first use and kept. */
#include "engine/base/io.h"
#include "engine/cpu/cpu.h"
#include "engine/model/model.h"
#include "engine/tf.h"
#include "tests/bench/bench.h"

#include <stdio.h>
#include <string.h>

#define PREFILL 256u
#define TOKENS  6u /* of a round of decode */

typedef struct subject {
    const char *name;
    tf_pack *pack;
    tf_model *model;
    double bytes;   /* of stored weights that one token reads */
    double weights; /* as many numbers */
} subject;

static void open_pack(subject *s, const char *folder) {
    char dir[1200];
    char config[1300];
    tf_error err = {0};
    snprintf(dir, sizeof dir, "%s/%s", folder, s->name);
    snprintf(config, sizeof config, "%s/config.json", dir);
    if (!io_exists(config) && tf_pack_synth(s->name, dir, 0, NULL, NULL, &err) != TF_OK)
        bench_stop(&err);
    if (tf_pack_open(dir, folder, &s->pack, &err) != TF_OK) bench_stop(&err);
}

/* Every linear but the experts nobody chose and the drafts; of tables only rows are read. */
static void count_weights(subject *s) {
    tf_split split = {.world = 1};
    tf_error err = {0};
    tf_plan *plan = NULL;
    const tf_config *c = &s->pack->config;
    double chosen = (double)c->experts_per_tok / c->routed_experts;
    if (tf_plan_make(s->pack, &split, &plan, &err) != TF_OK) bench_stop(&err);
    for (uint32_t i = 0; i < plan->item_count; i++) {
        const plan_item *item = &plan->items[i];
        bool table = item->tensor->dtype == DTYPE_F8_E4M3 || item->tensor->dtype == DTYPE_F8_E8M0 ||
                     item->category == BYTES_EMBED;
        bool skipped = table || item->category == BYTES_DRAFT;
        if (skipped || item->tensor->dims < 2) continue;
        double share = item->category == BYTES_EXPERTS ? chosen : 1.0;
        double numbers = (double)item->bytes / dtype_bytes(item->tensor->dtype);
        /* A trellis word of 16 bits holds 16 / b numbers. */
        if (item->part == PART_TRELLIS)
            numbers = (double)item->shape[0] * (double)item->shape[1] * 256.0;
        s->bytes += share * (double)item->bytes;
        s->weights += share * numbers;
    }
    tf_plan_close(plan);
}

static void open_model(subject *s, const char *folder, uint32_t world, uint32_t threads) {
    tf_split split = {.world = world};
    tf_error err = {0};
    tf_model_options o = {
        .cache_dir = folder, .rows = PREFILL, .context = 1024, .threads = threads};
    double begin = bench_now();
    if (tf_model_open(s->pack, &split, &o, &s->model, &err) != TF_OK) bench_stop(&err);
    tf_model_memory m;
    tf_model_memory_of(s->model, 0, &m);
    printf("forward: %s, world %u: opened in %.1f s, %.2f GB of weights a rank\n", s->name, world,
           bench_now() - begin, (double)m.weights / 1e9);
}

static double prefill_seconds(subject *s) {
    int32_t ids[PREFILL];
    tf_error err = {0};
    for (uint32_t i = 0; i < PREFILL; i++)
        ids[i] = (int32_t)(i * 7919 % 1280);
    if (tf_model_reset(s->model, 0, &err) != TF_OK) bench_stop(&err);
    double begin = bench_now();
    if (tf_model_prefill(s->model, 0, ids, PREFILL, NULL, NULL, &err) != TF_OK) bench_stop(&err);
    return bench_now() - begin;
}

/* Seconds a token. */
static double decode_seconds(subject *s) {
    tf_error err = {0};
    tf_row row = {0, 17};
    double begin = bench_now();
    for (uint32_t i = 0; i < TOKENS; i++) {
        if (tf_model_decode(s->model, &row, 1, NULL, &row.id, &err) != TF_OK) bench_stop(&err);
    }
    return (bench_now() - begin) / TOKENS;
}

static void row_decode(subject *s, bool plain) {
    double seconds[ROUNDS];
    double reads[ROUNDS];
    double ratios[ROUNDS];
    decode_seconds(s);
    for (int i = 0; i < ROUNDS; i++) {
        reads[i] = bench_limits_now(0).read;
        seconds[i] = decode_seconds(s);
        ratios[i] = s->bytes / seconds[i] / reads[i];
    }
    double token = bench_median(seconds, ROUNDS);
    if (plain) {
        printf(
            "forward: %s, %s, decode: %.1f tokens/s, %.2f GB a token, %.1f GB/s; plain read %.1f "
            "GB/s, ratio %.2f (limit 0.80)\n",
            s->name, tf_model_isa(s->model), 1 / token, s->bytes / 1e9, s->bytes / token / 1e9,
            bench_median(reads, ROUNDS) / 1e9, bench_median(ratios, ROUNDS));
        return;
    }
    printf("forward: %s, %s, decode: %.1f tokens/s, %.2f G weights a token, %.1f G weights/s\n",
           s->name, tf_model_isa(s->model), 1 / token, s->weights / 1e9, s->weights / token / 1e9);
}

static void row_prefill(subject *s) {
    double seconds[ROUNDS];
    double peaks[ROUNDS];
    double ratios[ROUNDS];
    /* Every expert's weights take part, but each row meets those it chose: as in decode. */
    double products = s->weights * PREFILL;
    prefill_seconds(s);
    for (int i = 0; i < ROUNDS; i++) {
        peaks[i] = bench_limits_now(0).multiply;
        seconds[i] = prefill_seconds(s);
        ratios[i] = products / seconds[i] / peaks[i];
    }
    printf("forward: %s, %s, prefill of %u rows: %.0f rows/s, %.0f G multiply-adds/s of products; "
           "peak %.0f, ratio %.2f (limit 0.50)\n",
           s->name, tf_model_isa(s->model), PREFILL, PREFILL / bench_median(seconds, ROUNDS),
           products / bench_median(seconds, ROUNDS) / 1e9, bench_median(peaks, ROUNDS) / 1e9,
           bench_median(ratios, ROUNDS));
}

/* World 3 as threads of this process, one thread a rank, against world 1 on as many cores. */
static void row_world_3(subject *s, const char *folder) {
    subject three = {.name = s->name, .pack = s->pack};
    double seconds[2][ROUNDS];
    double waits[ROUNDS];
    open_model(&three, folder, 3, 1);
    prefill_seconds(&three);
    decode_seconds(&three);
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t before = three.model->ends[0]->spent_ns;
        seconds[0][i] = decode_seconds(s);
        seconds[1][i] = decode_seconds(&three);
        waits[i] = (double)(three.model->ends[0]->spent_ns - before) / 1e3 / TOKENS;
    }
    double one = bench_median(seconds[0], ROUNDS);
    double all = bench_median(seconds[1], ROUNDS);
    printf(
        "forward: %s, world 3 as threads: %.1f ms a token against %.1f at world 1, ratio %.2f; rank "
        "0 is %.0f us a token in exchanges, waits for the others included\n",
        s->name, all * 1e3, one * 1e3, all / one, bench_median(waits, ROUNDS));
    tf_model_close(three.model);
}

static void all_rows(const char *name, const char *folder, bool plain) {
    subject s = {.name = name};
    open_pack(&s, folder);
    count_weights(&s);
    open_model(&s, folder, 1, 0);
    row_prefill(&s);
    row_decode(&s, plain);
    row_world_3(&s, folder);
    tf_model_close(s.model);
    tf_pack_close(s.pack);
}

void bench_forward(const char *folder) {
    all_rows("bench-exl3", folder, false);
    all_rows("bench-bf16", folder, true);
    if (cpu_best_isa() < CPU_AMX)
        printf("forward: profile bf16 by tiles: not run: this machine has no AMX\n");
}
