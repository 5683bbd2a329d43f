/* base/tap - TAP 14: a writer for our runs, a reader for anybody's tests.
 *
 * Idea: the writer adds to a text and counts, so that a plan line can never disagree with what was
 * written; the reader checks numbers, plans and subtests against each other.
 * Trap: a test program that dies has written a good beginning.  Only a plan that was met is a whole
 * stream, and no points at all are not green. */
#ifndef TF_HARNESS_BASE_TAP_H
#define TF_HARNESS_BASE_TAP_H

#include "engine/base/status.h"
#include "engine/base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TAP_DEPTH_MAX 16u

typedef enum {
    TAP_OK,
    TAP_NOT_OK,
    TAP_SKIP,  /* ok, and not run */
    TAP_TODO,  /* not ok, and known */
    TAP_ERROR, /* not ok: could not be tried */
} tap_outcome;

/* A pair for the YAML block under a point.  A value of several lines is kept as such. */
typedef struct tap_field {
    const char *key;
    const char *value;
} tap_field;

typedef struct tap_level {
    uint64_t points;
    uint64_t bad;
} tap_level;

typedef struct tap_writer {
    tf_text *out; /* caller owns, and may print and clear it between calls */
    unsigned depth;
    tap_level levels[TAP_DEPTH_MAX];
} tap_writer;

/* Writes the version line: 14, or 13 for harnesses that refuse what they do not know by number,
 * though they read the rest (prove of Perl 5.36). */
void tap_begin(tap_writer *w, tf_text *out, unsigned version);
void tap_enter(tap_writer *w, const char *name);
/* Closes the innermost subtest with its plan, and tells it as a point of the outer one. */
void tap_leave(tap_writer *w, const char *name);
/* reason: of a skip, a todo or an error; may be NULL.  fields with a NULL value are left out. */
void tap_point(tap_writer *w, tap_outcome outcome, const char *name, const char *reason,
               const tap_field *fields, size_t field_count);
/* Each line as a comment at the depth of now. */
void tap_note(tap_writer *w, const char *lines);
/* The plan of the outermost level, closing what is open. */
void tap_finish(tap_writer *w);
void tap_bail_out(tap_writer *w, const char *reason);
/* Did every point hold or skip? */
bool tap_held(const tap_writer *w);

/* ---- reading ---- */

typedef struct tap_event {
    unsigned depth;
    uint64_t number;
    tap_outcome outcome;
    const char *name;   /* unescaped */
    const char *reason; /* "" when none */
    const char *yaml;   /* the block without its indent and marks; "" when none */
} tap_event;

typedef struct tap_summary {
    uint64_t planned; /* of the outermost level */
    uint64_t held, failed, skipped, todo;
    bool skip_all;
} tap_summary;

typedef tf_status (*tap_visit)(void *context, const tap_event *event, tf_error *err);

/* Reads a whole stream; visit (may be NULL) gets points in order, those of a subtest before the
 * point that closes it.  Fails with bad-tap, naming the line: no plan, another count, a number out
 * of order, a subtest that failed under an ok; and with tap-bailed-out. */
tf_status tap_read(const char *name, const char *text, size_t n, tap_visit visit, void *context,
                   tap_summary *out, tf_error *err);

#endif
