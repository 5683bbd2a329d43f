/* realpath is of the X/Open level. */
#define _XOPEN_SOURCE 700

#include "harness/cli/session.h"

#include "engine/base/io.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *setting(const char *name) {
    const char *value = getenv(name);
    return value == NULL ? "" : value;
}

static tf_status too_long(const char *path, tf_error *err) {
    tf_fail(err, TF_W_USAGE, "reading the path %.200s", path);
    tf_found(err, "%zu bytes", strlen(path));
    return tf_expected(err, "fewer than %u", TF_PATH_BYTES_MAX);
}

static bool is_project(const char *dir) {
    char path[TF_PATH_BYTES_MAX];
    return io_join(path, sizeof path, dir, "scripts.lua") && io_exists(path);
}

static tf_status find_root(session *s, const args *a, tf_error *err) {
    if (a->given[OPT_ROOT]) {
        char real[PATH_MAX];
        if (realpath(a->text[OPT_ROOT], real) == NULL)
            return tf_fail_errno(err, TF_W_CANNOT_OPEN, errno, "opening the project %s",
                                 a->text[OPT_ROOT]);
        int n = snprintf(s->root, sizeof s->root, "%s", real);
        if (n < 0 || (size_t)n >= sizeof s->root) return too_long(a->text[OPT_ROOT], err);
        if (is_project(s->root)) return TF_OK;
        tf_fail(err, TF_W_NO_PROJECT, "opening the project %s", s->root);
        return tf_expected(err, "a folder with scripts.lua");
    }
    if (getcwd(s->root, sizeof s->root) == NULL)
        return tf_fail_errno(err, TF_W_CANNOT_OPEN, errno, "asking for the working folder");
    while (!is_project(s->root)) {
        char *slash = strrchr(s->root, '/');
        if (slash == NULL || s->root[1] == '\0') {
            s->root[0] = '\0';
            break;
        }
        slash[slash == s->root ? 1 : 0] = '\0';
    }
    return TF_OK;
}

/* to = base/name unless base is empty. */
static tf_status under(char *to, size_t size, const char *base, const char *name, tf_error *err) {
    to[0] = '\0';
    if (base[0] == '\0') return TF_OK;
    return io_join(to, size, base, name) ? TF_OK : too_long(base, err);
}

/* What was typed, cut where it is too long. */
static void keep_line(session *s, char *const *argv) {
    size_t used = 0;
    for (size_t i = 0; argv[i] != NULL && used < sizeof s->line; i++) {
        int n = snprintf(s->line + used, sizeof s->line - used, "%s%s", i == 0 ? "" : " ", argv[i]);
        used += n > 0 ? (size_t)n : 0;
    }
}

tf_status session_begin(session *s, char *const *argv, const args *a, tf_error *err) {
    tf_status status = TF_OK;
    char real[PATH_MAX];
    *s = (session){0};
    const char *ci = setting("CI");
    s->ci = ci[0] != '\0' && strcmp(ci, "0") != 0 && strcmp(ci, "false") != 0;
    /* prove says so. */
    s->tap_version = setting("HARNESS_ACTIVE")[0] == '\0' ? 14 : 13;
    snprintf(s->tool, sizeof s->tool, "%s", argv[0]);
    if (realpath("/proc/self/exe", real) != NULL)
        snprintf(s->program, sizeof s->program, "%.1000s", real);
    keep_line(s, argv);
    TF_TRY(find_root(s, a, err));
    if (s->root[0] != '\0') {
        TF_TRY(under(s->cache, sizeof s->cache, s->root, "build/packs", err));
    } else if (setting("XDG_CACHE_HOME")[0] == '/') {
        TF_TRY(under(s->cache, sizeof s->cache, setting("XDG_CACHE_HOME"), "tfverify", err));
    } else {
        TF_TRY(under(s->cache, sizeof s->cache, setting("HOME"), ".cache/tfverify", err));
    }
    if (a->given[OPT_DB]) {
        if (strlen(a->text[OPT_DB]) >= sizeof s->db) return too_long(a->text[OPT_DB], err);
        snprintf(s->db, sizeof s->db, "%s", a->text[OPT_DB]);
    } else {
        TF_TRY(under(s->db, sizeof s->db, s->root, "build/tfverify.db", err));
    }
done:
    return status;
}

tf_status session_need_root(const session *s, tf_error *err) {
    if (s->root[0] != '\0') return TF_OK;
    tf_fail(err, TF_W_NO_PROJECT, "looking for the project");
    tf_found(err, "no scripts.lua in this folder or above");
    return tf_remedy(err, "go to the project's folder, or name it with --root DIR");
}

tf_status session_need_db(const session *s, tf_error *err) {
    if (s->db[0] != '\0') return TF_OK;
    tf_fail(err, TF_W_USAGE, "looking for the store");
    tf_found(err, "no project here and no --db");
    return tf_remedy(err, "go to the project's folder, or name the store with --db FILE");
}

bool session_find_program(const char *name, char *path, size_t size) {
    for (const char *p = setting("PATH"); *p != '\0';) {
        size_t n = strcspn(p, ":");
        int written = snprintf(path, size, "%.*s/%s", (int)n, p, name);
        if (n > 0 && written > 0 && (size_t)written < size && access(path, X_OK) == 0) return true;
        p += n + (p[n] == ':');
    }
    return false;
}

bool session_colour(void) {
    return setting("NO_COLOR")[0] == '\0' && strcmp(setting("TERM"), "dumb") != 0;
}
