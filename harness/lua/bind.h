/* lua/bind - tables of bindings: what a script can use, with a line of help each.
 *
 * Idea: the row that makes a function or field known to Lua carries its documentation, so the help
 * and the API cannot drift apart.
 * Trap: a field or argument nobody knows is refused with the nearest known one, never nil. */
#ifndef TF_HARNESS_LUA_BIND_H
#define TF_HARNESS_LUA_BIND_H

#include "engine/base/text.h"

#include <lua.h>
#include <stdbool.h>
#include <stddef.h>

typedef enum {
    BIND_FUNCTION, /* of a library table, or a method: t:pin(x) */
    BIND_FIELD,    /* computed when asked for: the function gets the object */
    BIND_META,     /* __gc, __close, __tostring: not shown in the help */
} bind_kind;

typedef struct binding {
    bind_kind kind;
    const char *name;
    lua_CFunction call;
    const char *use;   /* "t:pin(x, {name=})" */
    const char *about; /* a sentence or two */
} binding;

typedef struct bind_group {
    const char *type;  /* "tf.plan": metatable of its objects; NULL: rows become globals */
    const char *table; /* a global table of functions instead ("tf"); NULL: objects */
    const char *about; /* heading of the help */
    const binding *rows;
    size_t count;
} bind_group;

/* Makes the group known to the state. */
void bind_register(lua_State *L, const bind_group *group);
/* Adds the group's page to a help text. */
void bind_help(const bind_group *group, tf_text *out);

/* A fresh object of a type with one user value; zeroed.  Lua owns. */
void *bind_new(lua_State *L, const char *type, size_t bytes);
/* The object at index, or an error that names what was found. */
void *bind_object(lua_State *L, int index, const char *type);

/* Raises "act: unknown KEY, perhaps NEAR" for a key of the table at index that is none of names.
 * The table may be absent (nil or none). */
void bind_check_keys(lua_State *L, int index, const char *act, const char *const *names,
                     size_t count);
/* Pushes the table's own field, metamethods aside; returns its type. */
int bind_raw_field(lua_State *L, int index, const char *key);
/* Fields of the table at index; absent ones leave *out.  Raise when of another type or range. */
bool bind_get_number(lua_State *L, int index, const char *key, lua_Integer min, lua_Integer max,
                     lua_Integer *out);
bool bind_get_string(lua_State *L, int index, const char *key, const char **out);

#endif
