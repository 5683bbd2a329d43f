/* plan/admission - one table, operation x world, that every entry point asks first.
 *
 * Idea: which worlds may do what is decided in one place and before anything is opened.
 * Trap: an uneven world is admitted by name, never by "any world that divides". */
#ifndef TF_ENGINE_PLAN_ADMISSION_H
#define TF_ENGINE_PLAN_ADMISSION_H

#include "engine/base/status.h"
#include "engine/base/text.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum {
    TF_OP_PLAN,
    TF_OP_RANK_FILES,
    TF_OP_EMIT_DECODE,
    TF_OP_EMIT_DRAFT,
    TF_OP_EMIT_PREFILL,
    TF_OP_EMIT_PREFETCH,
    TF_OP_FORWARD,
    TF_OP_SERVE,
    TF_OP_GATE,
    TF_OP_COUNT,
} tf_op;

typedef enum {
    ADMIT_NO,
    ADMIT_YES,
    ADMIT_SIGNED
} admission; /* signed: needs a sign-off */

const char *admission_op_name(tf_op op);
admission admission_of(tf_op op, uint32_t world);
/* world-not-admitted, or needs-sign-off (has_sign_off false at a world that wants one). */
tf_status admission_ask(tf_op op, uint32_t world, bool has_sign_off, tf_error *err);

/* The whole table: a line an operation, or one JSON object. */
void admission_describe(bool json, tf_text *out);

/* Tests watch who asks: called with every question while set.  NULL to stop. */
void admission_spy(void (*seen)(void *context, tf_op op, uint32_t world), void *context);

#endif
