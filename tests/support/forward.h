/* support/forward - models of the tiny packs, and the publisher's numbers beside them.
 *
 * Idea: a case says how the model is cut and set; everything else is the same every time. */
#ifndef TF_TESTS_SUPPORT_FORWARD_H
#define TF_TESTS_SUPPORT_FORWARD_H

#include "engine/tf.h"
#include "tests/support/check.h"
#include "tests/support/golden.h"

#define FORWARD_PROMPTS 3
#define FORWARD_TOKENS  48
#define FORWARD_VOCAB   1280
#define FORWARD_IDS_MAX 96

extern const uint32_t forward_lengths[FORWARD_PROMPTS]; /* 1, 17, 96 */

typedef struct forward_golden {
    golden_file file;
    int32_t prompt[FORWARD_PROMPTS][FORWARD_IDS_MAX];
    int32_t greedy[FORWARD_PROMPTS][FORWARD_TOKENS];
    char token_sha[FORWARD_PROMPTS][65];
} forward_golden;

/* Reads tests/golden/<pack>/expected.*; fails the case when it cannot. */
bool forward_golden_open(check_case *t, const char *pack, forward_golden *out);
void forward_golden_close(forward_golden *g);
/* "prefill.17.logits" as floats, NULL after failing the case. */
const float *forward_golden_floats(check_case *t, forward_golden *g, const char *name);

/* The pack, made in the build folder's cache on first use. */
tf_pack *forward_pack(check_case *t, const char *pack);
/* weights "2,1,1" or NULL; zeroed options have the cache set.  NULL after failing the case. */
tf_model *forward_open(check_case *t, const tf_pack *pack, uint32_t world, const char *weights,
                       const tf_model_options *options);

/* The whole run of one prompt: prefill in chunks, then decode of the golden ids; every row's logits
 * [count + tokens - 1, V] into `logits` (may be NULL), chosen tokens [tokens] into `tokens`. */
bool forward_run(check_case *t, tf_model *m, const forward_golden *g, uint32_t prompt,
                 uint32_t chunk, float *logits, int32_t *tokens);
/* Rows of a whole run of a prompt. */
uint32_t forward_rows(uint32_t prompt);

#endif
