/* base/nearest - the known name that a mistyped one was meant to be.
 *
 * Idea: a refusal of an unknown name ends in a remedy; the nearest known name is the likeliest.
 * Trap: a far-fetched guess misleads: beyond a third of the letters nothing is offered. */
#ifndef TF_ENGINE_BASE_NEAREST_H
#define TF_ENGINE_BASE_NEAREST_H

#include <stddef.h>

/* One of names, or NULL when none is near.  A prefix of two or more letters counts as near. */
const char *tf_nearest(const char *given, const char *const *names, size_t count);

#endif
