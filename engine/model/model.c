#include "engine/model/model.h"

#include "engine/base/arena.h"
#include "engine/base/check.h"
#include "engine/base/thread.h"
#include "engine/plan/admission.h"
#include "engine/run/fate.h"

#include <string.h>

/* After one rank has failed the others only have to hear of it. */
#define PATIENCE_MS 500u

/* ---- opening ---- */

static tf_status open_rank(void *context, uint32_t index, tf_error *err) {
    tf_model *m = context;
    return rank_open(&m->options, m->ends[index], &m->ranks[index], err);
}

static void fill_options(tf_model *m, const tf_model_options *o) {
    rank_options *r = &m->options;
    r->pack = m->pack;
    r->device = o->device == NULL ? "cpu" : o->device;
    r->rank_dir = o->rank_dir;
    r->cache_dir = o->cache_dir;
    r->slots = o->slots == 0 ? 1 : o->slots;
    r->rows = o->rows == 0 ? EMIT_ROWS_PREFILL : o->rows;
    if (r->rows < r->slots) r->rows = r->slots;
    /* Compressed rows are whole: no ratio of the model may cut a row in two. */
    r->context = ((o->context == 0 ? EMIT_CONTEXT : o->context) + 7) / 8 * 8;
    r->settings.isa = o->isa;
    r->settings.profile = o->profile == TF_PROFILE_BF16 ? PROFILE_BF16 : PROFILE_F32;
    r->fault = (planted_fault){o->fault.act, o->fault.phase, o->fault.rank};
    r->progress = o->progress;
    r->progress_context = o->context_of_progress;
    r->layer_hashes = o->layer_hashes;
}

static tf_status check_options(const tf_model *m, const tf_split *split, tf_error *err) {
    const rank_options *r = &m->options;
    tf_status status = admission_ask(TF_OP_FORWARD, split->world, false, err);
    if (status == TF_OK) status = fault_check(&r->fault, split->world, err);
    if (status != TF_OK) return status;
    if (m->pack->header_only) {
        tf_fail(err, TF_W_HEADER_ONLY_PACK, "opening a model of pack %s", m->pack->name);
        return tf_remedy(err, "use a pack with data: tiny-bf16, tiny-exl3 or a folder");
    }
    if (r->rank_dir == NULL && r->cache_dir == NULL) {
        return tf_fail(err, TF_W_USAGE, "opening a model without a folder for its rank files");
    }
    return TF_OK;
}

static tf_status take_arrays(tf_model *m, tf_error *err) {
    uint32_t rows = m->options.rows;
    m->slots = arena_array(&m->arena, m->options.slots, sizeof *m->slots);
    m->ids = arena_array(&m->arena, rows, sizeof *m->ids);
    m->row_slots = arena_array(&m->arena, rows, sizeof *m->row_slots);
    m->positions = arena_array(&m->arena, rows, sizeof *m->positions);
    m->seeds = arena_array(&m->arena, rows, sizeof *m->seeds);
    m->temperatures = arena_array(&m->arena, rows, sizeof *m->temperatures);
    m->ends = arena_array(&m->arena, m->world, sizeof(exchange *));
    m->ranks = arena_array(&m->arena, m->world, sizeof(rank *));
    bool all = m->slots && m->ids && m->row_slots && m->positions && m->seeds && m->temperatures &&
               m->ends && m->ranks;
    if (!all) return tf_fail(err, TF_W_NO_MEMORY, "opening a model");
    arena_seal(&m->arena);
    return TF_OK;
}

static tf_status open_ranks(tf_model *m, const tf_model_options *o, tf_error *err) {
    exchange_settings settings = {
        .world = m->world,
        .wait_ms = o->wait_ms,
        .delay_us_max = o->delay_us,
        .delay_seed = o->delay_seed,
    };
    tf_status status = backend_exchange(o->ranks == NULL ? "threads" : o->ranks, &settings, m->ends,
                                        &m->count, err);
    if (status != TF_OK) return status;
    uint32_t cores = thread_cores() / m->count;
    m->options.settings.threads = o->threads != 0 ? o->threads : (cores == 0 ? 1 : cores);
    status = crew_open(m->count, PATIENCE_MS, &m->crew, err);
    return status == TF_OK ? model_act(m, open_rank, m, err) : status;
}

tf_status tf_model_open(const tf_pack *pack, const tf_split *split, const tf_model_options *options,
                        tf_model **out, tf_error *err) {
    tf_model *m = mem_take(sizeof *m);
    if (m == NULL) return tf_fail(err, TF_W_NO_MEMORY, "opening a model");
    arena_init(&m->arena, 0);
    m->pack = pack;
    m->world = split->world;
    fill_options(m, options);
    if (split->has_weights) {
        memcpy(m->weights, split->weights, sizeof m->weights);
        m->options.weights = m->weights;
    }
    tf_status status = check_options(m, split, err);
    if (status == TF_OK) status = take_arrays(m, err);
    if (status == TF_OK) status = open_ranks(m, options, err);
    if (status != TF_OK) {
        tf_model_close(m);
        return status;
    }
    *out = m;
    return TF_OK;
}

/* Models that a hung rank may still be using; known, so that they are no leak. */
static tf_model *left_behind;

void tf_model_close(tf_model *m) {
    if (m == NULL) return;
    /* A rank that was left behind may still be using what would be freed. */
    bool lost = m->crew != NULL && crew_is_lost(m->crew);
    crew_close(m->crew);
    if (lost) {
        m->left_before = left_behind;
        left_behind = m;
        return;
    }
    for (uint32_t i = 0; i < m->count; i++) {
        rank_close(m->ranks[i]);
        if (m->ends[i] != NULL) m->ends[i]->ops->close(m->ends[i]);
    }
    arena_free(&m->arena);
    mem_free(m);
}

/* ---- acting ---- */

tf_status model_act(tf_model *m, crew_act act, void *context, tf_error *err) {
    tf_status status = crew_run(m->crew, act, context, err);
    if (status != TF_OK) m->broken = true;
    return status;
}

tf_status model_check_slot(const tf_model *m, uint32_t index, tf_error *err) {
    if (m->broken) {
        tf_fail(err, TF_W_MODEL_BROKEN, "using a model whose last act failed");
        return tf_remedy(err, "close it and open it again");
    }
    if (index < m->options.slots) return TF_OK;
    tf_fail(err, TF_W_BAD_SLOT, "using a slot of the model");
    tf_found(err, "%u", index);
    return tf_expected(err, "0 to %u", m->options.slots - 1);
}

/* Has the slot room for `count` more? */
static tf_status check_rows(const tf_model *m, uint32_t index, uint64_t length, uint64_t count,
                            tf_error *err) {
    if (length + count <= m->options.context) return TF_OK;
    tf_fail(err, TF_W_CONTEXT_FULL, "adding %llu positions to slot %u", (unsigned long long)count,
            index);
    tf_found(err, "%llu positions known", (unsigned long long)length);
    tf_expected(err, "at most %llu in all", (unsigned long long)m->options.context);
    return tf_remedy(err, "open the model with a larger context");
}

static tf_status check_id(const tf_model *m, int32_t id, uint32_t row, tf_error *err) {
    uint32_t vocab = m->pack->config.vocab;
    if (id >= 0 && (uint32_t)id < vocab) return TF_OK;
    tf_fail(err, TF_W_BAD_TOKEN, "running id %u of a step", row);
    tf_found(err, "%d", id);
    return tf_expected(err, "0 to %u", vocab - 1);
}

static tf_status check_count(const tf_model *m, uint32_t count, tf_error *err) {
    if (count >= 1 && count <= m->options.rows) return TF_OK;
    tf_fail(err, TF_W_BAD_REQUEST, "running a step");
    tf_found(err, "%u rows", count);
    tf_expected(err, "1 to %u", m->options.rows);
    return tf_remedy(err, "run it in pieces, or open the model with more rows");
}

typedef struct step_act {
    tf_model *model;
    rank_step step;
    int32_t *tokens;
    float *logits;
} step_act;

/* All ranks hold the same outputs; the first one here hands them out. */
static tf_status run_step(void *context, uint32_t index, tf_error *err) {
    step_act *a = context;
    bool first = index == 0;
    return rank_run(a->model->ranks[index], &a->step, first ? a->tokens : NULL,
                    first ? a->logits : NULL, err);
}

static tf_status act_step(step_act *a, tf_error *err) {
    tf_model *m = a->model;
    a->step.number = m->steps;
    a->step.logits = a->logits != NULL;
    a->step.ids = m->ids;
    a->step.slots = m->row_slots;
    a->step.positions = m->positions;
    a->step.temperature = m->temperatures;
    a->step.seed = m->seeds;
    tf_status status = model_act(m, run_step, a, err);
    m->steps++;
    return status;
}

tf_status tf_model_prefill(tf_model *m, uint32_t index, const int32_t *ids, uint32_t count,
                           float *logits, int32_t *next, tf_error *err) {
    tf_status status = model_check_slot(m, index, err);
    if (status == TF_OK) status = check_count(m, count, err);
    if (status == TF_OK) status = check_rows(m, index, m->slots[index].length, count, err);
    for (uint32_t i = 0; status == TF_OK && i < count; i++)
        status = check_id(m, ids[i], i, err);
    if (status != TF_OK) return status;
    slot *s = &m->slots[index];
    memcpy(m->ids, ids, count * sizeof *ids);
    m->row_slots[0] = (int32_t)index;
    m->temperatures[0] = s->temperature;
    m->seeds[0] = s->seed;
    step_act a = {.model = m, .tokens = next, .logits = logits};
    a.step = (rank_step){.phase = PHASE_PREFILL, .rows = count, .start = s->length};
    status = act_step(&a, err);
    if (status == TF_OK) s->length += count;
    return status;
}

/* A request's rows stand side by side: has this slot been seen before the row, with another between? */
static bool came_before(const tf_row *rows, uint32_t row) {
    for (uint32_t i = 0; i + 1 < row; i++) {
        if (rows[i].slot == rows[row].slot && rows[row - 1].slot != rows[row].slot) return true;
    }
    return false;
}

static tf_status place_row(tf_model *m, const tf_row *rows, uint32_t row, tf_error *err) {
    uint32_t index = rows[row].slot;
    tf_status status = model_check_slot(m, index, err);
    if (status == TF_OK) status = check_id(m, rows[row].id, row, err);
    if (status != TF_OK) return status;
    if (came_before(rows, row)) {
        tf_fail(err, TF_W_BAD_SLOT, "running row %u of a step", row);
        tf_found(err, "slot %u, with rows of another between", index);
        return tf_expected(err, "the rows of a slot side by side");
    }
    const slot *s = &m->slots[index];
    bool follows = row > 0 && rows[row - 1].slot == index;
    m->positions[row] = follows ? m->positions[row - 1] + 1 : (int64_t)s->length;
    m->ids[row] = rows[row].id;
    m->row_slots[row] = (int32_t)index;
    m->temperatures[row] = s->temperature;
    m->seeds[row] = s->seed;
    return check_rows(m, index, (uint64_t)m->positions[row], 1, err);
}

tf_status tf_model_decode(tf_model *m, const tf_row *rows, uint32_t count, float *logits,
                          int32_t *next, tf_error *err) {
    tf_status status = check_count(m, count, err);
    for (uint32_t i = 0; status == TF_OK && i < count; i++)
        status = place_row(m, rows, i, err);
    if (status != TF_OK) return status;
    step_act a = {.model = m, .tokens = next, .logits = logits};
    a.step = (rank_step){.phase = PHASE_DECODE, .rows = count};
    status = act_step(&a, err);
    for (uint32_t i = 0; status == TF_OK && i < count; i++)
        m->slots[rows[i].slot].length++;
    return status;
}

static tf_status finish_hashes(void *context, uint32_t index, tf_error *err) {
    tf_model *m = context;
    return rank_finish_hashes(m->ranks[index], err);
}

tf_status tf_model_finish_hashes(tf_model *m, tf_error *err) {
    tf_status status = model_check_slot(m, 0, err);
    return status == TF_OK ? model_act(m, finish_hashes, m, err) : status;
}

/* ---- asking ---- */

uint32_t tf_model_length(const tf_model *m, uint32_t index) {
    return index < m->options.slots ? m->slots[index].length : 0;
}

uint32_t tf_model_vocab(const tf_model *m) {
    return m->pack->config.vocab;
}

uint32_t tf_model_rank(const tf_model *m) {
    return m->ends[0]->rank;
}

const char *tf_model_isa(const tf_model *m) {
    return rank_device(m->ranks[0])->isa;
}

const char *const *tf_model_isas(void) {
    return backend_isas();
}

void tf_model_memory_of(const tf_model *m, uint32_t index, tf_model_memory *out) {
    TF_ASSERT(index < m->count);
    const device *d = rank_device(m->ranks[index]);
    exec_memory e = rank_memory(m->ranks[index]);
    *out = (tf_model_memory){
        .weights = d->weight_bytes,
        .state = e.state,
        .step = e.step,
        .scratch = d->scratch_bytes + e.stage,
        .in_out = e.named,
        .exchanged = m->ends[index]->bytes_received,
    };
}

void tf_model_exchanges(const tf_model *m, tf_text *out) {
    char text[FATE_BYTES];
    for (uint32_t i = 0; i < m->count; i++) {
        fate_text(m->ends[i], text, sizeof text);
        text_add(out, text);
    }
}
