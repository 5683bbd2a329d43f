/* The canonical text of a plan.  One line an item makes it long, so lines are put together in a
 * buffer and not by format strings. */
#include "engine/base/check.h"
#include "engine/plan/parts.h"

#include <string.h>

/* Longest line: two names, eight sizes, one span. */
#define LINE_BYTES   ((size_t)2 * TF_NAME_BYTES_MAX + 1024)
#define BUFFER_BYTES (16 * LINE_BYTES)

typedef struct lines {
    tf_text *text;        /* may be NULL */
    digest_state *digest; /* may be NULL */
    size_t length;
    char data[BUFFER_BYTES];
} lines;

static void deliver(lines *l, const char *data, size_t n) {
    if (l->text != NULL) text_add_n(l->text, data, n);
    if (l->digest != NULL) digest_add(l->digest, data, n);
}

static inline void put_n(lines *l, const char *s, size_t n) {
    memcpy(l->data + l->length, s, n);
    l->length += n;
}

static inline void put(lines *l, const char *s) {
    put_n(l, s, strlen(s));
}

static void put_u64(lines *l, uint64_t value) {
    char digits[20];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    put_n(l, digits + at, sizeof digits - at);
}

/* Call after each line: there is always room for one more. */
static void end_line(lines *l) {
    put_n(l, "\n", 1);
    TF_ASSERT(l->length <= BUFFER_BYTES);
    if (l->length <= BUFFER_BYTES - LINE_BYTES) return;
    deliver(l, l->data, l->length);
    l->length = 0;
}

static const char *unit_word(plan_unit unit) {
    switch (unit) {
    case UNIT_GROUP:
        return "output-groups";
    case UNIT_EXPERT_BLOCK:
        return "expert-blocks";
    case UNIT_VOCAB_BLOCK:
        return "vocabulary-blocks";
    case UNIT_ENGRAM_COLUMN:
        return "hash-columns";
    case UNIT_NONE:
        break;
    }
    return "none";
}

static const char *part_word(plan_part part) {
    switch (part) {
    case PART_PLAIN:
        return "linear";
    case PART_TRELLIS:
        return "trellis";
    case PART_SUH:
        return "suh";
    case PART_SVH:
        return "svh";
    case PART_MARKER:
        return "marker";
    case PART_NONE:
        break;
    }
    return "tensor";
}

static const char *axis_word(plan_axis axis) {
    switch (axis) {
    case AXIS_WHOLE:
        break;
    case AXIS_ROWS:
        return "rows";
    case AXIS_COLUMNS:
        return "columns";
    case AXIS_PICK:
        return "pick";
    }
    return "whole";
}

static void put_range(lines *l, canon_range range) {
    put(l, " [");
    put_u64(l, range.begin);
    put(l, ",");
    put_u64(l, range.end);
    put(l, ")");
}

static void put_shape(lines *l, const pack_tensor *t) {
    if (t->dims == 0) put(l, "scalar");
    for (uint32_t i = 0; i < t->dims; i++) {
        if (i > 0) put(l, "x");
        put_u64(l, t->shape[i]);
    }
}

static void put_item(lines *l, const plan_item *item) {
    const pack_tensor *t = item->tensor;
    put(l, part_word(item->part));
    put(l, " ");
    put(l, t->name);
    put(l, " -> ");
    put(l, item->image);
    put(l, " ");
    put(l, dtype_name(t->dtype));
    put(l, " ");
    put_shape(l, t);
    put(l, " ");
    put(l, axis_word(item->axis));
    put(l, " ");
    put(l, unit_word(item->unit));
    put_range(l, item->range);
    put(l, " spans=");
    for (uint32_t i = 0; i < item->span_count; i++) {
        const plan_span *span = &item->spans[i];
        if (i > 0) put(l, ",");
        put_u64(l, span->offset);
        put(l, ":");
        put_u64(l, span->length);
        put(l, ":");
        put_u64(l, span->stride);
        put(l, ":");
        put_u64(l, span->count);
    }
    put(l, " bytes=");
    put_u64(l, item->bytes);
    end_line(l);
}

static void add_head(const tf_plan *plan, tf_text *text) {
    char hex[DIGEST_HEX];
    const tf_pack *pack = plan->pack;
    text_print(text, "plan 1 %s world %u rank %u\n", pack->config.family, plan->world, plan->rank);
    text_print(text, "config %s\n", digest_hex(pack->config.digest, hex));
    text_print(text, "pack %s\n", digest_hex(pack->digest, hex));
    bool equal = true;
    for (uint32_t r = 1; r < plan->world; r++)
        equal = equal && plan->weights[r] == plan->weights[0];
    if (!equal) {
        text_add(text, "weights");
        for (uint32_t r = 0; r < plan->world; r++) {
            text_char(text, ' ');
            text_u64(text, plan->weights[r]);
        }
        text_char(text, '\n');
    }
    for (int u = 0; u < (int)UNIT_COUNT; u++) {
        text_print(text, "share %s %u", unit_word((plan_unit)u), plan->units[u]);
        for (uint32_t r = 0; r < plan->world; r++)
            text_print(text, " [%u,%u)", plan->ranges[u][r].begin, plan->ranges[u][r].end);
        text_char(text, '\n');
    }
}

static void add_totals(const tf_plan *plan, tf_text *text) {
    text_print(text, "total items %u\n", plan->item_count);
    for (int c = 0; c < (int)BYTES_CATEGORIES; c++) {
        text_print(text, "total %s ", plan_category_name((plan_category)c));
        text_u64(text, plan->category_bytes[c]);
        text_char(text, '\n');
    }
    text_add(text, "total bytes ");
    text_u64(text, plan->bytes);
    text_char(text, '\n');
}

tf_status plan_write_text(const tf_plan *plan, tf_text *text, digest_state *digest, tf_error *err) {
    tf_status status = TF_OK;
    tf_text ends = {0}; /* the lines before the items, then those after them */
    lines *l = mem_take(sizeof *l);
    if (l == NULL) return tf_fail(err, TF_W_NO_MEMORY, "writing the text of a plan");
    l->text = text;
    l->digest = digest;
    add_head(plan, &ends);
    TF_TRY(text_done(&ends, err));
    deliver(l, ends.data, ends.length);
    for (uint32_t i = 0; i < plan->item_count; i++)
        put_item(l, &plan->items[i]);
    deliver(l, l->data, l->length);
    text_clear(&ends);
    add_totals(plan, &ends);
    TF_TRY(text_done(&ends, err));
    deliver(l, ends.data, ends.length);
    if (text != NULL) TF_TRY(text_done(text, err));
done:
    text_free(&ends);
    mem_free(l);
    return status;
}
