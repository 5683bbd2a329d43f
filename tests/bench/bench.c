/* Rows of `tfverify run bench`: what the product's figures are, and the limit each is held against.
 *
 * A row is the median of several rounds; where it is held against a peer (dd, XXH3) the
 * two run by turns in one process, so that a slow minute of the machine hits both.  Nothing here
 * fails on a time: a person reads it.
 *
 *   bench FOLDER [ROW...]     FOLDER keeps packs and rank files between runs */
#include "tests/bench/bench.h"

#include "engine/base/arena.h"
#include "engine/base/io.h"
#include "engine/base/thread.h"
#include "engine/plan/plan.h"
#include "engine/plan/rankfile.h"
#include "engine/tf.h"
#include "harness/base/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define FILE_LAYERS 1400u /* tiny-exl3 with so many target layers has 2 GiB of weights */
#define MEMORY      (256u << 20)

typedef struct bench {
    const char *folder;
    const char *program; /* argv[0]: tfverify lies one folder up */
    tf_pack *flash;
    tf_plan *plans[10]; /* worlds 1 to 4 */
} bench;

double bench_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

_Noreturn void bench_stop(const tf_error *err) {
    char line[2048];
    fprintf(stderr, "bench: %s\n", tf_error_line(err, line, sizeof line));
    exit(3);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a;
    double y = *(const double *)b;
    return x < y ? -1 : x > y;
}

double bench_median(double *values, size_t count) {
    qsort(values, count, sizeof *values, by_value);
    return values[count / 2];
}

static double peak_mb(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_maxrss / 1024.0;
}

/* ---- plan ---- */

static void make_plans(bench *b) {
    tf_error err = {0};
    size_t at = 0;
    for (uint32_t world = 1; world <= 4; world++) {
        for (uint32_t rank = 0; rank < world; rank++) {
            tf_split split = {.world = world, .rank = rank};
            if (tf_plan_make(b->flash, &split, &b->plans[at++], &err) != TF_OK) bench_stop(&err);
        }
    }
}

static void drop_plans(bench *b) {
    for (size_t i = 0; i < 10; i++) {
        tf_plan_close(b->plans[i]);
        b->plans[i] = NULL;
    }
}

static void row_plan(bench *b) {
    double seconds[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        double begin = bench_now();
        make_plans(b);
        seconds[i] = bench_now() - begin;
        drop_plans(b);
    }
    printf("plan: flash, 10 ranks of worlds 1-4, plans and fingerprints: %.2f s (limit 1 s), peak "
           "memory %.0f MB with the pack (limit 300 MB)\n",
           bench_median(seconds, ROUNDS), peak_mb());
}

/* ---- emit ---- */

static void row_emit(bench *b) {
    double seconds[ROUNDS];
    tf_error err = {0};
    tf_split split = {.world = 3, .rank = 2};
    tf_plan *plan = NULL;
    size_t calls = 0;
    if (tf_plan_make(b->flash, &split, &plan, &err) != TF_OK) bench_stop(&err);
    for (int i = 0; i < ROUNDS; i++) {
        double begin = bench_now();
        calls = 0;
        for (int p = 0; p < (int)TF_PHASE_PREFETCH; p++) {
            tf_emit_request r = {.phase = (tf_phase)p, .layer = TF_ALL_LAYERS};
            tf_calls *list = NULL;
            if (tf_emit(plan, &r, &list, &err) != TF_OK) bench_stop(&err);
            calls += tf_calls_count(list);
            tf_calls_close(list);
        }
        seconds[i] = bench_now() - begin;
    }
    tf_plan_close(plan);
    printf("emit: flash, world 3, rank 2, decode + prefill + draft, %zu calls: %.1f ms (limit 50 "
           "ms)\n",
           calls, bench_median(seconds, ROUNDS) * 1e3);
}

/* ---- store ---- */

static void next_call(void *context, size_t index, store_call *row) {
    tf_call_row call;
    const tf_calls *list = NULL;
    memcpy(&list, context, sizeof list);
    tf_calls_row(list, index % tf_calls_count(list), &call);
    *row =
        (store_call){(uint32_t)index, call.layer, call.kind, call.name, call.line, call.line_bytes};
}

static void row_store(bench *b) {
    double rates[ROUNDS];
    tf_error err = {0};
    tf_split split = {.world = 3, .rank = 2};
    tf_plan *plan = NULL;
    tf_calls *list = NULL;
    store *db = NULL;
    int64_t run = 0;
    char path[TF_PATH_BYTES_MAX];
    tf_emit_request r = {.phase = TF_PHASE_DECODE, .layer = TF_ALL_LAYERS};
    store_environment environment = {.command = "bench", .tool = TF_VERSION};
    const size_t rows = 300000;
    io_join(path, sizeof path, b->folder, "bench.db");
    unlink(path);
    if (tf_plan_make(b->flash, &split, &plan, &err) != TF_OK ||
        tf_emit(plan, &r, &list, &err) != TF_OK ||
        store_open(path, STORE_WRITE, 1000, &db, &err) != TF_OK ||
        store_begin(db, &environment, &run, &err) != TF_OK)
        bench_stop(&err);
    for (int i = 0; i < ROUNDS; i++) {
        char digest[DIGEST_HEX];
        /* A list of its own each round: one that is known would not be written again. */
        digest_hex(digest_bytes(&i, sizeof i), digest);
        double begin = bench_now();
        if (store_add_calls(db, digest, rows, next_call, &list, &err) != TF_OK) bench_stop(&err);
        rates[i] = (double)rows / (bench_now() - begin);
    }
    store_close(db);
    unlink(path);
    tf_calls_close(list);
    tf_plan_close(plan);
    printf("store: call rows recorded in SQLite: %.0f rows/s (limit 300000)\n",
           bench_median(rates, ROUNDS));
}

/* ---- rank files ---- */

static tf_pack *large_pack(bench *b) {
    char dir[TF_PATH_BYTES_MAX];
    tf_error err = {0};
    tf_pack *pack = NULL;
    io_join(dir, sizeof dir, b->folder, "large");
    if (!io_exists(dir) && tf_pack_synth("tiny-exl3", dir, FILE_LAYERS, NULL, NULL, &err) != TF_OK)
        bench_stop(&err);
    if (tf_pack_open(dir, b->folder, &pack, &err) != TF_OK) bench_stop(&err);
    return pack;
}

static double seconds_of_dd(const char *path, uint64_t bytes) {
    char command[2 * TF_PATH_BYTES_MAX];
    snprintf(command, sizeof command,
             "dd if=/dev/zero of='%s' bs=4M count=%llu oflag=direct conv=fsync status=none", path,
             (unsigned long long)(bytes / (4u << 20)));
    double begin = bench_now();
    if (system(command) != 0) return 0.0;
    double seconds = bench_now() - begin;
    unlink(path);
    return seconds;
}

/* The peer of a digest: the same bytes read in large pieces and given to XXH3-128, nothing else. */
typedef struct hashing {
    const tf_pack *pack;
    uint64_t bytes, piece;
    char *buffers[64];
} hashing;

static tf_status hash_piece(void *context, size_t index, uint32_t worker, tf_error *err) {
    hashing *h = context;
    const pack_shard *shard = &h->pack->shards[0];
    uint64_t offset = index * h->piece;
    size_t n = (size_t)(h->bytes - offset < h->piece ? h->bytes - offset : h->piece);
    tf_status status = io_read_at(shard->fd, shard->file, h->buffers[worker], n, offset, err);
    if (status == TF_OK) digest_bytes(h->buffers[worker], n);
    return status;
}

/* Bytes a second on every core. */
static double plain_rate(const tf_pack *pack) {
    tf_error err = {0};
    hashing h = {.pack = pack, .bytes = pack->shards[0].size, .piece = 4u << 20};
    uint32_t cores = thread_cores() < 64 ? thread_cores() : 64;
    for (uint32_t i = 0; i < cores; i++)
        h.buffers[i] = mem_take((size_t)h.piece);
    double begin = bench_now();
    if (thread_run(cores, (size_t)((h.bytes + h.piece - 1) / h.piece), hash_piece, &h, &err) !=
        TF_OK)
        bench_stop(&err);
    double rate = (double)h.bytes / (bench_now() - begin);
    for (uint32_t i = 0; i < cores; i++)
        mem_free(h.buffers[i]);
    return rate;
}

static void row_files(bench *b) {
    tf_error err = {0};
    tf_pack *pack = large_pack(b);
    tf_split split = {.world = 1};
    tf_plan *plan = NULL;
    char out[TF_PATH_BYTES_MAX];
    char dd[TF_PATH_BYTES_MAX];
    double ratios[3];
    double rates[3];
    double peers[3];
    tf_digest digest;
    io_join(out, sizeof out, b->folder, "files");
    io_join(dd, sizeof dd, b->folder, "dd");
    rankfile_set set = {0};
    if (tf_plan_make(pack, &split, &plan, &err) != TF_OK) bench_stop(&err);
    /* The files' bytes: small tensors are padded to blocks. */
    if (rankfile_digest_set(plan, NULL, &set, &err) != TF_OK) bench_stop(&err);
    const uint64_t file_bytes = set.bytes;
    rankfile_set_free(&set);
    for (int i = 0; i < 3; i++) {
        double peer = seconds_of_dd(dd, file_bytes);
        if (io_remove_tree(out, &err) != TF_OK) bench_stop(&err);
        double begin = bench_now();
        if (tf_rank_write(plan, out, NULL, &digest, &err) != TF_OK) bench_stop(&err);
        double seconds = bench_now() - begin;
        rates[i] = (double)file_bytes / seconds / 1e6;
        peers[i] = peer > 0 ? (double)file_bytes / peer / 1e6 : 0;
        ratios[i] = peer > 0 ? seconds / peer : 0;
    }
    printf(
        "write: rank files, %.2f GB: %.0f MB/s, dd oflag=direct conv=fsync %.0f MB/s, time %.2f of "
        "dd's (limit 1.20)\n",
        (double)file_bytes / 1e9, bench_median(rates, 3), bench_median(peers, 3),
        bench_median(ratios, 3));
    io_remove_tree(out, &err);
    for (int i = 0; i < 3; i++) {
        tf_text text = {0};
        double peer = plain_rate(pack);
        double begin = bench_now();
        if (tf_rank_text(plan, NULL, &text, &digest, &err) != TF_OK) bench_stop(&err);
        double rate = (double)plan->bytes / (bench_now() - begin);
        text_free(&text);
        rates[i] = rate / 1e6;
        peers[i] = peer / 1e6;
        ratios[i] = rate / peer;
    }
    printf(
        "digest: rank-file digest from the page cache, %.2f GB: %.0f MB/s; the pack's file read in "
        "4 MiB pieces into XXH3-128 on %u cores: %.0f MB/s, ratio %.2f (limit 0.80)\n",
        (double)plan->bytes / 1e9, bench_median(rates, 3), thread_cores(), bench_median(peers, 3),
        bench_median(ratios, 3));
    tf_plan_close(plan);
    tf_pack_close(pack);
}

/* ---- the front door ---- */

static void row_pins(bench *b) {
    double seconds[3];
    char command[2 * TF_PATH_BYTES_MAX];
    const char *slash = strrchr(b->program, '/');
    int n = slash == NULL ? 0 : (int)(slash - b->program + 1);
    snprintf(command, sizeof command, "%.*s../tfverify run pins >/dev/null", n, b->program);
    for (int i = 0; i < 3; i++) {
        double begin = bench_now();
        if (system(command) != 0) fprintf(stderr, "bench: the pins do not hold\n");
        seconds[i] = bench_now() - begin;
    }
    printf("pins: tfverify run pins, three packs, worlds 1-4, end to end: %.1f s (limit 10 s)\n",
           bench_median(seconds, 3));
}

static void row_dot(bench *b) {
    (void)b;
    bench_dot();
}

static void row_forward(bench *b) {
    bench_forward(b->folder);
}

static const struct {
    const char *name;
    void (*run)(bench *b);
    bool wants_flash;
} rows[] = {
    {"plan", row_plan, true},        {"emit", row_emit, true},  {"store", row_store, true},
    {"files", row_files, false},     {"pins", row_pins, false}, {"dot", row_dot, false},
    {"forward", row_forward, false},
};

int main(int argc, char **argv) {
    tf_error err = {0};
    if (argc < 2) {
        fprintf(stderr, "usage: bench FOLDER [plan|emit|store|files|pins|dot|forward...]\n");
        return 2;
    }
    bench b = {.folder = argv[1], .program = argv[0]};
    if (io_make_dirs(b.folder, &err) != TF_OK) bench_stop(&err);
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bool wanted = argc == 2;
        for (int k = 2; k < argc; k++)
            wanted = wanted || strcmp(argv[k], rows[i].name) == 0;
        if (!wanted) continue;
        if (rows[i].wants_flash && b.flash == NULL &&
            tf_pack_open("flash", b.folder, &b.flash, &err) != TF_OK)
            bench_stop(&err);
        rows[i].run(&b);
    }
    tf_pack_close(b.flash);
    return 0;
}
