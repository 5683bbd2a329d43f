/* tf.h's call lists: emission, rows for a store, buffers, captures and needs. */
#include "engine/base/check.h"
#include "engine/emit/buffers.h"
#include "engine/emit/capture.h"
#include "engine/emit/emit.h"
#include "engine/emit/needs.h"
#include "engine/tf.h"

#include <assert.h>

static_assert((int)TF_PHASE_COUNT == (int)PHASE_COUNT, "one phase list");
static_assert((int)TF_PHASE_PREFILL == (int)PHASE_PREFILL, "in one order");
static_assert((int)TF_PHASE_PREFETCH == (int)PHASE_PREFETCH, "in one order");
static_assert(TF_TOP_LAYER == CALL_TOP, "one name for the top");
static_assert(TF_ALL_LAYERS == EMIT_ALL_LAYERS, "one name for all");

const char *tf_phase_name(tf_phase phase) {
    return call_phase_name((call_phase)phase);
}

bool tf_phase_parse(const char *name, tf_phase *out) {
    call_phase phase;
    if (!call_phase_parse(name, &phase)) return false;
    *out = (tf_phase)phase;
    return true;
}

tf_status tf_emit(const tf_plan *plan, const tf_emit_request *request, tf_calls **out,
                  tf_error *err) {
    emit_request r = {
        .phase = (call_phase)request->phase,
        .layer = request->layer,
        .rows = request->rows,
        .start = request->start,
        .context = request->context,
        .logits = request->logits,
    };
    return emit_calls(plan, &r, out, err);
}

void tf_calls_close(tf_calls *calls) {
    calls_free(calls);
}

size_t tf_calls_count(const tf_calls *calls) {
    return calls->count;
}

const char *tf_calls_text(const tf_calls *calls) {
    return text_str(&calls->text);
}

tf_digest tf_calls_digest(const tf_calls *calls) {
    return calls->digest;
}

void tf_calls_row(const tf_calls *calls, size_t index, tf_call_row *out) {
    TF_ASSERT(index < calls->count);
    const call *c = &calls->calls[index];
    *out = (tf_call_row){
        .ordinal = c->ordinal,
        .layer = c->layer,
        .kind = call_kind_name(c->kind),
        .name = c->name,
        .line = text_str(&calls->text) + calls->line[index],
        .line_bytes = calls->line[index + 1] - calls->line[index] - 1,
    };
}

void tf_calls_json(const tf_calls *calls, tf_text *out) {
    capture_write(calls, out);
}

void tf_calls_buffers(const tf_calls *calls, bool json, tf_text *out) {
    buffers_describe(calls, json, out);
}

tf_status tf_calls_check(const tf_pack *pack, const char *capture_path, tf_text *report,
                         tf_error *err) {
    return capture_check(pack, capture_path, report, err);
}

tf_status tf_needs(const tf_pack *pack, const tf_split *split, bool json, tf_text *out,
                   tf_error *err) {
    return needs_describe(pack, split->world, split->has_weights ? split->weights : NULL, json, out,
                          err);
}
