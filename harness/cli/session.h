/* cli/session - where this call works: the project, its store, the cache of packs.
 *
 * Idea: the environment is read here and nowhere below; the rest gets paths and flags.
 * Trap: a project is found by scripts.lua going up from the working folder, as git finds its own;
 * outside of one there is no root, and commands that need it say so. */
#ifndef TF_HARNESS_CLI_SESSION_H
#define TF_HARNESS_CLI_SESSION_H

#include "engine/base/limits.h"
#include "engine/base/status.h"
#include "harness/cli/args.h"

#include <stdbool.h>

struct session {
    char root[TF_PATH_BYTES_MAX];    /* absolute; "" outside of a project */
    char cache[TF_PATH_BYTES_MAX];   /* of built-in packs; "" when there is no place */
    char db[TF_PATH_BYTES_MAX];      /* the store; "" when neither --db nor a project says */
    char tool[TF_PATH_BYTES_MAX];    /* how this program was called, for commands to repeat */
    char program[TF_PATH_BYTES_MAX]; /* this program's file */
    char line[1024];                 /* the whole command line, cut; for the store */
    unsigned tap_version;            /* 13 below a harness that refuses 14 */
    bool ci;                         /* CI is set: pins may not be written */
};

tf_status session_begin(session *s, char *const *argv, const args *a, tf_error *err);
/* Fails with no-project outside of one. */
tf_status session_need_root(const session *s, tf_error *err);
/* Fails with usage when there is no place for a store. */
tf_status session_need_db(const session *s, tf_error *err);
/* The folder of the program `name` on PATH, or false. */
bool session_find_program(const char *name, char *path, size_t size);
/* May stderr be coloured? */
bool session_colour(void);

#endif
