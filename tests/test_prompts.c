/* Prompts as people write them (harness/cli/prompts). */
#include "harness/cli/prompts.h"
#include "tests/support/check.h"

#include <stdio.h>
#include <string.h>

static bool reads(const char *text, uint32_t count, const int32_t *first, uint32_t n) {
    prompts p = {0};
    tf_error err = {0};
    bool held = prompts_parse(&p, "p.txt", text, strlen(text), &err) == TF_OK && p.count == count &&
                p.list[0].count == n && memcmp(p.list[0].ids, first, n * sizeof *first) == 0;
    prompts_free(&p);
    return held;
}

static void lists_are_read_by_comma_and_by_blank(check_case *t) {
    static const int32_t ids[] = {0, 12, 7};
    CHECK(t, reads("0,12,7\n", 1, ids, 3));
    CHECK(t, reads("0 12 7", 1, ids, 3));
    CHECK(t, reads("  0 , 12\t7 \r\n", 1, ids, 3));
    CHECK(t, reads("{\"ids\": [0, 12, 7]}\n", 1, ids, 3));
    CHECK(t, reads("# of three\n\n0,12,7\n5\n{\"ids\":[1]}\n", 3, ids, 3));
    static const int32_t largest[] = {2147483647};
    CHECK(t, reads("2147483647", 1, largest, 1));
}

static void what_is_no_list_is_refused_with_its_line(check_case *t) {
    static const char *const bad[] = {
        "1,,2",
        "1,",
        ",1",
        "1;2",
        "0x10",
        "-1",
        "2147483648",
        "1.5",
        "one",
        "{\"ids\":3}",
        "{\"ids\":[]}",
        "{\"ids\":[-1]}",
        "{\"ids\":[1.5]}",
        "{\"ids\":[1],\"x\":2}",
        "{\"id\":[1]}",
        "{\"ids\":[\"1\"]}",
        "{\"ids\":[2147483648]}",
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        prompts p = {0};
        tf_error err = {0};
        char text[128];
        snprintf(text, sizeof text, "3,4\n%s\n", bad[i]);
        CHECKF(t, prompts_parse(&p, "p.txt", text, strlen(text), &err) != TF_OK, "%s", bad[i]);
        CHECKF(t, err.word == TF_W_BAD_PROMPT, "%s: %s", bad[i], err.what);
        CHECKF(t, strstr(err.what, "p.txt line 2") != NULL, "%s: %s", bad[i], err.what);
        CHECK(t, err.found[0] != '\0' && err.expected[0] != '\0');
        prompts_free(&p);
    }
}

static void a_file_without_prompts_is_refused(check_case *t) {
    static const char *const empty[] = {"", "\n\n", "# nothing\n"};
    for (size_t i = 0; i < COUNT(empty); i++) {
        prompts p = {0};
        tf_error err = {0};
        CHECK(t, prompts_parse(&p, "p.txt", empty[i], strlen(empty[i]), &err) == TF_USAGE);
        CHECK_U64(t, err.word, TF_W_BAD_PROMPT);
        prompts_free(&p);
    }
}

static void many_prompts_keep_their_order(check_case *t) {
    prompts p = {0};
    tf_error err = {0};
    for (int32_t i = 0; i < 1000; i++) {
        char text[16];
        int n = snprintf(text, sizeof text, "%d", i);
        CHECK(t, prompts_add(&p, "--ids", text, (size_t)n, &err) == TF_OK);
    }
    CHECK_U64(t, p.count, 1000);
    for (int32_t i = 0; i < 1000; i++)
        CHECK_U64(t, p.list[i].ids[0], i);
    prompts_free(&p);
}

static void an_id_outside_the_vocabulary_has_its_line(check_case *t) {
    static const char text[] = "# three\n5\n{\"ids\":[1279]}\n\n7 8 1280\n1281\n";
    prompts p = {0};
    tf_error err = {0};
    CHECK(t, prompts_add(&p, "--ids", "3,1281", 6, &err) == TF_OK);
    CHECK(t, prompts_check(&p, 1282, &err) == TF_OK);
    CHECK(t, prompts_check(&p, 1281, &err) == TF_USAGE && err.word == TF_W_BAD_TOKEN);
    CHECK_STR(t, err.what, "reading a prompt: --ids");
    prompts_free(&p);
    err = (tf_error){0};
    CHECK(t, prompts_parse(&p, "p.txt", text, strlen(text), &err) == TF_OK);
    CHECK(t, prompts_check(&p, 1280, &err) == TF_USAGE);
    CHECK_STR(t, err.what, "reading a prompt: p.txt line 5");
    CHECK_STR(t, err.found, "1280, id 3 of 3");
    CHECK_STR(t, err.expected, "0 to 1279, the pack's vocabulary");
    prompts_free(&p);
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"prompts/lists-are-read-by-comma-and-by-blank", lists_are_read_by_comma_and_by_blank},
        {"prompts/what-is-no-list-is-refused-with-its-line",
         what_is_no_list_is_refused_with_its_line},
        {"prompts/a-file-without-prompts-is-refused", a_file_without_prompts_is_refused},
        {"prompts/many-prompts-keep-their-order", many_prompts_keep_their_order},
        {"prompts/an-id-outside-the-vocabulary-has-its-line",
         an_id_outside_the_vocabulary_has_its_line},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
