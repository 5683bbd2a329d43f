#include "engine/run/bind.h"

#include "engine/base/check.h"

#include <string.h>

#define FIELD(kind, field, type) {#field, type, offsetof(args_##kind, field)},
#define T(kind, field)           FIELD(kind, field, FIELD_TENSOR)
#define L(kind, field)           FIELD(kind, field, FIELD_LINEAR)
#define S(kind, field)           FIELD(kind, field, FIELD_STATE)
#define I(kind, field)           FIELD(kind, field, FIELD_INT)
#define R(kind, field)           FIELD(kind, field, FIELD_REAL)
#define B(kind, field)           FIELD(kind, field, FIELD_BOOL)
#define C(kind, field)           FIELD(kind, field, FIELD_WORD)
#define N(kind, field)           FIELD(kind, field, FIELD_INTS)
#define W(kind)                  {"slots", FIELD_WHERE, offsetof(args_##kind, where)},
#define P(kind)                  {"positions", FIELD_POSITIONS, offsetof(args_##kind, where)},
#define ARGS(NAME, name, fields) \
    static const bind_field fields_##name[] = {fields{NULL, FIELD_TENSOR, 0}};
#include "engine/port/args.def"
#undef ARGS

static const struct {
    const bind_field *fields;
    size_t bytes;
} table[CALL_KINDS] = {
#define ARGS(NAME, name, fields) [CALL_##NAME] = {fields_##name, sizeof(args_##name)},
#include "engine/port/args.def"
#undef ARGS
};

static const bind_field none[] = {{NULL, FIELD_TENSOR, 0}};

const bind_field *bind_fields(call_kind kind) {
    return table[kind].fields == NULL ? none : table[kind].fields;
}

size_t bind_args_bytes(call_kind kind) {
    return table[kind].bytes;
}

/* Shape and strides of the view, row-major where the call says no more. */
static void shape_of(const call_tensor *t, port_tensor *out) {
    size_t stride = 1;
    out->dims = t->dims;
    for (uint32_t d = t->dims; d-- > 0;) {
        out->shape[d] = (uint32_t)t->shape[d].value;
        out->stride[d] = t->is_view ? (size_t)t->stride[d].value : stride;
        stride *= out->shape[d];
    }
}

static void *moved(void *data, tf_dtype dtype, const call_tensor *t) {
    size_t elements = t->is_view ? (size_t)t->offset.value : 0;
    return (char *)data + elements * dtype_bytes(dtype);
}

static tf_status bind_tensor(const call *c, const call_arg *arg, const bind_place *place,
                             port_tensor *out, tf_error *err) {
    if (arg->type == ARG_NONE) return TF_OK;
    const call_tensor *t = &arg->tensor;
    shape_of(t, out);
    if (!call_role_is_buffer(t->role)) return place->tensor(place->context, c, t, out, err);
    out->dtype = t->dtype;
    void *data = NULL;
    tf_status status = place->buffer(place->context, c, t, &data, err);
    if (status == TF_OK) out->data = moved(data, t->dtype, t);
    return status;
}

static tf_status bind_state(const call_arg *arg, const bind_place *place, port_state *out,
                            tf_error *err) {
    if (arg->type == ARG_NONE) return TF_OK;
    const call_tensor *t = &arg->tensor;
    port_tensor view = {0};
    void *data = NULL;
    shape_of(t, &view);
    tf_status status = place->state(place->context, t, &data, &out->slot_bytes, err);
    if (status != TF_OK) return status;
    out->data = moved(data, t->dtype, t);
    out->dtype = t->dtype;
    out->row_stride = view.stride[0];
    out->row = 1;
    for (uint32_t d = 1; d < view.dims; d++)
        out->row *= view.shape[d];
    return TF_OK;
}

static tf_status bind_where(const call *c, const bind_place *place, bool slots, port_where *out,
                            tf_error *err) {
    port_tensor t = {0};
    tf_status status = TF_OK;
    if (slots) {
        status = bind_tensor(c, call_find(c, "slots"), place, &t, err);
        out->slots = t.data;
        out->slot_count = t.shape[0];
    }
    if (status != TF_OK) return status;
    t = (port_tensor){0};
    status = bind_tensor(c, call_find(c, "positions"), place, &t, err);
    out->positions = t.data;
    const call_arg *start = call_find(c, "start");
    if (start->type == ARG_INT) out->start = start->i.value;
    return status;
}

static tf_status bind_field_of(const call *c, const bind_field *f, const bind_place *place,
                               char *args, tf_error *err) {
    void *to = args + f->offset;
    const call_arg *arg = call_find(c, f->name);
    TF_ASSERT(arg != NULL);
    switch (f->type) {
    case FIELD_TENSOR:
        return bind_tensor(c, arg, place, to, err);
    case FIELD_LINEAR:
        return place->linear(place->context, arg, to, err);
    case FIELD_STATE:
        return bind_state(arg, place, to, err);
    case FIELD_INT:
        *(int64_t *)to = arg->type == ARG_NONE ? 0 : arg->i.value;
        return TF_OK;
    case FIELD_REAL:
        *(double *)to = arg->f;
        return TF_OK;
    case FIELD_BOOL:
        *(bool *)to = arg->b;
        return TF_OK;
    case FIELD_WORD:
        *(const char **)to = arg->word;
        return TF_OK;
    case FIELD_INTS:
        if (arg->type == ARG_INTS)
            *(port_ints *)to = (port_ints){arg->ints.values, arg->ints.count};
        return TF_OK;
    case FIELD_WHERE:
        return bind_where(c, place, true, to, err);
    case FIELD_POSITIONS:
        return bind_where(c, place, false, to, err);
    }
    return TF_OK;
}

tf_status bind_call(const call *c, const bind_place *place, void *args, tf_error *err) {
    for (const bind_field *f = bind_fields(c->kind); f->name != NULL; f++) {
        tf_status status = bind_field_of(c, f, place, args, err);
        if (status != TF_OK) {
            return tf_under(err, "binding call %u %s, argument %s", c->ordinal, c->name, f->name);
        }
    }
    return TF_OK;
}
