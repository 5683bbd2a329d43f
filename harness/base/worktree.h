/* base/worktree - an earlier revision of a project, checked out beside it for a while.
 *
 * Idea: git's own worktrees: nothing of the working tree is touched, so nothing has to be put back.
 * Trap: a killed run leaves its folder; it is under build/, named by its revision, and the next
 * checkout of that revision begins by removing it. */
#ifndef TF_HARNESS_BASE_WORKTREE_H
#define TF_HARNESS_BASE_WORKTREE_H

#include "engine/base/status.h"

#include <stdbool.h>

/* Zero it; worktree_remove afterwards. */
typedef struct worktree {
    bool there;
    char top[1024];     /* the checkout */
    char project[1280]; /* the project in it; top itself, or a folder below */
    char root[1024];    /* the project it was made from */
    char revision[64];  /* full hash */
} worktree;

/* Checks revision out under root/build.  Fails with unknown-revision, cannot-run, command-failed. */
tf_status worktree_make(const char *root, const char *revision, worktree *out, tf_error *err);
void worktree_remove(worktree *w);

/* The hash of HEAD and whether files under root differ from it; "" outside of git, which is no
 * failure. */
tf_status worktree_head(const char *root, char revision[64], bool *dirty, tf_error *err);

#endif
