/* Arguments of calls, resolved (engine/run/bind). */
#include "engine/run/bind.h"
#include "tests/support/check.h"
#include "tests/support/lists.h"

#include <string.h>

/* The arguments a field stands for. */
static uint32_t names_of(const bind_field *f, const char *names[3]) {
    uint32_t count = 0;
    if (f->type == FIELD_WHERE) names[count++] = "slots";
    if (f->type == FIELD_WHERE || f->type == FIELD_POSITIONS) {
        names[count++] = "positions";
        names[count++] = "start";
        return count;
    }
    names[0] = f->name;
    return 1;
}

static void fields_are_the_kinds_arguments(check_case *t) {
    for (call_kind kind = 0; kind < CALL_KINDS; kind++) {
        uint32_t at = 0;
        if (kind == CALL_TOUCH) continue; /* of prefetch: nothing runs it */
        for (const bind_field *f = bind_fields(kind); f->name != NULL; f++) {
            const char *names[3];
            uint32_t count = names_of(f, names);
            for (uint32_t i = 0; i < count; i++, at++)
                CHECKF(t, call_kind_takes(kind, at, names[i]), "%s: argument %u is not %s",
                       call_kind_name(kind), at, names[i]);
            CHECK(t, f->offset < bind_args_bytes(kind));
        }
        CHECKF(t, at == call_kind_arg_count(kind), "%s: %u of %u arguments", call_kind_name(kind),
               at, call_kind_arg_count(kind));
    }
}

/* ---- where things lie, made up: an address tells what was asked for ---- */

typedef struct places {
    char buffers[4096];
    char state[4096];
    uint32_t tensors, linears;
} places;

static tf_status buffer(void *context, const call *c, const call_tensor *at, void **data,
                        tf_error *err) {
    places *p = context;
    (void)c, (void)at, (void)err;
    *data = p->buffers;
    return TF_OK;
}

static tf_status state(void *context, const call_tensor *at, void **data, size_t *slot_bytes,
                       tf_error *err) {
    places *p = context;
    (void)at, (void)err;
    *data = p->state;
    *slot_bytes = 512;
    return TF_OK;
}

static tf_status tensor(void *context, const call *c, const call_tensor *at, port_tensor *out,
                        tf_error *err) {
    places *p = context;
    (void)c, (void)at, (void)err;
    p->tensors++;
    out->dtype = DTYPE_F32;
    out->data = p->buffers;
    return TF_OK;
}

static tf_status linear(void *context, const call_arg *arg, port_weight *out, tf_error *err) {
    places *p = context;
    (void)arg, (void)err;
    p->linears++;
    *out = (port_weight){NULL, 7, 3};
    return TF_OK;
}

static tf_status no_linear(void *context, const call_arg *arg, port_weight *out, tf_error *err) {
    (void)context, (void)arg, (void)out;
    return tf_fail(err, TF_W_WRONG_INDEX, "loading weight %s", "w");
}

typedef struct bound {
    tf_plan *plan;
    tf_calls *calls;
    places places;
    bind_place place;
    max_align_t args[64];
} bound;

static bool begin(check_case *t, bound *b, call_phase phase, uint32_t rows, uint64_t start) {
    memset(b, 0, sizeof *b);
    b->plan = lists_plan(t, "tiny-exl3", 3, 2);
    b->calls = b->plan == NULL ? NULL : lists_calls(t, b->plan, phase, rows, start);
    b->place = (bind_place){&b->places, buffer, state, tensor, linear};
    return b->calls != NULL;
}

static void end(bound *b) {
    calls_free(b->calls);
    plan_free(b->plan);
}

static const call *named(const tf_calls *calls, call_kind kind, const char *name) {
    for (uint32_t i = 0; i < calls->count; i++) {
        if (calls->calls[i].kind == kind && strcmp(calls->calls[i].name, name) == 0)
            return &calls->calls[i];
    }
    return NULL;
}

static const void *bind(check_case *t, bound *b, call_kind kind, const char *name) {
    tf_error err = {0};
    const call *c = named(b->calls, kind, name);
    if (!CHECKF(t, c != NULL, "no call %s", name)) return NULL;
    memset(b->args, 0, sizeof b->args);
    return CHECK(t, bind_call(c, &b->place, b->args, &err) == TF_OK) ? b->args : NULL;
}

static void a_product_has_its_leaves_cover_and_weight(check_case *t) {
    bound b;
    if (begin(t, &b, PHASE_DECODE, 5, 0)) {
        const args_dot *a = bind(t, &b, CALL_DOT, "wo_b");
        CHECK_U64(t, a->first_leaf, 6);
        CHECK_U64(t, a->leaves, 2);
        CHECK_U64(t, a->all_leaves, 8);
        CHECK_U64(t, a->cover.count, 2);
        CHECK_U64(t, a->cover.values[0], 6);
        CHECK_U64(t, a->x.shape[0], 5);
        CHECK_U64(t, a->x.stride[0], 256);
        CHECK(t, a->add.data == NULL);
        CHECK_U64(t, a->w.count, 7);
        CHECK_U64(t, a->w.first, 3);
        CHECK_U64(t, b.places.linears, 1);
    }
    end(&b);
}

static void a_view_starts_at_its_offset(check_case *t) {
    bound b;
    if (begin(t, &b, PHASE_PREFILL, 17, 5)) {
        const call *c = named(b.calls, CALL_COLLAPSE, "collapse");
        for (uint32_t i = 0; i < b.calls->count; i++) {
            const call *one = &b.calls->calls[i];
            if (one->kind == CALL_COLLAPSE && one->layer == CALL_TOP) c = one;
        }
        tf_error err = {0};
        CHECK(t, bind_call(c, &b.place, b.args, &err) == TF_OK);
        const args_collapse *a = (const args_collapse *)(const void *)b.args;
        CHECK_U64(t, (const char *)a->streams.data - b.places.buffers, 16 * 4 * 256 * 4);
        CHECK_U64(t, a->streams.shape[0], 1);
    }
    end(&b);
}

static void a_chunk_stands_at_its_start_and_a_step_at_its_positions(check_case *t) {
    bound b;
    if (begin(t, &b, PHASE_PREFILL, 17, 5)) {
        const args_attend *a = bind(t, &b, CALL_ATTEND, "attend");
        CHECK(t, a->where.positions == NULL);
        CHECK_U64(t, port_position(&a->where, 3), 8);
        CHECK_U64(t, a->where.slot_count, 1);
        CHECK(t, a->rows.data == NULL); /* layer 0 has no long range */
        CHECK_U64(t, a->rows_capacity, 0);
    }
    end(&b);
    if (begin(t, &b, PHASE_DECODE, 2, 0)) {
        const args_attend *a = bind(t, &b, CALL_ATTEND, "attend");
        CHECK(t, a->where.positions != NULL);
        CHECK_U64(t, a->where.slot_count, 2);
        CHECK_U64(t, a->ring.slot_bytes, 512);
        CHECK_U64(t, a->ring.row_stride, 128);
        CHECK(t, a->causal);
        int64_t positions[2] = {40, 7};
        memcpy(b.places.buffers, positions, sizeof positions);
        CHECK_U64(t, port_position(&a->where, 1), 7);
    }
    end(&b);
}

static void columns_of_a_ring_keep_its_rows_apart(check_case *t) {
    bound b;
    if (begin(t, &b, PHASE_DECODE, 1, 0)) {
        const args_store *a = bind(t, &b, CALL_STORE, "tap");
        CHECK_U64(t, a->y.row_stride, 3 * 256);
        CHECK_U64(t, a->y.row, 256);
    }
    end(&b);
}

static void what_is_missing_is_told_with_the_call(check_case *t) {
    bound b;
    if (begin(t, &b, PHASE_DECODE, 1, 0)) {
        tf_error err = {0};
        b.place.linear = no_linear;
        const call *c = named(b.calls, CALL_DOT, "wq_b");
        CHECK(t, bind_call(c, &b.place, b.args, &err) != TF_OK);
        CHECK_U64(t, err.word, TF_W_WRONG_INDEX);
        CHECKF(t, strstr(err.what, "wq_b, argument w") != NULL, "%s", err.what);
    }
    end(&b);
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"bind/fields-are-the-kinds-arguments", fields_are_the_kinds_arguments},
        {"bind/a-product-has-its-leaves-cover-and-weight",
         a_product_has_its_leaves_cover_and_weight},
        {"bind/a-view-starts-at-its-offset", a_view_starts_at_its_offset},
        {"bind/a-chunk-stands-at-its-start-and-a-step-at-its-positions",
         a_chunk_stands_at_its_start_and_a_step_at_its_positions},
        {"bind/columns-of-a-ring-keep-its-rows-apart", columns_of_a_ring_keep_its_rows_apart},
        {"bind/what-is-missing-is-told-with-the-call", what_is_missing_is_told_with_the_call},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
