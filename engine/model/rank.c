#include "engine/model/rank.h"

#include "engine/base/arena.h"
#include "engine/base/check.h"
#include "engine/model/prepared.h"
#include "engine/pack/engram.h"
#include "engine/run/fate.h"
#include "engine/run/handshake.h"
#include "engine/run/layerhash.h"

#include <stdio.h>
#include <string.h>

struct rank {
    rank_options o;
    exchange *exchange;
    tf_plan *plan;
    engram_map map;
    device *device;
    weights *weights;
    exec *exec;
    exec_list **decode[2]; /* [rows + 1] each: without and with logits; NULL: not asked for yet */
    layerhash *hashes;     /* NULL: none are asked for */
    exec_seen seen;        /* who else looks on */
    void *seen_context;
    int32_t *chosen; /* [rows] tokens of the last step, the same on every rank */
    char dir[TF_PATH_BYTES_MAX];
    tf_error stopped; /* why loading was told to stop, where that is no wish of the user */
};

/* ---- opening ---- */

static bool tell(void *context, const char *unit, uint64_t done, uint64_t total) {
    rank *r = context;
    r->exchange->ops->beat(r->exchange);
    /* Loading is long and meets nobody: a peer that is gone by then is looked for here. */
    if (r->exchange->ops->check(r->exchange, &r->stopped) != TF_OK) return false;
    if (r->plan->rank != 0 || r->o.progress == NULL) return true;
    return r->o.progress(r->o.progress_context, unit, done, total);
}

static bool loaded(void *context, uint64_t done, uint64_t total) {
    rank *r = context;
    if (done > total / 2 && fault_reached(&r->o.fault, "load", r->plan->rank, &r->stopped) != TF_OK)
        return false;
    return tell(context, "weight bytes", done, total);
}

/* What the split of a world depends on, the same on every rank. */
static void world_text(const tf_plan *plan, tf_text *out) {
    text_print(out, "world %u", plan->world);
    for (uint32_t u = 0; u < UNIT_COUNT; u++) {
        text_print(out, " %s", plan_unit_name(u));
        for (uint32_t w = 0; plan->units[u] > 0 && w < plan->world; w++)
            text_print(out, "%c%u", w == 0 ? ' ' : ',', canon_size(plan->ranges[u][w]));
    }
}

static const char *profile_name(const rank *r) {
    return r->o.settings.profile == PROFILE_BF16 ? "bf16" : "f32";
}

static void settings_text(const rank *r, char *to, size_t size) {
    snprintf(to, size, "profile %s, %u slots of %llu positions, %u rows", profile_name(r),
             r->o.slots, (unsigned long long)r->o.context, r->o.rows);
}

static tf_status agree(rank *r, tf_error *err) {
    const tf_plan *plan = r->plan;
    char pack[DIGEST_HEX];
    char config[DIGEST_HEX];
    char settings[128];
    tf_text world = {0};
    world_text(plan, &world);
    settings_text(r, settings, sizeof settings);
    const handshake_field fields[] = {
        {"program version", TF_VERSION},
        {"settings", settings},
        {"split", text_str(&world)},
        {"pack digest", digest_hex(plan->pack->digest, pack)},
        {"config digest", digest_hex(plan->pack->config.digest, config)},
    };
    tf_status status = text_done(&world, err);
    if (status == TF_OK)
        status = handshake_run(r->exchange, fields, sizeof fields / sizeof fields[0], err);
    text_free(&world);
    return status;
}

static tf_status find_files(rank *r, tf_error *err) {
    if (r->o.rank_dir != NULL) {
        snprintf(r->dir, sizeof r->dir, "%s", r->o.rank_dir);
        return TF_OK;
    }
    rankfile_options o = {.workers = 1, .progress = tell, .context = r};
    return prepared_folder(r->plan, r->o.cache_dir, &o, r->dir, err);
}

static void see(void *context, const call *c, const port_launch *l) {
    rank *r = context;
    if (r->hashes != NULL) layerhash_seen(r->hashes, c, l);
    if (r->seen != NULL) r->seen(r->seen_context, c, l);
}

static void look_on(rank *r) {
    bool nobody = r->hashes == NULL && r->seen == NULL;
    exec_observe(r->exec, nobody ? NULL : see, r);
}

static tf_status hash_layers(rank *r, tf_error *err) {
    char path[TF_PATH_BYTES_MAX];
    char settings[128];
    tf_text split = {0};
    const tf_plan *plan = r->plan;
    if (r->o.layer_hashes == NULL) return TF_OK;
    int n = plan->world == 1 ? snprintf(path, sizeof path, "%s", r->o.layer_hashes)
                             : snprintf(path, sizeof path, "%s.r%u", r->o.layer_hashes, plan->rank);
    if (n < 0 || (size_t)n >= sizeof path) {
        return tf_fail(err, TF_W_TOO_LARGE, "naming layer hashes %s", r->o.layer_hashes);
    }
    settings_text(r, settings, sizeof settings);
    world_text(plan, &split);
    layerhash_header h = {
        .model = plan->pack->name,
        .plan = plan->fingerprint,
        .settings = digest_str(settings),
        .split = digest_str(text_str(&split)),
        .world = plan->world,
        .rank = plan->rank,
        .profile = profile_name(r),
        .device = r->device,
    };
    tf_status status = text_done(&split, err);
    if (status == TF_OK) status = layerhash_open(path, &h, &r->hashes, err);
    text_free(&split);
    if (status == TF_OK) look_on(r);
    return status;
}

tf_status rank_finish_hashes(rank *r, tf_error *err) {
    layerhash *h = r->hashes;
    if (h == NULL) return TF_OK;
    r->hashes = NULL;
    look_on(r);
    return layerhash_finish(h, err);
}

static tf_status list_for(rank *r, const rank_step *step, exec_list **out, tf_error *err) {
    emit_request request = {
        .phase = step->phase,
        .layer = EMIT_ALL_LAYERS,
        .rows = step->rows,
        .start = (uint64_t)step->start,
        .context = r->o.context,
        .logits = step->logits,
    };
    tf_calls *calls = NULL;
    tf_status status = emit_calls(r->plan, &request, &calls, err);
    if (status != TF_OK) return status;
    return exec_bind(r->exec, calls, out, err);
}

/* Every list a step can need finds its memory and weights here. */
static tf_status reserve(rank *r, tf_error *err) {
    exec_list *list = NULL;
    uint64_t rows = r->o.rows < r->o.context ? r->o.rows : r->o.context;
    rank_step step = {.phase = PHASE_PREFILL, .rows = (uint32_t)rows};
    weights_progress(r->weights, loaded, r);
    tf_status status = list_for(r, &step, &list, err);
    exec_drop(list);
    weights_progress(r->weights, NULL, NULL);
    if (status != TF_OK) return status;
    step = (rank_step){.phase = PHASE_DECODE, .rows = 1};
    return list_for(r, &step, &r->decode[0][1], err);
}

static tf_status start(rank *r, tf_error *err) {
    const tf_config *config = &r->o.pack->config;
    exec_options o = {
        .plan = r->plan,
        .device = r->device,
        .exchange = r->exchange,
        .weights = r->weights,
        .slots = r->o.slots,
        .context = r->o.context,
        .token_map = config->engram_count > 0 ? r->map.ids : NULL,
    };
    for (int i = 0; i < 2; i++)
        r->decode[i] = mem_take((r->o.rows + 1) * sizeof(exec_list *));
    r->chosen = mem_take(r->o.rows * sizeof *r->chosen);
    if (r->decode[0] == NULL || r->decode[1] == NULL || r->chosen == NULL)
        return tf_fail(err, TF_W_NO_MEMORY, "opening rank %u", r->plan->rank);
    tf_status status = exec_open(&o, &r->exec, err);
    if (status == TF_OK) status = reserve(r, err);
    return status == TF_OK ? hash_layers(r, err) : status;
}

/* Loading ends on each rank by itself, and nobody may begin a step with ranks that never came so far:
 * where ranks are threads there is nothing else that would give up one that hangs. */
static tf_status meet(rank *r, tf_error *err) {
    static const char here = 1;
    char all[TF_WORLD_MAX];
    uint64_t bytes[TF_WORLD_MAX];
    for (uint32_t w = 0; w < r->exchange->world; w++)
        bytes[w] = sizeof here;
    exchange_part part = {.site = "open", .send = &here, .recv = all, .bytes = bytes};
    return r->exchange->ops->gather(r->exchange, &part, err);
}

static tf_status open_all(rank *r, tf_error *err) {
    const tf_pack *pack = r->o.pack;
    uint32_t index = r->exchange->rank;
    tf_status status;
    TF_TRY(plan_make(pack, r->exchange->world, index, r->o.weights, &r->plan, err));
    TF_TRY(fault_reached(&r->o.fault, "open", index, err));
    if (pack->config.engram_count > 0)
        TF_TRY(engram_map_read(pack->dir, &pack->config, &r->map, err));
    TF_TRY(backend_device(r->o.device, &r->o.settings, &r->device, err));
    TF_TRY(find_files(r, err));
    TF_TRY(weights_open(r->plan, r->dir, r->device, &r->weights, err));
    TF_TRY(agree(r, err));
    TF_TRY(start(r, err));
    TF_TRY(meet(r, err));
done:
    /* What asked to stop is the cause; the work only says that it was asked. */
    if (status != TF_OK && r->stopped.status != TF_OK) *err = r->stopped;
    return err->status;
}

tf_status rank_open(const rank_options *options, exchange *x, rank **out, tf_error *err) {
    rank *r = mem_take(sizeof *r);
    if (r == NULL) {
        tf_fail(err, TF_W_NO_MEMORY, "opening rank %u", x->rank);
    } else {
        r->o = *options;
        r->exchange = x;
        open_all(r, err);
    }
    if (err->status == TF_OK) {
        *out = r;
        return TF_OK;
    }
    fate_tell(x, err);
    rank_close(r);
    return err->status;
}

void rank_close(rank *r) {
    if (r == NULL) return;
    for (int i = 0; i < 2; i++) {
        for (uint32_t n = 0; r->decode[i] != NULL && n <= r->o.rows; n++)
            exec_drop(r->decode[i][n]);
        mem_free(r->decode[i]);
    }
    mem_free(r->chosen);
    layerhash_drop(r->hashes);
    exec_close(r->exec);
    weights_close(r->weights);
    if (r->device != NULL) r->device->ops->close(r->device);
    engram_map_free(&r->map);
    plan_free(r->plan);
    mem_free(r);
}

/* ---- steps ---- */

static tf_status put_input(rank *r, const char *role, const void *from, size_t bytes,
                           tf_error *err) {
    void *to = exec_named(r->exec, role);
    if (to == NULL) return TF_OK; /* this phase does not ask for it */
    return r->device->ops->write(r->device, to, from, bytes, err);
}

static tf_status write_inputs(rank *r, const rank_step *s, tf_error *err) {
    bool chunk = s->phase == PHASE_PREFILL;
    size_t slots = chunk ? 1 : s->rows;
    tf_status status = put_input(r, "in.ids", s->ids, s->rows * sizeof *s->ids, err);
    if (status == TF_OK) status = put_input(r, "in.slots", s->slots, slots * sizeof *s->slots, err);
    if (status == TF_OK && !chunk)
        status = put_input(r, "in.positions", s->positions, s->rows * sizeof *s->positions, err);
    if (status == TF_OK)
        status =
            put_input(r, "in.temperature", s->temperature, slots * sizeof *s->temperature, err);
    if (status == TF_OK) status = put_input(r, "in.seed", s->seed, slots * sizeof *s->seed, err);
    return status;
}

static tf_status read_outputs(rank *r, const rank_step *s, int32_t *tokens, float *logits,
                              tf_error *err) {
    size_t bytes = (s->phase == PHASE_PREFILL ? 1 : s->rows) * sizeof *tokens;
    tf_status status =
        r->device->ops->read(r->device, r->chosen, exec_named(r->exec, "out.tokens"), bytes, err);
    if (status != TF_OK) return status;
    exec_decided(r->exec, r->chosen, bytes);
    if (tokens != NULL) memcpy(tokens, r->chosen, bytes);
    if (logits == NULL) return TF_OK;
    bytes = (size_t)s->rows * r->o.pack->config.vocab * sizeof *logits;
    return r->device->ops->read(r->device, logits, exec_named(r->exec, "out.logits"), bytes, err);
}

static tf_status step_once(rank *r, const rank_step *s, int32_t *tokens, float *logits,
                           tf_error *err) {
    bool chunk = s->phase == PHASE_PREFILL;
    exec_list *fresh = NULL;
    tf_status status;
    exec_list **list = chunk ? &fresh : &r->decode[s->logits][s->rows];
    TF_TRY(fault_reached(&r->o.fault, chunk ? "prefill" : "decode", r->plan->rank, err));
    if (*list == NULL) TF_TRY(list_for(r, s, list, err));
    TF_TRY(write_inputs(r, s, err));
    if (r->hashes != NULL) layerhash_step(r->hashes, s->number, chunk ? "prefill" : "decode");
    TF_TRY(exec_run(r->exec, *list, err));
    TF_TRY(read_outputs(r, s, tokens, logits, err));
done:
    exec_drop(fresh);
    return status;
}

tf_status rank_run(rank *r, const rank_step *step, int32_t *tokens, float *logits, tf_error *err) {
    TF_ASSERT(step->rows >= 1 && step->rows <= r->o.rows);
    if (step_once(r, step, tokens, logits, err) == TF_OK) return TF_OK;
    fate_tell(r->exchange, err);
    return err->status;
}

void rank_observe(rank *r, exec_seen seen, void *context) {
    r->seen = seen;
    r->seen_context = context;
    look_on(r);
}

uint64_t rank_state_bytes(const rank *r) {
    return exec_state_bytes(r->exec);
}

tf_status rank_read_state(rank *r, uint32_t slot, void *to, tf_error *err) {
    return r->device->ops->read(r->device, to, exec_state(r->exec, slot), exec_state_bytes(r->exec),
                                err);
}

tf_status rank_write_state(rank *r, uint32_t slot, const void *from, tf_error *err) {
    return r->device->ops->write(r->device, exec_state(r->exec, slot), from,
                                 exec_state_bytes(r->exec), err);
}

const tf_plan *rank_plan(const rank *r) {
    return r->plan;
}

const device *rank_device(const rank *r) {
    return r->device;
}

exec_memory rank_memory(const rank *r) {
    return exec_memory_of(r->exec);
}
