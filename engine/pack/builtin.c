#include "engine/pack/builtin.h"

#include "engine/base/check.h"

#include <string.h>

#define IDS_MAX 8

/* A list of layer ids, or of counts. */
typedef struct ids {
    uint32_t count;
    uint64_t at[IDS_MAX];
} ids;

struct builtin_shape {
    uint32_t vocab, heads, groups;
    const char *swiglu_limit;
    uint32_t positions, yarn_original;
    uint32_t experts, experts_per_tok, expert_width, window;
    uint32_t ratio2_begin, ratio1_begin; /* layers before have ratio 0, between them 2, after 1 */
    ids kv_sources, index_sources;
    uint32_t index_heads, index_topk;
    uint32_t candidate_source, candidate_blocks, candidate_block;
    ids engram_layers;
    uint32_t engram_vocab, engram_head_dim, engram_compressed;
    uint32_t noise_token, draft_experts, draft_experts_per_tok;
    uint32_t hidden, head_dim, rope_dim, q_lora, o_lora, index_head_dim, markov_rank;
    ids engram_rows;
};

enum {
    DRAFT_LAYERS = 3,
    DRAFT_BLOCK = 5,
    TINY_IDS_ALONE = 700, /* tokens below have a compressed id of their own */
};

#define TINY_SHAPE                                                                                 \
    .vocab = 1280, .heads = 16, .groups = 8, .swiglu_limit = "2.0", .positions = 4096,             \
    .yarn_original = 1024, .experts = 6, .experts_per_tok = 3, .expert_width = 640, .window = 8,   \
    .ratio2_begin = 2, .ratio1_begin = 6, .kv_sources = {3, {2, 4, 6}},                            \
    .index_sources = {5, {2, 4, 6, 8, 10}}, .index_heads = 16, .index_topk = 16,                   \
    .candidate_source = 6, .candidate_blocks = 7, .candidate_block = 4,                            \
    .engram_layers = {2, {1, 4}}, .engram_vocab = 120, .engram_head_dim = 32,                      \
    .engram_compressed = 990, .noise_token = 1270, .draft_experts = 4, .draft_experts_per_tok = 2, \
    .o_lora = 128, .engram_rows = {2, {4488, 7806}}

static const builtin_shape TINY_BF16 = {TINY_SHAPE,       .hidden = 64, .head_dim = 64,
                                        .rope_dim = 16,   .q_lora = 64, .index_head_dim = 32,
                                        .markov_rank = 64};

static const builtin_shape TINY_EXL3 = {TINY_SHAPE,        .hidden = 256, .head_dim = 128,
                                        .rope_dim = 32,    .q_lora = 128, .index_head_dim = 128,
                                        .markov_rank = 128};

static const builtin_shape FLASH = {
    .vocab = 129280,
    .heads = 64,
    .groups = 8,
    .swiglu_limit = "10.0",
    .positions = 1048576,
    .yarn_original = 65536,
    .experts = 384,
    .experts_per_tok = 6,
    .expert_width = 2304,
    .window = 128,
    .ratio2_begin = 2,
    .ratio1_begin = 20,
    .kv_sources = {4, {2, 8, 14, 20}},
    .index_sources = {8, {2, 8, 14, 20, 24, 28, 32, 36}},
    .index_heads = 32,
    .index_topk = 512,
    .candidate_source = 20,
    .candidate_blocks = 2048,
    .candidate_block = 8,
    .engram_layers = {2, {1, 14}},
    .engram_vocab = 16000000,
    .engram_head_dim = 256,
    .engram_compressed = 99092,
    .noise_token = 128799,
    .draft_experts = 128,
    .draft_experts_per_tok = 3,
    .hidden = 5120,
    .head_dim = 512,
    .rope_dim = 64,
    .q_lora = 1280,
    .o_lora = 1024,
    .index_head_dim = 128,
    .markov_rank = 256,
    .engram_rows = {2, {384006168, 384016682}},
};

/* Every mechanism in few layers, wide enough that weights, not calls, decide the speed: a token reads
 * more than 1.5 GB of bf16.  Heads, expert width and vocabulary divide by 8 ranks. */
static const builtin_shape BENCH = {
    .vocab = 16384,
    .heads = 32,
    .groups = 8,
    .swiglu_limit = "10.0",
    .positions = 65536,
    .yarn_original = 4096,
    .experts = 8,
    .experts_per_tok = 6,
    .expert_width = 1024,
    .window = 128,
    .ratio2_begin = 2,
    .ratio1_begin = 4,
    .kv_sources = {2, {2, 4}},
    .index_sources = {3, {2, 4, 5}},
    .index_heads = 32,
    .index_topk = 64,
    .candidate_source = 4,
    .candidate_blocks = 16,
    .candidate_block = 8,
    .engram_layers = {2, {1, 4}}, /* as the tiny ones, whose multipliers are known */
    .engram_vocab = 120,
    .engram_head_dim = 64,
    .engram_compressed = 990,
    .noise_token = 16380,
    .draft_experts = 2,
    .draft_experts_per_tok = 1,
    .hidden = 4096,
    .head_dim = 256,
    .rope_dim = 64,
    .q_lora = 1024,
    .o_lora = 512,
    .index_head_dim = 128,
    .markov_rank = 128,
    .engram_rows = {2, {4488, 7806}},
};

/* GOLDEN, "EXL3 bits". */
static uint32_t tiny_bits(inventory_linear linear, bool draft, uint32_t layer, uint32_t part) {
    switch (linear) {
    case LINEAR_WQ_A:
    case LINEAR_WKV:
        return layer == 0 && !draft ? 6 : 5;
    case LINEAR_WQ_B:
    case LINEAR_WO_B:
        return 3;
    case LINEAR_WO_A:
        return layer % 2 == 1 ? 3 : 4;
    case LINEAR_COMPRESSOR_WKV:
    case LINEAR_COMPRESSOR_WGATE:
    case LINEAR_INDEXER_WQ_B:
        return 5;
    case LINEAR_INDEXER_WK:
        return 8;
    case LINEAR_EXPERT_W1:
    case LINEAR_EXPERT_W2:
    case LINEAR_EXPERT_W3:
        if (draft) return 2;
        return layer == 2 || (layer == 5 && part % 3 == 0) ? 3 : 2;
    case LINEAR_SHARED_W1:
    case LINEAR_SHARED_W2:
    case LINEAR_SHARED_W3:
    case LINEAR_MAIN_PROJ:
        return 4;
    case LINEAR_ENGRAM_WKV:
        return layer == 1 ? 5 : 4;
    case LINEAR_HEAD:
        return 6;
    case LINEAR_COUNT:
        break;
    }
    TF_ASSERT(false);
    return 0;
}

/* MODEL 2.  Which layers' shared experts have 4 bits and which 5 is not public, only how many: here
 * the first 19 layers (w2: 18) have 4 and the others 5. */
static uint32_t flash_bits(inventory_linear linear, bool draft, uint32_t layer, uint32_t part) {
    (void)part;
    if (draft) return 4;
    switch (linear) {
    case LINEAR_WQ_A:
    case LINEAR_WKV:
        return layer == 0 ? 6 : 5;
    case LINEAR_WQ_B:
    case LINEAR_WO_A:
    case LINEAR_WO_B:
    case LINEAR_COMPRESSOR_WKV:
    case LINEAR_COMPRESSOR_WGATE:
    case LINEAR_INDEXER_WQ_B:
        return 5;
    case LINEAR_INDEXER_WK:
        return 8;
    case LINEAR_EXPERT_W1:
    case LINEAR_EXPERT_W2:
    case LINEAR_EXPERT_W3:
        return layer >= 18 && layer <= 22 ? 2 : 3;
    case LINEAR_SHARED_W1:
    case LINEAR_SHARED_W3:
        return layer < 19 ? 4 : 5;
    case LINEAR_SHARED_W2:
        return layer < 18 ? 4 : 5;
    case LINEAR_ENGRAM_WKV:
        return layer == 1 ? 5 : 4;
    case LINEAR_HEAD:
        return 6;
    case LINEAR_MAIN_PROJ:
    case LINEAR_COUNT:
        break;
    }
    TF_ASSERT(false);
    return 0;
}

static const char *const KINDS[] = {"tiny-bf16",  "tiny-exl3",  "flash",
                                    "bench-bf16", "bench-exl3", NULL};
static const char *const NAMES[] = {"tiny-bf16", "tiny-exl3", "flash", NULL};

const char *const *builtin_kinds(void) {
    return KINDS;
}

const char *const *builtin_names(void) {
    return NAMES;
}

const builtin_model *builtin_find(const char *name) {
    static const builtin_model models[] = {
        {.name = "tiny-bf16",
         .seed = 14,
         .layers = 11,
         .scales = true,
         .markov_boost = 0.4,
         .markov_pairs = &BUILTIN_PAIRS_BF16,
         .shape = &TINY_BF16},
        {.name = "tiny-exl3",
         .seed = 5,
         .layers = 11,
         .scales = true,
         .bits = tiny_bits,
         .markov_boost = 0.2,
         .markov_pairs = &BUILTIN_PAIRS_EXL3,
         .shape = &TINY_EXL3},
        {.name = "flash", .header_only = true, .layers = 40, .bits = flash_bits, .shape = &FLASH},
        {.name = "bench-bf16", .large = true, .seed = 1, .layers = 6, .shape = &BENCH},
        {.name = "bench-exl3",
         .large = true,
         .seed = 1,
         .layers = 6,
         .bits = flash_bits,
         .shape = &BENCH},
    };
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        if (strcmp(models[i].name, name) == 0) return &models[i];
    }
    return NULL;
}

int32_t builtin_token(uint32_t token, uint32_t compressed) {
    if (token >= TINY_IDS_ALONE) token = TINY_IDS_ALONE + (token - TINY_IDS_ALONE) / 2;
    return (int32_t)(token % compressed);
}

static void put(tf_text *out, const char *key, uint64_t value) {
    text_print(out, "  \"%s\": %llu,\n", key, (unsigned long long)value);
}

static void put_text(tf_text *out, const char *key, const char *value) {
    text_print(out, "  \"%s\": %s,\n", key, value);
}

/* One value a line, as the publisher's tool indents; `end` closes the field. */
static void put_ids(tf_text *out, const char *key, const ids *list, const char *end) {
    text_print(out, "  \"%s\": [\n", key);
    for (uint32_t i = 0; i < list->count; i++) {
        text_print(out, "   %llu%s\n", (unsigned long long)list->at[i],
                   i + 1 < list->count ? "," : "");
    }
    text_print(out, "  ]%s\n", end);
}

static void put_basics(const builtin_shape *s, uint32_t layers, tf_text *out) {
    text_add(out, "{\n \"architectures\": [\n  \"DeepseekV41ForCausalLM\"\n ],\n"
                  " \"model_type\": \"deepseek_v41\",\n \"bos_token_id\": 0,\n"
                  " \"eos_token_id\": 1,\n \"pad_token_id\": 2,\n \"text_config\": {\n"
                  "  \"model_type\": \"deepseek_v41_text\",\n");
    put(out, "vocab_size", s->vocab);
    put(out, "num_hidden_layers", layers);
    put(out, "num_attention_heads", s->heads);
    put(out, "num_key_value_heads", 1);
    put(out, "o_groups", s->groups);
    put_text(out, "hidden_act", "\"silu\"");
    put_text(out, "swiglu_limit", s->swiglu_limit);
    put_text(out, "rms_norm_eps", "1e-20");
    put_text(out, "attention_bias", "false");
    put_text(out, "tie_word_embeddings", "false");
    put(out, "max_position_embeddings", s->positions);
    put(out, "rope_theta", 10000);
    text_add(out, "  \"rope_scaling\": {\n   \"rope_type\": \"yarn\",\n   \"factor\": 16,\n"
                  "   \"beta_fast\": 32,\n   \"beta_slow\": 1,\n");
    text_print(out, "   \"original_max_position_embeddings\": %u\n  },\n", s->yarn_original);
    put(out, "n_routed_experts", s->experts);
    put(out, "n_shared_experts", 1);
    put(out, "num_experts_per_tok", s->experts_per_tok);
    put(out, "moe_intermediate_size", s->expert_width);
    put_text(out, "scoring_func", "\"sqrtsoftplus\"");
    put_text(out, "topk_method", "\"noaux_tc\"");
    put_text(out, "norm_topk_prob", "true");
    put_text(out, "routed_scaling_factor", "1.5");
    put(out, "sliding_window", s->window);
}

/* Layers after the model's own continue it: ratio 1, a choice of their own on every even one. */
static void put_layers(const builtin_model *m, uint32_t layers, tf_text *out) {
    const builtin_shape *s = m->shape;
    text_add(out, "  \"compress_ratios\": [\n");
    for (uint32_t i = 0; i < layers; i++) {
        uint32_t ratio = i < s->ratio2_begin ? 0 : i < s->ratio1_begin ? 2 : 1;
        text_print(out, "   %u,\n", ratio);
    }
    text_add(out, "   0,\n   0,\n   0\n  ],\n");
    put(out, "compress_rope_theta", 160000);
    put_ids(out, "kv_source_layer_ids", &s->kv_sources, ",");
    text_add(out, "  \"index_source_layer_ids\": [\n");
    for (uint32_t i = 0; i < s->index_sources.count; i++) {
        text_print(out, "%s   %llu", i == 0 ? "" : ",\n",
                   (unsigned long long)s->index_sources.at[i]);
    }
    for (uint32_t i = m->layers; i < layers; i++) {
        if (i % 2 == 0) text_print(out, ",\n   %u", i);
    }
    text_add(out, "\n  ],\n");
}

static void put_memory(const builtin_shape *s, uint32_t layers, tf_text *out) {
    put(out, "index_n_heads", s->index_heads);
    put(out, "index_topk", s->index_topk);
    put(out, "candidate_source_layer_id", s->candidate_source);
    put(out, "candidate_topk_blocks", s->candidate_blocks);
    put(out, "candidate_block_size", s->candidate_block);
    put(out, "hc_mult", 4);
    put(out, "hc_sinkhorn_iters", 20);
    put_text(out, "hc_eps", "1e-06");
    put_ids(out, "engram_layer_ids", &s->engram_layers, ",");
    put(out, "engram_max_ngram_size", 4);
    put(out, "engram_vocab_size", s->engram_vocab);
    put(out, "engram_n_heads", 8);
    put(out, "engram_head_dim", s->engram_head_dim);
    put(out, "engram_pad_token_id", 2);
    put(out, "engram_compressed_vocab_size", s->engram_compressed);
    put(out, "num_nextn_predict_layers", DRAFT_LAYERS);
    put(out, "dspark_block_size", DRAFT_BLOCK);
    put(out, "dspark_noise_token_id", s->noise_token);
    ids targets = {3, {layers - 3, layers - 2, layers - 1}};
    put_ids(out, "dspark_target_layer_ids", &targets, ",");
    put(out, "dspark_n_routed_experts", s->draft_experts);
    put(out, "dspark_num_experts_per_tok", s->draft_experts_per_tok);
    put(out, "hidden_size", s->hidden);
    put(out, "head_dim", s->head_dim);
    put(out, "qk_rope_head_dim", s->rope_dim);
    put(out, "q_lora_rank", s->q_lora);
    put(out, "o_lora_rank", s->o_lora);
    put(out, "index_head_dim", s->index_head_dim);
    put(out, "dspark_markov_rank", s->markov_rank);
    put_ids(out, "engram_num_embeddings", &s->engram_rows, "");
}

void builtin_config_json(const builtin_model *model, uint32_t target_layers, tf_text *out) {
    TF_ASSERT(target_layers >= model->layers);
    put_basics(model->shape, target_layers, out);
    put_layers(model, target_layers, out);
    put_memory(model->shape, target_layers, out);
    text_add(out, " }");
    if (model->bits != NULL) {
        text_add(out, ",\n \"quantization_config\": {\n  \"quant_method\": \"exl3\",\n"
                      "  \"version\": \"1.4.2\",\n  \"head_bits\": 6,\n"
                      "  \"codebook\": \"mul1\",\n  \"out_scales\": \"always\"\n }");
    }
    text_add(out, "\n}");
}
