/* cli/commands - what a user can type, a table a file.
 *
 * Idea: a command is a row with its help and its function; main joins the tables.
 * Trap: only what works stands here. */
#ifndef TF_HARNESS_CLI_COMMANDS_H
#define TF_HARNESS_CLI_COMMANDS_H

#include "harness/cli/args.h"

/* Each ends with a row whose name is NULL. */
extern const command engine_commands[]; /* plan, emit, needs, calls-check, admission */
extern const command pack_commands[];   /* pack ..., rank ... */
extern const command prove_commands[];  /* run, pins ... */
extern const command model_commands[];  /* generate, diverge */
extern const command store_commands[];  /* db ... */
extern const command doctor_commands[]; /* doctor */

#endif
