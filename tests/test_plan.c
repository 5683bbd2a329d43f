/* Plans: their text, their sums, what they refuse.  Which bytes they select: test_planbytes.c. */
#include "engine/base/arena.h"
#include "engine/base/fault.h"
#include "engine/plan/parts.h"
#include "engine/plan/plan.h"
#include "engine/plan/tensors.h"
#include "tests/sample/sample.h"
#include "tests/support/check.h"

#include <stdio.h>
#include <stdlib.h>
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

/* ---- text and fingerprint ------------------------------------------------------------------- */

static void has_line(check_case *t, const tf_plan *plan, const char *line) {
    char text[512];
    snprintf(text, sizeof text, "\n%s\n", line);
    CHECKF(t, strstr(plan_text(plan), text) != NULL, "no line '%s'", line);
}

static void text_says_what_is_where(check_case *t) {
    tf_pack *pack = sample_pack("tiny-exl3");
    tf_plan *plan = make(t, pack, 3, 2, NULL);
    CHECK(t, strncmp(plan_text(plan), "plan 1 deepseek_v41 world 3 rank 2\nconfig ", 42) == 0);
    CHECK(t, strstr(plan_text(plan), "\nweights") == NULL);
    has_line(t, plan, "share output-groups 8 [0,3) [3,6) [6,8)");
    has_line(t, plan, "share expert-blocks 5 [0,2) [2,4) [4,5)");
    has_line(t, plan, "share vocabulary-blocks 10 [0,4) [4,7) [7,10)");
    has_line(t, plan, "share hash-columns 24 [0,8) [8,16) [16,24)");
    has_line(t, plan,
             "trellis layers.0.ffn.experts.0.w1.trellis -> layers.0.ffn.experts.0.w1.trellis I16 "
             "16x40x32 columns expert-blocks [4,5) spans=2048:512:2560:16 bytes=8192");
    has_line(t, plan,
             "trellis layers.0.ffn.experts.0.w2.trellis -> layers.0.ffn.experts.0.w2.trellis I16 "
             "40x16x32 rows expert-blocks [4,5) spans=32768:8192:0:1 bytes=8192");
    has_line(t, plan,
             "suh mtp.2.attn.wo_b.suh -> mtp.2.attn.wo_b.suh F16 1024 rows output-groups [6,8) "
             "spans=1536:512:0:1 bytes=512");
    has_line(t, plan,
             "marker layers.3.attn.wo_a.slice.7.mul1 -> layers.3.attn.wo_a.slice.7.mul1 I32 scalar "
             "pick output-groups [7,8) spans=0:4:0:1 bytes=4");
    has_line(t, plan,
             "tensor layers.9.attn.attn_sink -> layers.9.attn.attn_sink F32 16 rows output-groups "
             "[6,8) spans=48:16:0:1 bytes=16");
    has_line(t, plan,
             "tensor norm.weight -> norm.weight BF16 256 whole none [0,0) "
             "spans=0:512:0:1 bytes=512");
    plan_free(plan);
    sample_free(pack);
}

static void plain_linears_are_cut_by_runs(check_case *t) {
    tf_pack *pack = sample_pack("tiny-bf16");
    tf_plan *plan = make(t, pack, 2, 1, NULL);
    has_line(t, plan,
             "linear layers.0.attn.wq_b.weight -> layers.0.attn.wq_b.weight BF16 1024x64 columns "
             "output-groups [4,8) spans=65536:65536:0:1 bytes=65536");
    has_line(t, plan,
             "linear layers.0.attn.wo_b.weight -> layers.0.attn.wo_b.weight BF16 64x1024 rows "
             "output-groups [4,8) spans=1024:1024:2048:64 bytes=65536");
    plan_free(plan);
    sample_free(pack);
}

static void fingerprint_is_that_of_the_text(check_case *t) {
    tf_pack *pack = sample_pack("tiny-exl3");
    for (uint32_t r = 0; r < 2; r++) {
        tf_plan *plan = make(t, pack, 2, r, NULL);
        CHECK(t, digest_equal(plan->fingerprint, digest_str(plan_text(plan))));
        CHECK(t, plan_text(plan) == plan_text(plan));
        plan_free(plan);
    }
    sample_free(pack);
}

static tf_digest fingerprint(check_case *t, const tf_pack *pack, uint32_t world, uint32_t rank,
                             const uint64_t *weights) {
    tf_plan *plan = make(t, pack, world, rank, weights);
    tf_digest d = plan == NULL ? (tf_digest){{0}} : plan->fingerprint;
    plan_free(plan);
    return d;
}

static void fingerprints_tell_plans_apart(check_case *t) {
    tf_pack *pack = sample_pack("tiny-bf16");
    tf_digest seen[20];
    size_t count = 0;
    for (uint32_t world = 1; world <= 4; world++) {
        for (uint32_t r = 0; r < world; r++)
            seen[count++] = fingerprint(t, pack, world, r, NULL);
    }
    seen[count++] = fingerprint(t, pack, 2, 0, (uint64_t[]){2, 1});
    seen[count++] = fingerprint(t, pack, 2, 0, (uint64_t[]){1, 2});
    pack->digest = digest_str("other bytes");
    seen[count++] = fingerprint(t, pack, 1, 0, NULL);
    pack->config.digest = digest_str("other config");
    seen[count++] = fingerprint(t, pack, 1, 0, NULL);
    for (size_t a = 0; a < count; a++) {
        for (size_t b = a + 1; b < count; b++)
            CHECKF(t, !digest_equal(seen[a], seen[b]), "plans %zu and %zu look the same", a, b);
    }
    CHECK(t, digest_equal(seen[count - 1], fingerprint(t, pack, 1, 0, NULL)));
    sample_free(pack);
}

static void weights_count_in_lowest_terms(check_case *t) {
    tf_pack *pack = sample_pack("tiny-bf16");
    tf_digest even = fingerprint(t, pack, 3, 1, NULL);
    CHECK(t, digest_equal(even, fingerprint(t, pack, 3, 1, (uint64_t[]){9, 9, 9})));
    tf_digest uneven = fingerprint(t, pack, 3, 1, (uint64_t[]){2, 1, 1});
    CHECK(t, digest_equal(uneven, fingerprint(t, pack, 3, 1, (uint64_t[]){4, 2, 2})));
    CHECK(t, !digest_equal(uneven, even));
    tf_plan *plan = make(t, pack, 3, 1, (uint64_t[]){4, 2, 2});
    has_line(t, plan, "weights 2 1 1");
    has_line(t, plan, "share output-groups 8 [0,4) [4,6) [6,8)");
    plan_free(plan);
    sample_free(pack);
}

/* ---- the whole ------------------------------------------------------------------------------ */

static void byte_counts_add_up(check_case *t) {
    tf_pack *pack = sample_pack("tiny-exl3");
    uint64_t stored = 0, once = 0, whole = 0;
    for (uint32_t i = 0; i < pack->tensor_count; i++)
        stored += pack->tensors[i].bytes;
    for (uint32_t r = 0; r < 3; r++) {
        tf_plan *plan = make(t, pack, 3, r, NULL);
        uint64_t items = 0, categories = 0;
        for (uint32_t i = 0; i < plan->item_count; i++) {
            items += plan->items[i].bytes;
            if (plan->items[i].unit != UNIT_NONE) once += plan->items[i].bytes;
            if (plan->items[i].unit == UNIT_NONE && r == 0) whole += plan->items[i].bytes;
        }
        for (int c = 0; c < (int)BYTES_CATEGORIES; c++) {
            categories += plan->category_bytes[c];
            CHECKF(t, plan->category_bytes[c] > 0, "nothing is %s",
                   plan_category_name((plan_category)c));
        }
        CHECK_U64(t, plan->bytes, items);
        CHECK_U64(t, categories, items);
        plan_free(plan);
    }
    CHECK_U64(t, once + whole, stored);
    sample_free(pack);
}

static void items_of_a_layer_are_one_run(check_case *t) {
    tf_pack *pack = sample_pack("tiny-bf16");
    tf_plan *plan = make(t, pack, 4, 3, NULL);
    uint32_t next = 0, begin, end;
    for (uint32_t slot = 0; slot <= pack->config.layers; slot++) {
        uint32_t layer = slot == 0 ? CONFIG_NONE : slot - 1;
        plan_layer_items(plan, layer, &begin, &end);
        CHECK_U64(t, begin, next);
        for (uint32_t i = begin; i < end; i++)
            CHECKF(t, plan->items[i].layer == layer, "item %u is of another layer", i);
        next = end;
    }
    CHECK_U64(t, next, plan->item_count);
    plan_layer_items(plan, 11, &begin, &end);
    CHECK_STR(t, plan->items[begin].image, "mtp.0.main_proj.weight");
    plan_free(plan);
    sample_free(pack);
}

static void find_knows_this_ranks_items_only(check_case *t) {
    tf_pack *pack = sample_pack("tiny-bf16");
    tf_plan *plan = make(t, pack, 2, 1, NULL);
    for (uint32_t i = 0; i < plan->item_count; i++)
        CHECK(t, plan_find(plan, plan->items[i].image) == &plan->items[i]);
    CHECK(t, plan_find(plan, "layers.0.attn.wo_a.slice.3.weight") == NULL);
    CHECK(t, plan_find(plan, "layers.0.attn.wo_a.slice.4.weight") != NULL);
    CHECK(t, plan_find(plan, "layers.0.attn") == NULL && plan_find(plan, "zz") == NULL);
    plan_free(plan);
    sample_free(pack);
}

/* Every name of the real model's inventory has its place, and no byte is lost or doubled. */
static void flash_is_covered_over_all_ranks(check_case *t) {
    tf_pack *pack = sample_pack("flash");
    uint64_t *owned = mem_take(pack->tensor_count * sizeof *owned);
    for (uint32_t r = 0; r < 3; r++) {
        tf_plan *plan = make(t, pack, 3, r, NULL);
        if (plan == NULL) break;
        for (uint32_t i = 0; i < pack->tensor_count; i++) {
            if (plan->item_of[i] >= plan->item_count) continue;
            const plan_item *item = &plan->items[plan->item_of[i]];
            if (item->unit != UNIT_NONE) owned[i] += item->bytes;
            if (item->unit == UNIT_NONE) owned[i] = item->bytes;
        }
        plan_free(plan);
    }
    for (uint32_t i = 0; i < pack->tensor_count; i++) {
        if (!CHECKF(t, owned[i] == pack->tensors[i].bytes, "%s: %llu bytes of %llu",
                    pack->tensors[i].name, (unsigned long long)owned[i],
                    (unsigned long long)pack->tensors[i].bytes))
            break;
    }
    mem_free(owned);
    sample_free(pack);
}

static void cut_selects_the_box(check_case *t) {
    check_random r = check_seed(t);
    for (int round = 0; round < 2000; round++) {
        pack_tensor tensor = {.dtype = DTYPE_F32, .dims = 1 + (uint32_t)check_below(&r, 3)};
        uint64_t s[3] = {1, 1, 1}, want = 0;
        for (uint32_t i = 0; i < tensor.dims; i++)
            s[i] = tensor.shape[i] = 1 + check_below(&r, 6);
        sample_resize(&tensor);
        uint32_t dim = (uint32_t)check_below(&r, tensor.dims);
        uint64_t begin = check_below(&r, s[dim]), end = begin + 1 + check_below(&r, s[dim] - begin);
        plan_span span = plan_cut(&tensor, dim, begin, end);
        /* The bytes of the elements inside, walked in order, are the bytes of the runs in order. */
        for (uint64_t flat = 0; flat < s[0] * s[1] * s[2]; flat++) {
            uint64_t index[3] = {flat / (s[1] * s[2]), flat / s[2] % s[1], flat % s[2]};
            if (index[dim] < begin || index[dim] >= end) continue;
            uint64_t at = span.offset + want / span.length * span.stride + want % span.length;
            if (!CHECKF(t, at == flat * 4, "element %llu: byte %llu", (unsigned long long)flat,
                        (unsigned long long)at))
                return;
            want += 4;
        }
        if (!CHECK_U64(t, span.length * span.count, want)) return;
        CHECK(t, span.count > 1 || span.stride == 0);
    }
}

/* ---- who may ask ---------------------------------------------------------------------------- */

static void note_plan(void *context, tf_op op, uint32_t world) {
    if (op == TF_OP_PLAN) *(uint32_t *)context = world;
}

static void admission_is_asked_before_the_pack_is_touched(check_case *t) {
    static const uint32_t worlds[] = {0, 5, 6, 7, 9, 300};
    uint32_t asked = 0;
    admission_spy(note_plan, &asked);
    for (size_t i = 0; i < COUNT(worlds); i++)
        refused(t, NULL, worlds[i], TF_W_WORLD_NOT_ADMITTED, "asking for plan");
    admission_spy(NULL, NULL);
    CHECK_U64(t, asked, 300);
}

static void a_rank_outside_its_world_is_refused(check_case *t) {
    tf_pack *pack = sample_pack("tiny-bf16");
    tf_plan *plan = NULL;
    tf_error err = {0};
    CHECK_U64(t, plan_make(pack, 3, 3, NULL, &plan, &err), TF_USAGE);
    CHECK_U64(t, err.word, TF_W_BAD_RANK);
    CHECK_STR(t, err.expected, "0 to 2 at 3 ranks");
    sample_free(pack);
}

/* REPORTS 6: a rank that would get nothing starts anyway. */
static void a_rank_without_an_expert_block_is_refused(check_case *t) {
    tf_pack *pack = sample_pack("tiny-bf16");
    refused(t, pack, 8, TF_W_RANK_WITHOUT_UNIT, "expert blocks");
    tf_plan *plan = NULL;
    tf_error err = {0};
    CHECK_U64(t, plan_make(pack, 3, 0, (uint64_t[]){1, 0, 1}, &plan, &err), TF_REFUSED);
    CHECK_U64(t, err.word, TF_W_RANK_WITHOUT_UNIT);
    err = (tf_error){0};
    CHECK_U64(t, plan_make(pack, 3, 0, (uint64_t[]){0, 0, 0}, &plan, &err), TF_USAGE);
    CHECK_U64(t, err.word, TF_W_BAD_WEIGHTS);
    sample_free(pack);
}

/* ---- packs that do not fit ------------------------------------------------------------------ */

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
    tf_digest before = fingerprint(t, pack, 2, 0, NULL);
    for (size_t i = 0; i < COUNT(names); i++)
        sample_add(pack, names[i], DTYPE_F64, 1, (uint64_t[]){3});
    tf_plan *plan = make(t, pack, 2, 0, NULL);
    CHECK(t, digest_equal(before, plan->fingerprint));
    for (size_t i = 0; i < COUNT(names); i++) {
        CHECK_U64(t, plan->item_of[sample_find(pack, names[i]) - pack->tensors], PLAN_IGNORED);
        CHECK(t, plan_find(plan, names[i]) == NULL);
    }
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

static void survives_every_failed_allocation(check_case *t) {
#ifdef TF_FAULT
    tf_pack *pack = sample_pack("tiny-bf16");
    uint64_t n = 1;
    for (; n < 1000; n++) {
        tf_plan *plan = NULL;
        tf_error err = {0};
        fault_arm(FAULT_ALLOC, n);
        tf_status status = plan_make(pack, 3, 1, NULL, &plan, &err);
        bool fired = fault_fired(FAULT_ALLOC);
        fault_arm(FAULT_ALLOC, 0);
        CHECKF(t, fired == (status == TF_NO_MEMORY) && (plan != NULL) == (status == TF_OK),
               "allocation %llu: status %d", (unsigned long long)n, (int)status);
        if (fired) CHECK(t, err.word == TF_W_NO_MEMORY || err.word == TF_W_TEXT_BROKEN);
        plan_free(plan);
        if (!fired) break;
    }
    CHECK(t, n > 5 && n < 1000);
    sample_free(pack);
#else
    check_skip(t, "this build injects no faults");
#endif
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"plan/text-says-what-is-where", text_says_what_is_where},
        {"plan/plain-linears-are-cut-by-runs", plain_linears_are_cut_by_runs},
        {"plan/fingerprint-is-that-of-the-text", fingerprint_is_that_of_the_text},
        {"plan/fingerprints-tell-plans-apart", fingerprints_tell_plans_apart},
        {"plan/weights-count-in-lowest-terms", weights_count_in_lowest_terms},
        {"plan/byte-counts-add-up", byte_counts_add_up},
        {"plan/items-of-a-layer-are-one-run", items_of_a_layer_are_one_run},
        {"plan/find-knows-this-ranks-items-only", find_knows_this_ranks_items_only},
        {"plan/flash-is-covered-over-all-ranks", flash_is_covered_over_all_ranks},
        {"plan/cut-selects-the-box", cut_selects_the_box},
        {"plan/admission-is-asked-before-the-pack-is-touched",
         admission_is_asked_before_the_pack_is_touched},
        {"plan/a-rank-outside-its-world-is-refused", a_rank_outside_its_world_is_refused},
        {"plan/a-rank-without-an-expert-block-is-refused",
         a_rank_without_an_expert_block_is_refused},
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
        {"plan/survives-every-failed-allocation", survives_every_failed_allocation},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
