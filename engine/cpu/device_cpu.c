/* cpu/device_cpu - the device whose kernels run on this machine's cores. */
#include "engine/base/arena.h"
#include "engine/base/check.h"
#include "engine/base/thread.h"
#include "engine/canon/flush.h"
#include "engine/cpu/cpu.h"
#include "engine/cpu/dot.h"
#include "engine/cpu/isa.h"
#include "engine/cpu/moe.h"
#include "engine/cpu/panel.h"
#include "engine/emit/buffers.h"

#include <string.h>

struct cpu_block {
    struct cpu_block *next;
    void *memory;
};

static const struct {
    cpu_kernel run;
    cpu_need need;
} table[CALL_KINDS] = {
#define PLAIN(NAME, run)        [CALL_##NAME] = {run, NULL},
#define KERNEL(NAME, run, need) [CALL_##NAME] = {run, need},
#include "engine/cpu/kernels.def"
#undef KERNEL
#undef PLAIN
};

bool cpu_has(call_kind kind) {
    return table[kind].run != NULL;
}

static tf_status take(device *base, uint64_t bytes, void **memory, tf_error *err) {
    cpu_device *d = (cpu_device *)base;
    struct cpu_block *b = mem_take(sizeof *b);
    void *data = b == NULL ? NULL : mem_take_aligned(BUFFER_ALIGN, bytes == 0 ? 1 : bytes);
    if (data == NULL) {
        mem_free(b);
        tf_fail(err, TF_W_NO_MEMORY, "taking memory of the device");
        return tf_found(err, "%llu bytes", (unsigned long long)bytes);
    }
    memset(data, 0, bytes);
    *b = (struct cpu_block){d->blocks, data};
    d->blocks = b;
    base->memory_bytes += bytes;
    *memory = data;
    return TF_OK;
}

static void drop(device *base, void *memory) {
    cpu_device *d = (cpu_device *)base;
    for (struct cpu_block **at = &d->blocks; *at != NULL; at = &(*at)->next) {
        struct cpu_block *b = *at;
        if (b->memory != memory) continue;
        *at = b->next;
        mem_free(b->memory);
        mem_free(b);
        return;
    }
    TF_ASSERT(memory == NULL);
}

static tf_status copy_in(device *d, void *to, const void *from, size_t bytes, tf_error *err) {
    (void)d;
    (void)err;
    memcpy(to, from, bytes);
    return TF_OK;
}

static tf_status copy_out(device *d, void *to, const void *from, size_t bytes, tf_error *err) {
    return copy_in(d, to, from, bytes, err);
}

static tf_status copy_pieces(device *d, const device_pieces *p, tf_error *err) {
    char *to = p->to;
    const char *from = p->from;
    (void)d;
    (void)err;
    for (size_t i = 0; i < p->count; i++)
        memcpy(to + i * p->to_stride, from + i * p->from_stride, p->bytes);
    return TF_OK;
}

static tf_status load(device *base, const device_source *source, port_linear *out, tf_error *err) {
    void *memory = NULL;
    uint64_t bytes = panel_bytes(source);
    tf_status status = take(base, bytes, &memory, err);
    if (status != TF_OK) return status;
    base->memory_bytes -= bytes;
    base->weight_bytes += bytes;
    panel_load(source, memory, out);
    return TF_OK;
}

/* Grows one of the two scratch areas; between launches nobody holds a pointer into them. */
static tf_status grow(cpu_device *d, uint8_t **area, size_t old_bytes, size_t bytes,
                      tf_error *err) {
    uint8_t *more = mem_take_aligned(64, bytes);
    if (more == NULL) {
        tf_fail(err, TF_W_NO_MEMORY, "reserving scratch memory");
        return tf_found(err, "%zu bytes", bytes);
    }
    memset(more, 0, bytes);
    mem_free(*area);
    *area = more;
    d->base.scratch_bytes += bytes - old_bytes;
    return TF_OK;
}

static tf_status reserve(device *base, const port_launch *l, tf_error *err) {
    cpu_device *d = (cpu_device *)base;
    size_t worker = 0;
    size_t shared = 0;
    if (table[l->kind].run == NULL) {
        tf_fail(err, TF_W_NO_KERNEL, "binding call %s", call_kind_name(l->kind));
        return tf_found(err, "a kind that %s computes nothing of", base->ops->name);
    }
    if (table[l->kind].need != NULL) table[l->kind].need(d, l, &worker, &shared);
    worker = (worker + 63) / 64 * 64;
    if (worker > d->worker_bytes) {
        size_t old = d->worker_bytes * d->threads;
        tf_status status = grow(d, &d->scratch, old, worker * d->threads, err);
        if (status != TF_OK) return status;
        d->worker_bytes = worker;
    }
    if (shared > d->shared_bytes) {
        tf_status status = grow(d, &d->shared, d->shared_bytes, shared, err);
        if (status != TF_OK) return status;
        d->shared_bytes = shared;
    }
    return TF_OK;
}

static tf_status launch(device *base, const port_launch *l, tf_error *err) {
    uint64_t mode = flush_begin();
    tf_status status = table[l->kind].run((cpu_device *)base, l, err);
    flush_restore(mode);
    return status;
}

static void close_device(device *base) {
    cpu_device *d = (cpu_device *)base;
    if (d == NULL) return;
    team_close(d->team);
    while (d->blocks != NULL)
        drop(base, d->blocks->memory);
    mem_free(d->scratch);
    mem_free(d->shared);
    mem_free(d);
}

static const device_ops ops = {
    .name = "cpu",
    .close = close_device,
    .take = take,
    .drop = drop,
    .write = copy_in,
    .read = copy_out,
    .copy = copy_pieces,
    .load = load,
    .reserve = reserve,
    .launch = launch,
};

tf_status cpu_open(const device_settings *settings, device **out, tf_error *err) {
    cpu_isa isa;
    tf_status status = isa_choose(settings->isa, &isa, err);
    if (status != TF_OK) return status;
    cpu_device *d = mem_take(sizeof *d);
    if (d == NULL) return tf_fail(err, TF_W_NO_MEMORY, "opening device cpu");
    d->base.ops = &ops;
    d->base.profile = settings->profile;
    d->base.isa = cpu_isa_name(isa);
    d->isa = isa;
    d->threads = settings->threads == 0 ? thread_cores() : settings->threads;
    status = team_open(d->threads, &d->team, err);
    if (status != TF_OK) {
        mem_free(d);
        return status;
    }
    *out = &d->base;
    return TF_OK;
}
