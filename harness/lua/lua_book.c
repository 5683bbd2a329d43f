#include "harness/lua/lua_book.h"

#include "harness/lua/host.h"

#include <lauxlib.h>
#include <stdlib.h>
#include <string.h>

/* Runs of one script. */
#define RUNS_MAX 256

static const char *keep(lua_State *L, script *s, const char *text) {
    const char *copy = arena_copy(&s->arena, text, strlen(text));
    if (copy == NULL) luaL_error(L, "not enough memory");
    return copy;
}

static int by_name(const void *a, const void *b) {
    const script_argument *x = a, *y = b;
    return strcmp(x->name, y->name);
}

/* Reads the table of standard arguments at `index` into the entry, by name. */
static void read_arguments(lua_State *L, script *s, int index, script_entry *entry) {
    size_t count = 0;
    lua_pushnil(L);
    while (lua_next(L, index) != 0) {
        int type = lua_type(L, -1);
        bool plain = type == LUA_TSTRING || type == LUA_TNUMBER || type == LUA_TBOOLEAN;
        if (lua_type(L, -2) != LUA_TSTRING || !plain)
            luaL_error(L, "run \"%s\": args must be names with a text, number or truth value each",
                       entry->name);
        lua_pop(L, 1);
        count++;
    }
    script_argument *arguments = arena_array(&s->arena, count, sizeof *arguments);
    if (arguments == NULL) luaL_error(L, "not enough memory");
    size_t at = 0;
    lua_pushnil(L);
    while (lua_next(L, index) != 0) {
        arguments[at].name = keep(L, s, lua_tostring(L, -2));
        arguments[at++].standard = keep(L, s, luaL_tolstring(L, -1, NULL));
        lua_pop(L, 2);
    }
    if (count > 1) qsort(arguments, count, sizeof *arguments, by_name);
    entry->arguments = arguments;
    entry->argument_count = count;
}

static void add_entry(lua_State *L, script *s, const script_entry *entry, int test) {
    for (size_t i = 0; i < s->entry_count; i++) {
        if (strcmp(s->entries[i].name, entry->name) == 0)
            luaL_error(L, "run \"%s\" is there already, at %s", entry->name, s->entries[i].place);
    }
    if (s->entry_count == RUNS_MAX) luaL_error(L, "more than %d runs", RUNS_MAX);
    script_entry *entries = mem_grow(s->entries, (s->entry_count + 1) * sizeof *entries);
    if (entries != NULL) s->entries = entries;
    int *tests = mem_grow(s->tests, (s->entry_count + 1) * sizeof *tests);
    if (tests != NULL) s->tests = tests;
    if (entries == NULL || tests == NULL) luaL_error(L, "not enough memory");
    entries[s->entry_count] = *entry;
    tests[s->entry_count++] = test;
}

/* The table of a run; the upvalue is its name. */
static int take_table(lua_State *L) {
    static const char *const keys[] = {"about", "args", "test"};
    script *s = host_script(L);
    script_entry entry = {.name = keep(L, s, lua_tostring(L, lua_upvalueindex(1)))};
    char place[300];
    const char *about = NULL;
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    bind_check_keys(L, 1, lua_pushfstring(L, "run \"%s\"", entry.name), keys, 3);
    if (!bind_get_string(L, 1, "about", &about))
        return luaL_error(L, "run \"%s\" says nothing about itself: about = \"...\"", entry.name);
    entry.about = keep(L, s, about);
    entry.place = keep(L, s, host_place(L, place));
    lua_createtable(L, 2, 0);
    int kept = lua_gettop(L);
    if (bind_raw_field(L, 1, "test") != LUA_TFUNCTION)
        return luaL_error(L, "run \"%s\" has no test = function(t, a) ... end", entry.name);
    lua_rawseti(L, kept, 1);
    if (bind_raw_field(L, 1, "args") == LUA_TNIL) lua_newtable(L);
    luaL_checktype(L, -1, LUA_TTABLE);
    read_arguments(L, s, lua_gettop(L), &entry);
    lua_rawseti(L, kept, 2);
    lua_settop(L, kept);
    add_entry(L, s, &entry, luaL_ref(L, LUA_REGISTRYINDEX));
    s->unfinished = NULL;
    return 0;
}

static int run_call(lua_State *L) {
    script *s = host_script(L);
    const char *name = luaL_checkstring(L, 1);
    if (s->job != NULL) return luaL_error(L, "run \"%s\" must stand at the top level", name);
    if (s->unfinished != NULL)
        return luaL_error(L, "run \"%s\" has no table before run \"%s\"", s->unfinished, name);
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.");
    if (n == 0 || name[n] != '\0' || n > 64)
        return luaL_error(L, "run \"%s\": a name has letters, digits, _ - . alone", name);
    s->unfinished = keep(L, s, name);
    lua_pushvalue(L, 1);
    lua_pushcclosure(L, take_table, 1);
    return 1;
}

static int project_call(lua_State *L) {
    static const char *const keys[] = {"build", "tool"};
    script *s = host_script(L);
    const char *build = NULL, *tool = NULL;
    if (s->job != NULL) return luaL_error(L, "tf.project must stand at the top level");
    luaL_checktype(L, 1, LUA_TTABLE);
    bind_check_keys(L, 1, "tf.project", keys, 2);
    if (bind_get_string(L, 1, "build", &build)) s->build = keep(L, s, build);
    if (bind_get_string(L, 1, "tool", &tool)) s->tool = keep(L, s, tool);
    return 0;
}

static const binding globals[] = {
    {BIND_FUNCTION, "run", run_call,
     "run \"name\" { about =, args =, test = function(t, a) ... end }",
     "names a run. about is a line for the list of runs; args its arguments with their standard "
     "values, which KEY=VALUE on the command line replaces; test gets the checks t and the "
     "arguments a"},
};
static const binding functions[] = {
    {BIND_FUNCTION, "project", project_call, "tf.project{build=, tool=}",
     "what `pins capture --base REV` runs in the tree of that revision: build makes it, tool, if "
     "given, is the program of that tree that captures (this one otherwise)"},
};

const bind_group lua_book_groups[] = {
    {NULL, NULL, "Runs", globals, sizeof globals / sizeof globals[0]},
    {NULL, "tf", "The project", functions, sizeof functions / sizeof functions[0]},
};
const size_t lua_book_group_count = sizeof lua_book_groups / sizeof lua_book_groups[0];
