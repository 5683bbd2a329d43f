#include "engine/emit/emit.h"

#include "engine/base/check.h"
#include "engine/emit/buffers.h"
#include "engine/emit/calltext.h"
#include "engine/emit/pieces.h"

#include <stdlib.h>
#include <string.h>

static tf_status check_request(const tf_plan *plan, const emit_request *r, tf_error *err) {
    const tf_config *c = &plan->pack->config;
    if (r->rows > EMIT_ROWS_MAX) {
        tf_fail(err, TF_W_BAD_REQUEST, "emitting %s calls", call_phase_name(r->phase));
        tf_found(err, "%u rows", r->rows);
        return tf_expected(err, "1 to %u", EMIT_ROWS_MAX);
    }
    uint64_t context = r->context == 0 ? EMIT_CONTEXT : r->context;
    uint32_t rows = r->rows == 0 ? 1 : r->rows;
    if (context > UINT32_MAX || r->start > context || rows > context - r->start ||
        context % 2 != 0) {
        tf_fail(err, TF_W_BAD_REQUEST, "emitting %s calls", call_phase_name(r->phase));
        tf_found(err, "rows %u from position %llu in a context of %llu", rows,
                 (unsigned long long)r->start, (unsigned long long)context);
        return tf_expected(err, "all rows within an even context below 2^32");
    }
    if (r->phase == PHASE_DRAFT && rows > emit_ring(c)) {
        tf_fail(err, TF_W_BAD_REQUEST, "emitting draft calls");
        tf_found(err, "%u rows of context", rows);
        return tf_expected(err, "1 to %u: older positions have left the ring", emit_ring(c));
    }
    bool none = r->layer == EMIT_ALL_LAYERS || r->layer == CALL_TOP;
    bool draft = r->phase == PHASE_DRAFT;
    bool target = r->phase == PHASE_DECODE || r->phase == PHASE_PREFILL;
    bool outside = !none && (r->layer >= c->layers || (draft && r->layer < c->target_layers) ||
                             (target && r->layer >= c->target_layers));
    if (outside) {
        tf_fail(err, TF_W_NO_SUCH_LAYER, "emitting %s calls", call_phase_name(r->phase));
        tf_found(err, "layer %u", r->layer);
        return tf_expected(err, "%u to %u, top or all", draft ? c->target_layers : 0,
                           (target ? c->target_layers : c->layers) - 1);
    }
    if (!draft || c->draft_layers > 0) return TF_OK;
    tf_fail(err, TF_W_NO_SUCH_LAYER, "emitting draft calls");
    return tf_found(err, "a model without draft layers");
}

static tf_status ask_admission(const tf_plan *plan, call_phase phase, tf_error *err) {
    static const tf_op ops[PHASE_COUNT] = {TF_OP_EMIT_DECODE, TF_OP_EMIT_PREFILL, TF_OP_EMIT_DRAFT,
                                           TF_OP_EMIT_PREFETCH};
    return admission_ask(ops[phase], plan->world, false, err);
}

static void set_symbols(emitter *e, uint32_t rows, uint64_t start) {
    const tf_plan *p = e->plan;
    int64_t *v = e->scope.values;
    v[EXPR_WORLD] = p->world;
    v[EXPR_RANK] = p->rank;
    v[EXPR_HEADS] = plan_heads(p);
    v[EXPR_FIRST_HEAD] = plan_first_head(p);
    v[EXPR_GROUPS] = plan_groups(p);
    v[EXPR_FIRST_GROUP] = p->range[UNIT_GROUP].begin;
    v[EXPR_WIDTH] = plan_expert_width(p);
    v[EXPR_BLOCKS] = canon_size(p->range[UNIT_EXPERT_BLOCK]);
    v[EXPR_FIRST_BLOCK] = p->range[UNIT_EXPERT_BLOCK].begin;
    v[EXPR_VOCAB] = plan_vocab(p);
    v[EXPR_FIRST_VOCAB] = plan_first_vocab(p);
    v[EXPR_COLUMNS] = canon_size(p->range[UNIT_ENGRAM_COLUMN]);
    v[EXPR_FIRST_COLUMN] = p->range[UNIT_ENGRAM_COLUMN].begin;
    v[EXPR_ROWS] = rows;
    v[EXPR_START] = (int64_t)start;
}

static tf_calls *new_list(const tf_plan *plan, const emit_request *r) {
    tf_calls *list = mem_take(sizeof *list);
    if (list == NULL) return NULL;
    uint32_t usual = r->phase == PHASE_PREFILL ? EMIT_ROWS_PREFILL : 1;
    list->plan = plan;
    list->phase = r->phase;
    list->rows = r->rows == 0 ? usual : r->rows;
    list->start = r->phase == PHASE_PREFILL ? r->start : 0;
    list->context = r->context == 0 ? EMIT_CONTEXT : r->context;
    if (list->rows > list->context - list->start)
        list->rows = (uint32_t)(list->context - list->start);
    list->layer = r->layer;
    list->logits = r->logits;
    arena_init(&list->arena, 0);
    return list;
}

/* Runs one phase's pieces into an empty list. */
static tf_status write_list(tf_calls *list, bool logits, void (*pieces)(emitter *), tf_error *err) {
    emitter e = {.list = list,
                 .plan = list->plan,
                 .config = &list->plan->pack->config,
                 .err = err,
                 .layer = CALL_TOP,
                 .chunk = list->phase == PHASE_PREFILL,
                 .logits = logits};
    e.scope.arena = &list->arena;
    set_symbols(&e, list->rows, list->start);
    e.rows = sym(&e, EXPR_ROWS);
    bool one_request = e.chunk || list->phase == PHASE_DRAFT;
    e.slots = buffer1(&e, "in.slots", DTYPE_I32, one_request ? num(1) : e.rows);
    if (!e.chunk) e.positions = buffer1(&e, "in.positions", DTYPE_I64, e.rows);
    pieces(&e);
    mem_free(e.lasting);
    if (e.scope.broken) emit_fail(&e, TF_W_NO_MEMORY, "no memory for the list");
    return err->status == TF_OK ? buffers_place(list, err) : err->status;
}

/* Keeps the calls of one layer, with the ordinals they have in the whole list. */
static void cut_to_layer(tf_calls *list, uint32_t layer) {
    if (layer == EMIT_ALL_LAYERS) return;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        if (list->calls[i].layer == layer) list->calls[kept++] = list->calls[i];
    }
    list->count = kept;
}

/* What a forward and a draft touch, in order. */
static tf_status write_prefetch(tf_calls *list, tf_error *err) {
    const tf_plan *plan = list->plan;
    emitter e = {
        .list = list, .plan = plan, .config = &plan->pack->config, .err = err, .layer = CALL_TOP};
    for (int i = 0; i < 2; i++) {
        emit_request r = {.phase = i == 0 ? PHASE_DECODE : PHASE_DRAFT, .context = list->context};
        list->from[i] = new_list(plan, &r);
        if (list->from[i] == NULL) return tf_fail(err, TF_W_NO_MEMORY, "emitting prefetch calls");
        if (i == 1 && plan->pack->config.draft_layers == 0) continue;
        tf_status status = write_list(list->from[i], false, i == 0 ? emit_target : emit_draft, err);
        if (status != TF_OK) return status;
    }
    e.scope.arena = &list->arena;
    set_symbols(&e, list->rows, 0);
    emit_prefetch(&e, list->from[0], list->from[1]);
    if (e.scope.broken) emit_fail(&e, TF_W_NO_MEMORY, "no memory for the list");
    return err->status;
}

tf_status emit_calls(const tf_plan *plan, const emit_request *request, tf_calls **out,
                     tf_error *err) {
    *out = NULL;
    tf_status status = TF_OK;
    tf_calls *list = NULL;
    TF_TRY(ask_admission(plan, request->phase, err));
    TF_TRY(check_request(plan, request, err));
    list = new_list(plan, request);
    if (list == NULL) TF_TRY(tf_fail(err, TF_W_NO_MEMORY, "emitting calls"));
    switch (request->phase) {
    case PHASE_DECODE:
    case PHASE_PREFILL:
        TF_TRY(write_list(list, request->logits, emit_target, err));
        break;
    case PHASE_DRAFT:
        TF_TRY(write_list(list, request->logits, emit_draft, err));
        break;
    case PHASE_PREFETCH:
        TF_TRY(write_prefetch(list, err));
        break;
    case PHASE_COUNT:
        break;
    }
    cut_to_layer(list, request->layer);
    TF_TRY(calltext_make(list, err));
    arena_seal(&list->arena);
    *out = list;
    list = NULL;
done:
    calls_free(list);
    return status;
}
