/* pack/engram - the n-gram memory: hash columns, their rows of the table, and the hashes (MODEL 4).
 *
 * Idea: a table of a layer is the concatenation of its columns; column c has prime[c] rows and
 * begins where the earlier ones end, so a range of columns is a range of rows.
 * Trap: primes are drawn across layers: those of the second layer continue after the first's.
 * Trap: the pad is token_map[pad token], never the raw id, and once met it sticks. */
#ifndef TF_ENGINE_PACK_ENGRAM_H
#define TF_ENGINE_PACK_ENGRAM_H

#include "engine/base/limits.h"
#include "engine/base/status.h"
#include "engine/pack/config.h"

#include <stdint.h>

#define ENGRAM_COLUMNS_MAX 256u
#define ENGRAM_NGRAM_MAX   8u
#define ENGRAM_NO_TOKEN    (-1) /* before the first token, or a dead one */

/* Row ranges: column c of engram table `index` (into engram_layers) holds rows
 * [begin[c], begin[c + 1]); begin takes columns + 1 entries, at most ENGRAM_COLUMNS_MAX + 1.
 * Fails with engram-rows-differ when their sum is not the config's number of rows. */
tf_status engram_columns(const tf_config *config, uint32_t index, uint64_t *begin, tf_error *err);

/* Compressed id of every token. */
typedef struct engram_map {
    int32_t *ids; /* [vocab]; owned, free with engram_map_free */
    uint32_t vocab;
} engram_map;

/* Reads dir/engram-token-map.bin.  Fails with cannot-open, bad-token-map. */
tf_status engram_map_read(const char *dir, const tf_config *config, engram_map *out, tf_error *err);
void engram_map_free(engram_map *map);

/* All that one layer's hashes depend on. */
typedef struct engram_hasher {
    uint32_t columns, ngram, heads;
    int32_t pad; /* compressed */
    uint64_t multiplier[ENGRAM_NGRAM_MAX];
    uint64_t begin[ENGRAM_COLUMNS_MAX + 1];
} engram_hasher;

/* pad: a compressed id.  Fails with engram-multipliers-unknown for a pair (layer, compressed
 * vocabulary) that no known model has. */
tf_status engram_hasher_make(const tf_config *config, uint32_t index, int32_t pad,
                             engram_hasher *out, tf_error *err);
/* newest_first [ngram] i32: compressed ids of positions p, p - 1, ...; rows [columns] u64: where
 * position p looks, each within its column. */
void engram_hash(const engram_hasher *hasher, const int32_t *newest_first, uint64_t *rows);

#endif
