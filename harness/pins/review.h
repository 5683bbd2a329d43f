/* pins/review - pending pins: shown as diffs, then accepted or rejected by a person.
 *
 * Idea: a pending pin remembers the digest of the pin it was compared with, so accepting can never
 * undo a change that came in between.
 * Trap: accepting writes the pin first and removes the pending one after; killed in between, the
 * pending pin equals the pin and is dropped by the next review. */
#ifndef TF_HARNESS_PINS_REVIEW_H
#define TF_HARNESS_PINS_REVIEW_H

#include "engine/base/status.h"
#include "engine/base/text.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct review_options {
    const char *root;    /* project root */
    const char *pattern; /* pinfile_match; NULL: all */
    const char *command; /* how a person calls the tool; NULL: tfverify */
    bool ci;             /* refuse to write anything */
} review_options;

/* Every selected pending pin as a diff against its pin, then the commands to go on with.  *count is
 * how many; none is no failure. */
tf_status review_show(const review_options *options, tf_text *out, size_t *count, tf_error *err);
/* Puts the selected pending pins in place, or removes them; one line each to out.  All are read
 * before the first is touched.  Fails with nothing-pending, pins-read-only, pin-damaged, or
 * pending-pin-stale when the pin changed since the capture. */
tf_status review_accept(const review_options *options, tf_text *out, size_t *count, tf_error *err);
tf_status review_reject(const review_options *options, tf_text *out, size_t *count, tf_error *err);

#endif
