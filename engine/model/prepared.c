#include "engine/model/prepared.h"

#include "engine/base/arena.h"
#include "engine/base/io.h"
#include "engine/pack/exl3.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

/* What a shard's bytes are known by without reading them. */
static tf_status add_shard(digest_state *s, const char *dir, const pack_shard *shard,
                           tf_error *err) {
    char path[TF_PATH_BYTES_MAX];
    struct stat st;
    if (!io_join(path, sizeof path, dir, shard->file)) {
        return tf_fail(err, TF_W_TOO_LARGE, "naming %s in %s", shard->file, dir);
    }
    if (stat(path, &st) != 0) {
        int code = errno;
        return tf_fail_errno(err, TF_W_CANNOT_OPEN, code, "looking at %s", path);
    }
    digest_add(s, shard->header.bytes, sizeof shard->header.bytes);
    digest_add_u64(s, (uint64_t)st.st_size);
    digest_add_u64(s, (uint64_t)st.st_ino);
    digest_add_u64(s, (uint64_t)st.st_mtim.tv_sec);
    digest_add_u64(s, (uint64_t)st.st_mtim.tv_nsec);
    return TF_OK;
}

static tf_status key_of(const tf_plan *plan, char hex[DIGEST_HEX], tf_error *err) {
    digest_state *s = digest_begin();
    tf_status status = TF_OK;
    if (s == NULL) return tf_fail(err, TF_W_NO_MEMORY, "naming prepared rank files");
    digest_add_u64(s, RANKFILE_VERSION);
    digest_add(s, plan->fingerprint.bytes, sizeof plan->fingerprint.bytes);
    for (uint32_t i = 0; status == TF_OK && i < plan->pack->shard_count; i++)
        status = add_shard(s, plan->pack->dir, &plan->pack->shards[i], err);
    digest_hex(digest_end(s), hex);
    return status;
}

tf_status prepared_folder(const tf_plan *plan, const char *cache_dir,
                          const rankfile_options *options, char dir[TF_PATH_BYTES_MAX],
                          tf_error *err) {
    char hex[DIGEST_HEX];
    tf_status status = key_of(plan, hex, err);
    if (status != TF_OK) return status;
    int n = snprintf(dir, TF_PATH_BYTES_MAX, "%s/ranks/%s", cache_dir, hex);
    if (n < 0 || n >= (int)TF_PATH_BYTES_MAX) {
        return tf_fail(err, TF_W_TOO_LARGE, "naming rank files in %s", cache_dir);
    }
    tf_error absent = {0};
    if (rankfile_verify_rank(dir, plan->rank, plan, RANKFILE_VERIFY_NONE, NULL, NULL, &absent) ==
        TF_OK)
        return TF_OK;
    status = exl3_check_markers(plan->pack, options->workers, err);
    if (status != TF_OK) return status;
    rankfile_options resume = *options;
    resume.resume = true;
    return rankfile_write_set(plan, dir, &resume, NULL, err);
}
