/* cli/subject - the pack and the split that --pack, --world, --rank and --weights name.
 *
 * Idea: every command that works on a pack opens it here, so the same mistake gets the same answer.
 * Trap: what the numbers may be is the engine's to say; only their absence is ours. */
#ifndef TF_HARNESS_CLI_SUBJECT_H
#define TF_HARNESS_CLI_SUBJECT_H

#include "engine/tf.h"
#include "harness/cli/args.h"

/* Zero it; subject_close afterwards. */
typedef struct subject {
    tf_pack *pack;
    tf_split split;
} subject;

/* Asks admission for the operation (NULL: one of no world) before it opens the pack. */
tf_status subject_open(const session *s, const args *a, const char *operation, subject *out,
                       tf_error *err);
void subject_close(subject *on);
/* The split alone. */
tf_status subject_split(const args *a, tf_split *split, tf_error *err);
/* With more than one rank, --rank must be given. */
tf_status subject_need_rank(const args *a, tf_error *err);

#endif
