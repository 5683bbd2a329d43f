/* base/status - what a fallible function returns, and the one message it leaves.
 *
 * Idea: the place that detects a failure names the word, the act, the value found, the value
 * expected and the remedy, once; outer layers may only put their own act in front.
 * Trap: the first failure wins.  Cleanup that fails too cannot overwrite it. */
#ifndef TF_ENGINE_BASE_STATUS_H
#define TF_ENGINE_BASE_STATUS_H

#include <stdbool.h>

typedef enum {
    TF_OK = 0,
    TF_USAGE,       /* asked for wrongly: exit 2 */
    TF_BAD_INPUT,   /* a file from outside is damaged or of another kind: exit 3 */
    TF_REFUSED,     /* well formed, but not permitted: exit 2 */
    TF_MISMATCH,    /* a check failed: exit 1 */
    TF_IO,          /* the system said no: exit 3 */
    TF_NO_MEMORY,   /* exit 3 */
    TF_INTERRUPTED, /* exit 4 */
    TF_PEER,        /* another rank died or differs: exit 70 */
    TF_INTERNAL,    /* a promise of our own broke: exit 3 */
} tf_status;

typedef enum {
    TF_W_NONE = 0,
#define WORD(name, status, text, meaning) TF_W_##name,
#include "engine/base/words.def"
#undef WORD
    TF_W_COUNT,
} tf_word;

/* Caller owns; zero it (`tf_error err = {0};`) before the first use.  All texts end in NUL, hold no
 * newline and are cut with "..." where too long. */
typedef struct tf_error {
    tf_status status;
    tf_word word;
    bool closed;        /* a later tf_fail was ignored; its found/expected/remedy are too */
    char what[768];     /* the act and its object: "writing rank file L7.bin" */
    char found[256];    /* the value seen; may be empty */
    char expected[256]; /* the value wanted; may be empty */
    char remedy[384];   /* one command or setting to change; may be empty, never a guess */
} tf_error;

/* Records a failure; the status comes from the word.  Returns it.  A second call is ignored. */
tf_status tf_fail(tf_error *err, tf_word word, const char *what, ...)
    __attribute__((format(printf, 3, 4)));
/* Add a part to the failure just recorded.  Each returns err->status, so that a detection ends in
 *     tf_fail(err, TF_W_WRONG_RANK, "reading %s", path);
 *     tf_found(err, "rank %u", got);
 *     return tf_expected(err, "rank %u", want);  */
tf_status tf_found(tf_error *err, const char *text, ...) __attribute__((format(printf, 2, 3)));
tf_status tf_expected(tf_error *err, const char *text, ...) __attribute__((format(printf, 2, 3)));
tf_status tf_remedy(tf_error *err, const char *text, ...) __attribute__((format(printf, 2, 3)));
/* Puts an outer act in front: "verifying DIR: reading rank file L7.bin". */
tf_status tf_under(tf_error *err, const char *act, ...) __attribute__((format(printf, 2, 3)));
/* cannot-open, cannot-read, ... with the errno given, read on the line of the failing call. */
tf_status tf_fail_errno(tf_error *err, tf_word word, int errno_value, const char *what, ...)
    __attribute__((format(printf, 4, 5)));

/* Static storage. */
const char *tf_word_text(tf_word word);
const char *tf_word_meaning(tf_word word);
tf_status tf_word_status(tf_word word);
const char *tf_status_text(tf_status status);
/* The exit code of a status: 0, 1, 2, 3, 4 or 70. */
int tf_status_exit(tf_status status);

/* One line for a person: "what: found F, expected E [word]\nremedy"; writes at most size bytes and
 * a NUL.  Returns buf. */
const char *tf_error_line(const tf_error *err, char *buf, unsigned long size);

/* The only control-flow macro of the tree: jumps to `done:`, so that cleanup runs on every path.
 * Needs a `tf_status status = TF_OK;` in scope. */
#define TF_TRY(expr)                    \
    do {                                \
        status = (expr);                \
        if (status != TF_OK) goto done; \
    } while (0)

#endif
