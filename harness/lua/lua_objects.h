/* lua/lua_objects - what lies inside the engine's objects; for the rooms that make them.
 *
 * Idea: every object knows the name, the one-line description and the command line of its pin.
 * Trap: an object is zeroed before it is filled, so its finalizer meets it at any stage. */
#ifndef TF_HARNESS_LUA_LUA_OBJECTS_H
#define TF_HARNESS_LUA_LUA_OBJECTS_H

#include "engine/tf.h"
#include "harness/lua/host.h"
#include "harness/pins/pins.h"

#define PACK       "tf.pack"
#define PLAN       "tf.plan"
#define CALLS      "tf.calls"
#define RANK_FILES "tf.rank_files"
#define LISTING    "tf.listing"

enum {
    OBJECT_NAME_BYTES = 256,
    OBJECT_SPAN_NAME = 24,
    OBJECT_LINE_BYTES = TF_PATH_BYTES_MAX + 256
};

typedef struct object_label {
    char name[OBJECT_NAME_BYTES];    /* flash/w3/r2/plan */
    char what[OBJECT_LINE_BYTES];    /* plan of flash, world 3, rank 2 */
    char made_by[OBJECT_LINE_BYTES]; /* tfverify plan --pack flash --world 3 --rank 2 */
} object_label;

typedef struct pack_object {
    tf_pack *pack;
    char asked[TF_PATH_BYTES_MAX]; /* as the script named it: what --pack takes */
} pack_object;

/* Parts of a long text, made when it is pinned. */
typedef struct object_spans {
    pin_span *spans; /* heap */
    char (*names)[OBJECT_SPAN_NAME];
    size_t count;
    char latest[OBJECT_SPAN_NAME]; /* as it was named before it was told apart */
} object_spans;

/* Its user value is the pack object. */
typedef struct plan_object {
    tf_plan *plan;
    tf_split split;
    char base[OBJECT_NAME_BYTES];  /* flash/w3/r2: what its calls' names begin with */
    char flags[OBJECT_LINE_BYTES]; /* --pack flash --world 3 --rank 2 */
    char where[OBJECT_LINE_BYTES]; /* flash, world 3, rank 2 */
    object_label label;
    object_spans spans;
} plan_object;

/* Its user value is the plan object. */
typedef struct calls_object {
    tf_calls *calls;
    tf_emit_request request;
    object_label label;
    object_spans spans;
} calls_object;

/* Its user value is the plan object. */
typedef struct rank_files_object {
    bool done; /* the digest is computed when it is asked for */
    tf_digest digest;
    object_label label;
    tf_text text;
} rank_files_object;

/* Any other text the engine prints. */
typedef struct listing_object {
    tf_text text;
    object_label label;
} listing_object;

extern const bind_group lua_calls_groups[];
extern const size_t lua_calls_group_count;
/* tf.emit, tf.rank_files, tf.needs, tf.admission. */
int lua_calls_emit(lua_State *L);
int lua_calls_rank_files(lua_State *L);
int lua_calls_needs(lua_State *L);
int lua_calls_admission(lua_State *L);
/* tf.forward and tf.isas; of lua_model. */
int lua_model_forward(lua_State *L);
int lua_model_isas(lua_State *L);
/* The subject of an object of lua_calls; false when index holds none. */
bool lua_calls_subject(lua_State *L, int index, pin_subject *out);
const object_label *lua_calls_label(lua_State *L, int index);

/* Reads {pack=, world=, rank=, weights=} and pushes the pack. */
pack_object *lua_engine_case(lua_State *L, int index, const char *use, tf_split *split);
/* The same of a table that may have other keys too. */
pack_object *lua_engine_split(lua_State *L, int index, const char *use, tf_split *split);
/* Pushes the script's scratch text; raises when it broke. */
int lua_engine_push_scratch(lua_State *L, script *s);
void lua_engine_push_digest(lua_State *L, tf_digest digest);
/* flash/w3/r2; --pack ...; flash, world 3, rank 2. */
void lua_engine_name_case(const pack_object *pack, const tf_split *split, plan_object *out);
/* The text up to `end` belongs to the part `name`; begins one when it is another than before.  False,
 * and none left, when they are too many. */
bool lua_engine_span(object_spans *spans, const char *name, size_t end);
void lua_engine_spans_free(object_spans *spans);

#endif
