/* run, pins check|capture|review|accept|reject: what is proved, and what it is compared with. */
#include "harness/cli/commands.h"
#include "harness/cli/out.h"
#include "harness/cli/session.h"
#include "harness/pins/pins.h"
#include "harness/pins/review.h"

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

const command prove_commands[] = {
    {"pins review", "[PATTERN]",
     "show every pending pin as a diff with the expression that changed",
     "PATTERN is a name with * and ?, from any folder of it on: 'w3/*' selects flash/w3/r2/plan.\n\n"
     "Examples\n"
     "  tfverify pins review\n"
     "  tfverify pins review 'flash/*'\n",
     OPT(ROOT), 0, 1, run_review},
    {"pins accept", "PATTERN", "put pending pins in place; refused when CI is set",
     "Examples\n"
     "  tfverify pins accept flash/w3/r2/plan\n"
     "  tfverify pins accept 'w3/*'\n",
     OPT(ROOT), 1, 1, run_accept},
    {"pins reject", "PATTERN", "remove pending pins; refused when CI is set",
     "Examples\n"
     "  tfverify pins reject flash/w3/r2/plan\n",
     OPT(ROOT), 1, 1, run_reject},
    {NULL, NULL, NULL, NULL, 0, 0, 0, NULL},
};
