/* lua/script - a script book: its named runs, and carrying one of them out.
 *
 * Idea: a script says what to prove; this room gives it a sandbox, its arguments, a report and the
 * pins, and turns whatever happens into one status.
 * Trap: opening a script runs its top level.  That registers runs and nothing more; engine objects
 * and commands exist only while a run does. */
#ifndef TF_HARNESS_LUA_SCRIPT_H
#define TF_HARNESS_LUA_SCRIPT_H

#include "engine/base/status.h"
#include "engine/base/text.h"
#include "harness/lua/report.h"
#include "harness/pins/pins.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct script script;

/* Borrowed until script_close. */
typedef struct script_options {
    const char *root;      /* project root; commands run there */
    const char *path;      /* the script; NULL: root/scripts.lua */
    const char *cache_dir; /* where built-in packs are made */
    bool trust;            /* the whole Lua library is open */
    uint64_t memory_bytes; /* 0: the limits of sandbox.h */
    uint64_t steps;
    uint64_t time_ms;
} script_options;

/* Reads the script and runs its top level.  Fails with cannot-open, script-syntax, script-error,
 * script-over-limit. */
tf_status script_open(const script_options *options, script **out, tf_error *err);
void script_close(script *s);

typedef struct script_argument {
    const char *name;
    const char *standard; /* the value when none is given, as text */
} script_argument;

/* Script owns. */
typedef struct script_entry {
    const char *name;
    const char *about;
    const char *place;                /* "scripts.lua:3" */
    const script_argument *arguments; /* by name */
    size_t argument_count;
} script_entry;

size_t script_count(const script *s);
const script_entry *script_at(const script *s, size_t index); /* in the script's order */
/* What tf.project{...} said; "" where it said nothing. */
const char *script_build(const script *s);
const char *script_tool(const script *s);

typedef struct script_job {
    const char *run;
    const char *const *arguments; /* KEY=VALUE */
    size_t argument_count;
    const char *pattern;  /* of pins; NULL: all */
    const char *revision; /* for captured pins; NULL: none */
    const char *command;  /* how a person calls the tool */
    bool capture;         /* differences become pending pins */
    bool accept;          /* with capture: straight into place */
    bool ci;              /* write no pin */
    report_sink sink;     /* where outcomes go */
} script_job;

typedef struct script_result {
    report_counts checks;
    pin_counts pins;
    size_t obsolete; /* pins nobody claimed; only a whole run can tell */
    bool whole;      /* every subject of the run was met */
} script_result;

/* Carries a run out.  Fails with unknown-run, unknown-argument, check-failed, nothing-checked, or with
 * what ended it early. */
tf_status script_run(script *s, const script_job *job, script_result *result, tf_error *err);

/* The reference of everything a script can use, from the tables that register it. */
void script_help(tf_text *out);

#endif
