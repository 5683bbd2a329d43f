/* emit/pieces - the parts of a forward that phases are put together from.
 *
 * Idea: each function is one paragraph of MODEL 3 to 6 as calls, written once for all phases; the
 * emitter says whose rows they are.
 * Used by: emit_target, emit_draft.  Nobody else includes it. */
#ifndef TF_ENGINE_EMIT_PIECES_H
#define TF_ENGINE_EMIT_PIECES_H

#include "engine/emit/build.h"

/* Rows that a ring must hold beyond its window, so that a rejected draft can be undone. */
static inline uint32_t emit_slack(const tf_config *c) {
    return c->draft_block + 1;
}
static inline uint32_t emit_ring(const tf_config *c) {
    return c->window + emit_slack(c);
}

/* The buffers that a forward's pieces hand to each other. */
typedef struct stream_set {
    call_tensor streams; /* [n, 4, D] */
    call_tensor pre;     /* [n, 4]: of the sublayer before */
} stream_set;
stream_set emit_stream_set(emitter *e);

/* Top: ids to streams (MODEL 3.1). */
void emit_embed(emitter *e, call_tensor ids, const stream_set *s);
/* A block's two sublayers, of a target or a draft layer. */
void emit_block(emitter *e, const stream_set *s);
/* Attention's output [n, D] for its normed input [n, D]. */
call_tensor emit_attend(emitter *e, call_tensor h);
/* q and this step's keys; then everything from the heads' output on. */
typedef struct query_set {
    call_tensor qr; /* [n, q_lora] */
    call_tensor q;  /* [n, H, hd], rotated */
    call_tensor kv; /* [n, hd], rotated */
} query_set;
query_set emit_queries(emitter *e, call_tensor h);
call_tensor emit_heads_out(emitter *e, call_tensor o);
call_tensor emit_experts(emitter *e, call_tensor h);

/* Small ones. */
call_tensor emit_norm(emitter *e, const char *name, call_tensor x, const char *weight,
                      call_tensor y);
void emit_dot(emitter *e, const char *name, call_tensor x, call_weight w, call_tensor y);
void emit_rope(emitter *e, const char *name, call_tensor x, expr_int heads, uint32_t dim,
               bool inverse, uint32_t floor);
void emit_store(emitter *e, const char *name, call_tensor x, call_tensor y, uint32_t ratio,
                uint32_t capacity);
/* Joins partials of all ranks: share_partials and reduce. */
call_tensor emit_sum(emitter *e, const char *name, call_tensor part, plan_unit unit,
                     const char *role);
/* h = collapse of the streams by `pre`. */
call_tensor emit_collapse(emitter *e, const stream_set *s, call_tensor pre, const char *role);
/* Best of the vocabulary by the sampler: best, share_best, pick; y [rows] i32.  The token chosen at a
 * row stands `ahead` positions after the position that the call gives the row. */
void emit_choice(emitter *e, call_tensor logits, expr_int ahead, call_tensor y);
/* The own columns of `logits` to the rows of out.logits from `first` on, on every rank. */
void emit_whole_logits(emitter *e, call_tensor logits, expr_int first, expr_int rows);

/* Whole phases. */
void emit_target(emitter *e);
void emit_draft(emitter *e);
void emit_prefetch(emitter *e, const tf_calls *target, const tf_calls *draft);

#endif
