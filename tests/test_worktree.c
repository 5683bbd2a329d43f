/* Revisions beside the project: the right files, nothing of the working tree touched, nothing left. */
#include "engine/base/io.h"
#include "harness/base/worktree.h"
#include "tests/support/check.h"

#include <stdio.h>
#include <string.h>

static char out[4096];

/* A repository with two commits of a file in the folder `sub`; the second is also changed since. */
static bool repository(check_case *t, char *root, size_t size) {
    if (check_command(t, out, sizeof out, "git --version") != 0) {
        check_skip(t, "git is not installed");
        return false;
    }
    const char *dir = check_tmpdir(t);
    snprintf(root, size, "%s/sub", dir);
    int code =
        check_command(t, out, sizeof out,
                      "cd %s && git init -q . && git config user.email a@b && git config "
                      "user.name c && mkdir sub && echo /sub/build >.gitignore && "
                      "echo one >sub/f && git add . && git commit -qm 1 && echo two >sub/f && "
                      "git commit -qam 2 && echo three >sub/f",
                      dir);
    return CHECKF(t, code == 0, "no repository: %s", out);
}

static void a_revision_stands_beside_the_project(check_case *t) {
    char root[256];
    worktree w = {0};
    tf_error err = {0};
    if (!repository(t, root, sizeof root)) return;
    CHECK_U64(t, worktree_make(root, "HEAD~1", &w, &err), TF_OK);
    check_command(t, out, sizeof out, "cat %s/f %s/f", w.project, root);
    CHECK_STR(t, out, "one\nthree\n");
    CHECK_U64(t, strlen(w.revision), 40);
    /* A killed run left its folder: the same revision again. */
    worktree again = {0};
    CHECK_U64(t, worktree_make(root, "HEAD~1", &again, &err), TF_OK);
    check_command(t, out, sizeof out, "cat %s/f", again.project);
    CHECK_STR(t, out, "one\n");
    worktree_remove(&again);
    CHECK(t, !io_exists(again.top));
    check_command(t, out, sizeof out, "cd %s && git worktree list | wc -l; git status --porcelain",
                  root);
    CHECK_STR(t, out, "1\n M sub/f\n");
}

static void an_unknown_revision_is_named(check_case *t) {
    char root[256];
    static const char *const wrong[] = {"no-such", "--help", "HEAD~9", "HEAD:sub/f"};
    if (!repository(t, root, sizeof root)) return;
    for (size_t i = 0; i < COUNT(wrong); i++) {
        worktree w = {0};
        tf_error err = {0};
        CHECK_U64(t, worktree_make(root, wrong[i], &w, &err), TF_USAGE);
        CHECK_U64(t, err.word, TF_W_UNKNOWN_REVISION);
        CHECKF(t, strstr(err.what, wrong[i]) != NULL, "%s", err.what);
    }
    check_command(t, out, sizeof out, "ls %s", root);
    CHECK_STR(t, out, "f\n");
}

static void head_tells_the_revision_and_changes(check_case *t) {
    char root[256];
    char revision[64];
    bool dirty = false;
    tf_error err = {0};
    if (!repository(t, root, sizeof root)) return;
    CHECK_U64(t, worktree_head(root, revision, &dirty, &err), TF_OK);
    CHECK(t, strlen(revision) == 40 && dirty);
    check_command(t, out, sizeof out, "cd %s && git checkout -q f && mkdir build && touch build/x",
                  root);
    CHECK_U64(t, worktree_head(root, revision, &dirty, &err), TF_OK);
    CHECK(t, strlen(revision) == 40 && !dirty);
    CHECK_U64(t, worktree_head("/", revision, &dirty, &err), TF_OK);
    CHECK_STR(t, revision, "");
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"worktree/a-revision-stands-beside-the-project", a_revision_stands_beside_the_project},
        {"worktree/an-unknown-revision-is-named", an_unknown_revision_is_named},
        {"worktree/head-tells-the-revision-and-changes", head_tells_the_revision_and_changes},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
