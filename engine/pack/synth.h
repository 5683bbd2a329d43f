/* pack/synth - makes a built-in model's pack: config.json, safetensors, token map.
 *
 * Idea: the file is cut into equal windows; a window's bytes are made from the recipe and written
 * at their place, so memory is a window a worker and the order of threads never shows.
 * Trap: the folder takes its name last; until then there is nothing to find, whatever happens. */
#ifndef TF_ENGINE_PACK_SYNTH_H
#define TF_ENGINE_PACK_SYNTH_H

#include "engine/base/status.h"
#include "engine/base/text.h"
#include "engine/pack/builtin.h"

#include <stdbool.h>
#include <stdint.h>

/* As tf_progress of tf.h: done and total bytes; false stops. */
typedef bool (*synth_progress)(void *context, const char *unit, uint64_t done, uint64_t total);

typedef struct synth_request {
    const builtin_model *model;
    uint32_t layers;         /* target layers; 0: the model's own */
    uint32_t workers;        /* 0: one a core */
    bool list_digests;       /* add digests.txt (sums.h) */
    synth_progress progress; /* may be NULL; called from one thread at a time */
    void *context;
} synth_request;

/* builtin_find, or unknown-builtin with the names there are. */
tf_status synth_model(const char *name, const builtin_model **out, tf_error *err);

/* dir must not exist, or be an empty folder.  Fails with layers-out-of-range, folder-exists,
 * no-space, cannot-write, interrupted; dir is then as it was. */
tf_status synth_make(const synth_request *request, const char *dir, tf_error *err);

/* What the pack's bytes depend on, as a text; its digest names a cached pack. */
void synth_recipe_text(const builtin_model *model, uint32_t layers, tf_text *out);

#endif
