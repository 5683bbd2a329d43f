/* canon/flush - subnormal numbers are zero, on the way in and on the way out (NUMERICS 2).
 *
 * Idea: every thread that computes sets the mode and gives back the one it found.
 * Trap: a thread that forgets differs from the others in rare values only. */
#ifndef TF_ENGINE_CANON_FLUSH_H
#define TF_ENGINE_CANON_FLUSH_H

#include <stdint.h>

/* Sets it for the calling thread; returns the mode before, for flush_restore. */
uint64_t flush_begin(void);
void flush_restore(uint64_t mode);

#endif
