#include "harness/lua/lua_prove.h"

#include "harness/lua/host.h"
#include "harness/lua/lua_engine.h"
#include "harness/pins/diff.h"
#include "harness/pins/pinfile.h"

#include <lauxlib.h>
#include <stdio.h>
#include <string.h>

#define TEST "tf.test"

void lua_prove_push_test(lua_State *L) {
    bind_new(L, TEST, 1);
}

static script *running_test(lua_State *L, const char *use) {
    bind_object(L, 1, TEST);
    return host_running(L, use);
}

/* Records a point and pushes whether it held. */
static int add_point(lua_State *L, report_point *point) {
    script *s = host_script(L);
    tf_error err = {0};
    char place[300];
    point->place = host_place(L, place);
    host_try(L, report_add(&s->report, point, &err), &err);
    lua_pushboolean(L, point->outcome == REPORT_OK);
    return 1;
}

static const char *point_name(lua_State *L, int index, const char *use) {
    if (lua_type(L, index) != LUA_TSTRING || lua_rawlen(L, index) == 0)
        luaL_error(L, "%s: the last argument must say what holds", use);
    return lua_tostring(L, index);
}

/* ---- plain checks --------------------------------------------------------------------------- */

static int test_ok(lua_State *L) {
    running_test(L, "t:ok");
    luaL_checkany(L, 2);
    report_point p = {.name = point_name(L, 3, "t:ok(value, name)")};
    p.outcome = lua_toboolean(L, 2) ? REPORT_OK : REPORT_FAILED;
    char message[200];
    snprintf(message, sizeof message, "found %s, expected a true value",
             luaL_tolstring(L, 2, NULL));
    if (p.outcome == REPORT_FAILED) p.message = message;
    p.word = p.outcome == REPORT_FAILED ? tf_word_text(TF_W_CHECK_FAILED) : NULL;
    return add_point(L, &p);
}

/* A value for a person: texts in quotes, the rest as Lua prints it. */
static const char *push_shown(lua_State *L, int index) {
    if (lua_type(L, index) == LUA_TSTRING)
        return lua_pushfstring(L, "'%s'", lua_tostring(L, index));
    return luaL_tolstring(L, index, NULL);
}

/* The two values at a and b as a failed point: found, expected, and the diff of longer texts. */
static int add_difference(lua_State *L, report_point *p, int a, int b) {
    script *s = host_script(L);
    static const diff_limits limits = {.context = 3, .hunks = 2, .lines = 30};
    tf_error err = {0};
    text_clear(&s->scratch);
    size_t na = 0, nb = 0;
    const char *ta = lua_type(L, a) == LUA_TSTRING ? lua_tolstring(L, a, &na) : NULL;
    const char *tb = lua_type(L, b) == LUA_TSTRING ? lua_tolstring(L, b, &nb) : NULL;
    bool lines = ta != NULL && tb != NULL && (na > 80 || nb > 80 || memchr(ta, '\n', na) != NULL);
    if (lines) {
        host_try(
            L,
            diff_write(&s->scratch, (diff_text){tb, nb}, (diff_text){ta, na}, &limits, NULL, &err),
            &err);
        p->message = "the texts differ: - expected, + found";
        p->detail = text_str(&s->scratch);
    } else {
        const char *found = push_shown(L, a);
        p->message = lua_pushfstring(L, "found %s, expected %s", found, push_shown(L, b));
    }
    p->outcome = REPORT_FAILED;
    p->word = tf_word_text(TF_W_CHECK_FAILED);
    return add_point(L, p);
}

static int test_is(lua_State *L) {
    running_test(L, "t:is");
    luaL_checkany(L, 3);
    report_point p = {.name = point_name(L, 4, "t:is(found, expected, name)")};
    /* NaN is not itself, but it is what was expected. */
    bool same = lua_rawequal(L, 2, 3) || (lua_isnumber(L, 2) && lua_isnumber(L, 3) &&
                                          !lua_rawequal(L, 2, 2) && !lua_rawequal(L, 3, 3));
    if (!same) return add_difference(L, &p, 2, 3);
    return add_point(L, &p);
}

/* Replaces an object of the engine at index by its text. */
static void to_text(lua_State *L, int index) {
    if (lua_type(L, index) != LUA_TUSERDATA) return;
    pin_subject subject;
    lua_engine_subject(L, index, &subject);
    lua_pushlstring(L, subject.text, subject.bytes);
    lua_replace(L, index);
}

static int test_equal_bits(lua_State *L) {
    running_test(L, "t:equal_bits");
    report_point p = {.name = point_name(L, 4, "t:equal_bits(a, b, name)")};
    to_text(L, 2);
    to_text(L, 3);
    bool same = false;
    if (lua_type(L, 2) == LUA_TNUMBER && lua_type(L, 3) == LUA_TNUMBER) {
        lua_Number a = lua_tonumber(L, 2), b = lua_tonumber(L, 3);
        same = lua_isinteger(L, 2) == lua_isinteger(L, 3) &&
               (lua_isinteger(L, 2) ? lua_tointeger(L, 2) == lua_tointeger(L, 3)
                                    : memcmp(&a, &b, sizeof a) == 0);
    } else {
        luaL_checktype(L, 2, LUA_TSTRING);
        luaL_checktype(L, 3, LUA_TSTRING);
        same = lua_rawequal(L, 2, 3);
    }
    if (!same) return add_difference(L, &p, 2, 3);
    return add_point(L, &p);
}

static int test_skip(lua_State *L) {
    script *s = running_test(L, "t:skip");
    report_point p = {.outcome = REPORT_SKIPPED, .reason = luaL_checkstring(L, 2)};
    p.name = luaL_optstring(L, 3, "skipped");
    s->partial = true;
    return add_point(L, &p);
}

static int test_note(lua_State *L) {
    script *s = running_test(L, "t:note");
    tf_error err = {0};
    host_try(L, report_note(&s->report, luaL_tolstring(L, 2, NULL), &err), &err);
    return 0;
}

/* ---- pins ----------------------------------------------------------------------------------- */

/* Reads {name=, text=, what=, made_by=}; the texts stay referenced by the table. */
static void read_subject(lua_State *L, int index, pin_subject *out) {
    static const char *const keys[] = {"name", "text", "what", "made_by"};
    const char *text = NULL;
    luaL_checktype(L, index, LUA_TTABLE);
    bind_check_keys(L, index, "t:pin", keys, sizeof keys / sizeof keys[0]);
    if (!bind_get_string(L, index, "name", &out->name) || !bind_get_string(L, index, "text", &text))
        luaL_error(L, "t:pin: a table must have a name and a text");
    bind_raw_field(L, index, "text");
    out->bytes = lua_rawlen(L, -1);
    lua_pop(L, 1);
    out->text = text;
    out->what = out->name;
    out->made_by = "-";
    bind_get_string(L, index, "what", &out->what);
    bind_get_string(L, index, "made_by", &out->made_by);
}

static const char *verdict_text(const script *s, pin_verdict verdict) {
    switch (verdict) {
    case PIN_SAME:
        return "same";
    case PIN_CHANGED:
        return s->job->capture ? "captured" : "changed";
    case PIN_MISSING:
        return s->job->capture ? "captured" : "missing";
    case PIN_LEFT_OUT:
        return "left-out";
    }
    return "?";
}

/* Checks or captures one subject.  Pushes whether it held; nothing is shown of one left out. */
static int meet(lua_State *L, const pin_subject *subject) {
    script *s = host_script(L);
    tf_error err = {0}, failure = {0};
    pin_verdict verdict = PIN_LEFT_OUT;
    char line[1600];
    text_clear(&s->scratch);
    tf_status status = pin_meet(s->pins, subject, &verdict, &s->scratch, &failure);
    bool differs = failure.word == TF_W_PIN_CHANGED || failure.word == TF_W_PIN_MISSING;
    if (status != TF_OK && !differs) return sandbox_raise(L, &failure);
    lua_pushboolean(L, true);
    if (verdict == PIN_LEFT_OUT) return 1;
    host_try(L, report_tell_pin(&s->report, subject->name, verdict_text(s, verdict), &err), &err);
    report_point p = {.name = subject->name, .outcome = differs ? REPORT_FAILED : REPORT_OK};
    if (differs) {
        p.word = tf_word_text(failure.word);
        p.message = tf_error_line(&failure, line, sizeof line);
    }
    if (verdict != PIN_SAME) p.detail = text_str(&s->scratch);
    return add_point(L, &p);
}

static int meet_value(lua_State *L, int index) {
    pin_subject subject = {0};
    if (lua_type(L, index) == LUA_TUSERDATA) {
        const char *name = lua_engine_pin_name(L, index);
        tf_error err = {0};
        script *s = host_script(L);
        if (name == NULL) return luaL_error(L, "t:pin: this object has no pin");
        if (!pin_wants(s->pins, name)) {
            host_try(L, pin_claim(s->pins, name, &err), &err);
            lua_pushboolean(L, true);
            return 1;
        }
        lua_engine_subject(L, index, &subject);
    } else {
        read_subject(L, index, &subject);
    }
    return meet(L, &subject);
}

static int test_pin(lua_State *L) {
    running_test(L, "t:pin");
    luaL_checkany(L, 2);
    lua_Integer count = lua_type(L, 2) == LUA_TTABLE ? luaL_len(L, 2) : 0;
    if (count == 0) return meet_value(L, 2);
    bool held = true;
    for (lua_Integer i = 1; i <= count; i++) {
        lua_geti(L, 2, i);
        meet_value(L, lua_gettop(L));
        held = lua_toboolean(L, -1) && held;
        lua_settop(L, 2);
    }
    lua_pushboolean(L, held);
    return 1;
}

/* ---- cases ---------------------------------------------------------------------------------- */

static int test_case(lua_State *L) {
    script *s = running_test(L, "t:case");
    tf_error err = {0}, failure = {0};
    const char *name = luaL_checkstring(L, 2);
    luaL_checktype(L, 3, LUA_TFUNCTION);
    host_try(L, report_enter(&s->report, name, &err), &err);
    unsigned depth = s->report.depth;
    lua_pushcfunction(L, sandbox_on_error);
    lua_pushvalue(L, 3);
    lua_pushvalue(L, 1);
    int code = lua_pcall(L, 1, 0, -3);
    while (s->report.depth > depth)
        host_try(L, report_leave(&s->report, &err), &err);
    if (code != LUA_OK) {
        if (sandbox_is_over(L)) return lua_error(L);
        sandbox_failure(L, -1, "carrying out the case", &failure);
        host_try(L, host_add_error(s, name, &failure, &err), &err);
    }
    host_try(L, report_leave(&s->report, &err), &err);
    lua_pushboolean(L, code == LUA_OK);
    return 1;
}

static int test_refuses(lua_State *L) {
    running_test(L, "t:refuses");
    tf_error failure = {0};
    const char *word = luaL_checkstring(L, 2);
    luaL_checktype(L, 3, LUA_TFUNCTION);
    report_point p = {.name = point_name(L, 4, "t:refuses(word, function, name)")};
    lua_pushvalue(L, 3);
    int code = lua_pcall(L, 0, 0, 0);
    if (code != LUA_OK && sandbox_is_over(L)) return lua_error(L);
    char line[1600] = "found no failure";
    if (code != LUA_OK) {
        sandbox_failure(L, -1, "calling the function", &failure);
        if (strcmp(tf_word_text(failure.word), word) == 0) return add_point(L, &p);
        tf_error_line(&failure, line, sizeof line);
    }
    p.outcome = REPORT_FAILED;
    p.word = tf_word_text(TF_W_CHECK_FAILED);
    p.message = lua_pushfstring(L, "expected a failure with [%s]: %s", word, line);
    return add_point(L, &p);
}

/* ---- tables --------------------------------------------------------------------------------- */

static const binding test_rows[] = {
    {BIND_FUNCTION, "pin", test_pin, "t:pin(x)",
     "compares the text of x with its pin; `pins capture` writes it. x is an object of the engine, "
     "a list from tf.command_pins, or a table {name=, text=, what=, made_by=}"},
    {BIND_FUNCTION, "is", test_is, "t:is(found, expected, name)",
     "the two values are equal; name says what holds"},
    {BIND_FUNCTION, "equal_bits", test_equal_bits, "t:equal_bits(a, b, name)",
     "two numbers, texts or objects of the engine are equal bit for bit"},
    {BIND_FUNCTION, "ok", test_ok, "t:ok(value, name)", "the value is true"},
    {BIND_FUNCTION, "refuses", test_refuses, "t:refuses(word, function, name)",
     "calling the function fails with that code word, such as \"world-not-admitted\""},
    {BIND_FUNCTION, "skip", test_skip, "t:skip(reason, name)",
     "records that something was not checked, and why"},
    {BIND_FUNCTION, "note", test_note, "t:note(value)", "a line for the reader of the report"},
    {BIND_FUNCTION, "case", test_case, "t:case(name, function(t) ... end)",
     "a case of its own: an error in it ends the case, not the run"},
};
#define ROWS(a) (a), sizeof(a) / sizeof((a)[0])
const bind_group lua_prove_groups[] = {
    {TEST, NULL, "Checks (t, what a test function gets)", ROWS(test_rows)},
};
const size_t lua_prove_group_count = sizeof lua_prove_groups / sizeof lua_prove_groups[0];
