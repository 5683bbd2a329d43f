/* base/store - what every run saw, in one SQLite file that outlives it.
 *
 * Idea: a run is a row with its environment, everything else points at it; a list of calls is kept
 * once per digest, however many runs made it.  Each fact is committed when it is told, so that other
 * writers never wait long and a run that is killed leaves all it told (WAL).
 * Trap: times and places live here and only here; nothing recorded here may flow into a pin. */
#ifndef TF_HARNESS_BASE_STORE_H
#define TF_HARNESS_BASE_STORE_H

#include "engine/base/status.h"
#include "engine/base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of a store this program writes; older ones are brought up to it, newer ones are refused. */
#define STORE_VERSION 2
/* How long a writer waits for another one. */
#define STORE_WAIT_MS 10000u

typedef struct store store;

typedef enum {
    STORE_READ,  /* must exist; nothing is changed, not even its version */
    STORE_WRITE, /* made or brought up to date when need be */
} store_mode;

/* Fails with cannot-open, store-locked, store-damaged, store-newer, store-foreign, no-space. */
tf_status store_open(const char *path, store_mode mode, uint32_t wait_ms, store **out,
                     tf_error *err);
/* A run that was not ended stays without an outcome.  NULL is fine. */
void store_close(store *s);

/* ---- recording; each fails as SQLite does, by word ---- */

/* Texts may be NULL: unknown. */
typedef struct store_environment {
    const char *command; /* the command line */
    const char *script;  /* name of the run in scripts.lua */
    const char *root;    /* project */
    const char *tool;    /* version */
    const char *compiler;
    const char *revision; /* git; "" outside of it */
    bool dirty;           /* the working tree differs from it */
    uint32_t cores;
} store_environment;

typedef struct store_counts {
    uint64_t held, failed, skipped, errors;
} store_counts;

/* Begins a run; what follows belongs to it until store_end.  One run at a time. */
tf_status store_begin(store *s, const store_environment *environment, int64_t *run, tf_error *err);
tf_status store_case(store *s, const char *name, const char *outcome, const char *word,
                     const char *message, const char *place, tf_error *err);

typedef struct store_made {
    const char *kind; /* "plan", "calls", "rank-files" */
    const char *name;
    const char *pack;
    uint32_t world, rank;
    const char *digest; /* hex */
    uint64_t bytes;
} store_made;
tf_status store_add_made(store *s, const store_made *made, tf_error *err);

typedef struct store_call {
    uint32_t ordinal;
    uint32_t layer;
    const char *kind;
    const char *name;
    const char *line; /* line_bytes long, no NUL needed */
    size_t line_bytes;
} store_call;
/* Has the list of this digest been kept?  Then its rows need not come again. */
tf_status store_has_calls(store *s, const char *digest, bool *known, tf_error *err);
/* next fills row `index`. */
typedef void (*store_next_call)(void *context, size_t index, store_call *row);
tf_status store_add_calls(store *s, const char *digest, size_t count, store_next_call next,
                          void *context, tf_error *err);
tf_status store_pin(store *s, const char *name, const char *verdict, tf_error *err);
/* outcome: "held", "failed", "interrupted", ... */
tf_status store_end(store *s, const char *outcome, const store_counts *counts, tf_error *err);

/* ---- asking ---- */

/* Runs one statement that only reads; a table for a person, or an array of objects.  Wants a store
 * opened with STORE_READ. */
tf_status store_query(store *s, const char *sql, bool json, tf_text *out, tf_error *err);
/* Takes over the runs of another store that are not here yet (by their uuid). */
tf_status store_merge(store *s, const char *path, uint64_t *runs, tf_error *err);
/* Keeps the newest runs and what they point at, then gives space back. */
tf_status store_gc(store *s, uint64_t keep, uint64_t *removed, tf_error *err);
/* An empty store of an older schema, as an older program would have left it. */
tf_status store_make_old(const char *path, int version, tf_error *err);

#endif
