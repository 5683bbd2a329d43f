/* lua/host - what the rooms that bind things to Lua share: the script, its run, its failures.
 *
 * Idea: a binding finds everything from its lua_State; nothing is global.
 * Trap: raising jumps.  What a binding holds must belong to a Lua object, to the script's scratch
 * text, or be freed before it raises. */
#ifndef TF_HARNESS_LUA_HOST_H
#define TF_HARNESS_LUA_HOST_H

#include "engine/base/arena.h"
#include "harness/lua/bind.h"
#include "harness/lua/report.h"
#include "harness/lua/sandbox.h"
#include "harness/lua/script.h"

struct script {
    sandbox box;
    tf_arena arena; /* texts of entries and options */
    const char *root;
    const char *cache_dir;
    char file_name[256]; /* "scripts.lua" */
    script_entry *entries;
    int *tests; /* [entry_count]: registry references of {test function, standard arguments} */
    size_t entry_count;
    const char *build, *tool;
    const char *unfinished; /* a run whose table has not come yet */
    tf_text scratch;        /* for bindings: cleared by whoever uses it */
    /* While a run is carried out; else NULL. */
    const script_job *job;
    pin_book *pins;
    report report;
    bool error_told; /* the error that ends the run is a point already */
    bool partial;    /* something was skipped, cut short, or asked for by an argument */
};

/* The script; raises when a limit is met. */
script *host_script(lua_State *L);
/* The same, and raises "tf.x exists only while a run does" when none does. */
script *host_running(lua_State *L, const char *use);
/* Raises when status is not TF_OK. */
void host_try(lua_State *L, tf_status status, const tf_error *err);
/* "scripts.lua:12" of the script's line that called the binding; "" when there is none. */
const char *host_place(lua_State *L, char place[300]);
/* A failure as an error point of the open case. */
tf_status host_add_error(script *s, const char *name, const tf_error *failure, tf_error *err);

#endif
