#include "engine/run/share.h"

#include "engine/base/arena.h"
#include "engine/base/check.h"

#include <string.h>

bool share_is(call_kind kind) {
    return kind == CALL_SHARE_PARTIALS || kind == CALL_SHARE_COLUMNS || kind == CALL_SHARE_ROWS ||
           kind == CALL_SHARE_BEST;
}

/* Bytes of a row: all axes after the first count as one. */
static size_t row_bytes(const port_tensor *t) {
    size_t elements = 1;
    for (uint32_t d = 1; d < t->dims; d++)
        elements *= t->shape[d];
    return elements * sizeof(float);
}

/* Does the exchange reach into the device's memory? */
static bool reaches(const share *s) {
    return s->device->remote == s->exchange->remote;
}

/* ---- the stage ---- */

static void drop(share *s, void *data, bool remote) {
    if (data == NULL) return;
    if (remote) {
        s->device->ops->drop(s->device, data);
    } else {
        mem_free(data);
    }
}

void share_close(share *s) {
    drop(s, s->send.data, s->exchange->remote);
    drop(s, s->recv.data, s->exchange->remote);
    drop(s, s->ids.data, false);
}

static tf_status widen(share *s, share_area *a, size_t bytes, bool remote, tf_error *err) {
    if (bytes <= a->bytes) return TF_OK;
    void *more = NULL;
    if (remote) {
        tf_status status = s->device->ops->take(s->device, bytes, &more, err);
        if (status != TF_OK) return status;
    } else {
        more = mem_take_aligned(64, bytes);
        if (more == NULL) {
            tf_fail(err, TF_W_NO_MEMORY, "taking memory of an exchange");
            return tf_found(err, "%zu bytes", bytes);
        }
    }
    drop(s, a->data, remote);
    *a = (share_area){more, bytes};
    return TF_OK;
}

tf_status share_reserve(share *s, const port_launch *l, tf_error *err) {
    size_t send = 0;
    size_t recv = 0;
    size_t ids = 0;
    const args_share_partials *partials = l->args;
    const args_share_columns *columns = l->args;
    const args_share_rows *rows = l->args;
    const args_share_best *best = l->args;
    if (l->kind == CALL_SHARE_COLUMNS) {
        send = l->rows * row_bytes(&columns->x);
        recv = l->rows * (size_t)columns->begins.values[s->exchange->world] * sizeof(float);
    } else if (l->kind == CALL_SHARE_ROWS) {
        send = recv = l->rows * row_bytes(&rows->x);
        ids = l->rows * sizeof(int32_t);
    } else if (!reaches(s) && l->kind == CALL_SHARE_PARTIALS) {
        send = partials->x.shape[0] * row_bytes(&partials->x);
        recv = partials->y.shape[0] * row_bytes(&partials->y);
    } else if (!reaches(s)) {
        send = best->x.shape[0] * row_bytes(&best->x);
        recv = best->y.shape[0] * row_bytes(&best->y);
    }
    tf_status status = widen(s, &s->send, send, s->exchange->remote, err);
    if (status == TF_OK) status = widen(s, &s->recv, recv, s->exchange->remote, err);
    return status == TF_OK ? widen(s, &s->ids, ids, false, err) : status;
}

/* ---- moving ---- */

static tf_status copy(share *s, const device_pieces *p, tf_error *err) {
    if (p->count == 0 || p->bytes == 0) return TF_OK;
    return s->device->ops->copy(s->device, p, err);
}

static tf_status copy_one(share *s, void *to, const void *from, size_t bytes, tf_error *err) {
    return copy(s, &(device_pieces){to, bytes, from, bytes, bytes, 1}, err);
}

static tf_status gather(share *s, const char *site, const void *send, void *recv, tf_error *err) {
    exchange_part part = {site, send, recv, s->counts, s->decision};
    return s->exchange->ops->gather(s->exchange, &part, err);
}

/* What lies in one piece on both sides. */
static tf_status gather_whole(share *s, const char *site, const port_tensor *x,
                              const port_tensor *y, tf_error *err) {
    uint64_t all = 0;
    for (uint32_t r = 0; r < s->exchange->world; r++)
        all += s->counts[r];
    if (reaches(s)) return gather(s, site, x->data, y->data, err);
    tf_status status = copy_one(s, s->send.data, x->data, s->counts[s->exchange->rank], err);
    if (status == TF_OK) status = gather(s, site, s->send.data, s->recv.data, err);
    return status == TF_OK ? copy_one(s, y->data, s->recv.data, all, err) : status;
}

/* ---- the kinds ---- */

/* Intervals ascend and so do the ranks that own them: rank order is their order. */
static tf_status partials(share *s, const args_share_partials *a, tf_error *err) {
    memset(s->counts, 0, s->exchange->world * sizeof s->counts[0]);
    for (uint32_t i = 0; i < a->owners.count; i++)
        s->counts[a->owners.values[i]] += row_bytes(&a->y);
    return gather_whole(s, a->site, &a->x, &a->y, err);
}

static size_t stride_bytes(const port_tensor *t) {
    return t->stride[0] * sizeof(float);
}

static tf_status columns(share *s, const args_share_columns *a, uint32_t rows, tf_error *err) {
    const int64_t *begins = a->begins.values;
    uint32_t world = s->exchange->world;
    size_t own = row_bytes(&a->x);
    for (uint32_t r = 0; r < world; r++)
        s->counts[r] = rows * (uint64_t)(begins[r + 1] - begins[r]) * sizeof(float);
    TF_ASSERT(rows * own == s->counts[s->exchange->rank]);
    device_pieces out = {s->send.data, own, a->x.data, stride_bytes(&a->x), own, rows};
    tf_status status = copy(s, &out, err);
    if (status == TF_OK) status = gather(s, a->site, s->send.data, s->recv.data, err);
    const char *from = s->recv.data;
    for (uint32_t r = 0; status == TF_OK && r < world; r++) {
        size_t bytes = (size_t)(begins[r + 1] - begins[r]) * sizeof(float);
        device_pieces in = {
            (float *)a->y.data + begins[r], stride_bytes(&a->y), from, bytes, bytes, rows};
        status = copy(s, &in, err);
        from += s->counts[r];
    }
    return status;
}

static uint32_t owner_of(const int64_t *begins, uint32_t world, int32_t id) {
    uint32_t r = 0;
    while (r + 1 < world && id >= begins[r + 1])
        r++;
    return r;
}

/* Each row to its place, from where its owner's next one lies. */
static tf_status spread_rows(share *s, const args_share_rows *a, const int32_t *ids, uint32_t rows,
                             tf_error *err) {
    uint32_t world = s->exchange->world;
    size_t bytes = row_bytes(&a->x);
    const char *from[TF_WORLD_MAX];
    const char *at = s->recv.data;
    for (uint32_t r = 0; r < world; at += s->counts[r], r++)
        from[r] = at;
    tf_status status = TF_OK;
    for (uint32_t i = 0; status == TF_OK && i < rows; i++) {
        uint32_t owner = owner_of(a->begins.values, world, ids[i]);
        status = copy_one(s, port_f32(&a->y, i), from[owner], bytes, err);
        from[owner] += bytes;
    }
    return status;
}

static tf_status share_rows(share *s, const args_share_rows *a, uint32_t rows, tf_error *err) {
    exchange *x = s->exchange;
    int32_t *ids = (int32_t *)(void *)s->ids.data;
    size_t bytes = row_bytes(&a->x);
    size_t sent = 0;
    tf_status status = s->device->ops->read(s->device, ids, a->ids.data, rows * sizeof *ids, err);
    memset(s->counts, 0, x->world * sizeof s->counts[0]);
    for (uint32_t i = 0; status == TF_OK && i < rows; i++) {
        uint32_t owner = owner_of(a->begins.values, x->world, ids[i]);
        s->counts[owner] += bytes;
        if (owner != x->rank) continue;
        status = copy_one(s, s->send.data + sent, port_f32(&a->x, i), bytes, err);
        sent += bytes;
    }
    if (status == TF_OK) status = gather(s, a->site, s->send.data, s->recv.data, err);
    return status == TF_OK ? spread_rows(s, a, ids, rows, err) : status;
}

static tf_status best(share *s, const args_share_best *a, tf_error *err) {
    for (uint32_t r = 0; r < s->exchange->world; r++)
        s->counts[r] = a->x.shape[0] * row_bytes(&a->x);
    return gather_whole(s, a->site, &a->x, &a->y, err);
}

tf_status share_run(share *s, const port_launch *l, uint64_t decision, tf_error *err) {
    s->decision = decision;
    if (l->kind == CALL_SHARE_PARTIALS) return partials(s, l->args, err);
    if (l->kind == CALL_SHARE_COLUMNS) return columns(s, l->args, l->rows, err);
    if (l->kind == CALL_SHARE_ROWS) return share_rows(s, l->args, l->rows, err);
    TF_ASSERT(l->kind == CALL_SHARE_BEST);
    return best(s, l->args, err);
}
