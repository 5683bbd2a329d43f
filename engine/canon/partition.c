#include "engine/canon/partition.h"

#include "engine/base/check.h"
#include "engine/base/limits.h"

#include <stddef.h>

/* units * weight needs 96 bits, the sum of the weights 72. */
__extension__ typedef unsigned __int128 wide;

static uint64_t weight_of(const canon_split *split, uint32_t rank) {
    return split->weights == NULL ? 1 : split->weights[rank];
}

static tf_status check_split(const char *what, const canon_split *split, wide *total,
                             tf_error *err) {
    if (split->world == 0 || split->world > TF_WORLD_MAX) {
        tf_fail(err, TF_W_BAD_WORLD, "sharing out %s", what);
        tf_found(err, "%u ranks", split->world);
        return tf_expected(err, "1 to %u ranks", TF_WORLD_MAX);
    }
    *total = 0;
    for (uint32_t rank = 0; rank < split->world; rank++)
        *total += weight_of(split, rank);
    if (*total == 0) {
        tf_fail(err, TF_W_BAD_WEIGHTS, "sharing out %s", what);
        tf_found(err, "%u weights, all 0", split->world);
        tf_expected(err, "a weight above 0 for every rank");
        return tf_remedy(err, "give every rank a weight of its speed, or none for equal machines");
    }
    return TF_OK;
}

/* Of the ranks that still have a remainder, the one with the largest; ties to the LOWER rank. */
static uint32_t neediest(const wide *remainder, uint32_t world) {
    uint32_t best = 0;
    for (uint32_t rank = 1; rank < world; rank++) {
        if (remainder[rank] > remainder[best]) best = rank;
    }
    return best;
}

tf_status canon_partition(const char *what, uint32_t units, const canon_split *split,
                          canon_range *ranges, tf_error *err) {
    wide total = 0;
    tf_status status = check_split(what, split, &total, err);
    if (status != TF_OK) return status;

    uint32_t share[TF_WORLD_MAX];
    wide remainder[TF_WORLD_MAX];
    uint32_t left = units;
    for (uint32_t rank = 0; rank < split->world; rank++) {
        wide exact = (wide)units * weight_of(split, rank);
        share[rank] = (uint32_t)(exact / total);
        remainder[rank] = exact % total;
        left -= share[rank];
    }
    /* The remainders sum to left * total and each is below total: more ranks have one than units
     * are left over. */
    for (; left > 0; left--) {
        uint32_t rank = neediest(remainder, split->world);
        TF_ASSERT(remainder[rank] > 0);
        share[rank]++;
        remainder[rank] = 0;
    }
    for (uint32_t rank = 0; rank < split->world; rank++) {
        if (share[rank] > 0) continue;
        tf_fail(err, TF_W_RANK_WITHOUT_UNIT, "sharing out %u %s over %u ranks", units, what,
                split->world);
        tf_found(err, "0 %s for rank %u (weight %llu)", what, rank,
                 (unsigned long long)weight_of(split, rank));
        tf_expected(err, "at least 1 for every rank");
        return tf_remedy(err, "use fewer ranks, or weights that are closer together");
    }
    uint32_t begin = 0;
    for (uint32_t rank = 0; rank < split->world; rank++) {
        ranges[rank] = (canon_range){begin, begin + share[rank]};
        begin = ranges[rank].end;
    }
    TF_ASSERT(begin == units);
    return TF_OK;
}
