#include "tests/support/far.h"

#include "engine/run/bind.h"

#include <stdlib.h>
#include <string.h>

/* No machine has memory there. */
#define AWAY ((uintptr_t)1 << 62)

typedef struct far_side {
    device base;
    device *near;
} far_side;

typedef struct far_end {
    exchange base;
    exchange *near;
} far_end;

bool far_is(const void *p) {
    return ((uintptr_t)p & AWAY) != 0;
}

static void *there(void *p) {
    return (void *)((uintptr_t)p | AWAY);
}

static void *here(const void *p) {
    return (void *)((uintptr_t)p & ~AWAY);
}

static device *near_of(device *d) {
    return ((far_side *)d)->near;
}

/* ---- device ---- */

static void count(device *d) {
    const device *near = near_of(d);
    d->weight_bytes = near->weight_bytes;
    d->memory_bytes = near->memory_bytes;
    d->scratch_bytes = near->scratch_bytes;
}

static void close_device(device *d) {
    near_of(d)->ops->close(near_of(d));
    free(d);
}

static tf_status take(device *d, uint64_t bytes, void **memory, tf_error *err) {
    tf_status status = near_of(d)->ops->take(near_of(d), bytes, memory, err);
    if (status == TF_OK) *memory = there(*memory);
    count(d);
    return status;
}

static void drop(device *d, void *memory) {
    near_of(d)->ops->drop(near_of(d), here(memory));
}

static tf_status copy_in(device *d, void *to, const void *from, size_t bytes, tf_error *err) {
    if (!far_is(to) || far_is(from)) abort();
    return near_of(d)->ops->write(near_of(d), here(to), from, bytes, err);
}

static tf_status copy_out(device *d, void *to, const void *from, size_t bytes, tf_error *err) {
    if (far_is(to) || !far_is(from)) abort();
    return near_of(d)->ops->read(near_of(d), to, here(from), bytes, err);
}

static tf_status copy(device *d, const device_pieces *p, tf_error *err) {
    device_pieces q = *p;
    q.to = here(p->to);
    q.from = here(p->from);
    return near_of(d)->ops->copy(near_of(d), &q, err);
}

static tf_status load(device *d, const device_source *source, port_linear *out, tf_error *err) {
    tf_status status = near_of(d)->ops->load(near_of(d), source, out, err);
    count(d);
    return status;
}

static void bring_where(port_where *w) {
    w->slots = here(w->slots);
    w->positions = here(w->positions);
}

/* The launch as the near device gets it. */
static port_launch bring(const port_launch *l, void *args) {
    port_launch near = *l;
    memcpy(args, l->args, bind_args_bytes(l->kind));
    for (const bind_field *f = bind_fields(l->kind); f->name != NULL; f++) {
        void *at = (char *)args + f->offset;
        if (f->type == FIELD_TENSOR) ((port_tensor *)at)->data = here(((port_tensor *)at)->data);
        if (f->type == FIELD_STATE) ((port_state *)at)->data = here(((port_state *)at)->data);
        if (f->type == FIELD_WHERE || f->type == FIELD_POSITIONS) bring_where(at);
    }
    near.args = args;
    return near;
}

typedef union any_args {
    char bytes[2048];
    long double aligned;
} any_args;

static tf_status reserve(device *d, const port_launch *l, tf_error *err) {
    any_args args;
    port_launch near = bring(l, args.bytes);
    return near_of(d)->ops->reserve(near_of(d), &near, err);
}

static tf_status launch(device *d, const port_launch *l, tf_error *err) {
    any_args args;
    port_launch near = bring(l, args.bytes);
    return near_of(d)->ops->launch(near_of(d), &near, err);
}

static const device_ops device_far = {"far",    close_device, take, drop,    copy_in,
                                      copy_out, copy,         load, reserve, launch};

device *far_device(device *near) {
    far_side *d = calloc(1, sizeof *d);
    if (d == NULL) abort();
    d->base = *near;
    d->base.ops = &device_far;
    d->base.remote = true;
    d->near = near;
    return &d->base;
}

/* ---- exchange ---- */

static exchange *end_of(exchange *x) {
    return ((far_end *)x)->near;
}

static tf_status gather(exchange *x, const exchange_part *part, tf_error *err) {
    exchange_part near = *part;
    if (!far_is(part->send) || !far_is(part->recv)) abort();
    near.send = here(part->send);
    near.recv = here(part->recv);
    return end_of(x)->ops->gather(end_of(x), &near, err);
}

static void beat(exchange *x) {
    end_of(x)->ops->beat(end_of(x));
}

static void stop(exchange *x, const char *reason) {
    end_of(x)->ops->stop(end_of(x), reason);
}

static tf_status check(exchange *x, tf_error *err) {
    return end_of(x)->ops->check(end_of(x), err);
}

static void close_end(exchange *x) {
    end_of(x)->ops->close(end_of(x));
    free(x);
}

static const exchange_ops exchange_far = {"far", gather, beat, stop, check, close_end};

exchange *far_exchange(exchange *near) {
    far_end *e = calloc(1, sizeof *e);
    if (e == NULL) abort();
    e->base = *near;
    e->base.ops = &exchange_far;
    e->base.remote = true;
    e->near = near;
    return &e->base;
}
