/* lua/lua_book - what stands at the top level of a script: run "name" {...} and tf.project{...}.
 *
 * Idea: a run is a table with a word about itself, its arguments and its test function.
 * Trap: `run "name"` is a call that returns a function which takes the table; a run whose table
 * never came is found when the script is read. */
#ifndef TF_HARNESS_LUA_LUA_BOOK_H
#define TF_HARNESS_LUA_LUA_BOOK_H

#include "harness/lua/bind.h"

#include <stddef.h>

extern const bind_group lua_book_groups[];
extern const size_t lua_book_group_count;

#endif
