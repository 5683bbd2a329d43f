/* base/fault - makes the n-th allocation, read or write fail, in builds with TF_FAULT.
 *
 * Idea: code asks fault_hits at each spot; a test arms it for n = 1, 2, ... until the case passes
 * without a hit, and so has walked every failure path.
 * Trap: without TF_FAULT it is a constant false and costs nothing. */
#ifndef TF_ENGINE_BASE_FAULT_H
#define TF_ENGINE_BASE_FAULT_H

#include <stdbool.h>
#include <stdint.h>

typedef enum {
    FAULT_ALLOC,
    FAULT_READ,
    FAULT_WRITE,
    FAULT_KINDS
} fault_kind;

#ifdef TF_FAULT
/* n-th call from now of that kind fails, once; 0 disarms. */
void fault_arm(fault_kind kind, uint64_t n);
/* Did the armed fault fire? */
bool fault_fired(fault_kind kind);
bool fault_hits(fault_kind kind);
#else
#define fault_hits(kind) ((void)(kind), false)
#endif

#endif
