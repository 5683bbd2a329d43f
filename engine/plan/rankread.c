#include "engine/plan/rankread.h"

#include "engine/base/check.h"
#include "engine/base/io.h"

#include <string.h>

/* From here on copying twice costs more than the call it saves. */
#define LONG_READ ((size_t)64 << 10)

void rankread_open(rankread *r, int fd, const char *path, uint64_t limit) {
    r->fd = fd;
    r->path = path;
    r->limit = limit;
    memset(r->held, 0, sizeof r->held);
}

/* The memory of that block, read if it is not there; NULL with err set when it cannot be. */
static const uint8_t *block_at(rankread *r, uint64_t block, tf_error *err) {
    size_t slot = (size_t)(block % RANKREAD_SLOTS);
    uint8_t *memory = r->memory + slot * RANKREAD_BLOCK;
    if (TF_ONLY_SPEED(r->held[slot] == block + 1)) return memory;
    uint64_t begin = block * RANKREAD_BLOCK;
    uint64_t n = r->limit - begin;
    if (n > RANKREAD_BLOCK) n = RANKREAD_BLOCK;
    r->held[slot] = 0;
    if (io_read_at(r->fd, r->path, memory, (size_t)n, begin, err) != TF_OK) return NULL;
    r->held[slot] = block + 1;
    return memory;
}

tf_status rankread_at(rankread *r, uint64_t at, void *to, size_t n, tf_error *err) {
    TF_ASSERT(at <= r->limit && n <= r->limit - at);
    if (TF_ONLY_SPEED(n >= LONG_READ)) return io_read_at(r->fd, r->path, to, n, at, err);
    uint8_t *out = to;
    while (n > 0) {
        const uint8_t *memory = block_at(r, at / RANKREAD_BLOCK, err);
        if (memory == NULL) return err->status;
        size_t within = (size_t)(at % RANKREAD_BLOCK);
        size_t take = RANKREAD_BLOCK - within;
        if (take > n) take = n;
        memcpy(out, memory + within, take);
        out += take;
        at += take;
        n -= take;
    }
    return TF_OK;
}
