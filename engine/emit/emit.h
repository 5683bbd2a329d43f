/* emit/emit - a plan's forward as a list of calls, for one rank and phase.
 *
 * Idea: decode, prefill and draft are the same pieces in another order of rows; each piece is
 * written once and MODEL's sections read off it.  The executor runs this list and nothing else.
 * Trap: every rank must emit its exchanges in the same order, so nothing here may ask the rank's
 * own share whether to emit a call, only how large it is. */
#ifndef TF_ENGINE_EMIT_EMIT_H
#define TF_ENGINE_EMIT_EMIT_H

#include "engine/emit/call.h"

typedef struct emit_request {
    call_phase phase;
    uint32_t layer;   /* UINT32_MAX: all; CALL_TOP; or a logical layer: the list is cut to it */
    uint32_t rows;    /* 0: 1 for decode and draft, 128 for prefill */
    uint64_t start;   /* prefill */
    uint64_t context; /* 0: 4096 */
    bool logits;
} emit_request;

#define EMIT_ROWS_PREFILL 128u
#define EMIT_CONTEXT      4096u
#define EMIT_ROWS_MAX     65536u
#define EMIT_ALL_LAYERS   UINT32_MAX

/* Asks admission first.  Fails with world-not-admitted, bad-request, no-such-layer,
 * weights-differ, no-memory.  Free with calls_free; borrows the plan. */
tf_status emit_calls(const tf_plan *plan, const emit_request *request, tf_calls **out,
                     tf_error *err);

#endif
