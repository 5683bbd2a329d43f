#include "engine/run/share.h"

#include "engine/base/check.h"

#include <string.h>

bool share_is(call_kind kind) {
    return kind == CALL_SHARE_PARTIALS || kind == CALL_SHARE_COLUMNS || kind == CALL_SHARE_ROWS ||
           kind == CALL_SHARE_BEST;
}

/* Elements of a row: all axes after the first count as one. */
static size_t row_of(const port_tensor *t) {
    size_t elements = 1;
    for (uint32_t d = 1; d < t->dims; d++)
        elements *= t->shape[d];
    return elements;
}

void share_need(const port_launch *l, uint32_t world, size_t *send_bytes, size_t *recv_bytes) {
    *send_bytes = *recv_bytes = 0;
    if (l->kind == CALL_SHARE_COLUMNS) {
        const args_share_columns *a = l->args;
        *send_bytes = l->rows * row_of(&a->x) * sizeof(float);
        *recv_bytes = l->rows * (size_t)a->begins.values[world] * sizeof(float);
    } else if (l->kind == CALL_SHARE_ROWS) {
        const args_share_rows *a = l->args;
        *send_bytes = *recv_bytes = l->rows * row_of(&a->x) * sizeof(float);
    }
}

static tf_status gather(exchange *x, exchange_part *part, share_stage *stage, tf_error *err) {
    part->bytes = stage->bytes;
    return x->ops->gather(x, part, err);
}

/* Intervals ascend and so do the ranks that own them: rank order is their order. */
static tf_status partials(exchange *x, const args_share_partials *a, share_stage *stage,
                          exchange_part *part, tf_error *err) {
    size_t slab = a->y.shape[1] * (size_t)a->y.shape[2] * sizeof(float);
    memset(stage->bytes, 0, x->world * sizeof stage->bytes[0]);
    for (uint32_t i = 0; i < a->owners.count; i++)
        stage->bytes[a->owners.values[i]] += slab;
    part->site = a->site;
    part->send = a->x.data;
    part->recv = a->y.data;
    return gather(x, part, stage, err);
}

static tf_status columns(exchange *x, const args_share_columns *a, uint32_t rows,
                         share_stage *stage, exchange_part *part, tf_error *err) {
    const int64_t *begins = a->begins.values;
    size_t own = row_of(&a->x);
    TF_ASSERT((int64_t)own == begins[x->rank + 1] - begins[x->rank]);
    for (uint32_t i = 0; i < rows; i++)
        memcpy(stage->send + i * own * sizeof(float), port_f32(&a->x, i), own * sizeof(float));
    for (uint32_t r = 0; r < x->world; r++)
        stage->bytes[r] = rows * (uint64_t)(begins[r + 1] - begins[r]) * sizeof(float);
    part->site = a->site;
    part->send = stage->send;
    part->recv = stage->recv;
    tf_status status = gather(x, part, stage, err);
    if (status != TF_OK) return status;
    const char *from = stage->recv;
    for (uint32_t r = 0; r < x->world; r++) {
        size_t bytes = (size_t)(begins[r + 1] - begins[r]) * sizeof(float);
        for (uint32_t i = 0; i < rows; i++, from += bytes)
            memcpy(port_f32(&a->y, i) + begins[r], from, bytes);
    }
    return TF_OK;
}

static uint32_t owner_of(const int64_t *begins, uint32_t world, int32_t id) {
    uint32_t r = 0;
    while (r + 1 < world && id >= begins[r + 1])
        r++;
    return r;
}

static tf_status share_rows(exchange *x, const args_share_rows *a, uint32_t rows,
                            share_stage *stage, exchange_part *part, tf_error *err) {
    size_t bytes = row_of(&a->x) * sizeof(float);
    char *from[TF_WORLD_MAX];
    size_t sent = 0;
    memset(stage->bytes, 0, x->world * sizeof stage->bytes[0]);
    for (uint32_t i = 0; i < rows; i++) {
        uint32_t owner = owner_of(a->begins.values, x->world, *port_i32(&a->ids, i));
        stage->bytes[owner] += bytes;
        if (owner != x->rank) continue;
        memcpy(stage->send + sent, port_f32(&a->x, i), bytes);
        sent += bytes;
    }
    part->site = a->site;
    part->send = stage->send;
    part->recv = stage->recv;
    tf_status status = gather(x, part, stage, err);
    if (status != TF_OK) return status;
    char *at = stage->recv;
    for (uint32_t r = 0; r < x->world; at += stage->bytes[r], r++)
        from[r] = at;
    for (uint32_t i = 0; i < rows; i++) {
        uint32_t owner = owner_of(a->begins.values, x->world, *port_i32(&a->ids, i));
        memcpy(port_f32(&a->y, i), from[owner], bytes);
        from[owner] += bytes;
    }
    return TF_OK;
}

static tf_status best(exchange *x, const args_share_best *a, share_stage *stage,
                      exchange_part *part, tf_error *err) {
    for (uint32_t r = 0; r < x->world; r++)
        stage->bytes[r] = a->x.shape[0] * 2 * sizeof(float);
    part->site = a->site;
    part->send = a->x.data;
    part->recv = a->y.data;
    return gather(x, part, stage, err);
}

tf_status share_run(exchange *x, const port_launch *l, share_stage *stage, uint64_t decision,
                    tf_error *err) {
    exchange_part part = {.decision = decision};
    if (l->kind == CALL_SHARE_PARTIALS) return partials(x, l->args, stage, &part, err);
    if (l->kind == CALL_SHARE_COLUMNS) return columns(x, l->args, l->rows, stage, &part, err);
    if (l->kind == CALL_SHARE_ROWS) return share_rows(x, l->args, l->rows, stage, &part, err);
    TF_ASSERT(l->kind == CALL_SHARE_BEST);
    return best(x, l->args, stage, &part, err);
}
