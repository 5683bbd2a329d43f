/* cli/capture_base - pins of an earlier revision: what the code did before the change.
 *
 * Idea: the revision is built in a worktree of its own and captures there, with today's script and
 * today's pins laid over it; what comes out pending is carried home, marked with that revision.
 * Trap: today's script asks for today's subjects; a revision that cannot make one of them says so,
 * and nothing is carried home. */
#ifndef TF_HARNESS_CLI_CAPTURE_BASE_H
#define TF_HARNESS_CLI_CAPTURE_BASE_H

#include "engine/base/status.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct capture_base_request {
    const char *root;     /* project */
    const char *revision; /* as git understands it */
    const char *build;    /* shell line that builds the project; "": nothing to build */
    const char *tool;     /* path of the built tfverify in the project; "": program */
    const char *program;  /* this program */
    const char *run;      /* the run that makes the texts */
    const char *pattern;  /* NULL: all */
    bool trust;           /* the script may use io and os there too */
} capture_base_request;

/* *count: pins now pending. */
tf_status capture_base(const capture_base_request *request, size_t *count, tf_error *err);

#endif
