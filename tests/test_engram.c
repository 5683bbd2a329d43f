/* The n-gram memory against the publisher's primes, sums and hashes. */
#include "engine/pack/engram.h"
#include "tests/support/check.h"
#include "tests/support/golden.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNIT TF_SOURCE_DIR "/tests/golden/unit/"

static tf_config real_config(void) {
    static tf_config c;
    c = (tf_config){.vocab = 129280,
                    .engram_count = 2,
                    .engram_layers = {1, 14},
                    .engram_ngram = 4,
                    .engram_heads = 8,
                    .engram_head_dim = 256,
                    .engram_vocab = 16000000,
                    .engram_compressed_vocab = 99092,
                    .engram_rows = {384006168, 384016682}};
    return c;
}

static tf_config tiny_config(void) {
    tf_config c = real_config();
    c.vocab = 1280;
    c.engram_layers[1] = 4;
    c.engram_vocab = 120;
    c.engram_compressed_vocab = 990;
    c.engram_rows[0] = 4488;
    c.engram_rows[1] = 7806;
    return c;
}

/* Numbers of the list under "object" -> "key" of unit.json. */
static size_t listed(const char *object, const char *key, uint64_t *out, size_t limit) {
    char *text = NULL;
    char quoted[32];
    size_t n = 0;
    size_t count = 0;
    if (!golden_read(UNIT "unit.json", &text, &n)) return 0;
    snprintf(quoted, sizeof quoted, "\"%s\"", object);
    char *at = strstr(text, quoted);
    snprintf(quoted, sizeof quoted, "\"%s\"", key);
    at = at == NULL ? NULL : strstr(at, quoted);
    at = at == NULL ? NULL : strchr(at, '[');
    while (at != NULL && *at != ']' && count < limit) {
        out[count++] = strtoull(at + 1, &at, 10);
        at += strspn(at, " \n");
    }
    free(text);
    return count;
}

static void same_primes(check_case *t, const tf_config *c, const char *object) {
    for (uint32_t index = 0; index < 2; index++) {
        uint64_t begin[ENGRAM_COLUMNS_MAX + 1];
        uint64_t want[24] = {0};
        tf_error err = {0};
        char key[16];
        snprintf(key, sizeof key, "%u", c->engram_layers[index]);
        CHECK_U64(t, listed(object, key, want, COUNT(want)), COUNT(want));
        CHECK_STR(t, tf_status_text(engram_columns(c, index, begin, &err)), tf_status_text(TF_OK));
        CHECK_U64(t, begin[0], 0);
        for (uint32_t i = 0; i < COUNT(want); i++) {
            CHECK_U64(t, begin[i + 1] - begin[i], want[i]);
        }
        CHECK_U64(t, begin[24], c->engram_rows[index]);
    }
}

static void columns_have_the_publishers_primes(check_case *t) {
    tf_config real = real_config();
    tf_config tiny = tiny_config();
    same_primes(t, &real, "real_primes");
    same_primes(t, &tiny, "tiny_primes");
}

static void tables_of_another_length_are_refused(check_case *t) {
    tf_config c = real_config();
    uint64_t begin[ENGRAM_COLUMNS_MAX + 1];
    tf_error err = {0};
    c.engram_rows[1]--;
    CHECK_U64(t, engram_columns(&c, 0, begin, &err), TF_OK);
    CHECK_U64(t, engram_columns(&c, 1, begin, &err), TF_BAD_INPUT);
    CHECK_STR(t, tf_word_text(err.word), "engram-rows-differ");
    CHECK_STR(t, err.found, "384016681");
    CHECK(t, strstr(err.what, "engram layer 14") != NULL);

    c.engram_heads = 1u << 31;
    err = (tf_error){0};
    CHECK_U64(t, engram_columns(&c, 0, begin, &err), TF_BAD_INPUT);
}

static void multipliers_are_the_publishers(check_case *t) {
    static const char *const objects[] = {"real_multipliers", "tiny_multipliers"};
    for (uint32_t model = 0; model < 2; model++) {
        tf_config c = model == 0 ? real_config() : tiny_config();
        for (uint32_t index = 0; index < 2; index++) {
            engram_hasher h;
            tf_error err = {0};
            uint64_t want[4] = {0};
            char key[16];
            snprintf(key, sizeof key, "%u", c.engram_layers[index]);
            CHECK_U64(t, listed(objects[model], key, want, 4), 4);
            CHECK_U64(t, engram_hasher_make(&c, index, 0, &h, &err), TF_OK);
            for (uint32_t i = 0; i < 4; i++) {
                CHECK_U64(t, h.multiplier[i], want[i]);
            }
        }
    }
}

static void unknown_multipliers_are_refused(check_case *t) {
    tf_config c = real_config();
    engram_hasher h;
    tf_error err = {0};
    c.engram_layers[0] = 2;
    CHECK_U64(t, engram_hasher_make(&c, 0, 0, &h, &err), TF_REFUSED);
    CHECK_STR(t, tf_word_text(err.word), "engram-multipliers-unknown");
    c = real_config();
    c.engram_compressed_vocab = 99093;
    err = (tf_error){0};
    CHECK_U64(t, engram_hasher_make(&c, 0, 0, &h, &err), TF_REFUSED);
}

static void hashes_are_the_publishers(check_case *t) {
    golden_file unit;
    golden_tensor ids;
    golden_tensor hashes;
    bool opened = golden_open(UNIT "unit.safetensors", &unit) &&
                  golden_find(&unit, "engram.compressed_ids", &ids) &&
                  golden_find(&unit, "engram.hashes", &hashes);
    if (!CHECK(t, opened)) return;
    tf_config c = real_config();
    int32_t token[64];
    memcpy(token, ids.data, sizeof token);
    for (uint32_t index = 0; index < 2; index++) {
        engram_hasher h;
        tf_error err = {0};
        CHECK_U64(t, engram_hasher_make(&c, index, 77, &h, &err), TF_OK);
        for (int p = 0; p < 64; p++) {
            int32_t newest[4];
            uint64_t rows[24];
            for (int s = 0; s < 4; s++) {
                newest[s] = p >= s ? token[p - s] : ENGRAM_NO_TOKEN;
            }
            engram_hash(&h, newest, rows);
            int64_t want[24];
            memcpy(want, hashes.data + ((size_t)p * 2 + index) * sizeof want, sizeof want);
            for (int i = 0; i < 24; i++) {
                if (!CHECKF(t, rows[i] == (uint64_t)want[i], "layer %u position %d column %d",
                            index, p, i)) {
                    break;
                }
            }
        }
    }
    golden_close(&unit);
}

static void a_missing_token_pads_all_older_ones(check_case *t) {
    tf_config c = real_config();
    engram_hasher h;
    tf_error err = {0};
    uint64_t rows[2][24];
    CHECK_U64(t, engram_hasher_make(&c, 0, 5, &h, &err), TF_OK);
    engram_hash(&h, (int32_t[]){9, ENGRAM_NO_TOKEN, 8, 7}, rows[0]);
    engram_hash(&h, (int32_t[]){9, 5, 5, 5}, rows[1]);
    CHECK(t, memcmp(rows[0], rows[1], sizeof rows[0]) == 0);
    engram_hash(&h, (int32_t[]){9, 5, 8, 7}, rows[1]);
    CHECK(t, memcmp(rows[0], rows[1], sizeof rows[0]) != 0);
}

static void rows_stay_within_their_column(check_case *t) {
    tf_config c = real_config();
    check_random random = check_seed(t);
    for (uint32_t index = 0; index < 2; index++) {
        engram_hasher h;
        tf_error err = {0};
        CHECK_U64(t, engram_hasher_make(&c, index, 2, &h, &err), TF_OK);
        for (int round = 0; round < 2000; round++) {
            int32_t newest[4];
            uint64_t rows[24];
            for (int s = 0; s < 4; s++) {
                newest[s] = (int32_t)check_below(&random, c.engram_compressed_vocab);
            }
            engram_hash(&h, newest, rows);
            for (int i = 0; i < 24; i++) {
                bool held = rows[i] >= h.begin[i] && rows[i] < h.begin[i + 1];
                if (!CHECKF(t, held, "column %d row %llu", i, (unsigned long long)rows[i])) return;
            }
        }
    }
}

static void write_map(check_case *t, const char *dir, size_t tokens, int32_t last) {
    char path[1200];
    snprintf(path, sizeof path, "%s/engram-token-map.bin", dir);
    FILE *f = fopen(path, "wb");
    if (!CHECK(t, f != NULL)) return;
    for (size_t i = 0; i < tokens; i++) {
        int32_t id = i + 1 == tokens ? last : (int32_t)i % 900;
        fwrite(&id, sizeof id, 1, f);
    }
    fclose(f);
}

static void token_map_is_read_and_checked(check_case *t) {
    tf_config c = tiny_config();
    const char *dir = check_tmpdir(t);
    engram_map map;
    tf_error err = {0};
    CHECK_U64(t, engram_map_read(dir, &c, &map, &err), TF_IO);
    CHECK_STR(t, tf_word_text(err.word), "cannot-open");
    CHECK(t, strstr(err.remedy, "engram-token-map.bin") != NULL);

    static const struct {
        size_t tokens;
        int32_t last;
        const char *word;
    } tries[] = {{1280, 989, ""},
                 {1280, 990, "bad-token-map"},
                 {1280, -1, "bad-token-map"},
                 {1279, 0, "bad-token-map"},
                 {0, 0, "bad-token-map"}};
    for (size_t i = 0; i < COUNT(tries); i++) {
        err = (tf_error){0};
        write_map(t, dir, tries[i].tokens, tries[i].last);
        tf_status status = engram_map_read(dir, &c, &map, &err);
        CHECKF(t, (status == TF_OK) == (tries[i].word[0] == '\0'), "map %zu", i);
        if (status == TF_OK) CHECK_U64(t, map.ids[1279], 989);
        if (status != TF_OK) CHECK_STR(t, tf_word_text(err.word), tries[i].word);
        engram_map_free(&map);
    }
    CHECK_STR(t, err.found, "0 bytes");
}

static void golden_token_map_fits_the_tiny_config(check_case *t) {
    tf_config c = tiny_config();
    engram_map map;
    tf_error err = {0};
    CHECK_U64(t, engram_map_read(TF_SOURCE_DIR "/tests/golden/tiny-exl3", &c, &map, &err), TF_OK);
    CHECK_U64(t, map.ids[2], 2);
    CHECK_U64(t, map.ids[1279], 989);
    engram_map_free(&map);
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"engram/columns-have-the-publishers-primes", columns_have_the_publishers_primes},
        {"engram/tables-of-another-length-are-refused", tables_of_another_length_are_refused},
        {"engram/multipliers-are-the-publishers", multipliers_are_the_publishers},
        {"engram/unknown-multipliers-are-refused", unknown_multipliers_are_refused},
        {"engram/hashes-are-the-publishers", hashes_are_the_publishers},
        {"engram/a-missing-token-pads-all-older-ones", a_missing_token_pads_all_older_ones},
        {"engram/rows-stay-within-their-column", rows_stay_within_their_column},
        {"engram/token-map-is-read-and-checked", token_map_is_read_and_checked},
        {"engram/golden-token-map-fits-the-tiny-config", golden_token_map_fits_the_tiny_config},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
