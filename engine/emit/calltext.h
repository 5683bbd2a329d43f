/* emit/calltext - a call list as text: what pins hold and a reviewer reads.
 *
 * Idea: one call a line, arguments in the order of kinds.def; a number that depends on the split
 * shows what it was made from, 24{H}.
 * Trap: two lists are the same only if their texts are; nothing a kernel gets may stay out of it. */
#ifndef TF_ENGINE_EMIT_CALLTEXT_H
#define TF_ENGINE_EMIT_CALLTEXT_H

#include "engine/emit/call.h"

/* Fills text, line and digest of a list that is complete otherwise. */
tf_status calltext_make(tf_calls *calls, tf_error *err);
/* One call, without the newline. */
void calltext_line(const tf_calls *calls, const call *c, tf_text *out);
/* The parts of a line: one argument's value, the grid. */
void calltext_arg(const call_arg *a, tf_text *out);
void calltext_grid(const call *c, tf_text *out);
/* "L8", "top". */
void calltext_layer(uint32_t layer, tf_text *out);

#endif
