/* lua/report - outcomes of a run: cases within cases, points within them.
 *
 * Idea: a case is opened by its first point, so one that a pattern left empty is never shown.
 * Trap: an error is neither passed nor failed: it is a check that could not be made, and the run is
 * not green with one. */
#ifndef TF_HARNESS_LUA_REPORT_H
#define TF_HARNESS_LUA_REPORT_H

#include "engine/base/status.h"
#include "engine/tf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Cases within cases. */
#define REPORT_DEPTH_MAX 8
#define REPORT_NAME_MAX  256

typedef enum {
    REPORT_OK,
    REPORT_FAILED,
    REPORT_SKIPPED,
    REPORT_ERROR,
} report_outcome;

typedef struct report_point {
    report_outcome outcome;
    const char *name;
    const char *reason;  /* of a skip; else NULL */
    const char *word;    /* code word of a failure; else NULL */
    const char *message; /* one line; NULL when it held */
    const char *detail;  /* lines for a person: a diff, a traceback; may be NULL */
    const char *place;   /* "scripts.lua:12"; may be NULL */
} report_point;

/* Something the engine made in a run, for a store. */
typedef struct report_made {
    const char *kind; /* "plan", "calls", "rank-files" */
    const char *name; /* flash/w3/r2/decode: also its pin's */
    const char *pack;
    uint32_t world, rank;
    tf_digest digest;
    uint64_t bytes;        /* of its text; of rank files: 0 */
    const tf_plan *plan;   /* of a plan; else NULL */
    const tf_calls *calls; /* of calls; else NULL */
} report_made;

/* Where outcomes go: the caller's TAP writer and store.  Any function may be NULL.  depth is the
 * number of open cases around. */
typedef struct report_sink {
    void *context;
    tf_status (*enter)(void *context, unsigned depth, const char *name, tf_error *err);
    tf_status (*leave)(void *context, unsigned depth, const char *name, bool held, tf_error *err);
    tf_status (*point)(void *context, unsigned depth, const report_point *point, tf_error *err);
    tf_status (*note)(void *context, unsigned depth, const char *line, tf_error *err);
    tf_status (*made)(void *context, const report_made *made, tf_error *err);
    tf_status (*pin)(void *context, const char *name, const char *verdict, tf_error *err);
} report_sink;

typedef struct report_counts {
    size_t held, failed, skipped, errors;
} report_counts;

typedef struct report_case {
    char name[REPORT_NAME_MAX];
    bool opened; /* its enter was told */
    bool bad;    /* a point in it failed or erred */
} report_case;

/* Begin with {.sink = ...}. */
typedef struct report {
    report_sink sink;
    report_counts counts;
    report_case cases[REPORT_DEPTH_MAX];
    unsigned depth;
} report;

/* Fails with script-error when cases nest too deep. */
tf_status report_enter(report *r, const char *name, tf_error *err);
tf_status report_leave(report *r, tf_error *err);
tf_status report_add(report *r, const report_point *point, tf_error *err);
/* One or more lines. */
tf_status report_note(report *r, const char *text, tf_error *err);
tf_status report_tell_made(report *r, const report_made *made, tf_error *err);
tf_status report_tell_pin(report *r, const char *name, const char *verdict, tf_error *err);
const char *report_outcome_text(report_outcome outcome);

#endif
