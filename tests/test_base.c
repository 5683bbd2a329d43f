/* status, arena, text, digest, io: the ground everything stands on. */
#include "engine/base/arena.h"
#include "engine/base/digest.h"
#include "engine/base/fault.h"
#include "engine/base/io.h"
#include "engine/base/status.h"
#include "engine/base/text.h"
#include "tests/support/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void first_failure_wins(check_case *t) {
    tf_error err = {0};
    CHECK_U64(t, tf_fail(&err, TF_W_CANNOT_READ, "reading %s", "a"), TF_IO);
    tf_found(&err, "%d", 1);
    CHECK_U64(t, tf_fail(&err, TF_W_USAGE, "closing"), TF_IO);
    tf_found(&err, "2");
    tf_expected(&err, "3");
    CHECK_STR(t, err.what, "reading a");
    CHECK_STR(t, err.found, "1");
    CHECK_STR(t, err.expected, "");
    CHECK_U64(t, err.word, TF_W_CANNOT_READ);
}

static void outer_acts_go_in_front(check_case *t) {
    tf_error err = {0};
    char line[2048];
    tf_fail(&err, TF_W_TOO_LARGE, "reading h");
    tf_found(&err, "9");
    tf_expected(&err, "at most 8");
    tf_remedy(&err, "make it smaller");
    tf_under(&err, "opening pack %s", "p");
    CHECK_STR(
        t, tf_error_line(&err, line, sizeof line),
        "opening pack p: reading h: found 9, expected at most 8 [too-large]\nmake it smaller");
}

static void a_message_stays_on_its_line(check_case *t) {
    tf_error err = {0};
    char long_name[2000];
    memset(long_name, 'x', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    tf_fail(&err, TF_W_CANNOT_OPEN, "opening a\nb\033[31m %s", long_name);
    CHECK(t, strchr(err.what, '\n') == NULL && strchr(err.what, '\033') == NULL);
    CHECK_U64(t, strlen(err.what), sizeof err.what - 1);
    CHECK_STR(t, err.what + sizeof err.what - 4, "...");
}

static void every_status_has_its_exit_code(check_case *t) {
    static const int exits[] = {0, 2, 3, 2, 1, 3, 3, 4, 70, 3};
    for (int s = TF_OK; s <= (int)TF_INTERNAL; s++)
        CHECK_U64(t, tf_status_exit((tf_status)s), exits[s]);
}

static void every_word_is_one_word(check_case *t) {
    for (int a = 1; a < (int)TF_W_COUNT; a++) {
        const char *text = tf_word_text((tf_word)a);
        CHECKF(t, strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-") == strlen(text),
               "'%s' has another letter", text);
        CHECKF(t, tf_word_status((tf_word)a) != TF_OK, "'%s' has the status ok", text);
        for (int b = a + 1; b < (int)TF_W_COUNT; b++)
            CHECKF(t, strcmp(text, tf_word_text((tf_word)b)) != 0, "'%s' stands twice", text);
    }
}

static void arena_memory_is_zeroed_aligned_and_apart(check_case *t) {
    tf_arena arena;
    arena_init(&arena, 0);
    check_random r = check_seed(t);
    unsigned char *last = NULL;
    size_t last_bytes = 0;
    for (int i = 0; i < 3000; i++) {
        size_t bytes = check_below(&r, i % 50 == 0 ? 200000 : 400);
        unsigned char *p = arena_take(&arena, bytes);
        CHECK(t, p != NULL && (uintptr_t)p % 16 == 0);
        for (size_t k = 0; k < bytes; k++) {
            if (p[k] != 0) CHECKF(t, false, "byte %zu of %zu is not zero", k, bytes);
        }
        memset(p, 0xA5, bytes);
        for (size_t k = 0; k < last_bytes; k++) {
            if (last[k] != 0xA5) CHECKF(t, false, "an earlier piece was overwritten");
        }
        last = p;
        last_bytes = bytes;
    }
    CHECK(t, arena_array(&arena, SIZE_MAX / 2, 4) == NULL);
    arena_free(&arena);
}

static void arena_keeps_its_limit(check_case *t) {
    tf_arena arena;
    arena_init(&arena, 1000);
    CHECK(t, arena_take(&arena, 900) != NULL);
    CHECK(t, arena_take(&arena, 200) == NULL);
    CHECK(t, arena_take(&arena, 64) != NULL);
    arena_free(&arena);
}

static void text_numbers_read_back(check_case *t) {
    tf_text text = {0};
    text_u64(&text, UINT64_MAX);
    text_char(&text, ' ');
    text_i64(&text, INT64_MIN);
    text_char(&text, ' ');
    text_f64(&text, 0.1);
    text_char(&text, ' ');
    text_f64(&text, 1e-20);
    text_char(&text, ' ');
    text_f64(&text, -0.0);
    CHECK_STR(t, text_str(&text), "18446744073709551615 -9223372036854775808 0.1 1e-20 -0");
    text_free(&text);
    check_random r = check_seed(t);
    for (int i = 0; i < 2000; i++) {
        uint64_t bits = check_next(&r);
        double value;
        memcpy(&value, &bits, sizeof value);
        if (value != value) continue;
        text_clear(&text);
        text_f64(&text, value);
        double back = strtod(text_str(&text), NULL);
        CHECKF(t, memcmp(&back, &value, sizeof back) == 0, "%s is not %a", text_str(&text), value);
    }
    text_free(&text);
}

static void text_json_is_valid_whatever_comes(check_case *t) {
    tf_text text = {0};
    text_json(&text, "a\"b\\c\n\x01\xc3\xa4\xff\xed\xa0\x80");
    CHECK_STR(t, text_str(&text), "\"a\\\"b\\\\c\\n\\u0001\xc3\xa4\\ufffd\\ufffd\\ufffd\\ufffd\"");
    text_free(&text);
}

static void digests_match_published_vectors(check_case *t) {
    char hex[SHA256_HEX];
    sha256_hex("1,2,3", 5, hex);
    hex[12] = '\0';
    CHECK_STR(t, hex, "8a6ae1512200");
    sha256_hex("", 0, hex);
    hex[12] = '\0';
    CHECK_STR(t, hex, "e3b0c44298fc");
    char d[DIGEST_HEX];
    CHECK_STR(t, digest_hex(digest_str(""), d), "99aa06d3014798d86001c324468d497f");
    digest_state *s = digest_begin();
    sha256_state *h = sha256_begin();
    if (!CHECK(t, s != NULL && h != NULL)) return;
    for (int i = 0; i < 1000; i++) {
        digest_add(s, "0123456789abcdef!", 17);
        sha256_add(h, "0123456789abcdef!", 17);
    }
    char whole[17001];
    for (int i = 0; i < 1000; i++)
        memcpy(whole + 17 * i, "0123456789abcdef!", 17);
    CHECK(t, digest_equal(digest_end(s), digest_bytes(whole, 17000)));
    char streamed[SHA256_HEX];
    sha256_end(h, streamed);
    sha256_hex(whole, 17000, hex);
    CHECK_STR(t, streamed, hex);
}

static void digest_text_reads_back(check_case *t) {
    char hex[DIGEST_HEX];
    tf_digest d = digest_str("x");
    tf_digest back;
    CHECK(t, digest_parse(digest_hex(d, hex), &back) && digest_equal(d, back));
    CHECK(t, !digest_parse("12", &back));
    CHECK(t, !digest_parse("99aa06d3014798d86001c324468d497G", &back));
    CHECK(t, !digest_parse("99aa06d3014798d86001c324468d497f0", &back));
}

static size_t entries(const char *dir) {
    char **names = NULL;
    size_t count = 0;
    tf_error err = {0};
    if (io_list(dir, &names, &count, &err) != TF_OK) return SIZE_MAX;
    io_free_names(names, count);
    return count;
}

static void a_written_file_appears_whole_or_not(check_case *t) {
    const char *dir = check_tmpdir(t);
    char path[256];
    snprintf(path, sizeof path, "%s/f", dir);
    tf_error err = {0};
    CHECK_U64(t, io_write_file(path, "old", 3, &err), TF_OK);
    io_writer w;
    CHECK_U64(t, io_create(&w, path, &err), TF_OK);
    CHECK_U64(t, io_write(&w, "new content", 11, &err), TF_OK);
    char *data = NULL;
    size_t n = 0;
    CHECK_U64(t, io_read_file(path, 100, &data, &n, &err), TF_OK);
    CHECK_STR(t, data, "old");
    mem_free(data);
    io_discard(&w);
    CHECK_U64(t, entries(dir), 1);
    CHECK_U64(t, io_read_file(path, 2, &data, &n, &err), TF_BAD_INPUT);
    CHECK_U64(t, err.word, TF_W_TOO_LARGE);
}

static void an_unwritable_folder_is_named(check_case *t) {
    tf_error err = {0};
    CHECK_U64(t, io_write_file("/proc/no/such/file", "x", 1, &err), TF_IO);
    CHECK(t, strstr(err.what, "/proc/no/such/file") != NULL && err.found[0] != '\0');
    CHECK_U64(t, err.word, TF_W_CANNOT_WRITE);
    tf_error made = {0};
    CHECK_U64(t, io_make_dirs("/proc/none/x", &made), TF_IO);
    tf_error opened = {0};
    int fd = -1;
    uint64_t size = 0;
    CHECK_U64(t, io_open("/tmp", &fd, &size, &opened), TF_IO);
    CHECK_U64(t, opened.word, TF_W_CANNOT_OPEN);
}

static void a_read_past_the_end_is_refused(check_case *t) {
    const char *dir = check_tmpdir(t);
    char path[256];
    snprintf(path, sizeof path, "%s/f", dir);
    tf_error err = {0};
    CHECK_U64(t, io_write_file(path, "abc", 3, &err), TF_OK);
    int fd = -1;
    uint64_t size = 0;
    CHECK_U64(t, io_open(path, &fd, &size, &err), TF_OK);
    char buf[8];
    CHECK_U64(t, io_read_at(fd, path, buf, 4, 0, &err), TF_IO);
    CHECK_U64(t, err.word, TF_W_CANNOT_READ);
    CHECK_STR(t, err.expected, "1 more bytes");
    io_close(&fd);
}

static void trees_are_made_and_removed(check_case *t) {
    const char *dir = check_tmpdir(t);
    char deep[256];
    char file[300];
    tf_error err = {0};
    snprintf(deep, sizeof deep, "%s/a/b/c", dir);
    snprintf(file, sizeof file, "%s/f", deep);
    CHECK_U64(t, io_make_dirs(deep, &err), TF_OK);
    CHECK_U64(t, io_make_dirs(deep, &err), TF_OK);
    CHECK_U64(t, io_write_file(file, "", 0, &err), TF_OK);
    /* A link out of the tree is removed, not followed. */
    snprintf(file, sizeof file, "%s/a/link", dir);
    CHECK(t, symlink("/tmp", file) == 0);
    snprintf(file, sizeof file, "%s/a", dir);
    CHECK_U64(t, io_remove_tree(file, &err), TF_OK);
    CHECK(t, !io_exists(file) && io_is_dir("/tmp"));
    CHECK_U64(t, io_remove_tree(file, &err), TF_OK);
}

static void survives_every_failed_write(check_case *t) {
#ifdef TF_FAULT
    const char *dir = check_tmpdir(t);
    char path[256];
    snprintf(path, sizeof path, "%s/f", dir);
    tf_error first = {0};
    CHECK_U64(t, io_write_file(path, "old", 3, &first), TF_OK);
    for (uint64_t n = 1;; n++) {
        tf_error err = {0};
        fault_arm(FAULT_WRITE, n);
        tf_status status = io_write_file(path, "new", 3, &err);
        bool fired = fault_fired(FAULT_WRITE);
        fault_arm(FAULT_WRITE, 0);
        CHECK_U64(t, entries(dir), 1);
        if (!fired) {
            CHECK_U64(t, status, TF_OK);
            CHECKF(t, n > 3, "only %llu failures were walked", (unsigned long long)n);
            return;
        }
        CHECK_U64(t, status, TF_IO);
        char *data = NULL;
        size_t bytes = 0;
        tf_error read = {0};
        CHECK_U64(t, io_read_file(path, 100, &data, &bytes, &read), TF_OK);
        /* When the folder alone could not be synced, the new file is there, whole. */
        bool renamed = strstr(err.what, "syncing the folder") != NULL;
        CHECK_STR(t, data, renamed ? "new" : "old");
        mem_free(data);
    }
#else
    check_skip(t, "this build has no fault injection");
#endif
}

static void a_text_without_memory_breaks_and_says_so(check_case *t) {
#ifdef TF_FAULT
    tf_text text = {0};
    text_add(&text, "a");
    fault_arm(FAULT_ALLOC, 1);
    for (int i = 0; i < 1000; i++)
        text_add(&text, "bcd");
    fault_arm(FAULT_ALLOC, 0);
    text_add(&text, "e");
    tf_error err = {0};
    CHECK_U64(t, text_done(&text, &err), TF_NO_MEMORY);
    CHECK_U64(t, err.word, TF_W_TEXT_BROKEN);
    text_free(&text);
    tf_arena arena;
    arena_init(&arena, 0);
    fault_arm(FAULT_ALLOC, 1);
    CHECK(t, arena_take(&arena, 10) == NULL);
    fault_arm(FAULT_ALLOC, 0);
    arena_free(&arena);
#else
    check_skip(t, "this build has no fault injection");
#endif
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"status/first-failure-wins", first_failure_wins},
        {"status/outer-acts-go-in-front", outer_acts_go_in_front},
        {"status/a-message-stays-on-its-line", a_message_stays_on_its_line},
        {"status/every-status-has-its-exit-code", every_status_has_its_exit_code},
        {"status/every-word-is-one-word", every_word_is_one_word},
        {"arena/memory-is-zeroed-aligned-and-apart", arena_memory_is_zeroed_aligned_and_apart},
        {"arena/keeps-its-limit", arena_keeps_its_limit},
        {"text/numbers-read-back", text_numbers_read_back},
        {"text/json-is-valid-whatever-comes", text_json_is_valid_whatever_comes},
        {"text/breaks-without-memory-and-says-so", a_text_without_memory_breaks_and_says_so},
        {"digest/matches-published-vectors", digests_match_published_vectors},
        {"digest/text-reads-back", digest_text_reads_back},
        {"io/a-written-file-appears-whole-or-not", a_written_file_appears_whole_or_not},
        {"io/an-unwritable-folder-is-named", an_unwritable_folder_is_named},
        {"io/a-read-past-the-end-is-refused", a_read_past_the_end_is_refused},
        {"io/trees-are-made-and-removed", trees_are_made_and_removed},
        {"io/survives-every-failed-write", survives_every_failed_write},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
