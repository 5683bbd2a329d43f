/* The canonical sum: the tree written recursively is the truth; every way of sharing its leaves
 * must give the same bits. */
#include "engine/base/arena.h"
#include "engine/base/limits.h"
#include "engine/canon/reduce.h"
#include "tests/support/check.h"

#include <math.h>
#include <string.h>

#define LEAVES_MAX  300u
#define COLUMNS_MAX 150u

static uint64_t next_power(uint64_t n) {
    uint64_t p = 1;
    while (p < n)
        p *= 2;
    return p;
}

/* Sum of the node [begin, begin+size) over the leaves that exist, for one column. */
static float tree_sum(const float *leaf, uint64_t leaves, uint64_t begin, uint64_t size,
                      size_t stride) {
    if (size == 1) return leaf[begin * stride];
    uint64_t half = size / 2;
    float left = tree_sum(leaf, leaves, begin, half, stride);
    if (begin + half >= leaves) return left;
    return left + tree_sum(leaf, leaves, begin + half, half, stride);
}

static float random_float(check_random *r) {
    uint64_t kind = check_below(r, 12);
    if (kind == 0) return -0.0f;
    if (kind == 1) return 0.0f;
    float scale = ldexpf(1.0f, (int)check_below(r, 40) - 20);
    return ((float)(check_next(r) >> 40) / 8388608.0f - 1.0f) * scale;
}

static bool same_bits(const float *a, const float *b, size_t n) {
    return memcmp(a, b, n * sizeof *a) == 0;
}

typedef struct {
    float leaf[LEAVES_MAX * COLUMNS_MAX];
    float parts[LEAVES_MAX * COLUMNS_MAX];
    float out[COLUMNS_MAX];
    float want[COLUMNS_MAX];
    canon_range cover[LEAVES_MAX];
} scene;

/* Shares the leaves by `ranges`, pre-adds on each rank, joins; out is the sum. */
static tf_status sum_shared(scene *s, const canon_range *ranges, uint32_t world, uint32_t leaves,
                            size_t n) {
    uint32_t count = 0;
    for (uint32_t r = 0; r < world; r++) {
        canon_range own[CANON_COVER_MAX];
        uint32_t have = canon_cover(ranges[r], leaves, own);
        canon_subtrees(s->leaf + ranges[r].begin * n, ranges[r], own, have, n,
                       s->parts + count * n);
        memcpy(s->cover + count, own, have * sizeof *own);
        count += have;
    }
    tf_error err = {0};
    return canon_reduce(s->parts, s->cover, count, leaves, n, s->out, &err);
}

/* Cuts [0, leaves) at random places. */
static uint32_t random_cut(check_random *r, uint32_t leaves, canon_range *ranges) {
    uint32_t world = 0, begin = 0;
    while (begin < leaves) {
        uint32_t most = leaves - begin;
        uint32_t size = 1 + (uint32_t)check_below(r, check_below(r, 3) == 0 ? most : most / 3 + 1);
        if (size > most) size = most;
        ranges[world++] = (canon_range){begin, begin + size};
        begin += size;
    }
    return world;
}

static void any_sharing_gives_the_tree_sum(check_case *t) {
    check_random r = check_seed(t);
    scene *s = mem_take(sizeof *s);
    canon_range ranges[LEAVES_MAX];
    for (int round = 0; round < 2000; round++) {
        uint32_t leaves = 1 + (uint32_t)check_below(&r, round % 50 == 0 ? LEAVES_MAX : 40);
        size_t n = 1 + (size_t)check_below(&r, round % 50 == 1 ? COLUMNS_MAX : 5);
        for (size_t i = 0; i < leaves * n; i++)
            s->leaf[i] = random_float(&r);
        for (size_t k = 0; k < n; k++)
            s->want[k] = tree_sum(s->leaf + k, leaves, 0, next_power(leaves), n);
        for (int cut = 0; cut < 4; cut++) {
            uint32_t world = random_cut(&r, leaves, ranges);
            if (cut == 0) {
                ranges[0] = (canon_range){0, leaves};
                world = 1;
            }
            if (!CHECK_U64(t, sum_shared(s, ranges, world, leaves, n), TF_OK)) goto done;
            if (!CHECKF(t, same_bits(s->out, s->want, n),
                        "%u leaves over %u ranks differ from the tree", leaves, world))
                goto done;
        }
    }
done:
    mem_free(s);
}

static void an_absent_leaf_is_never_added_as_zero(check_case *t) {
    scene *s = mem_take(sizeof *s);
    for (uint32_t leaves = 1; leaves <= 65; leaves++) {
        for (uint32_t i = 0; i < leaves; i++)
            s->leaf[i] = -0.0f;
        for (uint32_t world = 1; world <= leaves && world <= 8; world++) {
            canon_range ranges[8];
            tf_error err = {0};
            canon_split split = {world, NULL};
            CHECK_U64(t, canon_partition("leaves", leaves, &split, ranges, &err), TF_OK);
            CHECK_U64(t, sum_shared(s, ranges, world, leaves, 1), TF_OK);
            if (!CHECKF(t, s->out[0] == 0.0f && signbit(s->out[0]), "%u leaves, world %u: %g",
                        leaves, world, (double)s->out[0]))
                goto done;
        }
    }
done:
    mem_free(s);
}

/* The order is visible: (a + b) + c differs from a + (b + c) here. */
static void the_tree_is_not_a_chain(check_case *t) {
    float leaf[6] = {1.0f, 0x1p-24f, 0x1p-24f, 0x1p-24f, 0x1p-24f, 0x1p-24f};
    scene *s = mem_take(sizeof *s);
    memcpy(s->leaf, leaf, sizeof leaf);
    canon_range all = {0, 6};
    CHECK_U64(t, sum_shared(s, &all, 1, 6, 1), TF_OK);
    /* ((1 + e) + (e + e)) + (e + e), e half an ulp of 1: the first sum rounds to 1. */
    float want = ((1.0f + 0x1p-24f) + 0x1p-23f) + 0x1p-23f;
    CHECKF(t, same_bits(s->out, &want, 1), "%a instead of %a", (double)s->out[0], (double)want);
    CHECK(t, want != 1.0f);
    mem_free(s);
}

static bool in_one_subtree(uint64_t begin, uint64_t size, canon_range range, uint32_t leaves) {
    uint64_t end = begin + size < leaves ? begin + size : leaves;
    return begin >= range.begin && end <= range.end && begin < end;
}

static void cover_is_whole_aligned_and_maximal(check_case *t) {
    check_random r = check_seed(t);
    for (int round = 0; round < 3000; round++) {
        uint32_t leaves = 1 + (uint32_t)check_below(&r, round % 3 == 0 ? UINT32_MAX : 70);
        uint32_t begin = (uint32_t)check_below(&r, leaves);
        uint32_t end = begin + 1 + (uint32_t)check_below(&r, leaves - begin);
        canon_range range = {begin, end}, cover[CANON_COVER_MAX];
        uint32_t count = canon_cover(range, leaves, cover);
        uint64_t next = begin;
        for (uint32_t i = 0; i < count; i++) {
            if (!CHECKF(t, cover[i].begin == next && cover[i].end > next,
                        "[%u,%u) of %u: interval %u begins at %u", begin, end, leaves, i,
                        cover[i].begin))
                return;
            next = cover[i].end;
            uint64_t size = next_power(canon_size(cover[i]));
            CHECKF(t, cover[i].begin % size == 0, "[%u,%u) is not aligned", cover[i].begin,
                   cover[i].end);
            CHECKF(t, canon_size(cover[i]) == size || cover[i].end == leaves,
                   "[%u,%u) is no subtree", cover[i].begin, cover[i].end);
            /* No subtree around it lies in the range too, unless it holds the same leaves. */
            uint64_t up = cover[i].begin / (2 * size) * (2 * size);
            bool same = up == cover[i].begin && cover[i].end == leaves;
            if (!CHECKF(t, same || !in_one_subtree(up, 2 * size, range, leaves),
                        "[%u,%u) of [%u,%u) could be larger", cover[i].begin, cover[i].end, begin,
                        end))
                return;
        }
        if (!CHECK_U64(t, next, end)) return;
    }
    canon_range none[CANON_COVER_MAX];
    CHECK_U64(t, canon_cover((canon_range){3, 3}, 8, none), 0);
}

static void cover_of_the_real_shares(check_case *t) {
    canon_range c[CANON_COVER_MAX];
    /* 18 expert blocks at world 3: [6,12) is [6,8) and [8,12); [12,18) is [12,16) and [16,18). */
    CHECK_U64(t, canon_cover((canon_range){6, 12}, 18, c), 2);
    CHECK(t, c[0].begin == 6 && c[0].end == 8 && c[1].begin == 8 && c[1].end == 12);
    CHECK_U64(t, canon_cover((canon_range){12, 18}, 18, c), 2);
    CHECK(t, c[0].begin == 12 && c[0].end == 16 && c[1].begin == 16 && c[1].end == 18);
    /* 8 groups at world 3: 3, 3, 2. */
    CHECK_U64(t, canon_cover((canon_range){0, 3}, 8, c), 2);
    CHECK_U64(t, canon_cover((canon_range){3, 6}, 8, c), 2);
    CHECK_U64(t, canon_cover((canon_range){6, 8}, 8, c), 1);
    /* The missing leaves of the right edge cost nothing: [16,19) of 19 is one subtree. */
    CHECK_U64(t, canon_cover((canon_range){16, 19}, 19, c), 1);
    CHECK_U64(t, canon_cover((canon_range){0, 19}, 19, c), 1);
}

static void refuse(check_case *t, const canon_range *cover, uint32_t count, uint32_t leaves,
                   tf_word word) {
    float parts[8] = {1, 2, 3, 4, 5, 6, 7, 8}, out = 77.0f;
    tf_error err = {0};
    CHECK_U64(t, canon_reduce(parts, cover, count, leaves, 1, &out, &err), TF_INTERNAL);
    CHECK_U64(t, err.word, word);
    CHECK(t, out == 77.0f);
}

static void a_cover_with_a_gap_is_refused(check_case *t) {
    refuse(t, (canon_range[]){{0, 2}, {3, 4}}, 2, 4, TF_W_COVER_NOT_WHOLE);
    refuse(t, (canon_range[]){{0, 2}, {0, 2}, {2, 4}}, 3, 4, TF_W_COVER_NOT_WHOLE);
    refuse(t, (canon_range[]){{0, 2}}, 1, 4, TF_W_COVER_NOT_WHOLE);
    refuse(t, (canon_range[]){{0, 4}, {4, 8}}, 2, 6, TF_W_COVER_NOT_WHOLE);
    refuse(t, (canon_range[]){{0, 0}}, 1, 4, TF_W_COVER_NOT_WHOLE);
    refuse(t, (canon_range[]){{0, 0}}, 0, 0, TF_W_COVER_NOT_WHOLE);
}

static void a_cover_off_the_tree_is_refused(check_case *t) {
    refuse(t, (canon_range[]){{0, 1}, {1, 3}, {3, 4}}, 3, 4, TF_W_COVER_NOT_ALIGNED);
    refuse(t, (canon_range[]){{0, 3}, {3, 4}}, 2, 4, TF_W_COVER_NOT_ALIGNED);
    refuse(t, (canon_range[]){{0, 2}, {2, 5}}, 2, 5, TF_W_COVER_NOT_ALIGNED);
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"canon/any-sharing-gives-the-tree-sum", any_sharing_gives_the_tree_sum},
        {"canon/an-absent-leaf-is-never-added-as-zero", an_absent_leaf_is_never_added_as_zero},
        {"canon/the-tree-is-not-a-chain", the_tree_is_not_a_chain},
        {"canon/cover-is-whole-aligned-and-maximal", cover_is_whole_aligned_and_maximal},
        {"canon/cover-of-the-real-shares", cover_of_the_real_shares},
        {"canon/a-cover-with-a-gap-is-refused", a_cover_with_a_gap_is_refused},
        {"canon/a-cover-off-the-tree-is-refused", a_cover_off_the_tree_is_refused},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
