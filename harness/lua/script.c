#include "harness/lua/script.h"

#include "engine/base/check.h"
#include "engine/base/io.h"
#include "engine/base/limits.h"
#include "engine/base/nearest.h"
#include "harness/lua/host.h"
#include "harness/lua/lua_book.h"
#include "harness/lua/lua_command.h"
#include "harness/lua/lua_engine.h"
#include "harness/lua/lua_objects.h"
#include "harness/lua/lua_prove.h"
#include "harness/lua/lua_ranks.h"

#include <lauxlib.h>
#include <stdio.h>
#include <string.h>

/* A script book: a person writes it. */
#define SCRIPT_BYTES_MAX (4u << 20)

/* ---- what there is to bind ------------------------------------------------------------------ */

typedef struct group_list {
    const bind_group *groups;
    const size_t *count;
} group_list;

static const group_list bound[] = {
    {lua_book_groups, &lua_book_group_count},   {lua_prove_groups, &lua_prove_group_count},
    {lua_ranks_groups, &lua_ranks_group_count}, {lua_engine_groups, &lua_engine_group_count},
    {lua_calls_groups, &lua_calls_group_count}, {lua_command_groups, &lua_command_group_count},
};

#define BOUND_COUNT (sizeof bound / sizeof bound[0])

static int register_all(lua_State *L) {
    for (size_t i = 0; i < BOUND_COUNT; i++) {
        for (size_t g = 0; g < *bound[i].count; g++)
            bind_register(L, &bound[i].groups[g]);
    }
    return 0;
}

void script_help(tf_text *out) {
    text_add(
        out,
        "A script book (scripts.lua) names runs. `tfverify run NAME KEY=VALUE...` carries one\n"
        "out; `tfverify pins check` and `pins capture` carry out the run `pins`. Scripts are Lua\n"
        "5.4 without os, io, require, debug and bytecode; --trust opens them. pairs goes in the\n"
        "order of keys, so that a run prints the same every time.\n\n");
    for (size_t i = 0; i < BOUND_COUNT; i++) {
        for (size_t g = 0; g < *bound[i].count; g++) {
            if (bound[i].groups[g].about != NULL) bind_help(&bound[i].groups[g], out);
        }
    }
    text_add(out,
             "Errors caught by pcall have the fields word, what, found, expected and remedy.\n");
}

/* ---- what bindings share -------------------------------------------------------------------- */

script *host_script(lua_State *L) {
    sandbox_check(L);
    return sandbox_of(L)->owner;
}

script *host_running(lua_State *L, const char *use) {
    script *s = host_script(L);
    if (s->job == NULL) luaL_error(L, "%s is there only while a run is carried out", use);
    return s;
}

void host_try(lua_State *L, tf_status status, const tf_error *err) {
    if (status != TF_OK) sandbox_raise(L, err);
}

const char *host_place(lua_State *L, char place[300]) {
    const script *s = sandbox_of(L)->owner;
    lua_Debug frame;
    place[0] = '\0';
    for (int level = 0; lua_getstack(L, level, &frame) != 0; level++) {
        lua_getinfo(L, "Sl", &frame);
        if (frame.currentline > 0 && strcmp(frame.short_src, s->file_name) == 0) {
            snprintf(place, 300, "%s:%d", frame.short_src, frame.currentline);
            break;
        }
    }
    return place;
}

/* The first "scripts.lua:12" in a traceback. */
static void place_in(const script *s, const char *traceback, char *place, size_t size) {
    size_t n = strlen(s->file_name);
    place[0] = '\0';
    for (const char *at = strstr(traceback, s->file_name); at != NULL;
         at = strstr(at + n, s->file_name)) {
        size_t digits = at[n] == ':' ? strspn(at + n + 1, "0123456789") : 0;
        if (digits == 0) continue;
        snprintf(place, size, "%.*s", (int)(n + 1 + digits), at);
        return;
    }
}

tf_status host_add_error(script *s, const char *name, const tf_error *failure, tf_error *err) {
    char line[1600], place[300];
    place_in(s, s->box.traceback, place, sizeof place);
    report_point point = {.outcome = REPORT_ERROR,
                          .name = name,
                          .word = tf_word_text(failure->word),
                          .message = tf_error_line(failure, line, sizeof line),
                          .detail = s->box.traceback,
                          .place = place};
    s->partial = true;
    s->error_told = true;
    return report_add(&s->report, &point, err);
}

/* ---- opening -------------------------------------------------------------------------------- */

static const char *kept(script *s, const char *text, const char *otherwise) {
    const char *from = text == NULL ? otherwise : text;
    return arena_copy(&s->arena, from, strlen(from));
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

static int run_top_level(lua_State *L) {
    const int *reference = lua_touserdata(L, 1);
    lua_rawgeti(L, LUA_REGISTRYINDEX, *reference);
    lua_call(L, 0, 0);
    luaL_unref(L, LUA_REGISTRYINDEX, *reference);
    return 0;
}

static tf_status load_book(script *s, const char *path, tf_error *err) {
    char *data = NULL;
    size_t n = 0;
    int reference = LUA_NOREF;
    tf_status status = TF_OK;
    char act[300];
    TF_TRY(io_read_file(path, SCRIPT_BYTES_MAX, &data, &n, err));
    TF_TRY(sandbox_load(&s->box, data, n, s->file_name, &reference, err));
    snprintf(act, sizeof act, "running the top level of %.200s", s->file_name);
    TF_TRY(sandbox_do(&s->box, run_top_level, &reference, act, err));
    if (s->unfinished != NULL) {
        tf_fail(err, TF_W_SCRIPT_ERROR, "%s", act);
        tf_found(err, "run \"%s\" without a table", s->unfinished);
        TF_TRY(tf_expected(err, "run \"%s\" { about = ..., test = function(t, a) ... end }",
                           s->unfinished));
    }
done:
    mem_free(data);
    return status;
}

tf_status script_open(const script_options *options, script **out, tf_error *err) {
    tf_status status = TF_OK;
    char path[TF_PATH_BYTES_MAX];
    int n = 0;
    sandbox_limits limits = {.memory_bytes = options->memory_bytes,
                             .steps = options->steps,
                             .time_ms = options->time_ms,
                             .trust = options->trust};
    *out = NULL;
    script *s = mem_take(sizeof *s);
    if (s == NULL) return tf_fail(err, TF_W_NO_MEMORY, "opening a script");
    arena_init(&s->arena, 0);
    s->root = kept(s, options->root, ".");
    s->cache_dir = kept(s, options->cache_dir, "");
    s->build = s->tool = "";
    if (s->root == NULL || s->cache_dir == NULL)
        TF_TRY(tf_fail(err, TF_W_NO_MEMORY, "opening a script"));
    n = options->path != NULL ? snprintf(path, sizeof path, "%s", options->path)
                              : snprintf(path, sizeof path, "%s/scripts.lua", s->root);
    if (n < 0 || (size_t)n >= sizeof path) {
        TF_TRY(tf_fail(err, TF_W_TOO_LARGE, "opening the script %s", path));
    }
    snprintf(s->file_name, sizeof s->file_name, "%.50s", base_name(path));
    TF_TRY(sandbox_open(&s->box, &limits, s, err));
    TF_TRY(sandbox_do(&s->box, register_all, NULL, "opening a script", err));
    TF_TRY(load_book(s, path, err));
    *out = s;
    s = NULL;
done:
    script_close(s);
    return status;
}

void script_close(script *s) {
    if (s == NULL) return;
    sandbox_close(&s->box);
    text_free(&s->scratch);
    mem_free(s->entries);
    mem_free(s->tests);
    arena_free(&s->arena);
    mem_free(s);
}

size_t script_count(const script *s) {
    return s->entry_count;
}

const script_entry *script_at(const script *s, size_t index) {
    TF_ASSERT(index < s->entry_count);
    return &s->entries[index];
}

const char *script_build(const script *s) {
    return s->build;
}

const char *script_tool(const script *s) {
    return s->tool;
}

/* ---- arguments ------------------------------------------------------------------------------ */

static tf_status find_run(const script *s, const char *name, size_t *index, tf_error *err) {
    const char *names[256];
    size_t count = 0;
    for (size_t i = 0; i < s->entry_count; i++) {
        if (strcmp(s->entries[i].name, name) == 0) {
            *index = i;
            return TF_OK;
        }
        if (count < 256) names[count++] = s->entries[i].name;
    }
    const char *near = tf_nearest(name, names, count);
    tf_fail(err, TF_W_UNKNOWN_RUN, "looking for the run '%s' in %s", name, s->file_name);
    if (near != NULL) tf_expected(err, "%s, perhaps", near);
    return tf_remedy(err, "`tfverify run` without a name lists the runs");
}

/* The argument a KEY=VALUE word sets; *value points behind the '='. */
static tf_status find_argument(const script_entry *entry, const char *word, size_t *index,
                               const char **value, tf_error *err) {
    const char *equals = strchr(word, '=');
    size_t n = equals == NULL ? strlen(word) : (size_t)(equals - word);
    const char *names[64];
    size_t count = 0;
    for (size_t i = 0; i < entry->argument_count; i++) {
        const char *name = entry->arguments[i].name;
        if (equals != NULL && strlen(name) == n && memcmp(name, word, n) == 0) {
            *index = i;
            *value = equals + 1;
            return TF_OK;
        }
        if (count < 64) names[count++] = name;
    }
    char given[64];
    snprintf(given, sizeof given, "%.*s", (int)(n < 63 ? n : 63), word);
    const char *near = tf_nearest(given, names, count);
    tf_fail(err, TF_W_UNKNOWN_ARGUMENT, "reading the arguments of the run %s", entry->name);
    tf_found(err, "'%s'", word);
    if (equals == NULL) return tf_expected(err, "KEY=VALUE");
    if (near != NULL) return tf_expected(err, "%s=..., perhaps", near);
    return tf_expected(err, "%s", count == 0 ? "no argument" : names[0]);
}

typedef struct job_call {
    script *s;
    size_t entry;
    tf_error err;
} job_call;

/* __index of the arguments: one that the run does not have. */
static int no_argument(lua_State *L) {
    return luaL_error(L, "this run has no argument '%s'", luaL_tolstring(L, 2, NULL));
}

/* Replaces the standard value at the top by the text, in the standard's type. */
static void convert(lua_State *L, const char *run, const script_argument *argument,
                    const char *value) {
    int type = lua_type(L, -1);
    bool fits = true;
    lua_pop(L, 1);
    if (type == LUA_TNUMBER) {
        fits = lua_stringtonumber(L, value) == strlen(value) + 1;
    } else if (type == LUA_TBOOLEAN) {
        fits = strcmp(value, "true") == 0 || strcmp(value, "false") == 0;
        lua_pushboolean(L, strcmp(value, "true") == 0);
    } else {
        lua_pushstring(L, value);
    }
    if (fits) return;
    tf_error err = {0};
    tf_fail(&err, TF_W_UNKNOWN_ARGUMENT, "reading the argument %s of the run %s", argument->name,
            run);
    tf_found(&err, "'%s'", value);
    tf_expected(&err, "%s, like the standard %s",
                type == LUA_TNUMBER ? "a number" : "true or false", argument->standard);
    sandbox_raise(L, &err);
}

/* Pushes the table of arguments: standards of the script, overridden by the job. */
static void push_arguments(lua_State *L, const script *s, const script_entry *entry,
                           int standards) {
    const script_job *job = s->job;
    tf_error err = {0};
    lua_createtable(L, 0, (int)entry->argument_count);
    for (size_t i = 0; i < entry->argument_count; i++) {
        lua_getfield(L, standards, entry->arguments[i].name);
        lua_setfield(L, -2, entry->arguments[i].name);
    }
    for (size_t i = 0; i < job->argument_count; i++) {
        size_t index = 0;
        const char *value = NULL;
        host_try(L, find_argument(entry, job->arguments[i], &index, &value, &err), &err);
        lua_getfield(L, standards, entry->arguments[index].name);
        convert(L, entry->name, &entry->arguments[index], value);
        lua_setfield(L, -2, entry->arguments[index].name);
    }
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, no_argument);
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, -2);
}

/* ---- carrying a run out --------------------------------------------------------------------- */

static int call_test(lua_State *L) {
    const job_call *call = lua_touserdata(L, 1);
    const script *s = call->s;
    /* {test, standards} */
    lua_rawgeti(L, LUA_REGISTRYINDEX, s->tests[call->entry]);
    lua_rawgeti(L, -1, 2);
    int standards = lua_gettop(L);
    lua_rawgeti(L, -2, 1);
    lua_prove_push_test(L);
    push_arguments(L, s, &s->entries[call->entry], standards);
    lua_call(L, 2, 0);
    return 0;
}

/* An argument that only repeats the standard leaves the run whole. */
static bool narrows(const script_entry *entry, const script_job *job) {
    for (size_t i = 0; i < job->argument_count; i++) {
        size_t index = 0;
        const char *value = NULL;
        tf_error err = {0};
        if (find_argument(entry, job->arguments[i], &index, &value, &err) != TF_OK ||
            strcmp(value, entry->arguments[index].standard) != 0)
            return true;
    }
    return false;
}

/* What the whole run can say at its end: obsolete pins, a pattern that selected nothing. */
static tf_status conclude(script *s, const char *run, script_result *result, tf_error *err) {
    tf_status status = TF_OK;
    tf_text names = {0};
    const report_counts *c = &s->report.counts;
    TF_TRY(pin_finish(s->pins, err));
    if (c->held + c->failed + c->skipped + c->errors == 0) {
        tf_fail(err, TF_W_NOTHING_CHECKED, "carrying out the run %s", run);
        TF_TRY(tf_found(err, "no check in it"));
    }
    result->whole = !s->partial && c->skipped == 0 && c->errors == 0;
    if (result->whole) {
        TF_TRY(pin_obsolete(s->pins, &names, &result->obsolete, err));
        if (result->obsolete > 0) {
            TF_TRY(report_note(&s->report, "obsolete pins, claimed by nothing in this run:", err));
            TF_TRY(report_note(&s->report, text_str(&names), err));
        }
    }
    if (c->failed + c->errors > 0) {
        tf_fail(err, TF_W_CHECK_FAILED, "carrying out the run %s", run);
        tf_found(err, "%zu failed and %zu could not be made", c->failed, c->errors);
        TF_TRY(tf_expected(err, "all %zu checks to hold",
                           c->held + c->failed + c->skipped + c->errors));
    }
done:
    text_free(&names);
    return status;
}

/* Ends every case still open and adds the error that ended the run, unless its case told it. */
static tf_status end_early(script *s, const char *run, const tf_error *failure, tf_error *err) {
    tf_status status = TF_OK;
    if (!s->error_told) TF_TRY(host_add_error(s, run, failure, err));
done:
    while (s->report.depth > 0 && status == TF_OK)
        status = report_leave(&s->report, err);
    return status;
}

static tf_status carry_out(script *s, size_t entry, script_result *result, tf_error *err) {
    const script_job *job = s->job;
    tf_status status = TF_OK;
    char act[400];
    tf_error second = {0};
    job_call call = {.s = s, .entry = entry};
    pin_options options = {.root = s->root,
                           .run = job->run,
                           .pattern = job->pattern,
                           .revision = job->revision,
                           .command = job->command,
                           .capture = job->capture,
                           .accept = job->accept,
                           .ci = job->ci};
    TF_TRY(pin_open(&options, &s->pins, err));
    snprintf(act, sizeof act, "carrying out the run %.100s", job->run);
    s->partial = narrows(&s->entries[entry], job);
    s->error_told = false;
    s->report = (report){.sink = job->sink};
    status = sandbox_do(&s->box, call_test, &call, act, err);
    /* The first failure wins; one of telling it is not the news. */
    if (status != TF_OK) end_early(s, job->run, err, &second);
    pin_count(s->pins, &result->pins);
    if (status == TF_OK) status = conclude(s, job->run, result, err);
    result->checks = s->report.counts;
done:
    pin_close(s->pins);
    s->pins = NULL;
    return status;
}

tf_status script_run(script *s, const script_job *job, script_result *result, tf_error *err) {
    size_t entry = 0;
    *result = (script_result){.whole = false};
    tf_status status = find_run(s, job->run, &entry, err);
    for (size_t i = 0; i < job->argument_count && status == TF_OK; i++) {
        size_t index = 0;
        const char *value = NULL;
        status = find_argument(&s->entries[entry], job->arguments[i], &index, &value, err);
    }
    if (status != TF_OK) return status;
    s->job = job;
    status = carry_out(s, entry, result, err);
    s->job = NULL;
    return status;
}
