/* cli/recording - what a script reports, as TAP on stdout and rows in the store.
 *
 * Idea: both get the same facts in the same order, so that the store can be trusted for what the
 * screen showed.
 * Trap: a point is stored under the names of all cases around it, joined by slashes. */
#ifndef TF_HARNESS_CLI_RECORDING_H
#define TF_HARNESS_CLI_RECORDING_H

#include "engine/base/text.h"
#include "harness/base/store.h"
#include "harness/base/tap.h"
#include "harness/lua/report.h"

#include <stdbool.h>

typedef struct recording {
    tap_writer tap;
    tf_text text;                        /* TAP not yet printed */
    store *store;                        /* NULL: nothing is recorded */
    bool progress;                       /* a line on stderr tells where we are */
    const char *cases[REPORT_DEPTH_MAX]; /* names around, borrowed from the report */
    uint64_t points;
} recording;

void recording_begin(recording *r, store *db, unsigned tap_version, bool progress);
report_sink recording_sink(recording *r);
/* The plan line; prints what is left.  Without a single point nothing is printed. */
void recording_end(recording *r);

#endif
