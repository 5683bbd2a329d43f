#include "engine/pack/engram.h"

#include "engine/base/arena.h"
#include "engine/base/check.h"
#include "engine/base/io.h"

#include <stdbool.h>
#include <string.h>

/* The publisher draws them with NumPy's generator; they are data here. */
static const struct {
    uint32_t layer;
    uint64_t compressed_vocab;
    uint64_t at[4];
} MULTIPLIERS[] = {
    {1, 99092, {76632096046245, 4839876093313, 35959672319349, 73987337458391}},
    {14, 99092, {67716810739261, 51510806800915, 30921347202721, 82619226485591}},
    {1, 990, {7670330971125893, 484437375594569, 3599308938857539, 7405609336794975}},
    {4, 990, {8233666247838061, 504247360757425, 7372190004575837, 1897247757798655}},
};

static bool is_prime(uint64_t n) {
    if (n < 4) return n > 1;
    if (n % 2 == 0) return false;
    for (uint64_t d = 3; d * d <= n; d += 2) {
        if (n % d == 0) return false;
    }
    return true;
}

static tf_status check_sizes(const tf_config *c, uint32_t index, tf_error *err) {
    TF_ASSERT(index < c->engram_count);
    bool fits = c->engram_ngram >= 2 && c->engram_ngram <= ENGRAM_NGRAM_MAX &&
                c->engram_heads >= 1 && c->engram_heads <= ENGRAM_COLUMNS_MAX &&
                config_engram_columns(c) <= ENGRAM_COLUMNS_MAX && c->engram_vocab >= 2 &&
                c->engram_vocab < UINT32_MAX;
    if (fits) return TF_OK;
    tf_fail(err, TF_W_ENGRAM_ROWS_DIFFER, "hash columns of engram layer %u",
            c->engram_layers[index]);
    tf_found(err, "n-grams up to %u, %u heads, engram_vocab_size %llu", c->engram_ngram,
             c->engram_heads, (unsigned long long)c->engram_vocab);
    return tf_expected(err, "2 to %u, at most %u columns, 2 to 2^32", ENGRAM_NGRAM_MAX,
                       ENGRAM_COLUMNS_MAX);
}

/* Each (layer, n) begins anew just below engram_vocab and skips what was taken; what was taken is
 * always a gapless run of primes from there, so the next free one is the next above the last. */
tf_status engram_columns(const tf_config *config, uint32_t index, uint64_t *begin, tf_error *err) {
    tf_status status = check_sizes(config, index, err);
    if (status != TF_OK) return status;
    uint32_t columns = config_engram_columns(config);
    uint64_t prime = config->engram_vocab - 1;
    begin[0] = 0;
    for (uint32_t i = 0; i < (index + 1) * columns; i++) {
        do {
            prime++;
        } while (!is_prime(prime));
        if (i < index * columns) continue;
        uint32_t c = i - index * columns;
        begin[c + 1] = begin[c] + prime;
    }
    if (begin[columns] == config->engram_rows[index]) return TF_OK;
    tf_fail(err, TF_W_ENGRAM_ROWS_DIFFER, "engram_num_embeddings of engram layer %u",
            config->engram_layers[index]);
    tf_found(err, "%llu", (unsigned long long)config->engram_rows[index]);
    return tf_expected(err, "%llu, the sum of %u primes from engram_vocab_size %llu on",
                       (unsigned long long)begin[columns], columns,
                       (unsigned long long)config->engram_vocab);
}

tf_status engram_map_read(const char *dir, const tf_config *config, engram_map *out,
                          tf_error *err) {
    char path[TF_PATH_BYTES_MAX];
    char *data = NULL;
    size_t n = 0;
    tf_status status = TF_OK;
    *out = (engram_map){0};
    if (!io_join(path, sizeof path, dir, "engram-token-map.bin")) {
        return tf_fail(err, TF_W_CANNOT_OPEN, "opening the token map in %s: the path is too long",
                       dir);
    }
    size_t want = (size_t)config->vocab * 4;
    status = io_read_file(path, TF_JSON_BYTES_MAX, &data, &n, err);
    if (status != TF_OK) {
        tf_remedy(err, "put the model's engram-token-map.bin (i32, one a token) there");
        goto done;
    }
    if (n != want) {
        tf_fail(err, TF_W_BAD_TOKEN_MAP, "reading %s", path);
        tf_found(err, "%zu bytes", n);
        TF_TRY(tf_expected(err, "%zu: 4 a token of vocab_size %u", want, config->vocab));
    }
    out->ids = mem_take(n);
    if (out->ids == NULL) TF_TRY(tf_fail(err, TF_W_NO_MEMORY, "reading %s", path));
    out->vocab = config->vocab;
    for (uint32_t token = 0; token < out->vocab; token++) {
        const uint8_t *b = (const uint8_t *)data + (size_t)token * 4;
        uint32_t id =
            (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
        if (id >= config->engram_compressed_vocab || id > INT32_MAX) {
            tf_fail(err, TF_W_BAD_TOKEN_MAP, "reading %s, token %u", path, token);
            tf_found(err, "compressed id %lld", (long long)(int32_t)id);
            TF_TRY(tf_expected(err, "below engram_compressed_vocab_size %llu",
                               (unsigned long long)config->engram_compressed_vocab));
        }
        out->ids[token] = (int32_t)id;
    }
done:
    mem_free(data);
    if (status != TF_OK) engram_map_free(out);
    return status;
}

void engram_map_free(engram_map *map) {
    mem_free(map->ids);
    *map = (engram_map){0};
}

tf_status engram_hasher_make(const tf_config *config, uint32_t index, int32_t pad,
                             engram_hasher *out, tf_error *err) {
    *out = (engram_hasher){.columns = config_engram_columns(config),
                           .ngram = config->engram_ngram,
                           .heads = config->engram_heads,
                           .pad = pad};
    tf_status status = engram_columns(config, index, out->begin, err);
    if (status != TF_OK) return status;
    uint32_t layer = config->engram_layers[index];
    for (size_t i = 0; i < sizeof MULTIPLIERS / sizeof MULTIPLIERS[0]; i++) {
        if (MULTIPLIERS[i].layer != layer || config->engram_ngram > 4 ||
            MULTIPLIERS[i].compressed_vocab != config->engram_compressed_vocab) {
            continue;
        }
        memcpy(out->multiplier, MULTIPLIERS[i].at, sizeof MULTIPLIERS[i].at);
        return TF_OK;
    }
    tf_fail(err, TF_W_ENGRAM_MULTIPLIERS_UNKNOWN, "hashing for engram layer %u", layer);
    tf_found(err, "engram_compressed_vocab_size %llu, n-grams up to %u",
             (unsigned long long)config->engram_compressed_vocab, config->engram_ngram);
    return tf_expected(err, "a pair of layer and vocabulary of a known model: 1 or 14 of 99092, "
                            "1 or 4 of 990");
}

void engram_hash(const engram_hasher *hasher, const int32_t *newest_first, uint64_t *rows) {
    bool padded = false;
    uint64_t hash = 0;
    uint32_t column = 0;
    for (uint32_t s = 0; s < hasher->ngram; s++) {
        padded = padded || newest_first[s] < 0;
        uint64_t value = (uint64_t)(padded ? hasher->pad : newest_first[s]);
        hash ^= value * hasher->multiplier[s]; /* below 2^63 by the choice of multipliers */
        for (uint32_t h = 0; s > 0 && h < hasher->heads; h++, column++) {
            uint64_t prime = hasher->begin[column + 1] - hasher->begin[column];
            rows[column] = hash % prime + hasher->begin[column];
        }
    }
}
