#include "engine/run/layerhash.h"

#include "engine/base/arena.h"
#include "engine/base/io.h"

#include <string.h>

#define FLUSH_BYTES 65536u

struct layerhash {
    io_writer writer;
    device *device;
    char *piece; /* [piece_bytes] what was read of a remote device */
    size_t piece_bytes;
    tf_text text; /* lines that are not in the file yet */
    uint32_t step;
    const char *phase;
    tf_error err; /* the first failure; told at the end */
};

static const struct {
    const char *name;
    bool own;
} points[LAYERHASH_COUNT] = {
#define POINT(name, text, own) {text, own},
    LAYERHASH_POINTS(POINT)
#undef POINT
};

const char *layerhash_point_name(layerhash_point point) {
    return points[point].name;
}

bool layerhash_is_own(layerhash_point point) {
    return points[point].own;
}

bool layerhash_point_parse(const char *name, layerhash_point *out) {
    for (layerhash_point p = LAYERHASH_IDS; p < LAYERHASH_COUNT; p++) {
        if (strcmp(name, points[p].name) != 0) continue;
        *out = p;
        return true;
    }
    return false;
}

static void flush(layerhash *h) {
    if (h->err.status == TF_OK && text_done(&h->text, &h->err) == TF_OK)
        io_write(&h->writer, text_str(&h->text), h->text.length, &h->err);
    text_clear(&h->text);
}

tf_status layerhash_open(const char *path, const layerhash_header *header, layerhash **out,
                         tf_error *err) {
    char hex[DIGEST_HEX];
    layerhash *h = mem_take(sizeof *h);
    if (h == NULL) return tf_fail(err, TF_W_NO_MEMORY, "opening layer hashes %s", path);
    tf_status status = io_create(&h->writer, path, err);
    if (status != TF_OK) {
        mem_free(h);
        return status;
    }
    text_add(&h->text, "{\"layer_hashes\":1,\"model\":");
    text_json(&h->text, header->model);
    text_print(&h->text, ",\"plan\":\"%s\"", digest_hex(header->plan, hex));
    text_print(&h->text, ",\"split\":\"%s\"", digest_hex(header->split, hex));
    text_print(&h->text, ",\"world\":%u,\"rank\":%u", header->world, header->rank);
    text_print(&h->text, ",\"settings\":\"%s\"", digest_hex(header->settings, hex));
    text_print(&h->text, ",\"profile\":\"%s\"}\n", header->profile);
    h->phase = "";
    h->device = header->device;
    *out = h;
    return TF_OK;
}

void layerhash_step(layerhash *h, uint32_t step, const char *phase) {
    h->step = step;
    h->phase = phase;
}

tf_status layerhash_finish(layerhash *h, tf_error *err) {
    flush(h);
    if (h->err.status == TF_OK) io_commit(&h->writer, &h->err);
    tf_error first = h->err;
    layerhash_drop(h);
    if (first.status == TF_OK) return TF_OK;
    *err = first;
    return first.status;
}

void layerhash_drop(layerhash *h) {
    if (h == NULL) return;
    io_discard(&h->writer);
    text_free(&h->text);
    mem_free(h->piece);
    mem_free(h);
}

/* ---- points ---- */

/* Elements of the axes from `axis` on, where they lie in one piece; 0: they do not. */
static size_t in_one_piece(const port_tensor *t, uint32_t axis) {
    size_t elements = 1;
    for (uint32_t d = t->dims; d-- > axis;) {
        if (t->stride[d] != elements && t->shape[d] > 1) return 0;
        elements *= t->shape[d];
    }
    return elements;
}

static tf_status add_remote(layerhash *h, digest_state *s, const char *at, size_t bytes,
                            tf_error *err) {
    if (bytes > h->piece_bytes) {
        mem_free(h->piece);
        h->piece = mem_take(bytes);
        h->piece_bytes = h->piece == NULL ? 0 : bytes;
    }
    if (h->piece == NULL) return tf_fail(err, TF_W_NO_MEMORY, "hashing %zu bytes", bytes);
    tf_status status = h->device->ops->read(h->device, h->piece, at, bytes, err);
    if (status == TF_OK) digest_add(s, h->piece, bytes);
    return status;
}

/* What a view leaves out between its rows is not part of it. */
static void add_axes(layerhash *h, digest_state *s, const port_tensor *t, uint32_t axis,
                     size_t offset) {
    size_t size = dtype_bytes(t->dtype);
    size_t piece = in_one_piece(t, axis);
    const char *at = (const char *)t->data + offset * size;
    if (piece > 0 && (h->device == NULL || !h->device->remote)) {
        digest_add(s, at, piece * size);
    } else if (piece > 0) {
        if (h->err.status == TF_OK) add_remote(h, s, at, piece * size, &h->err);
    } else {
        for (uint32_t i = 0; i < t->shape[axis]; i++)
            add_axes(h, s, t, axis + 1, offset + i * t->stride[axis]);
    }
}

static void add_line(layerhash *h, const call *c, layerhash_point point, const port_tensor *t) {
    char hex[DIGEST_HEX];
    digest_state *s = digest_begin();
    if (s == NULL) {
        if (h->err.status == TF_OK)
            tf_fail(&h->err, TF_W_NO_MEMORY, "hashing %s of layer %u", layerhash_point_name(point),
                    c->layer);
        return;
    }
    add_axes(h, s, t, 0, 0);
    text_print(&h->text, "{\"step\":%u,\"phase\":\"%s\",\"layer\":\"", h->step, h->phase);
    if (c->layer == CALL_TOP) {
        text_add(&h->text, "top");
    } else {
        text_print(&h->text, "L%u", c->layer);
    }
    text_print(&h->text, "\",\"point\":\"%s\",\"shape\":[", layerhash_point_name(point));
    for (uint32_t d = 0; d < t->dims; d++)
        text_print(&h->text, "%s%u", d == 0 ? "" : ",", t->shape[d]);
    text_print(&h->text, "],\"hash\":\"%s\"}\n", digest_hex(digest_end(s), hex));
    if (h->text.length >= FLUSH_BYTES) flush(h);
}

static void seen_dot(layerhash *h, const call *c, const args_dot *a) {
    if (strcmp(c->name, "wo_b") == 0) add_line(h, c, LAYERHASH_ATTN_PARTIAL, &a->y);
    if (strcmp(c->name, "head") == 0) add_line(h, c, LAYERHASH_LOGITS, &a->y);
}

static void seen_reduce(layerhash *h, const call *c, const args_reduce *a) {
    if (strcmp(c->name, "attn") == 0) add_line(h, c, LAYERHASH_ATTN_SUM, &a->y);
    if (strcmp(c->name, "ffn") == 0) add_line(h, c, LAYERHASH_FFN_SUM, &a->y);
}

void layerhash_seen(void *context, const call *c, const port_launch *l) {
    layerhash *h = context;
    const void *args = l->args;
    if (c->kind == CALL_DOT) seen_dot(h, c, args);
    if (c->kind == CALL_SHARE_ROWS)
        add_line(h, c, LAYERHASH_IDS, &((const args_share_rows *)args)->ids);
    if (c->kind == CALL_REDUCE) seen_reduce(h, c, args);
    if (c->kind == CALL_EXPERTS_DOWN)
        add_line(h, c, LAYERHASH_FFN_PARTIAL, &((const args_experts_down *)args)->y);
    if (c->kind == CALL_POST && strcmp(c->name, "post_ffn") == 0)
        add_line(h, c, LAYERHASH_STREAMS, &((const args_post *)args)->streams);
    if (c->kind == CALL_SHARE_COLUMNS && strcmp(c->name, "logits") == 0)
        add_line(h, c, LAYERHASH_ALL_LOGITS, &((const args_share_columns *)args)->y);
}
