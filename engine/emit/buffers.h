/* emit/buffers - where a list's buffers lie, and how much memory that takes.
 *
 * Idea: x. and L. buffers live from their first call to their last; each gets the lowest offset
 * that no buffer alive at the same time covers, so the peak is known before anything is taken.
 * Trap: lifetimes are those of the whole list; a list cut to one layer keeps the whole one's. */
#ifndef TF_ENGINE_EMIT_BUFFERS_H
#define TF_ENGINE_EMIT_BUFFERS_H

#include "engine/emit/call.h"

#define BUFFER_ALIGN 256u /* bytes; enough for any device's loads */

/* Sets every offset, step_bytes and state_bytes. */
tf_status buffers_place(tf_calls *calls, tf_error *err);
/* Bytes of memory a caller must provide for the step: step_bytes. */
uint64_t buffers_bytes(const tf_calls *calls);
/* Is it memory of the step (x. and L.), placed at an offset? */
bool buffer_is_step(const call_buffer *b);
/* State of a request (s. and w.)? */
bool buffer_is_state(const call_buffer *b);
/* One line a role: bytes, shape, lifetime; totals last.  json: one object. */
void buffers_describe(const tf_calls *calls, bool json, tf_text *out);

#endif
