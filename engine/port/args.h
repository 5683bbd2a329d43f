/* port/args - what a kernel is called with.
 *
 * Idea: a call's arguments are resolved once, when a list is bound to memory: names become struct
 * fields, roles become addresses.  CPU and CUDA kernels take the same structs.
 * Trap: a row's stride is an argument, never assumed: views of one row or of some columns are common. */
#ifndef TF_ENGINE_PORT_ARGS_H
#define TF_ENGINE_PORT_ARGS_H

#include "engine/emit/call.h"
#include "engine/pack/dtype.h"
#include "engine/pack/exl3_codec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct port_tensor {
    void *data; /* first element of the view; NULL: the call says none */
    tf_dtype dtype;
    uint32_t dims;
    uint32_t shape[CALL_DIMS_MAX];
    size_t stride[CALL_DIMS_MAX]; /* elements; the last is 1 */
} port_tensor;

/* State of all slots: element 0 of slot s is data + s * slot_bytes. */
typedef struct port_state {
    void *data; /* NULL: none */
    tf_dtype dtype;
    size_t slot_bytes;
    size_t row_stride; /* elements from one position to the next */
    uint32_t row;      /* elements of a position's row that this view holds */
} port_state;

/* Where the rows of a step stand. */
typedef struct port_where {
    const int32_t *slots;     /* [slot_count] */
    uint32_t slot_count;      /* the rows', or 1: all rows are of one request */
    const int64_t *positions; /* [n]; NULL: row i stands at start + i */
    int64_t start;
} port_where;

/* A linear y = xW, loaded. */
typedef struct port_linear {
    weight_form form;
    tf_dtype dtype; /* plain */
    exl3_codebook codebook;
    uint32_t bits2; /* exl3: twice the bits a weight */
    uint32_t k, n;
    const void *data;       /* in the layout of the device that loaded it */
    const float *suh, *svh; /* exl3: [k], [n] */
} port_linear;

/* One linear, or a family: members[i] is expert or group first + i. */
typedef struct port_weight {
    const port_linear *members; /* [count] */
    uint32_t count;             /* 1 where the call names no family */
    uint32_t first;
} port_weight;

typedef struct port_ints {
    const int64_t *values; /* NULL: none */
    uint32_t count;
} port_ints;

#define T(kind, field) port_tensor field;
#define L(kind, field) port_weight field;
#define S(kind, field) port_state field;
#define I(kind, field) int64_t field;
#define R(kind, field) double field;
#define B(kind, field) bool field;
#define C(kind, field) const char *field;
#define N(kind, field) port_ints field;
#define W(kind)        port_where where;
#define P(kind)        port_where where; /* slots unused */
#define ARGS(NAME, name, fields) \
    typedef struct args_##name { \
        fields                   \
    } args_##name;
#include "engine/port/args.def"
#undef T
#undef L
#undef S
#undef I
#undef R
#undef B
#undef C
#undef N
#undef W
#undef P
#undef ARGS

/* One call, ready for a kernel. */
typedef struct port_launch {
    call_kind kind;
    const char *name; /* the call's, for messages */
    uint32_t rows;    /* n */
    const void *args; /* args_<kind> */
} port_launch;

static inline int64_t port_position(const port_where *w, uint32_t row) {
    return w->positions == NULL ? w->start + row : w->positions[row];
}
static inline int32_t port_slot(const port_where *w, uint32_t row) {
    return w->slots[w->slot_count == 1 ? 0 : row];
}
static inline float *port_f32(const port_tensor *t, size_t row) {
    return (float *)t->data + row * t->stride[0];
}
static inline int32_t *port_i32(const port_tensor *t, size_t row) {
    return (int32_t *)t->data + row * t->stride[0];
}
/* Row `index` of a slot's ring or table, as f32. */
static inline float *port_state_row(const port_state *s, int32_t slot, uint64_t index) {
    char *base = (char *)s->data + (size_t)slot * s->slot_bytes;
    return (float *)(void *)base + index * s->row_stride;
}

#endif
