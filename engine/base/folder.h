/* base/folder - a directory that appears whole or not at all.
 *
 * Idea: files are written into a sibling `<path>.tmp-<pid>-<n>`, which takes its name in one rename.
 * What a killed process left is removed by the next one that writes the same path.
 * Trap: two processes may race for one path; the rename decides, and the loser gets folder-exists
 * with nothing of its own left. */
#ifndef TF_ENGINE_BASE_FOLDER_H
#define TF_ENGINE_BASE_FOLDER_H

#include "engine/base/limits.h"
#include "engine/base/status.h"

#include <stdbool.h>

typedef struct folder_writer {
    bool open;
    char path[TF_PATH_BYTES_MAX];           /* final name, without trailing slashes */
    char temporary[TF_PATH_BYTES_MAX + 48]; /* write into this one */
} folder_writer;

/* Refuses (folder-exists) a path that is there, unless it is an empty directory; makes parents. */
tf_status folder_create(folder_writer *w, const char *path, tf_error *err);
tf_status folder_commit(folder_writer *w, tf_error *err);
/* Removes what was written; after folder_commit it does nothing: call it always on the way out. */
void folder_discard(folder_writer *w);

#endif
