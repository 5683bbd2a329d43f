#include "harness/cli/capture_base.h"

#include "engine/base/io.h"
#include "engine/base/limits.h"
#include "harness/base/proc.h"
#include "harness/base/worktree.h"
#include "harness/cli/out.h"
#include "harness/pins/pinfile.h"
#include "harness/pins/pins.h"

#include <stdio.h>
#include <string.h>

static tf_status run_in(const char *dir, const proc_request *request, tf_error *err) {
    tf_status status = TF_OK;
    proc_result result = {0};
    proc_request r = *request;
    r.dir = dir;
    TF_TRY(proc_run(&r, &result, err));
    TF_TRY(proc_check(&r, &result, err));
done:
    proc_free(&result);
    return status;
}

/* root/name to project/name, a file or a folder; a missing one is fine. */
static tf_status lay_over(const char *name, const char *root, const char *project, tf_error *err) {
    tf_status status = TF_OK;
    char from[TF_PATH_BYTES_MAX + 16];
    char to[TF_PATH_BYTES_MAX + 300];
    const char *const argv[] = {"cp", "-R", from, to, NULL};
    snprintf(from, sizeof from, "%s/%s", root, name);
    snprintf(to, sizeof to, "%s/%s", project, name);
    TF_TRY(io_remove_tree(to, err));
    if (io_exists(from)) TF_TRY(run_in(NULL, &(proc_request){.argv = argv}, err));
done:
    return status;
}

/* Pending pins of before would be taken for the revision's. */
static tf_status drop_pending(const char *project, tf_error *err) {
    tf_status status = TF_OK;
    char **names = NULL;
    size_t count = 0;
    TF_TRY(pin_names(project, true, &names, &count, err));
    for (size_t i = 0; i < count; i++) {
        char path[2 * TF_PATH_BYTES_MAX];
        TF_TRY(pin_path(project, names[i], true, path, sizeof path, err));
        TF_TRY(io_remove_tree(path, err));
    }
done:
    io_free_names(names, count);
    return status;
}

static tf_status carry_home(const worktree *w, size_t *carried, tf_error *err) {
    tf_status status = TF_OK;
    char **names = NULL;
    size_t count = 0;
    char from[2 * TF_PATH_BYTES_MAX];
    char to[2 * TF_PATH_BYTES_MAX];
    *carried = 0;
    TF_TRY(pin_names(w->project, true, &names, &count, err));
    for (size_t i = 0; i < count; i++) {
        pin_file file = {0};
        TF_TRY(pin_path(w->project, names[i], true, from, sizeof from, err));
        TF_TRY(pin_path(w->root, names[i], true, to, sizeof to, err));
        status = pinfile_read(from, names[i], &file, err);
        file.captured_at = w->revision;
        if (status == TF_OK) status = pinfile_write(to, &file, err);
        pinfile_free(&file);
        if (status != TF_OK) goto done;
        ++*carried;
    }
done:
    io_free_names(names, count);
    return status;
}

static tf_status capture_there(const capture_base_request *q, const worktree *w, tf_error *err) {
    tf_status status = TF_OK;
    char tool[2 * TF_PATH_BYTES_MAX];
    char db[2 * TF_PATH_BYTES_MAX];
    const char *argv[12] = {tool,    "pins", "capture", "--root", w->project,
                            "--run", q->run, "--db",    db};
    size_t n = 9;
    if (q->trust) argv[n++] = "--trust";
    argv[n] = q->pattern;
    /* Nobody refuses there what was allowed here. */
    static const char *const env[] = {"CI=0", NULL};
    snprintf(db, sizeof db, "%s/build/base.db", w->project);
    if (q->tool[0] == '\0')
        snprintf(tool, sizeof tool, "%s", q->program);
    else
        snprintf(tool, sizeof tool, "%s/%s", w->project, q->tool);
    if (q->build[0] != '\0') {
        out_note("building %.12s: %s", w->revision, q->build);
        TF_TRY(run_in(w->project, &(proc_request){.shell = q->build}, err));
    }
    out_note("capturing at %.12s", w->revision);
    TF_TRY(run_in(w->project, &(proc_request){.argv = argv, .env = env}, err));
done:
    return status;
}

tf_status capture_base(const capture_base_request *request, size_t *count, tf_error *err) {
    tf_status status = TF_OK;
    worktree w = {0};
    *count = 0;
    TF_TRY(worktree_make(request->root, request->revision, &w, err));
    TF_TRY(lay_over("scripts.lua", request->root, w.project, err));
    TF_TRY(lay_over("pins", request->root, w.project, err));
    TF_TRY(drop_pending(w.project, err));
    TF_TRY(capture_there(request, &w, err));
    TF_TRY(carry_home(&w, count, err));
done:
    worktree_remove(&w);
    if (status != TF_OK) tf_under(err, "capturing at %s", request->revision);
    return status;
}
