/* run/handshake - what all ranks must share, compared before a byte of weights is read.
 *
 * Idea: each rank gathers (name, value) pairs - version, settings, plan, pack - as texts, so that a
 * refusal names the field and both values, the same on every rank.
 * Trap: values are cut for showing, never for comparing: a digest of the whole value goes along. */
#ifndef TF_ENGINE_RUN_HANDSHAKE_H
#define TF_ENGINE_RUN_HANDSHAKE_H

#include "engine/port/exchange.h"

#define HANDSHAKE_FIELDS 24u /* at most */
#define HANDSHAKE_NAME   32u /* bytes that are compared, the NUL included */
#define HANDSHAKE_VALUE  80u /* bytes that are shown, the NUL included */

typedef struct handshake_field {
    const char *name; /* "pack digest" */
    const char *value;
} handshake_field;

/* Compares fields in the order given: put first what explains the rest.  Fails with
 * handshake-differs, or as gather does. */
tf_status handshake_run(exchange *x, const handshake_field *fields, uint32_t count, tf_error *err);

#endif
