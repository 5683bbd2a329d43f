/* pack/cache - built-in packs, made once and checked on every use.
 *
 * Idea: a cached pack lives in `<name>-<8 digits of the digest of its recipe>`, so a program with
 * another recipe never meets it; every byte is digested again on every use.
 * Trap: a damaged pack is refused, not quietly made anew: a disk that changes bytes is news. */
#ifndef TF_ENGINE_PACK_CACHE_H
#define TF_ENGINE_PACK_CACHE_H

#include "engine/base/limits.h"
#include "engine/base/status.h"

/* Makes the pack when it is not there; two processes at once both succeed with one pack.  Writes its
 * folder, to be opened with pack_open.  Fails with unknown-builtin, folder-damaged (the remedy names
 * the folder to remove), or as synth_make does. */
tf_status cache_builtin(const char *name, const char *cache_dir, char dir[TF_PATH_BYTES_MAX],
                        tf_error *err);

#endif
