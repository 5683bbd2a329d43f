/* A pack on disk: single file, shards with an index, headers alone; and each way it can be wrong. */
#include "engine/base/arena.h"
#include "engine/base/fault.h"
#include "engine/base/io.h"
#include "engine/base/text.h"
#include "engine/pack/builtin.h"
#include "engine/pack/pack.h"
#include "tests/support/check.h"

#include <stdio.h>
#include <string.h>

#define A       "\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}"
#define B       "\"b\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[4,12]}"
#define B_ALONE "\"b\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]}"
#define ONE     "model-00001-of-00002.safetensors"
#define TWO     "model-00002-of-00002.safetensors"
#define INDEX   "model.safetensors.index.json"

static void put(check_case *t, const char *dir, const char *name, const void *data, size_t n) {
    char path[256];
    tf_error err = {0};
    snprintf(path, sizeof path, "%s/%s", dir, name);
    CHECKF(t, io_write_file(path, data, n, &err) == TF_OK, "cannot write %s", path);
}

/* Length, header, then the bytes first, first + 1, ... */
static void put_shard(check_case *t, const char *dir, const char *name, const char *json,
                      uint8_t first, size_t data_bytes) {
    tf_text text = {0};
    size_t n = strlen(json);
    for (int i = 0; i < 8; i++)
        text_char(&text, (char)(n >> (8 * i)));
    text_add(&text, json);
    for (size_t i = 0; i < data_bytes; i++)
        text_char(&text, (char)(first + i));
    put(t, dir, name, text.data, text.length);
    text_free(&text);
}

static const char *folder(check_case *t) {
    const char *dir = check_tmpdir(t);
    tf_text text = {0};
    builtin_config_json(builtin_find("tiny-bf16"), 11, &text);
    put(t, dir, "config.json", text.data, text.length);
    text_free(&text);
    return dir;
}

/* The same tensors in one file, or in two with an index. */
static const char *single(check_case *t) {
    const char *dir = folder(t);
    put_shard(t, dir, "model.safetensors", "{" A "," B "}", 1, 12);
    return dir;
}

static const char *sharded(check_case *t, const char *index) {
    const char *dir = folder(t);
    put_shard(t, dir, ONE, "{" B_ALONE "}", 5, 8);
    put_shard(t, dir, TWO, "{" A "}", 1, 4);
    put(t, dir, INDEX, index, strlen(index));
    return dir;
}

static const char good_index[] = "{\"weight_map\":{\"a\":\"" TWO "\",\"b\":\"" ONE "\"}}";

static void one_file_and_shards_are_the_same_pack(check_case *t) {
    tf_pack *packs[2] = {NULL, NULL};
    const char *dirs[2] = {single(t), sharded(t, good_index)};
    tf_digest content[2];
    for (int i = 0; i < 2; i++) {
        tf_error err = {0};
        if (!CHECKF(t, pack_open(dirs[i], &packs[i], &err) == TF_OK, "%s: %s", err.what, err.found))
            return;
        CHECK_U64(t, packs[i]->tensor_count, 2);
        CHECK(t, !packs[i]->header_only);
        const pack_tensor *b = pack_find(packs[i], "b");
        uint8_t bytes[8] = {0};
        if (!CHECK(t, b != NULL && b->bytes == 8 && b->dims == 2 && b->shape[1] == 2)) return;
        CHECK_U64(t, pack_read(packs[i], b, 3, bytes, 5, &err), TF_OK);
        CHECK(t, bytes[0] == 8 && bytes[4] == 12);
        CHECK_U64(t, pack_read(packs[i], b, 4, bytes, 5, &err), TF_IO);
        CHECK_U64(t, err.word, TF_W_CANNOT_READ);
        CHECK(t, pack_find(packs[i], "c") == NULL);
        err = (tf_error){0};
        CHECK_U64(t, pack_content_digest(packs[i], 2, &content[i], &err), TF_OK);
    }
    CHECK(t, digest_equal(packs[0]->digest, packs[1]->digest));
    CHECK(t, digest_equal(content[0], content[1]));
    pack_close(packs[0]);
    pack_close(packs[1]);
}

static void any_changed_byte_changes_the_content_digest(check_case *t) {
    const char *dir = single(t);
    tf_digest first = {{0}};
    for (uint8_t shift = 0; shift < 3; shift++) {
        tf_pack *pack = NULL;
        tf_error err = {0};
        tf_digest now;
        put_shard(t, dir, "model.safetensors", "{" A "," B "}", (uint8_t)(1 + shift), 12);
        if (!CHECK(t, pack_open(dir, &pack, &err) == TF_OK)) return;
        CHECK_U64(t, pack_content_digest(pack, 1, &now, &err), TF_OK);
        CHECK(t, shift == 0 || !digest_equal(now, first));
        if (shift == 0) first = now;
        pack_close(pack);
    }
}

static void headers_alone_plan_but_hold_no_bytes(check_case *t) {
    const char *dir = folder(t);
    tf_pack *pack = NULL;
    tf_error err = {0};
    uint8_t byte;
    put_shard(t, dir, "model.safetensors",
              "{\"__metadata__\":{\"tfverify_header_only\":\"1\"}," A "," B "}", 0, 0);
    if (!CHECKF(t, pack_open(dir, &pack, &err) == TF_OK, "%s: %s", err.what, err.found)) return;
    CHECK(t, pack->header_only && pack->tensor_count == 2);
    CHECK_U64(t, pack_read(pack, pack_find(pack, "a"), 0, &byte, 1, &err), TF_REFUSED);
    CHECK_U64(t, err.word, TF_W_HEADER_ONLY_PACK);
    tf_digest content;
    err = (tf_error){0};
    CHECK_U64(t, pack_content_digest(pack, 1, &content, &err), TF_REFUSED);
    pack_close(pack);
}

static void refused(check_case *t, const char *dir, tf_word word, const char *what,
                    const char *said) {
    tf_pack *pack = NULL;
    tf_error err = {0};
    tf_status status = pack_open(dir, &pack, &err);
    CHECKF(t, status != TF_OK && err.word == word && pack == NULL, "wanted [%s], got [%s] %s",
           tf_word_text(word), tf_word_text(err.word), err.what);
    CHECKF(t, strstr(err.what, what) != NULL, "the act is '%s'", err.what);
    bool is_said = strstr(err.found, said) != NULL || strstr(err.expected, said) != NULL ||
                   strstr(err.remedy, said) != NULL;
    CHECKF(t, is_said, "found '%s', expected '%s'", err.found, err.expected);
}

static void missing_files_are_named(check_case *t) {
    char path[256];
    tf_error err = {0};
    const char *dir = check_tmpdir(t);
    refused(t, dir, TF_W_CANNOT_OPEN, "config.json", "");
    dir = folder(t);
    refused(t, dir, TF_W_NO_WEIGHTS, dir, "model.safetensors");
    dir = sharded(t, good_index);
    snprintf(path, sizeof path, "%s/" TWO, dir);
    CHECK_U64(t, io_remove_tree(path, &err), TF_OK);
    refused(t, dir, TF_W_MISSING_SHARD, TWO, "no such file");
}

static void an_index_must_tell_the_truth(check_case *t) {
    static const struct {
        const char *index;
        tf_word word;
        const char *what, *said;
    } lies[] = {
        {"{\"weight_map\":{\"a\":\"" TWO "\",\"b\":\"" TWO "\",\"c\":\"" ONE "\"}}",
         TF_W_INDEX_DIFFERS, "tensor b", "it in " ONE},
        {"{\"weight_map\":{\"a\":\"" TWO "\",\"b\":\"" ONE "\",\"c\":\"" ONE "\"}}",
         TF_W_INDEX_DIFFERS, "tensor c", "no such tensor"},
        {"{\"weight_map\":{\"aa\":\"" TWO "\",\"b\":\"" ONE "\"}}", TF_W_INDEX_DIFFERS, "tensor a",
         "not in the index"},
        {"{\"weight_map\":{\"a\":\"../x.safetensors\"}}", TF_W_BAD_SHARD_NAME, "tensor a", "../x"},
        {"{\"weight_map\":{\"a\":\"/tmp/x.safetensors\"}}", TF_W_BAD_SHARD_NAME, "tensor a",
         "/tmp/x"},
        {"{\"weight_map\":{\"a\":\"/etc/passwd\"}}", TF_W_BAD_SHARD_NAME, "tensor a",
         "/etc/passwd"},
        {"{\"weight_map\":{\"a\":\"x.bin\"}}", TF_W_BAD_SHARD_NAME, "tensor a", "x.bin"},
        {"{\"weight_map\":{\"a\":\".safetensors\"}}", TF_W_BAD_SHARD_NAME, "tensor a",
         "'.safetensors'"},
        {"{\"weight_map\":{\"a\":7}}", TF_W_BAD_SHARD_NAME, "tensor a", "''"},
        {"{\"weight_map\":{}}", TF_W_BAD_JSON, "weight_map", ""},
        {"{\"weight_map\":[]}", TF_W_BAD_JSON, "weight_map", ""},
        {"{", TF_W_BAD_JSON, INDEX, ""},
    };
    const char *dir = sharded(t, good_index);
    for (size_t i = 0; i < COUNT(lies); i++) {
        put(t, dir, INDEX, lies[i].index, strlen(lies[i].index));
        refused(t, dir, lies[i].word, lies[i].what, lies[i].said);
    }
}

static void a_name_in_two_shards_is_refused(check_case *t) {
    const char *dir = folder(t);
    put_shard(t, dir, ONE, "{" A "}", 1, 4);
    put_shard(t, dir, TWO, "{" A "}", 1, 4);
    static const char index[] = "{\"weight_map\":{\"a\":\"" ONE "\",\"b\":\"" TWO "\"}}";
    put(t, dir, INDEX, index, sizeof index - 1);
    refused(t, dir, TF_W_DUPLICATE_TENSOR, "tensor a", "it in " ONE " at offset");
}

static void a_cut_or_lying_length_is_refused(check_case *t) {
    const char *dir = folder(t);
    put(t, dir, "model.safetensors", "\1\0\0", 3);
    refused(t, dir, TF_W_TRUNCATED_FILE, "model.safetensors", "");
    put(t, dir, "model.safetensors", "\100\0\0\0\0\0\0\0{}", 10);
    refused(t, dir, TF_W_TRUNCATED_FILE, "header of", "64 bytes");
    put(t, dir, "model.safetensors", "\377\377\377\377\377\377\377\177{}", 10);
    refused(t, dir, TF_W_TOO_LARGE, "header of", "");
    put_shard(t, dir, "model.safetensors", "{" A "," B "}", 1, 11);
    refused(t, dir, TF_W_TRUNCATED_FILE, "tensor b", "11 bytes of data");
}

static void survives_every_failure(check_case *t) {
#ifdef TF_FAULT
    const char *dir = sharded(t, good_index);
    static const fault_kind kinds[] = {FAULT_ALLOC, FAULT_READ};
    for (size_t k = 0; k < COUNT(kinds); k++) {
        for (uint64_t n = 1;; n++) {
            tf_pack *pack = NULL;
            tf_error err = {0};
            fault_arm(kinds[k], n);
            tf_status status = pack_open(dir, &pack, &err);
            bool fired = fault_fired(kinds[k]);
            fault_arm(kinds[k], 0);
            CHECK(t, (status == TF_OK) == (pack != NULL));
            pack_close(pack);
            if (fired && status != TF_OK) continue;
            CHECK_U64(t, status, TF_OK);
            CHECKF(t, n > 3, "only %llu failures were walked", (unsigned long long)n);
            if (!fired) break;
        }
    }
#else
    check_skip(t, "this build has no fault injection");
#endif
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"pack/one-file-and-shards-are-the-same-pack", one_file_and_shards_are_the_same_pack},
        {"pack/any-changed-byte-changes-the-content-digest",
         any_changed_byte_changes_the_content_digest},
        {"pack/headers-alone-plan-but-hold-no-bytes", headers_alone_plan_but_hold_no_bytes},
        {"pack/missing-files-are-named", missing_files_are_named},
        {"pack/an-index-must-tell-the-truth", an_index_must_tell_the_truth},
        {"pack/a-name-in-two-shards-is-refused", a_name_in_two_shards_is_refused},
        {"pack/a-cut-or-lying-length-is-refused", a_cut_or_lying_length_is_refused},
        {"pack/survives-every-failure", survives_every_failure},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
