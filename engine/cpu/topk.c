#include "engine/cpu/topk.h"

#include "engine/canon/fmath.h"
#include "engine/cpu/cpu.h"

#include <string.h>

uint32_t topk_key(float value) {
    uint32_t u = fm_bits(value + 0.0f); /* -0 becomes +0 */
    return (u & 0x80000000u) != 0 ? ~u : u | 0x80000000u;
}

bool topk_is_nan(float value) {
    return (fm_bits(value) & 0x7fffffffu) > 0x7f800000u;
}

/* The k-th largest key, and how many of that very value belong to the best k. */
static uint32_t threshold(const uint32_t *keys, uint32_t n, uint32_t k, uint32_t *ties) {
    uint32_t prefix = 0;
    uint32_t mask = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
        uint32_t count[256] = {0};
        for (uint32_t i = 0; i < n; i++) {
            if ((keys[i] & mask) == prefix) count[keys[i] >> shift & 255]++;
        }
        uint32_t digit = 255;
        while (count[digit] < k)
            k -= count[digit--];
        prefix |= digit << shift;
        mask |= 255u << shift;
    }
    *ties = k;
    return prefix;
}

uint32_t topk_choose(const uint32_t *keys, uint32_t n, uint32_t k, int32_t *out) {
    uint32_t ties = 0;
    uint32_t count = 0;
    if (n <= k) {
        for (uint32_t i = 0; i < n; i++)
            out[i] = (int32_t)i;
        return n;
    }
    uint32_t least = threshold(keys, n, k, &ties);
    for (uint32_t i = 0; i < n && count < k; i++) {
        if (keys[i] < least || (keys[i] == least && ties == 0)) continue;
        if (keys[i] == least) ties--;
        out[count++] = (int32_t)i;
    }
    return count;
}

static tf_status refuse_nan(const port_launch *l, uint32_t row, uint32_t index, tf_error *err) {
    tf_fail(err, TF_W_NOT_A_NUMBER, "%s: choosing for row %u", l->name, row);
    tf_found(err, "a NaN at %u", index);
    return tf_expected(err, "numbers");
}

/* ---- blocks ---- */

void cpu_candidates_need(const cpu_device *d, const port_launch *l, size_t *worker_bytes,
                         size_t *shared_bytes) {
    const args_candidates *a = l->args;
    (void)d;
    (void)shared_bytes;
    *worker_bytes = ((size_t)a->scores.shape[1] / (size_t)a->block + 2) * sizeof(uint32_t);
}

/* Rows of `row` in sight. */
static uint32_t visible_rows(const port_where *w, uint32_t row, int64_t ratio) {
    return (uint32_t)((port_position(w, row) + 1) / ratio);
}

tf_status cpu_candidates(cpu_device *d, const port_launch *l, tf_error *err) {
    const args_candidates *a = l->args;
    uint32_t *keys = cpu_scratch(d, 0);
    uint32_t topk = (uint32_t)a->topk;
    for (uint32_t i = 0; i < l->rows; i++) {
        const float *scores = port_f32(&a->scores, i);
        uint32_t visible = visible_rows(&a->where, i, a->ratio);
        uint32_t blocks = 0;
        for (uint32_t j = 0; j < visible; j++) {
            if (topk_is_nan(scores[j])) return refuse_nan(l, i, j, err);
            uint32_t key = topk_key(scores[j]);
            blocks = j / (uint32_t)a->block + 1;
            bool first = j % (uint32_t)a->block == 0;
            if (first || key > keys[blocks - 1]) keys[blocks - 1] = key;
        }
        /* The block of the newest row in sight is always among them. */
        if (blocks > 0) keys[blocks - 1] = UINT32_MAX;
        int32_t *y = port_i32(&a->y, i);
        for (uint32_t k = topk_choose(keys, blocks, topk, y); k < topk; k++)
            y[k] = -1;
    }
    return TF_OK;
}

/* ---- rows ---- */

void cpu_topk_need(const cpu_device *d, const port_launch *l, size_t *worker_bytes,
                   size_t *shared_bytes) {
    const args_topk *a = l->args;
    (void)d;
    (void)shared_bytes;
    *worker_bytes = (size_t)a->scores.shape[1] * 2 * sizeof(uint32_t);
}

/* Keys and indexes of the rows that may be chosen, ascending. */
typedef struct eligible {
    uint32_t *keys;
    int32_t *rows;
    uint32_t count;
} eligible;

static tf_status collect(const port_launch *l, uint32_t row, uint32_t begin, uint32_t end,
                         eligible *e, tf_error *err) {
    const args_topk *a = l->args;
    const float *scores = port_f32(&a->scores, row);
    for (uint32_t j = begin; j < end; j++) {
        if (topk_is_nan(scores[j])) return refuse_nan(l, row, j, err);
        e->keys[e->count] = topk_key(scores[j]);
        e->rows[e->count++] = (int32_t)j;
    }
    return TF_OK;
}

static tf_status collect_candidates(const port_launch *l, uint32_t row, uint32_t visible,
                                    eligible *e, tf_error *err) {
    const args_topk *a = l->args;
    uint32_t block = (uint32_t)a->block;
    const int32_t *kept = port_i32(&a->candidates, row);
    tf_status status = TF_OK;
    for (uint32_t k = 0; status == TF_OK && k < a->candidates.shape[1] && kept[k] >= 0; k++) {
        uint32_t begin = (uint32_t)kept[k] * block;
        uint32_t end = begin + block < visible ? begin + block : visible;
        status = collect(l, row, begin, end, e, err);
    }
    return status;
}

tf_status cpu_topk(cpu_device *d, const port_launch *l, tf_error *err) {
    const args_topk *a = l->args;
    uint32_t topk = (uint32_t)a->topk;
    eligible e = {.keys = cpu_scratch(d, 0)};
    e.rows = (int32_t *)(e.keys + a->scores.shape[1]);
    for (uint32_t i = 0; i < l->rows; i++) {
        uint32_t visible = visible_rows(&a->where, i, a->ratio);
        e.count = 0;
        tf_status status = a->candidates.data == NULL ? collect(l, i, 0, visible, &e, err)
                                                      : collect_candidates(l, i, visible, &e, err);
        if (status != TF_OK) return status;
        int32_t *y = port_i32(&a->y, i);
        uint32_t count = topk_choose(e.keys, e.count, topk, y);
        for (uint32_t k = 0; k < topk; k++)
            y[k] = k < count ? e.rows[y[k]] : -1;
    }
    return TF_OK;
}
