#include "engine/pack/cache.h"

#include "engine/base/digest.h"
#include "engine/base/io.h"
#include "engine/pack/sums.h"
#include "engine/pack/synth.h"

#include <stdio.h>

static tf_status folder_of(const builtin_model *model, const char *cache_dir,
                           char dir[TF_PATH_BYTES_MAX], tf_error *err) {
    tf_text recipe = {0};
    char hex[DIGEST_HEX];
    synth_recipe_text(model, model->layers, &recipe);
    tf_status status = text_done(&recipe, err);
    if (status == TF_OK) {
        digest_hex(digest_bytes(recipe.data, recipe.length), hex);
        int n = snprintf(dir, TF_PATH_BYTES_MAX, "%s/%s-%.8s", cache_dir, model->name, hex);
        if (n < 0 || n >= (int)TF_PATH_BYTES_MAX) {
            status = tf_fail(err, TF_W_CANNOT_WRITE, "using the cache %s: the path is too long",
                             cache_dir);
        }
    }
    text_free(&recipe);
    return status;
}

tf_status cache_builtin(const char *name, const char *cache_dir, char dir[TF_PATH_BYTES_MAX],
                        tf_error *err) {
    synth_request request = {.list_digests = true};
    tf_status status = synth_model(name, &request.model, err);
    if (status != TF_OK) return status;
    status = folder_of(request.model, cache_dir, dir, err);
    if (status != TF_OK) return status;
    if (!io_exists(dir)) {
        tf_error made = {0};
        status = synth_make(&request, dir, &made);
        /* Another process was faster: its pack is as good. */
        if (status != TF_OK && made.word != TF_W_FOLDER_EXISTS) {
            *err = made;
            return tf_under(err, "making the built-in pack %s", name);
        }
    }
    status = sums_check(dir, err);
    return status == TF_OK ? TF_OK : tf_under(err, "using the built-in pack %s", name);
}
