/* support/check - the tests' own TAP writer; it shares nothing with harness/base/tap.
 *
 * A test program is a table of cases.  Diagnostics come before the result line.  Exit 0 only if
 * every case passed or skipped.  `TF_CASE=text` runs the cases whose name contains it. */
#ifndef TF_TESTS_SUPPORT_CHECK_H
#define TF_TESTS_SUPPORT_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct check_case check_case;

typedef struct {
    const char *name; /* "canon/ties-go-to-lower-rank": the string a mutant's Expect cites */
    void (*run)(check_case *t);
} check_entry;

/* Runs the table; call from main: `return check_main(argc, argv, cases, COUNT(cases));` */
int check_main(int argc, char **argv, const check_entry *cases, size_t count);

/* Fail the case and go on; the macros print place and values.  Return whether it held. */
bool check_that(check_case *t, bool held, const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
bool check_u64(check_case *t, uint64_t got, uint64_t want, const char *file, int line,
               const char *what);
bool check_str(check_case *t, const char *got, const char *want, const char *file, int line,
               const char *what);
/* A comment line in the output. */
void check_note(check_case *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Marks the case skipped; return from it afterwards. */
void check_skip(check_case *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool check_failed(const check_case *t);
/* Is this a build with sanitizers?  They look at paths, not at values: a test that runs one path over
 * a matrix may then take a few of its cells. */
bool check_sanitized(void);

#define COUNT(a)          (sizeof(a) / sizeof((a)[0]))
#define CHECK(t, x)       check_that(t, (x), __FILE__, __LINE__, "%s", #x)
#define CHECKF(t, x, ...) check_that(t, (x), __FILE__, __LINE__, __VA_ARGS__)
#define CHECK_U64(t, got, want) \
    check_u64(t, (uint64_t)(got), (uint64_t)(want), __FILE__, __LINE__, #got)
#define CHECK_STR(t, got, want) check_str(t, (got), (want), __FILE__, __LINE__, #got)

/* Seeded generator for properties; the seed is printed and `TF_SEED=` replays it. */
typedef struct {
    uint64_t state;
} check_random;
check_random check_seed(check_case *t);
uint64_t check_next(check_random *r);
uint64_t check_below(check_random *r, uint64_t limit); /* 0..limit-1; limit > 0 */

/* A fresh directory, removed with everything in it when the case ends.  Borrowed until then. */
const char *check_tmpdir(check_case *t);

/* Runs a command line by the shell with stdout and stderr into out (NUL-terminated, cut to size);
 * returns the exit code, or 128 + signal. */
int check_command(check_case *t, char *out, size_t size, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
