/* cli/out - the only place that prints.
 *
 * Idea: results go to stdout, everything said beside them to stderr; colour only where a person
 * looks at it.
 * Trap: a full disk under stdout shows only at the flush, so out_finish decides the exit code. */
#ifndef TF_HARNESS_CLI_OUT_H
#define TF_HARNESS_CLI_OUT_H

#include "engine/base/status.h"
#include "engine/base/text.h"

#include <stdbool.h>

/* Is a terminal there, and may it be coloured (NO_COLOR unset, TERM not dumb)? */
void out_begin(bool colour_allowed);
bool out_stderr_is_terminal(void);
bool out_stdout_is_terminal(void);

void out_string(const char *string);
/* Prints and frees; a text that broke for want of memory fails. */
tf_status out_text(tf_text *text, tf_error *err);
/* A line on stderr, after "tfverify: ". */
void out_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* What failed and the remedy, on stderr. */
void out_error(const tf_error *err);
/* Draws over the current line of stderr; "" clears it. */
void out_status_line(const char *line);
/* Flushes stdout; cannot-write when anything of it was lost. */
tf_status out_finish(tf_error *err);

#endif
