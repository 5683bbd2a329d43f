#include "engine/emit/pieces.h"

#include "engine/base/check.h"

#include <string.h>

/* The weights in the order a forward, then a draft, first touches them; each once. */

/* Parts of a linear in the plan, the largest first. */
static const char *const parts[] = {".weight", ".trellis", ".suh", ".svh", ".mul1", ".mcg"};

typedef struct touched {
    const plan_item *main; /* the item whose spans are named */
    uint32_t items;
    uint64_t bytes;
} touched;

static touched add_item(touched t, const plan_item *item) {
    if (item == NULL) return t;
    if (t.main == NULL) t.main = item;
    t.items++;
    t.bytes += item->bytes;
    return t;
}

static touched of_weight(const tf_plan *plan, const call_weight *w) {
    touched t = {0};
    int64_t members = strchr(w->stem, '{') == NULL ? 1 : w->count.value;
    for (int64_t m = 0; m < members; m++) {
        for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
            char image[TF_NAME_BYTES_MAX + 16];
            if (!call_member_image(w, w->first.value + m, parts[i], image, sizeof image)) continue;
            t = add_item(t, plan_find(plan, image));
        }
    }
    return t;
}

/* Is it a weight that no earlier call of this list touched? */
static bool is_new(const emitter *e, const char *name) {
    for (uint32_t i = e->list->count; i-- > 0;) {
        if (strcmp(e->list->calls[i].name, name) == 0) return false;
    }
    return true;
}

static void touch(emitter *e, const char *name, call_tensor w, touched t, expr_int first,
                  expr_int count) {
    if (t.main == NULL || e->err->status != TF_OK) return;
    const plan_span *span = &t.main->spans[0];
    begin_call(e, CALL_TOUCH, name);
    grid(e, num(1), num(1), num(1));
    put(e, "w", w);
    put_word(e, "file", e->layer == CALL_TOP ? "top" : "layer");
    put_int(e, "items", num(t.items));
    put_int(e, "bytes", num((int64_t)t.bytes));
    put_int(e, "offset", num((int64_t)span->offset));
    put_int(e, "length", num((int64_t)span->length));
    put_int(e, "stride", num((int64_t)span->stride));
    put_int(e, "runs", num((int64_t)span->count));
    put_int(e, "first", first);
    put_int(e, "count", count);
    end_call(e);
}

static void touch_arg(emitter *e, const call_arg *a) {
    expr_int none = num(0);
    if (a->type == ARG_WEIGHT && is_new(e, a->weight.stem)) {
        const call_weight *w = &a->weight;
        call_tensor t = {.role = w->stem, .dtype = w->dtype, .dims = 2, .shape = {w->k, w->n}};
        touch(e, w->stem, t, of_weight(e->plan, w), w->first, w->count);
    }
    if (a->type != ARG_TENSOR || strchr(a->tensor.role, '.') == NULL) return;
    const plan_item *item = plan_find(e->plan, a->tensor.role);
    if (item == NULL || !is_new(e, a->tensor.role)) return;
    touch(e, a->tensor.role, a->tensor, add_item((touched){0}, item), none, none);
}

static void touch_list(emitter *e, const tf_calls *list) {
    for (uint32_t i = 0; i < list->count; i++) {
        const call *c = &list->calls[i];
        for (uint32_t k = 0; k < c->arg_count; k++) {
            const call_arg *a = &c->args[k];
            if (a->type != ARG_WEIGHT && a->type != ARG_TENSOR) continue;
            const char *name = a->type == ARG_WEIGHT ? a->weight.stem : a->tensor.role;
            bool of_layer = strncmp(name, "layers.", 7) == 0 || strncmp(name, "mtp.", 4) == 0;
            e->layer = of_layer ? c->layer : CALL_TOP;
            touch_arg(e, a);
        }
    }
}

void emit_prefetch(emitter *e, const tf_calls *target, const tf_calls *draft) {
    e->rows = num(1);
    touch_list(e, target);
    touch_list(e, draft);
}
