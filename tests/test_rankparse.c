/* The parsers of rank files against headers and indexes whose digests hold and whose fields no
 * writer would put there. */
#include "engine/plan/rankfile.h"
#include "tests/support/check.h"

#include <stdlib.h>
#include <string.h>

#define FRONT_BYTES 8192u
#define FILE_BYTES  (FRONT_BYTES + 2 * 4096u)

/* A front of two entries: "a" BF16 [2, 3] and "b" F32 []. */
static void sound_front(uint8_t *front) {
    rankfile_entry e[2] = {
        {.name = "a", .dtype = DTYPE_BF16, .dims = 2, .shape = {2, 3}, .offset = 8192, .bytes = 12},
        {.name = "b", .dtype = DTYPE_F32, .offset = 12288, .bytes = 4},
    };
    rankfile_head head = {.family = "f",
                          .layer = 3,
                          .world = 4,
                          .rank = 2,
                          .entries = 2,
                          .index_bytes = rankfile_index_bytes(e, 2),
                          .file_bytes = FILE_BYTES};
    rankfile_encode(&head, e, front);
}

static void put(uint8_t *to, size_t n, uint64_t value) {
    for (size_t i = 0; i < n; i++)
        to[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t get(const uint8_t *from, size_t n) {
    uint64_t v = 0;
    while (n-- > 0)
        v = v << 8 | from[n];
    return v;
}

/* Makes both digests hold again. */
static void reseal(uint8_t *front) {
    uint64_t index_bytes = get(front + 144, 8);
    if (index_bytes <= FRONT_BYTES - 4096) {
        tf_digest index = digest_bytes(front + 4096, (size_t)index_bytes);
        memcpy(front + 168, index.bytes, 16);
    }
    tf_digest head = digest_bytes(front, 4080);
    memcpy(front + 4080, head.bytes, 16);
}

static tf_status parse(const uint8_t *front, uint64_t file_bytes, tf_error *err) {
    rankfile *file = calloc(1, sizeof *file);
    *err = (tf_error){0};
    memcpy(file->path, "x", 2);
    arena_init(&file->arena, 0);
    tf_status status = rankfile_parse_header("x", front, file_bytes, &file->head, err);
    if (status == TF_OK && rankfile_data_begin(file->head.index_bytes) <= FRONT_BYTES)
        status = rankfile_parse_index(file, front, err);
    arena_free(&file->arena);
    free(file);
    return status;
}

typedef struct {
    const char *field; /* in the message */
    size_t at, size;
    uint64_t value;
    tf_word word;
} bad;

static void check_bad(check_case *t, const bad *list, size_t count) {
    uint8_t *front = malloc(FRONT_BYTES);
    for (size_t i = 0; i < count; i++) {
        tf_error err;
        char line[2048];
        sound_front(front);
        CHECK_U64(t, parse(front, FILE_BYTES, &err), TF_OK);
        put(front + list[i].at, list[i].size, list[i].value);
        reseal(front);
        (void)parse(front, FILE_BYTES, &err);
        tf_error_line(&err, line, sizeof line);
        CHECKF(t, err.word == list[i].word, "%s: expected %s: %s", list[i].field,
               tf_word_text(list[i].word), line);
        CHECKF(t, strstr(err.what, list[i].field) != NULL, "%s is not named: %s", list[i].field,
               line);
    }
    free(front);
}

static void refuses_impossible_headers(check_case *t) {
    const tf_word damaged = TF_W_RANK_HEADER_DAMAGED;
    const bad list[] = {
        {"format version", 8, 4, 2, TF_W_RANK_FILE_VERSION},
        {"format version", 8, 4, 0, TF_W_RANK_FILE_VERSION},
        {"layer", 12, 4, TF_LAYERS_MAX, damaged},
        {"layer", 12, 4, 0xfffffffe, damaged},
        {"world", 16, 4, 0, damaged},
        {"world", 16, 4, 257, damaged},
        {"rank", 20, 4, 4, damaged},
        {"family", 24, 1, 0, damaged},
        {"family", 24, 1, '\n', damaged},
        {"family", 30, 1, 'x', damaged},
        {"index offset", 136, 8, 8192, damaged},
        {"index length", 144, 8, 100000001, damaged},
        {"index length", 144, 8, UINT64_MAX, damaged},
        {"file length", 152, 8, 4096, damaged},
        {"file length", 152, 8, FILE_BYTES + 1, damaged},
        {"file length", 152, 8, UINT64_MAX - 4095, damaged},
        {"length of the file", 152, 8, FILE_BYTES + 4096, TF_W_RANK_FILE_CUT},
        {"length of the file", 152, 8, FILE_BYTES - 4096, TF_W_RANK_FILE_TOO_LONG},
        {"entries", 160, 4, 4000001, damaged},
        {"unused bytes", 164, 4, 1, damaged},
        {"unused bytes", 184, 1, 1, damaged},
        {"unused bytes", 4079, 1, 1, damaged},
    };
    check_bad(t, list, COUNT(list));
}

static void refuses_impossible_indexes(check_case *t) {
    const tf_word damaged = TF_W_RANK_INDEX_DAMAGED;
    /* Entry 0 is at 4096, 65 bytes; entry 1 at 4161, 49 bytes. */
    const bad list[] = {
        {"entry 0: count", 160, 4, 3, damaged},
        {"entry 1: size", 160, 4, 1, damaged},
        {"entry 2: size", 144, 8, 65 + 49 + 1, damaged},
        {"entry 1: size", 144, 8, 65 + 48, damaged},
        {"entry 0: name", 4096, 2, 0, damaged},
        {"entry 0: name", 4096, 2, 513, damaged},
        {"entry 1: size", 4161, 2, 2, damaged},
        {"entry 0: dims", 4098, 2, 9, damaged},
        {"entry 1: size", 4161 + 2, 2, 1, damaged},
        {"entry 0: unused bytes", 4100, 4, 1, damaged},
        {"entry 0: dtype", 4104, 8, 0, damaged},
        {"entry 0: dtype", 4104 + 6, 1, 'x', damaged},
        {"entry 0: offset", 4112, 8, 4096, damaged},
        {"entry 0: offset", 4112, 8, 12288, damaged},
        {"entry 1: offset", 4161 + 16, 8, 8192, damaged},
        {"entry 1: offset", 4161 + 16, 8, 16384, damaged},
        {"entry 0: length", 4120, 8, 14, damaged},
        {"entry 0: length", 4120, 8, UINT64_MAX, damaged},
        {"entry 0: length", 4144, 8, 7, damaged},
        {"entry 0: length", 4144, 8, UINT64_MAX, damaged},
        {"entry 0: name", 4160, 1, ' ', damaged},
        {"entry 0: name", 4160, 1, 0, damaged},
        {"entry 1: name", 4209, 1, 'a', damaged}, /* as entry 0 */
        {"after the index", 4210, 1, 1, TF_W_RANK_PADDING_DAMAGED},
        {"after the index", 8191, 1, 1, TF_W_RANK_PADDING_DAMAGED},
    };
    check_bad(t, list, COUNT(list));
}

/* Sizes that agree with each other may still lie beyond the file. */
static void refuses_payloads_beyond_the_file(check_case *t) {
    uint8_t *front = malloc(FRONT_BYTES);
    tf_error err;
    sound_front(front);
    put(front + 4144, 8, 1u << 20);
    put(front + 4152, 8, 1u << 20);
    put(front + 4120, 8, 1ull << 41);
    reseal(front);
    (void)parse(front, FILE_BYTES, &err);
    CHECK_U64(t, err.word, TF_W_RANK_INDEX_DAMAGED);
    CHECK(t, strstr(err.what, "entry 0: length") != NULL);
    /* shape * size wraps to the length given */
    put(front + 4144, 8, 1ull << 63);
    put(front + 4152, 8, 1);
    put(front + 4120, 8, 0);
    reseal(front);
    (void)parse(front, FILE_BYTES, &err);
    CHECK_U64(t, err.word, TF_W_RANK_INDEX_DAMAGED);
    /* The last payload ends a block before the file does. */
    sound_front(front);
    put(front + 152, 8, FILE_BYTES + 4096);
    reseal(front);
    (void)parse(front, FILE_BYTES + 4096, &err);
    CHECK_U64(t, err.word, TF_W_RANK_INDEX_DAMAGED);
    free(front);
}

/* What is accepted means one file only: encoding it again gives the same bytes. */
static void what_is_accepted_encodes_to_itself(check_case *t) {
    check_random r = check_seed(t);
    uint8_t *front = malloc(FRONT_BYTES), *again = malloc(FRONT_BYTES);
    rankfile *file = calloc(1, sizeof *file);
    uint32_t accepted = 0;
    for (int round = 0; round < 20000; round++) {
        tf_error err = {0};
        sound_front(front);
        for (uint64_t n = check_below(&r, 3); n > 0; n--) {
            size_t at = (size_t)(check_below(&r, 2) == 0 ? check_below(&r, 184)
                                                         : 4096 + check_below(&r, 114));
            front[at] = (uint8_t)check_next(&r);
        }
        reseal(front);
        memset(file, 0, sizeof *file);
        arena_init(&file->arena, 0);
        bool ok = rankfile_parse_header("x", front, FILE_BYTES, &file->head, &err) == TF_OK;
        /* A longer index would lie beyond this front. */
        if (ok && rankfile_data_begin(file->head.index_bytes) != FRONT_BYTES) continue;
        ok = ok && rankfile_parse_index(file, front, &err) == TF_OK;
        if (ok) {
            accepted++;
            rankfile_encode(&file->head, file->entries, again);
            ok = CHECK(t, memcmp(front, again, FRONT_BYTES) == 0);
        } else {
            ok = CHECK(t, err.word != TF_W_NONE);
        }
        arena_free(&file->arena);
        if (!ok) break;
    }
    CHECK(t, accepted > 1000);
    free(front);
    free(again);
    free(file);
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"rankfile/refuses-impossible-headers", refuses_impossible_headers},
        {"rankfile/refuses-impossible-indexes", refuses_impossible_indexes},
        {"rankfile/refuses-payloads-beyond-the-file", refuses_payloads_beyond_the_file},
        {"rankfile/what-is-accepted-encodes-to-itself", what_is_accepted_encodes_to_itself},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
