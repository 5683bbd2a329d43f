#include "harness/lua/lua_ranks.h"

#include "engine/tf.h"
#include "harness/lua/host.h"
#include "harness/lua/lua_objects.h"

#include <lauxlib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GUARD "tf.case_guard"

typedef struct guard {
    bool open;
    unsigned depth; /* of the report inside the case */
} guard;

/* ---- what is asked for ---------------------------------------------------------------------- */

/* Worlds "all" stands for: those the pins are kept for. */
static const uint32_t all_worlds[] = {1, 2, 3, 4};

typedef struct numbers {
    uint32_t value[16];
    size_t count;
} numbers;

static void refuse_number(lua_State *L, const char *key, const char *found) {
    tf_error err = {0};
    tf_fail(&err, TF_W_UNKNOWN_ARGUMENT, "reading %s of tf.ranks", key);
    tf_found(&err, "'%s'", found);
    tf_expected(&err, "all, or numbers joined by commas");
    sandbox_raise(L, &err);
}

/* "all" (count 0), a number, or a text with numbers joined by commas. */
static void read_numbers(lua_State *L, int index, const char *key, numbers *out) {
    out->count = 0;
    if (lua_isnoneornil(L, index) || bind_raw_field(L, index, key) == LUA_TNIL) {
        lua_settop(L, 1);
        return;
    }
    const char *text = luaL_tolstring(L, -1, NULL);
    for (const char *at = text; strcmp(text, "all") != 0;) {
        char *end = NULL;
        unsigned long value = *at >= '0' && *at <= '9' ? strtoul(at, &end, 10) : 0;
        bool bad = end == NULL || (*end != '\0' && *end != ',') || value > UINT32_MAX;
        if (bad || out->count == sizeof out->value / sizeof out->value[0])
            refuse_number(L, key, text);
        out->value[out->count++] = (uint32_t)value;
        if (*end == '\0') break;
        at = end + 1;
    }
    lua_settop(L, 1);
}

/* Appends {pack, world, rank} to the list at the top. */
static void add_case(lua_State *L, int pack_index, uint32_t world, uint32_t rank) {
    lua_createtable(L, 3, 0);
    lua_pushvalue(L, pack_index);
    lua_rawseti(L, -2, 1);
    lua_pushinteger(L, world);
    lua_rawseti(L, -2, 2);
    lua_pushinteger(L, rank);
    lua_rawseti(L, -2, 3);
    lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
}

static void add_pack(lua_State *L, int list, const numbers *worlds, const numbers *ranks) {
    int pack_index = lua_gettop(L);
    lua_pushvalue(L, list);
    for (size_t w = 0; w < worlds->count; w++) {
        /* A world of none or of too many is for the engine to refuse: one case says so. */
        uint32_t world = worlds->value[w];
        uint32_t count = world == 0 || world > TF_WORLD_MAX ? 1 : world;
        for (uint32_t r = 0; r < count && ranks->count == 0; r++)
            add_case(L, pack_index, world, r);
        for (size_t r = 0; r < ranks->count; r++)
            add_case(L, pack_index, world, ranks->value[r]);
    }
    lua_settop(L, pack_index - 1);
}

/* ---- the loop ------------------------------------------------------------------------------- */

static void leave_case(lua_State *L, guard *g) {
    script *s = host_script(L);
    tf_error err = {0};
    if (!g->open) return;
    g->open = false;
    while (s->report.depth >= g->depth && s->report.depth > 0)
        host_try(L, report_leave(&s->report, &err), &err);
}

static int guard_close(lua_State *L) {
    guard *g = bind_object(L, 1, GUARD);
    script *s = sandbox_of(L)->owner;
    tf_error err = {0}, failure = {0};
    if (!g->open) return 0;
    if (!lua_isnoneornil(L, 2)) {
        sandbox_failure(L, 2, "carrying out the case", &failure);
        host_add_error(s, "the case is carried out", &failure, &err);
    }
    /* Closed while open: a break or an error, so the cases after it are not met. */
    g->open = false;
    s->partial = true;
    while (s->report.depth >= g->depth && s->report.depth > 0)
        report_leave(&s->report, &err);
    if (err.status != TF_OK && lua_isnoneornil(L, 2)) return sandbox_raise(L, &err);
    return 0;
}

/* Upvalues: list of {pack, world, rank}, how many are done, the guard. */
static int next_case(lua_State *L) {
    script *s = host_running(L, "tf.ranks");
    guard *g = bind_object(L, lua_upvalueindex(3), GUARD);
    lua_Integer done = lua_tointeger(L, lua_upvalueindex(2));
    tf_error err = {0};
    tf_split split;
    plan_object named = {0};
    leave_case(L, g);
    if (lua_rawgeti(L, lua_upvalueindex(1), done + 1) == LUA_TNIL) return 0;
    lua_pushinteger(L, done + 1);
    lua_replace(L, lua_upvalueindex(2));
    static const char *const keys[] = {"pack", "world", "rank"};
    lua_createtable(L, 0, 4);
    for (int i = 0; i < 3; i++) {
        lua_rawgeti(L, -2, i + 1);
        lua_setfield(L, -2, keys[i]);
    }
    pack_object *pack = lua_engine_case(L, lua_gettop(L), "tf.ranks", &split);
    lua_setfield(L, -2, "pack");
    lua_engine_name_case(pack, &split, &named);
    lua_pushstring(L, named.base);
    lua_setfield(L, -2, "name");
    host_try(L, report_enter(&s->report, named.base, &err), &err);
    g->open = true;
    g->depth = s->report.depth;
    return 1;
}

static int ranks_call(lua_State *L) {
    numbers worlds, ranks;
    host_running(L, "tf.ranks");
    if (!lua_isnoneornil(L, 1)) luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    read_numbers(L, 1, "world", &worlds);
    read_numbers(L, 1, "rank", &ranks);
    for (size_t i = 0; worlds.count == 0 && i < sizeof all_worlds / sizeof all_worlds[0]; i++)
        worlds.value[i] = all_worlds[i];
    if (worlds.count == 0) worlds.count = sizeof all_worlds / sizeof all_worlds[0];
    lua_newtable(L);
    int list = lua_gettop(L);
    bool all = lua_isnil(L, 1) || bind_raw_field(L, 1, "pack") == LUA_TNIL ||
               (lua_type(L, -1) == LUA_TSTRING && strcmp(lua_tostring(L, -1), "all") == 0);
    if (all) {
        for (const char *const *name = tf_pack_builtins(); *name != NULL; name++) {
            lua_pushstring(L, *name);
            add_pack(L, list, &worlds, &ranks);
        }
    } else {
        add_pack(L, list, &worlds, &ranks);
    }
    lua_settop(L, list);
    guard *g = bind_new(L, GUARD, sizeof *g);
    (void)g;
    lua_pushvalue(L, list);
    lua_pushinteger(L, 0);
    lua_pushvalue(L, -3);
    lua_pushcclosure(L, next_case, 3);
    lua_pushnil(L);
    lua_pushnil(L);
    lua_pushvalue(L, list + 1);
    return 4;
}

static const binding functions[] = {
    {BIND_FUNCTION, "ranks", ranks_call, "for case in tf.ranks(a) do",
     "a case for every pack, world and rank that a selects: a.pack is \"all\" or a name or "
     "directory, a.world \"all\" (1, 2, 3, 4) or numbers such as \"3\" or \"2,3\", a.rank, when "
     "given, numbers too. A case is a table {pack=, world=, rank=, name=} that tf.plan takes"},
};
static const binding guard_rows[] = {
    {BIND_META, "__close", guard_close, NULL, NULL},
};

const bind_group lua_ranks_groups[] = {
    {NULL, "tf", "Cases", functions, sizeof functions / sizeof functions[0]},
    {GUARD, NULL, NULL, guard_rows, sizeof guard_rows / sizeof guard_rows[0]},
};
const size_t lua_ranks_group_count = sizeof lua_ranks_groups / sizeof lua_ranks_groups[0];
