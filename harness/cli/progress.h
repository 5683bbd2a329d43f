/* cli/progress - one line on a terminal about long work: how far, how fast, how long still.
 *
 * Idea: the rate is over the whole work, so that the time left does not jump.
 * Trap: where stderr is no terminal nothing is drawn, but Ctrl-C must still stop the work. */
#ifndef TF_HARNESS_CLI_PROGRESS_H
#define TF_HARNESS_CLI_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zero it, set what. */
typedef struct progress {
    const char *what;   /* "writing rank 2" */
    bool drawn;         /* a line is on the screen */
    uint64_t begin_ms;  /* 0 before the first call */
    uint64_t latest_ms; /* of the last drawing */
} progress;

/* A tf_progress; context is a progress. */
bool progress_tick(void *context, const char *unit, uint64_t done, uint64_t total);
/* Takes the line away. */
void progress_end(progress *p);
/* The line itself: "writing rank 2: 1.2 of 2.0 GB, 61 %, 850 MB/s, 1 s left". */
void progress_line(char *line, size_t size, const char *what, const char *unit, uint64_t done,
                   uint64_t total, uint64_t elapsed_ms);

#endif
