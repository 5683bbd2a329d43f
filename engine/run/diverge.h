/* run/diverge - where two runs part: the first point that differs, and what that says.
 *
 * Idea: both runs wrote layer hashes in the order of execution; the first point that differs on some
 * rank is where to look, and its kind tells whose fault it is:
 *     input     the runs were given other ids
 *     local     a rank computed another partial, before any exchange of that sum
 *     exchange  all partials were equal and a sum differs
 *     sum       a sum differs, but not all partials could be compared: it is local or exchange
 *     later     the sums were equal; what a rank made of them differs
 *     shape     one run computed something that the other did not
 * Trap: partials of other splits (worlds or weights) are sums over other intervals, and those of other
 * ranks over other weights; only what every rank holds alike is compared then. */
#ifndef TF_ENGINE_RUN_DIVERGE_H
#define TF_ENGINE_RUN_DIVERGE_H

#include "engine/base/digest.h"
#include "engine/base/status.h"
#include "engine/base/text.h"
#include "engine/run/layerhash.h"

#define DIVERGE_FILE_BYTES_MAX (1ull << 30)
#define DIVERGE_LINE_BYTES_MAX 4096u

typedef struct diverge_entry {
    uint32_t step;
    uint32_t layer; /* CALL_TOP: top */
    layerhash_point point;
    char phase[12];
    char shape[40]; /* "17,256" */
    tf_digest hash;
} diverge_entry;

/* One rank's file.  Zero it before use; diverge_run_free afterwards. */
typedef struct diverge_run {
    char model[128], profile[8];
    tf_digest plan, split, settings;
    uint32_t world, rank;
    diverge_entry *entries;
    size_t count;
} diverge_run;

void diverge_run_free(diverge_run *run);
/* The parser of a file's bytes; fails with bad-hashes, naming the line. */
tf_status diverge_parse(const char *path, const char *data, size_t n, diverge_run *out,
                        tf_error *err);

typedef enum {
    DIVERGE_NONE,
    DIVERGE_INPUT,
    DIVERGE_LOCAL,
    DIVERGE_EXCHANGE,
    DIVERGE_SUM,
    DIVERGE_LATER,
    DIVERGE_SHAPE,
} diverge_class;
const char *diverge_class_name(diverge_class c);

/* Reads FILE, or FILE.r0, FILE.r1, ... of a run with more ranks, on both sides; the report is lines for
 * a person or one JSON object.  A rank's own file, named in full, is compared with the same rank of the
 * other side.  A difference fails with hashes-differ, after the report is written. */
tf_status diverge_compare(const char *a, const char *b, bool json, tf_text *out, tf_error *err);

#endif
