#include "engine/plan/tensors.h"

#include <string.h>

#define RULE(name, form, first, second, dtype, axis, unit, category, when, each)        \
    {                                                                                   \
        name, FORM_##form, EXTENT_##first, EXTENT_##second, DTYPE_##dtype, AXIS_##axis, \
            UNIT_##unit, BYTES_##category, WHEN_##when, EACH_##each                     \
    }

const tensor_rule tensor_rules[] = {
    RULE("embed.weight", MATRIX, VOCAB, HIDDEN, BF16, ROWS, VOCAB_BLOCK, EMBED, TOP, ONCE),
    RULE("norm.weight", VECTOR, HIDDEN, NONE, BF16, WHOLE, NONE, OTHER, TOP, ONCE),
    RULE("head", LINEAR, HIDDEN, VOCAB, BF16, COLUMNS, VOCAB_BLOCK, HEAD, TOP, ONCE),

    RULE("engram.embed.weight", MATRIX, TABLE_ROWS, TABLE_DIM, F8_E4M3, ROWS, ENGRAM_COLUMN, ENGRAM,
         ENGRAM, ONCE),
    RULE("engram.embed.scale", MATRIX, TABLE_ROWS, TABLE_SCALES, F8_E8M0, ROWS, ENGRAM_COLUMN,
         ENGRAM, ENGRAM, ONCE),
    RULE("engram.wkv", LINEAR, TABLE_OUT, KEYS_VALUE, BF16, WHOLE, NONE, ENGRAM, ENGRAM, ONCE),
    RULE("engram.q_weight", MATRIX, STREAMS, HIDDEN, F32, WHOLE, NONE, ENGRAM, ENGRAM, ONCE),
    RULE("engram.k_weight", MATRIX, STREAMS, HIDDEN, F32, WHOLE, NONE, ENGRAM, ENGRAM, ONCE),

    RULE("main_proj", LINEAR, TAPS, HIDDEN, BF16, WHOLE, NONE, DRAFT, FIRST_DRAFT, ONCE),
    RULE("main_norm.weight", VECTOR, HIDDEN, NONE, BF16, WHOLE, NONE, DRAFT, FIRST_DRAFT, ONCE),

    RULE("hc_attn_fn", MATRIX, MIX, STREAMS_IN, F32, WHOLE, NONE, OTHER, ALWAYS, ONCE),
    RULE("hc_attn_base", VECTOR, MIX, NONE, F32, WHOLE, NONE, OTHER, ALWAYS, ONCE),
    RULE("hc_attn_scale", VECTOR, MIX_SCALES, NONE, F32, WHOLE, NONE, OTHER, ALWAYS, ONCE),
    RULE("attn_norm.weight", VECTOR, HIDDEN, NONE, BF16, WHOLE, NONE, OTHER, ALWAYS, ONCE),
    RULE("attn.wq_a", LINEAR, HIDDEN, Q_LORA, BF16, WHOLE, NONE, ATTENTION, ALWAYS, ONCE),
    RULE("attn.q_norm.weight", VECTOR, Q_LORA, NONE, BF16, WHOLE, NONE, ATTENTION, ALWAYS, ONCE),
    RULE("attn.wq_b", LINEAR, Q_LORA, QUERY, BF16, COLUMNS, GROUP, ATTENTION, ALWAYS, ONCE),
    RULE("attn.wkv", LINEAR, HIDDEN, HEAD_DIM, BF16, WHOLE, NONE, ATTENTION, ALWAYS, ONCE),
    RULE("attn.kv_norm.weight", VECTOR, HEAD_DIM, NONE, BF16, WHOLE, NONE, ATTENTION, ALWAYS, ONCE),
    RULE("attn.compressor.wkv", LINEAR, HIDDEN, HEAD_DIM, BF16, WHOLE, NONE, ATTENTION, KV_SOURCE,
         ONCE),
    RULE("attn.compressor.wgate", LINEAR, HIDDEN, HEAD_DIM, BF16, WHOLE, NONE, ATTENTION, KV_PAIRS,
         ONCE),
    RULE("attn.compressor.norm.weight", VECTOR, HEAD_DIM, NONE, BF16, WHOLE, NONE, ATTENTION,
         KV_SOURCE, ONCE),
    RULE("attn.indexer.wk", LINEAR, HEAD_DIM, INDEX_DIM, BF16, WHOLE, NONE, ATTENTION, KV_SOURCE,
         ONCE),
    RULE("attn.indexer.k_norm.weight", VECTOR, INDEX_DIM, NONE, BF16, WHOLE, NONE, ATTENTION,
         KV_SOURCE, ONCE),
    RULE("attn.indexer.wq_b", LINEAR, Q_LORA, INDEX_QUERY, BF16, WHOLE, NONE, ATTENTION,
         INDEX_SOURCE, ONCE),
    RULE("attn.indexer.weights_proj.weight", MATRIX, INDEX_HEADS, HIDDEN, F16, WHOLE, NONE,
         ATTENTION, INDEX_SOURCE, ONCE),
    RULE("attn.attn_sink", VECTOR, HEADS, NONE, F32, ROWS, GROUP, ATTENTION, ALWAYS, ONCE),
    RULE("attn.wo_a.slice.%", LINEAR, GROUP_IN, O_LORA, BF16, PICK, GROUP, ATTENTION, ALWAYS,
         GROUP),
    RULE("attn.wo_b", LINEAR, GROUPS_OUT, HIDDEN, BF16, ROWS, GROUP, ATTENTION, ALWAYS, ONCE),

    RULE("hc_ffn_fn", MATRIX, MIX, STREAMS_IN, F32, WHOLE, NONE, OTHER, ALWAYS, ONCE),
    RULE("hc_ffn_base", VECTOR, MIX, NONE, F32, WHOLE, NONE, OTHER, ALWAYS, ONCE),
    RULE("hc_ffn_scale", VECTOR, MIX_SCALES, NONE, F32, WHOLE, NONE, OTHER, ALWAYS, ONCE),
    RULE("ffn_norm.weight", VECTOR, HIDDEN, NONE, BF16, WHOLE, NONE, OTHER, ALWAYS, ONCE),
    RULE("ffn.gate.weight", MATRIX, EXPERTS, HIDDEN, F16, WHOLE, NONE, ROUTER, ALWAYS, ONCE),
    RULE("ffn.gate.bias", VECTOR, EXPERTS, NONE, F16, WHOLE, NONE, ROUTER, ALWAYS, ONCE),
    RULE("ffn.experts.%.w1", LINEAR, HIDDEN, WIDTH, BF16, COLUMNS, EXPERT_BLOCK, EXPERTS, ALWAYS,
         EXPERT),
    RULE("ffn.experts.%.w3", LINEAR, HIDDEN, WIDTH, BF16, COLUMNS, EXPERT_BLOCK, EXPERTS, ALWAYS,
         EXPERT),
    RULE("ffn.experts.%.w2", LINEAR, WIDTH, HIDDEN, BF16, ROWS, EXPERT_BLOCK, EXPERTS, ALWAYS,
         EXPERT),
    RULE("ffn.shared_experts.w1", LINEAR, HIDDEN, WIDTH, BF16, COLUMNS, EXPERT_BLOCK, SHARED,
         ALWAYS, ONCE),
    RULE("ffn.shared_experts.w3", LINEAR, HIDDEN, WIDTH, BF16, COLUMNS, EXPERT_BLOCK, SHARED,
         ALWAYS, ONCE),
    RULE("ffn.shared_experts.w2", LINEAR, WIDTH, HIDDEN, BF16, ROWS, EXPERT_BLOCK, SHARED, ALWAYS,
         ONCE),

    RULE("norm.weight", VECTOR, HIDDEN, NONE, BF16, WHOLE, NONE, DRAFT, LAST_DRAFT, ONCE),
    RULE("markov_head.embed.weight", MATRIX, VOCAB, MARKOV, BF16, WHOLE, NONE, DRAFT, LAST_DRAFT,
         ONCE),
    RULE("markov_head.head.weight", MATRIX, VOCAB, MARKOV, F16, WHOLE, NONE, DRAFT, LAST_DRAFT,
         ONCE),
    RULE("confidence_head.proj.weight", MATRIX, ONE, CONFIDENCE, F16, WHOLE, NONE, DRAFT,
         LAST_DRAFT, ONCE),
};
const size_t tensor_rule_count = sizeof tensor_rules / sizeof tensor_rules[0];

void tensor_extents(const tf_config *config, uint32_t layer, uint64_t *extent) {
    const tf_config *c = config;
    uint64_t d = c->hidden, m = c->hc_mult;
    memset(extent, 0, EXTENT_COUNT * sizeof *extent);
    extent[EXTENT_ONE] = 1;
    extent[EXTENT_HIDDEN] = d;
    extent[EXTENT_VOCAB] = c->vocab;
    extent[EXTENT_Q_LORA] = c->q_lora;
    extent[EXTENT_HEADS] = c->heads;
    extent[EXTENT_HEAD_DIM] = c->head_dim;
    extent[EXTENT_QUERY] = (uint64_t)c->heads * c->head_dim;
    extent[EXTENT_GROUP_IN] = (uint64_t)(c->heads / c->groups) * c->head_dim;
    extent[EXTENT_O_LORA] = c->o_lora;
    extent[EXTENT_GROUPS_OUT] = (uint64_t)c->groups * c->o_lora;
    extent[EXTENT_INDEX_HEADS] = c->index_heads;
    extent[EXTENT_INDEX_DIM] = c->index_head_dim;
    extent[EXTENT_INDEX_QUERY] = (uint64_t)c->index_heads * c->index_head_dim;
    extent[EXTENT_WIDTH] = c->expert_width;
    extent[EXTENT_STREAMS] = m;
    extent[EXTENT_STREAMS_IN] = m * d;
    extent[EXTENT_MIX] = m * (m + 2);
    extent[EXTENT_MIX_SCALES] = 3;
    extent[EXTENT_TABLE_DIM] = c->engram_head_dim;
    extent[EXTENT_TABLE_SCALES] = (c->engram_head_dim + 31u) / 32u;
    extent[EXTENT_TABLE_OUT] = (uint64_t)config_engram_columns(c) * c->engram_head_dim;
    extent[EXTENT_KEYS_VALUE] = (m + 1) * d;
    extent[EXTENT_TAPS] = c->draft_target_count * d;
    extent[EXTENT_MARKOV] = c->markov_rank;
    extent[EXTENT_CONFIDENCE] = d + c->markov_rank;
    if (layer == CONFIG_NONE) return;
    const config_layer *role = &c->layer[layer];
    extent[EXTENT_EXPERTS] = role->routed_experts;
    if (role->engram != CONFIG_NONE) extent[EXTENT_TABLE_ROWS] = c->engram_rows[role->engram];
}

bool tensor_applies(const tensor_rule *rule, const tf_config *config, uint32_t layer) {
    if (rule->when == WHEN_TOP || layer == CONFIG_NONE)
        return rule->when == WHEN_TOP && layer == CONFIG_NONE;
    const config_layer *role = &config->layer[layer];
    bool draft = role->kind == LAYER_DRAFT;
    switch (rule->when) {
    case WHEN_TOP:
        break;
    case WHEN_ALWAYS:
        return true;
    case WHEN_KV_SOURCE:
        return role->owns_kv;
    case WHEN_KV_PAIRS:
        return role->owns_kv && role->ratio == 2;
    case WHEN_INDEX_SOURCE:
        return role->owns_index;
    case WHEN_ENGRAM:
        return role->engram != CONFIG_NONE;
    case WHEN_FIRST_DRAFT:
        return draft && layer == config->target_layers;
    case WHEN_LAST_DRAFT:
        return draft && layer + 1 == config->layers;
    }
    return false;
}

static bool begins_with(const char *s, const char *with) {
    return strncmp(s, with, strlen(with)) == 0;
}

bool tensor_is_ignored(const char *name) {
    static const char bias[] = ".ffn.gate.bias_vl";
    size_t n = strlen(name);
    if (n >= sizeof bias - 1 && strcmp(name + n - (sizeof bias - 1), bias) == 0) return true;
    return begins_with(name, "vision.") || begins_with(name, "aligner.") ||
           begins_with(name, "image_");
}

/* Where s goes on after the pattern, '%' standing for digits; NULL: no match. */
static const char *after(const char *s, const char *pattern) {
    for (; *pattern != '\0'; pattern++) {
        if (*pattern != '%') {
            if (*s++ != *pattern) return NULL;
            continue;
        }
        size_t digits = strspn(s, "0123456789");
        if (digits == 0) return NULL;
        s += digits;
    }
    return s;
}

static bool is_linear_part(const char *suffix) {
    static const char *const parts[] = {".weight", ".trellis", ".suh", ".svh", ".mul1", ".mcg"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (strcmp(suffix, parts[i]) == 0) return true;
    }
    return false;
}

bool tensor_is_known(const char *name) {
    const char *in_layer = after(name, "layers.%.");
    if (in_layer == NULL) in_layer = after(name, "mtp.%.");
    for (size_t i = 0; i < tensor_rule_count; i++) {
        const tensor_rule *rule = &tensor_rules[i];
        const char *s = rule->when == WHEN_TOP ? name : in_layer;
        if (s == NULL) continue;
        const char *rest = after(s, rule->name);
        if (rest == NULL) continue;
        if (rule->form == FORM_LINEAR ? is_linear_part(rest) : *rest == '\0') return true;
    }
    return false;
}
