#include "engine/plan/rankread.h"

#include "engine/base/check.h"
#include "engine/base/io.h"

#include <string.h>

/* Copying twice costs more than the call it saves. */
#define LONG_READ ((size_t)64 << 10)

void rankread_open(rankread *r, int fd, const char *path, uint64_t limit) {
    r->fd = fd;
    r->path = path;
    r->limit = limit;
    r->begin = r->end = r->last = 0;
}

/* Will the bytes between be cheaper to read than another call is?  Runs of a column split lie a
 * row apart. */
static bool is_near(const rankread *r, uint64_t at, size_t n) {
    const uint64_t page = 4096, gap_factor = 8;
    if (at < r->last) return false;
    uint64_t gap = at - r->last;
    return gap <= page || gap <= gap_factor * n;
}

static tf_status fill(rankread *r, uint64_t at, tf_error *err) {
    uint64_t n = r->limit - at;
    if (n > RANKREAD_WINDOW) n = RANKREAD_WINDOW;
    r->begin = r->end = 0;
    tf_status status = io_read_at(r->fd, r->path, r->window, (size_t)n, at, err);
    if (status != TF_OK) return status;
    r->begin = at;
    r->end = at + n;
    return TF_OK;
}

tf_status rankread_at(rankread *r, uint64_t at, void *to, size_t n, tf_error *err) {
    TF_ASSERT(at <= r->limit && n <= r->limit - at);
    uint8_t *out = to;
    while (n > 0) {
        if (at >= r->begin && at < r->end) {
            size_t have = (size_t)(r->end - at);
            if (have > n) have = n;
            memcpy(out, r->window + (at - r->begin), have);
            out += have;
            at += have;
            n -= have;
            r->last = at;
            continue;
        }
        tf_status status = TF_OK;
        if (TF_ONLY_SPEED(n >= LONG_READ || !is_near(r, at, n))) {
            status = io_read_at(r->fd, r->path, out, n, at, err);
            r->last = at + n;
            n = 0;
        } else {
            status = fill(r, at, err);
        }
        if (status != TF_OK) return status;
    }
    return TF_OK;
}
