/* tf.h's packs: opened by folder or built-in name, described for a person or a script. */
#include "engine/base/check.h"
#include "engine/base/io.h"
#include "engine/pack/builtin.h"
#include "engine/pack/cache.h"
#include "engine/pack/pack.h"
#include "engine/pack/synth.h"
#include "engine/tf.h"

#include <stdio.h>
#include <string.h>

const char *const *tf_pack_builtins(void) {
    return builtin_names();
}

tf_status tf_pack_open(const char *dir_or_name, const char *cache_dir, tf_pack **out,
                       tf_error *err) {
    *out = NULL;
    /* A folder of that name comes first: what a person can see wins over what is built in. */
    if (io_is_dir(dir_or_name)) return pack_open(dir_or_name, out, err);
    const builtin_model *model = builtin_find(dir_or_name);
    if (model == NULL || model->large) {
        tf_fail(err, TF_W_NO_PACK, "opening pack '%s'", dir_or_name);
        tf_found(err, "neither a folder nor a built-in pack");
        tf_expected(err, "a folder with config.json, or tiny-bf16, tiny-exl3 or flash");
        if (model == NULL) return err->status;
        return tf_remedy(err, "make it: tfverify pack synth %s DIR, then open DIR", dir_or_name);
    }
    char dir[TF_PATH_BYTES_MAX];
    tf_status status = cache_builtin(dir_or_name, cache_dir, dir, err);
    if (status == TF_OK) status = pack_open(dir, out, err);
    /* Pins are filed under the name that was asked for, not the cache's. */
    if (status == TF_OK) snprintf((*out)->name, sizeof(*out)->name, "%s", dir_or_name);
    return status;
}

void tf_pack_close(tf_pack *pack) {
    pack_close(pack);
}

const char *tf_pack_name(const tf_pack *pack) {
    return pack->name;
}

const char *tf_pack_dir(const tf_pack *pack) {
    return pack->dir;
}

bool tf_pack_has_data(const tf_pack *pack) {
    return !pack->header_only;
}

tf_digest tf_pack_digest(const tf_pack *pack) {
    return pack->digest;
}

uint32_t tf_pack_layers(const tf_pack *pack) {
    return pack->config.layers;
}

uint32_t tf_pack_vocab(const tf_pack *pack) {
    return pack->config.vocab;
}

tf_status tf_pack_content_digest(const tf_pack *pack, tf_digest *out, tf_error *err) {
    return pack_content_digest(pack, 0, out, err);
}

tf_status tf_pack_synth(const char *kind, const char *dir, uint32_t layers, tf_progress progress,
                        void *context, tf_error *err) {
    synth_request request = {.layers = layers, .progress = progress, .context = context};
    tf_status status = synth_model(kind, &request.model, err);
    return status == TF_OK ? synth_make(&request, dir, err) : status;
}

/* ---- description ---- */

typedef struct summary {
    uint64_t bytes;
    uint64_t linears;       /* EXL3 */
    uint64_t trellis_bytes; /* of all of them */
    uint64_t weights;       /* numbers that the trellises stand for */
    uint64_t dtype_count[DTYPE_COUNT];
    uint64_t dtype_bytes[DTYPE_COUNT];
} summary;

static bool ends_with(const char *name, const char *end) {
    size_t n = strlen(name);
    size_t k = strlen(end);
    return n >= k && strcmp(name + n - k, end) == 0;
}

static summary summarise(const tf_pack *pack) {
    summary s = {0};
    for (uint32_t i = 0; i < pack->tensor_count; i++) {
        const pack_tensor *t = &pack->tensors[i];
        s.bytes += t->bytes;
        s.dtype_count[t->dtype]++;
        s.dtype_bytes[t->dtype] += t->bytes;
        if (!ends_with(t->name, ".trellis") || t->dims != 3) continue;
        s.linears++;
        s.trellis_bytes += t->bytes;
        s.weights += t->shape[0] * 16 * t->shape[1] * 16;
    }
    return s;
}

static double bits_a_weight(const summary *s) {
    return s->weights == 0 ? 0.0 : (double)s->trellis_bytes * 8.0 / (double)s->weights;
}

static void describe_json(const tf_pack *pack, const summary *s, tf_text *out) {
    const tf_config *c = &pack->config;
    char hex[DIGEST_HEX];
    text_add(out, "{\"pack\":");
    text_json(out, pack->name);
    text_add(out, ",\"dir\":");
    text_json(out, pack->dir);
    text_print(out, ",\"family\":\"%s\",\"pack_digest\":\"%s\"", c->family,
               digest_hex(pack->digest, hex));
    text_print(out, ",\"config_digest\":\"%s\"", digest_hex(c->digest, hex));
    text_print(out, ",\"target_layers\":%u,\"draft_layers\":%u,\"shards\":%u,\"tensors\":%u",
               c->target_layers, c->draft_layers, pack->shard_count, pack->tensor_count);
    text_print(out, ",\"bytes\":%llu,\"header_only\":%s", (unsigned long long)s->bytes,
               pack->header_only ? "true" : "false");
    text_print(out, ",\"exl3_linears\":%llu,\"trellis_bytes\":%llu,\"bits_a_weight\":%.4f",
               (unsigned long long)s->linears, (unsigned long long)s->trellis_bytes,
               bits_a_weight(s));
    text_add(out, ",\"dtypes\":{");
    bool first = true;
    for (int d = 0; d < (int)DTYPE_COUNT; d++) {
        if (s->dtype_count[d] == 0) continue;
        text_print(out, "%s\"%s\":{\"tensors\":%llu,\"bytes\":%llu}", first ? "" : ",",
                   dtype_name((tf_dtype)d), (unsigned long long)s->dtype_count[d],
                   (unsigned long long)s->dtype_bytes[d]);
        first = false;
    }
    text_add(out, "}}");
}

void tf_pack_describe(const tf_pack *pack, bool json, tf_text *out) {
    const tf_config *c = &pack->config;
    summary s = summarise(pack);
    if (json) {
        describe_json(pack, &s, out);
        return;
    }
    char hex[DIGEST_HEX];
    text_print(out, "pack          %s%s\n", pack->name, pack->header_only ? " (headers only)" : "");
    text_print(out, "folder        %s\n", pack->dir);
    text_print(out, "family        %s, %u target and %u draft layers\n", c->family,
               c->target_layers, c->draft_layers);
    text_print(out, "pack digest   %s\n", digest_hex(pack->digest, hex));
    text_print(out, "config digest %s\n", digest_hex(c->digest, hex));
    text_print(out, "tensors       %u in %u shards, %llu bytes\n", pack->tensor_count,
               pack->shard_count, (unsigned long long)s.bytes);
    for (int d = 0; d < (int)DTYPE_COUNT; d++) {
        if (s.dtype_count[d] == 0) continue;
        text_print(out, "  %-8s    %llu tensors, %llu bytes\n", dtype_name((tf_dtype)d),
                   (unsigned long long)s.dtype_count[d], (unsigned long long)s.dtype_bytes[d]);
    }
    if (s.linears > 0) {
        text_print(out, "EXL3 linears  %llu, %llu trellis bytes, %.4f bits a weight\n",
                   (unsigned long long)s.linears, (unsigned long long)s.trellis_bytes,
                   bits_a_weight(&s));
    }
    text_add(out, "\n");
    config_text(c, out);
}
