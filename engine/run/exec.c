#include "engine/run/exec.h"

#include "engine/base/arena.h"
#include "engine/base/check.h"
#include "engine/emit/buffers.h"
#include "engine/run/bind.h"
#include "engine/run/share.h"

#include <string.h>

/* A role of state within a slot. */
typedef struct placed {
    const char *role; /* exec owns */
    uint64_t offset;
    uint64_t bytes;
} placed;

/* Memory of an in. or out. role. */
typedef struct named {
    const char *role;
    void *data;
    uint64_t bytes;
} named;

#define NAMED_MAX 24u

struct exec {
    exec_options o;
    placed *state;
    uint32_t state_count;
    uint64_t slot_bytes;
    char *state_data;
    char *step;
    uint64_t step_bytes;
    named named[NAMED_MAX];
    uint32_t named_count;
    share share;
    uint32_t generation; /* counts moves of memory that lists point into */
    uint64_t decision;
    exec_seen seen;
    void *seen_context;
    tf_arena arena;
};

struct exec_list {
    tf_calls *calls;
    port_launch *launches; /* [calls->count] */
    uint32_t *roles;       /* [calls->buffer_count]: hash of each buffer's role */
    uint32_t generation;
    tf_arena arena;
};

/* ---- state ---- */

static uint64_t aligned(uint64_t bytes) {
    return (bytes + BUFFER_ALIGN - 1) / BUFFER_ALIGN * BUFFER_ALIGN;
}

static const placed *state_of(const exec *x, const char *role) {
    for (uint32_t i = 0; i < x->state_count; i++) {
        if (strcmp(x->state[i].role, role) == 0) return &x->state[i];
    }
    return NULL;
}

/* Roles that more than one phase names lie in one place. */
static tf_status add_state(exec *x, call_phase phase, tf_error *err) {
    emit_request r = {.phase = phase, .layer = EMIT_ALL_LAYERS, .context = x->o.context};
    tf_calls *calls = NULL;
    tf_status status = emit_calls(x->o.plan, &r, &calls, err);
    if (status != TF_OK) return status;
    placed *more = arena_array(&x->arena, x->state_count + calls->buffer_count, sizeof *more);
    if (more == NULL) status = tf_fail(err, TF_W_NO_MEMORY, "laying out a request's state");
    if (status == TF_OK && x->state_count > 0)
        memcpy(more, x->state, x->state_count * sizeof *more);
    if (status == TF_OK) x->state = more;
    for (uint32_t i = 0; status == TF_OK && i < calls->buffer_count; i++) {
        const call_buffer *b = &calls->buffers[i];
        if (!buffer_is_state(b) || state_of(x, b->role) != NULL) continue;
        placed *p = &x->state[x->state_count++];
        *p = (placed){arena_copy(&x->arena, b->role, strlen(b->role)), x->slot_bytes, b->bytes};
        if (p->role == NULL) status = tf_fail(err, TF_W_NO_MEMORY, "laying out a request's state");
        x->slot_bytes += aligned(b->bytes);
    }
    calls_free(calls);
    return status;
}

tf_status exec_open(const exec_options *options, exec **out, tf_error *err) {
    exec *x = mem_take(sizeof *x);
    if (x == NULL) return tf_fail(err, TF_W_NO_MEMORY, "opening the executor");
    x->o = *options;
    x->share = (share){.device = options->device, .exchange = options->exchange};
    arena_init(&x->arena, 0);
    tf_status status = add_state(x, PHASE_DECODE, err);
    if (status == TF_OK && options->plan->pack->config.draft_layers > 0)
        status = add_state(x, PHASE_DRAFT, err);
    void *data = NULL;
    device *d = options->device;
    if (status == TF_OK) status = d->ops->take(d, x->slot_bytes * options->slots, &data, err);
    x->state_data = data;
    if (status != TF_OK) {
        exec_close(x);
        return status;
    }
    *out = x;
    return TF_OK;
}

void exec_close(exec *x) {
    if (x == NULL) return;
    device *d = x->o.device;
    for (uint32_t i = 0; i < x->named_count; i++)
        d->ops->drop(d, x->named[i].data);
    if (x->step != NULL) d->ops->drop(d, x->step);
    if (x->state_data != NULL) d->ops->drop(d, x->state_data);
    share_close(&x->share);
    arena_free(&x->arena);
    mem_free(x);
}

void exec_observe(exec *x, exec_seen seen, void *context) {
    x->seen = seen;
    x->seen_context = context;
}

uint64_t exec_state_bytes(const exec *x) {
    return x->slot_bytes;
}

void *exec_state(exec *x, uint32_t slot) {
    TF_ASSERT(slot < x->o.slots);
    return x->state_data + slot * x->slot_bytes;
}

exec_memory exec_memory_of(const exec *x) {
    exec_memory m = {.step = x->step_bytes, .state = x->slot_bytes * x->o.slots};
    for (uint32_t i = 0; i < x->named_count; i++)
        m.named += x->named[i].bytes;
    m.stage = x->share.send.bytes + x->share.recv.bytes + x->share.ids.bytes;
    return m;
}

/* ---- memory that lists share ---- */

static named *named_find(exec *x, const char *role) {
    for (uint32_t i = 0; i < x->named_count; i++) {
        if (strcmp(x->named[i].role, role) == 0) return &x->named[i];
    }
    return NULL;
}

void *exec_named(exec *x, const char *role) {
    named *n = named_find(x, role);
    return n == NULL ? NULL : n->data;
}

/* Replaces *data by zeroed memory of `bytes` where it is smaller. */
static tf_status widen(exec *x, void **data, uint64_t *old, uint64_t bytes, tf_error *err) {
    device *d = x->o.device;
    if (bytes <= *old) return TF_OK;
    void *more = NULL;
    tf_status status = d->ops->take(d, bytes, &more, err);
    if (status != TF_OK) return status;
    if (*data != NULL) d->ops->drop(d, *data);
    d->memory_bytes -= *old;
    *data = more;
    *old = bytes;
    x->generation++;
    return TF_OK;
}

static bool is_named(const call_buffer *b) {
    return strncmp(b->role, "in.", 3) == 0 || strncmp(b->role, "out.", 4) == 0;
}

static tf_status write_token_map(exec *x, named *n, tf_error *err) {
    if (strcmp(n->role, "in.token_map") != 0) return TF_OK;
    TF_ASSERT(x->o.token_map != NULL);
    return x->o.device->ops->write(x->o.device, n->data, x->o.token_map, n->bytes, err);
}

static tf_status take_named(exec *x, const call_buffer *b, tf_error *err) {
    named *n = named_find(x, b->role);
    if (n == NULL) {
        TF_ASSERT(x->named_count < NAMED_MAX);
        const char *role = arena_copy(&x->arena, b->role, strlen(b->role));
        if (role == NULL) return tf_fail(err, TF_W_NO_MEMORY, "taking %s", b->role);
        n = &x->named[x->named_count++];
        *n = (named){.role = role};
    }
    if (b->bytes <= n->bytes) return TF_OK;
    tf_status status = widen(x, &n->data, &n->bytes, b->bytes, err);
    return status == TF_OK ? write_token_map(x, n, err) : status;
}

static tf_status take_memory(exec *x, const tf_calls *calls, tf_error *err) {
    void *step = x->step;
    tf_status status = widen(x, &step, &x->step_bytes, buffers_bytes(calls), err);
    x->step = step;
    for (uint32_t i = 0; status == TF_OK && i < calls->buffer_count; i++) {
        if (is_named(&calls->buffers[i])) status = take_named(x, &calls->buffers[i], err);
    }
    return status;
}

/* ---- binding ---- */

typedef struct finder {
    exec *x;
    exec_list *list;
} finder;

/* A role of a layer names a new buffer in the next; the call's place in the list tells which. */
static const call_buffer *buffer_at(const exec_list *list, const call *c, const char *role) {
    uint32_t hash = text_hash(role);
    const tf_calls *calls = list->calls;
    for (uint32_t i = 0; i < calls->buffer_count; i++) {
        const call_buffer *b = &calls->buffers[i];
        if (list->roles[i] != hash || c->ordinal < b->first || c->ordinal > b->last) continue;
        if (strcmp(b->role, role) == 0) return b;
    }
    return NULL;
}

static tf_status find_buffer(void *context, const call *c, const call_tensor *t, void **data,
                             tf_error *err) {
    finder *f = context;
    (void)err;
    const call_buffer *b = buffer_at(f->list, c, t->role);
    TF_ASSERT(b != NULL);
    *data = is_named(b) ? exec_named(f->x, t->role) : f->x->step + b->offset;
    return TF_OK;
}

static tf_status find_state(void *context, const call_tensor *t, void **data, size_t *slot_bytes,
                            tf_error *err) {
    finder *f = context;
    const placed *p = state_of(f->x, t->role);
    (void)err;
    TF_ASSERT(p != NULL);
    *data = f->x->state_data + p->offset;
    *slot_bytes = f->x->slot_bytes;
    return TF_OK;
}

static tf_status find_tensor(void *context, const call *c, const call_tensor *t, port_tensor *out,
                             tf_error *err) {
    finder *f = context;
    bool keep = c->kind == CALL_EMBED || c->kind == CALL_LOOKUP;
    return weights_tensor(f->x->o.weights, t->role, keep, out, err);
}

static tf_status find_linear(void *context, const call_arg *arg, port_weight *out, tf_error *err) {
    finder *f = context;
    return weights_linear(f->x->o.weights, arg, out, err);
}

static tf_status bind_one(finder *f, uint32_t index, tf_error *err) {
    const call *c = &f->list->calls->calls[index];
    port_launch *l = &f->list->launches[index];
    bind_place place = {f, find_buffer, find_state, find_tensor, find_linear};
    size_t bytes = bind_args_bytes(c->kind);
    void *args = (void *)(uintptr_t)l->args; /* bound before: the same struct again */
    if (args == NULL) args = arena_take(&f->list->arena, bytes);
    if (args == NULL) return tf_fail(err, TF_W_NO_MEMORY, "binding call %u", c->ordinal);
    memset(args, 0, bytes);
    *l = (port_launch){c->kind, c->name, (uint32_t)c->grid[0].value, args};
    tf_status status = bind_call(c, &place, args, err);
    if (status != TF_OK) return status;
    if (share_is(c->kind)) return share_reserve(&f->x->share, l, err);
    return f->x->o.device->ops->reserve(f->x->o.device, l, err);
}

static tf_status bind_all(exec *x, exec_list *list, tf_error *err) {
    finder f = {x, list};
    tf_status status = take_memory(x, list->calls, err);
    for (uint32_t i = 0; status == TF_OK && i < list->calls->count; i++)
        status = bind_one(&f, i, err);
    list->generation = x->generation;
    return status;
}

tf_status exec_bind(exec *x, tf_calls *calls, exec_list **out, tf_error *err) {
    exec_list *list = mem_take(sizeof *list);
    if (list == NULL) {
        calls_free(calls);
        return tf_fail(err, TF_W_NO_MEMORY, "binding calls");
    }
    list->calls = calls;
    arena_init(&list->arena, 0);
    list->launches = arena_array(&list->arena, calls->count, sizeof *list->launches);
    list->roles = arena_array(&list->arena, calls->buffer_count, sizeof *list->roles);
    tf_status status = TF_OK;
    if (list->launches == NULL || list->roles == NULL)
        status = tf_fail(err, TF_W_NO_MEMORY, "binding %u calls", calls->count);
    for (uint32_t i = 0; status == TF_OK && i < calls->buffer_count; i++)
        list->roles[i] = text_hash(calls->buffers[i].role);
    if (status == TF_OK) status = bind_all(x, list, err);
    if (status != TF_OK) {
        exec_drop(list);
        return status;
    }
    arena_seal(&list->arena);
    *out = list;
    return TF_OK;
}

void exec_drop(exec_list *list) {
    if (list == NULL) return;
    calls_free(list->calls);
    arena_free(&list->arena);
    mem_free(list);
}

const tf_calls *exec_calls(const exec_list *list) {
    return list->calls;
}

/* ---- walking ---- */

void exec_decided(exec *x, const void *bytes, size_t n) {
    struct {
        uint64_t before;
        tf_digest now;
    } both = {x->decision, digest_bytes(bytes, n)};
    tf_digest next = digest_bytes(&both, sizeof both);
    memcpy(&x->decision, next.bytes, sizeof x->decision);
}

tf_status exec_run(exec *x, exec_list *list, tf_error *err) {
    device *d = x->o.device;
    exchange *e = x->o.exchange;
    tf_status status = TF_OK;
    if (list->generation != x->generation) status = bind_all(x, list, err);
    for (uint32_t i = 0; status == TF_OK && i < list->calls->count; i++) {
        const port_launch *l = &list->launches[i];
        status = share_is(l->kind) ? share_run(&x->share, l, x->decision, err)
                                   : d->ops->launch(d, l, err);
        if (status != TF_OK) break;
        if (x->seen != NULL) x->seen(x->seen_context, &list->calls->calls[i], l);
        e->ops->beat(e);
    }
    return status;
}
