/* The script host over an engine made up for it: limits, arguments, cases, checks, pins. */
#include "harness/lua/script.h"

#include "engine/base/arena.h"
#include "engine/base/io.h"
#include "engine/base/thread.h"
#include "engine/tf.h"
#include "harness/lua/bind.h"
#include "harness/lua/host.h"
#include "harness/lua/lua_book.h"
#include "harness/lua/lua_command.h"
#include "harness/lua/lua_engine.h"
#include "harness/lua/lua_objects.h"
#include "harness/lua/lua_prove.h"
#include "harness/lua/lua_ranks.h"
#include "harness/lua/report.h"
#include "harness/lua/sandbox.h"
#include "tests/script/made_up.h"
#include "tests/script/told.h"
#include "tests/support/check.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- running a script ----------------------------------------------------------------------- */

typedef struct outcome {
    tf_status status;
    tf_error err;
    script_result result;
    told told;
} outcome;

/* Where scripts without pins stand; made by main. */
static char scratch[] = "/tmp/tfverify-script-XXXXXX";

static void write_script(check_case *t, const char *root, const char *text) {
    char path[1200];
    tf_error err = {0};
    snprintf(path, sizeof path, "%s/scripts.lua", root);
    CHECK(t, io_write_file(path, text, strlen(text), &err) == TF_OK);
}

static outcome *run_job(const script_options *options, script_job *job) {
    static outcome o;
    o = (outcome){.status = TF_OK};
    script *s = NULL;
    job->sink = told_sink(&o.told);
    o.status = script_open(options, &s, &o.err);
    if (o.status == TF_OK) o.status = script_run(s, job, &o.result, &o.err);
    script_close(s);
    return &o;
}

static outcome *run_options(check_case *t, const char *text, script_options *options,
                            script_job *job) {
    write_script(t, scratch, text);
    options->root = scratch;
    outcome *o = run_job(options, job);
    CHECKF(t, made_up_packs == 0 && made_up_plans == 0 && made_up_calls == 0,
           "%d packs, %d plans, %d calls left open", made_up_packs, made_up_plans, made_up_calls);
    return o;
}

/* The body of one test function. */
static outcome *run_body(check_case *t, const char *body) {
    char text[4096];
    script_options options = {.cache_dir = ""};
    script_job job = {.run = "x"};
    snprintf(text, sizeof text, "run \"x\" { about = \"x\", test = function(t, a)\n%s\nend }",
             body);
    return run_options(t, text, &options, &job);
}

static bool says(const outcome *o, const char *text) {
    return strstr(o->told.text, text) != NULL;
}

#define SAYS(t, o, want) \
    CHECKF(t, says(o, want), "not said: %s\nsaid:\n%s%s", want, (o)->told.text, (o)->err.found)

/* ---- limits and the sandbox ----------------------------------------------------------------- */

static void a_syntax_error_names_the_line(check_case *t) {
    script_options options = {.cache_dir = ""};
    script_job job = {.run = "x"};
    outcome *o = run_options(t, "run \"x\" {\n  about = \"x\",\n  test = = 1 }", &options, &job);
    CHECK_U64(t, o->err.word, TF_W_SCRIPT_SYNTAX);
    CHECKF(t, strncmp(o->err.found, "scripts.lua:3:", 14) == 0, "%s", o->err.found);
    CHECK_U64(t, tf_status_exit(o->status), 3);
}

static void a_missing_script_is_named(check_case *t) {
    script_options options = {.root = check_tmpdir(t)};
    script_job job = {.run = "x"};
    outcome *o = run_job(&options, &job);
    CHECK_U64(t, o->err.word, TF_W_CANNOT_OPEN);
    CHECK(t, strstr(o->err.what, "scripts.lua") != NULL);
}

static void an_endless_loop_is_stopped(check_case *t) {
    static const char *const loops[] = {
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "local co = coroutine.wrap(function() while true do end end) co()",
        "while true do pcall(coroutine.wrap(function() while true do end end)) end",
        "t:case('c', function() while true do end end) while true do end",
        "t:refuses('x', function() while true do end end, 'n')",
        "local function f() return f() end f()",
        "table.sort({1, 2, 3}, function() while true do end end)",
    };
    for (size_t i = 0; i < COUNT(loops); i++) {
        script_options options = {.steps = 2000000};
        script_job job = {.run = "x"};
        char text[400];
        snprintf(text, sizeof text, "run \"x\" { about = \"x\", test = function(t)\n%s\nend }",
                 loops[i]);
        outcome *o = run_options(t, text, &options, &job);
        CHECKF(t, o->err.word == TF_W_SCRIPT_OVER_LIMIT, "%s: %s", loops[i], o->err.found);
        CHECKF(t, strstr(o->err.found, "scripts.lua:2") != NULL, "%s: %s", loops[i], o->err.found);
        CHECKF(t, o->result.checks.errors == 1, "%s", loops[i]);
    }
    script_options options = {.steps = 2000000};
    script_job job = {.run = "x"};
    outcome *o = run_options(t, "\nwhile true do end", &options, &job);
    CHECK_U64(t, o->err.word, TF_W_SCRIPT_OVER_LIMIT);
}

static void a_finalizer_cannot_hide_a_loop(check_case *t) {
    outcome *o = run_body(t, "setmetatable({}, {__gc = function() while true do end end})");
    CHECK_U64(t, o->err.word, TF_W_SCRIPT_ERROR);
    CHECK(t, strstr(o->err.found, "__gc") != NULL);
}

static void a_run_that_takes_too_long_is_stopped(check_case *t) {
    script_options options = {.time_ms = 50, .steps = UINT64_MAX};
    script_job job = {.run = "x"};
    outcome *o = run_options(
        t, "run \"x\" { about = \"x\", test = function(t) while true do t:note(1) end end }",
        &options, &job);
    CHECK_U64(t, o->err.word, TF_W_SCRIPT_OVER_LIMIT);
    CHECK(t, strstr(o->err.found, "too long") != NULL);
}

static void memory_is_bounded(check_case *t) {
    static const char *const eaters[] = {
        "local s = 'x' while true do s = s .. s end",
        "local l = {} for i = 1, 1e9 do l[i] = {} end",
        "return ('x'):rep(1 << 40)",
    };
    for (size_t i = 0; i < COUNT(eaters); i++) {
        script_options options = {.memory_bytes = 8 << 20};
        script_job job = {.run = "x"};
        char text[300];
        snprintf(text, sizeof text, "run \"x\" { about = \"x\", test = function(t) %s end }",
                 eaters[i]);
        outcome *o = run_options(t, text, &options, &job);
        bool limit = o->err.word == TF_W_SCRIPT_OVER_LIMIT;
        bool too_large = i == 2 && o->err.word == TF_W_SCRIPT_ERROR;
        CHECKF(t, limit || too_large, "%s: %s", eaters[i], o->err.found);
    }
    /* A script that met the limit once and caught it may go on. */
    script_options options = {.memory_bytes = 8 << 20};
    script_job job = {.run = "x"};
    outcome *o = run_options(t,
                             "run \"x\" { about = \"x\", test = function(t)\n"
                             "t:ok(not pcall(function() local s = ('x'):rep(1 << 24) end), 'met')\n"
                             "t:ok(('x'):rep(100) ~= '', 'goes on') error('plain') end }",
                             &options, &job);
    CHECK_U64(t, o->err.word, TF_W_SCRIPT_ERROR);
    SAYS(t, o, "ok goes on");
}

static void the_system_is_out_of_reach(check_case *t) {
    outcome *o =
        run_body(t, "for _, n in ipairs{'os', 'io', 'require', 'dofile', 'loadfile', 'debug',"
                    "  'package', 'collectgarbage', 'print'} do\n"
                    "  t:is(_G[n], nil, n) end\n"
                    "t:is(string.dump, nil, 'dump')\n"
                    "t:is(load('\\27Lua'), nil, 'bytecode')\n"
                    "t:is(load('return 1 + 1')(), 2, 'text')\n");
    CHECK_U64(t, o->status, TF_OK);
    CHECK_U64(t, o->result.checks.held, 12);
    script_options options = {.trust = true};
    script_job job = {.run = "x"};
    o = run_options(t,
                    "run \"x\" { about = \"x\", test = function(t) t:ok(os.time(), 'os')\n"
                    "t:ok(io.open, 'io') t:ok(require, 'require') end }",
                    &options, &job);
    CHECK_U64(t, o->status, TF_OK);
}

static void keys_come_in_order(check_case *t) {
    outcome *o = run_body(t, "local seen = {}\n"
                             "for k in pairs{z = 1, b = 2, a = 3, 10, 20, [true] = 1} do\n"
                             "  seen[#seen + 1] = tostring(k) end\n"
                             "t:is(table.concat(seen, ' '), 'true 1 2 a b z', 'order')\n"
                             "t:is(math.random(1000000), a and math.random and 0 or 0, 'x')");
    SAYS(t, o, "ok order");
    static char first[sizeof o->told.text];
    memcpy(first, o->told.text, sizeof first);
    o = run_body(t, "local seen = {}\n"
                    "for k in pairs{z = 1, b = 2, a = 3, 10, 20, [true] = 1} do\n"
                    "  seen[#seen + 1] = tostring(k) end\n"
                    "t:is(table.concat(seen, ' '), 'true 1 2 a b z', 'order')\n"
                    "t:is(math.random(1000000), a and math.random and 0 or 0, 'x')");
    CHECK_STR(t, o->told.text, first);
}

static void ctrl_c_ends_the_run(check_case *t) {
    tf_stop_request();
    outcome *o = run_body(t, "while true do end");
    tf_stop_reset();
    CHECK_U64(t, o->status, TF_INTERRUPTED);
    CHECK_U64(t, tf_status_exit(o->status), 4);
}

/* ---- the book ------------------------------------------------------------------------------- */

static void a_badly_written_book_is_refused_by_line(check_case *t) {
    static const char *const books[][2] = {
        {"run \"a\"", "without a table"},
        {"run \"a\"\nrun \"b\" { about = \"b\", test = function() end }", "has no table before"},
        {"run \"a\" { test = function() end }", "says nothing about itself"},
        {"run \"a\" { about = \"a\" }", "has no test"},
        {"run \"a\" { about = \"a\", tset = function() end }", "unknown 'tset', perhaps 'test'"},
        {"run \"a b\" { about = \"a\", test = print }", "letters, digits"},
        {"run \"a\" { about = \"a\", test = error }\nrun \"a\" { about = \"a\", test = error }",
         "there already, at scripts.lua:1"},
        {"run \"a\" { about = \"a\", test = error, args = { x = {} } }", "args must be names"},
        {"tf.plan{}", "only while a run"},
        {"tf.plna{}", "there is no tf.plna, perhaps plan?"},
        {"tf.project{biuld = \"make\"}", "perhaps 'build'"},
    };
    for (size_t i = 0; i < COUNT(books); i++) {
        script_options options = {.cache_dir = ""};
        script_job job = {.run = "a"};
        outcome *o = run_options(t, books[i][0], &options, &job);
        CHECKF(t, o->err.word == TF_W_SCRIPT_ERROR, "%s", books[i][0]);
        CHECKF(t, strstr(o->err.found, books[i][1]) != NULL, "%s: %s", books[i][0], o->err.found);
    }
}

static const char with_arguments[] =
    "tf.project{build = \"make\", tool = \"out/tool\"}\n"
    "run \"x\" { about = \"about x\", args = { world = \"all\", count = 3, deep = false },\n"
    "  test = function(t, a)\n"
    "    t:note(a.world .. ' ' .. math.type(a.count) .. ' ' .. a.count .. ' ' .. tostring(a.deep))\n"
    "    t:ok(true, 'ran')\n"
    "  end }\n"
    "run \"other\" { about = \"y\", test = function(t, a) t:ok(a.wrold, 'x') end }\n";

static void a_book_lists_its_runs(check_case *t) {
    const char *root = check_tmpdir(t);
    write_script(t, root, with_arguments);
    script_options options = {.root = root};
    script *s = NULL;
    tf_error err = {0};
    CHECK(t, script_open(&options, &s, &err) == TF_OK);
    CHECK_U64(t, script_count(s), 2);
    const script_entry *e = script_at(s, 0);
    CHECK_STR(t, e->name, "x");
    CHECK_STR(t, e->about, "about x");
    CHECK_STR(t, e->place, "scripts.lua:2");
    CHECK_U64(t, e->argument_count, 3);
    CHECK_STR(t, e->arguments[0].name, "count");
    CHECK_STR(t, e->arguments[0].standard, "3");
    CHECK_STR(t, script_build(s), "make");
    CHECK_STR(t, script_tool(s), "out/tool");
    script_close(s);
}

static outcome *run_with(check_case *t, const char *run, const char *argument) {
    script_options options = {.cache_dir = ""};
    script_job job = {.run = run, .arguments = &argument, .argument_count = argument != NULL};
    return run_options(t, with_arguments, &options, &job);
}

static void arguments_take_the_type_of_their_standard(check_case *t) {
    outcome *o = run_with(t, "x", NULL);
    SAYS(t, o, "# all integer 3 false");
    o = run_with(t, "x", "count=17");
    SAYS(t, o, "# all integer 17 false");
    o = run_with(t, "x", "deep=true");
    SAYS(t, o, "# all integer 3 true");
    o = run_with(t, "x", "world=a=b");
    SAYS(t, o, "# a=b integer 3 false");
    static const char *const bad[] = {"count=many", "count=", "deep=yes", "wrold=3", "world", ""};
    for (size_t i = 0; i < COUNT(bad); i++) {
        o = run_with(t, "x", bad[i]);
        CHECKF(t, o->err.word == TF_W_UNKNOWN_ARGUMENT, "%s", bad[i]);
        CHECK_U64(t, tf_status_exit(o->status), 2);
    }
    o = run_with(t, "x", "wrold=3");
    CHECK(t, strstr(o->err.expected, "world") != NULL);
    o = run_with(t, "otehr", NULL);
    CHECK_U64(t, o->err.word, TF_W_UNKNOWN_RUN);
    CHECK(t, strstr(o->err.expected, "other") != NULL);
    o = run_with(t, "other", NULL);
    CHECK(t, strstr(o->err.found, "no argument 'wrold'") != NULL);
}

/* ---- checks --------------------------------------------------------------------------------- */

static void a_check_that_fails_does_not_end_the_run(check_case *t) {
    outcome *o = run_body(t, "t:ok(false, 'first')\n"
                             "t:is(1, 2, 'second')\n"
                             "t:is('a\\nb\\n', 'a\\nc\\n', 'lines')\n"
                             "t:ok(1, 'last')");
    CHECK_U64(t, o->status, TF_MISMATCH);
    CHECK_U64(t, o->err.word, TF_W_CHECK_FAILED);
    CHECK_U64(t, o->result.checks.failed, 3);
    CHECK_U64(t, o->result.checks.held, 1);
    SAYS(t, o, "failed first @scripts.lua:2 found false, expected a true value");
    SAYS(t, o, "failed second @scripts.lua:3 found 1, expected 2");
    SAYS(t, o, "ok last");
    CHECKF(t, strstr(o->told.details, "-c\n+b\n") != NULL, "%s", o->told.details);
}

static void equal_bits_is_stricter_than_equality(check_case *t) {
    outcome *o = run_body(t, "t:equal_bits(0/0, 0/0, 'nan')\n"
                             "t:equal_bits('a', 'a', 'text')\n"
                             "t:is(0/0, 0/0, 'nan is nan')\n"
                             "t:equal_bits(0.0, -0.0, 'zeroes')\n"
                             "t:equal_bits(1, 1.0, 'kinds')\n"
                             "t:is(1, 1.0, 'is compares values')");
    SAYS(t, o, "ok nan\nok text\nok nan is nan\nfailed zeroes");
    SAYS(t, o, "failed kinds");
    SAYS(t, o, "ok is compares values");
}

static void an_error_is_named_with_its_line_and_word(check_case *t) {
    outcome *o = run_body(t, "local x = nil\nreturn x.y");
    CHECK_U64(t, o->err.word, TF_W_SCRIPT_ERROR);
    CHECK(t, strstr(o->err.found, "scripts.lua:3:") != NULL);
    SAYS(t, o, "error x @scripts.lua:3");
    CHECK(t, strstr(o->told.details, "stack traceback") != NULL);
    o = run_body(t, "tf.plan{pack = 'alpha', world = 7}");
    CHECK_U64(t, o->err.word, TF_W_WORLD_NOT_ADMITTED);
    CHECK_U64(t, o->status, TF_REFUSED);
    o = run_body(t, "local ok, e = pcall(tf.plan, {pack = 'alpha', world = 7})\n"
                    "t:is(e.word, 'world-not-admitted', 'word')\n"
                    "t:is(e.found, '7 ranks', 'found')\n"
                    "t:ok(tostring(e):find('asking for plan'), 'text')\n"
                    "t:refuses('world-not-admitted', function()\n"
                    "  tf.plan{pack = 'alpha', world = 7} end, 'refuses')\n"
                    "t:refuses('bad-world', function() end, 'nothing')\n"
                    "t:refuses('bad-world', function()\n"
                    "  tf.plan{pack = 'alpha', world = 7} end, 'another')");
    CHECK_U64(t, o->result.checks.held, 4);
    SAYS(t, o, "failed nothing");
    SAYS(t, o, "failed another");
    CHECK_U64(t, o->status, TF_MISMATCH);
}

static void a_case_holds_its_own_errors(check_case *t) {
    outcome *o = run_body(t, "t:case('one', function(t) t:ok(true, 'a') error('boom') end)\n"
                             "t:case('two', function(t) t:ok(true, 'b') end)\n"
                             "t:case('outer', function(t)\n"
                             "  t:case('inner', function(t) t:ok(false, 'c') end)\n"
                             "  t:case('fine', function(t) t:ok(true, 'd') end) end)");
    CHECKF(t,
           strstr(o->told.text, "> one\n  ok a\n  error one @scripts.lua:2") != NULL &&
               strstr(o->told.text,
                      "< bad\n> two\n  ok b\n< held\n> outer\n  > inner\n    failed c") != NULL &&
               strstr(o->told.text, "  < bad\n  > fine\n    ok d\n  < held\n< bad\n") != NULL,
           "%s", o->told.text);
    CHECK_U64(t, o->status, TF_MISMATCH);
    CHECK_U64(t, o->result.checks.errors, 1);
    CHECK(t, !o->result.whole);
}

static void nothing_checked_is_no_pass(check_case *t) {
    outcome *o = run_body(t, "t:note('idle')");
    CHECK_U64(t, o->err.word, TF_W_NOTHING_CHECKED);
    CHECK(t, tf_status_exit(o->status) != 0);
}

static void mistyped_fields_are_named(check_case *t) {
    static const char *const slips[][2] = {
        {"local p = tf.plan{pack = 'alpha'} return p.wrold", "no field 'wrold', perhaps 'world'"},
        {"return t:pni(1)", "no field 'pni', perhaps 'pin'"},
        {"tf.plan{pack = 'alpha', wrold = 3}", "unknown 'wrold', perhaps 'world'"},
        {"tf.plan{pack = 'alpha', world = 1.5}", "expected a whole number"},
        {"tf.plan{world = 1}", "no pack is named"},
        {"tf.emit(tf.plan{pack = 'alpha'}, 'decoed')", "unknown phase 'decoed', perhaps decode"},
        {"tf.emit(tf.plan{pack = 'alpha'}, 'decode', {layers = 3})", "perhaps 'layer'"},
        {"tf.emit(7, 'decode')", "tf.plan expected, got number"},
        {"tf.plan{pack = 'alpha', world = 2, weights = {1}}", "one a rank (2)"},
        {"t:ok(true)", "must say what holds"},
        {"t:pin(t)", "has no pin"},
        {"t:pin{name = 'a'}", "must have a name and a text"},
        {"return a.pack", "no argument 'pack'"},
    };
    for (size_t i = 0; i < COUNT(slips); i++) {
        outcome *o = run_body(t, slips[i][0]);
        CHECKF(t, strstr(o->err.found, slips[i][1]) != NULL, "%s: %s", slips[i][0], o->err.found);
        CHECKF(t, strstr(o->err.found, "scripts.lua:2") != NULL, "%s: %s", slips[i][0],
               o->err.found);
    }
}

/* ---- the engine's objects ------------------------------------------------------------------- */

static void objects_carry_text_digest_and_fields(check_case *t) {
    outcome *o = run_body(
        t, "local plan = tf.plan{pack = 'alpha', world = 3, rank = 2}\n"
           "t:is(plan.text, 'plan 1 alpha world 3 rank 2\\nheads=16{H/W}\\n', 'text')\n"
           "t:is(#plan.digest, 32, 'digest')\n"
           "t:is(plan.name, 'alpha/w3/r2/plan', 'name')\n"
           "t:is(plan.heads, 16, 'heads')\n"
           "t:is(plan.pack.data, true, 'data')\n"
           "t:is(plan.shares['output groups'].count, 3, 'share')\n"
           "t:is(plan.categories.attention, 123, 'category')\n"
           "local calls = tf.emit(plan, 'decode', {layer = 8, rows = 4})\n"
           "t:is(calls.name, 'alpha/w3/r2/decode-L8-n4', 'calls')\n"
           "t:is(tf.emit(plan, 'prefill', {layer = 'top', start = 7}).name,\n"
           "  'alpha/w3/r2/prefill-top-s7', 'top')\n"
           "t:is(calls.count, 3, 'count')\n"
           "local lines = {}\n"
           "for call in calls:each() do lines[#lines + 1] = call.layer .. call.kind end\n"
           "t:is(table.concat(lines, ' '), 'L0attend L1attend L2attend', 'rows')\n"
           "t:is(tf.rank_files(plan).name, 'alpha/w3/r2/rank-files', 'files')\n"
           "t:ok(tf.rank_files(plan).text:find(plan.digest, 1, true), 'bound')\n"
           "t:is(tf.needs{pack = 'alpha', world = 3}.name, 'alpha/w3/needs', 'needs')\n"
           "t:is(tf.plan{pack = 'alpha', world = 2, weights = {2, 1}}.name,\n"
           "  'alpha/w2-2.1/r0/plan', 'weights')\n"
           "t:equal_bits(plan, tf.plan{pack = 'alpha', world = 3, rank = 2}, 'same plan')\n"
           "t:is(tf.pack('alpha'), plan.pack, 'one pack')");
    CHECKF(t, o->status == TF_OK, "%s\n%s", o->told.text, o->err.found);
    CHECK_U64(t, o->told.made, 6);
}

static void ranks_goes_through_every_pack_world_and_rank(check_case *t) {
    outcome *o = run_body(t, "local n = 0\n"
                             "for case in tf.ranks{pack = 'all', world = 'all'} do\n"
                             "  n = n + 1 t:ok(case.rank < case.world, 'in') end\n"
                             "t:is(n, 20, 'cases')");
    CHECK_U64(t, o->status, TF_OK);
    SAYS(t, o, "> alpha/w1/r0\n  ok in\n< held\n> alpha/w2/r0\n");
    SAYS(t, o, "> beta/w4/r3\n  ok in\n< held\nok cases\n");
    CHECK(t, o->result.whole);
    o = run_body(t, "for case in tf.ranks{pack = 'beta', world = '2,3', rank = 1} do\n"
                    "  t:ok(true, 'x') end");
    CHECK_STR(t, o->told.text, "> beta/w2/r1\n  ok x\n< held\n> beta/w3/r1\n  ok x\n< held\n");
    o = run_body(t, "for case in tf.ranks{world = 'three'} do end");
    CHECK_U64(t, o->err.word, TF_W_UNKNOWN_ARGUMENT);
    /* Left by break: closed, and the run is no longer whole. */
    o = run_body(t, "for case in tf.ranks{} do t:ok(true, 'x') break end t:ok(true, 'after')");
    CHECK_STR(t, o->told.text, "> alpha/w1/r0\n  ok x\n< held\nok after\n");
    CHECK(t, !o->result.whole);
}

static void a_refused_world_is_an_error_with_its_line(check_case *t) {
    static const char *const worlds[] = {"0", "5", "300"};
    for (size_t i = 0; i < COUNT(worlds); i++) {
        char body[200];
        snprintf(body, sizeof body,
                 "for case in tf.ranks{pack = 'alpha', world = %s} do t:pin(tf.plan(case)) end",
                 worlds[i]);
        outcome *o = run_body(t, body);
        CHECK_U64(t, o->err.word, TF_W_WORLD_NOT_ADMITTED);
        CHECK_U64(t, o->result.checks.errors, 1);
        /* Before any pack is opened, and so before there is a case. */
        SAYS(t, o, "error x @scripts.lua:2");
        CHECK_U64(t, tf_status_exit(o->status), 2);
    }
}

/* ---- pins from scripts ---------------------------------------------------------------------- */

static const char pins_script[] =
    "run \"pins\" { about = \"pins\", args = { pack = \"all\", world = \"all\" },\n"
    "  test = function(t, a)\n"
    "    for case in tf.ranks(a) do\n"
    "      local plan = tf.plan(case)\n"
    "      t:pin(plan)\n"
    "      if plan.pack.data then t:pin(tf.rank_files(plan)) end\n"
    "      t:pin(tf.emit(plan, \"decode\"))\n"
    "    end\n"
    "  end }\n";

static outcome *run_pins(const char *root, script_job job) {
    script_options options = {.root = root};
    job.run = "pins";
    return run_job(&options, &job);
}

static void pins_are_captured_checked_and_obsolete(check_case *t) {
    const char *root = check_tmpdir(t);
    write_script(t, root, pins_script);
    outcome *o = run_pins(root, (script_job){.capture = true, .accept = true});
    CHECK_U64(t, o->status, TF_OK);
    CHECK_U64(t, o->result.pins.written, 50);
    o = run_pins(root, (script_job){.pattern = NULL});
    CHECK_U64(t, o->status, TF_OK);
    CHECK_U64(t, o->result.pins.same, 50);
    CHECK_U64(t, o->told.pins, 50);
    CHECK(t, o->result.whole && o->result.obsolete == 0);
    char out[256];
    CHECK_U64(t,
              check_command(t, out, sizeof out,
                            "sed 's,name alpha/w3/r2/plan,name alpha/w3/r2/old,' "
                            "%s/pins/alpha/w3/r2/plan.txt > %s/pins/alpha/w3/r2/old.txt",
                            root, root),
              0);
    o = run_pins(root, (script_job){.pattern = NULL});
    CHECK_U64(t, o->result.obsolete, 1);
    SAYS(t, o, "# alpha/w3/r2/old\n");
    CHECK_U64(t, o->status, TF_OK);
}

/* A partial run must not call what it did not look at obsolete. */
static void a_partial_run_calls_no_pin_obsolete(check_case *t) {
    const char *root = check_tmpdir(t);
    write_script(t, root, pins_script);
    outcome *o = run_pins(root, (script_job){.capture = true, .accept = true});
    CHECK_U64(t, o->status, TF_OK);
    const char *world = "world=3";
    o = run_pins(root, (script_job){.arguments = &world, .argument_count = 1});
    CHECK_U64(t, o->status, TF_OK);
    CHECK(t, !o->result.whole && o->result.obsolete == 0);
    CHECK(t, !says(o, "obsolete"));
    world = "world=all";
    o = run_pins(root, (script_job){.arguments = &world, .argument_count = 1});
    CHECK(t, o->result.whole);
    o = run_pins(root, (script_job){.pattern = "w3/*"});
    CHECK_U64(t, o->status, TF_OK);
    CHECK_U64(t, o->result.pins.same, 15);
    CHECK_U64(t, o->result.obsolete, 0);
    CHECKF(t, !says(o, "> alpha/w1"), "a case without a selected pin is shown");
    o = run_pins(root, (script_job){.pattern = "w9/*"});
    CHECK_U64(t, o->err.word, TF_W_NOTHING_CHECKED);
}

static void a_changed_engine_fails_by_name_and_says_how(check_case *t) {
    const char *root = check_tmpdir(t);
    write_script(t, root, pins_script);
    CHECK(t, run_pins(root, (script_job){.capture = true, .accept = true})->status == TF_OK);
    made_up_heads = 60;
    outcome *o =
        run_pins(root, (script_job){.pattern = "alpha/w3/r2/*", .command = "build/tfverify"});
    made_up_heads = 48;
    CHECK_U64(t, o->status, TF_MISMATCH);
    CHECK_U64(t, o->err.word, TF_W_CHECK_FAILED);
    SAYS(t, o, "> alpha/w3/r2\n  failed alpha/w3/r2/plan @scripts.lua:5 ");
    CHECK(t, strstr(o->told.details, "heads: 16{H/W} -> 20{H/W}, the value of {H/W}") != NULL);
    CHECK(t, strstr(o->told.details,
                    "reproduce: tfverify plan --pack alpha --world 3 --rank 2\n") != NULL);
    CHECK(t, strstr(o->told.details, "accept: build/tfverify pins capture") != NULL);
}

static void scripts_write_no_pin_in_ci(check_case *t) {
    const char *root = check_tmpdir(t);
    write_script(t, root, pins_script);
    outcome *o = run_pins(root, (script_job){.capture = true, .accept = true, .ci = true});
    CHECK_U64(t, o->err.word, TF_W_PINS_READ_ONLY);
    o = run_pins(root, (script_job){.ci = true});
    CHECK_U64(t, o->err.word, TF_W_NO_PINS);
    char path[1200];
    snprintf(path, sizeof path, "%s/pins", root);
    CHECK(t, !io_exists(path));
}

/* ---- help ----------------------------------------------------------------------------------- */

static void the_help_names_every_binding(check_case *t) {
    tf_text help = {0};
    script_help(&help);
    const bind_group *const groups[] = {lua_book_groups,   lua_prove_groups, lua_ranks_groups,
                                        lua_engine_groups, lua_calls_groups, lua_command_groups};
    const size_t counts[] = {lua_book_group_count,  lua_prove_group_count,
                             lua_ranks_group_count, lua_engine_group_count,
                             lua_calls_group_count, lua_command_group_count};
    size_t named = 0;
    for (size_t g = 0; g < COUNT(groups); g++) {
        for (size_t i = 0; i < counts[g]; i++) {
            for (size_t r = 0; r < groups[g][i].count; r++) {
                const binding *row = &groups[g][i].rows[r];
                if (row->kind == BIND_META) continue;
                named++;
                CHECKF(t, row->use != NULL && row->about != NULL, "%s has no help", row->name);
                CHECKF(t, strstr(text_str(&help), row->use) != NULL, "%s is not in the help",
                       row->name);
                CHECKF(t, strstr(row->use, row->name) != NULL, "the use of %s names another",
                       row->name);
            }
        }
    }
    CHECK(t, named > 40);
    for (const char *line = text_str(&help); *line != '\0'; line = strchr(line, '\n') + 1)
        CHECKF(t, strcspn(line, "\n") <= 100, "%.*s", (int)strcspn(line, "\n"), line);
    text_free(&help);
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"script/a-syntax-error-names-the-line", a_syntax_error_names_the_line},
        {"script/a-missing-script-is-named", a_missing_script_is_named},
        {"script/an-endless-loop-is-stopped", an_endless_loop_is_stopped},
        {"script/a-finalizer-cannot-hide-a-loop", a_finalizer_cannot_hide_a_loop},
        {"script/a-run-that-takes-too-long-is-stopped", a_run_that_takes_too_long_is_stopped},
        {"script/memory-is-bounded", memory_is_bounded},
        {"script/the-system-is-out-of-reach", the_system_is_out_of_reach},
        {"script/keys-come-in-order", keys_come_in_order},
        {"script/ctrl-c-ends-the-run", ctrl_c_ends_the_run},
        {"script/a-badly-written-book-is-refused-by-line", a_badly_written_book_is_refused_by_line},
        {"script/a-book-lists-its-runs", a_book_lists_its_runs},
        {"script/arguments-take-the-type-of-their-standard",
         arguments_take_the_type_of_their_standard},
        {"script/a-check-that-fails-does-not-end-the-run", a_check_that_fails_does_not_end_the_run},
        {"script/equal-bits-is-stricter-than-equality", equal_bits_is_stricter_than_equality},
        {"script/an-error-is-named-with-its-line-and-word",
         an_error_is_named_with_its_line_and_word},
        {"script/a-case-holds-its-own-errors", a_case_holds_its_own_errors},
        {"script/nothing-checked-is-no-pass", nothing_checked_is_no_pass},
        {"script/mistyped-fields-are-named", mistyped_fields_are_named},
        {"script/objects-carry-text-digest-and-fields", objects_carry_text_digest_and_fields},
        {"script/ranks-goes-through-every-pack-world-and-rank",
         ranks_goes_through_every_pack_world_and_rank},
        {"script/a-refused-world-is-an-error-with-its-line",
         a_refused_world_is_an_error_with_its_line},
        {"script/pins-are-captured-checked-and-obsolete", pins_are_captured_checked_and_obsolete},
        {"script/a-partial-run-calls-no-pin-obsolete", a_partial_run_calls_no_pin_obsolete},
        {"script/a-changed-engine-fails-by-name-and-says-how",
         a_changed_engine_fails_by_name_and_says_how},
        {"script/scripts-write-no-pin-in-ci", scripts_write_no_pin_in_ci},
        {"script/the-help-names-every-binding", the_help_names_every_binding},
    };
    if (mkdtemp(scratch) == NULL) return 3;
    int code = check_main(argc, argv, cases, COUNT(cases));
    tf_error err = {0};
    io_remove_tree(scratch, &err);
    return code;
}
