#include "harness/base/worktree.h"

#include "engine/base/io.h"
#include "harness/base/proc.h"

#include <stdio.h>
#include <string.h>

enum {
    GIT_WORDS_MAX = 12
};

/* Runs git in root; its standard output without the last newline to `out`. */
static tf_status git(const char *root, const char *const *words, char *out, size_t size,
                     proc_result *result, tf_error *err) {
    tf_status status = TF_OK;
    const char *argv[GIT_WORDS_MAX + 4] = {"git", "-C", root};
    for (size_t i = 0; i < GIT_WORDS_MAX && words[i] != NULL; i++)
        argv[i + 3] = words[i];
    proc_request request = {.argv = argv, .time_ms = 300000};
    TF_TRY(proc_run(&request, result, err));
    TF_TRY(proc_check(&request, result, err));
    if (out != NULL) {
        snprintf(out, size, "%s", text_str(&result->out));
        out[strcspn(out, "\n")] = '\0';
    }
done:
    proc_free(result);
    return status;
}

tf_status worktree_head(const char *root, char revision[64], bool *dirty, tf_error *err) {
    static const char *const head[] = {"rev-parse", "--verify", "HEAD", NULL};
    static const char *const changes[] = {"status", "--porcelain", NULL};
    proc_result result = {0};
    char line[16] = "";
    tf_error silent = {0};
    revision[0] = '\0';
    *dirty = false;
    if (git(root, head, revision, 64, &result, &silent) != TF_OK) {
        revision[0] = '\0';
        return silent.word == TF_W_INTERRUPTED ? tf_fail(err, TF_W_INTERRUPTED, "asking git")
                                               : TF_OK;
    }
    tf_status status = git(root, changes, line, sizeof line, &result, err);
    *dirty = line[0] != '\0';
    return status;
}

static tf_status find_revision(const char *root, const char *revision, worktree *w, tf_error *err) {
    char name[300];
    proc_result result = {0};
    tf_error git_said = {0};
    snprintf(name, sizeof name, "%.256s^{commit}", revision);
    const char *const words[] = {"rev-parse", "--verify", "--end-of-options", name, NULL};
    if (git(root, words, w->revision, sizeof w->revision, &result, &git_said) == TF_OK)
        return TF_OK;
    if (git_said.word != TF_W_COMMAND_FAILED) {
        *err = git_said;
        return err->status;
    }
    tf_fail(err, TF_W_UNKNOWN_REVISION, "looking for revision %s in %s", revision, root);
    tf_found(err, "%s", git_said.found);
    return tf_remedy(err, "git log --oneline lists revisions");
}

tf_status worktree_make(const char *root, const char *revision, worktree *out, tf_error *err) {
    tf_status status = TF_OK;
    proc_result result = {0};
    char prefix[256] = "";
    static const char *const show_prefix[] = {"rev-parse", "--show-prefix", NULL};
    const char *add[] = {"worktree", "add",    "--quiet",     "--force",
                         "--detach", out->top, out->revision, NULL};
    *out = (worktree){0};
    TF_TRY(find_revision(root, revision, out, err));
    TF_TRY(git(root, show_prefix, prefix, sizeof prefix, &result, err));
    snprintf(out->root, sizeof out->root, "%s", root);
    snprintf(out->top, sizeof out->top, "%.900s/build/base-%.12s", root, out->revision);
    snprintf(out->project, sizeof out->project, "%s%s%s", out->top, prefix[0] == '\0' ? "" : "/",
             prefix);
    out->there = true;
    worktree_remove(out);
    out->there = true;
    TF_TRY(git(root, add, NULL, 0, &result, err));
done:
    if (status != TF_OK) {
        worktree_remove(out);
        tf_under(err, "checking out %s", revision);
    }
    return status;
}

void worktree_remove(worktree *w) {
    proc_result result = {0};
    tf_error ignored = {0};
    if (!w->there) return;
    w->there = false;
    /* The folder goes even when git is stopped from helping; prune then forgets it. */
    io_remove_tree(w->top, &ignored);
    static const char *const prune[] = {"worktree", "prune", NULL};
    ignored = (tf_error){0};
    git(w->root, prune, NULL, 0, &result, &ignored);
}
