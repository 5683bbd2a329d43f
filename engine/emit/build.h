/* emit/build - the hand that writes a call list: buffers, weights and arguments, one after another.
 *
 * Idea: begin_call, put_* in the order of kinds.def, end_call; a wrong name or order is an
 * assertion, lost memory is remembered and asked for once at the end.
 * Trap: a weight's sizes are checked against the plan here, where both are at hand. */
#ifndef TF_ENGINE_EMIT_BUILD_H
#define TF_ENGINE_EMIT_BUILD_H

#include "engine/emit/call.h"

typedef struct emitter {
    tf_calls *list;
    const tf_plan *plan;
    const tf_config *config;
    tf_error *err; /* the first failure; emission goes on into the void after it */
    expr_scope scope;
    uint32_t layer;       /* of the calls being written */
    char prefix[32];      /* of its weights: "layers.2", "mtp.0"; "" at the top */
    bool chunk;           /* rows are one request's, from `start` on */
    bool logits;          /* the request's */
    uint32_t layer_begin; /* its first buffer */
    uint32_t *lasting;    /* indexes of the buffers that outlive a layer */
    uint32_t lasting_count, lasting_capacity;
    call *open;        /* between begin_call and end_call */
    expr_int rows;     /* of the calls being written: n, or a block's */
    call_tensor slots; /* whose state a row touches */
    call_tensor positions;
} emitter;

/* Calls from here on belong to this layer; prefix of its weights: "layers.2", "mtp.0" or "". */
void set_layer(emitter *e, uint32_t layer);

/* ---- numbers ---- */
static inline expr_int num(int64_t value) {
    return expr_const(value);
}
expr_int sym(emitter *e, expr_symbol symbol);
expr_int times(emitter *e, expr_symbol symbol, int64_t factor);
expr_int mul(emitter *e, expr_int a, expr_int b);

/* ---- buffers: `role` is static or the list's; declared again with a new layer it is a new one ---- */
call_tensor buffer1(emitter *e, const char *role, tf_dtype dtype, expr_int a);
call_tensor buffer2(emitter *e, const char *role, tf_dtype dtype, expr_int a, expr_int b);
call_tensor buffer3(emitter *e, const char *role, tf_dtype dtype, expr_int a, expr_int b,
                    expr_int c);
call_tensor buffer4(emitter *e, const char *role, tf_dtype dtype, expr_int a, expr_int b,
                    expr_int c, expr_int d);
/* "s.L2.rows" */
const char *state_role(emitter *e, char prefix, uint32_t layer, const char *what);
/* Another shape of the same elements. */
call_tensor reshape2(call_tensor t, expr_int a, expr_int b);
call_tensor reshape3(call_tensor t, expr_int a, expr_int b, expr_int c);
/* Row `index` of the first axis, kept as one row. */
call_tensor row_of(emitter *e, call_tensor t, expr_int index);
/* Rows [0, count) of the last axis' columns from `first` on: a strided view. */
call_tensor columns_of(emitter *e, call_tensor t, expr_int first, expr_int count);

/* ---- weights, by the name within the layer ---- */
call_tensor tensor_weight(emitter *e, const char *name);
/* The same, its first axis this rank's share. */
call_tensor split_weight(emitter *e, const char *name, expr_int rows);
call_weight linear(emitter *e, const char *name, expr_int k, expr_int n);
/* Members name with `{e}` for 0..count-1, or `{g}` for this rank's groups. */
call_weight expert_family(emitter *e, const char *name, expr_int k, expr_int n, uint32_t count);
call_weight group_family(emitter *e, const char *name, expr_int k, expr_int n);

/* ---- calls ---- */
void begin_call(emitter *e, call_kind kind, const char *name);
void grid(emitter *e, expr_int rows, expr_int units, expr_int leaves);
void put(emitter *e, const char *name, call_tensor tensor);
void put_weight(emitter *e, const char *name, call_weight weight);
void put_int(emitter *e, const char *name, expr_int value);
void put_real(emitter *e, const char *name, double value);
void put_bool(emitter *e, const char *name, bool value);
void put_word(emitter *e, const char *name, const char *word);
void put_none(emitter *e, const char *name);
/* values: list owns (emit_ints).  text NULL when constant. */
void put_ints(emitter *e, const char *name, const int64_t *values, uint32_t count,
              const char *text);
int64_t *emit_ints(emitter *e, uint32_t count);
/* The arguments that every stateful kind ends or begins with. */
void put_slots(emitter *e);
void put_positions(emitter *e);
void put_where(emitter *e); /* slots, positions and start */
void end_call(emitter *e);

/* ---- splits ---- */
/* This rank's intervals of a unit's canonical tree, begin and end by turns. */
void put_cover(emitter *e, const char *name, plan_unit unit);
/* Those of all ranks, ascending, and the rank that owns each. */
void put_all_covers(emitter *e, plan_unit unit, bool owners);
uint32_t cover_count(emitter *e, plan_unit unit);
uint32_t all_cover_count(emitter *e, plan_unit unit);
/* Where each rank's columns begin, world + 1 numbers, `scale` a unit. */
void put_begins(emitter *e, plan_unit unit, int64_t scale);

void emit_fail(emitter *e, tf_word word, const char *what);

#endif
