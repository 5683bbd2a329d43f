/* run/bind - a call's arguments, resolved: names to struct fields, roles to addresses.
 *
 * Idea: args.def gives every kind's struct and, from the same lines, the table that fills it; where
 * things lie is asked of whoever owns the memory.
 * Trap: a field left out would be a zero that looks like a value; the table is checked against
 * kinds.def, argument by argument. */
#ifndef TF_ENGINE_RUN_BIND_H
#define TF_ENGINE_RUN_BIND_H

#include "engine/port/args.h"

typedef enum {
    FIELD_TENSOR,
    FIELD_LINEAR,
    FIELD_STATE,
    FIELD_INT,
    FIELD_REAL,
    FIELD_BOOL,
    FIELD_WORD,
    FIELD_INTS,
    FIELD_WHERE,     /* slots, positions, start */
    FIELD_POSITIONS, /* positions, start */
} field_type;

typedef struct bind_field {
    const char *name; /* the argument's; "slots" or "positions" for where */
    field_type type;
    size_t offset; /* in args_<kind> */
} bind_field;

/* NULL-named entry ends it; static. */
const bind_field *bind_fields(call_kind kind);
size_t bind_args_bytes(call_kind kind);

/* Where things lie.  Each fails with what it lacks. */
typedef struct bind_place {
    void *context;
    /* First element of a buffer (in. out. x. L.); the view is applied by bind. */
    tf_status (*buffer)(void *context, const call *c, const call_tensor *t, void **data,
                        tf_error *err);
    /* First byte of slot 0's part, and bytes from slot to slot. */
    tf_status (*state)(void *context, const call_tensor *t, void **data, size_t *slot_bytes,
                       tf_error *err);
    /* A weight that is a tensor: out->data and out->dtype as loaded. */
    tf_status (*tensor)(void *context, const call *c, const call_tensor *t, port_tensor *out,
                        tf_error *err);
    tf_status (*linear)(void *context, const call_arg *arg, port_weight *out, tf_error *err);
} bind_place;

/* args: zeroed memory of bind_args_bytes. */
tf_status bind_call(const call *c, const bind_place *place, void *args, tf_error *err);

#endif
