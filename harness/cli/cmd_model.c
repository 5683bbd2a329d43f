/* generate: prompts through a model, its ranks as threads or as the processes of mpirun.
 * diverge: where two such runs part. */
#include "engine/base/arena.h"
#include "engine/tf.h"
#include "harness/cli/commands.h"
#include "harness/cli/out.h"
#include "harness/cli/progress.h"
#include "harness/cli/prompts.h"
#include "harness/cli/session.h"
#include "harness/cli/subject.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Everything of one call; zeroed, then closed whatever was reached. */
typedef struct job {
    const args *a;
    subject on;
    prompts prompts;
    tf_prompt *list;    /* [prompts.count] */
    tf_generated *made; /* likewise */
    uint32_t tokens;
    tf_model_options options;
    tf_model *model;
    tf_timing timing;
    progress shown;
    char fault[64]; /* --fault, cut at its colons */
} job;

static void job_close(job *j) {
    progress_end(&j->shown);
    tf_model_close(j->model);
    for (uint32_t i = 0; j->made != NULL && i < j->prompts.count; i++)
        mem_free(j->made[i].ids);
    mem_free(j->made);
    mem_free(j->list);
    prompts_free(&j->prompts);
    subject_close(&j->on);
}

/* ---- what was asked ---- */

static tf_status read_prompts(job *j, tf_error *err) {
    const args *a = j->a;
    if (!a->given[OPT_IDS] && !a->given[OPT_PROMPTS]) {
        tf_fail(err, TF_W_USAGE, "choosing the prompts");
        tf_found(err, "neither --ids nor --prompts");
        return tf_remedy(err, "add --ids 0,12,7 or --prompts FILE");
    }
    tf_status status = TF_OK;
    if (a->given[OPT_IDS]) {
        const char *ids = a->text[OPT_IDS];
        status = prompts_add(&j->prompts, "--ids", ids, strlen(ids), err);
    }
    if (status == TF_OK && a->given[OPT_PROMPTS])
        status = prompts_read(&j->prompts, a->text[OPT_PROMPTS], err);
    return status;
}

static tf_status read_profile(job *j, tf_error *err) {
    const char *profile = j->a->given[OPT_PROFILE] ? j->a->text[OPT_PROFILE] : "f32";
    j->options.profile = strcmp(profile, "bf16") == 0 ? TF_PROFILE_BF16 : TF_PROFILE_F32;
    if (strcmp(profile, "f32") == 0 || strcmp(profile, "bf16") == 0) return TF_OK;
    tf_fail(err, TF_W_USAGE, "reading --profile");
    tf_found(err, "'%s'", profile);
    return tf_expected(err, "f32 or bf16");
}

/* RANK:PHASE:ACT; the model knows which phases and acts there are. */
static tf_status read_fault(job *j, tf_error *err) {
    if (!j->a->given[OPT_FAULT]) return TF_OK;
    const char *text = j->a->text[OPT_FAULT];
    snprintf(j->fault, sizeof j->fault, "%s", text);
    size_t digits = strspn(j->fault, "0123456789");
    char *phase = digits > 0 && digits < 9 && j->fault[digits] == ':' ? j->fault + digits : NULL;
    char *act = phase == NULL ? NULL : strchr(phase + 1, ':');
    if (act == NULL || strlen(text) >= sizeof j->fault) {
        tf_fail(err, TF_W_USAGE, "reading --fault");
        tf_found(err, "'%s'", text);
        return tf_expected(err, "RANK:PHASE:ACT, as in 2:decode:die");
    }
    *phase++ = '\0';
    *act++ = '\0';
    j->options.fault = (tf_model_fault){act, phase, (uint32_t)strtoul(j->fault, NULL, 10)};
    return TF_OK;
}

static const char *text_of(const args *a, int id) {
    return a->given[id] ? a->text[id] : NULL;
}

static uint32_t number_of(const args *a, int id, uint32_t usual) {
    return a->given[id] ? (uint32_t)a->number[id] : usual;
}

static tf_status read_options(job *j, const session *s, tf_error *err) {
    const args *a = j->a;
    tf_model_options *o = &j->options;
    o->ranks = text_of(a, OPT_RANKS);
    o->isa = text_of(a, OPT_ISA);
    o->rank_dir = text_of(a, OPT_RANK_DIR);
    o->layer_hashes = text_of(a, OPT_HASHES);
    o->cache_dir = s->cache[0] == '\0' ? NULL : s->cache;
    o->threads = number_of(a, OPT_THREADS, 0);
    o->slots = number_of(a, OPT_SLOTS, 1);
    o->rows = number_of(a, OPT_CHUNK, 0);
    o->context = number_of(a, OPT_CONTEXT, 0);
    o->wait_ms = a->given[OPT_WAIT] ? (uint32_t)(a->real[OPT_WAIT] * 1000.0) : 0;
    o->progress = progress_tick;
    o->context_of_progress = &j->shown;
    j->tokens = number_of(a, OPT_TOKENS, 16);
    tf_status status = read_profile(j, err);
    return status == TF_OK ? read_fault(j, err) : status;
}

/* A state as large as the longest request, where nobody says. */
static void choose_context(job *j) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < j->prompts.count; i++) {
        if (j->prompts.list[i].count > most) most = j->prompts.list[i].count;
    }
    if (j->options.context == 0) j->options.context = most + j->tokens;
}

static tf_status take_memory(job *j, tf_error *err) {
    uint32_t count = j->prompts.count;
    j->list = mem_take(count * sizeof *j->list);
    j->made = mem_take(count * sizeof *j->made);
    bool held = j->list != NULL && j->made != NULL;
    for (uint32_t i = 0; held && i < count; i++) {
        j->list[i] = (tf_prompt){j->prompts.list[i].ids, j->prompts.list[i].count,
                                 j->a->real[OPT_TEMPERATURE], (int64_t)j->a->number[OPT_SEED]};
        j->made[i].ids = mem_take(j->tokens * sizeof(int32_t));
        held = j->made[i].ids != NULL;
    }
    if (held) return TF_OK;
    return tf_fail(err, TF_W_NO_MEMORY, "generating %u tokens for %u prompts", j->tokens, count);
}

/* ---- what came out ---- */

static void write_plain(const job *j, tf_text *out) {
    for (uint32_t i = 0; i < j->prompts.count; i++) {
        char sha[SHA256_HEX];
        tf_token_sha(j->made[i].ids, j->made[i].count, sha);
        if (j->prompts.count > 1) text_print(out, "prompt %u\n", i + 1);
        text_add(out, "ids ");
        text_i32s(out, j->made[i].ids, j->made[i].count);
        text_print(out, "\ncount %u\ntoken_sha %.12s %s\n", j->made[i].count, sha, sha);
    }
}

static double rate(uint64_t rows, double seconds) {
    return seconds > 0.0 ? (double)rows / seconds : 0.0;
}

static void write_json(const job *j, tf_text *out) {
    const tf_timing *t = &j->timing;
    tf_model_memory m;
    tf_model_memory_of(j->model, 0, &m);
    text_add(out, "{\"pack\":");
    text_json(out, tf_pack_name(j->on.pack));
    text_print(out, ",\"world\":%u,\"profile\":\"%s\",\"prompts\":[", j->on.split.world,
               j->options.profile == TF_PROFILE_BF16 ? "bf16" : "f32");
    for (uint32_t i = 0; i < j->prompts.count; i++) {
        char sha[SHA256_HEX];
        tf_token_sha(j->made[i].ids, j->made[i].count, sha);
        text_print(out, "%s{\"ids\":[", i == 0 ? "" : ",");
        text_i32s(out, j->made[i].ids, j->made[i].count);
        text_print(out, "],\"count\":%u,\"token_sha\":\"%s\"}", j->made[i].count, sha);
    }
    text_print(out,
               "],\"isa\":\"%s\",\"timing\":{\"prefill_rows\":%llu,\"prefill_seconds\":%.6f,"
               "\"decode_rows\":%llu,\"decode_seconds\":%.6f}",
               tf_model_isa(j->model), (unsigned long long)t->prefill_rows, t->prefill_seconds,
               (unsigned long long)t->decode_rows, t->decode_seconds);
    text_print(out,
               ",\"memory\":{\"weights\":%llu,\"state\":%llu,\"step\":%llu,\"scratch\":%llu,"
               "\"in_out\":%llu}}\n",
               (unsigned long long)m.weights, (unsigned long long)m.state,
               (unsigned long long)m.step, (unsigned long long)m.scratch,
               (unsigned long long)m.in_out);
}

static void note_timing(const job *j) {
    const tf_timing *t = &j->timing;
    tf_model_memory m;
    tf_model_memory_of(j->model, 0, &m);
    out_note("prefill %llu rows, %.1f rows/s; decode %llu rows, %.1f rows/s",
             (unsigned long long)t->prefill_rows, rate(t->prefill_rows, t->prefill_seconds),
             (unsigned long long)t->decode_rows, rate(t->decode_rows, t->decode_seconds));
    out_note("%s; a rank holds %.1f MB of weights, %.1f MB of state, %.1f MB for a step",
             tf_model_isa(j->model), (double)m.weights / 1e6, (double)m.state / 1e6,
             (double)(m.step + m.scratch + m.in_out) / 1e6);
}

static tf_status report(job *j, tf_error *err) {
    tf_text out = {0};
    if (tf_model_rank(j->model) != 0) return TF_OK;
    if (j->a->given[OPT_JSON]) {
        write_json(j, &out);
    } else {
        write_plain(j, &out);
        note_timing(j);
    }
    return out_text(&out, err);
}

/* Where every rank here stood when a peer was lost. */
static void note_exchanges(const job *j, const tf_error *err) {
    tf_text text = {0};
    if (j->model == NULL || err->status != TF_PEER) return;
    tf_model_exchanges(j->model, &text);
    out_note("the last exchanges:\n%s", text_str(&text));
    text_free(&text);
}

static tf_status run_generate(const session *s, const args *a, tf_error *err) {
    tf_status status = TF_OK;
    job j = {.a = a, .shown = {.what = "loading"}};
    TF_TRY(read_prompts(&j, err));
    TF_TRY(read_options(&j, s, err));
    choose_context(&j);
    TF_TRY(subject_open(s, a, "forward", &j.on, err));
    TF_TRY(prompts_check(&j.prompts, tf_pack_vocab(j.on.pack), err));
    TF_TRY(take_memory(&j, err));
    TF_TRY(tf_model_open(j.on.pack, &j.on.split, &j.options, &j.model, err));
    progress_end(&j.shown);
    TF_TRY(tf_generate(j.model, &(tf_generation){j.list, j.prompts.count, j.tokens, 0}, j.made,
                       &j.timing, err));
    if (a->given[OPT_HASHES]) TF_TRY(tf_model_finish_hashes(j.model, err));
    TF_TRY(report(&j, err));
done:
    note_exchanges(&j, err);
    job_close(&j);
    return status;
}

static tf_status run_diverge(const session *s, const args *a, tf_error *err) {
    tf_text report = {0};
    (void)s;
    tf_status status = tf_diverge(a->operands[0], a->operands[1], a->given[OPT_JSON], &report, err);
    out_string(text_str(&report));
    text_free(&report);
    return status;
}

const command model_commands[] = {
    {"generate", "", "run prompts through the model: ids in, ids and token_sha out",
     "Every rank executes the calls that emit lists.  Tokens depend on the pack, the prompt, the\n"
     "profile, temperature and seed alone: not on the world, threads, instructions, chunks or slots.\n"
     "Speed is told on stderr, or in the JSON.\n\n"
     "Examples\n"
     "  tfverify generate --pack tiny-exl3 --ids 0,12,7 --tokens 48\n"
     "  tfverify generate --pack tiny-exl3 --world 3 --prompts prompts.txt --slots 4 --json\n"
     "  mpirun -n 3 tfverify generate --pack tiny-exl3 --world 3 --ranks mpi --ids 0,12,7\n",
     OPT(PACK) | OPT(WORLD) | OPT(WEIGHTS) | OPT(IDS) | OPT(PROMPTS) | OPT(TOKENS) | OPT(CHUNK) |
         OPT(SLOTS) | OPT(CONTEXT) | OPT(TEMPERATURE) | OPT(SEED) | OPT(RANKS) | OPT(THREADS) |
         OPT(ISA) | OPT(PROFILE) | OPT(RANK_DIR) | OPT(HASHES) | OPT(WAIT) | OPT(FAULT) |
         OPT(JSON) | OPT(ROOT),
     0, 0, run_generate},
    {"diverge", "A B", "the first step, layer, point and rank where two runs differ",
     "A and B are what generate --layer-hashes wrote: a file, or the name before .r0, .r1, ...\n"
     "Of runs at different worlds or weights only what every rank holds alike is compared.  Exit 1\n"
     "when they differ.\n\n"
     "Class\n"
     "  input     the runs were given other ids\n"
     "  local     a rank computed another partial, before any exchange of it\n"
     "  exchange  the partials of all ranks are equal and their sum is not\n"
     "  sum       a sum differs and not all partials could be compared: local or exchange\n"
     "  later     the sums are equal; what a rank made of them is not\n"
     "  shape     one run computed something that the other did not, as with other chunks\n\n"
     "Examples\n"
     "  tfverify generate --pack tiny-exl3 --ids 0,12,7 --layer-hashes /tmp/a\n"
     "  tfverify generate --pack tiny-exl3 --ids 0,12,7 --world 3 --layer-hashes /tmp/b\n"
     "  tfverify diverge /tmp/a /tmp/b\n",
     OPT(JSON) | OPT(ROOT), 2, 2, run_diverge},
    {NULL, NULL, NULL, NULL, 0, 0, 0, NULL},
};
