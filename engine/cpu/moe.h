/* cpu/moe - the chosen experts of every row (MODEL, MoE).
 *
 * Idea: rows are listed by expert, so that an expert's weights are read once for all rows that chose
 * it; a product takes its rows by pointer, nothing is gathered.  Per leaf a row's sum begins at +0 and
 * takes its experts in ascending order, the shared one last: acc = fmaf(weight, partial, acc).
 * Trap: the weighted sum is made leaf by leaf, before the tree; a whole expert is never summed first.
 * Trap: partials of one row come from many products; the order of experts is kept by going through
 * the lists, not by going through the rows. */
#ifndef TF_ENGINE_CPU_MOE_H
#define TF_ENGINE_CPU_MOE_H

#include "engine/cpu/cpu.h"

#define MOE_ROWS 256u /* rows that are listed together */

#endif
