/* emit/call - one thing for a kernel to do, with all that the kernel needs.
 *
 * Idea: a call is a kind and a fixed list of named arguments; the kinds and the order of their
 * arguments are one table (kinds.def), so that a call cannot be emitted half.
 * Trap: what a kernel would have to look up elsewhere - an eps, a capacity, which intervals a sum
 * is cut into - is an argument; the executor holds no model. */
#ifndef TF_ENGINE_EMIT_CALL_H
#define TF_ENGINE_EMIT_CALL_H

#include "engine/base/arena.h"
#include "engine/base/digest.h"
#include "engine/base/text.h"
#include "engine/emit/expr.h"
#include "engine/plan/plan.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum {
#define KIND(name, text, args) CALL_##name,
#include "engine/emit/kinds.def"
#undef KIND
    CALL_KINDS,
} call_kind;

/* The phases of tf.h, in its order. */
typedef enum {
    PHASE_DECODE,
    PHASE_PREFILL,
    PHASE_DRAFT,
    PHASE_PREFETCH,
    PHASE_COUNT
} call_phase;

#define CALL_DIMS_MAX 4u
#define CALL_ARGS_MAX 20u
#define CALL_TOP      (UINT32_MAX - 1) /* layer of calls before the first or after the last layer */

/* A view of a buffer.  The role's prefix is its lifetime:
 *   in.   given by the caller for this step       out.  handed back to the caller
 *   s.    state of a request, addressed by position       w.    ring of a window, likewise
 *   x.    lives through the forward                L.    lives within one layer
 * and a role without prefix is a weight: its image name in the rank file. */
typedef struct call_tensor {
    const char *role; /* list owns */
    tf_dtype dtype;
    uint32_t dims; /* 1..CALL_DIMS_MAX */
    expr_int shape[CALL_DIMS_MAX];
    expr_int stride[CALL_DIMS_MAX]; /* elements; row-major of shape unless is_view */
    expr_int offset;                /* elements from the buffer's begin */
    bool is_view;                   /* stride or offset say more than shape */
} call_tensor;

/* A linear y = xW with W [k, n], in 1 to 4 stored tensors named after one stem.  A family holds
 * `count` of them, stem with `{g}` or `{e}` for first, first + 1, ... */
typedef enum {
    WEIGHT_PLAIN,
    WEIGHT_EXL3
} weight_form;
typedef struct call_weight {
    const char *stem; /* image names: stem.weight, or stem.trellis/.suh/.svh */
    weight_form form;
    tf_dtype dtype;       /* plain */
    const char *codebook; /* exl3: "mul1", "mcg", "default"; static */
    uint32_t bits2;       /* exl3: twice the bits a weight; 0: members differ, see each */
    const uint16_t *each; /* [count] when bits2 is 0; list owns */
    expr_int k, n;
    expr_int first, count; /* count 0: no family */
    expr_int first_row;    /* plain only: first of n rows of the stored [N, K]; 0 else */
} call_weight;

typedef enum {
    ARG_NONE,
    ARG_INT,
    ARG_REAL,
    ARG_BOOL,
    ARG_WORD,
    ARG_INTS,
    ARG_TENSOR,
    ARG_WEIGHT
} arg_type;

typedef struct call_arg {
    const char *name; /* static: of kinds.def */
    arg_type type;
    union {
        expr_int i;
        double f; /* compared by bits */
        bool b;
        const char *word; /* static */
        struct {
            const int64_t *values; /* list owns */
            uint32_t count;
            const char *text; /* what they are made from: "cover(g)"; NULL when constant */
        } ints;
        call_tensor tensor;
        call_weight weight;
    };
} call_arg;

typedef struct call {
    uint32_t ordinal;
    uint32_t layer; /* logical, or CALL_TOP */
    call_kind kind;
    const char *name; /* what it computes, in the model's words: "wq_b" */
    expr_int grid[3]; /* rows, units side by side, leaves */
    bool collective;  /* every rank must reach it, in this order */
    uint32_t arg_count;
    call_arg *args;
} call;

/* A buffer of the list.  bytes = product of shape and dtype. */
typedef struct call_buffer {
    const char *role;
    tf_dtype dtype;
    uint32_t dims;
    expr_int shape[CALL_DIMS_MAX];
    uint64_t bytes;
    uint32_t layer;       /* of an L. buffer */
    uint32_t first, last; /* ordinals of the first and last call that names it */
    uint64_t offset;      /* in the step's memory; x. and L. only */
} call_buffer;

typedef struct tf_calls {
    const tf_plan *plan; /* borrowed */
    call_phase phase;
    uint32_t rows;
    uint32_t layer; /* it was cut to, or UINT32_MAX */
    uint64_t start, context;
    bool logits;
    call *calls;
    uint32_t count, capacity;
    call_buffer *buffers;
    uint32_t buffer_count, buffer_capacity;
    uint64_t step_bytes;  /* peak of x. and L. together */
    uint64_t state_bytes; /* s. and w. of one request */
    tf_text text;         /* call k is text[line[k], line[k + 1]) */
    size_t *line;         /* [count + 1] */
    tf_digest digest;
    struct tf_calls *from[2]; /* prefetch: the lists whose names it borrows; owned */
    tf_arena arena;
} tf_calls;

/* Static storage. */
const char *call_kind_name(call_kind kind);
uint32_t call_kind_arg_count(call_kind kind);
/* Is argument `index` of the kind called so? */
bool call_kind_takes(call_kind kind, uint32_t index, const char *name);
const char *call_phase_name(call_phase phase);
bool call_phase_parse(const char *name, call_phase *out);
/* NULL when the call has no such argument. */
const call_arg *call_find(const call *c, const char *name);
/* Image name of member `index` (first <= index < first + count; any where there is no family) with
 * a part behind it (".trellis" or ""); false when it does not fit. */
bool call_member_image(const call_weight *w, int64_t index, const char *part, char *image,
                       size_t size);
/* Does the role name a buffer (in. out. s. w. x. L.), not a weight? */
bool call_role_is_buffer(const char *role);
const call_buffer *calls_buffer(const tf_calls *calls, const char *role);
void calls_free(tf_calls *calls);

#endif
