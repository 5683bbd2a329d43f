/* lua/lua_model - tf.forward: a prompt through a model, as a text that can be pinned.
 *
 * Idea: a script says how the model is cut and run; the text it gets back holds what may not depend
 * on any of that. */
#include "engine/base/arena.h"
#include "harness/lua/lua_objects.h"

#include <lauxlib.h>
#include <stdio.h>
#include <string.h>

#define USE "tf.forward"

typedef struct request {
    tf_split split;
    tf_model_options options;
    tf_prompt prompt;
    lua_Integer tokens, chunk;
    const char *profile;
    const char *name;
} request;

static const char *const keys[] = {"pack",    "world", "rank",        "weights", "ids",
                                   "tokens",  "chunk", "threads",     "isa",     "ranks",
                                   "profile", "delay", "temperature", "seed",    "name"};

/* Pushes a userdata with the ids: Lua owns. */
static void read_ids(lua_State *L, int index, tf_prompt *out) {
    if (bind_raw_field(L, index, "ids") != LUA_TTABLE)
        luaL_error(L, USE ": ids must be a list of numbers");
    lua_Integer count = luaL_len(L, -1);
    if (count < 1 || count > 65536)
        luaL_error(L, USE ": found %I ids, expected 1 to 65536", (LUAI_UACINT)count);
    int32_t *ids = lua_newuserdatauv(L, (size_t)count * sizeof *ids, 0);
    for (lua_Integer i = 0; i < count; i++) {
        lua_geti(L, -2, i + 1);
        lua_Integer id = luaL_checkinteger(L, -1);
        if (id < 0 || id > INT32_MAX) luaL_error(L, USE ": ids: found %I", (LUAI_UACINT)id);
        ids[i] = (int32_t)id;
        lua_pop(L, 1);
    }
    out->ids = ids;
    out->count = (uint32_t)count;
}

static void read_profile(lua_State *L, request *r) {
    r->profile = "f32";
    bind_get_string(L, 1, "profile", &r->profile);
    if (strcmp(r->profile, "bf16") == 0) {
        r->options.profile = TF_PROFILE_BF16;
    } else if (strcmp(r->profile, "f32") != 0) {
        luaL_error(L, USE ": profile: found %s, expected f32 or bf16", r->profile);
    }
}

static void read_request(lua_State *L, request *r) {
    lua_Integer threads = 0;
    lua_Integer delay = 0;
    lua_Integer seed = 0;
    r->tokens = 1;
    luaL_checktype(L, 1, LUA_TTABLE);
    bind_check_keys(L, 1, USE, keys, sizeof keys / sizeof keys[0]);
    bind_get_number(L, 1, "tokens", 1, 65536, &r->tokens);
    bind_get_number(L, 1, "chunk", 1, 65536, &r->chunk);
    bind_get_number(L, 1, "threads", 1, 1024, &threads);
    bind_get_number(L, 1, "delay", 0, 1000000, &delay);
    bind_get_number(L, 1, "seed", INT64_MIN, INT64_MAX, &seed);
    bind_get_string(L, 1, "isa", &r->options.isa);
    bind_get_string(L, 1, "ranks", &r->options.ranks);
    if (!bind_get_string(L, 1, "name", &r->name)) r->name = "forward";
    if (bind_raw_field(L, 1, "temperature") != LUA_TNIL)
        r->prompt.temperature = luaL_checknumber(L, -1);
    lua_pop(L, 1);
    read_profile(L, r);
    r->prompt.seed = seed;
    r->options.threads = (uint32_t)threads;
    r->options.delay_us = (uint32_t)delay;
    read_ids(L, 1, &r->prompt);
    /* A state as small as the request, so that many models open quickly. */
    r->options.context = (uint64_t)r->prompt.count + (uint64_t)r->tokens + 8;
    r->options.rows = r->chunk > 0 ? (uint32_t)r->chunk : r->prompt.count;
}

static tf_status run(const request *r, const tf_pack *pack, tf_text *out, tf_error *err) {
    tf_model *model = NULL;
    tf_status status = tf_model_open(pack, &r->split, &r->options, &model, err);
    if (status == TF_OK)
        status =
            tf_forward_text(model, &r->prompt, (uint32_t)r->tokens, (uint32_t)r->chunk, out, err);
    tf_model_close(model);
    return status;
}

int lua_model_forward(lua_State *L) {
    script *s = host_running(L, USE);
    request r = {0};
    tf_error err = {0};
    read_request(L, &r);
    pack_object *pack = lua_engine_split(L, 1, USE, &r.split);
    r.options.cache_dir = s->cache_dir;
    listing_object *out = bind_new(L, LISTING, sizeof *out);
    snprintf(out->label.name, sizeof out->label.name, "%s/%s-%s", tf_pack_name(pack->pack), r.name,
             r.profile);
    snprintf(out->label.what, sizeof out->label.what, "%s of %s, profile %s, at every world",
             r.name, pack->asked, r.profile);
    snprintf(out->label.made_by, sizeof out->label.made_by, "tfverify run forward");
    host_try(L, run(&r, pack->pack, &out->text, &err), &err);
    return 1;
}

int lua_model_isas(lua_State *L) {
    lua_newtable(L);
    const char *const *names = tf_model_isas();
    for (lua_Integer i = 0; names[i] != NULL; i++) {
        lua_pushstring(L, names[i]);
        lua_seti(L, -2, i + 1);
    }
    return 1;
}
