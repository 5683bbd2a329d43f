/* sample/sample - packs in memory: names and shapes of the known models, bytes by formula.
 *
 * Idea: a plan needs headers only, so a pack can be a list; each byte of a tensor tells its name and
 * place, so that a part taken from the wrong place cannot look right.
 * Trap: names are kept sorted by every edit, as the real ones are. */
#ifndef TF_TESTS_SAMPLE_SAMPLE_H
#define TF_TESTS_SAMPLE_SAMPLE_H

#include "engine/pack/pack.h"

#include <stdbool.h>
#include <stdint.h>

/* A built-in model: the tiny ones by the golden list of tensors, flash by the inventory.  Aborts
 * when the list cannot be read.  Free with sample_free. */
tf_pack *sample_pack(const char *name);
void sample_free(tf_pack *pack);

/* Edits; `name` must exist for all but sample_add. */
void sample_add(tf_pack *pack, const char *name, tf_dtype dtype, uint32_t dims,
                const uint64_t *shape);
void sample_remove(tf_pack *pack, const char *name);
void sample_rename(tf_pack *pack, const char *from, const char *to);
pack_tensor *sample_find(tf_pack *pack, const char *name);
/* Makes bytes agree with dtype and shape again. */
void sample_resize(pack_tensor *tensor);

/* The tensor's bytes; caller frees with mem_free. */
unsigned char *sample_bytes(const pack_tensor *tensor);

#endif
