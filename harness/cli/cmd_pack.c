/* pack inspect|synth, rank write|digest|verify: files in and files out. */
#include "engine/tf.h"
#include "harness/cli/commands.h"
#include "harness/cli/out.h"
#include "harness/cli/progress.h"
#include "harness/cli/session.h"
#include "harness/cli/subject.h"

#include <stdio.h>
#include <string.h>

/* ---- pack ---- */

static tf_status run_inspect(const session *s, const args *a, tf_error *err) {
    tf_status status = TF_OK;
    tf_pack *pack = NULL;
    tf_text out = {0};
    TF_TRY(tf_pack_open(a->operands[0], s->cache, &pack, err));
    tf_pack_describe(pack, a->given[OPT_JSON], &out);
    TF_TRY(out_text(&out, err));
done:
    text_free(&out);
    tf_pack_close(pack);
    return status;
}

static tf_status run_synth(const session *s, const args *a, tf_error *err) {
    (void)s;
    progress shown = {.what = "making the pack"};
    if (a->given[OPT_LAYERS] &&
        (a->number[OPT_LAYERS] == 0 || a->number[OPT_LAYERS] > TF_LAYERS_MAX)) {
        tf_fail(err, TF_W_USAGE, "reading --layers");
        tf_found(err, "%s", a->text[OPT_LAYERS]);
        return tf_expected(err, "1 to %u", TF_LAYERS_MAX);
    }
    tf_status status = tf_pack_synth(a->operands[0], a->operands[1],
                                     (uint32_t)a->number[OPT_LAYERS], progress_tick, &shown, err);
    progress_end(&shown);
    return status;
}

/* ---- rank files ---- */

static tf_rank_options rank_options(const args *a, progress *shown) {
    return (tf_rank_options){.workers = (uint32_t)a->number[OPT_WORKERS],
                             .resume = a->given[OPT_RESUME],
                             .progress = progress_tick,
                             .context = shown};
}

static tf_status write_rank(const subject *on, uint32_t rank, const args *a, tf_error *err) {
    tf_status status = TF_OK;
    tf_plan *plan = NULL;
    tf_digest digest;
    tf_text line = {0};
    char what[48];
    char hex[DIGEST_HEX];
    snprintf(what, sizeof what, "writing rank %u", rank);
    progress shown = {.what = what};
    tf_rank_options options = rank_options(a, &shown);
    tf_split split = on->split;
    split.rank = rank;
    TF_TRY(tf_plan_make(on->pack, &split, &plan, err));
    TF_TRY(tf_rank_write(plan, a->operands[0], &options, &digest, err));
    digest_hex(digest, hex);
    if (a->given[OPT_JSON])
        text_print(&line, "{\"world\":%u,\"rank\":%u,\"digest\":\"%s\"}\n", split.world, rank, hex);
    else
        text_print(&line, "rank %u of %u  %s\n", rank, split.world, hex);
    progress_end(&shown);
    TF_TRY(out_text(&line, err));
done:
    progress_end(&shown);
    text_free(&line);
    tf_plan_close(plan);
    return status;
}

static tf_status run_rank_write(const session *s, const args *a, tf_error *err) {
    tf_status status = TF_OK;
    subject on = {0};
    TF_TRY(subject_open(s, a, "rank files", &on, err));
    if (a->given[OPT_RANK]) {
        TF_TRY(write_rank(&on, on.split.rank, a, err));
        goto done;
    }
    /* At least one plan is asked for, so that world 0 is refused there. */
    for (uint32_t rank = 0; rank == 0 || rank < on.split.world; rank++)
        TF_TRY(write_rank(&on, rank, a, err));
done:
    subject_close(&on);
    return status;
}

static tf_status run_rank_digest(const session *s, const args *a, tf_error *err) {
    tf_status status = TF_OK;
    subject on = {0};
    tf_plan *plan = NULL;
    tf_text text = {0};
    tf_digest digest;
    char hex[DIGEST_HEX];
    progress shown = {.what = "digesting"};
    tf_rank_options options = rank_options(a, &shown);
    TF_TRY(subject_need_rank(a, err));
    TF_TRY(subject_open(s, a, "rank files", &on, err));
    TF_TRY(tf_plan_make(on.pack, &on.split, &plan, err));
    TF_TRY(tf_rank_text(plan, &options, &text, &digest, err));
    progress_end(&shown);
    if (a->given[OPT_JSON]) {
        text_clear(&text);
        text_print(&text, "{\"world\":%u,\"rank\":%u,\"digest\":\"%s\"}\n", on.split.world,
                   on.split.rank, digest_hex(digest, hex));
    }
    TF_TRY(out_text(&text, err));
done:
    progress_end(&shown);
    text_free(&text);
    tf_plan_close(plan);
    subject_close(&on);
    return status;
}

static tf_status parse_verify(const args *a, tf_verify *mode, tf_error *err) {
    static const char *const names[] = {"none", "sample", "full"};
    static const tf_verify modes[] = {TF_VERIFY_NONE, TF_VERIFY_SAMPLE, TF_VERIFY_FULL};
    *mode = TF_VERIFY_FULL;
    if (!a->given[OPT_VERIFY]) return TF_OK;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(a->text[OPT_VERIFY], names[i]) == 0) {
            *mode = modes[i];
            return TF_OK;
        }
    tf_fail(err, TF_W_USAGE, "reading --verify");
    tf_found(err, "'%s'", a->text[OPT_VERIFY]);
    return tf_expected(err, "none, sample or full");
}

static tf_status run_rank_verify(const session *s, const args *a, tf_error *err) {
    tf_status status = TF_OK;
    subject on = {0};
    tf_plan *plan = NULL;
    tf_text report = {0};
    tf_verify mode;
    progress shown = {.what = "verifying"};
    tf_rank_options options = rank_options(a, &shown);
    TF_TRY(parse_verify(a, &mode, err));
    if (a->given[OPT_PACK]) {
        TF_TRY(subject_need_rank(a, err));
        TF_TRY(subject_open(s, a, "rank files", &on, err));
        TF_TRY(tf_plan_make(on.pack, &on.split, &plan, err));
    }
    status = tf_rank_verify(a->operands[0], plan, mode, a->given[OPT_JSON], &options, &report, err);
    progress_end(&shown);
    out_string(text_str(&report));
done:
    text_free(&report);
    tf_plan_close(plan);
    subject_close(&on);
    return status;
}

const command pack_commands[] = {
    {"pack inspect", "PACK", "what is in a pack: layers, tensors, bytes, EXL3 bits",
     "PACK is a directory with config.json and safetensors files, or a built-in name, which is made\n"
     "on first use.\n\n"
     "Examples\n"
     "  tfverify pack inspect tiny-exl3\n"
     "  tfverify pack inspect /models/release --json\n",
     OPT(JSON) | OPT(ROOT), 1, 1, run_inspect},
    {"pack synth", "KIND DIR",
     "make a pack by recipe: tiny-bf16, tiny-exl3, flash (headers only), bench-bf16, bench-exl3",
     "The bench packs are wide, for figures of speed: 3.0 and 0.7 GB.\n\n"
     "Examples\n"
     "  tfverify pack synth tiny-exl3 /tmp/pack\n"
     "  tfverify pack synth tiny-exl3 /tmp/large --layers 200\n",
     OPT(LAYERS) | OPT(ROOT), 2, 2, run_synth},
    {"rank write", "OUT", "write the rank files of one rank, or of all, under OUT/rank<r>",
     "A file appears whole or not at all; after an interruption --resume keeps the whole ones.\n\n"
     "Examples\n"
     "  tfverify rank write --pack tiny-exl3 --world 3 /tmp/out\n"
     "  tfverify rank write --pack tiny-exl3 --world 3 --rank 2 --resume /tmp/out\n",
     OPT(PACK) | OPT(WORLD) | OPT(RANK) | OPT(WEIGHTS) | OPT(RESUME) | OPT(WORKERS) | OPT(JSON) |
         OPT(ROOT),
     1, 1, run_rank_write},
    {"rank digest", "", "per file its name, length and digest, without writing anything",
     "Examples\n"
     "  tfverify rank digest --pack tiny-exl3 --world 3 --rank 2\n",
     OPT(PACK) | OPT(WORLD) | OPT(RANK) | OPT(WEIGHTS) | OPT(WORKERS) | OPT(JSON) | OPT(ROOT), 0, 0,
     run_rank_digest},
    {"rank verify", "OUT", "check the rank files under OUT against themselves, and against a plan",
     "Examples\n"
     "  tfverify rank verify /tmp/out\n"
     "  tfverify rank verify /tmp/out --pack tiny-exl3 --world 3 --rank 2\n"
     "  tfverify rank verify /tmp/out --verify none --json\n",
     OPT(PACK) | OPT(WORLD) | OPT(RANK) | OPT(WEIGHTS) | OPT(VERIFY) | OPT(WORKERS) | OPT(JSON) |
         OPT(ROOT),
     1, 1, run_rank_verify},
    {NULL, NULL, NULL, NULL, 0, 0, 0, NULL},
};
