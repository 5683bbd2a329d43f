/* model/prepared - where a rank's files lie when nobody says: made once, found again.
 *
 * Idea: the folder's name is a digest of what the bytes depend on: the plan, and every shard's name,
 * size, time and inode.  A pack that was changed in place gets another folder.
 * Trap: two processes may want the same rank's files; one writes, the other waits its turn. */
#ifndef TF_ENGINE_MODEL_PREPARED_H
#define TF_ENGINE_MODEL_PREPARED_H

#include "engine/base/limits.h"
#include "engine/plan/rankfile.h"

/* dir: the folder that holds rank<r>/ with whole files of the plan. */
tf_status prepared_folder(const tf_plan *plan, const char *cache_dir,
                          const rankfile_options *options, char dir[TF_PATH_BYTES_MAX],
                          tf_error *err);

#endif
