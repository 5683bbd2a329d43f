#include "engine/emit/pieces.h"

#include "engine/base/check.h"
#include "engine/pack/engram.h"

/* Decode steps and prefill chunks of the target model (MODEL 3 and 4). */

/* 4: rows of every table, once a forward. */
static call_tensor emit_hash(emitter *e, call_tensor ids) {
    const tf_config *c = e->config;
    uint32_t columns = config_engram_columns(c);
    uint32_t past = c->engram_ngram - 1 + emit_slack(c);
    call_tensor hashes =
        buffer3(e, "x.hashes", DTYPE_I64, e->rows, num(c->engram_count), num(columns));
    int64_t *primes = emit_ints(e, c->engram_count * columns);
    int64_t *multipliers = emit_ints(e, c->engram_count * c->engram_ngram);
    for (uint32_t t = 0; primes != NULL && multipliers != NULL && t < c->engram_count; t++) {
        engram_hasher hasher;
        if (engram_hasher_make(c, t, 0, &hasher, e->err) != TF_OK) return hashes;
        for (uint32_t k = 0; k < columns; k++)
            primes[t * columns + k] = (int64_t)(hasher.begin[k + 1] - hasher.begin[k]);
        for (uint32_t k = 0; k < c->engram_ngram; k++)
            multipliers[t * c->engram_ngram + k] = (int64_t)hasher.multiplier[k];
    }
    begin_call(e, CALL_HASH, "ngram_hashes");
    grid(e, e->rows, num(c->engram_count), num(1));
    put(e, "ids", ids);
    put_where(e);
    put(e, "ring", buffer1(e, "s.ids", DTYPE_I32, num(past)));
    put_int(e, "capacity", num(past));
    put(e, "compress", buffer1(e, "in.token_map", DTYPE_I32, num(c->vocab)));
    put_int(e, "pad", num(c->engram_pad_token));
    put_int(e, "ngram", num(c->engram_ngram));
    put_int(e, "heads", num(c->engram_heads));
    put_ints(e, "primes", primes, c->engram_count * columns, NULL);
    put_ints(e, "multipliers", multipliers, c->engram_count * c->engram_ngram, NULL);
    put(e, "y", hashes);
    end_call(e);
    return hashes;
}

/* Rows of this rank's hash columns: how many depends on the columns' primes. */
static call_tensor table_weight(emitter *e, const char *name) {
    call_tensor t = tensor_weight(e, name);
    t.shape[0].text = "rows(c0,c)";
    return t;
}

/* Where each own column begins in the rank's part of the table, and where the last one ends. */
static void put_column_begins(emitter *e) {
    uint64_t begin[ENGRAM_COLUMNS_MAX + 1];
    canon_range own = e->plan->range[UNIT_ENGRAM_COLUMN];
    uint32_t count = canon_size(own) + 1;
    int64_t *values = emit_ints(e, count);
    uint32_t table = e->config->layer[e->layer].engram;
    bool known = engram_columns(e->config, table, begin, e->err) == TF_OK;
    for (uint32_t k = 0; known && values != NULL && k < count; k++)
        values[k] = (int64_t)(begin[own.begin + k] - begin[own.begin]);
    put_ints(e, "begins", values, count, "begins(c0,c)");
}

static void emit_engram(emitter *e, call_tensor hashes, const stream_set *s) {
    const tf_config *c = e->config;
    uint32_t columns = config_engram_columns(c);
    uint32_t keys = c->hc_mult + 1;
    expr_int dim = num(c->engram_head_dim);
    call_tensor own = buffer3(e, "L.own_rows", DTYPE_F32, e->rows, sym(e, EXPR_COLUMNS), dim);
    begin_call(e, CALL_LOOKUP, "engram_rows");
    grid(e, e->rows, sym(e, EXPR_COLUMNS), num(1));
    put(e, "hashes", hashes);
    put_int(e, "which", num(c->layer[e->layer].engram));
    put_int(e, "first", sym(e, EXPR_FIRST_COLUMN));
    put_int(e, "columns", sym(e, EXPR_COLUMNS));
    put_column_begins(e);
    put(e, "w", table_weight(e, "engram.embed.weight"));
    put(e, "scale", table_weight(e, "engram.embed.scale"));
    put_int(e, "block", num(32));
    put(e, "y", own);
    end_call(e);
    call_tensor rows = buffer3(e, "L.all_rows", DTYPE_F32, e->rows, num(columns), dim);
    begin_call(e, CALL_SHARE_COLUMNS, "engram_rows");
    put_word(e, "site", "engram");
    put(e, "x", own);
    put(e, "y", rows);
    put_begins(e, UNIT_ENGRAM_COLUMN, c->engram_head_dim);
    end_call(e);
    expr_int k = num((int64_t)columns * c->engram_head_dim);
    expr_int n = num((int64_t)keys * c->hidden);
    call_tensor kv = buffer2(e, "L.engram_kv", DTYPE_F32, e->rows, n);
    emit_dot(e, "engram.wkv", reshape2(rows, e->rows, k), linear(e, "engram.wkv", k, n), kv);
    begin_call(e, CALL_ENGRAM, "engram_gate");
    put(e, "streams", s->streams);
    put(e, "kv", kv);
    put(e, "q_weight", tensor_weight(e, "engram.q_weight"));
    put(e, "k_weight", tensor_weight(e, "engram.k_weight"));
    put_real(e, "eps", c->rms_eps);
    put_real(e, "floor", 1e-6);
    end_call(e);
}

/* What enters a draft's target layer, kept by position for the drafts (MODEL 6). */
static void emit_tap(emitter *e, const stream_set *s) {
    const tf_config *c = e->config;
    uint32_t tap = c->layer[e->layer].tap;
    expr_int all = num((int64_t)c->draft_target_count * c->hidden);
    call_tensor mean = buffer2(e, "L.tap", DTYPE_F32, e->rows, num(c->hidden));
    begin_call(e, CALL_TAP, "tap");
    put(e, "streams", s->streams);
    put(e, "y", mean);
    end_call(e);
    call_tensor ring = buffer2(e, "w.taps", DTYPE_F32, num(emit_ring(c)), all);
    emit_store(e, "tap", mean, columns_of(e, ring, num((int64_t)tap * c->hidden), num(c->hidden)),
               1, emit_ring(c));
}

/* 4 of section 3, and the choice.  A prefill chunk needs its last row alone, unless every row's
 * logits are asked for. */
static void emit_head(emitter *e, const stream_set *all) {
    const tf_config *c = e->config;
    stream_set s = *all;
    expr_int rows = e->rows;
    expr_int last = expr_add(&e->scope, e->rows, num(-1));
    bool last_only = e->chunk && !e->logits;
    if (last_only) {
        s.streams = row_of(e, all->streams, last);
        s.pre = row_of(e, all->pre, last);
        rows = num(1);
    }
    call_tensor h = emit_collapse(e, &s, s.pre, "L.final");
    emit_norm(e, "norm", h, "norm.weight", h);
    call_tensor logits = buffer2(e, "L.logits", DTYPE_F32, rows, sym(e, EXPR_VOCAB));
    emit_dot(e, "head", h, linear(e, "head", num(c->hidden), sym(e, EXPR_VOCAB)), logits);
    if (e->logits) emit_whole_logits(e, logits, num(0), rows);
    if (!e->chunk) {
        emit_choice(e, logits, num(1), buffer1(e, "out.tokens", DTYPE_I32, rows));
        return;
    }
    /* One row, launched at the chunk's start: its token stands n positions after that. */
    if (!last_only) logits = row_of(e, logits, last);
    emit_choice(e, logits, e->rows, buffer1(e, "out.tokens", DTYPE_I32, num(1)));
}

void emit_target(emitter *e) {
    const tf_config *c = e->config;
    set_layer(e, CALL_TOP);
    call_tensor ids = buffer1(e, "in.ids", DTYPE_I32, e->rows);
    stream_set s = emit_stream_set(e);
    emit_embed(e, ids, &s);
    call_tensor hashes = {0};
    if (c->engram_count > 0) hashes = emit_hash(e, ids);
    for (uint32_t l = 0; l < c->target_layers && e->err->status == TF_OK; l++) {
        set_layer(e, l);
        if (c->layer[l].engram != CONFIG_NONE) emit_engram(e, hashes, &s);
        if (c->layer[l].tap != CONFIG_NONE && c->draft_layers > 0) emit_tap(e, &s);
        emit_block(e, &s);
    }
    set_layer(e, CALL_TOP);
    emit_head(e, &s);
}
