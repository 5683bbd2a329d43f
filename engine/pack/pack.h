/* pack/pack - a model on disk: config.json beside safetensors, known by its headers.
 *
 * Idea: opening reads headers only; whoever needs bytes asks by tensor.  A header-only pack (the
 * shard's data is absent and its metadata says so) plans and emits like a whole one.
 * Trap: nothing a header says is believed before the file's size has confirmed it. */
#ifndef TF_ENGINE_PACK_PACK_H
#define TF_ENGINE_PACK_PACK_H

#include "engine/base/arena.h"
#include "engine/base/digest.h"
#include "engine/base/text.h"
#include "engine/pack/config.h"
#include "engine/pack/dtype.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct pack_tensor {
    const char *name; /* pack owns; NUL-terminated, at most TF_NAME_BYTES_MAX */
    tf_dtype dtype;
    uint32_t dims; /* 0: a scalar */
    uint64_t shape[TF_DIMS_MAX];
    uint64_t bytes;
    uint32_t shard;  /* index into shards */
    uint64_t offset; /* absolute, in the shard's file */
} pack_tensor;

typedef struct pack_shard {
    const char *file;    /* name in the directory */
    uint64_t size;       /* bytes on disk */
    uint64_t data_begin; /* first byte after the header */
    int fd;              /* open for reading; -1 when header_only */
    bool header_only;    /* its data was never stored */
    tf_digest header;    /* XXH3-128 of the header's JSON bytes */
} pack_shard;

typedef struct tf_pack {
    char dir[TF_PATH_BYTES_MAX];
    char name[128]; /* what a pin's path calls it: last part of dir, or the built-in's name */
    tf_config config;
    pack_tensor *tensors; /* ascending by name, bytewise */
    uint32_t tensor_count;
    pack_shard *shards; /* ascending by file */
    uint32_t shard_count;
    bool header_only; /* any shard is */
    tf_digest
        digest; /* of the inventory: per tensor in name order its name, dtype, shape; from headers alone */
    tf_arena arena;
} tf_pack;

/* dir holds config.json and either model.safetensors, or model.safetensors.index.json with its
 * shards (and any further *.safetensors, e.g. engram tables, that the index names).  Fails by word
 * with file, tensor and offset.  Free with pack_close. */
tf_status pack_open(const char *dir, tf_pack **out, tf_error *err);
void pack_close(tf_pack *pack);

/* NULL when absent. */
const pack_tensor *pack_find(const tf_pack *pack, const char *name);
/* Reads n bytes at `offset` into a tensor's data; thread-safe.  Fails with header-only-pack where
 * there is no data. */
tf_status pack_read(const tf_pack *pack, const pack_tensor *tensor, uint64_t offset, void *to,
                    size_t n, tf_error *err);
/* The content digest: XXH3-128 over the XXH3-128 of every tensor's bytes, in name order. */
tf_status pack_content_digest(const tf_pack *pack, uint32_t workers, tf_digest *out, tf_error *err);

/* One safetensors header: the JSON bytes without the 8 length bytes, and where the data lies. */
typedef struct pack_header {
    const char *file; /* for messages */
    const char *json;
    size_t n;
    uint64_t data_begin; /* in the file */
    uint64_t data_bytes; /* after the header */
} pack_header;

/* Parses it; the target of fuzzing.  Tensors go to `each` in the header's order. */
typedef tf_status (*pack_each)(void *context, const pack_tensor *tensor, tf_error *err);
tf_status pack_parse_header(const pack_header *header, pack_each each, void *context,
                            bool *header_only, tf_error *err);

/* Parses an index over its shards, every entry a .safetensors beside it; the target of fuzzing.
 * Fails with bad-json, bad-shard-name, too-large. */
tf_status pack_parse_index(const char *name, const char *json, size_t n, size_t *entries,
                           tf_error *err);

#endif
