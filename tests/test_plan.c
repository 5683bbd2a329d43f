/* Plans: their text, their sums, who may ask.  Which bytes they select: test_planbytes.c; which
 * packs they refuse: test_planfits.c. */
#include "engine/base/arena.h"
#include "engine/base/fault.h"
#include "engine/plan/parts.h"
#include "engine/plan/plan.h"
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
    if (plan == NULL) return;
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
    if (plan == NULL) return;
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
        if (plan == NULL) return;
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
    if (plan == NULL) return;
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
        if (plan == NULL) return;
        uint64_t items = 0, categories = 0, drafts = 0;
        for (uint32_t i = 0; i < plan->item_count; i++) {
            items += plan->items[i].bytes;
            if (plan->items[i].unit != UNIT_NONE) once += plan->items[i].bytes;
            if (plan->items[i].unit == UNIT_NONE && r == 0) whole += plan->items[i].bytes;
            if (strncmp(plan->items[i].image, "mtp.", 4) == 0) drafts += plan->items[i].bytes;
        }
        CHECK_U64(t, plan->category_bytes[BYTES_DRAFT], drafts);
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
    if (plan == NULL) return;
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
    if (plan == NULL) return;
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

static void parts_must_add_up_to_the_tensor(check_case *t) {
    pack_tensor tensor = {.name = "x", .dtype = DTYPE_F32, .dims = 2, .shape = {8, 6}};
    sample_resize(&tensor);
    static const plan_bounds good = {2, {0, 4, 6}};
    static const plan_bounds bad[] = {{2, {0, 4, 5}}, {2, {1, 4, 6}}, {2, {0, 4, 7}}};
    plan_piece part = {.shape = {8, 6}};
    tf_error err = {0};
    CHECK_U64(t, plan_take_part(&tensor, &good, 1, 1, 1, &part, &err), TF_OK);
    CHECK_U64(t, part.span.offset, 16);
    CHECK_U64(t, part.span.count, 8);
    CHECK_U64(t, part.shape[1], 2);
    for (size_t i = 0; i < COUNT(bad); i++) {
        err = (tf_error){0};
        CHECK_U64(t, plan_take_part(&tensor, &bad[i], 1, 1, 1, &part, &err), TF_INTERNAL);
        CHECK_U64(t, err.word, TF_W_BYTES_NOT_OWNED_ONCE);
    }
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

/* The pack has no tensor at all: whoever looks at it first says so. */
static void admission_is_asked_before_the_pack_is_looked_at(check_case *t) {
    static const uint32_t worlds[] = {0, 5, 6, 7, 9, 256};
    tf_pack *pack = sample_pack("tiny-bf16");
    pack->tensor_count = 0;
    uint32_t asked = 0;
    admission_spy(note_plan, &asked);
    for (size_t i = 0; i < COUNT(worlds); i++)
        refused(t, pack, worlds[i], TF_W_WORLD_NOT_ADMITTED, "asking for plan");
    admission_spy(NULL, NULL);
    CHECK_U64(t, asked, 256);
    sample_free(pack);
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
        {"plan/parts-must-add-up-to-the-tensor", parts_must_add_up_to_the_tensor},
        {"plan/cut-selects-the-box", cut_selects_the_box},
        {"plan/admission-is-asked-before-the-pack-is-looked-at",
         admission_is_asked_before_the_pack_is_looked_at},
        {"plan/a-rank-outside-its-world-is-refused", a_rank_outside_its_world_is_refused},
        {"plan/a-rank-without-an-expert-block-is-refused",
         a_rank_without_an_expert_block_is_refused},
        {"plan/survives-every-failed-allocation", survives_every_failed_allocation},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
