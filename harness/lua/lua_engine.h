/* lua/lua_engine - the engine's objects for scripts: packs, plans, calls, rank files, kernel needs.
 *
 * Idea: an object carries its name, text and digest, so that whatever a script holds can be pinned.
 * Trap: a plan borrows its pack and calls borrow their plan; each object keeps the one it borrows
 * from in its user value, and Lua finalizes the younger first. */
#ifndef TF_HARNESS_LUA_LUA_ENGINE_H
#define TF_HARNESS_LUA_LUA_ENGINE_H

#include "harness/lua/bind.h"
#include "harness/pins/pins.h"

#include <lua.h>
#include <stddef.h>

extern const bind_group lua_engine_groups[];
extern const size_t lua_engine_group_count;

/* The name an engine object is pinned under, or NULL for any other value.  Object owns. */
const char *lua_engine_pin_name(lua_State *L, int index);
/* The object at index as the subject of a pin, its text made now if it was not yet; the object
 * owns everything in *out.  Raises what the engine refuses. */
void lua_engine_subject(lua_State *L, int index, pin_subject *out);

#endif
