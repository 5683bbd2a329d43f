/* db query|merge|gc: what past runs saw. */
#include "harness/base/store.h"
#include "harness/cli/commands.h"
#include "harness/cli/out.h"
#include "harness/cli/session.h"

static tf_status run_query(const session *s, const args *a, tf_error *err) {
    tf_status status = TF_OK;
    store *db = NULL;
    tf_text out = {0};
    TF_TRY(session_need_db(s, err));
    TF_TRY(store_open(s->db, STORE_READ, STORE_WAIT_MS, &db, err));
    TF_TRY(store_query(db, a->operands[0], a->given[OPT_JSON], &out, err));
    TF_TRY(out_text(&out, err));
done:
    text_free(&out);
    store_close(db);
    return status;
}

static tf_status run_merge(const session *s, const args *a, tf_error *err) {
    tf_status status = TF_OK;
    store *db = NULL;
    tf_text out = {0};
    TF_TRY(session_need_db(s, err));
    TF_TRY(store_open(s->db, STORE_WRITE, STORE_WAIT_MS, &db, err));
    for (size_t i = 0; i < a->operand_count; i++) {
        uint64_t runs = 0;
        TF_TRY(store_merge(db, a->operands[i], &runs, err));
        text_print(&out, "%s: %llu new runs\n", a->operands[i], (unsigned long long)runs);
    }
    TF_TRY(out_text(&out, err));
done:
    text_free(&out);
    store_close(db);
    return status;
}

static tf_status run_gc(const session *s, const args *a, tf_error *err) {
    tf_status status = TF_OK;
    store *db = NULL;
    tf_text out = {0};
    uint64_t keep = a->given[OPT_KEEP] ? a->number[OPT_KEEP] : 100;
    uint64_t removed = 0;
    TF_TRY(session_need_db(s, err));
    TF_TRY(store_open(s->db, STORE_WRITE, STORE_WAIT_MS, &db, err));
    TF_TRY(store_gc(db, keep, &removed, err));
    text_print(&out, "%llu runs removed, the newest %llu kept\n", (unsigned long long)removed,
               (unsigned long long)keep);
    TF_TRY(out_text(&out, err));
done:
    text_free(&out);
    store_close(db);
    return status;
}

const command store_commands[] = {
    {"db query", "SQL", "ask the store one question that only reads",
     "Tables: runs, cases, made, pins, call_lists, calls.\n\n"
     "Examples\n"
     "  tfverify db query 'SELECT id, began, script, outcome, held, failed FROM runs'\n"
     "  tfverify db query 'SELECT name, message FROM cases WHERE outcome = \"failed\"' --json\n",
     OPT(DB) | OPT(JSON) | OPT(ROOT), 1, 1, run_query},
    {"db merge", "FILE...", "take over the runs of other stores that are not here yet",
     "Examples\n"
     "  tfverify db merge /mnt/other/build/tfverify.db\n",
     OPT(DB) | OPT(ROOT), 1, ARG_OPERANDS_MAX, run_merge},
    {"db gc", "", "remove all but the newest runs and give space back",
     "Examples\n"
     "  tfverify db gc --keep 20\n",
     OPT(DB) | OPT(KEEP) | OPT(ROOT), 0, 0, run_gc},
    {NULL, NULL, NULL, NULL, 0, 0, 0, NULL},
};
