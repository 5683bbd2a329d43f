#include "engine/emit/pieces.h"

#include "engine/base/check.h"

/* ---- small ones ---- */

call_tensor emit_norm(emitter *e, const char *name, call_tensor x, const char *weight,
                      call_tensor y) {
    begin_call(e, CALL_NORM, name);
    grid(e, x.shape[0], num(1), num(1));
    put(e, "x", x);
    put(e, "w", tensor_weight(e, weight));
    put_real(e, "eps", e->config->rms_eps);
    put(e, "y", y);
    end_call(e);
    return y;
}

void emit_dot(emitter *e, const char *name, call_tensor x, call_weight w, call_tensor y) {
    begin_call(e, CALL_DOT, name);
    expr_int units = w.count.value == 0 ? w.n : mul(e, w.count, w.n);
    grid(e, x.shape[0], units, num(1));
    put(e, "x", x);
    put_weight(e, "w", w);
    put_none(e, "add");
    put_int(e, "leaf", w.k);
    put_int(e, "first_leaf", num(0));
    put_int(e, "leaves", num(1));
    put_int(e, "all_leaves", num(1));
    put_none(e, "cover");
    put(e, "y", y);
    end_call(e);
}

void emit_rope(emitter *e, const char *name, call_tensor x, expr_int heads, uint32_t dim,
               bool inverse, uint32_t floor) {
    const tf_config *c = e->config;
    bool yarn = e->layer != CALL_TOP && c->layer[e->layer].ratio > 0;
    begin_call(e, CALL_ROPE, name);
    grid(e, e->rows, heads, num(1));
    put(e, "x", x);
    put_int(e, "heads", heads);
    put_int(e, "dim", num(dim));
    put_int(e, "rope", num(c->rope_dim));
    put_word(e, "table", yarn ? "yarn" : "plain");
    put_real(e, "theta", yarn ? c->compress_rope_theta : c->rope_theta);
    put_real(e, "factor", yarn ? c->yarn_factor : 1.0);
    put_real(e, "beta_fast", c->yarn_beta_fast);
    put_real(e, "beta_slow", c->yarn_beta_slow);
    put_real(e, "original", c->yarn_original);
    put_bool(e, "inverse", inverse);
    put_int(e, "floor", num(floor));
    put_positions(e);
    end_call(e);
}

void emit_store(emitter *e, const char *name, call_tensor x, call_tensor y, uint32_t ratio,
                uint32_t capacity) {
    begin_call(e, CALL_STORE, name);
    put(e, "x", x);
    put_where(e);
    put_int(e, "ratio", num(ratio));
    put(e, "y", y);
    put_int(e, "capacity", num(capacity));
    end_call(e);
}

call_tensor emit_sum(emitter *e, const char *name, call_tensor part, plan_unit unit,
                     const char *role) {
    expr_int hidden = num(e->config->hidden);
    expr_int intervals = {all_cover_count(e, unit), "covers(W)"};
    call_tensor parts = buffer3(e, "L.parts", DTYPE_F32, intervals, e->rows, hidden);
    begin_call(e, CALL_SHARE_PARTIALS, name);
    put_word(e, "site", name);
    put(e, "x", part);
    put(e, "y", parts);
    put_all_covers(e, unit, true);
    end_call(e);
    call_tensor sum = buffer2(e, role, DTYPE_F32, e->rows, hidden);
    begin_call(e, CALL_REDUCE, name);
    grid(e, e->rows, hidden, intervals);
    put(e, "x", parts);
    put_all_covers(e, unit, false);
    put_int(e, "leaves", num(e->plan->units[unit]));
    put(e, "y", sum);
    end_call(e);
    return sum;
}

call_tensor emit_collapse(emitter *e, const stream_set *s, call_tensor pre, const char *role) {
    call_tensor h = buffer2(e, role, DTYPE_F32, s->streams.shape[0], num(e->config->hidden));
    begin_call(e, CALL_COLLAPSE, "collapse");
    grid(e, s->streams.shape[0], num(e->config->hidden), num(1));
    put(e, "streams", s->streams);
    put(e, "pre", pre);
    put(e, "y", h);
    end_call(e);
    return h;
}

void emit_choice(emitter *e, call_tensor logits, expr_int ahead, call_tensor y) {
    expr_int rows = logits.shape[0];
    call_tensor best = buffer2(e, "L.best", DTYPE_F32, rows, num(2));
    call_tensor bests = buffer3(e, "L.bests", DTYPE_F32, sym(e, EXPR_WORLD), rows, num(2));
    begin_call(e, CALL_BEST, "choose");
    grid(e, rows, sym(e, EXPR_VOCAB), num(1));
    put(e, "logits", logits);
    put_int(e, "first", sym(e, EXPR_FIRST_VOCAB));
    put(e, "temperature", buffer1(e, "in.temperature", DTYPE_F64, e->slots.shape[0]));
    put(e, "seed", buffer1(e, "in.seed", DTYPE_I64, e->slots.shape[0]));
    put_where(e);
    put_int(e, "ahead", ahead);
    put(e, "y", best);
    end_call(e);
    begin_call(e, CALL_SHARE_BEST, "choose");
    grid(e, rows, num(1), num(1));
    put_word(e, "site", "choose");
    put(e, "x", best);
    put(e, "y", bests);
    end_call(e);
    begin_call(e, CALL_PICK, "choose");
    grid(e, rows, num(1), num(1));
    put(e, "x", bests);
    put(e, "y", y);
    end_call(e);
}

void emit_whole_logits(emitter *e, call_tensor logits, expr_int first, expr_int rows) {
    expr_int vocab = num(e->config->vocab);
    call_tensor all = buffer2(e, "out.logits", DTYPE_F32, rows, vocab);
    if (logits.shape[0].value != rows.value) all = row_of(e, all, first);
    begin_call(e, CALL_SHARE_COLUMNS, "logits");
    grid(e, logits.shape[0], vocab, num(1));
    put_word(e, "site", "logits");
    put(e, "x", logits);
    put(e, "y", all);
    put_begins(e, UNIT_VOCAB_BLOCK, 128);
    end_call(e);
}

/* ---- streams ---- */

stream_set emit_stream_set(emitter *e) {
    const tf_config *c = e->config;
    return (stream_set){
        .streams = buffer3(e, "x.streams", DTYPE_F32, e->rows, num(c->hc_mult), num(c->hidden)),
        .pre = buffer2(e, "x.pre", DTYPE_F32, e->rows, num(c->hc_mult)),
    };
}

void emit_embed(emitter *e, call_tensor ids, const stream_set *s) {
    const tf_config *c = e->config;
    expr_int hidden = num(c->hidden);
    call_tensor own = buffer2(e, "L.own", DTYPE_F32, e->rows, hidden);
    call_tensor all = buffer2(e, "L.embed", DTYPE_F32, e->rows, hidden);
    begin_call(e, CALL_EMBED, "embed");
    grid(e, e->rows, hidden, num(1));
    put(e, "ids", ids);
    put(e, "w", split_weight(e, "embed.weight", sym(e, EXPR_VOCAB)));
    put_int(e, "first", sym(e, EXPR_FIRST_VOCAB));
    put(e, "y", own);
    end_call(e);
    begin_call(e, CALL_SHARE_ROWS, "embed");
    put_word(e, "site", "embed");
    put(e, "ids", ids);
    put(e, "x", own);
    put(e, "y", all);
    put_begins(e, UNIT_VOCAB_BLOCK, 128);
    end_call(e);
    begin_call(e, CALL_COPIES, "streams");
    put(e, "x", all);
    put(e, "streams", s->streams);
    put(e, "pre", s->pre);
    end_call(e);
}

typedef struct mix_set {
    call_tensor post; /* [n, 4] */
    call_tensor comb; /* [n, 4, 4] */
} mix_set;

/* fn, base and scale are the three weights of one sublayer. */
static mix_set emit_mix(emitter *e, const char *name, const stream_set *s, call_tensor pre,
                        const char *const weights[3]) {
    const tf_config *c = e->config;
    expr_int streams = num(c->hc_mult);
    mix_set m = {
        .post = buffer2(e, "L.post", DTYPE_F32, e->rows, streams),
        .comb = buffer3(e, "L.comb", DTYPE_F32, e->rows, streams, streams),
    };
    begin_call(e, CALL_MIX, name);
    put(e, "streams", s->streams);
    put(e, "fn", tensor_weight(e, weights[0]));
    put(e, "base", tensor_weight(e, weights[1]));
    put(e, "scale", tensor_weight(e, weights[2]));
    put_real(e, "rms_eps", c->rms_eps);
    put_real(e, "hc_eps", c->hc_eps);
    put_int(e, "iterations", num(c->hc_iters));
    put(e, "pre", pre);
    put(e, "post", m.post);
    put(e, "comb", m.comb);
    end_call(e);
    return m;
}

static void emit_post(emitter *e, const char *name, call_tensor x, const mix_set *m,
                      const stream_set *s) {
    begin_call(e, CALL_POST, name);
    grid(e, e->rows, num(e->config->hidden), num(1));
    put(e, "x", x);
    put(e, "post", m->post);
    put(e, "comb", m->comb);
    put(e, "streams", s->streams);
    end_call(e);
}

/* Each collapse takes the pre of the sublayer BEFORE (MODEL 3.3): attention the last block's,
 * which x.pre still holds, the experts attention's. */
void emit_block(emitter *e, const stream_set *s) {
    static const char *const attn[3] = {"hc_attn_fn", "hc_attn_base", "hc_attn_scale"};
    static const char *const ffn[3] = {"hc_ffn_fn", "hc_ffn_base", "hc_ffn_scale"};
    call_tensor h = emit_collapse(e, s, s->pre, "L.h");
    emit_norm(e, "attn_norm", h, "attn_norm.weight", h);
    call_tensor pre = buffer2(e, "L.pre", DTYPE_F32, e->rows, num(e->config->hc_mult));
    mix_set m = emit_mix(e, "mix_attn", s, pre, attn);
    emit_post(e, "post_attn", emit_attend(e, h), &m, s);

    h = emit_collapse(e, s, pre, "L.h");
    emit_norm(e, "ffn_norm", h, "ffn_norm.weight", h);
    m = emit_mix(e, "mix_ffn", s, s->pre, ffn);
    emit_post(e, "post_ffn", emit_experts(e, h), &m, s);
}

/* ---- attention, before and after the heads ---- */

query_set emit_queries(emitter *e, call_tensor h) {
    const tf_config *c = e->config;
    expr_int lora = num(c->q_lora);
    expr_int dim = num(c->head_dim);
    query_set out;
    out.qr = buffer2(e, "L.qr", DTYPE_F32, e->rows, lora);
    emit_dot(e, "wq_a", h, linear(e, "attn.wq_a", num(c->hidden), lora), out.qr);
    emit_norm(e, "q_norm", out.qr, "attn.q_norm.weight", out.qr);
    out.q = buffer3(e, "L.q", DTYPE_F32, e->rows, sym(e, EXPR_HEADS), dim);
    expr_int columns = times(e, EXPR_HEADS, c->head_dim);
    emit_dot(e, "wq_b", out.qr, linear(e, "attn.wq_b", lora, columns),
             reshape2(out.q, e->rows, columns));
    emit_rope(e, "q", out.q, sym(e, EXPR_HEADS), c->head_dim, false, 1);
    out.kv = buffer2(e, "L.kv", DTYPE_F32, e->rows, dim);
    emit_dot(e, "wkv", h, linear(e, "attn.wkv", num(c->hidden), dim), out.kv);
    emit_norm(e, "kv_norm", out.kv, "attn.kv_norm.weight", out.kv);
    emit_rope(e, "kv", out.kv, num(1), c->head_dim, false, 1);
    return out;
}

call_tensor emit_heads_out(emitter *e, call_tensor o) {
    const tf_config *c = e->config;
    uint32_t group_in = c->heads / c->groups * c->head_dim;
    expr_int groups = sym(e, EXPR_GROUPS);
    expr_int rank_in = times(e, EXPR_GROUPS, c->o_lora);
    emit_rope(e, "o", o, sym(e, EXPR_HEADS), c->head_dim, true, 1);
    call_tensor z = buffer3(e, "L.z", DTYPE_F32, e->rows, groups, num(c->o_lora));
    emit_dot(e, "wo_a", reshape3(o, e->rows, groups, num(group_in)),
             group_family(e, "attn.wo_a.slice.{g}", num(group_in), num(c->o_lora)), z);
    expr_int intervals = {cover_count(e, UNIT_GROUP), "cover(g0,g)"};
    call_tensor part = buffer3(e, "L.part", DTYPE_F32, intervals, e->rows, num(c->hidden));
    begin_call(e, CALL_DOT, "wo_b");
    grid(e, e->rows, num(c->hidden), groups);
    put(e, "x", reshape2(z, e->rows, rank_in));
    put_weight(e, "w", linear(e, "attn.wo_b", rank_in, num(c->hidden)));
    put_none(e, "add");
    put_int(e, "leaf", num(c->o_lora));
    put_int(e, "first_leaf", sym(e, EXPR_FIRST_GROUP));
    put_int(e, "leaves", groups);
    put_int(e, "all_leaves", num(c->groups));
    put_cover(e, "cover", UNIT_GROUP);
    put(e, "y", part);
    end_call(e);
    return emit_sum(e, "attn", part, UNIT_GROUP, "L.out");
}

/* ---- experts ---- */

static call_tensor emit_route(emitter *e, call_tensor h, call_tensor ids) {
    const config_layer *layer = &e->config->layer[e->layer];
    call_tensor weights = buffer2(e, "L.weights", DTYPE_F32, e->rows, num(layer->experts_per_tok));
    begin_call(e, CALL_ROUTE, "route");
    grid(e, e->rows, num(layer->routed_experts), num(1));
    put(e, "x", h);
    put(e, "w", tensor_weight(e, "ffn.gate.weight"));
    put(e, "bias", tensor_weight(e, "ffn.gate.bias"));
    put_int(e, "topk", num(layer->experts_per_tok));
    put_real(e, "eps", 1e-20);
    put_real(e, "scale", e->config->routed_scale);
    put(e, "ids", ids);
    put(e, "weights", weights);
    end_call(e);
    return weights;
}

call_tensor emit_experts(emitter *e, call_tensor h) {
    const tf_config *c = e->config;
    const config_layer *layer = &c->layer[e->layer];
    uint32_t count = layer->routed_experts;
    uint32_t per_row = layer->experts_per_tok + c->shared_experts;
    expr_int hidden = num(c->hidden);
    expr_int width = sym(e, EXPR_WIDTH);
    call_tensor ids = buffer2(e, "L.ids", DTYPE_I32, e->rows, num(layer->experts_per_tok));
    call_tensor weights = emit_route(e, h, ids);
    call_tensor up = buffer3(e, "L.up", DTYPE_F32, e->rows, num(per_row), width);
    begin_call(e, CALL_EXPERTS_UP, "experts_up");
    grid(e, e->rows, width, num(per_row));
    put(e, "x", h);
    put(e, "ids", ids);
    put_weight(e, "w1", expert_family(e, "ffn.experts.{e}.w1", hidden, width, count));
    put_weight(e, "w3", expert_family(e, "ffn.experts.{e}.w3", hidden, width, count));
    put_weight(e, "shared_w1", linear(e, "ffn.shared_experts.w1", hidden, width));
    put_weight(e, "shared_w3", linear(e, "ffn.shared_experts.w3", hidden, width));
    put_real(e, "limit", c->swiglu_limit);
    put(e, "y", up);
    end_call(e);
    expr_int intervals = {cover_count(e, UNIT_EXPERT_BLOCK), "cover(b0,b)"};
    call_tensor part = buffer3(e, "L.part_ffn", DTYPE_F32, intervals, e->rows, hidden);
    begin_call(e, CALL_EXPERTS_DOWN, "experts_down");
    grid(e, e->rows, hidden, sym(e, EXPR_BLOCKS));
    put(e, "x", up);
    put(e, "ids", ids);
    put(e, "weights", weights);
    put_weight(e, "w2", expert_family(e, "ffn.experts.{e}.w2", width, hidden, count));
    put_weight(e, "shared_w2", linear(e, "ffn.shared_experts.w2", width, hidden));
    put_int(e, "leaf", num(128));
    put_int(e, "first_leaf", sym(e, EXPR_FIRST_BLOCK));
    put_int(e, "leaves", sym(e, EXPR_BLOCKS));
    put_int(e, "all_leaves", num(e->plan->units[UNIT_EXPERT_BLOCK]));
    put_cover(e, "cover", UNIT_EXPERT_BLOCK);
    put(e, "y", part);
    end_call(e);
    return emit_sum(e, "ffn", part, UNIT_EXPERT_BLOCK, "L.out");
}
