#include "engine/emit/needs.h"

#include "engine/base/arena.h"

#include <stdlib.h>
#include <string.h>

typedef struct variant {
    char *text;
    uint64_t ranks; /* bit a rank; admitted worlds are far below 64 */
} variant;

typedef struct variants {
    variant *list;
    size_t count, capacity;
    tf_text scratch;
} variants;

/* Offsets and positions are given at launch; a kernel is not compiled for them. */
static bool is_static(const char *name) {
    static const char *const launch[] = {"first",    "first_leaf",   "start", "which",
                                         "ahead",    "noise",        "pad",   "heads",
                                         "capacity", "rows_capacity"};
    for (size_t i = 0; i < sizeof launch / sizeof launch[0]; i++) {
        if (strcmp(name, launch[i]) == 0) return false;
    }
    return true;
}

static bool is_rows(expr_int x) {
    return x.text != NULL && strcmp(x.text, "n") == 0;
}

/* Extents of a buffer that are neither rows nor the first axis of a vector. */
static void put_extents(tf_text *out, const call_arg *a) {
    const call_tensor *t = &a->tensor;
    if (!call_role_is_buffer(t->role) || t->dims < 2) return;
    text_print(out, " %s=", a->name);
    const char *join = "";
    for (uint32_t d = 1; d < t->dims; d++) {
        if (is_rows(t->shape[d])) continue;
        text_print(out, "%s%lld", join, (long long)t->shape[d].value);
        join = "x";
    }
}

static void put_weight_form(tf_text *out, const call_weight *w, const char *name, uint32_t bits2) {
    text_print(out, " %s=", name);
    if (w->form == WEIGHT_PLAIN) {
        text_add(out, dtype_name(w->dtype));
    } else {
        text_print(out, "EXL3/%s/%u%s", w->codebook, bits2 / 2, bits2 % 2 != 0 ? ".5" : "");
    }
    text_print(out, "[%lld,%lld]", (long long)w->k.value, (long long)w->n.value);
}

/* A ragged family asks for one width at a time: `member` picks it. */
static void put_variant(tf_text *out, const call *c, int64_t member) {
    text_add(out, call_kind_name(c->kind));
    for (uint32_t i = 0; i < c->arg_count; i++) {
        const call_arg *a = &c->args[i];
        switch (a->type) {
        case ARG_TENSOR:
            put_extents(out, a);
            break;
        case ARG_WEIGHT:
            put_weight_form(out, &a->weight, a->name,
                            a->weight.each != NULL ? a->weight.each[member] : a->weight.bits2);
            break;
        case ARG_INT:
            if (is_static(a->name)) text_print(out, " %s=%lld", a->name, (long long)a->i.value);
            break;
        case ARG_BOOL:
            text_print(out, " %s=%s", a->name, a->b ? "true" : "false");
            break;
        case ARG_WORD:
            text_print(out, " %s=%s", a->name, a->word);
            break;
        case ARG_NONE:
            text_print(out, " %s=none", a->name);
            break;
        case ARG_REAL: /* launched with */
        case ARG_INTS:
            break;
        }
    }
}

static tf_status add(variants *v, uint32_t rank, tf_error *err) {
    const char *text = text_str(&v->scratch);
    for (size_t i = v->count; i-- > 0;) {
        if (strcmp(v->list[i].text, text) != 0) continue;
        v->list[i].ranks |= 1ull << rank;
        return TF_OK;
    }
    if (v->count == v->capacity) {
        size_t capacity = v->capacity == 0 ? 256 : v->capacity * 2;
        variant *grown = mem_grow(v->list, capacity * sizeof *grown);
        if (grown == NULL) return tf_fail(err, TF_W_NO_MEMORY, "listing kernel variants");
        v->list = grown;
        v->capacity = capacity;
    }
    char *copy = mem_take(v->scratch.length + 1);
    if (copy == NULL || v->scratch.broken) {
        mem_free(copy);
        return tf_fail(err, TF_W_NO_MEMORY, "listing kernel variants");
    }
    memcpy(copy, text, v->scratch.length);
    v->list[v->count++] = (variant){copy, 1ull << rank};
    return TF_OK;
}

static tf_status add_call(variants *v, const call *c, uint32_t rank, tf_error *err) {
    int64_t members = 1;
    for (uint32_t i = 0; i < c->arg_count; i++) {
        const call_arg *a = &c->args[i];
        if (a->type == ARG_WEIGHT && a->weight.each != NULL) members = a->weight.count.value;
    }
    for (int64_t m = 0; m < members; m++) {
        text_clear(&v->scratch);
        put_variant(&v->scratch, c, m);
        tf_status status = add(v, rank, err);
        if (status != TF_OK) return status;
    }
    return TF_OK;
}

static tf_status add_rank(variants *v, const tf_pack *pack, uint32_t world, uint32_t rank,
                          const uint64_t *weights, tf_error *err) {
    static const call_phase phases[] = {PHASE_DECODE, PHASE_PREFILL, PHASE_DRAFT};
    tf_plan *plan = NULL;
    tf_status status = plan_make(pack, world, rank, weights, &plan, err);
    for (size_t p = 0; p < sizeof phases / sizeof phases[0] && status == TF_OK; p++) {
        if (phases[p] == PHASE_DRAFT && pack->config.draft_layers == 0) continue;
        emit_request r = {.phase = phases[p], .layer = EMIT_ALL_LAYERS};
        tf_calls *calls = NULL;
        status = emit_calls(plan, &r, &calls, err);
        for (uint32_t i = 0; status == TF_OK && i < calls->count; i++)
            status = add_call(v, &calls->calls[i], rank, err);
        calls_free(calls);
    }
    plan_free(plan);
    return status;
}

static int by_text(const void *a, const void *b) {
    return strcmp(((const variant *)a)->text, ((const variant *)b)->text);
}

static void list_ranks(tf_text *out, uint64_t ranks, uint32_t world, bool present) {
    bool first = true;
    for (uint32_t r = 0; r < world; r++) {
        if (((ranks >> r & 1) != 0) != present) continue;
        if (!first) text_char(out, ',');
        text_u64(out, r);
        first = false;
    }
}

static void describe(const variants *v, uint32_t world, bool json, tf_text *out) {
    uint64_t all = world == 64 ? UINT64_MAX : (1ull << world) - 1;
    size_t uneven = 0;
    if (json) text_print(out, "{\"world\":%u,\"variants\":[", world);
    for (size_t i = 0; i < v->count; i++) {
        const variant *k = &v->list[i];
        uneven += k->ranks != all;
        if (json) {
            text_add(out, i == 0 ? "{\"variant\":" : ",{\"variant\":");
            text_json(out, k->text);
            text_add(out, ",\"ranks\":[");
            list_ranks(out, k->ranks, world, true);
            text_add(out, "]}");
            continue;
        }
        text_add(out, k->text);
        if (k->ranks != all) {
            text_add(out, "  -- rank ");
            list_ranks(out, k->ranks, world, true);
            text_add(out, " alone, not ");
            list_ranks(out, k->ranks, world, false);
        }
        text_char(out, '\n');
    }
    if (json) {
        text_add(out, "]}");
    } else {
        text_print(out, "%zu variants over %u ranks, %zu of them not on every rank\n", v->count,
                   world, uneven);
    }
}

tf_status needs_describe(const tf_pack *pack, uint32_t world, const uint64_t *weights, bool json,
                         tf_text *out, tf_error *err) {
    variants v = {0};
    tf_status status = TF_OK;
    TF_TRY(admission_ask(TF_OP_PLAN, world, false, err));
    for (uint32_t r = 0; r < world; r++)
        TF_TRY(add_rank(&v, pack, world, r, weights, err));
    if (v.count > 1) qsort(v.list, v.count, sizeof *v.list, by_text);
    describe(&v, world, json, out);
done:
    for (size_t i = 0; i < v.count; i++)
        mem_free(v.list[i].text);
    mem_free(v.list);
    text_free(&v.scratch);
    return status;
}
