#include "engine/canon/reduce.h"

#include "engine/base/check.h"

#include <stdbool.h>
#include <string.h>

/* Columns joined at a time: the stack of partial sums stays in the first-level cache. */
#define LANES 64u
/* A tree of 2^32 leaves has 33 levels; one subtree a level can wait, and one more arrives. */
#define STACK_MAX 34u

/* Does [begin, end) hold every present leaf of one node of the tree?  At the right edge a node may
 * lack leaves. */
static bool is_subtree(uint64_t begin, uint64_t end, uint64_t leaves) {
    if (begin >= end || end > leaves) return false;
    uint64_t size = 1;
    while (size < end - begin)
        size *= 2;
    return begin % size == 0 && (end == leaves || end - begin == size);
}

uint32_t canon_cover(canon_range range, uint32_t leaves, canon_range *cover) {
    TF_ASSERT(range.begin <= range.end && range.end <= leaves);
    uint32_t count = 0;
    for (uint64_t begin = range.begin; begin < range.end;) {
        uint64_t size = 1;
        /* The node twice as large fits when begin is aligned to it and its present leaves end in
         * range. */
        while (begin % (2 * size) == 0 && size < leaves &&
               (begin + 2 * size <= range.end || range.end == leaves))
            size *= 2;
        uint64_t end = begin + size < range.end ? begin + size : range.end;
        TF_ASSERT(count < CANON_COVER_MAX);
        cover[count++] = (canon_range){(uint32_t)begin, (uint32_t)end};
        begin = end;
    }
    return count;
}

/* Are a and b the two halves of one node?  Both are nodes, side by side, and what stands before a
 * was larger, or it had been joined with a: so equal sizes are enough. */
static bool are_halves(canon_range a, canon_range b) {
    return canon_size(a) == canon_size(b);
}

/* Intervals that tile one subtree, ascending; list NULL: single leaves from `first` on. */
typedef struct tiles {
    const canon_range *list;
    uint32_t first;
    uint32_t count;
} tiles;

static canon_range tile_at(const tiles *t, uint32_t i) {
    return t->list == NULL ? (canon_range){t->first + i, t->first + i + 1} : t->list[i];
}

/* Walks the tree over the tiles, for up to LANES columns.  Waiting sums are complete left subtrees
 * of falling size; what the right edge lacks is skipped by joining the last ones as they are. */
static void join_lanes(const float *parts, size_t stride, const tiles *t, size_t lanes,
                       float *out) {
    float sum[STACK_MAX][LANES];
    canon_range node[STACK_MAX];
    uint32_t depth = 0;
    for (uint32_t i = 0; i < t->count; i++) {
        TF_ASSERT(depth < STACK_MAX);
        memcpy(sum[depth], parts + i * stride, lanes * sizeof(float));
        node[depth++] = tile_at(t, i);
        bool last = i + 1 == t->count;
        while (depth > 1 && (last || are_halves(node[depth - 2], node[depth - 1]))) {
            depth--;
            for (size_t k = 0; k < lanes; k++)
                sum[depth - 1][k] = sum[depth - 1][k] + sum[depth][k];
            node[depth - 1].end = node[depth].end;
        }
    }
    TF_ASSERT(depth == 1);
    memcpy(out, sum[0], lanes * sizeof(float));
}

/*   parts   [t->count, n]   out   [n] */
static void join(const float *parts, const tiles *t, size_t n, float *out) {
    for (size_t at = 0; at < n; at += LANES) {
        size_t lanes = n - at < LANES ? n - at : LANES;
        join_lanes(parts + at, n, t, lanes, out + at);
    }
}

static tf_status check_cover(const canon_range *cover, uint32_t count, uint32_t leaves,
                             tf_error *err) {
    uint32_t next = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (cover[i].begin != next || cover[i].end <= next || cover[i].end > leaves) {
            tf_fail(err, TF_W_COVER_NOT_WHOLE, "joining partial %u of %u", i, count);
            tf_found(err, "leaves [%u,%u)", cover[i].begin, cover[i].end);
            return tf_expected(err, "an interval that begins at leaf %u of %u", next, leaves);
        }
        if (!is_subtree(cover[i].begin, cover[i].end, leaves)) {
            tf_fail(err, TF_W_COVER_NOT_ALIGNED, "joining partial %u of %u", i, count);
            tf_found(err, "leaves [%u,%u)", cover[i].begin, cover[i].end);
            return tf_expected(err, "a whole subtree of the tree over %u leaves", leaves);
        }
        next = cover[i].end;
    }
    if (next == leaves && leaves > 0) return TF_OK;
    tf_fail(err, TF_W_COVER_NOT_WHOLE, "joining %u partials", count);
    tf_found(err, "leaves up to %u", next);
    return tf_expected(err, "leaves up to %u, at least one", leaves);
}

tf_status canon_reduce(const float *parts, const canon_range *cover, uint32_t count,
                       uint32_t leaves, size_t n, float *out, tf_error *err) {
    tf_status status = check_cover(cover, count, leaves, err);
    if (status == TF_OK) join(parts, &(tiles){.list = cover, .count = count}, n, out);
    return status;
}

void canon_subtrees(const float *leaf, canon_range range, const canon_range *cover, uint32_t count,
                    size_t n, float *out) {
    for (uint32_t i = 0; i < count; i++) {
        TF_ASSERT(cover[i].begin >= range.begin && cover[i].end <= range.end);
        const float *from = leaf + (size_t)(cover[i].begin - range.begin) * n;
        tiles own = {.first = cover[i].begin, .count = canon_size(cover[i])};
        join(from, &own, n, out + i * n);
    }
}
