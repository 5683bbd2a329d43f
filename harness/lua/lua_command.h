/* lua/lua_command - tf.command: foreign build and test commands, and their output as pins.
 *
 * Idea: a command that prints `name digest` lines needs no other interface: each line is a pin.
 * Trap: a command that fails or takes too long made nothing; its output is never pinned. */
#ifndef TF_HARNESS_LUA_LUA_COMMAND_H
#define TF_HARNESS_LUA_LUA_COMMAND_H

#include "harness/lua/bind.h"

#include <stddef.h>

extern const bind_group lua_command_groups[];
extern const size_t lua_command_group_count;

#endif
