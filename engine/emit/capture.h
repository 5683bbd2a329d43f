/* emit/capture - call lists as JSON Lines, written and held against what is emitted now.
 *
 * Idea: a capture names in its header all that its list was made from (pack, world, rank, weights,
 * phase, rows, start), so a check makes the same list again and compares line by line.
 * Trap: floats are compared by their bits, integers with the expression they came from. */
#ifndef TF_ENGINE_EMIT_CAPTURE_H
#define TF_ENGINE_EMIT_CAPTURE_H

#include "engine/emit/emit.h"

/* Header line, then one object a call. */
void capture_write(const tf_calls *calls, tf_text *out);
/* Emits again and compares; the first difference is named: calls-differ.  Damaged: bad-capture. */
tf_status capture_check(const tf_pack *pack, const char *path, tf_text *report, tf_error *err);

#endif
