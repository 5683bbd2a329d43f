/* support/shares - what each rank must hold, written down by hand for the built-in packs.
 *
 * Idea: a table apart from every rule of the engine: even worlds by division, uneven ones number by
 * number (MODEL 7), so that a rule that went wrong everywhere at once still disagrees with it. */
#ifndef TF_TESTS_SUPPORT_SHARES_H
#define TF_TESTS_SUPPORT_SHARES_H

#include "tests/support/check.h"

#include <stdint.h>

typedef struct shares_rank {
    const char *pack;
    uint32_t world, rank;
    uint32_t heads, first_head;
    uint32_t groups, first_group;
    uint32_t width, first_block; /* columns of the expert width; its first block of 128 */
    uint32_t vocab, first_vocab;
    uint32_t columns, first_column;
} shares_rank;

extern const shares_rank SHARES[];
extern const size_t SHARES_COUNT;

#endif
