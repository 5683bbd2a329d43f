#include "engine/emit/buffers.h"

#include "engine/base/arena.h"
#include "engine/emit/calltext.h"

#include <stdlib.h>
#include <string.h>

bool buffer_is_step(const call_buffer *b) {
    return (b->role[0] == 'x' || b->role[0] == 'L') && b->role[1] == '.';
}

bool buffer_is_state(const call_buffer *b) {
    return (b->role[0] == 's' || b->role[0] == 'w') && b->role[1] == '.';
}

uint64_t buffers_bytes(const tf_calls *calls) {
    return calls->step_bytes;
}

static uint64_t aligned(uint64_t bytes) {
    return (bytes + BUFFER_ALIGN - 1) / BUFFER_ALIGN * BUFFER_ALIGN;
}

static int by_offset(const void *a, const void *b) {
    const call_buffer *x = *(const call_buffer *const *)a;
    const call_buffer *y = *(const call_buffer *const *)b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* The lowest gap between the neighbours (by offset) that is wide enough. */
static uint64_t lowest_gap(call_buffer *const *alive, size_t count, uint64_t bytes) {
    uint64_t at = 0;
    for (size_t i = 0; i < count; i++) {
        if (alive[i]->offset >= at + bytes) return at;
        uint64_t end = alive[i]->offset + aligned(alive[i]->bytes);
        if (end > at) at = end;
    }
    return at;
}

static int by_first(const void *a, const void *b) {
    const call_buffer *x = *(const call_buffer *const *)a;
    const call_buffer *y = *(const call_buffer *const *)b;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return x < y ? -1 : x > y;
}

tf_status buffers_place(tf_calls *calls, tf_error *err) {
    uint32_t count = calls->buffer_count;
    call_buffer **order = mem_take((size_t)count * sizeof *order);
    call_buffer **alive = mem_take((size_t)count * sizeof *alive);
    if (order == NULL || alive == NULL) {
        mem_free(order);
        mem_free(alive);
        return tf_fail(err, TF_W_NO_MEMORY, "placing buffers");
    }
    uint32_t placed = 0;
    for (uint32_t i = 0; i < count; i++) {
        call_buffer *b = &calls->buffers[i];
        if (buffer_is_state(b)) calls->state_bytes += b->bytes;
        if (buffer_is_step(b) && b->first != UINT32_MAX) order[placed++] = b;
    }
    if (placed > 0) qsort(order, placed, sizeof *order, by_first);
    size_t living = 0;
    for (uint32_t i = 0; i < placed; i++) {
        size_t kept = 0;
        for (size_t k = 0; k < living; k++) {
            if (alive[k]->last >= order[i]->first) alive[kept++] = alive[k];
        }
        living = kept;
        order[i]->offset = lowest_gap(alive, living, order[i]->bytes);
        uint64_t end = order[i]->offset + aligned(order[i]->bytes);
        if (end > calls->step_bytes) calls->step_bytes = end;
        alive[living++] = order[i];
        qsort(alive, living, sizeof *alive, by_offset);
    }
    mem_free(order);
    mem_free(alive);
    return TF_OK;
}

static void describe_one(const call_buffer *b, bool json, bool first, tf_text *out) {
    if (json) {
        text_add(out, first ? "{\"role\":" : ",{\"role\":");
        text_json(out, b->role);
        text_print(out, ",\"layer\":");
        if (b->role[0] == 'L' && b->layer != CALL_TOP) {
            text_u64(out, b->layer);
        } else {
            text_add(out, "null");
        }
        text_print(out, ",\"dtype\":\"%s\",\"shape\":[", dtype_name(b->dtype));
        for (uint32_t d = 0; d < b->dims; d++)
            text_print(out, "%s%lld", d == 0 ? "" : ",", (long long)b->shape[d].value);
        text_print(out, "],\"bytes\":%llu,\"first\":%u,\"last\":%u}", (unsigned long long)b->bytes,
                   b->first, b->last);
        return;
    }
    text_print(out, "%12llu  ", (unsigned long long)b->bytes);
    if (b->role[0] == 'L') {
        calltext_layer(b->layer, out);
        text_add(out, b->role + 1);
    } else {
        text_add(out, b->role);
    }
    text_print(out, " %s[", dtype_name(b->dtype));
    for (uint32_t d = 0; d < b->dims; d++) {
        text_print(out, "%s%lld", d == 0 ? "" : ",", (long long)b->shape[d].value);
        if (b->shape[d].text != NULL) text_print(out, "{%s}", b->shape[d].text);
    }
    text_print(out, "] calls %u-%u\n", b->first, b->last);
}

void buffers_describe(const tf_calls *calls, bool json, tf_text *out) {
    if (json) {
        text_print(out, "{\"step_bytes\":%llu,\"state_bytes\":%llu,\"buffers\":[",
                   (unsigned long long)calls->step_bytes, (unsigned long long)calls->state_bytes);
    }
    bool first = true;
    for (uint32_t i = 0; i < calls->buffer_count; i++) {
        if (calls->buffers[i].first == UINT32_MAX) continue;
        describe_one(&calls->buffers[i], json, first, out);
        first = false;
    }
    if (json) {
        text_add(out, "]}");
        return;
    }
    text_print(out, "step  %llu bytes at the peak (x. and L.)\n",
               (unsigned long long)calls->step_bytes);
    text_print(out, "state %llu bytes a request of %llu positions (s. and w.)\n",
               (unsigned long long)calls->state_bytes, (unsigned long long)calls->context);
}
