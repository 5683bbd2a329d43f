/* cpu/engram - the n-gram memory: hashes, rows of the table, the gate (MODEL 4).
 *
 * Idea: hashes are integers and exact; rows are dequantised exactly; the gate's products are sums in
 * the order of cpu/rows, sixteen partials.
 * Trap: the pad sticks: once a position before the first is met, all older ones are pads too. */
#include "engine/pack/engram.h"
#include "engine/base/check.h"
#include "engine/canon/fmath.h"
#include "engine/cpu/norm.h"
#include "engine/cpu/where.h"

#include <math.h>

static int32_t *ring_at(const args_hash *a, uint32_t row, int64_t position) {
    char *base = (char *)a->ring.data + (size_t)port_slot(&a->where, row) * a->ring.slot_bytes;
    return (int32_t *)(void *)base + position % a->capacity;
}

/* Compressed ids of p, p - 1, ...; the pad from before position 0 on. */
static void look_back(const args_hash *a, uint32_t row, int64_t *newest_first) {
    const int32_t *compress = a->compress.data;
    uint32_t first = where_first(&a->where, row);
    int64_t p = port_position(&a->where, row);
    for (int64_t s = 0; s < a->ngram; s++) {
        if (p - s < 0) {
            newest_first[s] = compress[a->pad];
        } else if (s <= (int64_t)(row - first)) {
            newest_first[s] = compress[*port_i32(&a->ids, row - (size_t)s)];
        } else {
            newest_first[s] = compress[*ring_at(a, row, p - s)];
        }
    }
}

static void hash_table(const args_hash *a, const int64_t *newest_first, uint32_t table,
                       int64_t *rows) {
    const int64_t *m = a->multipliers.values + table * a->ngram;
    const int64_t *primes = a->primes.values + table * (a->ngram - 1) * a->heads;
    uint64_t r = (uint64_t)newest_first[0] * (uint64_t)m[0];
    for (int64_t s = 1; s < a->ngram; s++) {
        r ^= (uint64_t)newest_first[s] * (uint64_t)m[s];
        for (int64_t h = 0; h < a->heads; h++) {
            int64_t column = (s - 1) * a->heads + h;
            rows[column] = (int64_t)(r % (uint64_t)primes[column]);
        }
    }
}

tf_status cpu_hash(cpu_device *d, const port_launch *l, tf_error *err) {
    const args_hash *a = l->args;
    int64_t newest_first[ENGRAM_NGRAM_MAX];
    (void)d;
    (void)err;
    for (uint32_t i = 0; i < l->rows; i++) {
        look_back(a, i, newest_first);
        for (uint32_t table = 0; table < a->y.shape[1]; table++)
            hash_table(a, newest_first, table,
                       (int64_t *)a->y.data + i * a->y.stride[0] + table * a->y.stride[1]);
    }
    for (uint32_t i = 0; i < l->rows; i++)
        *ring_at(a, i, port_position(&a->where, i)) = *port_i32(&a->ids, i);
    return TF_OK;
}

static void dequantise(const args_lookup *a, int64_t row, float *y) {
    TF_ASSERT(row >= 0 && row < a->w.shape[0]);
    const uint8_t *w = (const uint8_t *)a->w.data + (size_t)row * a->w.stride[0];
    const uint8_t *scale = (const uint8_t *)a->scale.data + (size_t)row * a->scale.stride[0];
    for (uint32_t k = 0; k < a->w.shape[1]; k++)
        y[k] = f32_from_e4m3(w[k]) * f32_from_e8m0(scale[k / (uint32_t)a->block]);
}

static void lookup_row(const rows_work *w, uint32_t row, uint32_t worker) {
    const args_lookup *a = w->args;
    const int64_t *hashes = (const int64_t *)a->hashes.data + row * a->hashes.stride[0] +
                            (size_t)a->which * a->hashes.stride[1] + a->first;
    float *y = port_f32(&a->y, row);
    (void)worker;
    for (int64_t k = 0; k < a->columns; k++)
        dequantise(a, a->begins.values[k] + hashes[k], y + (size_t)k * a->y.stride[1]);
}

tf_status cpu_lookup(cpu_device *d, const port_launch *l, tf_error *err) {
    const args_lookup *a = l->args;
    rows_work w = {d, rows_steps_of(d->isa), a, lookup_row, l->rows};
    (void)err;
    rows_run(&w, (uint64_t)a->columns * a->w.shape[1]);
    return TF_OK;
}

/* x and key of one stream; the scales are taken one after the other, then 1 / sqrt(n). */
static float gate_of(const rows_work *w, const float *x, const float *key, size_t stream) {
    const args_engram *a = w->args;
    size_t n = a->streams.shape[2];
    float dot =
        w->steps->gate(x, key, port_f32(&a->q_weight, stream), port_f32(&a->k_weight, stream), n);
    dot = dot * norm_scale(w->steps, x, n, a->eps) * norm_scale(w->steps, key, n, a->eps) /
          sqrtf((float)n);
    float size = dot < 0.0f ? -dot : dot;
    float root = sqrtf(size < (float)a->floor ? (float)a->floor : size);
    return fm_sigmoid(dot < 0.0f ? -root : dot == 0.0f ? 0.0f : root); /* a NaN stays one */
}

static void engram_row(const rows_work *w, uint32_t row, uint32_t worker) {
    const args_engram *a = w->args;
    size_t n = a->streams.shape[2];
    const float *kv = port_f32(&a->kv, row);
    const float *value = kv + ROWS_STREAMS * n;
    (void)worker;
    for (size_t s = 0; s < ROWS_STREAMS; s++) {
        float *x = port_f32(&a->streams, row) + s * a->streams.stride[1];
        w->steps->add(gate_of(w, x, kv + s * n, s), value, n, x);
    }
}

tf_status cpu_engram(cpu_device *d, const port_launch *l, tf_error *err) {
    const args_engram *a = l->args;
    rows_work w = {d, rows_steps_of(d->isa), a, engram_row, l->rows};
    (void)err;
    TF_ASSERT(a->streams.shape[1] == ROWS_STREAMS);
    rows_run(&w, (uint64_t)ROWS_STREAMS * 4 * a->streams.shape[2]);
    return TF_OK;
}
