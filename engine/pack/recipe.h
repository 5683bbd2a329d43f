/* pack/recipe - the values of a synthetic pack, from integers alone (GOLDEN, "Recipe").
 *
 * Idea: element i of a tensor depends on the seed, the tensor's name and i, on nothing else; so any
 * part of any tensor can be made alone, on any thread.
 * Trap: everything is computed in double and rounded once to the stored type; an expression that is
 * equal in algebra (a * (b / c) and a * b / c) is not equal in bits. */
#ifndef TF_ENGINE_PACK_RECIPE_H
#define TF_ENGINE_PACK_RECIPE_H

#include "engine/pack/builtin.h"
#include "engine/pack/inventory.h"

#include <stdint.h>

uint64_t recipe_key(uint64_t seed, const char *label);
uint64_t recipe_bits(uint64_t key, uint64_t index);
double recipe_unit(uint64_t bits);   /* [0, 1) */
double recipe_normal(uint64_t bits); /* mean 0, deviation about 1 */

/* Writes elements [begin, begin + count) of the tensor in its stored type; count * element bytes. */
void recipe_values(const builtin_model *model, const inventory_tensor *tensor, uint64_t begin,
                   uint64_t count, void *out);

#endif
