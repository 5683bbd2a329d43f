/* pack/config - config.json of the publisher's form, read into the roles each layer plays.
 *
 * Idea: everything later rooms ask about the model is answered here, once; every inconsistency is
 * refused with the field's name (MODEL 1).
 * Trap: an unknown key that changes the model would be ignored; keys are a closed list, the
 * harmless ones named. */
#ifndef TF_ENGINE_PACK_CONFIG_H
#define TF_ENGINE_PACK_CONFIG_H

#include "engine/base/digest.h"
#include "engine/base/limits.h"
#include "engine/base/status.h"
#include "engine/base/text.h"

#include <stdbool.h>
#include <stdint.h>

#define CONFIG_ENGRAM_MAX 8u /* engram layers */
#define CONFIG_DRAFTS_MAX 8u /* draft blocks, and draft target layers */
#define CONFIG_NONE       UINT32_MAX

typedef enum {
    LAYER_TARGET,
    LAYER_DRAFT
} layer_kind;

/* What a layer does; ids are logical: drafts follow the target layers (40..42 in the real model). */
typedef struct config_layer {
    layer_kind kind;
    uint32_t ratio;          /* compress ratio: 0 window only, 1, 2 */
    uint32_t kv_source;      /* layer whose compressed rows are read; CONFIG_NONE at ratio 0 */
    uint32_t index_source;   /* layer whose choice is used; CONFIG_NONE at ratio 0 */
    bool owns_kv;            /* has a compressor and index keys */
    bool owns_index;         /* runs its own indexer */
    bool makes_candidates;   /* the candidate source */
    bool uses_candidates;    /* an index source after the candidate source */
    uint32_t engram;         /* index into engram_*; CONFIG_NONE when none */
    uint32_t tap;            /* index into draft_targets; CONFIG_NONE when no draft target */
    uint32_t routed_experts; /* E: drafts have their own count */
    uint32_t experts_per_tok;
} config_layer;

typedef struct tf_config {
    char family[64];                              /* model_type of the file */
    uint32_t hidden;                              /* D */
    uint32_t vocab;                               /* V */
    uint32_t target_layers, draft_layers, layers; /* layers = target + draft */
    uint32_t heads, head_dim, rope_dim;           /* H, hd, rd */
    uint32_t groups, q_lora, o_lora;
    uint32_t window;
    uint32_t index_heads, index_head_dim, index_topk;
    uint32_t candidate_topk_blocks, candidate_block;
    uint32_t candidate_source; /* CONFIG_NONE when none */
    uint32_t routed_experts, experts_per_tok, shared_experts, expert_width; /* E, k, 1, I */
    uint32_t draft_routed_experts, draft_experts_per_tok;
    double routed_scale, swiglu_limit;
    uint32_t hc_mult, hc_iters; /* 4 streams */
    double hc_eps, rms_eps;
    double rope_theta, compress_rope_theta;
    double yarn_factor, yarn_beta_fast, yarn_beta_slow, yarn_original;
    uint32_t engram_count, engram_layers[CONFIG_ENGRAM_MAX];
    uint32_t engram_ngram, engram_heads, engram_head_dim; /* columns = (ngram - 1) * heads */
    uint64_t engram_vocab, engram_compressed_vocab, engram_rows[CONFIG_ENGRAM_MAX];
    uint32_t engram_pad_token;
    uint32_t draft_block, draft_noise_token, markov_rank;
    uint32_t draft_target_count, draft_targets[CONFIG_DRAFTS_MAX];
    bool exl3; /* quantization_config says so; tensors decide in the end */
    config_layer layer[TF_LAYERS_MAX];
    tf_digest digest; /* of the canonical config text (config_text), not of the file's bytes */
} tf_config;

/* name: for messages.  Fails with bad-json, unknown-model, bad-config (naming the field), ... */
tf_status config_parse(const char *name, const char *data, size_t n, tf_config *out, tf_error *err);
/* Reads dir/config.json. */
tf_status config_read(const char *dir, tf_config *out, tf_error *err);

/* Canonical text: one `field value` a line in fixed order, then one line a layer.  Its XXH3-128 is
 * the config digest. */

void config_text(const tf_config *config, tf_text *out);

static inline uint32_t config_engram_columns(const tf_config *c) {
    return (c->engram_ngram - 1) * c->engram_heads;
}

#endif
