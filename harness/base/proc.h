/* base/proc - runs a child program within limits and takes what it prints.
 *
 * Idea: the child leads a process group of its own; both pipes are drained together, so no amount
 * of output blocks it; over a limit the group gets TERM, and KILL after a grace.
 * Trap: a grandchild can hold a pipe open after the child is gone, so draining has its own
 * deadline.  A command that fails is a result, not a failure of proc_run: ask proc_check. */
#ifndef TF_HARNESS_BASE_PROC_H
#define TF_HARNESS_BASE_PROC_H

#include "engine/base/status.h"
#include "engine/base/text.h"

#include <stdbool.h>
#include <stdint.h>

/* Most kept of a stream; what comes after is read and dropped. */
#define PROC_OUTPUT_BYTES ((uint64_t)64 << 20)
/* From TERM to KILL, and for a pipe that a grandchild holds. */
#define PROC_GRACE_MS 2000u

/* Borrowed during the call.  Zeroed fields are the defaults. */
typedef struct proc_request {
    const char *const *argv; /* NULL-terminated; argv[0] is looked up on PATH */
    const char *shell;       /* or a line for `sh -c`; argv is then NULL */
    const char *dir;         /* working folder; NULL: this one */
    const char *const
        *env;              /* NULL-terminated "NAME=value", put over the environment; may be NULL */
    uint64_t time_ms;      /* 0: no limit */
    uint64_t output_bytes; /* of each stream; 0: PROC_OUTPUT_BYTES */
    uint64_t memory_bytes; /* of address space; 0: no limit */
    bool quiet;            /* both streams are dropped */
    bool show;             /* both streams go where ours go */
} proc_request;

typedef enum {
    PROC_EXITED,   /* code */
    PROC_SIGNALED, /* signal */
    PROC_TIMED_OUT,
} proc_end;

/* Zero it; proc_free afterwards. */
typedef struct proc_result {
    proc_end end;
    int code;
    int signal;
    tf_text out, err;
    bool out_cut, err_cut; /* more came than was kept */
    uint64_t wall_ms;
} proc_result;

/* Fails with cannot-run when the program cannot be started, interrupted when tf_stop_request came
 * (the group is then ended). */
tf_status proc_run(const proc_request *request, proc_result *result, tf_error *err);
void proc_free(proc_result *result);
/* command-failed, naming the command, how it ended and the last line it said, unless it exited 0. */
tf_status proc_check(const proc_request *request, const proc_result *result, tf_error *err);
/* The command as a line for a person. */
void proc_line(const proc_request *request, tf_text *out);

#endif
