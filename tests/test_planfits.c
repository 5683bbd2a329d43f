/* Packs that do not fit their configuration are refused by word; what may differ is planned. */
#include "engine/base/arena.h"
#include "engine/plan/plan.h"
#include "engine/plan/tensors.h"
#include "tests/sample/sample.h"
#include "tests/support/check.h"

#include <stdio.h>
#include <string.h>

static tf_plan *make(check_case *t, const tf_pack *pack, uint32_t world, uint32_t rank,
                     const uint64_t *weights) {
    tf_plan *plan = NULL;
    tf_error err = {0};
    char line[1024];
    tf_status status = plan_make(pack, world, rank, weights, &plan, &err);
    CHECKF(t, status == TF_OK, "%s, rank %u of %u: %s", pack->name, rank, world,
           tf_error_line(&err, line, sizeof line));
    return plan;
}

/* The plan is refused with this word, and the message names `about`. */
static void refused(check_case *t, const tf_pack *pack, uint32_t world, tf_word word,
                    const char *about) {
    tf_plan *plan = NULL;
    tf_error err = {0};
    char line[1024];
    CHECK(t, plan_make(pack, world, 0, NULL, &plan, &err) != TF_OK);
    CHECKF(t, err.word == word && strstr(err.what, about) != NULL, "wanted %s about %s: %s",
           tf_word_text(word), about, tf_error_line(&err, line, sizeof line));
    CHECK(t, plan == NULL);
    plan_free(plan);
}

static void every_missing_tensor_is_named(check_case *t) {
    static const char *const names[] = {"embed.weight",
                                        "head.svh",
                                        "norm.weight",
                                        "layers.0.attn.wq_a.suh",
                                        "layers.0.attn.attn_sink",
                                        "layers.1.engram.embed.scale",
                                        "layers.2.attn.compressor.wgate.trellis",
                                        "layers.6.attn.indexer.weights_proj.weight",
                                        "layers.5.attn.wo_a.slice.7.trellis",
                                        "layers.5.ffn.experts.5.w2.trellis",
                                        "layers.10.ffn.gate.bias",
                                        "mtp.0.main_proj.trellis",
                                        "mtp.2.confidence_head.proj.weight",
                                        "mtp.1.hc_ffn_scale"};
    for (size_t i = 0; i < COUNT(names); i++) {
        tf_pack *pack = sample_pack("tiny-exl3");
        sample_remove(pack, names[i]);
        refused(t, pack, 2, TF_W_MISSING_TENSOR, names[i]);
        sample_free(pack);
    }
    tf_pack *pack = sample_pack("tiny-bf16");
    sample_rename(pack, "layers.2.attn.wo_b.weight", "layers.2.attn.wo_B.weight");
    refused(t, pack, 1, TF_W_MISSING_TENSOR, "layers.2.attn.wo_b.weight");
    sample_free(pack);
}

/* REPORTS 9: what nobody asked for is not ignored. */
static void every_tensor_left_over_is_named(check_case *t) {
    static const struct {
        const char *name;
        tf_word word;
    } extra[] = {
        {"layers.0.attn.wq_c.weight", TF_W_UNEXPECTED_TENSOR},
        {"lm_head.weight", TF_W_UNEXPECTED_TENSOR},
        {"layers.0.ffn.experts.x.w1.weight", TF_W_UNEXPECTED_TENSOR},
        {"layers.0.attn.wq_a.weight2", TF_W_UNEXPECTED_TENSOR},
        {"layers.0.attn.attn_sink2", TF_W_UNEXPECTED_TENSOR},
        {"visions.patch", TF_W_UNEXPECTED_TENSOR},
        {"layers.3.attn.compressor.wkv.weight", TF_W_UNPLANNED_TENSOR},
        {"layers.11.attn_norm.weight", TF_W_UNPLANNED_TENSOR},
        {"layers.0.ffn.experts.6.w1.weight", TF_W_UNPLANNED_TENSOR},
        {"mtp.1.main_norm.weight", TF_W_UNPLANNED_TENSOR},
        {"layers.0.attn.wq_a.trellis.weight", TF_W_UNEXPECTED_TENSOR},
    };
    for (size_t i = 0; i < COUNT(extra); i++) {
        tf_pack *pack = sample_pack("tiny-bf16");
        sample_add(pack, extra[i].name, DTYPE_BF16, 1, (uint64_t[]){64});
        refused(t, pack, 2, extra[i].word, extra[i].name);
        sample_free(pack);
    }
    /* A linear stored in both forms. */
    tf_pack *pack = sample_pack("tiny-exl3");
    sample_add(pack, "layers.4.attn.wkv.weight", DTYPE_BF16, 2, (uint64_t[]){128, 256});
    refused(t, pack, 1, TF_W_UNPLANNED_TENSOR, "layers.4.attn.wkv.weight");
    sample_free(pack);
}

static void what_the_text_model_does_not_read_is_ignored(check_case *t) {
    static const char *const names[] = {"vision.blocks.0.weight", "aligner.proj.weight",
                                        "image_newline", "layers.3.ffn.gate.bias_vl"};
    tf_pack *pack = sample_pack("tiny-bf16");
    tf_plan *without = make(t, pack, 2, 0, NULL);
    if (without == NULL) return;
    for (size_t i = 0; i < COUNT(names); i++)
        sample_add(pack, names[i], DTYPE_F64, 1, (uint64_t[]){3});
    tf_plan *plan = make(t, pack, 2, 0, NULL);
    if (plan == NULL) return;
    CHECK(t, digest_equal(without->fingerprint, plan->fingerprint));
    for (size_t i = 0; i < COUNT(names); i++) {
        CHECK_U64(t, plan->item_of[sample_find(pack, names[i]) - pack->tensors], PLAN_IGNORED);
        CHECK(t, plan_find(plan, names[i]) == NULL);
    }
    plan_free(without);
    plan_free(plan);
    sample_free(pack);
}

static void reshaped(check_case *t, const char *kind, const char *name, uint32_t dims,
                     const uint64_t *shape) {
    tf_pack *pack = sample_pack(kind);
    pack_tensor *tensor = sample_find(pack, name);
    tensor->dims = dims;
    for (uint32_t i = 0; i < dims; i++)
        tensor->shape[i] = shape[i];
    sample_resize(tensor);
    refused(t, pack, 4, TF_W_WRONG_SHAPE, name);
    sample_free(pack);
}

/* REPORTS 3: every name present, half the bytes. */
static void a_tensor_of_half_its_bytes_is_refused(check_case *t) {
    reshaped(t, "tiny-bf16", "layers.0.ffn.experts.1.w1.weight", 2, (uint64_t[]){320, 64});
    reshaped(t, "tiny-bf16", "embed.weight", 2, (uint64_t[]){640, 64});
    reshaped(t, "tiny-exl3", "layers.2.attn.wo_b.trellis", 3, (uint64_t[]){32, 16, 48});
    reshaped(t, "tiny-exl3", "layers.2.attn.wo_b.suh", 1, (uint64_t[]){512});
    reshaped(t, "tiny-exl3", "layers.2.attn.wq_b.svh", 1, (uint64_t[]){1024});
    reshaped(t, "tiny-exl3", "layers.1.engram.embed.scale", 2, (uint64_t[]){2244, 1});
}

static void a_tensor_of_another_shape_is_refused(check_case *t) {
    reshaped(t, "tiny-bf16", "layers.0.attn.wo_b.weight", 2, (uint64_t[]){1024, 64});
    reshaped(t, "tiny-bf16", "layers.0.attn.attn_sink", 2, (uint64_t[]){16, 1});
    reshaped(t, "tiny-bf16", "norm.weight", 0, NULL);
    reshaped(t, "tiny-exl3", "layers.0.attn.wq_a.mul1", 1, (uint64_t[]){1});
    reshaped(t, "tiny-exl3", "layers.0.attn.wq_a.trellis", 3, (uint64_t[]){16, 8, 0});
    reshaped(t, "tiny-exl3", "layers.0.attn.wq_a.trellis", 3, (uint64_t[]){16, 8, 81});
    reshaped(t, "tiny-exl3", "layers.0.attn.wq_a.trellis", 3, (uint64_t[]){16, 8, 144});
    reshaped(t, "tiny-exl3", "layers.0.attn.wq_a.trellis", 2, (uint64_t[]){16, 8});
}

static void a_tensor_of_another_number_format_is_refused(check_case *t) {
    static const char *const names[] = {"layers.3.ffn.experts.2.w2.trellis",
                                        "layers.3.ffn.experts.2.w2.suh", "head.mul1",
                                        "layers.4.attn_norm.weight"};
    for (size_t i = 0; i < COUNT(names); i++) {
        tf_pack *pack = sample_pack("tiny-exl3");
        pack_tensor *tensor = sample_find(pack, names[i]);
        tensor->dtype = DTYPE_F32;
        sample_resize(tensor);
        refused(t, pack, 1, TF_W_WRONG_DTYPE, names[i]);
        sample_free(pack);
    }
}

static void codebooks_that_differ_are_refused(check_case *t) {
    tf_pack *pack = sample_pack("tiny-exl3");
    sample_rename(pack, "layers.3.ffn.experts.2.w2.mul1", "layers.3.ffn.experts.2.w2.mcg");
    refused(t, pack, 1, TF_W_CODEBOOKS_DIFFER, "layers.3.ffn.experts.2.w2");
    sample_free(pack);
    pack = sample_pack("tiny-exl3");
    sample_remove(pack, "layers.3.attn.wo_a.slice.6.mul1");
    refused(t, pack, 2, TF_W_CODEBOOKS_DIFFER, "layers.3.attn.wo_a.slice.6");
    sample_free(pack);
    pack = sample_pack("tiny-exl3");
    sample_add(pack, "head.mcg", DTYPE_I32, 0, NULL);
    refused(t, pack, 1, TF_W_CODEBOOKS_DIFFER, "head");
    sample_free(pack);
}

static void one_other_codebook_for_all_is_fine(check_case *t) {
    tf_pack *pack = sample_pack("tiny-exl3");
    for (uint32_t i = 0; i < pack->tensor_count; i++) {
        char name[128];
        size_t n = strlen(pack->tensors[i].name);
        if (n < 5 || strcmp(pack->tensors[i].name + n - 5, ".mul1") != 0) continue;
        snprintf(name, sizeof name, "%.*s.mcg", (int)(n - 5), pack->tensors[i].name);
        pack->tensors[i].name = arena_copy(&pack->arena, name, strlen(name));
    }
    tf_plan *plan = make(t, pack, 2, 0, NULL);
    if (plan == NULL) return;
    CHECK(t, plan != NULL && plan_find(plan, "head.mcg") != NULL);
    plan_free(plan);
    sample_free(pack);
}

static void widths_inside_one_projection_may_differ(check_case *t) {
    tf_pack *pack = sample_pack("tiny-exl3");
    pack_tensor *wide = sample_find(pack, "layers.3.ffn.experts.2.w1.trellis");
    wide->shape[2] = 40; /* two and a half bits */
    sample_resize(wide);
    tf_plan *plan = make(t, pack, 3, 1, NULL);
    if (plan == NULL) return;
    const plan_item *item = plan_find(plan, "layers.3.ffn.experts.2.w1.trellis");
    const plan_item *other = plan_find(plan, "layers.3.ffn.experts.3.w1.trellis");
    if (CHECK(t, item != NULL && other != NULL)) {
        CHECK_U64(t, item->bytes, 16 * 16 * 40 * 2);
        CHECK_U64(t, item->spans[0].offset, 16 * 40 * 2);
        CHECK_U64(t, item->shape[2], 40);
        CHECK_U64(t, other->bytes, 16 * 16 * 32 * 2);
        CHECK_U64(t, other->shape[2], 32);
    }
    plan_free(plan);
    sample_free(pack);
}

static void set_shape(tf_pack *pack, const char *name, uint32_t dim, uint64_t size) {
    pack_tensor *tensor = sample_find(pack, name);
    tensor->shape[dim] = size;
    sample_resize(tensor);
}

static void a_cut_inside_a_block_is_refused(check_case *t) {
    tf_pack *pack = sample_pack("tiny-bf16");
    pack->config.expert_width = 700;
    refused(t, pack, 1, TF_W_SPLIT_NOT_ON_BLOCK, "expert width");
    pack->config.expert_width = 640;
    pack->config.vocab = 1300;
    refused(t, pack, 1, TF_W_SPLIT_NOT_ON_BLOCK, "vocabulary");
    pack->config.vocab = 1280;
    pack->config.heads = 12; /* over 8 groups */
    set_shape(pack, "layers.0.attn.wq_b.weight", 0, 12 * 64);
    set_shape(pack, "layers.0.attn.attn_sink", 0, 12);
    refused(t, pack, 1, TF_W_SPLIT_NOT_ON_BLOCK, "layers.0.attn.attn_sink");
    sample_free(pack);

    /* Groups of 64 columns: whole at 2 ranks (256), inside a block at 3 (192). */
    pack = sample_pack("tiny-exl3");
    pack->config.heads = 8;
    pack->config.head_dim = 64;
    set_shape(pack, "layers.0.attn.wq_b.trellis", 1, 32);
    set_shape(pack, "layers.0.attn.wq_b.svh", 0, 512);
    refused(t, pack, 3, TF_W_SPLIT_NOT_ON_BLOCK, "layers.0.attn.wq_b");
    refused(t, pack, 2, TF_W_WRONG_SHAPE, "layers.0.attn.wkv.trellis");
    sample_free(pack);
}

static void the_table_knows_names_and_ignored_ones(check_case *t) {
    CHECK(t, tensor_is_known("layers.123.ffn.experts.456.w3.trellis"));
    CHECK(t, tensor_is_known("head.mcg") && tensor_is_known("mtp.9.norm.weight"));
    CHECK(t, !tensor_is_known("layers.norm.weight") && !tensor_is_known("layers.1.embed.weight"));
    CHECK(t, !tensor_is_known("head") && !tensor_is_known("head.mcg2") && !tensor_is_known(""));
    CHECK(t, tensor_is_ignored("vision.a") && !tensor_is_ignored("layers.0.vision.a"));
    CHECK(t, !tensor_is_ignored("layers.0.ffn.gate.bias"));
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"plan/every-missing-tensor-is-named", every_missing_tensor_is_named},
        {"plan/every-tensor-left-over-is-named", every_tensor_left_over_is_named},
        {"plan/what-the-text-model-does-not-read-is-ignored",
         what_the_text_model_does_not_read_is_ignored},
        {"plan/a-tensor-of-half-its-bytes-is-refused", a_tensor_of_half_its_bytes_is_refused},
        {"plan/a-tensor-of-another-shape-is-refused", a_tensor_of_another_shape_is_refused},
        {"plan/a-tensor-of-another-number-format-is-refused",
         a_tensor_of_another_number_format_is_refused},
        {"plan/codebooks-that-differ-are-refused", codebooks_that_differ_are_refused},
        {"plan/one-other-codebook-for-all-is-fine", one_other_codebook_for_all_is_fine},
        {"plan/widths-inside-one-projection-may-differ", widths_inside_one_projection_may_differ},
        {"plan/a-cut-inside-a-block-is-refused", a_cut_inside_a_block_is_refused},
        {"plan/the-table-knows-names-and-ignored-ones", the_table_knows_names_and_ignored_ones},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
