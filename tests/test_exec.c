/* The executor (engine/run/exec, weights): it walks the list that was emitted, in order, and takes
 * memory when lists are bound, not when they run. */
#include "engine/run/exec.h"
#include "engine/run/weights.h"

#include "engine/base/arena.h"
#include "engine/base/io.h"
#include "engine/emit/buffers.h"
#include "engine/model/prepared.h"
#include "engine/pack/engram.h"
#include "engine/port/backends.h"
#include "engine/run/layerhash.h"
#include "tests/support/check.h"
#include "tests/support/far.h"
#include "tests/support/lists.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct bench {
    check_case *t;
    tf_plan *plan;
    engram_map map;
    device *device;
    exchange *end;
    weights *weights;
    exec *exec;
    char dir[TF_PATH_BYTES_MAX];
    uint32_t seen; /* calls so far */
    const tf_calls *walked;
} bench;

static bool begin_on(check_case *t, bench *b, const char *pack, bool far) {
    tf_error err = {0};
    char line[1024];
    uint32_t count = 0;
    exchange_settings alone = {.world = 1};
    device_settings settings = {.threads = 1};
    rankfile_options o = {.workers = 1};
    memset(b, 0, sizeof *b);
    b->t = t;
    b->plan = lists_plan(t, pack, 1, 0);
    if (b->plan == NULL) return false;
    const tf_pack *p = b->plan->pack;
    bool held = engram_map_read(p->dir, &p->config, &b->map, &err) == TF_OK &&
                backend_device("cpu", &settings, &b->device, &err) == TF_OK &&
                backend_exchange("threads", &alone, &b->end, &count, &err) == TF_OK &&
                prepared_folder(b->plan, TF_BUILD_DIR "/cache", &o, b->dir, &err) == TF_OK;
    if (held && far) b->device = far_device(b->device);
    held = held && weights_open(b->plan, b->dir, b->device, &b->weights, &err) == TF_OK;
    exec_options options = {.plan = b->plan,
                            .device = b->device,
                            .exchange = b->end,
                            .weights = b->weights,
                            .slots = 2,
                            .context = 64,
                            .token_map = b->map.ids};
    held = held && exec_open(&options, &b->exec, &err) == TF_OK;
    return CHECKF(t, held, "%s", tf_error_line(&err, line, sizeof line));
}

static bool begin(check_case *t, bench *b, const char *pack) {
    return begin_on(t, b, pack, false);
}

static void end(bench *b) {
    exec_close(b->exec);
    weights_close(b->weights);
    if (b->device != NULL) b->device->ops->close(b->device);
    if (b->end != NULL) b->end->ops->close(b->end);
    engram_map_free(&b->map);
    plan_free(b->plan);
}

static exec_list *bound(bench *b, call_phase phase, uint32_t rows) {
    emit_request r = {.phase = phase, .layer = EMIT_ALL_LAYERS, .rows = rows, .context = 64};
    tf_error err = {0};
    tf_calls *calls = NULL;
    exec_list *list = NULL;
    bool held = emit_calls(b->plan, &r, &calls, &err) == TF_OK &&
                exec_bind(b->exec, calls, &list, &err) == TF_OK;
    return CHECKF(b->t, held, "%s", err.what) ? list : NULL;
}

static void put_named(bench *b, const char *role, const void *from, size_t bytes) {
    tf_error err = {0};
    void *to = exec_named(b->exec, role);
    if (to == NULL) return;
    CHECK(b->t, b->device->ops->write(b->device, to, from, bytes, &err) == TF_OK);
}

#define ROWS_MAX 40

static void put_ids(bench *b, uint32_t rows) {
    int32_t ids[ROWS_MAX];
    int32_t slots[ROWS_MAX] = {0};
    int64_t positions[ROWS_MAX];
    for (uint32_t i = 0; i < rows; i++) {
        ids[i] = (int32_t)(7 * i + 3);
        positions[i] = i;
    }
    put_named(b, "in.ids", ids, rows * sizeof ids[0]);
    put_named(b, "in.slots", slots, rows * sizeof slots[0]);
    put_named(b, "in.positions", positions, rows * sizeof positions[0]);
}

static void seen(void *context, const call *c, const port_launch *l) {
    bench *b = context;
    CHECK(b->t, c == &b->walked->calls[b->seen]);
    CHECK(b->t, l->kind == c->kind && l->rows == (uint32_t)c->grid[0].value);
    b->seen++;
}

static void every_call_of_the_list_runs_once_in_order(check_case *t) {
    bench b;
    if (begin(t, &b, "tiny-exl3")) {
        tf_error err = {0};
        exec_list *list = bound(&b, PHASE_DECODE, 2);
        if (list != NULL) {
            put_ids(&b, 2);
            b.walked = exec_calls(list);
            exec_observe(b.exec, seen, &b);
            CHECK(t, exec_run(b.exec, list, &err) == TF_OK);
            CHECK_U64(t, b.seen, b.walked->count);
        }
        exec_drop(list);
    }
    end(&b);
}

/* ---- a device with memory of its own ---- */

typedef struct outcome {
    int32_t tokens[3];
    float *logits; /* [3, V] */
    char *hashes;  /* the file's text */
} outcome;

static void hash_seen(void *context, const call *c, const port_launch *l) {
    layerhash_seen(context, c, l);
}

static void run_three_rows(bench *b, outcome *o) {
    emit_request r = {
        .phase = PHASE_DECODE, .layer = EMIT_ALL_LAYERS, .rows = 3, .context = 64, .logits = true};
    size_t bytes = 3 * sizeof(float) * b->plan->pack->config.vocab;
    char path[1100];
    size_t n = 0;
    tf_error err = {0};
    tf_calls *calls = NULL;
    exec_list *list = NULL;
    layerhash *hashes = NULL;
    layerhash_header head = {.model = "m", .profile = "f32", .world = 1, .device = b->device};
    snprintf(path, sizeof path, "%s/h", check_tmpdir(b->t));
    o->logits = malloc(bytes);
    bool held = o->logits != NULL && layerhash_open(path, &head, &hashes, &err) == TF_OK &&
                emit_calls(b->plan, &r, &calls, &err) == TF_OK &&
                exec_bind(b->exec, calls, &list, &err) == TF_OK;
    if (held) put_ids(b, 3);
    if (held) layerhash_step(hashes, 0, "decode");
    exec_observe(b->exec, hash_seen, hashes);
    device *d = b->device;
    held = held && exec_run(b->exec, list, &err) == TF_OK &&
           d->ops->read(d, o->tokens, exec_named(b->exec, "out.tokens"), sizeof o->tokens, &err) ==
               TF_OK &&
           d->ops->read(d, o->logits, exec_named(b->exec, "out.logits"), bytes, &err) == TF_OK &&
           layerhash_finish(hashes, &err) == TF_OK &&
           io_read_file(path, 1 << 20, &o->hashes, &n, &err) == TF_OK;
    CHECKF(b->t, held, "%s", err.what);
    exec_drop(list);
}

/* Where a device's memory is out of sight, all goes through its operations: the executor, weights,
 * shares and layer hashes. */
static void nothing_looks_into_a_remote_devices_memory(check_case *t) {
    outcome out[2] = {{{0}, NULL, NULL}};
    size_t bytes = 0;
    for (int far = 0; far < 2; far++) {
        bench b;
        if (begin_on(t, &b, "tiny-exl3", far == 1)) run_three_rows(&b, &out[far]);
        CHECK(t, far_is(exec_state(b.exec, 0)) == (far == 1));
        bytes = 3 * sizeof(float) * b.plan->pack->config.vocab;
        end(&b);
    }
    CHECK(t, memcmp(out[0].tokens, out[1].tokens, sizeof out[0].tokens) == 0);
    CHECK(t, memcmp(out[0].logits, out[1].logits, bytes) == 0);
    CHECK_STR(t, out[1].hashes, out[0].hashes);
    for (int far = 0; far < 2; far++) {
        free(out[far].logits);
        mem_free(out[far].hashes);
    }
}

/* A larger list moves memory; the smaller one, bound before, still finds its own. */
static void lists_bound_before_find_moved_memory(check_case *t) {
    bench b;
    if (begin(t, &b, "tiny-bf16")) {
        tf_error err = {0};
        int32_t tokens[2];
        exec_list *small = bound(&b, PHASE_DECODE, 1);
        put_ids(&b, 1);
        CHECK(t, small != NULL && exec_run(b.exec, small, &err) == TF_OK);
        tokens[0] = *(int32_t *)exec_named(b.exec, "out.tokens");
        exec_list *large = bound(&b, PHASE_PREFILL, 40);
        exec_memory m = exec_memory_of(b.exec);
        CHECK_U64(t, m.step, buffers_bytes(exec_calls(large)));
        put_ids(&b, 1);
        CHECK(t, exec_run(b.exec, small, &err) == TF_OK);
        tokens[1] = *(int32_t *)exec_named(b.exec, "out.tokens");
        CHECK_U64(t, tokens[1], tokens[0]);
        exec_drop(small);
        exec_drop(large);
    }
    end(&b);
}

static void a_walk_takes_no_memory(check_case *t) {
    bench b;
    if (begin(t, &b, "tiny-exl3")) {
        tf_error err = {0};
        exec_list *list = bound(&b, PHASE_DECODE, 3);
        put_ids(&b, 3);
        CHECK(t, list != NULL && exec_run(b.exec, list, &err) == TF_OK);
        uint64_t taken = mem_count();
        CHECK(t, exec_run(b.exec, list, &err) == TF_OK);
        CHECK_U64(t, mem_count(), taken);
        exec_drop(list);
    }
    end(&b);
}

/* The draft's lists and the target's meet in one state, and all of its roles are apart. */
static void phases_share_one_state_of_disjoint_roles(check_case *t) {
    bench b;
    if (begin(t, &b, "tiny-exl3")) {
        exec_list *lists[] = {bound(&b, PHASE_DECODE, 1), bound(&b, PHASE_PREFILL, 5),
                              bound(&b, PHASE_DRAFT, 1)};
        uint64_t most = 0;
        for (size_t i = 0; i < COUNT(lists); i++) {
            if (lists[i] != NULL && exec_calls(lists[i])->state_bytes > most)
                most = exec_calls(lists[i])->state_bytes;
        }
        CHECK(t, exec_state_bytes(b.exec) >= most);
        CHECK(t, exec_state_bytes(b.exec) % BUFFER_ALIGN == 0);
        CHECK_U64(t, (char *)exec_state(b.exec, 1) - (char *)exec_state(b.exec, 0),
                  exec_state_bytes(b.exec));
        for (size_t i = 0; i < COUNT(lists); i++)
            exec_drop(lists[i]);
    }
    end(&b);
}

/* ---- weights ---- */

static void opening_reads_no_payload_and_a_weight_is_read_once(check_case *t) {
    bench b;
    if (begin(t, &b, "tiny-exl3")) {
        CHECK_U64(t, weights_bytes_read(b.weights), 0);
        exec_list *list = bound(&b, PHASE_DECODE, 1);
        uint64_t read = weights_bytes_read(b.weights);
        CHECK(t, read > 0 && read <= weights_bytes(b.weights));
        exec_list *more = bound(&b, PHASE_PREFILL, 9);
        CHECK_U64(t, weights_bytes_read(b.weights), read);
        exec_drop(list);
        exec_drop(more);
    }
    end(&b);
}

static bool stop_at_once(void *context, uint64_t done, uint64_t total) {
    (void)context, (void)done, (void)total;
    return false;
}

static void loading_can_be_stopped(check_case *t) {
    bench b;
    if (begin(t, &b, "tiny-exl3")) {
        emit_request r = {.phase = PHASE_DECODE, .layer = EMIT_ALL_LAYERS, .context = 64};
        tf_error err = {0};
        tf_calls *calls = NULL;
        exec_list *list = NULL;
        weights_progress(b.weights, stop_at_once, NULL);
        CHECK(t, emit_calls(b.plan, &r, &calls, &err) == TF_OK);
        CHECK(t, exec_bind(b.exec, calls, &list, &err) == TF_INTERRUPTED);
        CHECK(t, list == NULL);
        err = (tf_error){0};
        weights_progress(b.weights, NULL, NULL);
        list = bound(&b, PHASE_DECODE, 1);
        exec_drop(list);
    }
    end(&b);
}

static void another_ranks_files_are_refused_before_a_byte(check_case *t) {
    tf_plan *plan = lists_plan(t, "tiny-exl3", 2, 0);
    tf_plan *other = lists_plan(t, "tiny-exl3", 2, 1);
    const char *dir = check_tmpdir(t);
    char out[256];
    tf_error err = {0};
    rankfile_options o = {.workers = 1};
    device_settings settings = {.threads = 1};
    device *d = NULL;
    weights *w = NULL;
    CHECK(t, rankfile_write_set(other, dir, &o, NULL, &err) == TF_OK);
    CHECK(t, backend_device("cpu", &settings, &d, &err) == TF_OK);
    check_command(t, out, sizeof out, "mv '%s/rank1' '%s/rank0'", dir, dir);
    CHECK(t, weights_open(plan, dir, d, &w, &err) != TF_OK);
    CHECK_U64(t, err.word, TF_W_WRONG_RANK);
    if (d != NULL) d->ops->close(d);
    plan_free(other);
    plan_free(plan);
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"exec/every-call-of-the-list-runs-once-in-order",
         every_call_of_the_list_runs_once_in_order},
        {"exec/nothing-looks-into-a-remote-devices-memory",
         nothing_looks_into_a_remote_devices_memory},
        {"exec/lists-bound-before-find-moved-memory", lists_bound_before_find_moved_memory},
        {"exec/a-walk-takes-no-memory", a_walk_takes_no_memory},
        {"exec/phases-share-one-state-of-disjoint-roles", phases_share_one_state_of_disjoint_roles},
        {"weights/opening-reads-no-payload-and-a-weight-is-read-once",
         opening_reads_no_payload_and_a_weight_is_read_once},
        {"weights/loading-can-be-stopped", loading_can_be_stopped},
        {"weights/another-ranks-files-are-refused-before-a-byte",
         another_ranks_files_are_refused_before_a_byte},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
