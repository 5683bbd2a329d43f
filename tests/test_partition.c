/* The partition rule, against a slow second implementation and its own laws. */
#include "engine/base/limits.h"
#include "engine/canon/partition.h"
#include "tests/support/check.h"

#include <string.h>

__extension__ typedef unsigned __int128 wide;

static tf_status share_out(uint32_t units, uint32_t world, const uint64_t *weights,
                           canon_range *ranges, tf_error *err) {
    *err = (tf_error){0};
    canon_split split = {world, weights};
    return canon_partition("output groups", units, &split, ranges, err);
}

static void check_sizes(check_case *t, uint32_t units, uint32_t world, const uint64_t *weights,
                        const uint32_t *want) {
    canon_range ranges[TF_WORLD_MAX];
    tf_error err;
    if (!CHECK_U64(t, share_out(units, world, weights, ranges, &err), TF_OK)) return;
    uint32_t begin = 0;
    for (uint32_t r = 0; r < world; r++) {
        CHECKF(t, ranges[r].begin == begin && canon_size(ranges[r]) == want[r],
               "%u units over %u: rank %u got [%u,%u), expected %u from %u", units, world, r,
               ranges[r].begin, ranges[r].end, want[r], begin);
        begin += want[r];
    }
}

static void ties_go_to_lower_rank(check_case *t) {
    check_sizes(t, 8, 3, NULL, (uint32_t[]){3, 3, 2});
    check_sizes(t, 5, 4, NULL, (uint32_t[]){2, 1, 1, 1});
    check_sizes(t, 10, 3, NULL, (uint32_t[]){4, 3, 3});
    check_sizes(t, 6, 4, NULL, (uint32_t[]){2, 2, 1, 1});
    check_sizes(t, 6, 4, (uint64_t[]){7, 7, 7, 7}, (uint32_t[]){2, 2, 1, 1});
    /* 7 over 1:2:2:1 = 1.17 2.33 2.33 1.17: ranks 1 and 2 tie for one unit. */
    check_sizes(t, 7, 4, (uint64_t[]){1, 2, 2, 1}, (uint32_t[]){1, 3, 2, 1});
}

static void real_model_shares_are_as_specified(check_case *t) {
    check_sizes(t, 8, 1, NULL, (uint32_t[]){8});
    check_sizes(t, 8, 2, NULL, (uint32_t[]){4, 4});
    check_sizes(t, 8, 4, NULL, (uint32_t[]){2, 2, 2, 2});
    check_sizes(t, 18, 3, NULL, (uint32_t[]){6, 6, 6});
    check_sizes(t, 18, 4, NULL, (uint32_t[]){5, 5, 4, 4});
    check_sizes(t, 1010, 3, NULL, (uint32_t[]){337, 337, 336});
    check_sizes(t, 1010, 4, NULL, (uint32_t[]){253, 253, 252, 252});
    check_sizes(t, 24, 4, NULL, (uint32_t[]){6, 6, 6, 6});
    check_sizes(t, 8, 3, (uint64_t[]){2, 1, 1}, (uint32_t[]){4, 2, 2});
    canon_range ranges[3];
    tf_error err;
    CHECK_U64(t, share_out(1010, 3, NULL, ranges, &err), TF_OK);
    CHECK_U64(t, ranges[2].begin * 128, 86272);
}

/* REPORTS 5: units that belong to nobody. */
static void ten_units_over_three_ranks_belong_to_somebody(check_case *t) {
    canon_range ranges[3];
    tf_error err;
    CHECK_U64(t, share_out(10, 3, NULL, ranges, &err), TF_OK);
    uint32_t owners[10] = {0};
    for (uint32_t r = 0; r < 3; r++) {
        for (uint32_t u = ranges[r].begin; u < ranges[r].end && u < 10; u++)
            owners[u]++;
    }
    for (uint32_t u = 0; u < 10; u++)
        CHECKF(t, owners[u] == 1, "unit %u has %u owners", u, owners[u]);
}

static uint64_t random_weight(check_random *r, uint64_t kind) {
    switch (kind) {
    case 0:
        return 1;
    case 1:
        return 1 + check_below(r, 4);
    case 2:
        return UINT64_MAX - check_below(r, 3);
    case 3:
        return UINT64_MAX / 2 + check_below(r, UINT64_MAX / 2);
    default:
        return check_next(r) >> check_below(r, 60);
    }
}

static uint32_t random_units(check_random *r, uint32_t world) {
    switch (check_below(r, 4)) {
    case 0:
        return UINT32_MAX - (uint32_t)check_below(r, 1000);
    case 1:
        return (uint32_t)check_below(r, 64);
    case 2:
        return world + (uint32_t)check_below(r, 2u * world);
    default:
        return (uint32_t)check_next(r);
    }
}

/* Is the share exact's floor, or one above it?  And of two ranks, did the one with the larger
 * remainder (or, on a tie, the lower one) get its extra unit first? */
static bool laws_hold(check_case *t, uint32_t units, uint32_t world, const uint64_t *w,
                      const canon_range *ranges) {
    wide total = 0;
    for (uint32_t r = 0; r < world; r++)
        total += w[r];
    bool extra[TF_WORLD_MAX];
    wide rest[TF_WORLD_MAX];
    uint32_t next = 0;
    for (uint32_t r = 0; r < world; r++) {
        wide exact = (wide)units * w[r];
        uint64_t size = ranges[r].end - ranges[r].begin;
        if (!CHECKF(t, ranges[r].begin == next && ranges[r].end >= next, "rank %u: gap or overlap",
                    r))
            return false;
        next = ranges[r].end;
        uint64_t floor = (uint64_t)(exact / total);
        extra[r] = size == floor + 1;
        rest[r] = exact % total;
        if (!CHECKF(t, size == floor || extra[r],
                    "rank %u of %u: %llu of %u units, exact share is %llu and a part", r, world,
                    (unsigned long long)size, units, (unsigned long long)floor))
            return false;
    }
    if (!CHECKF(t, next == units, "%u of %u units have an owner", next, units)) return false;
    for (uint32_t a = 0; a < world; a++) {
        for (uint32_t b = 0; b < world; b++) {
            bool a_first = rest[a] > rest[b] || (rest[a] == rest[b] && a < b);
            if (!CHECKF(t, !(a_first && extra[b] && !extra[a]),
                        "%u units, world %u: rank %u got a unit that rank %u had first claim to",
                        units, world, b, a))
                return false;
        }
    }
    return true;
}

static void shares_are_whole_in_order_and_fair(check_case *t) {
    check_random r = check_seed(t);
    uint32_t shared = 0;
    for (int round = 0; round < 4000; round++) {
        uint32_t world = 1 + (uint32_t)check_below(&r, round % 16 == 0 ? TF_WORLD_MAX : 12);
        uint32_t units = random_units(&r, world);
        uint64_t w[TF_WORLD_MAX];
        uint64_t kind = check_below(&r, 5);
        for (uint32_t i = 0; i < world; i++)
            w[i] = random_weight(&r, kind);
        canon_range ranges[TF_WORLD_MAX];
        tf_error err;
        if (share_out(units, world, w, ranges, &err) != TF_OK) {
            if (!CHECKF(t, err.word == TF_W_RANK_WITHOUT_UNIT || err.word == TF_W_BAD_WEIGHTS,
                        "refused as %s", tf_word_text(err.word)))
                return;
            continue;
        }
        shared++;
        if (!laws_hold(t, units, world, w, ranges)) return;
    }
    CHECKF(t, shared > 1500, "only %u of 4000 rounds were shared out", shared);
}

static void equal_weights_equal_none(check_case *t) {
    check_random r = check_seed(t);
    for (int round = 0; round < 500; round++) {
        uint32_t world = 1 + (uint32_t)check_below(&r, 32);
        uint32_t units = world + (uint32_t)check_below(&r, 5000);
        uint64_t w[TF_WORLD_MAX];
        uint64_t same = 1 + check_next(&r) / 2;
        for (uint32_t i = 0; i < world; i++)
            w[i] = same;
        canon_range a[TF_WORLD_MAX], b[TF_WORLD_MAX];
        tf_error err;
        if (!CHECK_U64(t, share_out(units, world, w, a, &err), TF_OK)) return;
        if (!CHECK_U64(t, share_out(units, world, NULL, b, &err), TF_OK)) return;
        if (!CHECK(t, memcmp(a, b, world * sizeof *a) == 0)) return;
    }
}

static void wide_products_do_not_overflow(check_case *t) {
    uint64_t big = UINT64_MAX;
    check_sizes(t, UINT32_MAX, 2, (uint64_t[]){big, big}, (uint32_t[]){1u << 31, (1u << 31) - 1});
    check_sizes(t, 4, 4, (uint64_t[]){big, big, big, big}, (uint32_t[]){1, 1, 1, 1});
    uint64_t w[TF_WORLD_MAX];
    uint32_t want[TF_WORLD_MAX];
    for (uint32_t i = 0; i < TF_WORLD_MAX; i++) {
        w[i] = big;
        want[i] = i < 255 ? 1u << 24 : (1u << 24) - 1;
    }
    check_sizes(t, UINT32_MAX, TF_WORLD_MAX, w, want);
}

static void a_world_of_none_or_too_many_is_refused(check_case *t) {
    canon_range ranges[TF_WORLD_MAX];
    tf_error err;
    CHECK_U64(t, share_out(8, 0, NULL, ranges, &err), TF_USAGE);
    CHECK_U64(t, err.word, TF_W_BAD_WORLD);
    CHECK_U64(t, share_out(1000, TF_WORLD_MAX + 1, NULL, ranges, &err), TF_USAGE);
    CHECK_U64(t, err.word, TF_W_BAD_WORLD);
    CHECK_STR(t, err.found, "257 ranks");
    CHECK_U64(t, share_out(1000, TF_WORLD_MAX, NULL, ranges, &err), TF_OK);
}

static void all_zero_weights_are_refused(check_case *t) {
    canon_range ranges[3];
    tf_error err;
    CHECK_U64(t, share_out(8, 3, (uint64_t[]){0, 0, 0}, ranges, &err), TF_USAGE);
    CHECK_U64(t, err.word, TF_W_BAD_WEIGHTS);
}

/* REPORTS 6: a rank that would get no head starts anyway. */
static void a_rank_without_unit_is_refused_by_name(check_case *t) {
    canon_range ranges[8] = {{7, 7}};
    tf_error err;
    CHECK_U64(t, share_out(5, 8, NULL, ranges, &err), TF_REFUSED);
    CHECK_U64(t, err.word, TF_W_RANK_WITHOUT_UNIT);
    CHECK(t, strstr(err.what, "output groups") != NULL);
    CHECK_STR(t, err.found, "0 output groups for rank 5 (weight 1)");
    CHECKF(t, ranges[0].begin == 7 && ranges[0].end == 7, "ranges written by a refused call");
    CHECK_U64(t, share_out(8, 3, (uint64_t[]){1, 0, 1}, ranges, &err), TF_REFUSED);
    CHECK(t, strstr(err.found, "rank 1 (weight 0)") != NULL);
    CHECK_U64(t, share_out(0, 1, NULL, ranges, &err), TF_REFUSED);
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"canon/ties-go-to-lower-rank", ties_go_to_lower_rank},
        {"canon/real-model-shares-are-as-specified", real_model_shares_are_as_specified},
        {"canon/ten-units-over-three-ranks-belong-to-somebody",
         ten_units_over_three_ranks_belong_to_somebody},
        {"canon/shares-are-whole-in-order-and-fair", shares_are_whole_in_order_and_fair},
        {"canon/equal-weights-equal-none", equal_weights_equal_none},
        {"canon/wide-products-do-not-overflow", wide_products_do_not_overflow},
        {"canon/a-world-of-none-or-too-many-is-refused", a_world_of_none_or_too_many_is_refused},
        {"canon/all-zero-weights-are-refused", all_zero_weights_are_refused},
        {"canon/a-rank-without-unit-is-refused-by-name", a_rank_without_unit_is_refused_by_name},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
