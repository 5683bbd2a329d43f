/* run/fate - what a rank says when a run ends badly.
 *
 * Idea: a rank that fails tells the others why before it goes, and prints its last exchanges: laid
 * side by side, those of all ranks show who is where.
 * Trap: the text may be wanted when a rank hangs, by a handler of SIGTERM: fate_text takes no memory
 * and no lock, and calls nothing that a signal handler may not. */
#ifndef TF_ENGINE_RUN_FATE_H
#define TF_ENGINE_RUN_FATE_H

#include "engine/port/exchange.h"

#include <stddef.h>

#define FATE_BYTES 2048u /* always enough for fate_text */

/* Lines such as
 *     rank 1 of 3: 18 exchanges done, 40960 bytes received
 *       exchange 17 attn 2048 bytes done
 *       exchange 18 moe 4096 bytes pending
 * oldest first; writes at most size bytes and a NUL within them.  Returns the length. */
size_t fate_text(const exchange *x, char *out, size_t size);
/* Stops the others with the failure as the reason: "what: found F [word]". */
void fate_tell(exchange *x, const tf_error *err);

#endif
