/* JSON from outside: read whole or refused by name, and never a surprise. */
#include "engine/base/arena.h"
#include "engine/base/fault.h"
#include "engine/base/json.h"
#include "engine/base/limits.h"
#include "engine/base/text.h"
#include "tests/support/check.h"

#include <stdio.h>
#include <string.h>

static tf_status parse(const char *text, json_doc **doc, tf_error *err) {
    *err = (tf_error){0};
    return json_parse("a.json", text, strlen(text), doc, err);
}

static void documents_read_back(check_case *t) {
    json_doc *doc = NULL;
    tf_error err;
    const char *text =
        " {\"a\": [1, 2.5, -3], \"b\": {\"c\": \"x\\u00e9\\n\", \"d\": null, \"e\": true}} ";
    if (!CHECK(t, parse(text, &doc, &err) == TF_OK)) return;
    const json_value *root = json_root(doc);
    const json_value *a = json_get(root, "a");
    const json_value *b = json_get(root, "b");
    CHECK(t, json_is_array(a) && json_count(a) == 3 && json_number(json_at(a, 2)) < -2.9);
    CHECK_STR(t, json_string(json_get(b, "c")), "x\xc3\xa9\n");
    CHECK(t, json_is_null(json_get(b, "d")) && json_bool(json_get(b, "e")));
    CHECK(t, json_get(b, "f") == NULL && json_get(a, "f") == NULL && json_at(a, 3) == NULL);
    CHECK_STR(t, json_key(json_at(root, 1)), "b");
    /* Questions to nothing and to the wrong kind have answers. */
    CHECK_STR(t, json_string(a), "");
    CHECK_U64(t, json_count(NULL), 0);
    json_free(doc);
}

static void damaged_documents_are_refused(check_case *t) {
    static const char *const damaged[] = {
        "",
        " ",
        "{",
        "{\"a\":1",
        "{\"a\":1}}",
        "[1,2",
        "{a:1}",
        "nul",
        "{\"a\":1,\"a\":2}",
        "{\"b\":{\"x\":1,\"y\":2,\"x\":3}}",
        "{\"a\":\"\x01",
        "[1] [2]",
        "{\"a\":}",
    };
    for (size_t i = 0; i < COUNT(damaged); i++) {
        json_doc *doc = NULL;
        tf_error err;
        CHECKF(t,
               parse(damaged[i], &doc, &err) == TF_BAD_INPUT && err.word == TF_W_BAD_JSON &&
                   doc == NULL,
               "taken: %s", damaged[i]);
        CHECKF(t, strstr(err.what, "a.json") != NULL && err.found[0] != '\0', "%s: %s", err.what,
               err.found);
        json_free(doc);
    }
    json_doc *doc = NULL;
    tf_error err = {0};
    CHECK_U64(t, json_parse("a.json", "[1]\0[2]", 7, &doc, &err), TF_BAD_INPUT);
}

/* Deep nesting is refused before anything recurses over it. */
static void depth_and_size_are_bounded(check_case *t) {
    tf_text text = {0};
    json_doc *doc = NULL;
    tf_error err;
    for (int depth = TF_JSON_DEPTH_MAX; depth <= TF_JSON_DEPTH_MAX + 1; depth++) {
        text_clear(&text);
        for (int i = 0; i < depth; i++)
            text_char(&text, '[');
        for (int i = 0; i < depth; i++)
            text_char(&text, ']');
        bool fits = depth == TF_JSON_DEPTH_MAX;
        CHECK_U64(t, parse(text_str(&text), &doc, &err), fits ? TF_OK : TF_BAD_INPUT);
        json_free(doc);
    }
    text_clear(&text);
    for (int i = 0; i < 1000000; i++)
        text_add(&text, "{\"a\":[");
    CHECK_U64(t, parse(text_str(&text), &doc, &err), TF_BAD_INPUT);
    text_free(&text);
    /* Brackets in a string are text. */
    CHECK_U64(t, parse("\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\\\"[[[[[[\"", &doc, &err),
              TF_OK);
    json_free(doc);
    err = (tf_error){0};
    CHECK_U64(t, json_parse("a.json", "", (size_t)TF_JSON_BYTES_MAX + 1, &doc, &err), TF_BAD_INPUT);
    CHECK_U64(t, err.word, TF_W_TOO_LARGE);
}

static void needed_fields_name_place_value_and_range(check_case *t) {
    json_doc *doc = NULL;
    tf_error err;
    const char *text =
        "{\"text_config\":{\"n\":7,\"big\":9007199254740993,\"half\":2.5,\"minus\":-1,"
        "\"word\":\"x\",\"list\":[1,2,3],\"mixed\":[1,\"a\"]}}";
    if (!CHECK(t, parse(text, &doc, &err) == TF_OK)) return;
    const json_place at = {doc, json_get(json_root(doc), "text_config"), "text_config"};
    uint64_t n = 0;
    uint64_t list[3];
    size_t count = 0;
    double real = 0;
    const char *word = NULL;
    CHECK(t, json_need_u64(at, "n", (json_range){7, 7}, &n, &err) == TF_OK && n == 7);
    CHECK(t, json_need_u64s(at, "list", (json_range){1, 3}, list, 3, &count, &err) == TF_OK &&
                 count == 3 && list[2] == 3);
    CHECK(t, json_need_f64(at, "half", &real, &err) == TF_OK && real > 2.4);
    CHECK(t, json_need_string(at, "word", &word, &err) == TF_OK);
    CHECK_STR(t, word, "x");
    static const struct {
        const char *key, *found;
    } wrong[] = {{"absent", "nothing"}, {"big", "9007199254740993"}, {"half", "2.5"},
                 {"minus", "-1"},       {"word", "\"x\""},           {"list", "[1,2,3]"}};
    for (size_t i = 0; i < COUNT(wrong); i++) {
        err = (tf_error){0};
        CHECKF(t,
               json_need_u64(at, wrong[i].key, (json_range){0, UINT64_MAX}, &n, &err) ==
                   TF_BAD_INPUT,
               "%s is taken", wrong[i].key);
        CHECKF(t,
               strstr(err.what, "a.json: text_config.") != NULL &&
                   strstr(err.what, wrong[i].key) != NULL,
               "%s", err.what);
        /* A number beyond 2^53 has lost its last digits already; it is refused, not rounded. */
        bool named = strstr(err.found, wrong[i].found) != NULL ||
                     strcmp(wrong[i].key, "big") == 0 || strcmp(wrong[i].key, "absent") == 0;
        CHECKF(t, named && err.found[0] != '\0', "%s: found '%s'", wrong[i].key, err.found);
    }
    err = (tf_error){0};
    CHECK(t, json_need_u64(at, "n", (json_range){8, 9}, &n, &err) == TF_BAD_INPUT);
    CHECK_STR(t, err.expected, "a whole number from 8 to 9");
    err = (tf_error){0};
    CHECK(t, json_need_u64s(at, "list", (json_range){1, 3}, list, 2, &count, &err) == TF_BAD_INPUT);
    err = (tf_error){0};
    CHECK(t,
          json_need_u64s(at, "mixed", (json_range){0, 9}, list, 3, &count, &err) == TF_BAD_INPUT);
    err = (tf_error){0};
    CHECK(t, json_need_f64(at, "word", &real, &err) == TF_BAD_INPUT);
    err = (tf_error){0};
    CHECK(t, json_need_string(at, "n", &word, &err) == TF_BAD_INPUT);
    json_free(doc);
}

/* Any text of JSON's own pieces ends in a document or an error. */
static void any_text_ends(check_case *t) {
    static const char *const parts[] = {"{", "}", "[",  "]",    ",",    ":", "\"a\"", "\"",  "\\",
                                        "1", "-", "e9", "true", "null", " ", "\\u00", "\xff"};
    check_random random = check_seed(t);
    for (int round = 0; round < 20000; round++) {
        tf_text text = {0};
        uint64_t n = check_below(&random, 30);
        for (uint64_t i = 0; i < n; i++)
            text_add(&text, parts[check_below(&random, COUNT(parts))]);
        json_doc *doc = NULL;
        tf_error err;
        tf_status status = parse(text_str(&text), &doc, &err);
        CHECK(t, (status == TF_OK) == (doc != NULL));
        json_free(doc);
        text_free(&text);
    }
}

static void survives_every_failed_allocation(check_case *t) {
#ifdef TF_FAULT
    for (uint64_t n = 1;; n++) {
        json_doc *doc = NULL;
        tf_error err;
        fault_arm(FAULT_ALLOC, n);
        tf_status status = parse("{\"b\":1,\"a\":{\"d\":2,\"c\":[]}}", &doc, &err);
        bool fired = fault_fired(FAULT_ALLOC);
        fault_arm(FAULT_ALLOC, 0);
        json_free(doc);
        if (!fired) {
            CHECK_U64(t, status, TF_OK);
            CHECK(t, n > 2);
            return;
        }
        CHECK_U64(t, status, TF_NO_MEMORY);
        CHECK(t, doc == NULL);
    }
#else
    check_skip(t, "this build has no fault injection");
#endif
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"json/documents-read-back", documents_read_back},
        {"json/damaged-documents-are-refused", damaged_documents_are_refused},
        {"json/depth-and-size-are-bounded", depth_and_size_are_bounded},
        {"json/needed-fields-name-place-value-and-range", needed_fields_name_place_value_and_range},
        {"json/any-text-ends", any_text_ends},
        {"json/survives-every-failed-allocation", survives_every_failed_allocation},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
