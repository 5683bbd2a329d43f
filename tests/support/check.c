/* nftw needs the X/Open level. */
#define _XOPEN_SOURCE 700

#include "tests/support/check.h"

#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct check_case {
    const char *name;
    bool failed;
    bool skipped;
    unsigned failures;
    char reason[256];
    char dirs[8][64];
    size_t dir_count;
};

static void diagnose(const char *format, va_list args) __attribute__((format(printf, 1, 0)));
static void diagnose(const char *format, va_list args) {
    char line[4096];
    vsnprintf(line, sizeof line, format, args);
    char *rest = line;
    for (char *part = strtok_r(line, "\n", &rest); part != NULL; part = strtok_r(NULL, "\n", &rest))
        printf("# %s\n", part);
}

bool check_that(check_case *t, bool held, const char *file, int line, const char *format, ...) {
    if (held) return true;
    t->failed = true;
    if (++t->failures > 20) return false;
    printf("# %s:%d: does not hold:\n", file, line);
    va_list args;
    va_start(args, format);
    diagnose(format, args);
    va_end(args);
    return false;
}

bool check_u64(check_case *t, uint64_t got, uint64_t want, const char *file, int line,
               const char *what) {
    return check_that(t, got == want, file, line, "%s: found %llu, expected %llu", what,
                      (unsigned long long)got, (unsigned long long)want);
}

bool check_str(check_case *t, const char *got, const char *want, const char *file, int line,
               const char *what) {
    bool same = got != NULL && want != NULL && strcmp(got, want) == 0;
    return check_that(t, same, file, line, "%s:\nfound    '%s'\nexpected '%s'", what,
                      got == NULL ? "(null)" : got, want == NULL ? "(null)" : want);
}

void check_note(check_case *t, const char *format, ...) {
    (void)t;
    va_list args;
    va_start(args, format);
    diagnose(format, args);
    va_end(args);
}

void check_skip(check_case *t, const char *format, ...) {
    t->skipped = true;
    va_list args;
    va_start(args, format);
    vsnprintf(t->reason, sizeof t->reason, format, args);
    va_end(args);
}

bool check_failed(const check_case *t) {
    return t->failed;
}

bool check_sanitized(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return true;
#else
    return false;
#endif
}

static uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

check_random check_seed(check_case *t) {
    const char *given = getenv("TF_SEED");
    uint64_t seed = given != NULL ? strtoull(given, NULL, 10) : 20261201u;
    check_note(t, "seed %llu (TF_SEED=%llu replays)", (unsigned long long)seed,
               (unsigned long long)seed);
    return (check_random){mix(seed)};
}

uint64_t check_next(check_random *r) {
    r->state += 0x9E3779B97F4A7C15u;
    return mix(r->state);
}

uint64_t check_below(check_random *r, uint64_t limit) {
    return check_next(r) % limit;
}

const char *check_tmpdir(check_case *t) {
    if (t->dir_count == COUNT(t->dirs)) {
        printf("Bail out! more than %zu temporary directories in %s\n", COUNT(t->dirs), t->name);
        exit(1);
    }
    char *dir = t->dirs[t->dir_count];
    snprintf(dir, sizeof t->dirs[0], "/tmp/tfverify-test-XXXXXX");
    if (mkdtemp(dir) == NULL) {
        printf("Bail out! no temporary directory can be made in /tmp\n");
        exit(1);
    }
    t->dir_count++;
    return dir;
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *ftw) {
    (void)st, (void)kind, (void)ftw;
    return remove(path);
}

int check_command(check_case *t, char *out, size_t size, const char *format, ...) {
    char command[4096];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(command, sizeof command - 8, format, args);
    va_end(args);
    CHECKF(t, n > 0 && (size_t)n < sizeof command - 8, "the command line is too long");
    /* The whole line in a group, so that both streams of every part are caught. */
    char grouped[4200];
    snprintf(grouped, sizeof grouped, "{ %s\n} 2>&1", command);
    fflush(stdout);
    FILE *pipe = popen(grouped, "r");
    if (!CHECKF(t, pipe != NULL, "cannot run: %s", command)) return -1;
    size_t used = 0;
    char chunk[4096];
    for (size_t got = fread(chunk, 1, sizeof chunk, pipe); got > 0;
         got = fread(chunk, 1, sizeof chunk, pipe)) {
        size_t keep = used + got < size ? got : size - 1 - used;
        memcpy(out + used, chunk, keep);
        used += keep;
    }
    out[used] = '\0';
    int status = pclose(pipe);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int check_main(int argc, char **argv, const check_entry *cases, size_t count) {
    const char *only = argc > 1 ? argv[1] : getenv("TF_CASE");
    setvbuf(stdout, NULL, _IOLBF, 0);
    size_t selected = 0;
    for (size_t i = 0; i < count; i++)
        selected += only == NULL || strstr(cases[i].name, only) != NULL;
    /* prove of Perl 5.36 refuses a 14, though it reads the rest. */
    printf("TAP version %d\n1..%zu\n", getenv("HARNESS_ACTIVE") == NULL ? 14 : 13, selected);
    size_t number = 0;
    size_t bad = 0;
    for (size_t i = 0; i < count; i++) {
        if (only != NULL && strstr(cases[i].name, only) == NULL) continue;
        check_case t = {.name = cases[i].name};
        cases[i].run(&t);
        for (size_t d = 0; d < t.dir_count; d++)
            nftw(t.dirs[d], remove_entry, 16, FTW_DEPTH | FTW_PHYS);
        printf("%s %zu - %s%s%s\n", t.failed ? "not ok" : "ok", ++number, t.name,
               t.skipped && !t.failed ? " # SKIP " : "", t.skipped && !t.failed ? t.reason : "");
        bad += t.failed;
    }
    if (selected == 0) {
        printf("# no case is named like '%s'\n", only == NULL ? "" : only);
        return 3;
    }
    return bad == 0 ? 0 : 1;
}
