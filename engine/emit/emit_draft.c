#include "engine/emit/pieces.h"

#include "engine/base/check.h"

/* Drafts: context ingest of n rows, then one block pass (MODEL 6). */

/* For every newly known position: the taps through main_proj into each block's ring. */
static void emit_ingest(emitter *e) {
    const tf_config *c = e->config;
    expr_int all = num((int64_t)c->draft_target_count * c->hidden);
    expr_int hidden = num(c->hidden);
    expr_int dim = num(c->head_dim);
    set_layer(e, c->target_layers);
    call_tensor taps = buffer2(e, "L.taps", DTYPE_F32, e->rows, all);
    begin_call(e, CALL_FETCH, "taps");
    put(e, "x", buffer2(e, "w.taps", DTYPE_F32, num(emit_ring(c)), all));
    put_where(e);
    put_int(e, "capacity", num(emit_ring(c)));
    put(e, "y", taps);
    end_call(e);
    call_tensor mx = buffer2(e, "x.context", DTYPE_F32, e->rows, hidden);
    emit_dot(e, "main_proj", taps, linear(e, "main_proj", all, hidden), mx);
    emit_norm(e, "main_norm", mx, "main_norm.weight", mx);
    for (uint32_t i = 0; i < c->draft_layers; i++) {
        set_layer(e, c->target_layers + i);
        call_tensor kv = buffer2(e, "L.context_kv", DTYPE_F32, e->rows, dim);
        emit_dot(e, "wkv", mx, linear(e, "attn.wkv", hidden, dim), kv);
        emit_norm(e, "kv_norm", kv, "attn.kv_norm.weight", kv);
        emit_rope(e, "kv", kv, num(1), c->head_dim, false, 1);
        emit_store(
            e, "context", kv,
            buffer2(e, state_role(e, 'w', e->layer, "kv"), DTYPE_F32, num(emit_ring(c)), dim), 1,
            emit_ring(c));
    }
}

typedef struct markov_set {
    call_tensor hidden; /* [5, D] before the norm */
    call_tensor base;   /* [5, V of this rank] */
    call_tensor drafts; /* [5] i32 */
    call_tensor confidence;
} markov_set;

/* One of the sequential picks: base + Markov of the token before, best of all ranks. */
static void emit_stage(emitter *e, const markov_set *m, uint32_t j, call_tensor previous) {
    const tf_config *c = e->config;
    expr_int rank = num(c->markov_rank);
    expr_int row = num(j);
    call_tensor embed = buffer2(e, "L.markov", DTYPE_F32, num(1), rank);
    begin_call(e, CALL_EMBED, "markov_embed");
    grid(e, num(1), rank, num(1));
    put(e, "ids", previous);
    put(e, "w", tensor_weight(e, "markov_head.embed.weight"));
    put_int(e, "first", num(0));
    put(e, "y", embed);
    end_call(e);
    begin_call(e, CALL_CONFIDENCE, "confidence");
    grid(e, num(1), num(1), num(1));
    put(e, "hidden", row_of(e, m->hidden, row));
    put(e, "embed", embed);
    put_weight(e, "w",
               linear(e, "confidence_head.proj", num((int64_t)c->hidden + c->markov_rank), num(1)));
    put(e, "y", row_of(e, m->confidence, row));
    end_call(e);
    call_tensor logits = buffer2(e, "L.draft_logits", DTYPE_F32, num(1), sym(e, EXPR_VOCAB));
    /* The head is held whole; a rank computes its own rows of it. */
    call_weight head = linear(e, "markov_head.head", rank, num(c->vocab));
    head.n = sym(e, EXPR_VOCAB);
    head.first_row = sym(e, EXPR_FIRST_VOCAB);
    begin_call(e, CALL_DOT, "markov_head");
    grid(e, num(1), head.n, num(1));
    put(e, "x", embed);
    put_weight(e, "w", head);
    put(e, "add", row_of(e, m->base, row));
    put_int(e, "leaf", rank);
    put_int(e, "first_leaf", num(0));
    put_int(e, "leaves", num(1));
    put_int(e, "all_leaves", num(1));
    put_none(e, "cover");
    put(e, "y", logits);
    end_call(e);
    if (e->logits) emit_whole_logits(e, logits, row, num(c->draft_block));
    emit_choice(e, logits, num(j + 1), row_of(e, m->drafts, row));
}

static void emit_stages(emitter *e, const stream_set *s, call_tensor newest) {
    const tf_config *c = e->config;
    markov_set m;
    uint32_t last = c->layers - 1;
    m.hidden = emit_collapse(e, s, s->pre, "x.hidden");
    set_layer(e, last);
    /* Not L.: the head below is a call of the top. */
    call_tensor h = buffer2(e, "x.final", DTYPE_F32, e->rows, num(c->hidden));
    emit_norm(e, "norm", m.hidden, "norm.weight", h);
    m.base = buffer2(e, "x.base", DTYPE_F32, e->rows, sym(e, EXPR_VOCAB));
    set_layer(e, CALL_TOP);
    emit_dot(e, "head", h, linear(e, "head", num(c->hidden), sym(e, EXPR_VOCAB)), m.base);
    set_layer(e, last);
    m.drafts = buffer1(e, "out.drafts", DTYPE_I32, e->rows);
    m.confidence = buffer1(e, "out.confidence", DTYPE_F32, e->rows);
    for (uint32_t j = 0; j < c->draft_block; j++)
        emit_stage(e, &m, j, j == 0 ? newest : row_of(e, m.drafts, num(j - 1)));
}

void emit_draft(emitter *e) {
    const tf_config *c = e->config;
    emit_ingest(e);
    e->rows = num(c->draft_block);
    /* The block stands at the newest token's position and those after it. */
    e->slots = buffer1(e, "in.slots", DTYPE_I32, num(1));
    e->positions = buffer1(e, "in.block_positions", DTYPE_I64, e->rows);
    set_layer(e, CALL_TOP);
    call_tensor newest = buffer1(e, "in.newest", DTYPE_I32, num(1));
    call_tensor ids = buffer1(e, "x.block_ids", DTYPE_I32, e->rows);
    begin_call(e, CALL_BLOCK_IDS, "block_ids");
    put(e, "newest", newest);
    put_int(e, "noise", num(c->draft_noise_token));
    put(e, "y", ids);
    end_call(e);
    stream_set s = emit_stream_set(e);
    emit_embed(e, ids, &s);
    for (uint32_t i = 0; i < c->draft_layers && e->err->status == TF_OK; i++) {
        set_layer(e, c->target_layers + i);
        emit_block(e, &s);
    }
    emit_stages(e, &s, newest);
}
