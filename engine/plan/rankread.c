#include "engine/plan/rankread.h"

#include "engine/base/check.h"
#include "engine/base/io.h"

#include <string.h>

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

static tf_status fill(rankread *r, uint64_t at, size_t n, tf_error *err) {
    r->begin = r->end = 0;
    tf_status status = io_read_at(r->fd, r->path, r->window, n, at, err);
    if (status != TF_OK) return status;
    r->begin = at;
    r->end = at + n;
    return TF_OK;
}

tf_status rankread_view(rankread *r, uint64_t at, size_t n, const uint8_t **view, tf_error *err) {
    TF_ASSERT(n < RANKREAD_LONG && at <= r->limit && n <= r->limit - at);
    if (at < r->begin || at + n > r->end) {
        uint64_t reach = r->limit - at;
        if (reach > RANKREAD_WINDOW) reach = RANKREAD_WINDOW;
        if (TF_ONLY_SPEED(!is_near(r, at, n))) reach = n;
        tf_status status = fill(r, at, (size_t)reach, err);
        if (status != TF_OK) return status;
    }
    r->last = at + n;
    *view = r->window + (at - r->begin);
    return TF_OK;
}

tf_status rankread_at(rankread *r, uint64_t at, void *to, size_t n, tf_error *err) {
    const uint8_t *view = NULL;
    TF_ASSERT(at <= r->limit && n <= r->limit - at);
    if (TF_ONLY_SPEED(n >= RANKREAD_LONG)) {
        r->last = at + n;
        return io_read_at(r->fd, r->path, to, n, at, err);
    }
    tf_status status = rankread_view(r, at, n, &view, err);
    if (status == TF_OK) memcpy(to, view, n);
    return status;
}
