#include "harness/lua/lua_engine.h"

#include "engine/base/arena.h"
#include "harness/lua/lua_objects.h"
#include "harness/pins/pinfile.h"

#include <lauxlib.h>
#include <stdio.h>
#include <string.h>

void lua_engine_push_digest(lua_State *L, tf_digest digest) {
    char hex[DIGEST_HEX];
    lua_pushstring(L, digest_hex(digest, hex));
}

/* ---- packs ---------------------------------------------------------------------------------- */

static int pack_gc(lua_State *L) {
    pack_object *p = bind_object(L, 1, PACK);
    tf_pack_close(p->pack);
    p->pack = NULL;
    return 0;
}

/* Pushes the pack of that directory or built-in name; one object for all who ask. */
static pack_object *push_pack(lua_State *L, const char *asked) {
    script *s = host_running(L, "tf.pack");
    tf_error err = {0};
    luaL_getsubtable(L, LUA_REGISTRYINDEX, "tf.packs");
    if (lua_getfield(L, -1, asked) != LUA_TNIL) {
        lua_remove(L, -2);
        return bind_object(L, -1, PACK);
    }
    lua_pop(L, 1);
    pack_object *p = bind_new(L, PACK, sizeof *p);
    int n = snprintf(p->asked, sizeof p->asked, "%s", asked);
    if (n < 0 || (size_t)n >= sizeof p->asked) luaL_error(L, "the pack's path is too long");
    host_try(L, tf_pack_open(asked, s->cache_dir, &p->pack, &err), &err);
    lua_pushvalue(L, -1);
    lua_setfield(L, -3, asked);
    lua_remove(L, -2);
    return p;
}

/* Pushes the pack a value names: an object of ours, or a text. */
static pack_object *push_pack_value(lua_State *L, int index) {
    if (lua_type(L, index) == LUA_TUSERDATA) {
        lua_pushvalue(L, index);
        return bind_object(L, -1, PACK);
    }
    return push_pack(L, luaL_checkstring(L, index));
}

static int tf_pack_call(lua_State *L) {
    push_pack(L, luaL_checkstring(L, 1));
    return 1;
}

static int pack_name(lua_State *L) {
    lua_pushstring(L, tf_pack_name(((pack_object *)bind_object(L, 1, PACK))->pack));
    return 1;
}

static int pack_dir(lua_State *L) {
    lua_pushstring(L, tf_pack_dir(((pack_object *)bind_object(L, 1, PACK))->pack));
    return 1;
}

static int pack_data(lua_State *L) {
    lua_pushboolean(L, tf_pack_has_data(((pack_object *)bind_object(L, 1, PACK))->pack));
    return 1;
}

static int pack_layers(lua_State *L) {
    lua_pushinteger(L, tf_pack_layers(((pack_object *)bind_object(L, 1, PACK))->pack));
    return 1;
}

static int pack_digest(lua_State *L) {
    lua_engine_push_digest(L, tf_pack_digest(((pack_object *)bind_object(L, 1, PACK))->pack));
    return 1;
}

static int pack_content_digest(lua_State *L) {
    pack_object *p = bind_object(L, 1, PACK);
    tf_error err = {0};
    tf_digest digest;
    host_try(L, tf_pack_content_digest(p->pack, &digest, &err), &err);
    lua_engine_push_digest(L, digest);
    return 1;
}

int lua_engine_push_scratch(lua_State *L, script *s) {
    tf_error err = {0};
    host_try(L, text_done(&s->scratch, &err), &err);
    lua_pushlstring(L, text_str(&s->scratch), s->scratch.length);
    return 1;
}

static int pack_text(lua_State *L) {
    script *s = host_script(L);
    text_clear(&s->scratch);
    tf_pack_describe(((pack_object *)bind_object(L, 1, PACK))->pack, false, &s->scratch);
    return lua_engine_push_scratch(L, s);
}

/* ---- plans ---------------------------------------------------------------------------------- */

static int plan_gc(lua_State *L) {
    plan_object *p = bind_object(L, 1, PLAN);
    tf_plan_close(p->plan);
    lua_engine_spans_free(&p->spans);
    p->plan = NULL;
    return 0;
}

static void read_weights(lua_State *L, int index, tf_split *split) {
    if (bind_raw_field(L, index, "weights") == LUA_TNIL) {
        lua_pop(L, 1);
        return;
    }
    luaL_checktype(L, -1, LUA_TTABLE);
    if (luaL_len(L, -1) != (lua_Integer)split->world)
        luaL_error(L, "weights: found %I of them, expected one a rank (%I)",
                   (LUAI_UACINT)luaL_len(L, -1), (LUAI_UACINT)split->world);
    for (uint32_t r = 0; r < split->world; r++) {
        lua_geti(L, -1, (lua_Integer)r + 1);
        lua_Integer weight = luaL_checkinteger(L, -1);
        if (weight < 0) luaL_error(L, "weights: found a negative one");
        split->weights[r] = (uint64_t)weight;
        lua_pop(L, 1);
    }
    split->has_weights = true;
    lua_pop(L, 1);
}

pack_object *lua_engine_split(lua_State *L, int index, const char *use, tf_split *split) {
    lua_Integer world = 1, rank = 0;
    bind_get_number(L, index, "world", 0, UINT32_MAX, &world);
    bind_get_number(L, index, "rank", 0, UINT32_MAX, &rank);
    *split = (tf_split){.world = (uint32_t)world, .rank = (uint32_t)rank};
    if (world <= TF_WORLD_MAX) read_weights(L, index, split);
    tf_error err = {0};
    host_try(L, tf_admit("plan", split->world, &err), &err);
    if (bind_raw_field(L, index, "pack") == LUA_TNIL) luaL_error(L, "%s: no pack is named", use);
    pack_object *p = push_pack_value(L, lua_gettop(L));
    lua_remove(L, -2);
    return p;
}

pack_object *lua_engine_case(lua_State *L, int index, const char *use, tf_split *split) {
    static const char *const keys[] = {"pack", "world", "rank", "weights", "name"};
    luaL_checktype(L, index, LUA_TTABLE);
    bind_check_keys(L, index, use, keys, sizeof keys / sizeof keys[0]);
    return lua_engine_split(L, index, use, split);
}

/* "-2.1.1" and "-2,1,1"; empty for equal machines. */
static void print_weights(const tf_split *split, char separator, char *to, size_t size) {
    size_t used = 0;
    to[0] = '\0';
    for (uint32_t r = 0; split->has_weights && r < split->world && used < size; r++) {
        int n = snprintf(to + used, size - used, "%c%llu", r == 0 ? '-' : separator,
                         (unsigned long long)split->weights[r]);
        used += n < 0 ? 0 : (size_t)n;
    }
}

void lua_engine_name_case(const pack_object *pack, const tf_split *split, plan_object *out) {
    char weights[128], flag[128];
    const char *name = tf_pack_name(pack->pack);
    print_weights(split, '.', weights, sizeof weights);
    print_weights(split, ',', flag, sizeof flag);
    const char *listed = flag[0] == '\0' ? "" : flag + 1;
    snprintf(out->base, sizeof out->base, "%.64s/w%u%s/r%u", name, split->world, weights,
             split->rank);
    snprintf(out->where, sizeof out->where, "%s, world %u%s%s, rank %u", name, split->world,
             flag[0] == '\0' ? "" : ", weights ", listed, split->rank);
    snprintf(out->flags, sizeof out->flags, "--pack %s --world %u --rank %u%s%s", pack->asked,
             split->world, split->rank, flag[0] == '\0' ? "" : " --weights ", listed);
}

static void name_plan(plan_object *p, const pack_object *pack) {
    lua_engine_name_case(pack, &p->split, p);
    snprintf(p->label.name, sizeof p->label.name, "%.248s/plan", p->base);
    snprintf(p->label.what, sizeof p->label.what, "plan of %.1260s", p->where);
    snprintf(p->label.made_by, sizeof p->label.made_by, "tfverify plan %.1260s", p->flags);
}

static int tf_plan_call(lua_State *L) {
    script *s = host_running(L, "tf.plan");
    tf_error err = {0};
    tf_split split;
    pack_object *pack = lua_engine_case(L, 1, "tf.plan", &split);
    plan_object *p = bind_new(L, PLAN, sizeof *p);
    lua_pushvalue(L, -2);
    lua_setiuservalue(L, -2, 1);
    p->split = split;
    host_try(L, tf_plan_make(pack->pack, &split, &p->plan, &err), &err);
    name_plan(p, pack);
    report_made made = {.kind = "plan",
                        .name = p->label.name,
                        .pack = tf_pack_name(pack->pack),
                        .world = split.world,
                        .rank = split.rank,
                        .digest = tf_plan_fingerprint(p->plan),
                        .bytes = strlen(tf_plan_text(p->plan)),
                        .plan = p->plan};
    host_try(L, report_tell_made(&s->report, &made, &err), &err);
    return 1;
}

static plan_object *the_plan(lua_State *L) {
    return bind_object(L, 1, PLAN);
}

static int plan_text(lua_State *L) {
    lua_pushstring(L, tf_plan_text(the_plan(L)->plan));
    return 1;
}

static int plan_digest(lua_State *L) {
    lua_engine_push_digest(L, tf_plan_fingerprint(the_plan(L)->plan));
    return 1;
}

static int plan_name(lua_State *L) {
    lua_pushstring(L, the_plan(L)->label.name);
    return 1;
}

static int plan_pack(lua_State *L) {
    lua_getiuservalue(L, 1, 1);
    return 1;
}

/* One getter for every number of the facts, told apart by name. */
static tf_plan_facts facts_of(lua_State *L) {
    tf_plan_facts facts;
    tf_plan_facts_of(the_plan(L)->plan, &facts);
    return facts;
}

static int plan_world(lua_State *L) {
    lua_pushinteger(L, the_plan(L)->split.world);
    return 1;
}

static int plan_rank(lua_State *L) {
    lua_pushinteger(L, the_plan(L)->split.rank);
    return 1;
}

static int plan_heads(lua_State *L) {
    lua_pushinteger(L, facts_of(L).heads);
    return 1;
}

static int plan_first_head(lua_State *L) {
    lua_pushinteger(L, facts_of(L).first_head);
    return 1;
}

static int plan_expert_width(lua_State *L) {
    lua_pushinteger(L, facts_of(L).expert_width);
    return 1;
}

static int plan_vocab(lua_State *L) {
    lua_pushinteger(L, facts_of(L).vocab);
    return 1;
}

static int plan_first_vocab(lua_State *L) {
    lua_pushinteger(L, facts_of(L).first_vocab);
    return 1;
}

static int plan_items(lua_State *L) {
    lua_pushinteger(L, facts_of(L).items);
    return 1;
}

static int plan_bytes(lua_State *L) {
    lua_pushinteger(L, (lua_Integer)facts_of(L).bytes);
    return 1;
}

static int plan_shares(lua_State *L) {
    tf_plan_facts facts = facts_of(L);
    lua_newtable(L);
    for (uint32_t u = 0; u < TF_UNITS; u++) {
        lua_newtable(L);
        lua_pushinteger(L, facts.units[u].begin);
        lua_setfield(L, -2, "first");
        lua_pushinteger(L, facts.units[u].total);
        lua_setfield(L, -2, "total");
        lua_pushinteger(L, facts.units[u].end - facts.units[u].begin);
        lua_setfield(L, -2, "count");
        lua_setfield(L, -2, tf_unit_name(u));
    }
    return 1;
}

static int plan_categories(lua_State *L) {
    tf_plan_facts facts = facts_of(L);
    lua_newtable(L);
    for (uint32_t c = 0; c < tf_category_count() && c < TF_CATEGORIES; c++) {
        lua_pushinteger(L, (lua_Integer)facts.category_bytes[c]);
        lua_setfield(L, -2, tf_category_name(c));
    }
    return 1;
}

/* ---- parts of a plan text ------------------------------------------------------------------- */

void lua_engine_spans_free(object_spans *spans) {
    mem_free(spans->spans);
    mem_free(spans->names);
    *spans = (object_spans){0};
}

/* "layers.8" or "mtp.0" of a line that plans a tensor of that layer, else "top". */
static void layer_of_line(const char *line, size_t bytes, char *to, size_t size) {
    static const char *const stems[] = {"layers.", "mtp."};
    snprintf(to, size, "top");
    for (const char *at = line; at != NULL; at = memchr(at, ' ', bytes - (size_t)(at - line))) {
        at += *at == ' ';
        for (size_t i = 0; i < 2; i++) {
            size_t n = strlen(stems[i]);
            size_t left = bytes - (size_t)(at - line);
            if (left <= n || memcmp(at, stems[i], n) != 0) continue;
            size_t digits = 0;
            while (digits < left - n && at[n + digits] >= '0' && at[n + digits] <= '9')
                digits++;
            if (digits > 0 && digits < 8) snprintf(to, size, "%.*s", (int)(n + digits), at);
            return;
        }
    }
}

/* Runs of one layer; text that goes to and fro more often is not laid out by layer. */
#define SPAN_VISITS_MAX 32

/* A layer that comes back, as the top does after all others, gets a name of its own. */
static bool name_apart(const object_spans *spans, const char *name, char *to) {
    snprintf(to, OBJECT_SPAN_NAME, "%s", name);
    for (unsigned visit = 2; visit < SPAN_VISITS_MAX; visit++) {
        bool taken = false;
        for (size_t i = 0; i < spans->count && !taken; i++)
            taken = strcmp(spans->names[i], to) == 0;
        if (!taken) return true;
        snprintf(to, OBJECT_SPAN_NAME, "%.12s-%u", name, visit);
    }
    return false;
}

bool lua_engine_span(object_spans *spans, const char *name, size_t end) {
    if (spans->spans == NULL) {
        spans->spans = mem_take(PIN_PARTS_MAX * sizeof *spans->spans);
        spans->names = mem_take(PIN_PARTS_MAX * sizeof *spans->names);
    }
    bool room = spans->spans != NULL && spans->names != NULL;
    if (room && (spans->count == 0 || strcmp(name, spans->latest) != 0)) {
        char *kept = spans->names[spans->count];
        room = spans->count < PIN_PARTS_MAX - 1 && name_apart(spans, name, kept);
        if (room) {
            snprintf(spans->latest, sizeof spans->latest, "%s", name);
            size_t begin = spans->count == 0 ? 0 : spans->spans[spans->count - 1].end;
            spans->spans[spans->count++] = (pin_span){kept, begin, begin};
        }
    }
    if (!room) {
        spans->count = 0;
        return false;
    }
    spans->spans[spans->count - 1].end = end;
    return true;
}

static void make_spans(const char *text, size_t bytes, object_spans *out) {
    if (out->count > 0) return;
    for (size_t at = 0; at < bytes;) {
        const char *newline = memchr(text + at, '\n', bytes - at);
        size_t end = newline == NULL ? bytes : (size_t)(newline - text) + 1;
        char name[OBJECT_SPAN_NAME];
        layer_of_line(text + at, end - at, name, sizeof name);
        if (!lua_engine_span(out, name, end)) return;
        at = end;
    }
}

/* ---- as subjects of pins -------------------------------------------------------------------- */

static const object_label *label_of(lua_State *L, int index) {
    const plan_object *p = luaL_testudata(L, index, PLAN);
    return p != NULL ? &p->label : lua_calls_label(L, index);
}

const char *lua_engine_pin_name(lua_State *L, int index) {
    const object_label *label = label_of(L, index);
    return label == NULL ? NULL : label->name;
}

void lua_engine_subject(lua_State *L, int index, pin_subject *out) {
    if (lua_calls_subject(L, index, out)) return;
    plan_object *p = bind_object(L, index, PLAN);
    const char *text = tf_plan_text(p->plan);
    *out = (pin_subject){.name = p->label.name,
                         .what = p->label.what,
                         .made_by = p->label.made_by,
                         .text = text,
                         .bytes = strlen(text)};
    if (out->bytes > PIN_WHOLE_BYTES) make_spans(text, out->bytes, &p->spans);
    out->spans = p->spans.spans;
    out->span_count = p->spans.count;
}

/* ---- tables --------------------------------------------------------------------------------- */

static const binding functions[] = {
    {BIND_FUNCTION, "pack", tf_pack_call, "tf.pack(name)",
     "a pack: a directory, or tiny-bf16, tiny-exl3, flash, which are made on first use"},
    {BIND_FUNCTION, "plan", tf_plan_call, "tf.plan{pack=, world=, rank=, weights=}",
     "who owns which bytes, for one rank; takes a case of tf.ranks as it is. weights is a list "
     "with one number a rank, for unequal machines"},
    {BIND_FUNCTION, "emit", lua_calls_emit, "tf.emit(plan, phase, {layer=, rows=, start=})",
     "the calls of a phase: decode, prefill, draft or prefetch. layer is a number or \"top\", rows "
     "the rows of a decode or the length of a prefill chunk, start its first position"},
    {BIND_FUNCTION, "rank_files", lua_calls_rank_files, "tf.rank_files(plan)",
     "the files a rank would load, by their digest; the pack must have data"},
    {BIND_FUNCTION, "needs", lua_calls_needs, "tf.needs{pack=, world=}",
     "kernel variants the ranks of a world can be asked for"},
    {BIND_FUNCTION, "admission", lua_calls_admission, "tf.admission()",
     "the table of operations and the worlds they are open at"},
    {BIND_FUNCTION, "forward", lua_model_forward,
     "tf.forward{pack=, world=, ids=, tokens=, chunk=, threads=, isa=, ranks=, profile=}",
     "a prompt and its continuation through the model: digests of all logits, tokens, token_sha. "
     "weights as in tf.plan; delay: microseconds a rank may wait before an exchange; temperature "
     "and seed choose by a draw; name begins the name of its pin"},
    {BIND_FUNCTION, "isas", lua_model_isas, "tf.isas()",
     "instruction sets that forwards can run with on this machine, the plainest first"},
};
static const binding pack_rows[] = {
    {BIND_META, "__gc", pack_gc, NULL, NULL},
    {BIND_META, "__tostring", pack_name, NULL, NULL},
    {BIND_FIELD, "name", pack_name, "pack.name", "its name"},
    {BIND_FIELD, "dir", pack_dir, "pack.dir", "where it lies"},
    {BIND_FIELD, "data", pack_data, "pack.data", "true when it has weights, not headers alone"},
    {BIND_FIELD, "layers", pack_layers, "pack.layers", "target and draft layers"},
    {BIND_FIELD, "digest", pack_digest, "pack.digest", "32 hex digits over its headers"},
    {BIND_FIELD, "content_digest", pack_content_digest, "pack.content_digest",
     "32 hex digits over all its bytes; reads them"},
    {BIND_FIELD, "text", pack_text, "pack.text", "a listing for people"},
};
static const binding plan_rows[] = {
    {BIND_META, "__gc", plan_gc, NULL, NULL},
    {BIND_META, "__tostring", plan_name, NULL, NULL},
    {BIND_FIELD, "name", plan_name, "plan.name", "flash/w3/r2/plan, the name of its pin"},
    {BIND_FIELD, "text", plan_text, "plan.text", "the canonical text: one planned item a line"},
    {BIND_FIELD, "digest", plan_digest, "plan.digest", "its fingerprint, 32 hex digits"},
    {BIND_FIELD, "pack", plan_pack, "plan.pack", "the pack it was made for"},
    {BIND_FIELD, "world", plan_world, "plan.world", "number of ranks"},
    {BIND_FIELD, "rank", plan_rank, "plan.rank", "which of them, from 0"},
    {BIND_FIELD, "heads", plan_heads, "plan.heads", "attention heads of this rank"},
    {BIND_FIELD, "first_head", plan_first_head, "plan.first_head", "the first of them"},
    {BIND_FIELD, "expert_width", plan_expert_width, "plan.expert_width",
     "this rank's part of an expert's width"},
    {BIND_FIELD, "vocab", plan_vocab, "plan.vocab", "vocabulary rows of this rank"},
    {BIND_FIELD, "first_vocab", plan_first_vocab, "plan.first_vocab", "the first of them"},
    {BIND_FIELD, "items", plan_items, "plan.items", "planned tensors"},
    {BIND_FIELD, "bytes", plan_bytes, "plan.bytes", "bytes of this rank"},
    {BIND_FIELD, "shares", plan_shares, "plan.shares[\"output groups\"]",
     "first, count and total of every unit that is split"},
    {BIND_FIELD, "categories", plan_categories, "plan.categories[\"experts\"]",
     "bytes by category"},
};

#define ROWS(a) (a), sizeof(a) / sizeof((a)[0])
const bind_group lua_engine_groups[] = {
    {NULL, "tf", "Engine", ROWS(functions)},
    {PACK, NULL, "Packs (from tf.pack, case.pack, plan.pack)", ROWS(pack_rows)},
    {PLAN, NULL, "Plans (from tf.plan)", ROWS(plan_rows)},
};
const size_t lua_engine_group_count = sizeof lua_engine_groups / sizeof lua_engine_groups[0];
