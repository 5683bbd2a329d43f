#include "harness/lua/lua_command.h"

#include "harness/base/proc.h"
#include "harness/lua/host.h"

#include <ctype.h>
#include <lauxlib.h>
#include <stdio.h>
#include <string.h>

enum {
    /* Hex digits of a digest: a shorter word could be any number. */
    DIGEST_DIGITS_MIN = 8,
    COMMAND_SECONDS_MAX = 86400
};

/* What both functions take; texts are referenced by the table. */
typedef struct command_options {
    const char *line;
    const char *dir;  /* NULL: the project */
    const char *name; /* of pins */
    const char *form; /* of pins; NULL: found out */
    lua_Integer seconds;
    bool may_fail;
} command_options;

static void read_options(lua_State *L, const char *use, command_options *o) {
    static const char *const keys[] = {"dir", "seconds", "may_fail", "name", "form"};
    bool pins = strcmp(use, "tf.command_pins") == 0;
    *o = (command_options){.line = luaL_checkstring(L, 1)};
    lua_settop(L, 2);
    bind_check_keys(L, 2, use, keys, pins ? 5 : 3);
    bind_get_string(L, 2, "dir", &o->dir);
    bind_get_string(L, 2, "name", &o->name);
    bind_get_string(L, 2, "form", &o->form);
    bind_get_number(L, 2, "seconds", 1, COMMAND_SECONDS_MAX, &o->seconds);
    if (!lua_isnil(L, 2)) {
        bind_raw_field(L, 2, "may_fail");
        o->may_fail = lua_toboolean(L, -1);
        lua_pop(L, 1);
    }
    if (pins && o->name == NULL)
        luaL_error(L, "%s: name = \"...\" must begin the pins' names", use);
    if (o->form != NULL && strcmp(o->form, "digests") != 0 && strcmp(o->form, "text") != 0)
        luaL_error(L, "%s: form: found '%s', expected digests or text", use, o->form);
}

/* A result is an object of Lua's, so that no error loses it. */
#define RESULT "tf.command_result"

static int result_gc(lua_State *L) {
    proc_free(bind_object(L, 1, RESULT));
    return 0;
}

/* The folder to run in: o->dir under the project, or as it is when absolute. */
static void find_dir(lua_State *L, const char *use, const command_options *o, char *dir,
                     size_t size) {
    const char *root = host_script(L)->root;
    int n = o->dir == NULL     ? snprintf(dir, size, "%s", root)
            : o->dir[0] == '/' ? snprintf(dir, size, "%s", o->dir)
                               : snprintf(dir, size, "%s/%s", root, o->dir);
    if (n < 0 || (size_t)n >= size) luaL_error(L, "%s: dir is too long", use);
}

/* Runs the line and pushes the result object.  Raises when it cannot run, or fails unasked. */
static proc_result *run_line(lua_State *L, const char *use, const command_options *o) {
    tf_error err = {0};
    char dir[TF_PATH_BYTES_MAX];
    host_running(L, use);
    find_dir(L, use, o, dir, sizeof dir);
    proc_result *result = bind_new(L, RESULT, sizeof *result);
    uint64_t left = sandbox_left_ms(L);
    uint64_t asked = (uint64_t)o->seconds * 1000u;
    proc_request request = {
        .shell = o->line, .dir = dir, .time_ms = asked > 0 && asked < left ? asked : left};
    host_try(L, proc_run(&request, result, &err), &err);
    if (!o->may_fail) host_try(L, proc_check(&request, result, &err), &err);
    return result;
}

/* ---- tf.command ---- */

static int command_call(lua_State *L) {
    command_options o;
    read_options(L, "tf.command", &o);
    const proc_result *result = run_line(L, "tf.command", &o);
    lua_createtable(L, 0, 3);
    lua_pushlstring(L, text_str(&result->out), result->out.length);
    lua_setfield(L, -2, "out");
    lua_pushlstring(L, text_str(&result->err), result->err.length);
    lua_setfield(L, -2, "err");
    if (result->end == PROC_EXITED) {
        lua_pushinteger(L, result->code);
        lua_setfield(L, -2, "code");
    } else {
        lua_pushstring(L, result->end == PROC_TIMED_OUT ? "time" : "signal");
        lua_setfield(L, -2, "ended_by");
    }
    return 1;
}

/* ---- tf.command_pins ---- */

typedef struct pin_line {
    const char *name;
    size_t name_bytes;
    const char *digest;
    size_t digest_bytes;
} pin_line;

static bool is_digest(const char *word, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!isxdigit((unsigned char)word[i])) return false;
    return n >= DIGEST_DIGITS_MIN;
}

/* Two words, `name digest`, or `digest name` as sha256sum prints them. */
static bool read_line(const char *line, size_t n, pin_line *out) {
    static const char blanks[] = " \t\r";
    size_t a = strspn(line, blanks);
    size_t b = a;
    while (b < n && strchr(blanks, line[b]) == NULL)
        b++;
    size_t c = b;
    while (c < n && strchr(blanks, line[c]) != NULL)
        c++;
    size_t d = c;
    while (d < n && strchr(blanks, line[d]) == NULL)
        d++;
    size_t e = d;
    while (e < n && strchr(blanks, line[e]) != NULL)
        e++;
    if (e != n || a == b || c == d) return false;
    bool name_first = is_digest(line + c, d - c);
    if (!name_first && !is_digest(line + a, b - a)) return false;
    *out = name_first ? (pin_line){line + a, b - a, line + c, d - c}
                      : (pin_line){line + c, d - c, line + a, b - a};
    return true;
}

/* The next line that is not empty, or NULL; *n its length. */
static const char *next_line(const char *at, size_t *n) {
    at += strspn(at, "\r\n");
    *n = strcspn(at, "\n");
    return *at == '\0' ? NULL : at;
}

static bool all_digests(const char *text) {
    pin_line line;
    size_t n = 0;
    const char *at = next_line(text, &n);
    bool any = at != NULL;
    for (; at != NULL; at = next_line(at + n, &n))
        if (!read_line(at, n, &line)) return false;
    return any;
}

/* Pushes {name=, text=, what=, made_by=}; the name is on top of the stack and goes. */
static void push_subject(lua_State *L, const char *text, size_t n, const char *line) {
    lua_createtable(L, 0, 4);
    lua_pushvalue(L, -2);
    lua_setfield(L, -2, "name");
    lua_pushlstring(L, text, n);
    lua_setfield(L, -2, "text");
    lua_pushfstring(L, "what `%s` prints", line);
    lua_setfield(L, -2, "what");
    lua_pushstring(L, line);
    lua_setfield(L, -2, "made_by");
    lua_remove(L, -2);
}

static void push_digests(lua_State *L, const command_options *o, const char *text) {
    lua_Integer count = 0;
    size_t n = 0;
    lua_newtable(L);
    for (const char *at = next_line(text, &n); at != NULL; at = next_line(at + n, &n)) {
        pin_line line;
        if (!read_line(at, n, &line)) {
            lua_pushlstring(L, at, n < 100 ? n : 100);
            luaL_error(L, "tf.command_pins: found the line '%s', expected `name digest`",
                       lua_tostring(L, -1));
        }
        lua_pushfstring(L, "%s/", o->name);
        lua_pushlstring(L, line.name, line.name_bytes);
        lua_concat(L, 2);
        lua_pushlstring(L, line.digest, line.digest_bytes);
        lua_pushliteral(L, "\n");
        lua_concat(L, 2);
        size_t bytes = 0;
        const char *digest = lua_tolstring(L, -1, &bytes);
        lua_pushvalue(L, -2);
        push_subject(L, digest, bytes, o->line);
        lua_rawseti(L, -4, ++count);
        lua_pop(L, 2);
    }
    if (count == 0) luaL_error(L, "tf.command_pins: '%s' printed no line", o->line);
}

static int command_pins_call(lua_State *L) {
    command_options o;
    read_options(L, "tf.command_pins", &o);
    if (o.may_fail)
        return luaL_error(L, "tf.command_pins: what a failed command printed is no pin");
    const proc_result *result = run_line(L, "tf.command_pins", &o);
    if (result->out_cut) return luaL_error(L, "tf.command_pins: '%s' printed too much", o.line);
    const char *text = text_str(&result->out);
    size_t n = result->out.length;
    bool plain = strlen(text) == n;
    bool digests = o.form == NULL ? plain && all_digests(text) : strcmp(o.form, "digests") == 0;
    if (digests) {
        push_digests(L, &o, text);
        return 1;
    }
    lua_createtable(L, 1, 0);
    lua_pushstring(L, o.name);
    push_subject(L, text, n, o.line);
    lua_rawseti(L, -2, 1);
    return 1;
}

/* ---- tables ---- */

static const binding functions[] = {
    {BIND_FUNCTION, "command", command_call, "tf.command(line, {dir=, seconds=, may_fail=})",
     "runs a shell line in the project, or in dir; its result has out, err and code. A command "
     "that fails is an error, unless may_fail = true"},
    {BIND_FUNCTION, "command_pins", command_pins_call,
     "tf.command_pins(line, {name=, form=, dir=, seconds=})",
     "runs a shell line and makes pins for t:pin of what it prints: of `name digest` lines (or "
     "`digest name`, as sha256sum prints) one each, under name; of any other text one. form = "
     "\"digests\" or \"text\" insists"},
};
static const binding result_rows[] = {
    {BIND_META, "__gc", result_gc, NULL, NULL},
};
const bind_group lua_command_groups[] = {
    {RESULT, NULL, NULL, result_rows, sizeof result_rows / sizeof result_rows[0]},
    {NULL, "tf", "Other projects", functions, sizeof functions / sizeof functions[0]},
};
const size_t lua_command_group_count = sizeof lua_command_groups / sizeof lua_command_groups[0];
