/* lua/sandbox - a Lua state that cannot reach the system, run for ever or eat the machine.
 *
 * Idea: memory is counted in the allocator, instructions in a hook that runs every STEP_BATCH of
 * them; what is over a limit raises an error, and goes on raising until the script is left, so that
 * no pcall swallows it.
 * Trap: a C function of the library runs no hook.  Only bindings that ask sandbox_check notice the
 * wall clock in between; finalizers run without hooks too, so scripts may set none. */
#ifndef TF_HARNESS_LUA_SANDBOX_H
#define TF_HARNESS_LUA_SANDBOX_H

#include "engine/base/status.h"
#include "engine/base/text.h"

#include <lua.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Lua's own memory; texts of engine objects lie outside until a script asks for them. */
#define SANDBOX_MEMORY_BYTES ((uint64_t)512 << 20)
/* Some ten seconds of pure Lua; a run of every pack needs a thousandth. */
#define SANDBOX_STEPS UINT64_C(2000000000)
/* Of a whole run, foreign builds included. */
#define SANDBOX_TIME_MS UINT64_C(3600000)

typedef struct sandbox_limits {
    uint64_t memory_bytes; /* 0: SANDBOX_MEMORY_BYTES */
    uint64_t steps;        /* 0: SANDBOX_STEPS */
    uint64_t time_ms;      /* 0: SANDBOX_TIME_MS */
    bool trust;            /* the whole library is open: os, io, debug, require, ... */
} sandbox_limits;

typedef enum {
    SANDBOX_FINE,
    SANDBOX_OVER_STEPS,
    SANDBOX_OVER_TIME,
    SANDBOX_OVER_MEMORY,
    SANDBOX_STOPPED, /* Ctrl-C */
} sandbox_over;

typedef struct sandbox {
    lua_State *state;
    sandbox_limits limits;
    uint64_t used_bytes;
    uint64_t steps;    /* of the current call */
    uint64_t begin_ms; /* of the current call */
    sandbox_over over;
    void *owner;          /* the script */
    char traceback[4096]; /* of the failure last met; one frame a line */
} sandbox;

/* Opens the state with the safe part of Lua's library and the prelude. */
tf_status sandbox_open(sandbox *box, const sandbox_limits *limits, void *owner, tf_error *err);
void sandbox_close(sandbox *box);
sandbox *sandbox_of(lua_State *L);

/* Runs f(argument) protected; the limits of steps and time begin anew.  `act` is for messages. */
tf_status sandbox_do(sandbox *box, lua_CFunction f, void *argument, const char *act, tf_error *err);
/* Compiles a text to a function in the registry, for sandbox_push.  Fails with script-syntax. */
tf_status sandbox_load(sandbox *box, const char *data, size_t n, const char *name, int *reference,
                       tf_error *err);

/* ---- for bindings; they do not return when they raise ---- */

/* Raises when a limit is met or the user asked to stop. */
void sandbox_check(lua_State *L);
/* Milliseconds left of the run's time, at least 1. */
uint64_t sandbox_left_ms(lua_State *L);
/* Raises a failure of the engine or of a room as an error value that keeps its word. */
int sandbox_raise(lua_State *L, const tf_error *err);
/* The message handler for a lua_pcall of a binding: keeps the traceback. */
int sandbox_on_error(lua_State *L);
/* Must the script be left, whatever it catches? */
bool sandbox_is_over(lua_State *L);
/* The failure an error value carries: its own, script-error with the message, or a limit's. */
tf_status sandbox_failure(lua_State *L, int index, const char *act, tf_error *err);

#endif
