#include "harness/lua/bind.h"

#include "engine/base/check.h"
#include "engine/base/nearest.h"

#include <lauxlib.h>
#include <stdint.h>
#include <string.h>

/* ---- objects -------------------------------------------------------------------------------- */

void *bind_new(lua_State *L, const char *type, size_t bytes) {
    void *object = lua_newuserdatauv(L, bytes, 1);
    memset(object, 0, bytes);
    luaL_setmetatable(L, type);
    return object;
}

void *bind_object(lua_State *L, int index, const char *type) {
    return luaL_checkudata(L, index, type);
}

/* __index(object, key): upvalues are the methods, the field getters, the type's name. */
static int index_object(lua_State *L) {
    luaL_checkudata(L, 1, lua_tostring(L, lua_upvalueindex(3)));
    lua_pushvalue(L, 2);
    if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL) return 1;
    lua_pushvalue(L, 2);
    if (lua_rawget(L, lua_upvalueindex(2)) != LUA_TNIL) {
        lua_pushvalue(L, 1);
        lua_call(L, 1, 1);
        return 1;
    }
    const char *names[64];
    size_t count = 0;
    for (int from = 1; from <= 2; from++) {
        lua_pushnil(L);
        while (lua_next(L, lua_upvalueindex(from)) != 0 && count < 64) {
            lua_pop(L, 1);
            names[count++] = lua_tostring(L, -1);
        }
    }
    const char *given = luaL_tolstring(L, 2, NULL);
    const char *near = tf_nearest(given, names, count);
    return luaL_error(L, "a %s has no field '%s'%s%s%s", lua_tostring(L, lua_upvalueindex(3)),
                      given, near == NULL ? "" : ", perhaps '", near == NULL ? "" : near,
                      near == NULL ? "" : "'");
}

static void register_type(lua_State *L, const bind_group *group) {
    luaL_newmetatable(L, group->type);
    lua_newtable(L);
    lua_newtable(L);
    for (size_t i = 0; i < group->count; i++) {
        const binding *row = &group->rows[i];
        lua_pushcfunction(L, row->call);
        lua_setfield(L,
                     row->kind == BIND_META       ? -4
                     : row->kind == BIND_FUNCTION ? -3
                                                  : -2,
                     row->name);
    }
    lua_pushstring(L, group->type);
    lua_pushcclosure(L, index_object, 3);
    lua_setfield(L, -2, "__index");
    lua_pushliteral(L, "closed");
    lua_setfield(L, -2, "__metatable");
    lua_pop(L, 1);
}

/* __index(table, key) of a library table. */
static int index_library(lua_State *L) {
    const char *names[64];
    size_t count = 0;
    lua_pushnil(L);
    while (lua_next(L, 1) != 0 && count < 64) {
        lua_pop(L, 1);
        names[count++] = lua_tostring(L, -1);
    }
    const char *given = luaL_tolstring(L, 2, NULL);
    const char *near = tf_nearest(given, names, count);
    return luaL_error(L, "there is no %s.%s%s%s%s", lua_tostring(L, lua_upvalueindex(1)), given,
                      near == NULL ? "" : ", perhaps ", near == NULL ? "" : near,
                      near == NULL ? "" : "?");
}

/* Pushes the global table of that name, made when it is not there yet. */
static void library_table(lua_State *L, const char *name) {
    if (lua_getglobal(L, name) == LUA_TTABLE) return;
    lua_pop(L, 1);
    lua_newtable(L);
    lua_newtable(L);
    lua_pushstring(L, name);
    lua_pushcclosure(L, index_library, 1);
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, -2);
    lua_pushvalue(L, -1);
    lua_setglobal(L, name);
}

void bind_register(lua_State *L, const bind_group *group) {
    TF_ASSERT((group->type != NULL) + (group->table != NULL) <= 1);
    luaL_checkstack(L, 16, "registering bindings");
    if (group->type != NULL) {
        register_type(L, group);
        return;
    }
    if (group->table == NULL) {
        lua_pushglobaltable(L);
    } else {
        library_table(L, group->table);
    }
    for (size_t i = 0; i < group->count; i++) {
        lua_pushcfunction(L, group->rows[i].call);
        lua_setfield(L, -2, group->rows[i].name);
    }
    lua_pop(L, 1);
}

/* ---- help ----------------------------------------------------------------------------------- */

#define HELP_COLUMNS 96

/* The words of `about`, wrapped and indented. */
static void wrap(tf_text *out, const char *about, size_t indent) {
    size_t column = HELP_COLUMNS;
    for (const char *at = about; *at != '\0';) {
        size_t n = strcspn(at, " ");
        if (column + n + 1 > HELP_COLUMNS) {
            if (at != about) text_char(out, '\n');
            text_print(out, "%*s", (int)indent, "");
            column = indent;
        } else {
            text_char(out, ' ');
            column++;
        }
        text_add_n(out, at, n);
        column += n;
        at += n;
        while (*at == ' ')
            at++;
    }
    text_char(out, '\n');
}

void bind_help(const bind_group *group, tf_text *out) {
    text_print(out, "%s\n", group->about);
    for (size_t i = 0; i < group->count; i++) {
        const binding *row = &group->rows[i];
        if (row->kind == BIND_META) continue;
        text_print(out, "  %s\n", row->use);
        wrap(out, row->about, 6);
    }
    text_char(out, '\n');
}

/* ---- tables of options ---------------------------------------------------------------------- */

void bind_check_keys(lua_State *L, int index, const char *act, const char *const *names,
                     size_t count) {
    if (lua_isnoneornil(L, index)) return;
    luaL_checktype(L, index, LUA_TTABLE);
    index = lua_absindex(L, index);
    lua_pushnil(L);
    while (lua_next(L, index) != 0) {
        lua_pop(L, 1);
        const char *key = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : NULL;
        bool known = false;
        for (size_t i = 0; i < count && key != NULL; i++)
            known = known || strcmp(key, names[i]) == 0;
        if (known) continue;
        const char *given = luaL_tolstring(L, -1, NULL);
        const char *near = tf_nearest(given, names, count);
        luaL_error(L, "%s: unknown '%s'%s%s%s", act, given, near == NULL ? "" : ", perhaps '",
                   near == NULL ? "" : near, near == NULL ? "" : "'");
    }
}

int bind_raw_field(lua_State *L, int index, const char *key) {
    index = lua_absindex(L, index);
    lua_pushstring(L, key);
    return lua_rawget(L, index);
}

bool bind_get_number(lua_State *L, int index, const char *key, lua_Integer min, lua_Integer max,
                     lua_Integer *out) {
    if (lua_isnoneornil(L, index)) return false;
    bool there = bind_raw_field(L, index, key) != LUA_TNIL;
    if (there) {
        int whole = 0;
        lua_Integer value = lua_tointegerx(L, -1, &whole);
        if (!whole || lua_type(L, -1) != LUA_TNUMBER || value < min || value > max)
            luaL_error(L, "%s: found %s, expected a whole number from %I to %I", key,
                       luaL_tolstring(L, -1, NULL), (LUAI_UACINT)min, (LUAI_UACINT)max);
        *out = value;
    }
    lua_pop(L, 1);
    return there;
}

bool bind_get_string(lua_State *L, int index, const char *key, const char **out) {
    if (lua_isnoneornil(L, index)) return false;
    int type = bind_raw_field(L, index, key);
    if (type != LUA_TNIL && type != LUA_TSTRING)
        luaL_error(L, "%s: found a %s, expected a text", key, lua_typename(L, type));
    if (type == LUA_TSTRING) *out = lua_tostring(L, -1);
    /* Still referenced by the table. */
    lua_pop(L, 1);
    return type == LUA_TSTRING;
}
