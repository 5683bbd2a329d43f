#include "engine/cpu/topk.h"

#include "engine/canon/fmath.h"
#include "engine/cpu/dot.h"
#include "engine/cpu/where.h"

/* What looking at a row costs, in multiplications of a product. */
#define SIGHT_PRODUCTS 64u

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

/* ---- rows, each by itself ---- */

/* Chooses for a row; returns 1 + the index of the first NaN it met, or 0. */
typedef uint32_t (*row_choice)(const void *args, uint32_t row, uint32_t *scratch);

typedef struct choice_job {
    const cpu_device *d;
    const void *args;
    row_choice choose;
    uint32_t *nan; /* [rows], as told by `choose` */
} choice_job;

static void choose_one(void *context, size_t index, uint32_t worker) {
    const choice_job *j = context;
    j->nan[index] = j->choose(j->args, (uint32_t)index, cpu_scratch(j->d, worker));
}

tf_status topk_refuse_nan(const port_launch *l, uint32_t row, uint32_t index, tf_error *err) {
    tf_fail(err, TF_W_NOT_A_NUMBER, "%s: choosing for row %u", l->name, row);
    tf_found(err, "a NaN at %u", index);
    return tf_expected(err, "numbers");
}

/* `sights`: rows in sight, over all rows of the step. */
static tf_status choose_rows(cpu_device *d, const port_launch *l, row_choice choose,
                             uint64_t sights, tf_error *err) {
    choice_job job = {d, l->args, choose, (uint32_t *)(void *)d->shared};
    dot_run(d, l->rows, sights * SIGHT_PRODUCTS, choose_one, &job);
    for (uint32_t i = 0; i < l->rows; i++) {
        if (job.nan[i] != 0) return topk_refuse_nan(l, i, job.nan[i] - 1, err);
    }
    return TF_OK;
}

static uint64_t all_visible(const port_where *w, uint32_t rows, int64_t ratio) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < rows; i++)
        sum += where_visible(w, i, ratio);
    return sum;
}

/* ---- blocks ---- */

void cpu_candidates_need(const cpu_device *d, const port_launch *l, size_t *worker_bytes,
                         size_t *shared_bytes) {
    const args_candidates *a = l->args;
    (void)d;
    *shared_bytes = (size_t)l->rows * sizeof(uint32_t);
    *worker_bytes = ((size_t)a->scores.shape[1] / (size_t)a->block + 2) * sizeof(uint32_t);
}

static uint32_t choose_blocks(const void *args, uint32_t row, uint32_t *keys) {
    const args_candidates *a = args;
    uint32_t topk = (uint32_t)a->topk;
    uint32_t size = (uint32_t)a->block;
    const float *scores = port_f32(&a->scores, row);
    uint32_t visible = where_visible(&a->where, row, a->ratio);
    uint32_t blocks = 0;
    for (uint32_t begin = 0; begin < visible; begin += size) {
        uint32_t end = visible - begin < size ? visible : begin + size;
        uint32_t most = 0;
        for (uint32_t j = begin; j < end; j++) {
            if (topk_is_nan(scores[j])) return j + 1;
            uint32_t key = topk_key(scores[j]);
            most = key > most ? key : most;
        }
        keys[blocks++] = most;
    }
    /* The block of the newest row in sight is always among them. */
    if (blocks > 0) keys[blocks - 1] = UINT32_MAX;
    int32_t *y = port_i32(&a->y, row);
    for (uint32_t k = topk_choose(keys, blocks, topk, y); k < topk; k++)
        y[k] = -1;
    return 0;
}

tf_status cpu_candidates(cpu_device *d, const port_launch *l, tf_error *err) {
    const args_candidates *a = l->args;
    return choose_rows(d, l, choose_blocks, all_visible(&a->where, l->rows, a->ratio), err);
}

/* ---- rows of state ---- */

void cpu_topk_need(const cpu_device *d, const port_launch *l, size_t *worker_bytes,
                   size_t *shared_bytes) {
    const args_topk *a = l->args;
    (void)d;
    *shared_bytes = (size_t)l->rows * sizeof(uint32_t);
    *worker_bytes = (size_t)a->scores.shape[1] * 2 * sizeof(uint32_t);
}

/* Keys and indexes of the rows that may be chosen, ascending. */
typedef struct eligible {
    uint32_t *keys;
    int32_t *rows;
    uint32_t count;
} eligible;

static uint32_t collect(const float *scores, uint32_t begin, uint32_t end, eligible *e) {
    for (uint32_t j = begin; j < end; j++) {
        if (topk_is_nan(scores[j])) return j + 1;
        e->keys[e->count] = topk_key(scores[j]);
        e->rows[e->count++] = (int32_t)j;
    }
    return 0;
}

static uint32_t collect_candidates(const args_topk *a, uint32_t row, uint32_t visible,
                                   eligible *e) {
    uint32_t block = (uint32_t)a->block;
    const int32_t *kept = port_i32(&a->candidates, row);
    uint32_t nan = 0;
    for (uint32_t k = 0; nan == 0 && k < a->candidates.shape[1] && kept[k] >= 0; k++) {
        uint32_t begin = (uint32_t)kept[k] * block;
        uint32_t end = begin + block < visible ? begin + block : visible;
        nan = collect(port_f32(&a->scores, row), begin, end, e);
    }
    return nan;
}

static uint32_t choose_state_rows(const void *args, uint32_t row, uint32_t *scratch) {
    const args_topk *a = args;
    uint32_t topk = (uint32_t)a->topk;
    uint32_t visible = where_visible(&a->where, row, a->ratio);
    eligible e = {.keys = scratch, .rows = (int32_t *)(scratch + a->scores.shape[1])};
    uint32_t nan = a->candidates.data == NULL ? collect(port_f32(&a->scores, row), 0, visible, &e)
                                              : collect_candidates(a, row, visible, &e);
    if (nan != 0) return nan;
    int32_t *y = port_i32(&a->y, row);
    uint32_t count = topk_choose(e.keys, e.count, topk, y);
    for (uint32_t k = 0; k < topk; k++)
        y[k] = k < count ? e.rows[y[k]] : -1;
    return 0;
}

tf_status cpu_topk(cpu_device *d, const port_launch *l, tf_error *err) {
    const args_topk *a = l->args;
    return choose_rows(d, l, choose_state_rows, all_visible(&a->where, l->rows, a->ratio), err);
}
