/* Emitted lists as a machine would run them: where data comes from, how far a launch reaches, which
 * rank waits for whom. */
#include "engine/emit/buffers.h"
#include "engine/emit/emit.h"
#include "tests/support/check.h"
#include "tests/support/lists.h"

#include <string.h>

static const call_phase FORWARD[] = {PHASE_DECODE, PHASE_PREFILL, PHASE_DRAFT};

static const call_arg *arg(check_case *t, const call *c, const char *name) {
    static const call_arg none;
    const call_arg *a = call_find(c, name);
    CHECKF(t, a != NULL, "call %u %s has no argument %s", c->ordinal, c->name, name);
    return a == NULL ? &none : a;
}

/* Runs a check over every call of the phases that compute, at every rank of the table. */
static void over_calls(check_case *t,
                       void (*check)(check_case *t, const tf_calls *calls, const call *c)) {
    for (size_t i = 0; i < SHARES_COUNT && !check_failed(t); i++) {
        const shares_rank *s = &SHARES[i];
        if (strcmp(s->pack, "flash") == 0 && s->world != 3) continue;
        for (size_t p = 0; p < COUNT(FORWARD); p++) {
            const tf_calls *calls = lists_shared(t, i, FORWARD[p]);
            for (uint32_t k = 0; calls != NULL && k < calls->count && !check_failed(t); k++)
                check(t, calls, &calls->calls[k]);
        }
        if (check_failed(t)) check_note(t, "%s world %u rank %u", s->pack, s->world, s->rank);
    }
}

/* ---- reach ---- */

/* The one buffer that a call's tensor views; NULL for a weight. */
static const call_buffer *buffer_of(check_case *t, const tf_calls *calls, const call *c,
                                    const call_tensor *v) {
    const call_buffer *found = NULL;
    for (uint32_t i = 0; i < calls->buffer_count; i++) {
        const call_buffer *b = &calls->buffers[i];
        bool alive = b->first <= c->ordinal && c->ordinal <= b->last;
        if (!alive || strcmp(b->role, v->role) != 0) continue;
        if (v->role[0] == 'L' && b->layer != c->layer) continue;
        CHECKF(t, found == NULL, "call %u %s: %s is two buffers", c->ordinal, c->name, v->role);
        found = b;
    }
    return found;
}

static void check_weight_view(check_case *t, const tf_calls *calls, const call *c,
                              const call_tensor *v) {
    const plan_item *item = plan_find(calls->plan, v->role);
    if (!CHECKF(t, item != NULL, "call %u %s: %s is neither a live buffer nor a weight", c->ordinal,
                c->name, v->role))
        return;
    CHECK_U64(t, v->dtype, item->tensor->dtype);
    CHECK_U64(t, v->dims, item->tensor->dims);
    for (uint32_t d = 0; d < v->dims; d++)
        CHECK_U64(t, v->shape[d].value, item->shape[d]);
}

static void check_reach(check_case *t, const tf_calls *calls, const call *c) {
    for (uint32_t i = 0; i < c->arg_count && !check_failed(t); i++) {
        if (c->args[i].type != ARG_TENSOR) continue;
        const call_tensor *v = &c->args[i].tensor;
        const call_buffer *b = buffer_of(t, calls, c, v);
        if (b == NULL) {
            check_weight_view(t, calls, c, v);
            continue;
        }
        int64_t last = v->is_view ? v->offset.value : 0;
        int64_t stride = 1;
        for (uint32_t d = v->dims; d-- > 0;) {
            last += (v->shape[d].value - 1) * (v->is_view ? v->stride[d].value : stride);
            stride *= v->shape[d].value;
        }
        CHECK_U64(t, v->dtype, b->dtype);
        CHECKF(t, (uint64_t)(last + 1) * dtype_bytes(v->dtype) <= b->bytes,
               "call %u %s reaches past %s", c->ordinal, c->name, v->role);
    }
}

static void arguments_are_alive(check_case *t) {
    over_calls(t, check_reach);
}

/* The tensor whose rows a kind is launched over, and which of its axes they are. */
static const struct {
    call_kind kind;
    const char *arg;
    uint32_t axis;
} ROWS_OF[] = {
    {CALL_EMBED, "y", 0},
    {CALL_COPIES, "x", 0},
    {CALL_HASH, "y", 0},
    {CALL_LOOKUP, "y", 0},
    {CALL_ENGRAM, "streams", 0},
    {CALL_TAP, "streams", 0},
    {CALL_MIX, "streams", 0},
    {CALL_COLLAPSE, "streams", 0},
    {CALL_NORM, "x", 0},
    {CALL_DOT, "x", 0},
    {CALL_ROPE, "x", 0},
    {CALL_STORE, "x", 0},
    {CALL_FETCH, "y", 0},
    {CALL_COMPRESS, "keys", 0},
    {CALL_SCORES, "q", 0},
    {CALL_CANDIDATES, "y", 0},
    {CALL_TOPK, "y", 0},
    {CALL_ATTEND, "q", 0},
    {CALL_ROUTE, "x", 0},
    {CALL_EXPERTS_UP, "x", 0},
    {CALL_EXPERTS_DOWN, "x", 0},
    {CALL_SHARE_PARTIALS, "x", 1},
    {CALL_SHARE_COLUMNS, "x", 0},
    {CALL_SHARE_ROWS, "x", 0},
    {CALL_SHARE_BEST, "x", 0},
    {CALL_REDUCE, "x", 1},
    {CALL_POST, "x", 0},
    {CALL_BEST, "logits", 0},
    {CALL_PICK, "x", 1},
    {CALL_BLOCK_IDS, "y", 0},
    {CALL_CONFIDENCE, "hidden", 0},
};

static void check_rows(check_case *t, const tf_calls *calls, const call *c) {
    (void)calls;
    for (size_t i = 0; i < COUNT(ROWS_OF); i++) {
        if (ROWS_OF[i].kind != c->kind) continue;
        int64_t rows = arg(t, c, ROWS_OF[i].arg)->tensor.shape[ROWS_OF[i].axis].value;
        CHECKF(t, c->grid[0].value == rows, "call %u %s: %lld rows are launched over %lld of %s",
               c->ordinal, c->name, (long long)c->grid[0].value, (long long)rows, ROWS_OF[i].arg);
        return;
    }
    CHECKF(t, false, "kind %s is not in the table", call_kind_name(c->kind));
}

static void launches_cover_their_rows(check_case *t) {
    over_calls(t, check_rows);
}

/* Local row = begins[own column] + hash within the column; the table ends where the last one does. */
static void check_lookup(check_case *t, const tf_calls *calls, const call *c) {
    if (c->kind != CALL_LOOKUP) return;
    const call_arg *primes = NULL;
    for (uint32_t i = 0; i < c->ordinal && primes == NULL; i++)
        primes = call_find(&calls->calls[i], "primes");
    const call_arg *begins = arg(t, c, "begins");
    if (!CHECK(t, primes != NULL && begins->type == ARG_INTS)) return;
    int64_t columns = arg(t, c, "columns")->i.value;
    int64_t from = arg(t, c, "which")->i.value * 24 + arg(t, c, "first")->i.value;
    CHECK_U64(t, begins->ints.count, columns + 1);
    int64_t row = 0;
    for (int64_t k = 0; k < columns && !check_failed(t); k++) {
        CHECK_U64(t, begins->ints.values[k], row);
        row += primes->ints.values[from + k];
    }
    CHECK_U64(t, begins->ints.values[columns], row);
    CHECK_U64(t, arg(t, c, "w")->tensor.shape[0].value, row);
}

static void columns_begin_in_the_own_table(check_case *t) {
    over_calls(t, check_lookup);
}

/* The draw of a token is keyed by the token's own position: a chunk's is start + rows, however the
 * prompt was cut (NUMERICS, Sampling). */
static void chunks_token_position(check_case *t) {
    tf_plan *plan = lists_plan(t, "tiny-exl3", 3, 1);
    for (int whole = 0; whole < 2; whole++) {
        emit_request r = {
            .phase = PHASE_PREFILL, .layer = EMIT_ALL_LAYERS, .rows = 17, .start = 96};
        r.logits = whole == 1;
        tf_calls *calls = NULL;
        tf_error err = {0};
        if (plan != NULL) emit_calls(plan, &r, &calls, &err);
        size_t seen = 0;
        for (uint32_t k = 0; calls != NULL && k < calls->count; k++) {
            const call *c = &calls->calls[k];
            if (c->kind != CALL_BEST) continue;
            seen++;
            CHECK_U64(t, arg(t, c, "start")->i.value + arg(t, c, "ahead")->i.value, 96 + 17);
            CHECK_STR(t, arg(t, c, "ahead")->i.text, "n");
        }
        CHECK_U64(t, seen, 1);
        calls_free(calls);
    }
    plan_free(plan);
}

static void drafts_token_positions(check_case *t) {
    tf_plan *plan = lists_plan(t, "tiny-exl3", 2, 0);
    tf_calls *calls = lists_calls(t, plan, PHASE_DRAFT, 3, 0);
    int64_t ahead = 0;
    for (uint32_t k = 0; calls != NULL && k < calls->count; k++) {
        if (calls->calls[k].kind != CALL_BEST) continue;
        CHECK_U64(t, arg(t, &calls->calls[k], "ahead")->i.value, ++ahead);
    }
    CHECK_U64(t, ahead, 5);
    calls_free(calls);
    plan_free(plan);
}

/* What drafts are compared by: base + Markov of every pick, joined like the target's. */
static void draft_logits(check_case *t) {
    tf_plan *plan = lists_plan(t, "tiny-exl3", 3, 2);
    emit_request r = {.phase = PHASE_DRAFT, .layer = EMIT_ALL_LAYERS, .logits = true};
    tf_calls *calls = NULL;
    tf_error err = {0};
    if (plan != NULL) emit_calls(plan, &r, &calls, &err);
    const call_buffer *b = calls == NULL ? NULL : calls_buffer(calls, "out.logits");
    if (CHECK(t, b != NULL)) {
        CHECK_U64(t, b->shape[0].value, 5);
        CHECK_U64(t, b->shape[1].value, 1280);
    }
    size_t seen = 0;
    for (uint32_t k = 0; calls != NULL && k < calls->count; k++) {
        const call *c = &calls->calls[k];
        if (c->kind != CALL_SHARE_COLUMNS) continue;
        CHECK_U64(t, arg(t, c, "y")->tensor.offset.value, 1280 * seen++);
        check_reach(t, calls, c);
    }
    CHECK_U64(t, seen, 5);
    calls_free(calls);
    plan_free(plan);
}

/* ---- data flow ---- */

/* Per buffer of a list: has a call before this one written it? */
static bool written[8192];

/* The step buffer that an argument of call k views; UINT32_MAX for state, inputs and weights. */
static uint32_t viewed(const tf_calls *calls, uint32_t k, const call_arg *a) {
    for (uint32_t b = 0; a->type == ARG_TENSOR && b < calls->buffer_count; b++) {
        const call_buffer *buf = &calls->buffers[b];
        bool alive = buf->first <= k && k <= buf->last;
        if (alive && buffer_is_step(buf) && strcmp(buf->role, a->tensor.role) == 0) return b;
    }
    return UINT32_MAX;
}

static void check_flow(check_case *t, const tf_calls *calls, uint32_t k) {
    const call *c = &calls->calls[k];
    for (uint32_t i = 0; i < c->arg_count; i++) {
        uint32_t b = viewed(calls, k, &c->args[i]);
        if (b == UINT32_MAX || !lists_reads(c->kind, c->args[i].name)) continue;
        CHECKF(t, written[b], "call %u %s reads %s, which nobody wrote", k, c->name,
               calls->buffers[b].role);
    }
    for (uint32_t i = 0; i < c->arg_count; i++) {
        uint32_t b = viewed(calls, k, &c->args[i]);
        if (b != UINT32_MAX && lists_writes(c->kind, c->args[i].name)) written[b] = true;
    }
}

static void inputs_were_written(check_case *t) {
    static const call_phase phases[] = {PHASE_DECODE, PHASE_PREFILL, PHASE_DRAFT};
    for (size_t p = 0; p < COUNT(phases); p++) {
        tf_plan *plan = lists_plan(t, "tiny-exl3", 3, 2);
        tf_calls *calls = lists_calls(t, plan, phases[p], 0, 0);
        if (calls == NULL || !CHECK(t, calls->buffer_count <= COUNT(written))) return;
        memset(written, 0, sizeof written);
        for (uint32_t k = 0; k < calls->count; k++)
            check_flow(t, calls, k);
        calls_free(calls);
        plan_free(plan);
    }
}

/* The collapse takes the pre of the sublayer before (MODEL 3.3, trap "delayed pre"). */
static void pre_is_delayed(check_case *t) {
    tf_plan *plan = lists_plan(t, "tiny-exl3", 1, 0);
    tf_calls *calls = lists_calls(t, plan, PHASE_DECODE, 0, 0);
    const char *next = "x.pre";
    for (uint32_t k = 0; calls != NULL && k < calls->count; k++) {
        const call *c = &calls->calls[k];
        if (c->kind != CALL_COLLAPSE) continue;
        CHECK_STR(t, arg(t, c, "pre")->tensor.role, next);
        next = strcmp(next, "x.pre") == 0 ? "L.pre" : "x.pre";
    }
    calls_free(calls);
    plan_free(plan);
}

/* ---- exchanges ---- */

/* Every interval a subtree, all leaves once, each owned by the rank whose share it lies in. */
static void check_covers(check_case *t, const shares_rank *s, const call *k) {
    const call_arg *cover = arg(t, k, "cover");
    const call_arg *owners = arg(t, k, "owners");
    bool experts = strcmp(k->name, "ffn") == 0;
    int64_t at = 0;
    for (uint32_t i = 0; i + 1 < cover->ints.count; i += 2) {
        int64_t begin = cover->ints.values[i];
        int64_t end = cover->ints.values[i + 1];
        CHECK_U64(t, begin, at);
        int64_t span = 1;
        while (span < end - begin)
            span *= 2;
        CHECKF(t, begin % span == 0, "[%lld,%lld) is no subtree", (long long)begin, (long long)end);
        at = end;
        if ((uint32_t)owners->ints.values[i / 2] != s->rank) continue;
        int64_t first = experts ? s->first_block : s->first_group;
        int64_t count = experts ? s->width / 128 : s->groups;
        CHECKF(t, begin >= first && end <= first + count, "[%lld,%lld) lies outside the share",
               (long long)begin, (long long)end);
    }
    CHECK_U64(t, owners->ints.count * 2, cover->ints.count);
}

static void covers(check_case *t) {
    for (size_t i = 0; i < SHARES_COUNT && !check_failed(t); i++) {
        const shares_rank *s = &SHARES[i];
        const tf_calls *calls = lists_shared(t, i, PHASE_DECODE);
        for (uint32_t k = 0; calls != NULL && k < calls->count; k++) {
            const call *c = &calls->calls[k];
            if (c->kind == CALL_SHARE_PARTIALS) check_covers(t, s, c);
            if (c->kind != CALL_REDUCE) continue;
            uint32_t last = arg(t, c, "cover")->ints.count - 1;
            CHECK_U64(t, arg(t, c, "cover")->ints.values[last], arg(t, c, "leaves")->i.value);
        }
    }
}

static bool same_list(const call_arg *a, const call_arg *b) {
    return a->ints.count == b->ints.count &&
           memcmp(a->ints.values, b->ints.values, a->ints.count * sizeof(int64_t)) == 0;
}

/* The next collective from *at on; NULL at the end. */
static const call *collective(const tf_calls *calls, uint32_t *at) {
    while (*at < calls->count) {
        const call *c = &calls->calls[(*at)++];
        if (c->collective) return c;
    }
    return NULL;
}

static void compare_ranks(check_case *t, const tf_calls *a, const tf_calls *b) {
    uint32_t i = 0;
    uint32_t k = 0;
    size_t count = 0;
    for (;;) {
        const call *x = collective(a, &i);
        const call *y = collective(b, &k);
        if (x == NULL || y == NULL) {
            CHECK(t, x == NULL && y == NULL);
            break;
        }
        count++;
        CHECK_U64(t, x->kind, y->kind);
        CHECK_STR(t, x->name, y->name);
        CHECK_U64(t, x->layer, y->layer);
        static const char *const lists[] = {"cover", "owners", "begins"};
        for (size_t n = 0; n < COUNT(lists); n++) {
            const call_arg *p = call_find(x, lists[n]);
            const call_arg *q = call_find(y, lists[n]);
            CHECK(t, (p == NULL) == (q == NULL));
            if (p != NULL && q != NULL) {
                CHECKF(t, same_list(p, q), "%s: %s differs between ranks", x->name, lists[n]);
            }
        }
    }
    CHECK(t, count > 3);
}

/* Does a rank ship what the exchange says it ships? */
static void check_counts(check_case *t, const call *c, uint32_t rank) {
    const call_arg *owners = call_find(c, "owners");
    const call_arg *begins = call_find(c, "begins");
    const call_tensor *x = &arg(t, c, "x")->tensor;
    if (owners != NULL) {
        int64_t own = 0;
        for (uint32_t i = 0; i < owners->ints.count; i++)
            own += owners->ints.values[i] == rank;
        CHECKF(t, own == x->shape[0].value, "%s: rank %u owns %lld intervals and ships %lld",
               c->name, rank, (long long)own, (long long)x->shape[0].value);
    }
    if (begins != NULL && c->kind == CALL_SHARE_COLUMNS) {
        int64_t row = 1;
        for (uint32_t d = 1; d < x->dims; d++)
            row *= x->shape[d].value;
        CHECK_U64(t, begins->ints.values[rank + 1] - begins->ints.values[rank], row);
    }
}

/* Every rank of a world against its rank 0, in every phase. */
static void meet(check_case *t, const char *name, uint32_t world, const uint64_t *weights) {
    const tf_pack *pack = lists_pack(t, name);
    for (size_t p = 0; p < COUNT(FORWARD) && pack != NULL; p++) {
        tf_plan *plans[8] = {0};
        tf_calls *lists[8] = {0};
        for (uint32_t r = 0; r < world; r++) {
            tf_error err = {0};
            CHECK_U64(t, plan_make(pack, world, r, weights, &plans[r], &err), TF_OK);
            lists[r] = lists_calls(t, plans[r], FORWARD[p], 0, 0);
            uint32_t at = 0;
            const call *c = NULL;
            while (lists[r] != NULL && (c = collective(lists[r], &at)) != NULL)
                check_counts(t, c, r);
            if (r > 0 && lists[0] != NULL && lists[r] != NULL) compare_ranks(t, lists[0], lists[r]);
        }
        for (uint32_t r = 0; r < world; r++) {
            calls_free(lists[r]);
            plan_free(plans[r]);
        }
    }
}

static void ranks_meet(check_case *t) {
    for (uint32_t world = 2; world <= 4; world++)
        meet(t, "tiny-exl3", world, NULL);
    meet(t, "flash", 3, NULL);
    meet(t, "flash", 8, NULL);
}

static void unequal_machines_meet(check_case *t) {
    static const uint64_t weights[3] = {2, 1, 1};
    meet(t, "tiny-exl3", 3, weights);
    meet(t, "tiny-bf16", 3, weights);
    meet(t, "flash", 3, weights);
}

/* ---- what a rank may not do alone ---- */

/* A sum over elements that other ranks hold parts of would be another number on every rank: the axis
 * that a norm runs over is whole. */
static void check_norm(check_case *t, const tf_calls *calls, const call *c) {
    (void)calls;
    if (c->kind != CALL_NORM) return;
    const call_tensor *x = &arg(t, c, "x")->tensor;
    CHECKF(t, x->shape[x->dims - 1].text == NULL, "call %u %s: the axis is %s", c->ordinal, c->name,
           x->shape[x->dims - 1].text);
}

static void no_norm_runs_over_a_sharded_axis(check_case *t) {
    over_calls(t, check_norm);
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"emit/arguments-are-live-buffers-or-weights", arguments_are_alive},
        {"emit/launches-cover-their-rows", launches_cover_their_rows},
        {"emit/inputs-were-written-before", inputs_were_written},
        {"emit/pre-of-the-sublayer-before", pre_is_delayed},
        {"emit/columns-begin-in-the-own-table", columns_begin_in_the_own_table},
        {"emit/a-chunks-token-is-drawn-for-its-own-position", chunks_token_position},
        {"emit/drafted-tokens-are-drawn-for-their-own-positions", drafts_token_positions},
        {"emit/draft-logits-on-request", draft_logits},
        {"emit/intervals-are-whole-subtrees-in-order", covers},
        {"emit/ranks-meet-in-the-same-order", ranks_meet},
        {"emit/unequal-machines-meet-in-the-same-order", unequal_machines_meet},
        {"emit/no-norm-runs-over-a-sharded-axis", no_norm_runs_over_a_sharded_axis},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
