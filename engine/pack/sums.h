/* pack/sums - a list of a folder's files with size and digest, checked by reading every byte.
 *
 * Idea: `digests.txt` beside the files says what they were when written; no time, inode or size is
 * trusted, since a replacement may keep all three.
 * Trap: a file too many is as wrong as one too few: a reader of the folder might pick it up. */
#ifndef TF_ENGINE_PACK_SUMS_H
#define TF_ENGINE_PACK_SUMS_H

#include "engine/base/status.h"

#define SUMS_FILE "digests.txt"

/* Lists every file in dir but the list itself. */
tf_status sums_write(const char *dir, tf_error *err);
/* Fails with folder-damaged, naming the first file that differs. */
tf_status sums_check(const char *dir, tf_error *err);

#endif
