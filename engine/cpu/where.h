/* cpu/where - which rows of a step are one request's.
 *
 * Idea: a request's rows stand side by side at ascending positions; what lies before its first row of
 * this step comes from its state, what follows from the step itself. */
#ifndef TF_ENGINE_CPU_WHERE_H
#define TF_ENGINE_CPU_WHERE_H

#include "engine/port/args.h"

/* The first row of this step that is of the same request as `row`. */
static inline uint32_t where_first(const port_where *w, uint32_t row) {
    if (w->slot_count == 1) return 0;
    uint32_t first = row;
    while (first > 0 && w->slots[first - 1] == w->slots[row])
        first--;
    return first;
}

/* Compressed rows that a row sees: those that were closed up to its own position. */
static inline uint32_t where_visible(const port_where *w, uint32_t row, int64_t ratio) {
    return (uint32_t)((port_position(w, row) + 1) / ratio);
}

#endif
