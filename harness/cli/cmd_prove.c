/* run, pins check|capture|review|accept|reject: what is proved, and what it is compared with. */
#include "engine/base/thread.h"
#include "harness/base/store.h"
#include "harness/base/worktree.h"
#include "harness/cli/capture_base.h"
#include "harness/cli/commands.h"
#include "harness/cli/out.h"
#include "harness/cli/recording.h"
#include "harness/cli/session.h"
#include "harness/cli/summary.h"
#include "harness/lua/script.h"
#include "harness/pins/pins.h"
#include "harness/pins/review.h"

#include <stdio.h>
#include <string.h>

/* ---- runs ---- */

static tf_status open_book(const session *s, const args *a, script **out, tf_error *err) {
    tf_status status = TF_OK;
    script_options options = {.root = s->root, .cache_dir = s->cache, .trust = a->given[OPT_TRUST]};
    TF_TRY(session_need_root(s, err));
    TF_TRY(script_open(&options, out, err));
done:
    return status;
}

/* How it ended, in a word for the store. */
static const char *outcome_of(tf_status status) {
    if (status == TF_OK) return "held";
    if (status == TF_MISMATCH) return "failed";
    return status == TF_INTERRUPTED ? "interrupted" : "error";
}

static tf_status begin_record(const session *s, const char *run, const char *revision, bool dirty,
                              store **db, tf_error *err) {
    tf_status status = TF_OK;
    store_environment e = {.command = s->line,
                           .script = run,
                           .root = s->root,
                           .tool = TF_VERSION,
                           .compiler = SUMMARY_COMPILER,
                           .revision = revision,
                           .dirty = dirty,
                           .cores = thread_cores()};
    TF_TRY(store_open(s->db, STORE_WRITE, STORE_WAIT_MS, db, err));
    TF_TRY(store_begin(*db, &e, NULL, err));
done:
    return status;
}

/* The end of a run in the store; its failure counts when there was none before. */
static tf_status end_record(store *db, tf_status status, const report_counts *checks,
                            tf_error *err) {
    store_counts counts = {checks->held, checks->failed, checks->skipped, checks->errors};
    tf_error lost = {0};
    if (store_end(db, outcome_of(status), &counts, &lost) == TF_OK || status != TF_OK)
        return status;
    *err = lost;
    return lost.status;
}

static void note_pending(size_t count, const char *tool) {
    if (count == 0)
        out_note("nothing differs from the pins");
    else
        out_note("%zu pending; %s pins review shows what changes", count, tool);
}

/* Carries the job out with TAP on stdout and rows in the store. */
static tf_status carry_out(const session *s, script *book, script_job *job, tf_error *err) {
    tf_status status = TF_OK;
    store *db = NULL;
    char revision[64];
    char captured_at[80];
    bool dirty = false;
    recording shown;
    script_result result = {0};
    TF_TRY(worktree_head(s->root, revision, &dirty, err));
    TF_TRY(begin_record(s, job->run, revision, dirty, &db, err));
    snprintf(captured_at, sizeof captured_at, "%s%s", revision, dirty ? "+changes" : "");
    job->revision = revision[0] == '\0' ? NULL : captured_at;
    job->command = s->tool;
    job->ci = s->ci;
    recording_begin(&shown, db, s->tap_version,
                    out_stderr_is_terminal() && !out_stdout_is_terminal());
    job->sink = recording_sink(&shown);
    status = script_run(book, job, &result, err);
    recording_end(&shown);
    if (job->capture && (status == TF_OK || status == TF_MISMATCH))
        note_pending(result.pins.written, s->tool);
    status = end_record(db, status, &result.checks, err);
done:
    store_close(db);
    return status;
}

static void list_runs(const script *book, bool json, tf_text *out) {
    if (json) text_char(out, '[');
    for (size_t i = 0; i < script_count(book); i++) {
        const script_entry *e = script_at(book, i);
        if (json) {
            text_add(out, i == 0 ? "{\"name\":" : ",{\"name\":");
            text_json(out, e->name);
            text_add(out, ",\"about\":");
            text_json(out, e->about);
            text_add(out, ",\"at\":");
            text_json(out, e->place);
            text_add(out, ",\"args\":{");
        } else {
            text_print(out, "%-10s  %s\n", e->name, e->about);
        }
        for (size_t j = 0; j < e->argument_count; j++) {
            const script_argument *arg = &e->arguments[j];
            if (json) {
                if (j > 0) text_char(out, ',');
                text_json(out, arg->name);
                text_char(out, ':');
                text_json(out, arg->standard);
            } else {
                text_print(out, "%-10s    %s=%s\n", "", arg->name, arg->standard);
            }
        }
        if (json) text_add(out, "}}");
    }
    if (json) text_add(out, "]\n");
}

static tf_status run_run(const session *s, const args *a, tf_error *err) {
    tf_status status = TF_OK;
    script *book = NULL;
    tf_text out = {0};
    TF_TRY(open_book(s, a, &book, err));
    if (a->operand_count == 0) {
        list_runs(book, a->given[OPT_JSON], &out);
        TF_TRY(out_text(&out, err));
    } else {
        script_job job = {.run = a->operands[0],
                          .arguments = a->operands + 1,
                          .argument_count = a->operand_count - 1};
        TF_TRY(carry_out(s, book, &job, err));
    }
done:
    text_free(&out);
    script_close(book);
    return status;
}

/* ---- pins ---- */

enum {
    PINS_ARGUMENTS_MAX = 3
};

/* --world and --pack are arguments of the run. */
static size_t pins_arguments(const args *a, char texts[][160], const char **list) {
    size_t n = 0;
    if (a->given[OPT_WORLD]) {
        snprintf(texts[n], sizeof texts[n], "world=%.100s", a->text[OPT_WORLD]);
        list[n] = texts[n];
        n++;
    }
    if (a->given[OPT_PACK]) {
        snprintf(texts[n], sizeof texts[n], "pack=%.140s", a->text[OPT_PACK]);
        list[n] = texts[n];
        n++;
    }
    return n;
}

static tf_status meet_pins(const session *s, const args *a, bool capture, tf_error *err) {
    tf_status status = TF_OK;
    script *book = NULL;
    char texts[PINS_ARGUMENTS_MAX][160];
    const char *list[PINS_ARGUMENTS_MAX];
    script_job job = {.run = a->given[OPT_RUN] ? a->text[OPT_RUN] : "pins",
                      .arguments = list,
                      .argument_count = pins_arguments(a, texts, list),
                      .pattern = a->operand_count > 0 ? a->operands[0] : NULL,
                      .capture = capture};
    TF_TRY(open_book(s, a, &book, err));
    TF_TRY(carry_out(s, book, &job, err));
done:
    script_close(book);
    return status;
}

static tf_status run_check(const session *s, const args *a, tf_error *err) {
    return meet_pins(s, a, false, err);
}

static tf_status refuse_in_ci(const session *s, tf_error *err) {
    if (!s->ci) return TF_OK;
    tf_fail(err, TF_W_PINS_READ_ONLY, "capturing pins");
    tf_found(err, "CI in the environment");
    return tf_remedy(err, "capture where a person can review, and commit the pins");
}

static tf_status run_capture(const session *s, const args *a, tf_error *err) {
    tf_status status = TF_OK;
    script *book = NULL;
    size_t count = 0;
    capture_base_request request = {.root = s->root,
                                    .revision = a->text[OPT_BASE],
                                    .program = s->program,
                                    .trust = a->given[OPT_TRUST],
                                    .run = a->given[OPT_RUN] ? a->text[OPT_RUN] : "pins",
                                    .pattern = a->operand_count > 0 ? a->operands[0] : NULL};
    if (!a->given[OPT_BASE]) return meet_pins(s, a, true, err);
    TF_TRY(refuse_in_ci(s, err));
    TF_TRY(open_book(s, a, &book, err));
    request.build = script_build(book);
    request.tool = script_tool(book);
    TF_TRY(capture_base(&request, &count, err));
    note_pending(count, s->tool);
done:
    script_close(book);
    return status;
}

/* ---- pending pins ---- */

typedef tf_status (*review_act)(const review_options *options, tf_text *out, size_t *count,
                                tf_error *err);

static tf_status review(review_act act, const session *s, const args *a, tf_error *err) {
    tf_status status = TF_OK;
    tf_text text = {0};
    size_t count = 0;
    review_options options = {.root = s->root,
                              .pattern = a->operand_count > 0 ? a->operands[0] : NULL,
                              .command = s->tool,
                              .ci = s->ci};
    TF_TRY(session_need_root(s, err));
    status = act(&options, &text, &count, err);
    /* What was done before a failure is shown too. */
    out_string(text_str(&text));
done:
    text_free(&text);
    return status;
}

static tf_status run_review(const session *s, const args *a, tf_error *err) {
    return review(review_show, s, a, err);
}

static tf_status run_accept(const session *s, const args *a, tf_error *err) {
    return review(review_accept, s, a, err);
}

static tf_status run_reject(const session *s, const args *a, tf_error *err) {
    return review(review_reject, s, a, err);
}

#define PATTERN_HELP                                                            \
    "PATTERN is a name with * and ?, from any folder of it on: 'w3/*' selects " \
    "flash/w3/r2/plan.\n\n"

const command prove_commands[] = {
    {"run", "[NAME [KEY=VALUE...]]", "carry out a run of scripts.lua; without a name, list them",
     "TAP 14 goes to stdout, every case and everything made into the store.\n\n"
     "Examples\n"
     "  tfverify run\n"
     "  tfverify run pins\n"
     "  tfverify run pins pack=flash world=3\n",
     OPT(DB) | OPT(JSON) | OPT(TRUST) | OPT(ROOT), 0, ARG_OPERANDS_MAX, run_run},
    {"pins check", "[PATTERN]", "compare what the code makes now with the pins",
     PATTERN_HELP "A difference is shown with its context, the expression that changed and the\n"
                  "command that reproduces it; the exit code is then 1.\n\n"
                  "Examples\n"
                  "  tfverify pins check\n"
                  "  tfverify pins check 'w3/*'\n"
                  "  tfverify pins check --pack flash --world 3\n",
     OPT(WORLD) | OPT(PACK) | OPT(RUN) | OPT(DB) | OPT(TRUST) | OPT(ROOT), 0, 1, run_check},
    {"pins capture", "[PATTERN]", "write what differs beside the pins, pending a person's review",
     PATTERN_HELP
     "With --base the earlier revision is built in a worktree of its own, so that a pin\n"
     "says what the code did before the change.  Refused when CI is set.\n\n"
     "Examples\n"
     "  tfverify pins capture\n"
     "  tfverify pins capture --base HEAD~3 'flash/*'\n",
     OPT(WORLD) | OPT(PACK) | OPT(RUN) | OPT(BASE) | OPT(DB) | OPT(TRUST) | OPT(ROOT), 0, 1,
     run_capture},
    {"pins review", "[PATTERN]",
     "show every pending pin as a diff with the expression that changed",
     PATTERN_HELP "Examples\n"
                  "  tfverify pins review\n"
                  "  tfverify pins review 'flash/*'\n",
     OPT(ROOT), 0, 1, run_review},
    {"pins accept", "PATTERN", "put pending pins in place; refused when CI is set",
     PATTERN_HELP "Examples\n"
                  "  tfverify pins accept flash/w3/r2/plan\n"
                  "  tfverify pins accept 'w3/*'\n",
     OPT(ROOT), 1, 1, run_accept},
    {"pins reject", "PATTERN", "remove pending pins; refused when CI is set",
     PATTERN_HELP "Examples\n"
                  "  tfverify pins reject flash/w3/r2/plan\n",
     OPT(ROOT), 1, 1, run_reject},
    {NULL, NULL, NULL, NULL, 0, 0, 0, NULL},
};
