#include "harness/cli/out.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool colour;
static int write_errno; /* of the first write to stdout that failed */

void out_begin(bool colour_allowed) {
    colour = colour_allowed && isatty(STDERR_FILENO) == 1;
}

bool out_stderr_is_terminal(void) {
    return isatty(STDERR_FILENO) == 1;
}

bool out_stdout_is_terminal(void) {
    return isatty(STDOUT_FILENO) == 1;
}

void out_string(const char *string) {
    if (fputs(string, stdout) < 0 && write_errno == 0) write_errno = errno;
}

tf_status out_text(tf_text *text, tf_error *err) {
    tf_status status = text_done(text, err);
    if (status == TF_OK) out_string(text_str(text));
    text_free(text);
    return status;
}

void out_note(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("tfverify: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
}

void out_error(const tf_error *err) {
    char line[2048];
    tf_error_line(err, line, sizeof line);
    /* stdout first, so that the failure is the last thing read. */
    fflush(stdout);
    fprintf(stderr, "%stfverify: %s%s\n", colour ? "\033[31m" : "", line, colour ? "\033[0m" : "");
}

void out_status_line(const char *line) {
    fprintf(stderr, "\r%s\033[K", line);
    fflush(stderr);
}

tf_status out_finish(tf_error *err) {
    if (fflush(stdout) != 0 && write_errno == 0) write_errno = errno;
    if (write_errno == 0) return TF_OK;
    return tf_fail_errno(err, TF_W_CANNOT_WRITE, write_errno, "writing to standard output");
}
