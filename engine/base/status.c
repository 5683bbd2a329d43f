#include "engine/base/status.h"

#include "engine/base/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *text;
    const char *meaning;
    tf_status status;
} words[TF_W_COUNT] = {
    [TF_W_NONE] = {"none", "no failure", TF_OK},
#define WORD(name, status, text, meaning) [TF_W_##name] = {text, meaning, status},
#include "engine/base/words.def"
#undef WORD
};

/* Makes a field fit to print on one line: control bytes become '?', a cut ends in "...". */
static void tidy(char *field, size_t size, int wanted) {
    if (wanted < 0) snprintf(field, size, "(text lost)");
    if (wanted >= 0 && (size_t)wanted >= size) memcpy(field + size - 4, "...", 4);
    for (char *c = field; *c != '\0'; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = '?';
    }
}

static void write_field(char *field, size_t size, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));
static void write_field(char *field, size_t size, const char *format, va_list args) {
    tidy(field, size, vsnprintf(field, size, format, args));
}

/* True when this is the first failure and its fields may be written. */
static bool begin_failure(tf_error *err, tf_word word) {
    TF_ASSERT(err != NULL && word > TF_W_NONE && word < TF_W_COUNT);
    err->closed = err->status != TF_OK;
    if (err->closed) return false;
    err->status = words[word].status;
    err->word = word;
    err->found[0] = err->expected[0] = err->remedy[0] = '\0';
    return true;
}

tf_status tf_fail(tf_error *err, tf_word word, const char *what, ...) {
    if (!begin_failure(err, word)) return err->status;
    va_list args;
    va_start(args, what);
    write_field(err->what, sizeof err->what, what, args);
    va_end(args);
    return err->status;
}

tf_status tf_fail_errno(tf_error *err, tf_word word, int errno_value, const char *what, ...) {
    if (!begin_failure(err, word)) return err->status;
    va_list args;
    va_start(args, what);
    write_field(err->what, sizeof err->what, what, args);
    va_end(args);
    char reason[128] = "";
    if (strerror_r(errno_value, reason, sizeof reason) != 0) {
        snprintf(reason, sizeof reason, "errno %d", errno_value);
    }
    return tf_found(err, "%s", reason);
}

#define DEFINE_PART(name)                                       \
    tf_status tf_##name(tf_error *err, const char *text, ...) { \
        TF_ASSERT(err != NULL && err->status != TF_OK);         \
        if (err->closed) return err->status;                    \
        va_list args;                                           \
        va_start(args, text);                                   \
        write_field(err->name, sizeof err->name, text, args);   \
        va_end(args);                                           \
        return err->status;                                     \
    }
DEFINE_PART(found)
DEFINE_PART(expected)
DEFINE_PART(remedy)

tf_status tf_under(tf_error *err, const char *act, ...) {
    TF_ASSERT(err != NULL && err->status != TF_OK);
    char inner[sizeof err->what];
    memcpy(inner, err->what, sizeof inner);
    char outer[sizeof err->what];
    va_list args;
    va_start(args, act);
    write_field(outer, sizeof outer, act, args);
    va_end(args);
    tidy(err->what, sizeof err->what,
         snprintf(err->what, sizeof err->what, "%.383s: %.383s", outer, inner));
    return err->status;
}

const char *tf_word_text(tf_word word) {
    TF_ASSERT(word >= TF_W_NONE && word < TF_W_COUNT);
    return words[word].text;
}

const char *tf_word_meaning(tf_word word) {
    TF_ASSERT(word >= TF_W_NONE && word < TF_W_COUNT);
    return words[word].meaning;
}

tf_status tf_word_status(tf_word word) {
    TF_ASSERT(word >= TF_W_NONE && word < TF_W_COUNT);
    return words[word].status;
}

const char *tf_status_text(tf_status status) {
    switch (status) {
    case TF_OK:
        return "ok";
    case TF_USAGE:
        return "used wrongly";
    case TF_BAD_INPUT:
        return "bad input";
    case TF_REFUSED:
        return "refused";
    case TF_MISMATCH:
        return "mismatch";
    case TF_IO:
        return "input or output failed";
    case TF_NO_MEMORY:
        return "out of memory";
    case TF_INTERRUPTED:
        return "interrupted";
    case TF_PEER:
        return "a rank failed";
    case TF_INTERNAL:
        return "internal error";
    }
    return "unknown status";
}

int tf_status_exit(tf_status status) {
    switch (status) {
    case TF_OK:
        return 0;
    case TF_MISMATCH:
        return 1;
    case TF_USAGE:
    case TF_REFUSED:
        return 2;
    case TF_BAD_INPUT:
    case TF_IO:
    case TF_NO_MEMORY:
    case TF_INTERNAL:
        return 3;
    case TF_INTERRUPTED:
        return 4;
    case TF_PEER:
        return 70;
    }
    return 3;
}

const char *tf_error_line(const tf_error *err, char *buf, unsigned long size) {
    if (err->status == TF_OK) {
        snprintf(buf, size, "no error");
        return buf;
    }
    bool both = err->found[0] != '\0' && err->expected[0] != '\0';
    bool any = err->found[0] != '\0' || err->expected[0] != '\0';
    snprintf(buf, size, "%s%s%s%s%s%s%s [%s]%s%s", err->what, any ? ": " : "",
             err->found[0] != '\0' ? "found " : "", err->found, both ? ", " : "",
             err->expected[0] != '\0' ? "expected " : "", err->expected, tf_word_text(err->word),
             err->remedy[0] != '\0' ? "\n" : "", err->remedy);
    return buf;
}
