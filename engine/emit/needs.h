/* emit/needs - the kernel variants that a world's ranks can ask for.
 *
 * Idea: a variant is a call's kind with the arguments a kernel is compiled for (widths, formats,
 * counts), read off the emitted lists themselves; the union over ranks is what must be built.
 * Trap: uneven ranks need variants that no other rank needs; a build made for rank 0 lacks them. */
#ifndef TF_ENGINE_EMIT_NEEDS_H
#define TF_ENGINE_EMIT_NEEDS_H

#include "engine/emit/emit.h"

/* One line a variant, ascending: name, static arguments, and the ranks that need it.  json: one
 * object.  weights NULL: equal machines. */
tf_status needs_describe(const tf_pack *pack, uint32_t world, const uint64_t *weights, bool json,
                         tf_text *out, tf_error *err);

#endif
