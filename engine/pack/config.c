#include "engine/pack/config.h"

#include "engine/base/arena.h"
#include "engine/base/io.h"
#include "engine/base/json.h"
#include "engine/base/nearest.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* ---- fields ---- */

/* Whole numbers of text_config that are read as they stand: struct field, key, smallest, largest. */
#define CONFIG_WHOLES(X)                                              \
    X(hidden, "hidden_size", 1, 1u << 20)                             \
    X(vocab, "vocab_size", 1, 1u << 28)                               \
    X(target_layers, "num_hidden_layers", 1, TF_LAYERS_MAX)           \
    X(draft_layers, "num_nextn_predict_layers", 0, CONFIG_DRAFTS_MAX) \
    X(heads, "num_attention_heads", 1, 4096)                          \
    X(head_dim, "head_dim", 2, 1u << 16)                              \
    X(rope_dim, "qk_rope_head_dim", 2, 1u << 16)                      \
    X(groups, "o_groups", 1, 4096)                                    \
    X(q_lora, "q_lora_rank", 1, 1u << 20)                             \
    X(o_lora, "o_lora_rank", 1, 1u << 20)                             \
    X(window, "sliding_window", 1, 1u << 20)                          \
    X(index_heads, "index_n_heads", 1, 4096)                          \
    X(index_head_dim, "index_head_dim", 2, 1u << 16)                  \
    X(index_topk, "index_topk", 1, 1u << 20)                          \
    X(candidate_topk_blocks, "candidate_topk_blocks", 1, 1u << 20)    \
    X(candidate_block, "candidate_block_size", 1, 1u << 16)           \
    X(routed_experts, "n_routed_experts", 1, 65536)                   \
    X(experts_per_tok, "num_experts_per_tok", 1, 64)                  \
    X(shared_experts, "n_shared_experts", 1, 1)                       \
    X(expert_width, "moe_intermediate_size", 1, 1u << 20)             \
    X(draft_routed_experts, "dspark_n_routed_experts", 1, 65536)      \
    X(draft_experts_per_tok, "dspark_num_experts_per_tok", 1, 64)     \
    X(hc_mult, "hc_mult", 4, 4)                                       \
    X(hc_iters, "hc_sinkhorn_iters", 1, 1000)                         \
    X(engram_ngram, "engram_max_ngram_size", 2, 4)                    \
    X(engram_heads, "engram_n_heads", 1, 64)                          \
    X(engram_head_dim, "engram_head_dim", 1, 65536)                   \
    X(engram_pad_token, "engram_pad_token_id", 0, (1u << 28) - 1)     \
    X(draft_block, "dspark_block_size", 1, 64)                        \
    X(draft_noise_token, "dspark_noise_token_id", 0, (1u << 28) - 1)  \
    X(markov_rank, "dspark_markov_rank", 1, 65536)

#define CONFIG_REALS(X)                      \
    X(routed_scale, "routed_scaling_factor") \
    X(swiglu_limit, "swiglu_limit")          \
    X(hc_eps, "hc_eps")                      \
    X(rms_eps, "rms_norm_eps")               \
    X(rope_theta, "rope_theta")              \
    X(compress_rope_theta, "compress_rope_theta")

static const struct {
    const char *key;
    size_t offset;
    uint64_t min, max;
} wholes[] = {
#define X(field, key, min, max) {key, offsetof(tf_config, field), min, max},
    CONFIG_WHOLES(X)
#undef X
};

static const struct {
    const char *key;
    size_t offset;
} reals[] = {
#define X(field, key) {key, offsetof(tf_config, field)},
    CONFIG_REALS(X)
#undef X
};

/* Every key of text_config that is known: read above, read by hand, or harmless.  A key outside
 * could change the model without our noticing, so it is refused. */
static const char *const known[] = {
#define X(field, key, min, max) key,
    CONFIG_WHOLES(X)
#undef X
#define X(field, key) key,
        CONFIG_REALS(X)
#undef X
    /* read by hand */
    "compress_ratios",
    "kv_source_layer_ids", "index_source_layer_ids", "candidate_source_layer_id", "rope_scaling",
    "engram_layer_ids", "engram_vocab_size", "engram_compressed_vocab_size",
    "engram_num_embeddings", "dspark_target_layer_ids", "num_key_value_heads", "hidden_act",
    "scoring_func", "topk_method", "norm_topk_prob", "attention_bias", "tie_word_embeddings",
    "model_type",
    /* harmless to the arithmetic */
    "max_position_embeddings", "bos_token_id", "eos_token_id", "pad_token_id", "dtype",
    "torch_dtype", "initializer_range", "use_cache", "attention_dropout", "architectures",
    "transformers_version", "head_dtype"};

/* ---- reading ---- */

typedef struct reader {
    json_place at;          /* text_config, for messages too */
    const json_value *text; /* the same object */
    const char *name;
    tf_config *c;
    tf_error *err;
} reader;

static tf_status bad_field(const reader *r, const char *field) {
    return tf_fail(r->err, TF_W_BAD_CONFIG, "reading %s: text_config.%s", r->name, field);
}

static tf_status refuse_unknown_keys(const reader *r) {
    for (size_t i = 0; i < json_count(r->text); i++) {
        const char *key = json_key(json_at(r->text, i));
        bool is_known = false;
        for (size_t k = 0; k < sizeof known / sizeof known[0] && !is_known; k++)
            is_known = strcmp(key, known[k]) == 0;
        if (is_known) continue;
        tf_fail(r->err, TF_W_UNKNOWN_KEY, "reading %s: text_config.%s", r->name, key);
        tf_found(r->err, "a key this engine does not know, which could change the model");
        const char *near = tf_nearest(key, known, sizeof known / sizeof known[0]);
        if (near != NULL) return tf_remedy(r->err, "did you mean '%s'?", near);
        return tf_remedy(r->err, "remove it when it has no part in the arithmetic");
    }
    return TF_OK;
}

static tf_status need_word(const reader *r, const char *key, const char *wanted) {
    const char *found = NULL;
    tf_status status = json_need_string(r->at, key, &found, r->err);
    if (status != TF_OK || strcmp(found, wanted) == 0) return status;
    bad_field(r, key);
    tf_found(r->err, "'%s'", found);
    return tf_expected(r->err, "'%s', the only one this engine computes", wanted);
}

/* A flag that must have this value where it stands; absent means so. */
static tf_status need_flag(const reader *r, const char *key, bool wanted) {
    const json_value *v = json_get(r->text, key);
    if (v == NULL || (json_is_bool(v) && json_bool(v) == wanted)) return TF_OK;
    bad_field(r, key);
    tf_found(r->err, "%s", json_is_bool(v) ? (wanted ? "false" : "true") : "no true or false");
    return tf_expected(r->err, "%s, the only one this engine computes", wanted ? "true" : "false");
}

static tf_status need_array(const reader *r, const char *key, uint64_t max, uint32_t *out,
                            size_t limit, uint32_t *count) {
    uint64_t values[TF_LAYERS_MAX];
    size_t n = 0;
    tf_status status = json_need_u64s(r->at, key, (json_range){0, max}, values,
                                      limit < TF_LAYERS_MAX ? limit : TF_LAYERS_MAX, &n, r->err);
    for (size_t i = 0; status == TF_OK && i < n; i++)
        out[i] = (uint32_t)values[i];
    *count = (uint32_t)n;
    return status;
}

static tf_status read_rope(const reader *r) {
    tf_config *c = r->c;
    const json_value *scaling = json_get(r->text, "rope_scaling");
    const char *path = "text_config.rope_scaling";
    const json_place at = {r->at.doc, scaling, path};
    tf_status status = TF_OK;
    if (!json_is_object(scaling)) {
        bad_field(r, "rope_scaling");
        return tf_expected(r->err, "an object");
    }
    static const char *const keys[] = {"rope_type", "type",
                                       "factor",    "beta_fast",
                                       "beta_slow", "original_max_position_embeddings"};
    for (size_t i = 0; i < json_count(scaling); i++) {
        const char *key = json_key(json_at(scaling, i));
        bool is_known = false;
        for (size_t k = 0; k < sizeof keys / sizeof keys[0] && !is_known; k++)
            is_known = strcmp(key, keys[k]) == 0;
        if (is_known) continue;
        tf_fail(r->err, TF_W_UNKNOWN_KEY, "reading %s: %s.%s", r->name, path, key);
        return tf_found(r->err, "a key this engine does not know, which could change the model");
    }
    const char *type = json_string(json_get(scaling, "rope_type"));
    if (type[0] == '\0') type = json_string(json_get(scaling, "type"));
    if (strcmp(type, "yarn") != 0) {
        bad_field(r, "rope_scaling.rope_type");
        tf_found(r->err, "'%s'", type);
        return tf_expected(r->err, "'yarn', the only one this engine computes");
    }
    TF_TRY(json_need_f64(at, "factor", &c->yarn_factor, r->err));
    TF_TRY(json_need_f64(at, "beta_fast", &c->yarn_beta_fast, r->err));
    TF_TRY(json_need_f64(at, "beta_slow", &c->yarn_beta_slow, r->err));
    TF_TRY(json_need_f64(at, "original_max_position_embeddings", &c->yarn_original, r->err));
    if (c->yarn_factor < 1 || c->yarn_beta_slow <= 0 || c->yarn_beta_fast < c->yarn_beta_slow ||
        c->yarn_original < 1) {
        bad_field(r, "rope_scaling");
        tf_found(r->err, "factor %g, beta_fast %g, beta_slow %g, original %g", c->yarn_factor,
                 c->yarn_beta_fast, c->yarn_beta_slow, c->yarn_original);
        return tf_expected(r->err, "factor >= 1, beta_fast >= beta_slow > 0, original >= 1");
    }
done:
    return status;
}

static tf_status read_fields(const reader *r) {
    tf_config *c = r->c;
    uint64_t kv_heads = 0;
    tf_status status = TF_OK;
    for (size_t i = 0; i < sizeof wholes / sizeof wholes[0]; i++) {
        uint64_t value = 0;
        TF_TRY(json_need_u64(r->at, wholes[i].key, (json_range){wholes[i].min, wholes[i].max},
                             &value, r->err));
        uint32_t small = (uint32_t)value;
        memcpy((char *)c + wholes[i].offset, &small, sizeof small);
    }
    for (size_t i = 0; i < sizeof reals / sizeof reals[0]; i++) {
        double value = 0;
        TF_TRY(json_need_f64(r->at, reals[i].key, &value, r->err));
        if (!(value > 0)) {
            bad_field(r, reals[i].key);
            tf_found(r->err, "%g", value);
            TF_TRY(tf_expected(r->err, "a number above 0"));
        }
        memcpy((char *)c + reals[i].offset, &value, sizeof value);
    }
    TF_TRY(json_need_u64(r->at, "engram_vocab_size", (json_range){2, 1ull << 40}, &c->engram_vocab,
                         r->err));
    TF_TRY(json_need_u64(r->at, "engram_compressed_vocab_size", (json_range){1, 1ull << 40},
                         &c->engram_compressed_vocab, r->err));
    TF_TRY(json_need_u64(r->at, "num_key_value_heads", (json_range){1, 1}, &kv_heads, r->err));
    TF_TRY(need_word(r, "hidden_act", "silu"));
    TF_TRY(need_word(r, "scoring_func", "sqrtsoftplus"));
    TF_TRY(need_word(r, "topk_method", "noaux_tc"));
    TF_TRY(need_flag(r, "norm_topk_prob", true));
    TF_TRY(need_flag(r, "attention_bias", false));
    TF_TRY(need_flag(r, "tie_word_embeddings", false));
    TF_TRY(read_rope(r));
done:
    return status;
}

/* ---- what must fit together ---- */

static tf_status must_divide(const reader *r, const char *field, uint32_t whole, const char *by,
                             uint32_t part) {
    if (part != 0 && whole % part == 0) return TF_OK;
    bad_field(r, field);
    tf_found(r->err, "%u", whole);
    return tf_expected(r->err, "a multiple of %s %u", by, part);
}

static tf_status at_most(const reader *r, const char *field, uint64_t found, const char *of,
                         uint64_t limit) {
    if (found <= limit) return TF_OK;
    bad_field(r, field);
    tf_found(r->err, "%llu", (unsigned long long)found);
    return tf_expected(r->err, "at most %s %llu", of, (unsigned long long)limit);
}

/* Waves grow longer from pair to pair, and none beyond what a double can tell apart. */
static tf_status check_theta(const reader *r, const char *field, double theta) {
    const double most = 1e12;
    if (theta > 1 && theta <= most) return TF_OK;
    bad_field(r, field);
    tf_found(r->err, "%g", theta);
    return tf_expected(r->err, "a number above 1, at most %g", most);
}

static tf_status check_sizes(const reader *r) {
    const tf_config *c = r->c;
    tf_status status = TF_OK;
    TF_TRY(must_divide(r, "num_attention_heads", c->heads, "o_groups", c->groups));
    TF_TRY(must_divide(r, "moe_intermediate_size", c->expert_width, "the split block", 128));
    TF_TRY(must_divide(r, "vocab_size", c->vocab, "the split block", 128));
    TF_TRY(must_divide(r, "qk_rope_head_dim", c->rope_dim, "a pair", 2));
    TF_TRY(must_divide(r, "engram_head_dim", c->engram_head_dim, "a scale block", 32));
    TF_TRY(at_most(r, "qk_rope_head_dim", c->rope_dim, "head_dim", c->head_dim));
    TF_TRY(at_most(r, "qk_rope_head_dim", c->rope_dim, "index_head_dim", c->index_head_dim));
    TF_TRY(at_most(r, "qk_rope_head_dim", c->rope_dim, "the limit", TF_ROPE_DIM_MAX));
    TF_TRY(check_theta(r, "rope_theta", c->rope_theta));
    TF_TRY(check_theta(r, "compress_rope_theta", c->compress_rope_theta));
    TF_TRY(at_most(r, "num_experts_per_tok", c->experts_per_tok, "n_routed_experts",
                   c->routed_experts));
    TF_TRY(at_most(r, "dspark_num_experts_per_tok", c->draft_experts_per_tok,
                   "dspark_n_routed_experts", c->draft_routed_experts));
    TF_TRY(
        at_most(r, "dspark_noise_token_id", c->draft_noise_token, "vocab_size - 1", c->vocab - 1));
    TF_TRY(at_most(r, "engram_pad_token_id", c->engram_pad_token, "vocab_size - 1", c->vocab - 1));
    TF_TRY(at_most(r, "engram_compressed_vocab_size", c->engram_compressed_vocab, "vocab_size",
                   c->vocab));
    TF_TRY(at_most(r, "num_hidden_layers + num_nextn_predict_layers",
                   (uint64_t)c->target_layers + c->draft_layers, "the limit", TF_LAYERS_MAX));
done:
    return status;
}

/* Ids must ascend and lie on target layers; with_ratio: on layers that compress. */
static tf_status check_ids(const reader *r, const char *field, const uint32_t *ids, uint32_t count,
                           bool with_ratio) {
    const tf_config *c = r->c;
    for (uint32_t i = 0; i < count; i++) {
        if (i > 0 && ids[i] <= ids[i - 1]) {
            bad_field(r, field);
            tf_found(r->err, "%u after %u", ids[i], ids[i - 1]);
            return tf_expected(r->err, "ascending layer ids");
        }
        if (ids[i] >= c->target_layers) {
            bad_field(r, field);
            tf_found(r->err, "layer %u", ids[i]);
            return tf_expected(r->err, "a target layer, below num_hidden_layers %u",
                               c->target_layers);
        }
        if (with_ratio && c->layer[ids[i]].ratio == 0) {
            bad_field(r, field);
            tf_found(r->err, "layer %u, whose compress ratio is 0", ids[i]);
            return tf_expected(r->err, "a layer that compresses");
        }
    }
    return TF_OK;
}

static tf_status read_ratios(const reader *r) {
    tf_config *c = r->c;
    uint32_t ratios[TF_LAYERS_MAX];
    uint32_t count = 0;
    tf_status status = need_array(r, "compress_ratios", UINT32_MAX, ratios, TF_LAYERS_MAX, &count);
    if (status != TF_OK) return status;
    if (count != c->layers) {
        bad_field(r, "compress_ratios");
        tf_found(r->err, "%u ratios", count);
        return tf_expected(r->err, "one a layer, drafts included: %u", c->layers);
    }
    for (uint32_t l = 0; l < c->layers; l++) {
        bool draft = l >= c->target_layers;
        if (ratios[l] > (draft ? 0u : 2u)) {
            bad_field(r, "compress_ratios");
            tf_found(r->err, "%u on layer %u", ratios[l], l);
            return tf_expected(r->err, draft ? "0 on a draft layer" : "0, 1 or 2");
        }
        c->layer[l].ratio = ratios[l];
    }
    return TF_OK;
}

/* Marks the greatest id at or below each compressing layer as its source. */
static tf_status set_sources(const reader *r, const char *field, const uint32_t *ids,
                             uint32_t count, bool kv) {
    tf_config *c = r->c;
    uint32_t next = 0;
    uint32_t source = CONFIG_NONE;
    for (uint32_t l = 0; l < c->target_layers; l++) {
        config_layer *layer = &c->layer[l];
        bool owns = next < count && ids[next] == l;
        if (owns) source = ids[next++];
        if (layer->ratio == 0) continue;
        if (source == CONFIG_NONE) {
            bad_field(r, field);
            tf_found(r->err, "no source at or before layer %u, which compresses", l);
            return tf_expected(r->err, "a source for every layer of ratio above 0");
        }
        if (kv) {
            layer->kv_source = source;
            layer->owns_kv = owns;
        } else {
            layer->index_source = source;
            layer->owns_index = owns;
        }
        /* Row j stands for another position at another ratio, so a reader must share its source's. */
        if (kv && c->layer[source].ratio != layer->ratio) {
            bad_field(r, field);
            tf_found(r->err, "layer %u of ratio %u reading layer %u of ratio %u", l, layer->ratio,
                     source, c->layer[source].ratio);
            return tf_expected(r->err, "the ratio of its source");
        }
    }
    return TF_OK;
}

static tf_status read_roles(const reader *r) {
    tf_config *c = r->c;
    uint32_t kv[TF_LAYERS_MAX];
    uint32_t index[TF_LAYERS_MAX];
    uint32_t kv_count = 0;
    uint32_t index_count = 0;
    uint64_t id = 0;
    const json_value *candidate = json_get(r->text, "candidate_source_layer_id");
    tf_status status = TF_OK;
    TF_TRY(need_array(r, "kv_source_layer_ids", UINT32_MAX, kv, TF_LAYERS_MAX, &kv_count));
    TF_TRY(need_array(r, "index_source_layer_ids", UINT32_MAX, index, TF_LAYERS_MAX, &index_count));
    TF_TRY(check_ids(r, "kv_source_layer_ids", kv, kv_count, true));
    TF_TRY(check_ids(r, "index_source_layer_ids", index, index_count, true));
    TF_TRY(set_sources(r, "kv_source_layer_ids", kv, kv_count, true));
    TF_TRY(set_sources(r, "index_source_layer_ids", index, index_count, false));
    for (uint32_t l = 0; l < c->target_layers; l++) {
        /* A choice is of rows of one source; it cannot outlive it. */
        const config_layer *layer = &c->layer[l];
        if (layer->ratio == 0 || c->layer[layer->index_source].kv_source == layer->kv_source)
            continue;
        bad_field(r, "index_source_layer_ids");
        tf_found(r->err, "layer %u choosing by layer %u, which reads rows of layer %u", l,
                 layer->index_source, c->layer[layer->index_source].kv_source);
        TF_TRY(tf_expected(r->err, "a choice among the rows of layer %u", layer->kv_source));
    }
    c->candidate_source = CONFIG_NONE;
    if (candidate == NULL || json_is_null(candidate)) return TF_OK;
    TF_TRY(json_need_u64(r->at, "candidate_source_layer_id", (json_range){0, c->target_layers - 1},
                         &id, r->err));
    if (!c->layer[id].owns_index) {
        bad_field(r, "candidate_source_layer_id");
        tf_found(r->err, "layer %llu, which is no index source", (unsigned long long)id);
        TF_TRY(tf_expected(r->err, "one of index_source_layer_ids"));
    }
    c->candidate_source = (uint32_t)id;
    c->layer[id].makes_candidates = true;
    for (uint32_t l = c->candidate_source + 1; l < c->target_layers; l++) {
        config_layer *layer = &c->layer[l];
        layer->uses_candidates = layer->owns_index;
        if (!layer->owns_index || layer->kv_source == c->layer[id].kv_source) continue;
        bad_field(r, "candidate_source_layer_id");
        tf_found(r->err, "index source %u over rows of layer %u", l, layer->kv_source);
        TF_TRY(tf_expected(r->err, "the candidate source's rows, of layer %u",
                           c->layer[id].kv_source));
    }
done:
    return status;
}

static tf_status read_memory_and_drafts(const reader *r) {
    tf_config *c = r->c;
    tf_status status = TF_OK;
    uint64_t rows[CONFIG_ENGRAM_MAX];
    size_t row_count = 0;
    TF_TRY(need_array(r, "engram_layer_ids", UINT32_MAX, c->engram_layers, CONFIG_ENGRAM_MAX,
                      &c->engram_count));
    TF_TRY(check_ids(r, "engram_layer_ids", c->engram_layers, c->engram_count, false));
    TF_TRY(json_need_u64s(r->at, "engram_num_embeddings", (json_range){1, 1ull << 40}, rows,
                          CONFIG_ENGRAM_MAX, &row_count, r->err));
    if (row_count != c->engram_count) {
        bad_field(r, "engram_num_embeddings");
        tf_found(r->err, "%zu counts", row_count);
        TF_TRY(tf_expected(r->err, "one an engram layer: %u", c->engram_count));
    }
    for (uint32_t i = 0; i < c->engram_count; i++) {
        c->engram_rows[i] = rows[i];
        c->layer[c->engram_layers[i]].engram = i;
    }
    TF_TRY(need_array(r, "dspark_target_layer_ids", UINT32_MAX, c->draft_targets, CONFIG_DRAFTS_MAX,
                      &c->draft_target_count));
    TF_TRY(check_ids(r, "dspark_target_layer_ids", c->draft_targets, c->draft_target_count, false));
    if (c->draft_layers > 0 && c->draft_target_count == 0) {
        bad_field(r, "dspark_target_layer_ids");
        tf_found(r->err, "none, with %u draft layers", c->draft_layers);
        TF_TRY(tf_expected(r->err, "the layers whose streams the drafts read"));
    }
    for (uint32_t i = 0; i < c->draft_target_count; i++)
        c->layer[c->draft_targets[i]].tap = i;
done:
    return status;
}

static void set_kinds(tf_config *c) {
    c->layers = c->target_layers + c->draft_layers;
    for (uint32_t l = 0; l < c->layers; l++) {
        bool draft = l >= c->target_layers;
        c->layer[l] = (config_layer){
            .kind = draft ? LAYER_DRAFT : LAYER_TARGET,
            .kv_source = CONFIG_NONE,
            .index_source = CONFIG_NONE,
            .engram = CONFIG_NONE,
            .tap = CONFIG_NONE,
            .routed_experts = draft ? c->draft_routed_experts : c->routed_experts,
            .experts_per_tok = draft ? c->draft_experts_per_tok : c->experts_per_tok,
        };
    }
}

static tf_status read_quantization(const reader *r, const json_value *root) {
    const json_value *q = json_get(root, "quantization_config");
    if (q == NULL || json_is_null(q)) return TF_OK;
    const char *method = json_string(json_get(q, "quant_method"));
    r->c->exl3 = strcmp(method, "exl3") == 0;
    if (r->c->exl3) return TF_OK;
    tf_fail(r->err, TF_W_BAD_CONFIG, "reading %s: quantization_config.quant_method", r->name);
    tf_found(r->err, "'%s'", method);
    return tf_expected(r->err, "'exl3', or no quantization_config for plain weights");
}

static tf_status read_family(const reader *r, const json_value *root) {
    const char *family = json_string(json_get(root, "model_type"));
    if (strcmp(family, "deepseek_v41") != 0) {
        tf_fail(r->err, TF_W_UNKNOWN_MODEL, "reading %s: model_type", r->name);
        tf_found(r->err, "'%s'", family);
        tf_expected(r->err, "'deepseek_v41'");
        return tf_remedy(r->err, "give the folder of a DeepSeek-V4.1-Flash release");
    }
    snprintf(r->c->family, sizeof r->c->family, "%s", family);
    if (json_is_object(r->text)) return TF_OK;
    tf_fail(r->err, TF_W_BAD_CONFIG, "reading %s: text_config", r->name);
    return tf_expected(r->err, "an object");
}

static tf_status read_all(const reader *r, const json_value *root) {
    tf_status status = TF_OK;
    TF_TRY(read_family(r, root));
    TF_TRY(refuse_unknown_keys(r));
    TF_TRY(read_fields(r));
    TF_TRY(check_sizes(r));
    set_kinds(r->c);
    TF_TRY(read_ratios(r));
    TF_TRY(read_roles(r));
    TF_TRY(read_memory_and_drafts(r));
    TF_TRY(read_quantization(r, root));
done:
    return status;
}

tf_status config_parse(const char *name, const char *data, size_t n, tf_config *out,
                       tf_error *err) {
    json_doc *doc = NULL;
    tf_text text = {0};
    reader r = {.name = name, .c = out, .err = err};
    tf_status status = TF_OK;
    *out = (tf_config){0};
    TF_TRY(json_parse(name, data, n, &doc, err));
    r.text = json_get(json_root(doc), "text_config");
    r.at = (json_place){doc, r.text, "text_config"};
    TF_TRY(read_all(&r, json_root(doc)));
    config_text(out, &text);
    TF_TRY(text_done(&text, err));
    out->digest = digest_bytes(text.data, text.length);
done:
    json_free(doc);
    text_free(&text);
    return status;
}

tf_status config_read(const char *dir, tf_config *out, tf_error *err) {
    char path[TF_PATH_BYTES_MAX + 16];
    snprintf(path, sizeof path, "%s/config.json", dir);
    char *data = NULL;
    size_t n = 0;
    tf_status status = io_read_file(path, TF_JSON_BYTES_MAX, &data, &n, err);
    if (status == TF_IO) {
        tf_remedy(err, "give a folder that holds config.json and safetensors, or a built-in name");
    }
    if (status == TF_OK) status = config_parse(path, data, n, out, err);
    mem_free(data);
    return status;
}

/* ---- canonical text ---- */

static void put(tf_text *out, const char *key, uint64_t value) {
    text_add(out, key);
    text_char(out, ' ');
    text_u64(out, value);
    text_char(out, '\n');
}

static void put_real(tf_text *out, const char *key, double value) {
    text_add(out, key);
    text_char(out, ' ');
    text_f64(out, value);
    text_char(out, '\n');
}

static void put_id(tf_text *out, const char *key, uint32_t value) {
    if (value != CONFIG_NONE) text_print(out, " %s=%u", key, value);
}

static void put_layer(tf_text *out, const tf_config *c, uint32_t l) {
    const config_layer *layer = &c->layer[l];
    text_print(out, "layer %u %s ratio=%u", l, layer->kind == LAYER_DRAFT ? "draft" : "target",
               layer->ratio);
    put_id(out, "kv", layer->kv_source);
    put_id(out, "index", layer->index_source);
    put_id(out, "engram", layer->engram);
    put_id(out, "tap", layer->tap);
    if (layer->owns_kv) text_add(out, " owns-kv");
    if (layer->owns_index) text_add(out, " owns-index");
    if (layer->makes_candidates) text_add(out, " makes-candidates");
    if (layer->uses_candidates) text_add(out, " uses-candidates");
    text_print(out, " experts=%u/%u\n", layer->experts_per_tok, layer->routed_experts);
}

void config_text(const tf_config *c, tf_text *out) {
    text_print(out, "config 1 %s\n", c->family);
    for (size_t i = 0; i < sizeof wholes / sizeof wholes[0]; i++) {
        uint32_t value;
        memcpy(&value, (const char *)c + wholes[i].offset, sizeof value);
        put(out, wholes[i].key, value);
    }
    for (size_t i = 0; i < sizeof reals / sizeof reals[0]; i++) {
        double value;
        memcpy(&value, (const char *)c + reals[i].offset, sizeof value);
        put_real(out, reals[i].key, value);
    }
    put_real(out, "rope_scaling.factor", c->yarn_factor);
    put_real(out, "rope_scaling.beta_fast", c->yarn_beta_fast);
    put_real(out, "rope_scaling.beta_slow", c->yarn_beta_slow);
    put_real(out, "rope_scaling.original_max_position_embeddings", c->yarn_original);
    put(out, "engram_vocab_size", c->engram_vocab);
    put(out, "engram_compressed_vocab_size", c->engram_compressed_vocab);
    for (uint32_t i = 0; i < c->engram_count; i++)
        put(out, "engram_num_embeddings", c->engram_rows[i]);
    text_print(out, "weights %s\n", c->exl3 ? "exl3" : "plain");
    for (uint32_t l = 0; l < c->layers; l++)
        put_layer(out, c, l);
}
