/* plan, emit, needs, calls-check, admission: what the engine makes from a pack's headers. */
#include "engine/base/arena.h"
#include "engine/tf.h"
#include "harness/cli/commands.h"
#include "harness/cli/out.h"
#include "harness/cli/session.h"
#include "harness/cli/subject.h"

#include <stdio.h>
#include <string.h>

/* ---- plan ---- */

typedef struct rank_facts {
    tf_plan_facts facts;
    char fingerprint[DIGEST_HEX];
} rank_facts;

/* "1,234,567" right-aligned. */
static void cell_number(tf_text *out, uint64_t value) {
    char digits[24];
    char grouped[32];
    int n = snprintf(digits, sizeof digits, "%llu", (unsigned long long)value);
    size_t at = 0;
    for (int i = 0; i < n; i++) {
        if (i > 0 && (n - i) % 3 == 0) grouped[at++] = ',';
        grouped[at++] = digits[i];
    }
    grouped[at] = '\0';
    text_print(out, "  %17s", grouped);
}

static void row_name(tf_text *out, const char *name) {
    text_print(out, "%-22s", name);
}

static void table_units(tf_text *out, const rank_facts *ranks, uint32_t count) {
    for (uint32_t unit = 0; unit < TF_UNITS; unit++) {
        if (ranks[0].facts.units[unit].total == 0) continue;
        row_name(out, tf_unit_name(unit));
        for (uint32_t r = 0; r < count; r++) {
            const tf_unit_share *share = &ranks[r].facts.units[unit];
            char cell[48];
            snprintf(cell, sizeof cell, "%u  [%u,%u)", share->end - share->begin, share->begin,
                     share->end);
            text_print(out, "  %17s", cell);
        }
        text_char(out, '\n');
    }
}

typedef uint64_t (*fact_of)(const tf_plan_facts *facts, uint32_t which);
static uint64_t fact_heads(const tf_plan_facts *f, uint32_t which) {
    (void)which;
    return f->heads;
}
static uint64_t fact_width(const tf_plan_facts *f, uint32_t which) {
    (void)which;
    return f->expert_width;
}
static uint64_t fact_vocab(const tf_plan_facts *f, uint32_t which) {
    (void)which;
    return f->vocab;
}
static uint64_t fact_items(const tf_plan_facts *f, uint32_t which) {
    (void)which;
    return f->items;
}
static uint64_t fact_bytes(const tf_plan_facts *f, uint32_t which) {
    (void)which;
    return f->bytes;
}
static uint64_t fact_category(const tf_plan_facts *f, uint32_t which) {
    return f->category_bytes[which];
}

static void table_row(tf_text *out, const char *name, const rank_facts *ranks, uint32_t count,
                      fact_of fact, uint32_t which) {
    row_name(out, name);
    for (uint32_t r = 0; r < count; r++)
        cell_number(out, fact(&ranks[r].facts, which));
    text_char(out, '\n');
}

static void plan_table(tf_text *out, const tf_pack *pack, const rank_facts *ranks, uint32_t count) {
    text_print(out, "%s at world %u, weights ", tf_pack_name(pack), count);
    for (uint32_t r = 0; r < count; r++)
        text_print(out, "%s%llu", r == 0 ? "" : ",", (unsigned long long)ranks[r].facts.weight);
    text_add(out, "\n\n");
    row_name(out, "");
    for (uint32_t r = 0; r < count; r++) {
        char head[24];
        snprintf(head, sizeof head, "rank %u", r);
        text_print(out, "  %17s", head);
    }
    text_char(out, '\n');
    table_units(out, ranks, count);
    table_row(out, "heads", ranks, count, fact_heads, 0);
    table_row(out, "expert width", ranks, count, fact_width, 0);
    table_row(out, "vocabulary", ranks, count, fact_vocab, 0);
    table_row(out, "items", ranks, count, fact_items, 0);
    text_add(out, "\nbytes\n");
    for (uint32_t i = 0; i < tf_category_count(); i++) {
        char name[40];
        snprintf(name, sizeof name, "  %s", tf_category_name(i));
        table_row(out, name, ranks, count, fact_category, i);
    }
    table_row(out, "  all", ranks, count, fact_bytes, 0);
    text_add(out, "\nfingerprint\n");
    for (uint32_t r = 0; r < count; r++)
        text_print(out, "  rank %-3u  %s\n", r, ranks[r].fingerprint);
}

static tf_status plan_all(const subject *on, bool json, tf_text *out, tf_error *err) {
    tf_status status = TF_OK;
    tf_plan *plan = NULL;
    tf_split split = on->split;
    rank_facts *ranks = NULL;
    split.rank = 0;
    /* The first plan refuses a world beyond the limit before memory is asked for it. */
    TF_TRY(tf_plan_make(on->pack, &split, &plan, err));
    ranks = mem_take(sizeof *ranks * split.world);
    if (ranks == NULL) {
        status = tf_fail(err, TF_W_NO_MEMORY, "planning %u ranks", split.world);
        goto done;
    }
    if (json) {
        text_print(out, "{\"world\":%u,\"pack\":", split.world);
        text_json(out, tf_pack_name(on->pack));
        text_add(out, ",\"ranks\":[");
    }
    for (uint32_t r = 0; r < split.world; r++) {
        if (r > 0) {
            tf_plan_close(plan);
            plan = NULL;
            split.rank = r;
            TF_TRY(tf_plan_make(on->pack, &split, &plan, err));
            if (json) text_char(out, ',');
        }
        tf_plan_facts_of(plan, &ranks[r].facts);
        digest_hex(tf_plan_fingerprint(plan), ranks[r].fingerprint);
        if (json) tf_plan_json(plan, out);
    }
    if (json)
        text_add(out, "]}\n");
    else
        plan_table(out, on->pack, ranks, split.world);
done:
    mem_free(ranks);
    tf_plan_close(plan);
    return status;
}

static tf_status run_plan(const session *s, const args *a, tf_error *err) {
    tf_status status = TF_OK;
    subject on = {0};
    tf_plan *plan = NULL;
    tf_text out = {0};
    TF_TRY(subject_open(s, a, "plan", &on, err));
    if (!a->given[OPT_RANK]) {
        TF_TRY(plan_all(&on, a->given[OPT_JSON], &out, err));
    } else {
        TF_TRY(tf_plan_make(on.pack, &on.split, &plan, err));
        if (a->given[OPT_JSON]) {
            tf_plan_json(plan, &out);
            text_char(&out, '\n');
        } else {
            text_add(&out, tf_plan_text(plan));
        }
    }
    TF_TRY(out_text(&out, err));
done:
    text_free(&out);
    tf_plan_close(plan);
    subject_close(&on);
    return status;
}

/* ---- emit ---- */

/* As admission calls it. */
static const char *emit_operation(tf_phase phase) {
    static const char *const names[TF_PHASE_COUNT] = {"emit decode", "emit prefill", "emit draft",
                                                      "emit prefetch"};
    return names[phase];
}

static tf_status emit_request(const args *a, tf_emit_request *request, tf_error *err) {
    *request = (tf_emit_request){.phase = TF_PHASE_DECODE, .layer = TF_ALL_LAYERS};
    if (a->given[OPT_PHASE] && !tf_phase_parse(a->text[OPT_PHASE], &request->phase)) {
        tf_fail(err, TF_W_USAGE, "reading --phase");
        tf_found(err, "'%s'", a->text[OPT_PHASE]);
        return tf_expected(err, "decode, prefill, draft or prefetch");
    }
    if (a->given[OPT_LAYER]) request->layer = (uint32_t)a->number[OPT_LAYER];
    if (a->given[OPT_ROWS] && a->number[OPT_ROWS] == 0) {
        tf_fail(err, TF_W_USAGE, "reading --rows");
        tf_found(err, "0");
        return tf_expected(err, "at least 1");
    }
    request->rows = (uint32_t)a->number[OPT_ROWS];
    request->start = a->number[OPT_START];
    request->context = a->number[OPT_CONTEXT];
    request->logits = a->given[OPT_LOGITS];
    return TF_OK;
}

static tf_status run_emit(const session *s, const args *a, tf_error *err) {
    tf_status status = TF_OK;
    subject on = {0};
    tf_plan *plan = NULL;
    tf_calls *calls = NULL;
    tf_text out = {0};
    tf_emit_request request;
    TF_TRY(emit_request(a, &request, err));
    TF_TRY(subject_need_rank(a, err));
    TF_TRY(subject_open(s, a, emit_operation(request.phase), &on, err));
    TF_TRY(tf_plan_make(on.pack, &on.split, &plan, err));
    TF_TRY(tf_emit(plan, &request, &calls, err));
    if (a->given[OPT_BUFFERS])
        tf_calls_buffers(calls, a->given[OPT_JSON], &out);
    else if (a->given[OPT_JSON])
        tf_calls_json(calls, &out);
    else
        text_add(&out, tf_calls_text(calls));
    TF_TRY(out_text(&out, err));
    if (out_stderr_is_terminal()) {
        char hex[DIGEST_HEX];
        out_note("%zu calls, digest %s", tf_calls_count(calls),
                 digest_hex(tf_calls_digest(calls), hex));
    }
done:
    text_free(&out);
    tf_calls_close(calls);
    tf_plan_close(plan);
    subject_close(&on);
    return status;
}

/* ---- needs, calls-check, admission ---- */

static tf_status run_needs(const session *s, const args *a, tf_error *err) {
    tf_status status = TF_OK;
    subject on = {0};
    tf_text out = {0};
    TF_TRY(subject_open(s, a, "plan", &on, err));
    TF_TRY(tf_needs(on.pack, &on.split, a->given[OPT_JSON], &out, err));
    TF_TRY(out_text(&out, err));
done:
    text_free(&out);
    subject_close(&on);
    return status;
}

static tf_status run_calls_check(const session *s, const args *a, tf_error *err) {
    subject on = {0};
    tf_text report = {0};
    tf_status status = subject_open(s, a, NULL, &on, err);
    if (status == TF_OK) {
        status = tf_calls_check(on.pack, a->operands[0], &report, err);
        /* The report is wanted most when the lists differ. */
        out_string(text_str(&report));
    }
    text_free(&report);
    subject_close(&on);
    return status;
}

static tf_status run_admission(const session *s, const args *a, tf_error *err) {
    (void)s;
    tf_text out = {0};
    tf_admission_describe(a->given[OPT_JSON], &out);
    return out_text(&out, err);
}

const command engine_commands[] = {
    {"plan", "", "who owns which bytes: shares, widths, bytes and fingerprints of all ranks",
     "With --rank the canonical text of that rank's plan is printed: what a pin holds.\n"
     "The plan is made from headers alone, so a pack without data will do.\n\n"
     "Examples\n"
     "  tfverify plan --pack flash --world 3\n"
     "  tfverify plan --pack flash --world 3 --rank 2\n"
     "  tfverify plan --pack tiny-exl3 --weights 2,1,1 --json\n",
     OPT(PACK) | OPT(WORLD) | OPT(RANK) | OPT(WEIGHTS) | OPT(JSON) | OPT(ROOT), 0, 0, run_plan},
    {"emit", "", "the calls of a phase, one a line, as pins hold them and the executor runs them",
     "--json prints JSON Lines, a header first: a capture that calls-check reads.\n\n"
     "Examples\n"
     "  tfverify emit --pack flash --world 3 --rank 2 --phase decode --layer 8\n"
     "  tfverify emit --pack flash --world 3 --rank 0 --phase prefill --rows 17 --start 128\n"
     "  tfverify emit --pack flash --world 3 --rank 0 --phase decode --buffers\n",
     OPT(PACK) | OPT(WORLD) | OPT(RANK) | OPT(WEIGHTS) | OPT(PHASE) | OPT(LAYER) | OPT(ROWS) |
         OPT(START) | OPT(CONTEXT) | OPT(LOGITS) | OPT(BUFFERS) | OPT(JSON) | OPT(ROOT),
     0, 0, run_emit},
    {"needs", "", "the kernel variants ranks can be asked for, and which rank lacks which",
     "Examples\n"
     "  tfverify needs --pack flash --world 3\n",
     OPT(PACK) | OPT(WORLD) | OPT(WEIGHTS) | OPT(JSON) | OPT(ROOT), 0, 0, run_needs},
    {"calls-check", "CAPTURE", "compare emitted calls with a recorded capture",
     "World, rank, phase, rows and start come from the capture's header.  The first difference is\n"
     "named; the exit code is then 1.\n\n"
     "Examples\n"
     "  tfverify emit --pack tiny-bf16 --world 2 --rank 1 --json >capture.jsonl\n"
     "  tfverify calls-check --pack tiny-bf16 capture.jsonl\n",
     OPT(PACK) | OPT(ROOT), 1, 1, run_calls_check},
    {"admission", "", "which operation is open at which world",
     "Examples\n"
     "  tfverify admission\n",
     OPT(JSON), 0, 0, run_admission},
    {NULL, NULL, NULL, NULL, 0, 0, 0, NULL},
};
