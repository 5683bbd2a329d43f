/* Emitted lists against a table of shares that shares nothing with the planner. */
#include "engine/base/fault.h"
#include "engine/emit/emit.h"
#include "tests/support/check.h"
#include "tests/support/lists.h"

#include <string.h>

typedef void (*call_check)(check_case *t, const shares_rank *s, const tf_config *c, const call *k);

/* Runs a check over the calls of one name in one phase, at every rank of the table; each list must
 * hold such a call. */
static void over_ranks(check_case *t, call_phase phase, const char *name, call_check check) {
    for (size_t i = 0; i < SHARES_COUNT && !check_failed(t); i++) {
        const shares_rank *s = &SHARES[i];
        const tf_calls *calls = lists_shared(t, i, phase);
        size_t seen = 0;
        for (uint32_t k = 0; calls != NULL && k < calls->count && !check_failed(t); k++) {
            const call *c = &calls->calls[k];
            if (strcmp(c->name, name) != 0) continue;
            seen++;
            check(t, s, &calls->plan->pack->config, c);
        }
        CHECKF(t, seen > 0, "no call is named %s", name);
        if (check_failed(t)) check_note(t, "%s world %u rank %u", s->pack, s->world, s->rank);
    }
}

static const call_arg *arg(check_case *t, const call *c, const char *name) {
    static const call_arg none;
    const call_arg *a = call_find(c, name);
    CHECKF(t, a != NULL, "call %u %s has no argument %s", c->ordinal, c->name, name);
    return a == NULL ? &none : a;
}

/* ---- heads and groups ---- */

static void check_wq_b(check_case *t, const shares_rank *s, const tf_config *c, const call *k) {
    const call_weight *w = &arg(t, k, "w")->weight;
    CHECK_U64(t, w->n.value, (uint64_t)s->heads * c->head_dim);
    CHECK_U64(t, w->k.value, c->q_lora);
    CHECK_U64(t, k->grid[1].value, (uint64_t)s->heads * c->head_dim);
}

static void check_attend(check_case *t, const shares_rank *s, const tf_config *c, const call *k) {
    CHECK_U64(t, arg(t, k, "q")->tensor.shape[1].value, s->heads);
    CHECK_U64(t, arg(t, k, "y")->tensor.shape[1].value, s->heads);
    CHECK_U64(t, k->grid[1].value, s->heads);
    CHECK_U64(t, arg(t, k, "window")->i.value, c->window);
}

static void check_sink(check_case *t, const shares_rank *s, const tf_config *c, const call *k) {
    (void)c;
    const call_tensor *sink = &arg(t, k, "sink")->tensor;
    CHECK_U64(t, sink->shape[0].value, s->heads);
    CHECK_STR(t, sink->shape[0].text, "H");
}

static void check_wo_a(check_case *t, const shares_rank *s, const tf_config *c, const call *k) {
    const call_weight *w = &arg(t, k, "w")->weight;
    CHECK_U64(t, w->count.value, s->groups);
    CHECK_U64(t, w->first.value, s->first_group);
    CHECK_U64(t, w->k.value, (uint64_t)(c->heads / c->groups) * c->head_dim);
    CHECK_U64(t, arg(t, k, "x")->tensor.shape[1].value, s->groups);
    CHECK_U64(t, arg(t, k, "y")->tensor.shape[1].value, s->groups);
}

static void check_wo_b(check_case *t, const shares_rank *s, const tf_config *c, const call *k) {
    CHECK_U64(t, arg(t, k, "w")->weight.k.value, (uint64_t)s->groups * c->o_lora);
    CHECK_U64(t, arg(t, k, "leaf")->i.value, c->o_lora);
    CHECK_U64(t, arg(t, k, "first_leaf")->i.value, s->first_group);
    CHECK_U64(t, arg(t, k, "leaves")->i.value, s->groups);
    CHECK_U64(t, arg(t, k, "all_leaves")->i.value, 8);
}

static void decode_heads(check_case *t) {
    over_ranks(t, PHASE_DECODE, "wq_b", check_wq_b);
    over_ranks(t, PHASE_DECODE, "attend", check_attend);
}
static void prefill_heads(check_case *t) {
    over_ranks(t, PHASE_PREFILL, "wq_b", check_wq_b);
}
static void prefill_core(check_case *t) {
    over_ranks(t, PHASE_PREFILL, "attend", check_attend);
}
static void draft_heads(check_case *t) {
    over_ranks(t, PHASE_DRAFT, "wq_b", check_wq_b);
    over_ranks(t, PHASE_DRAFT, "attend", check_attend);
}
static void decode_groups(check_case *t) {
    over_ranks(t, PHASE_DECODE, "wo_a", check_wo_a);
    over_ranks(t, PHASE_DECODE, "wo_b", check_wo_b);
}
static void prefill_groups(check_case *t) {
    over_ranks(t, PHASE_PREFILL, "wo_a", check_wo_a);
    over_ranks(t, PHASE_PREFILL, "wo_b", check_wo_b);
}
static void draft_groups(check_case *t) {
    over_ranks(t, PHASE_DRAFT, "wo_a", check_wo_a);
    over_ranks(t, PHASE_DRAFT, "wo_b", check_wo_b);
}
static void sink_slice(check_case *t) {
    over_ranks(t, PHASE_DECODE, "attend", check_sink);
    over_ranks(t, PHASE_PREFILL, "attend", check_sink);
    over_ranks(t, PHASE_DRAFT, "attend", check_sink);
}

static void prefetch_groups(check_case *t) {
    for (size_t i = 0; i < SHARES_COUNT && !check_failed(t); i++) {
        const shares_rank *s = &SHARES[i];
        const tf_calls *calls = lists_shared(t, i, PHASE_PREFETCH);
        size_t seen = 0;
        for (uint32_t k = 0; calls != NULL && k < calls->count; k++) {
            const call *c = &calls->calls[k];
            if (strstr(c->name, "wo_a.slice") == NULL) continue;
            seen++;
            CHECK_U64(t, arg(t, c, "first")->i.value, s->first_group);
            CHECK_U64(t, arg(t, c, "count")->i.value, s->groups);
        }
        CHECK_U64(t, seen, calls == NULL ? 1 : calls->plan->pack->config.layers);
    }
}

/* ---- experts, vocabulary, hash columns ---- */

static void check_up(check_case *t, const shares_rank *s, const tf_config *c, const call *k) {
    CHECK_U64(t, arg(t, k, "w1")->weight.n.value, s->width);
    CHECK_U64(t, arg(t, k, "shared_w3")->weight.n.value, s->width);
    CHECK_U64(t, arg(t, k, "y")->tensor.shape[2].value, s->width);
    CHECK_U64(t, arg(t, k, "w3")->weight.count.value, c->layer[k->layer].routed_experts);
}

static void check_down(check_case *t, const shares_rank *s, const tf_config *c, const call *k) {
    CHECK_U64(t, arg(t, k, "w2")->weight.k.value, s->width);
    CHECK_U64(t, arg(t, k, "leaf")->i.value, 128);
    CHECK_U64(t, arg(t, k, "first_leaf")->i.value, s->first_block);
    CHECK_U64(t, arg(t, k, "leaves")->i.value, s->width / 128);
    CHECK_U64(t, arg(t, k, "all_leaves")->i.value, c->expert_width / 128);
}

static void expert_width(check_case *t) {
    over_ranks(t, PHASE_DECODE, "experts_up", check_up);
    over_ranks(t, PHASE_DECODE, "experts_down", check_down);
    over_ranks(t, PHASE_DRAFT, "experts_down", check_down);
}

static void check_embed(check_case *t, const shares_rank *s, const tf_config *c, const call *k) {
    (void)c;
    if (k->kind != CALL_EMBED) return;
    CHECK_U64(t, arg(t, k, "first")->i.value, s->first_vocab);
    CHECK_U64(t, arg(t, k, "w")->tensor.shape[0].value, s->vocab);
}

static void check_best(check_case *t, const shares_rank *s, const tf_config *c, const call *k) {
    (void)c;
    if (k->kind != CALL_BEST) return;
    CHECK_U64(t, arg(t, k, "first")->i.value, s->first_vocab);
    CHECK_U64(t, arg(t, k, "logits")->tensor.shape[1].value, s->vocab);
}

static void check_markov(check_case *t, const shares_rank *s, const tf_config *c, const call *k) {
    (void)c;
    CHECK_U64(t, arg(t, k, "w")->weight.n.value, s->vocab);
    CHECK_U64(t, arg(t, k, "w")->weight.first_row.value, s->first_vocab);
}

static void vocabulary(check_case *t) {
    over_ranks(t, PHASE_DECODE, "embed", check_embed);
    over_ranks(t, PHASE_DECODE, "choose", check_best);
    over_ranks(t, PHASE_DRAFT, "choose", check_best);
    over_ranks(t, PHASE_DRAFT, "markov_head", check_markov);
}

static void check_lookup(check_case *t, const shares_rank *s, const tf_config *c, const call *k) {
    (void)c;
    if (k->kind != CALL_LOOKUP) return;
    CHECK_U64(t, arg(t, k, "first")->i.value, s->first_column);
    CHECK_U64(t, arg(t, k, "columns")->i.value, s->columns);
}

static void hash_columns(check_case *t) {
    over_ranks(t, PHASE_DECODE, "engram_rows", check_lookup);
}

/* ---- weights ---- */

static void every_weight(check_case *t) {
    for (size_t i = 0; i < SHARES_COUNT && !check_failed(t); i++) {
        const tf_calls *calls = lists_shared(t, i, PHASE_PREFETCH);
        uint64_t items = 0;
        uint64_t bytes = 0;
        for (uint32_t k = 0; calls != NULL && k < calls->count; k++) {
            items += (uint64_t)arg(t, &calls->calls[k], "items")->i.value;
            bytes += (uint64_t)arg(t, &calls->calls[k], "bytes")->i.value;
        }
        CHECK_U64(t, items, calls == NULL ? 1 : calls->plan->item_count);
        CHECK_U64(t, bytes, calls == NULL ? 1 : calls->plan->bytes);
    }
}

/* A plan whose part does not fit the model's sizes must not be emitted from. */
static void refuse_misfit(check_case *t, const char *image, uint32_t axis) {
    tf_plan *plan = lists_plan(t, "tiny-exl3", 3, 1);
    if (plan == NULL) return;
    uint64_t shape[TF_DIMS_MAX] = {0};
    for (uint32_t i = 0; i < plan->item_count; i++) {
        plan_item *item = &plan->items[i];
        if (strcmp(item->image, image) != 0) continue;
        memcpy(shape, item->shape, item->tensor->dims * sizeof *shape);
        shape[axis]--;
        item->shape = shape;
    }
    emit_request r = {.phase = PHASE_DECODE, .layer = EMIT_ALL_LAYERS};
    tf_calls *calls = NULL;
    tf_error err = {0};
    emit_calls(plan, &r, &calls, &err);
    CHECKF(t, calls == NULL && err.word == TF_W_WEIGHTS_DIFFER, "%s was not missed", image);
    calls_free(calls);
    plan_free(plan);
}

static void misfits(check_case *t) {
    refuse_misfit(t, "layers.3.attn.wo_b.trellis", 0);
    refuse_misfit(t, "layers.3.attn.wq_b.trellis", 1);
    refuse_misfit(t, "layers.3.attn.attn_sink", 0);
    refuse_misfit(t, "layers.3.ffn.experts.2.w1.trellis", 1);
    refuse_misfit(t, "layers.3.ffn.experts.5.w2.trellis", 0);
    refuse_misfit(t, "layers.3.attn.wo_a.slice.3.trellis", 1);
    refuse_misfit(t, "head.trellis", 1);
    refuse_misfit(t, "embed.weight", 0);
}

/* ---- requests ---- */

static void chunk_positions(check_case *t) {
    tf_plan *plan = lists_plan(t, "tiny-bf16", 2, 1);
    tf_calls *calls = lists_calls(t, plan, PHASE_PREFILL, 17, 96);
    size_t seen = 0;
    for (uint32_t k = 0; calls != NULL && k < calls->count; k++) {
        const call_arg *start = call_find(&calls->calls[k], "start");
        if (start == NULL) continue;
        seen++;
        CHECK_U64(t, start->i.value, 96);
        CHECK_STR(t, start->i.text, "s");
        CHECK_U64(t, call_find(&calls->calls[k], "positions")->type, ARG_NONE);
    }
    CHECK(t, seen > 50);
    calls_free(calls);
    plan_free(plan);
}

static void layer_cut(check_case *t) {
    tf_plan *plan = lists_plan(t, "tiny-exl3", 3, 0);
    tf_calls *whole = lists_calls(t, plan, PHASE_DECODE, 0, 0);
    emit_request r = {.phase = PHASE_DECODE, .layer = 8};
    tf_calls *cut = NULL;
    tf_error err = {0};
    if (plan != NULL) emit_calls(plan, &r, &cut, &err);
    if (CHECK(t, whole != NULL && cut != NULL && cut->count > 20)) {
        uint32_t first = cut->calls[0].ordinal;
        CHECK(t, first > 0);
        CHECK_U64(t, cut->calls[cut->count - 1].ordinal, first + cut->count - 1);
        const char *from = text_str(&whole->text) + whole->line[first];
        CHECK(t, strncmp(from, text_str(&cut->text), cut->text.length) == 0);
    }
    calls_free(whole);
    calls_free(cut);
    plan_free(plan);
}

static void whole_logits(check_case *t) {
    tf_plan *plan = lists_plan(t, "tiny-exl3", 3, 2);
    emit_request r = {.phase = PHASE_PREFILL, .layer = EMIT_ALL_LAYERS, .rows = 5, .logits = true};
    tf_calls *calls = NULL;
    tf_error err = {0};
    if (plan != NULL) emit_calls(plan, &r, &calls, &err);
    const call_buffer *b = calls == NULL ? NULL : calls_buffer(calls, "out.logits");
    if (CHECK(t, b != NULL)) {
        CHECK_U64(t, b->shape[0].value, 5);
        CHECK_U64(t, b->shape[1].value, 1280);
    }
    calls_free(calls);
    plan_free(plan);
}

static void refuse(check_case *t, const emit_request *r, tf_word word) {
    tf_plan *plan = lists_plan(t, "tiny-exl3", 1, 0);
    tf_calls *calls = NULL;
    tf_error err = {0};
    if (plan != NULL) emit_calls(plan, r, &calls, &err);
    CHECK(t, calls == NULL);
    CHECK_STR(t, tf_word_text(err.word), tf_word_text(word));
    CHECK(t, err.found[0] != '\0');
    plan_free(plan);
}

static void bad_requests(check_case *t) {
    uint32_t all = EMIT_ALL_LAYERS;
    refuse(t, &(emit_request){PHASE_DECODE, all, 70000, 0, 1u << 20, false}, TF_W_BAD_REQUEST);
    refuse(t, &(emit_request){PHASE_PREFILL, all, 100, 4000, 0, false}, TF_W_BAD_REQUEST);
    refuse(t, &(emit_request){PHASE_PREFILL, all, 1, UINT64_MAX, 0, false}, TF_W_BAD_REQUEST);
    refuse(t, &(emit_request){PHASE_DECODE, all, 1, 0, 4097, false}, TF_W_BAD_REQUEST);
    refuse(t, &(emit_request){PHASE_DRAFT, all, 15, 0, 0, false}, TF_W_BAD_REQUEST);
    refuse(t, &(emit_request){PHASE_DECODE, 11, 0, 0, 0, false}, TF_W_NO_SUCH_LAYER);
    refuse(t, &(emit_request){PHASE_DRAFT, 10, 0, 0, 0, false}, TF_W_NO_SUCH_LAYER);
    refuse(t, &(emit_request){PHASE_PREFETCH, 14, 0, 0, 0, false}, TF_W_NO_SUCH_LAYER);
}

static tf_op asked[16];
static size_t asked_count;
static void note_op(void *context, tf_op op, uint32_t world) {
    (void)context, (void)world;
    if (asked_count < COUNT(asked)) asked[asked_count++] = op;
}

static void asks_admission(check_case *t) {
    static const tf_op wanted[PHASE_COUNT] = {TF_OP_EMIT_DECODE, TF_OP_EMIT_PREFILL,
                                              TF_OP_EMIT_DRAFT, TF_OP_EMIT_PREFETCH};
    tf_plan *plan = lists_plan(t, "tiny-bf16", 3, 0);
    for (int p = 0; p < (int)PHASE_COUNT; p++) {
        asked_count = 0;
        admission_spy(note_op, NULL);
        tf_calls *calls = lists_calls(t, plan, (call_phase)p, 0, 0);
        admission_spy(NULL, NULL);
        CHECK_U64(t, asked_count, 1);
        CHECK_U64(t, asked[0], wanted[p]);
        calls_free(calls);
    }
    if (plan != NULL) {
        /* A plan of a world that is not admitted, made behind the table's back. */
        plan->world = 5;
        emit_request r = {.phase = PHASE_DECODE, .layer = EMIT_ALL_LAYERS};
        tf_calls *calls = NULL;
        tf_error err = {0};
        emit_calls(plan, &r, &calls, &err);
        CHECK_U64(t, err.word, TF_W_WORLD_NOT_ADMITTED);
        plan->world = 3;
    }
    plan_free(plan);
}

static void lists_repeat(check_case *t) {
    for (int p = 0; p < (int)PHASE_COUNT; p++) {
        tf_plan *one = lists_plan(t, "tiny-exl3", 3, 1);
        tf_plan *two = lists_plan(t, "tiny-exl3", 3, 1);
        tf_calls *a = lists_calls(t, one, (call_phase)p, 0, 0);
        tf_calls *b = lists_calls(t, two, (call_phase)p, 0, 0);
        CHECK(t, a != NULL && b != NULL && digest_equal(a->digest, b->digest));
        CHECK(t, a != NULL && a->step_bytes == (b == NULL ? 0 : b->step_bytes));
        calls_free(a);
        calls_free(b);
        plan_free(one);
        plan_free(two);
    }
}

static void survives_faults(check_case *t) {
#ifdef TF_FAULT
    tf_plan *plan = lists_plan(t, "tiny-bf16", 3, 2);
    for (int p = 0; p < (int)PHASE_COUNT && plan != NULL; p++) {
        for (uint64_t n = 1; n < 100000; n++) {
            emit_request r = {.phase = (call_phase)p, .layer = EMIT_ALL_LAYERS};
            tf_calls *calls = NULL;
            tf_error err = {0};
            fault_arm(FAULT_ALLOC, n);
            emit_calls(plan, &r, &calls, &err);
            bool fired = fault_fired(FAULT_ALLOC);
            fault_arm(FAULT_ALLOC, 0);
            calls_free(calls);
            if (!fired) {
                CHECKF(t, n > 10, "only %llu failures were walked", (unsigned long long)n);
                CHECK_U64(t, err.status, TF_OK);
                break;
            }
            if (!CHECK_U64(t, err.status, TF_NO_MEMORY)) break;
        }
    }
    plan_free(plan);
#else
    check_skip(t, "this build has no fault injection");
#endif
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"emit/decode-heads-follow-the-plan", decode_heads},
        {"emit/decode-groups-follow-the-plan", decode_groups},
        {"emit/prefill-heads-follow-the-plan", prefill_heads},
        {"emit/prefill-core-heads-follow-the-plan", prefill_core},
        {"emit/prefill-groups-follow-the-plan", prefill_groups},
        {"emit/draft-heads-follow-the-plan", draft_heads},
        {"emit/draft-groups-follow-the-plan", draft_groups},
        {"emit/prefetch-groups-follow-the-plan", prefetch_groups},
        {"emit/sink-is-sliced-by-heads", sink_slice},
        {"emit/expert-width-follows-the-plan", expert_width},
        {"emit/vocabulary-base-is-begin", vocabulary},
        {"emit/hash-columns-follow-the-plan", hash_columns},
        {"emit/every-weight-is-touched-once", every_weight},
        {"emit/weights-that-do-not-fit-are-refused", misfits},
        {"emit/chunk-positions-count-from-start", chunk_positions},
        {"emit/layer-cut-keeps-ordinals", layer_cut},
        {"emit/logits-of-every-row-on-request", whole_logits},
        {"emit/refuses-requests-out-of-range", bad_requests},
        {"emit/asks-admission-before-anything", asks_admission},
        {"emit/lists-repeat-to-the-byte", lists_repeat},
        {"emit/survives-every-failed-allocation", survives_faults},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
