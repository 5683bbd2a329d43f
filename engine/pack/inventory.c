#include "engine/pack/inventory.h"

#include "engine/base/check.h"

#include <stdio.h>

/* Walks the model twice: once to count, once to fill. */
typedef struct lister {
    const tf_config *config;
    inventory_bits bits;
    tf_arena *arena;
    inventory_tensor *tensors; /* NULL while counting */
    size_t count;
    bool broken; /* a name did not fit into memory */
    /* Where the walk is. */
    char prefix[32]; /* "layers.3.", "mtp.0.", "" */
    bool draft;
    uint32_t number; /* of the layer, as its name says it */
    uint32_t layer;
} lister;

/* Adds <prefix><name><suffix>. */
static void add(lister *l, const char *name, const char *suffix, inventory_tensor tensor) {
    size_t index = l->count++;
    if (l->tensors == NULL) return;
    tensor.name = arena_print(l->arena, "%s%s%s", l->prefix, name, suffix);
    if (tensor.name == NULL) l->broken = true;
    tensor.layer = l->layer;
    tensor.bytes = dtype_bytes(tensor.dtype);
    for (uint32_t i = 0; i < tensor.dims; i++) {
        tensor.bytes *= tensor.shape[i];
    }
    l->tensors[index] = tensor;
}

static void vector(lister *l, const char *name, inventory_role role, tf_dtype dtype, uint64_t n) {
    add(l, name, "",
        (inventory_tensor){
            .role = role, .linear = LINEAR_COUNT, .dtype = dtype, .dims = 1, .shape = {n}});
}

static void matrix(lister *l, const char *name, inventory_role role, tf_dtype dtype, uint64_t rows,
                   uint64_t columns) {
    add(l, name, "",
        (inventory_tensor){.role = role,
                           .linear = LINEAR_COUNT,
                           .dtype = dtype,
                           .dims = 2,
                           .shape = {rows, columns},
                           .fan_in = columns});
}

static void norm(lister *l, const char *name, uint64_t n) {
    vector(l, name, ROLE_NORM, DTYPE_BF16, n);
}

static void linear(lister *l, const char *name, inventory_linear kind, uint32_t part, uint64_t k,
                   uint64_t n) {
    inventory_tensor t = {.linear = kind, .fan_in = k};
    if (l->bits == NULL) {
        t.role = ROLE_PLAIN;
        t.dtype = DTYPE_BF16;
        t.dims = 2;
        t.shape[0] = n;
        t.shape[1] = k;
        add(l, name, ".weight", t);
        return;
    }
    t.role = ROLE_TRELLIS;
    t.dtype = DTYPE_I16;
    t.dims = 3;
    t.shape[0] = k / 16;
    t.shape[1] = n / 16;
    t.shape[2] = 16ull * l->bits(kind, l->draft, l->number, part);
    add(l, name, ".trellis", t);
    t.dtype = DTYPE_F16;
    t.dims = 1;
    t.role = ROLE_SUH;
    t.shape[0] = k;
    add(l, name, ".suh", t);
    t.role = ROLE_SVH;
    t.shape[0] = n;
    add(l, name, ".svh", t);
    t.role = ROLE_MARKER;
    t.dtype = DTYPE_I32;
    t.dims = 0;
    add(l, name, ".mul1", t);
}

/* What every block has, of target and draft alike. */
static void attention(lister *l) {
    const tf_config *c = l->config;
    uint64_t heads_width = (uint64_t)c->heads * c->head_dim;
    linear(l, "attn.wq_a", LINEAR_WQ_A, 0, c->hidden, c->q_lora);
    linear(l, "attn.wkv", LINEAR_WKV, 0, c->hidden, c->head_dim);
    linear(l, "attn.wq_b", LINEAR_WQ_B, 0, c->q_lora, heads_width);
    for (uint32_t g = 0; g < c->groups; g++) {
        char name[48];
        snprintf(name, sizeof name, "attn.wo_a.slice.%u", g);
        linear(l, name, LINEAR_WO_A, g, heads_width / c->groups, c->o_lora);
    }
    linear(l, "attn.wo_b", LINEAR_WO_B, 0, (uint64_t)c->groups * c->o_lora, c->hidden);
    norm(l, "attn.q_norm.weight", c->q_lora);
    norm(l, "attn.kv_norm.weight", c->head_dim);
    norm(l, "attn_norm.weight", c->hidden);
    norm(l, "ffn_norm.weight", c->hidden);
    vector(l, "attn.attn_sink", ROLE_SINK, DTYPE_F32, c->heads);
}

static void streams(lister *l, const char *sublayer) {
    const uint64_t m = l->config->hc_mult;
    const uint64_t mixes = 2 * m + m * m; /* pre, post, comb */
    char name[32];
    snprintf(name, sizeof name, "hc_%s_fn", sublayer);
    matrix(l, name, ROLE_HC_FN, DTYPE_F32, mixes, m * l->config->hidden);
    snprintf(name, sizeof name, "hc_%s_base", sublayer);
    vector(l, name, ROLE_HC_BASE, DTYPE_F32, mixes);
    snprintf(name, sizeof name, "hc_%s_scale", sublayer);
    vector(l, name, ROLE_HC_SCALE, DTYPE_F32, 3);
}

static void long_range(lister *l, const config_layer *layer) {
    const tf_config *c = l->config;
    if (layer->owns_kv) {
        linear(l, "attn.compressor.wkv", LINEAR_COMPRESSOR_WKV, 0, c->hidden, c->head_dim);
        if (layer->ratio == 2) {
            linear(l, "attn.compressor.wgate", LINEAR_COMPRESSOR_WGATE, 0, c->hidden, c->head_dim);
        }
        norm(l, "attn.compressor.norm.weight", c->head_dim);
        linear(l, "attn.indexer.wk", LINEAR_INDEXER_WK, 0, c->head_dim, c->index_head_dim);
        norm(l, "attn.indexer.k_norm.weight", c->index_head_dim);
    }
    if (layer->owns_index) {
        linear(l, "attn.indexer.wq_b", LINEAR_INDEXER_WQ_B, 0, c->q_lora,
               (uint64_t)c->index_heads * c->index_head_dim);
        matrix(l, "attn.indexer.weights_proj.weight", ROLE_CHOOSER, DTYPE_F16, c->index_heads,
               c->hidden);
    }
}

static void feed_forward(lister *l, const config_layer *layer) {
    const tf_config *c = l->config;
    const uint64_t d = c->hidden;
    const uint64_t width = c->expert_width;
    matrix(l, "ffn.gate.weight", ROLE_CHOOSER, DTYPE_F16, layer->routed_experts, d);
    vector(l, "ffn.gate.bias", ROLE_GATE_BIAS, DTYPE_F16, layer->routed_experts);
    for (uint32_t e = 0; e < layer->routed_experts; e++) {
        char name[48];
        snprintf(name, sizeof name, "ffn.experts.%u.w1", e);
        linear(l, name, LINEAR_EXPERT_W1, e, d, width);
        snprintf(name, sizeof name, "ffn.experts.%u.w2", e);
        linear(l, name, LINEAR_EXPERT_W2, e, width, d);
        snprintf(name, sizeof name, "ffn.experts.%u.w3", e);
        linear(l, name, LINEAR_EXPERT_W3, e, d, width);
    }
    linear(l, "ffn.shared_experts.w1", LINEAR_SHARED_W1, 0, d, width);
    linear(l, "ffn.shared_experts.w2", LINEAR_SHARED_W2, 0, width, d);
    linear(l, "ffn.shared_experts.w3", LINEAR_SHARED_W3, 0, d, width);
}

static void engram(lister *l, uint32_t index) {
    const tf_config *c = l->config;
    uint64_t rows = c->engram_rows[index];
    uint64_t columns = config_engram_columns(c);
    linear(l, "engram.wkv", LINEAR_ENGRAM_WKV, 0, columns * c->engram_head_dim,
           (uint64_t)(c->hc_mult + 1) * c->hidden);
    matrix(l, "engram.q_weight", ROLE_ENGRAM_WEIGHT, DTYPE_F32, c->hc_mult, c->hidden);
    matrix(l, "engram.k_weight", ROLE_ENGRAM_WEIGHT, DTYPE_F32, c->hc_mult, c->hidden);
    matrix(l, "engram.embed.weight", ROLE_ENGRAM_TABLE, DTYPE_F8_E4M3, rows, c->engram_head_dim);
    matrix(l, "engram.embed.scale", ROLE_ENGRAM_SCALE, DTYPE_F8_E8M0, rows,
           c->engram_head_dim / 32);
}

/* What only the first and the last draft block have. */
static void draft_ends(lister *l) {
    const tf_config *c = l->config;
    const uint64_t d = c->hidden;
    if (l->number == 0) {
        linear(l, "main_proj", LINEAR_MAIN_PROJ, 0, c->draft_target_count * d, d);
        norm(l, "main_norm.weight", d);
    }
    if (l->number + 1 == c->draft_layers) {
        norm(l, "norm.weight", d);
        matrix(l, "markov_head.embed.weight", ROLE_EMBED, DTYPE_BF16, c->vocab, c->markov_rank);
        matrix(l, "markov_head.head.weight", ROLE_MARKOV_HEAD, DTYPE_F16, c->vocab, c->markov_rank);
        matrix(l, "confidence_head.proj.weight", ROLE_CONFIDENCE, DTYPE_F16, 1, d + c->markov_rank);
    }
}

static void walk(lister *l) {
    const tf_config *c = l->config;
    l->count = 0;
    l->layer = CONFIG_NONE;
    l->draft = false;
    l->prefix[0] = '\0';
    matrix(l, "embed.weight", ROLE_EMBED, DTYPE_BF16, c->vocab, c->hidden);
    linear(l, "head", LINEAR_HEAD, 0, c->hidden, c->vocab);
    norm(l, "norm.weight", c->hidden);
    for (uint32_t i = 0; i < c->layers; i++) {
        const config_layer *layer = &c->layer[i];
        l->layer = i;
        l->draft = layer->kind == LAYER_DRAFT;
        l->number = l->draft ? i - c->target_layers : i;
        snprintf(l->prefix, sizeof l->prefix, "%s.%u.", l->draft ? "mtp" : "layers", l->number);
        attention(l);
        streams(l, "attn");
        streams(l, "ffn");
        long_range(l, layer);
        feed_forward(l, layer);
        if (layer->engram != CONFIG_NONE) engram(l, layer->engram);
        if (l->draft) draft_ends(l);
    }
}

tf_status inventory_list(const tf_config *config, inventory_bits bits, tf_arena *arena,
                         inventory_tensor **tensors, size_t *count, tf_error *err) {
    lister l = {.config = config, .bits = bits, .arena = arena};
    walk(&l);
    size_t counted = l.count;
    l.tensors = arena_array(arena, counted, sizeof *l.tensors);
    if (l.tensors != NULL) walk(&l);
    if (l.tensors == NULL || l.broken) {
        return tf_fail(err, TF_W_NO_MEMORY, "listing %zu tensors", counted);
    }
    TF_ASSERT(l.count == counted);
    *tensors = l.tensors;
    *count = counted;
    return TF_OK;
}
