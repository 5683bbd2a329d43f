#include "engine/base/folder.h"

#include "engine/base/fault.h"
#include "engine/base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static tf_status exists(const char *path, tf_error *err) {
    tf_fail(err, TF_W_FOLDER_EXISTS, "making the folder %s", path);
    tf_found(err, "something is there already");
    tf_expected(err, "no such name, or an empty folder");
    return tf_remedy(err, "choose another name, or remove it first");
}

/* Parent directory and last part of a path without trailing slashes. */
static const char *split(const char *path, char *dir, size_t size) {
    const char *slash = strrchr(path, '/');
    if (slash == NULL) {
        snprintf(dir, size, ".");
        return path;
    }
    int n = slash == path ? 1 : (int)(slash - path);
    snprintf(dir, size, "%.*s", n, path);
    return slash + 1;
}

/* Is `name` the temporary of `base` by a process that is gone? */
static bool is_stale(const char *name, const char *base) {
    size_t n = strlen(base);
    if (strncmp(name, base, n) != 0 || strncmp(name + n, ".tmp-", 5) != 0) return false;
    char *end = NULL;
    long pid = strtol(name + n + 5, &end, 10);
    if (end == name + n + 5 || *end != '-' || pid <= 0) return false;
    return kill((pid_t)pid, 0) != 0 && errno == ESRCH;
}

static void remove_stale(const char *dir, const char *base) {
    tf_error ignored = {0}; /* a leftover that stays harms nobody */
    char **names = NULL;
    size_t count = 0;
    if (io_list(dir, &names, &count, &ignored) != TF_OK) return;
    for (size_t i = 0; i < count; i++) {
        char path[TF_PATH_BYTES_MAX];
        if (is_stale(names[i], base) && io_join(path, sizeof path, dir, names[i])) {
            io_remove_tree(path, &ignored);
        }
    }
    io_free_names(names, count);
}

static bool is_free(const char *path) {
    if (!io_exists(path)) return true;
    tf_error ignored = {0};
    char **names = NULL;
    size_t count = 1;
    if (!io_is_dir(path) || io_list(path, &names, &count, &ignored) != TF_OK) return false;
    io_free_names(names, count);
    return count == 0;
}

tf_status folder_create(folder_writer *w, const char *path, tf_error *err) {
    static _Atomic uint32_t serial;
    *w = (folder_writer){0};
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') {
        n--;
    }
    if (n == 0 || n >= sizeof w->path) {
        tf_fail(err, TF_W_CANNOT_WRITE, "making the folder '%s'", path);
        tf_found(err, "a name of %zu bytes", n);
        return tf_expected(err, "1 to %zu", sizeof w->path - 1);
    }
    memcpy(w->path, path, n);
    char dir[TF_PATH_BYTES_MAX];
    const char *base = split(w->path, dir, sizeof dir);
    if (!is_free(w->path)) return exists(w->path, err);
    tf_status status = io_make_dirs(dir, err);
    if (status != TF_OK) return status;
    remove_stale(dir, base);
    snprintf(w->temporary, sizeof w->temporary, "%s.tmp-%ld-%u", w->path, (long)getpid(),
             atomic_fetch_add(&serial, 1u));
    int failed = -1;
    errno = EIO;
    if (!fault_hits(FAULT_WRITE)) failed = mkdir(w->temporary, 0777);
    int saved = errno;
    if (failed != 0) {
        tf_fail_errno(err, TF_W_CANNOT_WRITE, saved, "making the folder %s", w->path);
        return tf_remedy(err, "choose a folder that can be written");
    }
    w->open = true;
    return TF_OK;
}

/* Some file systems know no sync of a directory; the rename itself held. */
static bool sync_dir(const char *dir) {
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return false;
    bool held = fsync(fd) == 0 || errno == EINVAL;
    int saved = errno;
    close(fd);
    errno = saved;
    return held;
}

tf_status folder_commit(folder_writer *w, tf_error *err) {
    char dir[TF_PATH_BYTES_MAX];
    split(w->path, dir, sizeof dir);
    bool held = false;
    errno = EIO;
    if (!fault_hits(FAULT_WRITE)) held = sync_dir(w->temporary);
    held = held && rename(w->temporary, w->path) == 0;
    int saved = errno;
    if (!held && (saved == EEXIST || saved == ENOTEMPTY || saved == ENOTDIR)) {
        return exists(w->path, err);
    }
    if (held) {
        w->open = false;
        held = sync_dir(dir);
        saved = errno;
    }
    if (held) return TF_OK;
    return tf_fail_errno(err, TF_W_CANNOT_WRITE, saved, "making the folder %s", w->path);
}

void folder_discard(folder_writer *w) {
    if (!w->open) return;
    tf_error ignored = {0};
    io_remove_tree(w->temporary, &ignored);
    w->open = false;
}
