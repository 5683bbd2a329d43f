#include "harness/lua/sandbox.h"

#include "engine/base/arena.h"
#include "engine/base/check.h"
#include "engine/base/thread.h"

#include <lauxlib.h>
#include <lualib.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define STEP_BATCH 100000
#define ERROR_TYPE "tf.error"

/* What the library lacks for runs that must print the same each time: pairs goes in the order of
 * keys (its own order changes with every process), and finalizers are out of reach. */
static const char prelude[] =
    "local next, type, sort, raw, meta = next, type, table.sort, setmetatable, getmetatable\n"
    "local function before(a, b)\n"
    "  local ta, tb = type(a), type(b)\n"
    "  if ta ~= tb then return ta < tb end\n"
    "  if ta == 'number' or ta == 'string' then return a < b end\n"
    "  return false\n"
    "end\n"
    "function pairs(t)\n"
    "  local m = meta(t)\n"
    "  if type(m) == 'table' and m.__pairs then return m.__pairs(t) end\n"
    "  local keys, n, i = {}, 0, 0\n"
    "  for k in next, t do n = n + 1; keys[n] = k end\n"
    "  sort(keys, before)\n"
    "  return function()\n"
    "    i = i + 1\n"
    "    if keys[i] ~= nil then return keys[i], t[keys[i]] end\n"
    "  end\n"
    "end\n"
    "function setmetatable(t, m)\n"
    "  if type(m) == 'table' and m.__gc ~= nil then\n"
    "    error('finalizers (__gc) are not open to scripts', 2)\n"
    "  end\n"
    "  return raw(t, m)\n"
    "end\n"
    "math.randomseed(1)\n";

static uint64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Lua's allocator.  old_bytes is a type when old is NULL. */
static void *allocate(void *context, void *old, size_t old_bytes, size_t bytes) {
    sandbox *box = context;
    uint64_t had = old == NULL ? 0 : old_bytes;
    if (bytes == 0) {
        box->used_bytes -= had;
        mem_free(old);
        return NULL;
    }
    if (bytes > had && bytes - had > box->limits.memory_bytes - box->used_bytes) {
        box->over = box->over == SANDBOX_FINE ? SANDBOX_OVER_MEMORY : box->over;
        return NULL;
    }
    void *p = mem_grow(old, bytes);
    if (p != NULL) box->used_bytes = box->used_bytes - had + bytes;
    return p;
}

sandbox *sandbox_of(lua_State *L) {
    return *(sandbox **)lua_getextraspace(L);
}

static const char *over_text(sandbox_over over) {
    switch (over) {
    case SANDBOX_FINE:
        return "within the limits";
    case SANDBOX_OVER_STEPS:
        return "the script ran too many instructions: an endless loop?";
    case SANDBOX_OVER_TIME:
        return "the run took too long";
    case SANDBOX_OVER_MEMORY:
        return "the script used too much memory";
    case SANDBOX_STOPPED:
        return "the user asked to stop";
    }
    return "?";
}

static void look_at_limits(sandbox *box) {
    /* Memory that was refused may be free again after a collection, so it does not stick. */
    if (box->over != SANDBOX_FINE && box->over != SANDBOX_OVER_MEMORY) return;
    if (box->steps > box->limits.steps) box->over = SANDBOX_OVER_STEPS;
    if (now_ms() - box->begin_ms > box->limits.time_ms) box->over = SANDBOX_OVER_TIME;
    if (tf_stop_requested()) box->over = SANDBOX_STOPPED;
}

static void raise_over(lua_State *L, lua_Debug *where) {
    sandbox *box = sandbox_of(L);
    look_at_limits(box);
    if (box->over == SANDBOX_FINE || box->over == SANDBOX_OVER_MEMORY) return;
    /* From now on every instruction raises: a pcall around the loop cannot hold it. */
    lua_sethook(L, lua_gethook(L), LUA_MASKCOUNT, 1);
    if (where == NULL) luaL_error(L, "%s", over_text(box->over));
    lua_getinfo(L, "Sl", where);
    luaL_error(L, "%s:%d: %s", where->short_src, where->currentline, over_text(box->over));
}

static void count_hook(lua_State *L, lua_Debug *where) {
    sandbox *box = sandbox_of(L);
    box->steps += STEP_BATCH;
    raise_over(L, where);
}

void sandbox_check(lua_State *L) {
    raise_over(L, NULL);
}

uint64_t sandbox_left_ms(lua_State *L) {
    sandbox *box = sandbox_of(L);
    uint64_t spent = now_ms() - box->begin_ms;
    return spent < box->limits.time_ms ? box->limits.time_ms - spent : 1;
}

/* ---- errors --------------------------------------------------------------------------------- */

int sandbox_raise(lua_State *L, const tf_error *err) {
    TF_ASSERT(err->status != TF_OK);
    tf_error *kept = lua_newuserdatauv(L, sizeof *kept, 0);
    *kept = *err;
    luaL_setmetatable(L, ERROR_TYPE);
    return lua_error(L);
}

static int error_line(lua_State *L) {
    const tf_error *err = luaL_checkudata(L, 1, ERROR_TYPE);
    char line[2048];
    lua_pushstring(L, tf_error_line(err, line, sizeof line));
    return 1;
}

static int error_field(lua_State *L) {
    const tf_error *err = luaL_checkudata(L, 1, ERROR_TYPE);
    const char *key = luaL_checkstring(L, 2);
    const char *value = strcmp(key, "word") == 0       ? tf_word_text(err->word)
                        : strcmp(key, "what") == 0     ? err->what
                        : strcmp(key, "found") == 0    ? err->found
                        : strcmp(key, "expected") == 0 ? err->expected
                        : strcmp(key, "remedy") == 0   ? err->remedy
                                                       : NULL;
    if (value == NULL) return luaL_error(L, "an error has no field '%s'", key);
    lua_pushstring(L, value);
    return 1;
}

static tf_status limit_failure(const sandbox *box, const char *act, const char *message,
                               tf_error *err) {
    if (box->over == SANDBOX_STOPPED) return tf_fail(err, TF_W_INTERRUPTED, "%s", act);
    tf_fail(err, TF_W_SCRIPT_OVER_LIMIT, "%s", act);
    tf_found(err, "%s", message);
    switch (box->over) {
    case SANDBOX_OVER_TIME:
        return tf_expected(err, "at most %llu s", (unsigned long long)box->limits.time_ms / 1000);
    case SANDBOX_OVER_MEMORY:
        return tf_expected(err, "at most %llu MiB",
                           (unsigned long long)(box->limits.memory_bytes >> 20));
    default:
        return tf_expected(err, "at most %llu million instructions",
                           (unsigned long long)box->limits.steps / 1000000);
    }
}

tf_status sandbox_failure(lua_State *L, int index, const char *act, tf_error *err) {
    const sandbox *box = sandbox_of(L);
    const tf_error *carried = luaL_testudata(L, index, ERROR_TYPE);
    const char *message = lua_type(L, index) == LUA_TSTRING ? lua_tostring(L, index) : NULL;
    bool over = box->over != SANDBOX_FINE && box->over != SANDBOX_OVER_MEMORY;
    if (carried != NULL && !over) {
        *err = *carried;
        return tf_under(err, "%s", act);
    }
    if (over || (box->over == SANDBOX_OVER_MEMORY && message != NULL &&
                 strstr(message, "not enough memory") != NULL))
        return limit_failure(box, act, message != NULL ? message : over_text(box->over), err);
    tf_fail(err, TF_W_SCRIPT_ERROR, "%s", act);
    if (message != NULL) return tf_found(err, "%s", message);
    return tf_found(err, "an error value of type %s", luaL_typename(L, index));
}

bool sandbox_is_over(lua_State *L) {
    sandbox_over over = sandbox_of(L)->over;
    return over != SANDBOX_FINE && over != SANDBOX_OVER_MEMORY;
}

int sandbox_on_error(lua_State *L) {
    sandbox *box = sandbox_of(L);
    luaL_traceback(L, L, NULL, 1);
    snprintf(box->traceback, sizeof box->traceback, "%s", lua_tostring(L, -1));
    lua_pop(L, 1);
    return 1;
}

/* ---- the state ------------------------------------------------------------------------------ */

static int load_text(lua_State *L) {
    size_t n = 0;
    const char *text = luaL_checklstring(L, 1, &n);
    const char *name = luaL_optstring(L, 2, "=(load)");
    if (luaL_loadbufferx(L, text, n, name, "t") != LUA_OK) {
        lua_pushnil(L);
        lua_insert(L, -2);
        return 2;
    }
    if (!lua_isnoneornil(L, 4)) {
        lua_pushvalue(L, 4);
        if (lua_setupvalue(L, -2, 1) == NULL) lua_pop(L, 1);
    }
    return 1;
}

static void open_safe_library(lua_State *L) {
    static const luaL_Reg open[] = {
        {LUA_GNAME, luaopen_base},        {LUA_TABLIBNAME, luaopen_table},
        {LUA_STRLIBNAME, luaopen_string}, {LUA_MATHLIBNAME, luaopen_math},
        {LUA_UTF8LIBNAME, luaopen_utf8},  {LUA_COLIBNAME, luaopen_coroutine},
    };
    static const char *const closed[] = {"dofile", "loadfile", "collectgarbage", "print"};
    for (size_t i = 0; i < sizeof open / sizeof open[0]; i++) {
        luaL_requiref(L, open[i].name, open[i].func, 1);
        lua_pop(L, 1);
    }
    for (size_t i = 0; i < sizeof closed / sizeof closed[0]; i++) {
        lua_pushnil(L);
        lua_setglobal(L, closed[i]);
    }
    lua_pushcfunction(L, load_text);
    lua_setglobal(L, "load");
    lua_getglobal(L, LUA_STRLIBNAME);
    lua_pushnil(L);
    lua_setfield(L, -2, "dump");
    lua_pop(L, 1);
}

static int set_up(lua_State *L) {
    const sandbox *box = sandbox_of(L);
    if (box->limits.trust) {
        luaL_openlibs(L);
    } else {
        open_safe_library(L);
    }
    luaL_newmetatable(L, ERROR_TYPE);
    lua_pushcfunction(L, error_line);
    lua_setfield(L, -2, "__tostring");
    lua_pushcfunction(L, error_field);
    lua_setfield(L, -2, "__index");
    lua_pushliteral(L, "closed");
    lua_setfield(L, -2, "__metatable");
    lua_pop(L, 1);
    if (luaL_loadbufferx(L, prelude, sizeof prelude - 1, "=prelude", "t") != LUA_OK)
        return lua_error(L);
    lua_call(L, 0, 0);
    return 0;
}

/* Memory ran out where nothing is protected: our own mistake, never the script's. */
static int on_panic(lua_State *L) {
    bool every_call_is_protected = lua_gettop(L) < 0;
    TF_ASSERT(every_call_is_protected);
    return 0;
}

tf_status sandbox_open(sandbox *box, const sandbox_limits *limits, void *owner, tf_error *err) {
    *box = (sandbox){.limits = *limits, .owner = owner};
    if (limits->memory_bytes == 0) box->limits.memory_bytes = SANDBOX_MEMORY_BYTES;
    if (limits->steps == 0) box->limits.steps = SANDBOX_STEPS;
    if (limits->time_ms == 0) box->limits.time_ms = SANDBOX_TIME_MS;
    box->state = lua_newstate(allocate, box);
    if (box->state == NULL) return tf_fail(err, TF_W_NO_MEMORY, "opening a Lua state");
    lua_atpanic(box->state, on_panic);
    *(sandbox **)lua_getextraspace(box->state) = box;
    tf_status status = sandbox_do(box, set_up, NULL, "opening Lua", err);
    if (status != TF_OK) sandbox_close(box);
    return status;
}

void sandbox_close(sandbox *box) {
    if (box->state != NULL) lua_close(box->state);
    box->state = NULL;
}

tf_status sandbox_do(sandbox *box, lua_CFunction f, void *argument, const char *act,
                     tf_error *err) {
    lua_State *L = box->state;
    if (box->over == SANDBOX_OVER_MEMORY) box->over = SANDBOX_FINE;
    box->steps = 0;
    box->begin_ms = now_ms();
    box->traceback[0] = '\0';
    lua_sethook(L, count_hook, LUA_MASKCOUNT, STEP_BATCH);
    lua_settop(L, 0);
    lua_pushcfunction(L, sandbox_on_error);
    lua_pushcfunction(L, f);
    lua_pushlightuserdata(L, argument);
    tf_status status = TF_OK;
    if (lua_pcall(L, 1, 0, 1) != LUA_OK) status = sandbox_failure(L, -1, act, err);
    lua_settop(L, 0);
    return status;
}

typedef struct chunk {
    const char *data;
    size_t n;
    const char *name;
    int *reference;
    bool syntax;
} chunk;

static int load_chunk(lua_State *L) {
    chunk *c = lua_touserdata(L, 1);
    lua_pushfstring(L, "@%s", c->name);
    int code = luaL_loadbufferx(L, c->data, c->n, lua_tostring(L, -1), "t");
    c->syntax = code == LUA_ERRSYNTAX;
    if (code != LUA_OK) return lua_error(L);
    *c->reference = luaL_ref(L, LUA_REGISTRYINDEX);
    return 0;
}

tf_status sandbox_load(sandbox *box, const char *data, size_t n, const char *name, int *reference,
                       tf_error *err) {
    chunk c = {data, n, name, reference, false};
    char act[300];
    snprintf(act, sizeof act, "reading the script %.200s", name);
    tf_error inner = {0};
    tf_status status = sandbox_do(box, load_chunk, &c, act, &inner);
    if (status == TF_OK) return TF_OK;
    if (!c.syntax) {
        *err = inner;
        return status;
    }
    tf_fail(err, TF_W_SCRIPT_SYNTAX, "%s", act);
    tf_found(err, "%s", inner.found);
    return tf_remedy(err, "correct that line; `tfverify help script` lists what a script can use");
}
