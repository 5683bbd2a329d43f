/* lua/lua_ranks - tf.ranks: the cases of a run, one for every pack, world and rank.
 *
 * Idea: going on to the next case ends the one before, so a plain loop makes a nested report.
 * Trap: a loop can be left early by break or by an error.  The loop's closing value sees both: the
 * error becomes a point of the case it happened in. */
#ifndef TF_HARNESS_LUA_LUA_RANKS_H
#define TF_HARNESS_LUA_LUA_RANKS_H

#include "harness/lua/bind.h"

#include <stddef.h>

extern const bind_group lua_ranks_groups[];
extern const size_t lua_ranks_group_count;

#endif
