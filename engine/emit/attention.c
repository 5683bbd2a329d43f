#include "engine/emit/pieces.h"

/* Attention: compressed rows, index, choice, heads (MODEL 3, Attention). */

/* Rows of compressed state that a request can hold. */
static expr_int row_capacity(emitter *e, uint32_t ratio) {
    return num((int64_t)(e->list->context / ratio));
}

/* 2: what this step's rows add to the long range, before rotation: [n, hd], of closing rows only. */
static call_tensor emit_latent(emitter *e, call_tensor h) {
    const tf_config *c = e->config;
    uint32_t ratio = c->layer[e->layer].ratio;
    expr_int dim = num(c->head_dim);
    call_tensor keys = buffer2(e, "L.ck", DTYPE_F32, e->rows, dim);
    emit_dot(e, "compressor.wkv", h, linear(e, "attn.compressor.wkv", num(c->hidden), dim), keys);
    call_tensor latent = keys;
    if (ratio == 2) {
        call_tensor gates = buffer2(e, "L.cs", DTYPE_F32, e->rows, dim);
        emit_dot(e, "compressor.wgate", h, linear(e, "attn.compressor.wgate", num(c->hidden), dim),
                 gates);
        uint32_t capacity = emit_slack(c) + 1;
        call_tensor ring =
            buffer3(e, state_role(e, 's', e->layer, "pair"), DTYPE_F32, num(capacity), num(2), dim);
        latent = buffer2(e, "L.latent", DTYPE_F32, e->rows, dim);
        begin_call(e, CALL_COMPRESS, "pair");
        grid(e, e->rows, dim, num(1));
        put(e, "keys", keys);
        put(e, "gates", gates);
        put_where(e);
        put(e, "ring", ring);
        put_int(e, "capacity", num(capacity));
        put(e, "y", latent);
        end_call(e);
    }
    return emit_norm(e, "compressor.norm", latent, "attn.compressor.norm.weight", latent);
}

/* 3 first, since it reads the latent before rotation; then the row itself. */
static void emit_long_range(emitter *e, call_tensor h) {
    const tf_config *c = e->config;
    uint32_t ratio = c->layer[e->layer].ratio;
    expr_int capacity = row_capacity(e, ratio);
    expr_int key_dim = num(c->index_head_dim);
    call_tensor latent = emit_latent(e, h);
    call_tensor key = buffer2(e, "L.ik", DTYPE_F32, e->rows, key_dim);
    emit_dot(e, "indexer.wk", latent, linear(e, "attn.indexer.wk", num(c->head_dim), key_dim), key);
    emit_norm(e, "indexer.k_norm", key, "attn.indexer.k_norm.weight", key);
    emit_rope(e, "index_key", key, num(1), c->index_head_dim, false, ratio);
    emit_store(e, "index_key", key,
               buffer2(e, state_role(e, 's', e->layer, "keys"), DTYPE_F32, capacity, key_dim),
               ratio, (uint32_t)capacity.value);
    emit_rope(e, "compressed", latent, num(1), c->head_dim, false, ratio);
    emit_store(
        e, "compressed", latent,
        buffer2(e, state_role(e, 's', e->layer, "rows"), DTYPE_F32, capacity, num(c->head_dim)),
        ratio, (uint32_t)capacity.value);
}

/* The choice of the rows, kept for the layers that reuse it. */
static call_tensor choice_buffer(emitter *e) {
    return buffer2(e, "x.choice", DTYPE_I32, e->rows, num(e->config->index_topk));
}

static call_tensor emit_scores(emitter *e, call_tensor h, call_tensor qr) {
    const tf_config *c = e->config;
    const config_layer *layer = &c->layer[e->layer];
    expr_int heads = num(c->index_heads);
    expr_int dim = num(c->index_head_dim);
    expr_int columns = num((int64_t)c->index_heads * c->index_head_dim);
    expr_int capacity = row_capacity(e, layer->ratio);
    call_tensor q = buffer3(e, "L.iq", DTYPE_F32, e->rows, heads, dim);
    emit_dot(e, "indexer.wq_b", qr, linear(e, "attn.indexer.wq_b", num(c->q_lora), columns),
             reshape2(q, e->rows, columns));
    emit_rope(e, "index_query", q, heads, c->index_head_dim, false, 1);
    call_tensor w = buffer2(e, "L.iw", DTYPE_F32, e->rows, heads);
    emit_dot(e, "indexer.weights_proj", h,
             linear(e, "attn.indexer.weights_proj", num(c->hidden), heads), w);
    call_tensor scores = buffer2(e, "L.scores", DTYPE_F32, e->rows, capacity);
    begin_call(e, CALL_SCORES, "index_scores");
    grid(e, e->rows, capacity, num(1));
    put(e, "q", q);
    put(e, "weights", w);
    /* One factor for both square roots, folded once. */
    put_real(e, "scale", 1.0 / __builtin_sqrt((double)c->index_head_dim * c->index_heads));
    put(e, "keys",
        buffer2(e, state_role(e, 's', layer->kv_source, "keys"), DTYPE_F32, capacity, dim));
    put_int(e, "capacity", capacity);
    put_int(e, "ratio", num(layer->ratio));
    put_where(e);
    put(e, "y", scores);
    end_call(e);
    return scores;
}

/* 4. */
static void emit_index(emitter *e, call_tensor h, call_tensor qr) {
    const tf_config *c = e->config;
    const config_layer *layer = &c->layer[e->layer];
    call_tensor scores = emit_scores(e, h, qr);
    call_tensor candidates = {0};
    if (layer->makes_candidates || layer->uses_candidates) {
        candidates = buffer2(e, "x.candidates", DTYPE_I32, e->rows, num(c->candidate_topk_blocks));
    }
    if (layer->makes_candidates) {
        begin_call(e, CALL_CANDIDATES, "candidates");
        put(e, "scores", scores);
        put_int(e, "ratio", num(layer->ratio));
        put_int(e, "block", num(c->candidate_block));
        put_int(e, "topk", num(c->candidate_topk_blocks));
        put_positions(e);
        put(e, "y", candidates);
        end_call(e);
    }
    begin_call(e, CALL_TOPK, "choice");
    put(e, "scores", scores);
    put(e, "candidates", layer->uses_candidates ? candidates : (call_tensor){0});
    put_int(e, "block", num(c->candidate_block));
    put_int(e, "ratio", num(layer->ratio));
    put_int(e, "topk", num(c->index_topk));
    put_positions(e);
    put(e, "y", choice_buffer(e));
    end_call(e);
}

/* 5.  A ring row is stored after the heads have read it: rows of this step come from `kv`.  A draft
 * block's rows see its context ring and all rows of the block, and leave the ring as it is (MODEL 6). */
static call_tensor emit_heads(emitter *e, const query_set *q) {
    const tf_config *c = e->config;
    const config_layer *layer = &c->layer[e->layer];
    bool draft = layer->kind == LAYER_DRAFT;
    expr_int dim = num(c->head_dim);
    call_tensor ring =
        buffer2(e, state_role(e, 'w', e->layer, "kv"), DTYPE_F32, num(emit_ring(c)), dim);
    call_tensor o = buffer3(e, "L.o", DTYPE_F32, e->rows, sym(e, EXPR_HEADS), dim);
    begin_call(e, CALL_ATTEND, "attend");
    grid(e, e->rows, sym(e, EXPR_HEADS), num(1));
    put(e, "q", q->q);
    put(e, "kv", q->kv);
    put(e, "sink", split_weight(e, "attn.attn_sink", sym(e, EXPR_HEADS)));
    put_real(e, "scale", 1.0 / __builtin_sqrt((double)c->head_dim));
    put_int(e, "window", num(c->window));
    put(e, "ring", ring);
    put_int(e, "capacity", num(emit_ring(c)));
    if (layer->ratio > 0) {
        expr_int capacity = row_capacity(e, layer->ratio);
        put(e, "rows",
            buffer2(e, state_role(e, 's', layer->kv_source, "rows"), DTYPE_F32, capacity, dim));
        put_int(e, "rows_capacity", capacity);
        put(e, "choice", choice_buffer(e));
    } else {
        put_none(e, "rows");
        put_none(e, "rows_capacity");
        put_none(e, "choice");
    }
    put_bool(e, "causal", !draft);
    put_where(e);
    put(e, "y", o);
    end_call(e);
    if (!draft) emit_store(e, "window", q->kv, ring, 1, emit_ring(c));
    return o;
}

call_tensor emit_attend(emitter *e, call_tensor h) {
    const config_layer *layer = &e->config->layer[e->layer];
    query_set q = emit_queries(e, h);
    if (layer->owns_kv) emit_long_range(e, h);
    if (layer->owns_index) emit_index(e, h, q.qr);
    return emit_heads_out(e, emit_heads(e, &q));
}
