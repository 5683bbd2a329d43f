#include "engine/emit/build.h"

#include "engine/base/check.h"
#include "engine/canon/reduce.h"

#include <stdio.h>
#include <string.h>

void emit_fail(emitter *e, tf_word word, const char *what) {
    tf_fail(e->err, word, "emitting %s calls: %s", call_phase_name(e->list->phase), what);
}

static void out_of_memory(emitter *e) {
    emit_fail(e, TF_W_NO_MEMORY, "no memory for the list");
}

/* ---- numbers ---- */

expr_int sym(emitter *e, expr_symbol symbol) {
    return expr_of(&e->scope, symbol);
}

expr_int times(emitter *e, expr_symbol symbol, int64_t factor) {
    return expr_times(&e->scope, symbol, factor);
}

expr_int mul(emitter *e, expr_int a, expr_int b) {
    return expr_mul(&e->scope, a, b);
}

/* ---- buffers ---- */

static call_buffer *find_buffer(emitter *e, const char *role) {
    tf_calls *list = e->list;
    if (role[0] == 'L') {
        for (uint32_t i = list->buffer_count; i-- > e->layer_begin;) {
            if (strcmp(list->buffers[i].role, role) == 0) return &list->buffers[i];
        }
        return NULL;
    }
    for (uint32_t i = e->lasting_count; i-- > 0;) {
        call_buffer *b = &list->buffers[e->lasting[i]];
        if (strcmp(b->role, role) == 0) return b;
    }
    return NULL;
}

/* Doubles a heap array when it is full; false when memory is out. */
static bool room_for(emitter *e, void **array, uint32_t count, uint32_t *capacity, size_t size) {
    if (count < *capacity) return true;
    uint32_t wanted = *capacity == 0 ? 256 : *capacity * 2;
    void *grown = mem_grow(*array, wanted * size);
    if (grown == NULL) {
        out_of_memory(e);
        return false;
    }
    *array = grown;
    *capacity = wanted;
    return true;
}

void set_layer(emitter *e, uint32_t layer) {
    if (layer != e->layer) e->layer_begin = e->list->buffer_count;
    e->layer = layer;
    const tf_config *c = e->config;
    if (layer == CALL_TOP) {
        e->prefix[0] = '\0';
    } else if (layer < c->target_layers) {
        snprintf(e->prefix, sizeof e->prefix, "layers.%u", layer);
    } else {
        snprintf(e->prefix, sizeof e->prefix, "mtp.%u", layer - c->target_layers);
    }
}

static bool same_shape(const call_buffer *b, const call_tensor *t) {
    if (b->dims != t->dims || b->dtype != t->dtype) return false;
    for (uint32_t i = 0; i < t->dims; i++) {
        if (b->shape[i].value != t->shape[i].value) return false;
    }
    return true;
}

static void declare(emitter *e, const call_tensor *t) {
    tf_calls *list = e->list;
    call_buffer *old = find_buffer(e, t->role);
    bool per_layer = t->role[0] == 'L';
    if (old != NULL && same_shape(old, t)) return;
    /* Only a layer's own scratch may come back in another shape, as another buffer. */
    TF_ASSERT(old == NULL || per_layer);
    void *buffers = list->buffers;
    void *lasting = e->lasting;
    bool room =
        room_for(e, &buffers, list->buffer_count, &list->buffer_capacity, sizeof *list->buffers) &&
        room_for(e, &lasting, e->lasting_count, &e->lasting_capacity, sizeof *e->lasting);
    list->buffers = buffers;
    e->lasting = lasting;
    if (!room) return;
    if (!per_layer) e->lasting[e->lasting_count++] = list->buffer_count;
    call_buffer *b = &list->buffers[list->buffer_count++];
    *b = (call_buffer){.role = t->role,
                       .dtype = t->dtype,
                       .dims = t->dims,
                       .layer = e->layer,
                       .first = UINT32_MAX};
    uint64_t bytes = dtype_bytes(t->dtype);
    for (uint32_t i = 0; i < t->dims; i++) {
        b->shape[i] = t->shape[i];
        if (__builtin_mul_overflow(bytes, (uint64_t)t->shape[i].value, &bytes))
            e->scope.broken = true;
    }
    b->bytes = bytes;
}

static call_tensor buffer_of(emitter *e, const char *role, tf_dtype dtype, uint32_t dims,
                             const expr_int *shape) {
    call_tensor t = {.role = role, .dtype = dtype, .dims = dims};
    for (uint32_t i = 0; i < dims; i++)
        t.shape[i] = shape[i];
    if (role != NULL) declare(e, &t);
    return t;
}

call_tensor buffer1(emitter *e, const char *role, tf_dtype dtype, expr_int a) {
    return buffer_of(e, role, dtype, 1, (expr_int[]){a});
}

call_tensor buffer2(emitter *e, const char *role, tf_dtype dtype, expr_int a, expr_int b) {
    return buffer_of(e, role, dtype, 2, (expr_int[]){a, b});
}

call_tensor buffer3(emitter *e, const char *role, tf_dtype dtype, expr_int a, expr_int b,
                    expr_int c) {
    return buffer_of(e, role, dtype, 3, (expr_int[]){a, b, c});
}

call_tensor buffer4(emitter *e, const char *role, tf_dtype dtype, expr_int a, expr_int b,
                    expr_int c, expr_int d) {
    return buffer_of(e, role, dtype, 4, (expr_int[]){a, b, c, d});
}

const char *state_role(emitter *e, char prefix, uint32_t layer, const char *what) {
    const char *role = arena_print(&e->list->arena, "%c.L%u.%s", prefix, layer, what);
    if (role == NULL) out_of_memory(e);
    return role;
}

call_tensor reshape2(call_tensor t, expr_int a, expr_int b) {
    TF_ASSERT(!t.is_view);
    t.dims = 2;
    t.shape[0] = a;
    t.shape[1] = b;
    return t;
}

call_tensor reshape3(call_tensor t, expr_int a, expr_int b, expr_int c) {
    TF_ASSERT(!t.is_view);
    t.dims = 3;
    t.shape[0] = a;
    t.shape[1] = b;
    t.shape[2] = c;
    return t;
}

static void set_strides(emitter *e, call_tensor *t) {
    if (t->is_view) return;
    expr_int stride = num(1);
    for (uint32_t i = t->dims; i-- > 0;) {
        t->stride[i] = stride;
        stride = mul(e, stride, t->shape[i]);
    }
    t->is_view = true;
}

call_tensor row_of(emitter *e, call_tensor t, expr_int index) {
    set_strides(e, &t);
    t.offset = expr_add(&e->scope, t.offset, mul(e, index, t.stride[0]));
    t.shape[0] = num(1);
    return t;
}

call_tensor columns_of(emitter *e, call_tensor t, expr_int first, expr_int count) {
    set_strides(e, &t);
    t.offset = expr_add(&e->scope, t.offset, first);
    t.shape[t.dims - 1] = count;
    return t;
}

/* ---- weights ---- */

static const char *image_of(emitter *e, const char *name, const char *part) {
    const char *dot = e->prefix[0] == '\0' ? "" : ".";
    const char *image = arena_print(&e->list->arena, "%s%s%s%s", e->prefix, dot, name, part);
    if (image == NULL) out_of_memory(e);
    return image;
}

static void no_such_weight(emitter *e, const char *image) {
    if (e->err->status != TF_OK) return;
    tf_fail(e->err, TF_W_WEIGHTS_DIFFER, "emitting %s calls: weight %s",
            call_phase_name(e->list->phase), image);
    tf_found(e->err, "no such item in the plan of rank %u", e->plan->rank);
    tf_expected(e->err, "one, for its layer");
}

call_tensor tensor_weight(emitter *e, const char *name) {
    call_tensor t = {.role = image_of(e, name, ""), .dims = 1};
    const plan_item *item = t.role == NULL ? NULL : plan_find(e->plan, t.role);
    if (item == NULL) {
        if (t.role != NULL) no_such_weight(e, t.role);
        return t;
    }
    t.dtype = item->tensor->dtype;
    t.dims = item->tensor->dims;
    TF_ASSERT(t.dims >= 1 && t.dims <= CALL_DIMS_MAX);
    for (uint32_t i = 0; i < t.dims; i++)
        t.shape[i] = num((int64_t)item->shape[i]);
    return t;
}

static void check_size(emitter *e, const char *image, const char *axis, uint64_t found,
                       expr_int wanted) {
    if (e->err->status != TF_OK || found == (uint64_t)wanted.value) return;
    tf_fail(e->err, TF_W_WEIGHTS_DIFFER, "emitting %s calls: weight %s",
            call_phase_name(e->list->phase), image);
    tf_found(e->err, "%s of %llu in the plan", axis, (unsigned long long)found);
    tf_expected(e->err, "%lld%s%s", (long long)wanted.value, wanted.text == NULL ? "" : " = ",
                wanted.text == NULL ? "" : wanted.text);
}

call_tensor split_weight(emitter *e, const char *name, expr_int rows) {
    call_tensor t = tensor_weight(e, name);
    check_size(e, t.role, "rows", (uint64_t)t.shape[0].value, rows);
    t.shape[0] = rows;
    return t;
}

static const plan_item *find_part(emitter *e, const call_weight *w, int64_t index,
                                  const char *part) {
    char image[TF_NAME_BYTES_MAX + 16];
    if (!call_member_image(w, index, part, image, sizeof image)) return NULL;
    return plan_find(e->plan, image);
}

/* The codebook is the linear's marker; the planner holds a projection to one. */
static const char *codebook_of(emitter *e, const call_weight *w, int64_t index) {
    if (find_part(e, w, index, ".mul1") != NULL) return "mul1";
    return find_part(e, w, index, ".mcg") != NULL ? "mcg" : "default";
}

/* Form, dtype and bits of one stored linear, its sizes held against those the model asks for. */
static void read_linear(emitter *e, call_weight *w, int64_t index) {
    const plan_item *item = e->config->exl3 ? find_part(e, w, index, ".trellis") : NULL;
    if (item != NULL) {
        w->form = WEIGHT_EXL3;
        w->dtype = item->tensor->dtype;
        w->bits2 = (uint32_t)(item->tensor->shape[2] / 8);
        check_size(e, w->stem, "K", item->shape[0] * 16, w->k);
        check_size(e, w->stem, "N", item->shape[1] * 16, w->n);
        return;
    }
    item = find_part(e, w, index, ".weight");
    if (item == NULL) {
        no_such_weight(e, w->stem);
        return;
    }
    w->form = WEIGHT_PLAIN;
    w->dtype = item->tensor->dtype;
    check_size(e, w->stem, "N", item->shape[0], w->n);
    check_size(e, w->stem, "K", item->shape[1], w->k);
}

call_weight linear(emitter *e, const char *name, expr_int k, expr_int n) {
    call_weight w = {.stem = image_of(e, name, ""), .k = k, .n = n};
    if (w.stem == NULL) return w;
    read_linear(e, &w, 0);
    if (w.form == WEIGHT_EXL3) w.codebook = codebook_of(e, &w, 0);
    return w;
}

/* Reads every member; widths that differ are listed one by one. */
static call_weight family(emitter *e, const char *name, expr_int k, expr_int n, expr_int first,
                          expr_int count) {
    call_weight w = {.stem = image_of(e, name, ""), .k = k, .n = n, .first = first, .count = count};
    if (e->err->status != TF_OK) return w;
    uint16_t *each = arena_array(&e->list->arena, (size_t)count.value, sizeof *each);
    if (each == NULL) {
        out_of_memory(e);
        return w;
    }
    bool ragged = false;
    for (int64_t i = 0; i < count.value && e->err->status == TF_OK; i++) {
        read_linear(e, &w, first.value + i);
        each[i] = (uint16_t)w.bits2;
        ragged = ragged || each[i] != each[0];
    }
    if (w.form == WEIGHT_EXL3) w.codebook = codebook_of(e, &w, first.value);
    if (ragged) {
        w.bits2 = 0;
        w.each = each;
    }
    return w;
}

call_weight expert_family(emitter *e, const char *name, expr_int k, expr_int n, uint32_t count) {
    return family(e, name, k, n, num(0), num(count));
}

call_weight group_family(emitter *e, const char *name, expr_int k, expr_int n) {
    return family(e, name, k, n, sym(e, EXPR_FIRST_GROUP), sym(e, EXPR_GROUPS));
}

/* ---- calls ---- */

void begin_call(emitter *e, call_kind kind, const char *name) {
    tf_calls *list = e->list;
    TF_ASSERT(e->open == NULL);
    void *calls = list->calls;
    bool room = room_for(e, &calls, list->count, &list->capacity, sizeof *list->calls);
    list->calls = calls;
    if (!room) return;
    uint32_t args = call_kind_arg_count(kind);
    TF_ASSERT(args <= CALL_ARGS_MAX);
    call_arg *memory = arena_array(&list->arena, args, sizeof *memory);
    if (memory == NULL) {
        out_of_memory(e);
        return;
    }
    e->open = &list->calls[list->count];
    *e->open = (call){
        .ordinal = list->count,
        .layer = e->layer,
        .kind = kind,
        .name = name,
        .grid = {e->rows, num(1), num(1)},
        .collective = kind >= CALL_SHARE_PARTIALS && kind <= CALL_SHARE_BEST,
        .args = memory,
    };
}

void grid(emitter *e, expr_int rows, expr_int units, expr_int leaves) {
    if (e->open == NULL) return;
    e->open->grid[0] = rows;
    e->open->grid[1] = units;
    e->open->grid[2] = leaves;
}

/* The next argument, which must be the one that kinds.def lists; NULL after a failure. */
static call_arg *next(emitter *e, const char *name, arg_type type) {
    if (e->open == NULL) return NULL;
    TF_ASSERT(call_kind_takes(e->open->kind, e->open->arg_count, name));
    call_arg *arg = &e->open->args[e->open->arg_count++];
    arg->name = name;
    arg->type = type;
    return arg;
}

void put(emitter *e, const char *name, call_tensor tensor) {
    if (e->open != NULL && tensor.role == NULL) {
        put_none(e, name);
        return;
    }
    call_arg *arg = next(e, name, ARG_TENSOR);
    if (arg == NULL) return;
    arg->tensor = tensor;
    call_buffer *b = find_buffer(e, tensor.role);
    /* A layer's scratch named from another layer would lie in memory given away. */
    TF_ASSERT(b != NULL || !call_role_is_buffer(tensor.role) || e->err->status != TF_OK);
    if (b == NULL) return;
    if (b->first == UINT32_MAX) b->first = e->open->ordinal;
    b->last = e->open->ordinal;
}

void put_weight(emitter *e, const char *name, call_weight weight) {
    call_arg *arg = next(e, name, ARG_WEIGHT);
    if (arg != NULL) arg->weight = weight;
}

void put_int(emitter *e, const char *name, expr_int value) {
    call_arg *arg = next(e, name, ARG_INT);
    if (arg != NULL) arg->i = value;
}

void put_real(emitter *e, const char *name, double value) {
    call_arg *arg = next(e, name, ARG_REAL);
    if (arg != NULL) arg->f = value;
}

void put_bool(emitter *e, const char *name, bool value) {
    call_arg *arg = next(e, name, ARG_BOOL);
    if (arg != NULL) arg->b = value;
}

void put_word(emitter *e, const char *name, const char *word) {
    call_arg *arg = next(e, name, ARG_WORD);
    if (arg != NULL) arg->word = word;
}

void put_none(emitter *e, const char *name) {
    next(e, name, ARG_NONE);
}

int64_t *emit_ints(emitter *e, uint32_t count) {
    int64_t *values = arena_array(&e->list->arena, count, sizeof *values);
    if (values == NULL) out_of_memory(e);
    return values;
}

void put_ints(emitter *e, const char *name, const int64_t *values, uint32_t count,
              const char *text) {
    call_arg *arg = next(e, name, ARG_INTS);
    if (arg == NULL) return;
    arg->ints.values = values;
    arg->ints.count = values == NULL ? 0 : count;
    arg->ints.text = text;
}

void put_slots(emitter *e) {
    put(e, "slots", e->slots);
}

void put_positions(emitter *e) {
    put(e, "positions", e->positions);
    if (e->chunk) {
        put_int(e, "start", sym(e, EXPR_START));
    } else {
        put_none(e, "start");
    }
}

void put_where(emitter *e) {
    put_slots(e);
    put_positions(e);
}

void end_call(emitter *e) {
    if (e->open == NULL) return;
    TF_ASSERT(e->open->arg_count == call_kind_arg_count(e->open->kind));
    e->open = NULL;
    e->list->count++;
}

/* ---- splits ---- */

static uint32_t cover_of(const emitter *e, plan_unit unit, uint32_t rank,
                         canon_range cover[CANON_COVER_MAX]) {
    return canon_cover(e->plan->ranges[unit][rank], e->plan->units[unit], cover);
}

uint32_t cover_count(emitter *e, plan_unit unit) {
    canon_range cover[CANON_COVER_MAX];
    return cover_of(e, unit, e->plan->rank, cover);
}

uint32_t all_cover_count(emitter *e, plan_unit unit) {
    canon_range cover[CANON_COVER_MAX];
    uint32_t count = 0;
    for (uint32_t r = 0; r < e->plan->world; r++)
        count += cover_of(e, unit, r, cover);
    return count;
}

void put_cover(emitter *e, const char *name, plan_unit unit) {
    canon_range cover[CANON_COVER_MAX];
    uint32_t count = cover_of(e, unit, e->plan->rank, cover);
    int64_t *values = emit_ints(e, 2 * count);
    for (uint32_t i = 0; values != NULL && i < count; i++) {
        values[2 * i] = cover[i].begin;
        values[2 * i + 1] = cover[i].end;
    }
    put_ints(e, name, values, 2 * count, unit == UNIT_GROUP ? "cover(g0,g)" : "cover(b0,b)");
}

void put_all_covers(emitter *e, plan_unit unit, bool owners) {
    uint32_t count = all_cover_count(e, unit);
    int64_t *values = emit_ints(e, 2 * count);
    int64_t *who = emit_ints(e, count);
    uint32_t at = 0;
    for (uint32_t r = 0; values != NULL && who != NULL && r < e->plan->world; r++) {
        canon_range cover[CANON_COVER_MAX];
        uint32_t n = cover_of(e, unit, r, cover);
        for (uint32_t i = 0; i < n; i++, at++) {
            values[2 * at] = cover[i].begin;
            values[2 * at + 1] = cover[i].end;
            who[at] = r;
        }
    }
    put_ints(e, "cover", values, 2 * count, "covers(W)");
    if (owners) put_ints(e, "owners", who, count, "owners(W)");
}

void put_begins(emitter *e, plan_unit unit, int64_t scale) {
    int64_t *values = emit_ints(e, e->plan->world + 1);
    for (uint32_t r = 0; values != NULL && r < e->plan->world; r++) {
        values[r] = (int64_t)e->plan->ranges[unit][r].begin * scale;
        values[r + 1] = (int64_t)e->plan->ranges[unit][r].end * scale;
    }
    put_ints(e, "begins", values, e->plan->world + 1, "begins(W)");
}
