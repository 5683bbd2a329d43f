#include "harness/lua/lua_objects.h"

#include "engine/base/arena.h"
#include "engine/base/nearest.h"
#include "harness/pins/pinfile.h"

#include <lauxlib.h>
#include <stdio.h>
#include <string.h>

/* ---- parts of a call text ------------------------------------------------------------------- */

static void layer_name(uint32_t layer, char *to, size_t size) {
    if (layer == TF_TOP_LAYER || layer == TF_ALL_LAYERS) {
        snprintf(to, size, "top");
    } else {
        snprintf(to, size, "L%u", layer);
    }
}

/* Runs of calls of one layer.  Leaves none where the lines are not the calls one by one; the pin
 * then holds a thousand lines a part. */
static void make_spans(const char *text, size_t bytes, const tf_calls *calls, object_spans *out) {
    size_t count = tf_calls_count(calls), lines = 0, at = 0;
    for (size_t i = 0; i < bytes; i++)
        lines += text[i] == '\n';
    if (count == 0 || lines < count || out->count > 0) return;
    for (size_t i = 0; i < lines; i++) {
        /* Lines before the first call belong to its layer. */
        tf_call_row row;
        char name[OBJECT_SPAN_NAME];
        tf_calls_row(calls, i < lines - count ? 0 : i - (lines - count), &row);
        layer_name(row.layer, name, sizeof name);
        at += (size_t)((const char *)memchr(text + at, '\n', bytes - at) - (text + at)) + 1;
        if (!lua_engine_span(out, name, i + 1 == lines ? bytes : at)) return;
    }
}

/* ---- calls ---------------------------------------------------------------------------------- */

static calls_object *the_calls(lua_State *L) {
    return bind_object(L, 1, CALLS);
}

static int calls_gc(lua_State *L) {
    calls_object *c = the_calls(L);
    tf_calls_close(c->calls);
    lua_engine_spans_free(&c->spans);
    c->calls = NULL;
    return 0;
}

/* "top", "all" or a number. */
static uint32_t read_layer(lua_State *L, int index) {
    lua_Integer number = 0;
    if (lua_isnoneornil(L, index)) return TF_ALL_LAYERS;
    if (bind_raw_field(L, index, "layer") == LUA_TSTRING) {
        const char *word = lua_tostring(L, -1);
        uint32_t layer = strcmp(word, "top") == 0 ? TF_TOP_LAYER : TF_ALL_LAYERS;
        if (layer == TF_ALL_LAYERS && strcmp(word, "all") != 0)
            luaL_error(L, "layer: found '%s', expected a number, \"top\" or \"all\"", word);
        lua_pop(L, 1);
        return layer;
    }
    lua_pop(L, 1);
    bool given = bind_get_number(L, index, "layer", 0, TF_LAYERS_MAX - 1, &number);
    return given ? (uint32_t)number : TF_ALL_LAYERS;
}

static void read_request(lua_State *L, tf_emit_request *out) {
    static const char *const keys[] = {"layer", "rows", "start"};
    const char *phase = luaL_checkstring(L, 2);
    lua_Integer rows = 0, start = 0;
    if (!tf_phase_parse(phase, &out->phase)) {
        const char *names[TF_PHASE_COUNT];
        for (int p = 0; p < TF_PHASE_COUNT; p++)
            names[p] = tf_phase_name((tf_phase)p);
        const char *near = tf_nearest(phase, names, TF_PHASE_COUNT);
        luaL_error(L, "tf.emit: unknown phase '%s'%s%s", phase, near == NULL ? "" : ", perhaps ",
                   near == NULL ? "" : near);
    }
    bind_check_keys(L, 3, "tf.emit", keys, sizeof keys / sizeof keys[0]);
    bind_get_number(L, 3, "rows", 0, UINT32_MAX, &rows);
    bind_get_number(L, 3, "start", 0, INT64_MAX, &start);
    out->layer = read_layer(L, 3);
    out->rows = (uint32_t)rows;
    out->start = (uint64_t)start;
}

static void label_calls(const plan_object *plan, calls_object *c) {
    const tf_emit_request *q = &c->request;
    const char *phase = tf_phase_name(q->phase);
    char suffix[80] = "", flags[80] = "", layer[24] = "";
    int used = 0, flagged = 0;
    if (q->layer != TF_ALL_LAYERS) {
        layer_name(q->layer, layer, sizeof layer);
        used += snprintf(suffix, sizeof suffix, "-%s", layer);
        flagged += snprintf(flags, sizeof flags, " --layer %s", layer + (layer[0] == 'L'));
    }
    if (q->rows != 0) {
        used += snprintf(suffix + used, sizeof suffix - (size_t)used, "-n%u", q->rows);
        flagged += snprintf(flags + flagged, sizeof flags - (size_t)flagged, " --rows %u", q->rows);
    }
    if (q->start != 0) {
        unsigned long long start = q->start;
        snprintf(suffix + used, sizeof suffix - (size_t)used, "-s%llu", start);
        snprintf(flags + flagged, sizeof flags - (size_t)flagged, " --start %llu", start);
    }
    object_label *l = &c->label;
    snprintf(l->name, sizeof l->name, "%.140s/%s%s", plan->base, phase, suffix);
    snprintf(l->what, sizeof l->what, "%s calls of %.1100s%s", phase, plan->where, flags);
    snprintf(l->made_by, sizeof l->made_by, "tfverify emit %.1100s --phase %s%s", plan->flags,
             phase, flags);
}

/* The pack object of a plan object; stays referenced by it. */
static pack_object *pack_of(lua_State *L, int plan_index) {
    lua_getiuservalue(L, plan_index, 1);
    pack_object *pack = bind_object(L, -1, PACK);
    lua_pop(L, 1);
    return pack;
}

int lua_calls_emit(lua_State *L) {
    script *s = host_running(L, "tf.emit");
    tf_error err = {0};
    plan_object *plan = bind_object(L, 1, PLAN);
    tf_emit_request request = {0};
    read_request(L, &request);
    calls_object *c = bind_new(L, CALLS, sizeof *c);
    c->request = request;
    lua_pushvalue(L, 1);
    lua_setiuservalue(L, -2, 1);
    host_try(L, tf_emit(plan->plan, &request, &c->calls, &err), &err);
    label_calls(plan, c);
    report_made made = {.kind = "calls",
                        .name = c->label.name,
                        .pack = tf_pack_name(pack_of(L, 1)->pack),
                        .world = plan->split.world,
                        .rank = plan->split.rank,
                        .digest = tf_calls_digest(c->calls),
                        .bytes = strlen(tf_calls_text(c->calls)),
                        .calls = c->calls};
    host_try(L, report_tell_made(&s->report, &made, &err), &err);
    return 1;
}

static int calls_text(lua_State *L) {
    lua_pushstring(L, tf_calls_text(the_calls(L)->calls));
    return 1;
}

static int calls_digest(lua_State *L) {
    lua_engine_push_digest(L, tf_calls_digest(the_calls(L)->calls));
    return 1;
}

static int calls_name(lua_State *L) {
    lua_pushstring(L, the_calls(L)->label.name);
    return 1;
}

static int calls_plan(lua_State *L) {
    lua_getiuservalue(L, 1, 1);
    return 1;
}

static int calls_count(lua_State *L) {
    lua_pushinteger(L, (lua_Integer)tf_calls_count(the_calls(L)->calls));
    return 1;
}

static int calls_phase(lua_State *L) {
    lua_pushstring(L, tf_phase_name(the_calls(L)->request.phase));
    return 1;
}

static int calls_buffers(lua_State *L) {
    script *s = host_script(L);
    text_clear(&s->scratch);
    tf_calls_buffers(the_calls(L)->calls, false, &s->scratch);
    return lua_engine_push_scratch(L, s);
}

static void push_row(lua_State *L, const tf_call_row *row) {
    char layer[24];
    lua_createtable(L, 0, 5);
    lua_pushinteger(L, row->ordinal);
    lua_setfield(L, -2, "ordinal");
    layer_name(row->layer, layer, sizeof layer);
    lua_pushstring(L, layer);
    lua_setfield(L, -2, "layer");
    lua_pushstring(L, row->kind);
    lua_setfield(L, -2, "kind");
    lua_pushstring(L, row->name);
    lua_setfield(L, -2, "name");
    lua_pushstring(L, row->line);
    lua_setfield(L, -2, "line");
}

static int next_row(lua_State *L) {
    calls_object *c = bind_object(L, lua_upvalueindex(1), CALLS);
    lua_Integer index = lua_tointeger(L, lua_upvalueindex(2));
    if ((size_t)index >= tf_calls_count(c->calls)) return 0;
    tf_call_row row;
    tf_calls_row(c->calls, (size_t)index, &row);
    lua_pushinteger(L, index + 1);
    lua_replace(L, lua_upvalueindex(2));
    push_row(L, &row);
    return 1;
}

static int calls_each(lua_State *L) {
    the_calls(L);
    lua_pushvalue(L, 1);
    lua_pushinteger(L, 0);
    lua_pushcclosure(L, next_row, 2);
    return 1;
}

/* ---- rank files ----------------------------------------------------------------------------- */

static rank_files_object *the_files(lua_State *L, int index) {
    return bind_object(L, index, RANK_FILES);
}

int lua_calls_rank_files(lua_State *L) {
    host_running(L, "tf.rank_files");
    plan_object *plan = bind_object(L, 1, PLAN);
    rank_files_object *f = bind_new(L, RANK_FILES, sizeof *f);
    lua_pushvalue(L, 1);
    lua_setiuservalue(L, -2, 1);
    snprintf(f->label.name, sizeof f->label.name, "%.240s/rank-files", plan->base);
    snprintf(f->label.what, sizeof f->label.what, "rank files of %.1200s", plan->where);
    snprintf(f->label.made_by, sizeof f->label.made_by, "tfverify rank digest %.1200s",
             plan->flags);
    return 1;
}

/* Reads the whole pack the first time. */
static void compute_files(lua_State *L, int index) {
    script *s = host_running(L, "tf.rank_files");
    rank_files_object *f = the_files(L, index);
    if (f->done) return;
    tf_error err = {0};
    lua_getiuservalue(L, index, 1);
    plan_object *plan = bind_object(L, -1, PLAN);
    text_clear(&f->text); /* of an attempt that failed */
    host_try(L, tf_rank_text(plan->plan, NULL, &f->text, &f->digest, &err), &err);
    f->done = true;
    report_made made = {.kind = "rank-files",
                        .name = f->label.name,
                        .pack = tf_pack_name(pack_of(L, lua_gettop(L))->pack),
                        .world = plan->split.world,
                        .rank = plan->split.rank,
                        .digest = f->digest};
    lua_pop(L, 1);
    host_try(L, report_tell_made(&s->report, &made, &err), &err);
}

static int files_gc(lua_State *L) {
    text_free(&the_files(L, 1)->text);
    return 0;
}

static int files_text(lua_State *L) {
    compute_files(L, 1);
    lua_pushstring(L, text_str(&the_files(L, 1)->text));
    return 1;
}

static int files_digest(lua_State *L) {
    compute_files(L, 1);
    lua_engine_push_digest(L, the_files(L, 1)->digest);
    return 1;
}

static int files_name(lua_State *L) {
    lua_pushstring(L, the_files(L, 1)->label.name);
    return 1;
}

static int files_plan(lua_State *L) {
    the_files(L, 1);
    lua_getiuservalue(L, 1, 1);
    return 1;
}

/* ---- listings ------------------------------------------------------------------------------- */

static listing_object *the_listing(lua_State *L) {
    return bind_object(L, 1, LISTING);
}

static int listing_gc(lua_State *L) {
    text_free(&the_listing(L)->text);
    return 0;
}

int lua_calls_needs(lua_State *L) {
    host_running(L, "tf.needs");
    tf_error err = {0};
    plan_object named = {0};
    tf_split split;
    pack_object *pack = lua_engine_case(L, 1, "tf.needs", &split);
    listing_object *l = bind_new(L, LISTING, sizeof *l);
    host_try(L, tf_needs(pack->pack, &split, false, &l->text, &err), &err);
    host_try(L, text_done(&l->text, &err), &err);
    lua_engine_name_case(pack, &split, &named);
    snprintf(l->label.name, sizeof l->label.name, "%.240s", named.base);
    /* Needs are of all ranks together. */
    char *rank = strrchr(l->label.name, '/');
    if (rank != NULL) snprintf(rank, sizeof "/needs", "/needs");
    snprintf(l->label.what, sizeof l->label.what, "kernel variants of %.64s, world %u",
             tf_pack_name(pack->pack), split.world);
    snprintf(l->label.made_by, sizeof l->label.made_by, "tfverify needs --pack %.1024s --world %u",
             pack->asked, split.world);
    return 1;
}

int lua_calls_admission(lua_State *L) {
    host_running(L, "tf.admission");
    tf_error err = {0};
    listing_object *l = bind_new(L, LISTING, sizeof *l);
    tf_admission_describe(false, &l->text);
    host_try(L, text_done(&l->text, &err), &err);
    snprintf(l->label.name, sizeof l->label.name, "admission");
    snprintf(l->label.what, sizeof l->label.what, "which operation is open at which world");
    snprintf(l->label.made_by, sizeof l->label.made_by, "tfverify admission");
    return 1;
}

static int listing_text(lua_State *L) {
    const listing_object *l = the_listing(L);
    lua_pushlstring(L, text_str(&l->text), l->text.length);
    return 1;
}

static int listing_digest(lua_State *L) {
    const listing_object *l = the_listing(L);
    lua_engine_push_digest(L, digest_bytes(text_str(&l->text), l->text.length));
    return 1;
}

static int listing_name(lua_State *L) {
    lua_pushstring(L, the_listing(L)->label.name);
    return 1;
}

/* ---- as subjects of pins -------------------------------------------------------------------- */

static pin_subject subject_of(const object_label *label, const char *text, size_t bytes) {
    return (pin_subject){.name = label->name,
                         .what = label->what,
                         .made_by = label->made_by,
                         .text = text,
                         .bytes = bytes};
}

bool lua_calls_subject(lua_State *L, int index, pin_subject *out) {
    calls_object *c = luaL_testudata(L, index, CALLS);
    const listing_object *l = luaL_testudata(L, index, LISTING);
    rank_files_object *f = luaL_testudata(L, index, RANK_FILES);
    if (c != NULL) {
        const char *text = tf_calls_text(c->calls);
        *out = subject_of(&c->label, text, strlen(text));
        if (out->bytes > PIN_WHOLE_BYTES) make_spans(text, out->bytes, c->calls, &c->spans);
        out->spans = c->spans.spans;
        out->span_count = c->spans.count;
    }
    if (l != NULL) *out = subject_of(&l->label, text_str(&l->text), l->text.length);
    if (f != NULL) {
        compute_files(L, index);
        *out = subject_of(&f->label, text_str(&f->text), f->text.length);
    }
    return c != NULL || l != NULL || f != NULL;
}

const object_label *lua_calls_label(lua_State *L, int index) {
    const calls_object *c = luaL_testudata(L, index, CALLS);
    const listing_object *l = luaL_testudata(L, index, LISTING);
    const rank_files_object *f = luaL_testudata(L, index, RANK_FILES);
    return c != NULL ? &c->label : l != NULL ? &l->label : f != NULL ? &f->label : NULL;
}

/* ---- tables --------------------------------------------------------------------------------- */

static const binding calls_rows[] = {
    {BIND_META, "__gc", calls_gc, NULL, NULL},
    {BIND_META, "__tostring", calls_name, NULL, NULL},
    {BIND_FIELD, "name", calls_name, "calls.name", "flash/w3/r2/decode, the name of its pin"},
    {BIND_FIELD, "text", calls_text, "calls.text", "one call a line"},
    {BIND_FIELD, "digest", calls_digest, "calls.digest", "32 hex digits over the text"},
    {BIND_FIELD, "count", calls_count, "calls.count", "how many calls"},
    {BIND_FIELD, "phase", calls_phase, "calls.phase", "decode, prefill, draft or prefetch"},
    {BIND_FIELD, "plan", calls_plan, "calls.plan", "the plan they were emitted from"},
    {BIND_FIELD, "buffers", calls_buffers, "calls.buffers",
     "buffer roles with sizes and lifetimes, and the peak, as text"},
    {BIND_FUNCTION, "each", calls_each, "for call in calls:each() do",
     "every call with its ordinal, layer (\"L8\", \"top\"), kind, name and line"},
};
static const binding files_rows[] = {
    {BIND_META, "__gc", files_gc, NULL, NULL},
    {BIND_META, "__tostring", files_name, NULL, NULL},
    {BIND_FIELD, "name", files_name, "files.name", "flash/w3/r2/rank-files, the name of its pin"},
    {BIND_FIELD, "text", files_text, "files.text",
     "what a pin holds: per file its name, length and digest"},
    {BIND_FIELD, "digest", files_digest, "files.digest",
     "the rank-file digest; the pack is read when it is first asked for"},
    {BIND_FIELD, "plan", files_plan, "files.plan", "the plan they follow"},
};
static const binding listing_rows[] = {
    {BIND_META, "__gc", listing_gc, NULL, NULL},
    {BIND_META, "__tostring", listing_name, NULL, NULL},
    {BIND_FIELD, "name", listing_name, "listing.name", "the name of its pin"},
    {BIND_FIELD, "text", listing_text, "listing.text", "as the command line prints it"},
    {BIND_FIELD, "digest", listing_digest, "listing.digest", "32 hex digits over the text"},
};

#define ROWS(a) (a), sizeof(a) / sizeof((a)[0])
const bind_group lua_calls_groups[] = {
    {CALLS, NULL, "Calls (from tf.emit)", ROWS(calls_rows)},
    {RANK_FILES, NULL, "Rank files (from tf.rank_files)", ROWS(files_rows)},
    {LISTING, NULL, "Listings (from tf.needs, tf.admission)", ROWS(listing_rows)},
};
const size_t lua_calls_group_count = sizeof lua_calls_groups / sizeof lua_calls_groups[0];
