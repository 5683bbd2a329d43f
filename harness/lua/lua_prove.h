/* lua/lua_prove - what a run reports with: t:pin, t:is, t:ok, ..., and the cases it goes through.
 *
 * Idea: a check that does not hold is recorded and the run goes on; only what could not be done at
 * all raises.
 * Trap: skipping, or stopping early, makes a run partial; a partial run calls no pin obsolete. */
#ifndef TF_HARNESS_LUA_LUA_PROVE_H
#define TF_HARNESS_LUA_LUA_PROVE_H

#include "harness/lua/bind.h"

#include <lua.h>
#include <stddef.h>

extern const bind_group lua_prove_groups[];
extern const size_t lua_prove_group_count;

/* Pushes the object a run's test function gets as `t`. */
void lua_prove_push_test(lua_State *L);

#endif
