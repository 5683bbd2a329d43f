/* Markers of a pack with bytes: right in the built-in one, refused by name when another number. */
#include "engine/base/io.h"
#include "engine/pack/exl3.h"
#include "engine/pack/synth.h"
#include "engine/tf.h"
#include "tests/support/check.h"
#include "tests/support/golden.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Makes a pack in the case's folder and opens it; NULL when that fails. */
static tf_pack *made(check_case *t, const char *kind, char dir[1024]) {
    tf_error err = {0};
    char line[2048];
    tf_pack *pack = NULL;
    synth_request request = {0};
    snprintf(dir, 1024, "%s/p", check_tmpdir(t));
    tf_status status = synth_model(kind, &request.model, &err);
    if (status == TF_OK) status = synth_make(&request, dir, &err);
    if (status == TF_OK) status = pack_open(dir, &pack, &err);
    CHECKF(t, status == TF_OK, "%s", tf_error_line(&err, line, sizeof line));
    return pack;
}

static bool overwrite(const char *dir, uint64_t offset, const void *bytes, size_t n) {
    char path[1200];
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    int fd = open(path, O_WRONLY);
    bool held = fd >= 0 && pwrite(fd, bytes, n, (off_t)offset) == (ssize_t)n;
    if (fd >= 0) close(fd);
    return held;
}

static void markers_of_built_in_packs_hold(check_case *t) {
    static const char *const kinds[] = {"tiny-exl3", "tiny-bf16", "flash"};
    for (size_t i = 0; i < COUNT(kinds); i++) {
        char dir[1024];
        tf_error err = {0};
        tf_pack *pack = made(t, kinds[i], dir);
        if (pack == NULL) return;
        CHECK_U64(t, exl3_check_markers(pack, 2, &err), TF_OK);
        pack_close(pack);
    }
}

static void another_number_is_refused_by_name(check_case *t) {
    static const char *const names[] = {"mtp.2.attn.wkv.mul1", "layers.7.ffn.experts.3.w2.mul1",
                                        "head.mul1"};
    char dir[1024];
    tf_pack *pack = made(t, "tiny-exl3", dir);
    if (pack == NULL) return;
    /* From the last in name order on, so that each is the first wrong one in its turn. */
    for (size_t i = 0; i < COUNT(names); i++) {
        const pack_tensor *tensor = pack_find(pack, names[i]);
        tf_error err = {0};
        if (!CHECK(t, tensor != NULL)) return;
        CHECK(t, overwrite(dir, tensor->offset + 3, "\x82", 1));
        CHECK_U64(t, exl3_check_markers(pack, 3, &err), TF_BAD_INPUT);
        CHECK_STR(t, tf_word_text(err.word), "exl3-marker");
        CHECKF(t, strstr(err.what, names[i]) != NULL, "%s", err.what);
        CHECK_STR(t, err.found, "0x82DCD12D");
        CHECK(t, strstr(err.expected, "0x83DCD12D") != NULL);
    }
    pack_close(pack);
}

/* A marker of the other codebook's name with this one's number. */
static void each_codebook_has_its_own_number(check_case *t) {
    char dir[1024];
    char path[1200];
    golden_file file;
    tf_pack *pack = made(t, "tiny-exl3", dir);
    if (pack == NULL) return;
    pack_close(pack);
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    if (!CHECK(t, golden_open(path, &file))) return;
    const char *name = golden_seek(file.bytes, file.bytes + file.data_begin, "\"head.mul1\":");
    if (CHECK(t, name != NULL)) {
        CHECK(t, overwrite(dir, (uint64_t)(name - file.bytes), "\"head.mcg\" :", 12));
    }
    golden_close(&file);
    tf_error err = {0};
    if (!CHECK_U64(t, pack_open(dir, &pack, &err), TF_OK)) return;
    CHECK_U64(t, exl3_check_markers(pack, 1, &err), TF_BAD_INPUT);
    CHECK(t, strstr(err.what, "head.mcg") != NULL);
    CHECK(t, strstr(err.expected, "0xCBAC1FED") != NULL);
    pack_close(pack);
}

static void no_rank_file_comes_of_a_wrong_marker(check_case *t) {
    char dir[1024];
    char out[1040];
    tf_plan *plan = NULL;
    tf_text text = {0};
    tf_error err = {0};
    tf_pack *pack = made(t, "tiny-exl3", dir);
    if (pack == NULL) return;
    snprintf(out, sizeof out, "%s-out", dir);
    CHECK(t, overwrite(dir, pack_find(pack, "layers.5.attn.wo_b.mul1")->offset, "\x2e", 1));
    tf_split split = {.world = 3, .rank = 1};
    if (!CHECK_U64(t, tf_plan_make(pack, &split, &plan, &err), TF_OK)) return;
    CHECK_U64(t, tf_rank_write(plan, out, NULL, NULL, &err), TF_BAD_INPUT);
    CHECK_STR(t, tf_word_text(err.word), "exl3-marker");
    CHECK(t, !io_exists(out));
    err = (tf_error){0};
    CHECK_U64(t, tf_rank_text(plan, NULL, &text, NULL, &err), TF_BAD_INPUT);
    CHECK_STR(t, tf_word_text(err.word), "exl3-marker");
    text_free(&text);
    tf_plan_close(plan);
    pack_close(pack);
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"exl3/markers-of-built-in-packs-hold", markers_of_built_in_packs_hold},
        {"exl3/another-number-is-refused-by-name", another_number_is_refused_by_name},
        {"exl3/each-codebook-has-its-own-number", each_codebook_has_its_own_number},
        {"exl3/no-rank-file-comes-of-a-wrong-marker", no_rank_file_comes_of_a_wrong_marker},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
