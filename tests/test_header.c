/* A safetensors header: taken when everything agrees, else refused with file, tensor and offset. */
#include "engine/base/text.h"
#include "engine/pack/pack.h"
#include "tests/support/check.h"

#include <stdio.h>
#include <string.h>

typedef struct seen {
    tf_text text;
    unsigned count;
} seen;

static tf_status take(void *context, const pack_tensor *tensor, tf_error *err) {
    (void)err;
    seen *s = context;
    s->count++;
    text_print(&s->text, "%s %s [", tensor->name, dtype_name(tensor->dtype));
    for (uint32_t d = 0; d < tensor->dims; d++)
        text_print(&s->text, "%s%llu", d == 0 ? "" : ",", (unsigned long long)tensor->shape[d]);
    text_print(&s->text, "] %llu+%llu\n", (unsigned long long)tensor->offset,
               (unsigned long long)tensor->bytes);
    return TF_OK;
}

static tf_status parse(const char *json, uint64_t data_bytes, seen *s, bool *header_only,
                       tf_error *err) {
    const pack_header header = {"a.safetensors", json, strlen(json), 100, data_bytes};
    *err = (tf_error){0};
    *s = (seen){{0}, 0};
    return pack_parse_header(&header, take, s, header_only, err);
}

#define A "\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}"
#define B "\"b\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[24,26]}"

static void a_good_header_is_taken_in_its_order(check_case *t) {
    seen s;
    tf_error err;
    bool header_only = true;
    CHECK_U64(
        t, parse("{" B "," A ",\"__metadata__\":{\"format\":\"pt\"}}", 26, &s, &header_only, &err),
        TF_OK);
    CHECK_STR(t, text_str(&s.text), "b BF16 [] 124+2\na F32 [2,3] 100+24\n");
    CHECK(t, !header_only);
    text_free(&s.text);
    CHECK_U64(t, parse("{}", 0, &s, &header_only, &err), TF_OK);
    CHECK_U64(t, s.count, 0);
    text_free(&s.text);
    CHECK_U64(t,
              parse("{\"__metadata__\":{\"tfverify_header_only\":\"1\"}," A "}", 0, &s,
                    &header_only, &err),
              TF_OK);
    CHECK(t, header_only && s.count == 1);
    text_free(&s.text);
    /* An empty tensor occupies nothing, wherever it stands. */
    CHECK_U64(t,
              parse("{" A ",\"e\":{\"dtype\":\"F32\",\"shape\":[0,9],\"data_offsets\":[24,24]}}",
                    24, &s, &header_only, &err),
              TF_OK);
    text_free(&s.text);
}

typedef struct wrong_header {
    const char *json;
    uint64_t data_bytes;
    tf_word word;
    const char *what; /* in the act */
    const char *said; /* in found or expected */
} wrong_header;

static const wrong_header wrong[] = {
    {"", 0, TF_W_BAD_HEADER, "a.safetensors", "no JSON object"},
    {"[]", 0, TF_W_BAD_HEADER, "a.safetensors", ""},
    {"{\"a\":1}", 0, TF_W_BAD_HEADER, "a.safetensors", "a number"},
    {"{" A, 24, TF_W_BAD_HEADER, "a.safetensors", "no JSON object"},
    {"{" A "} {}", 24, TF_W_BAD_HEADER, "a.safetensors", ""},
    {"{\"a\":{\"b\":{}}}", 0, TF_W_BAD_HEADER, "tensor a", "an unknown field"},
    {"{\"a\":{\"dtype\":{}}}", 0, TF_W_BAD_HEADER, "tensor a", "an object"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[[1]]}}", 0, TF_W_BAD_HEADER, "tensor a", "a list"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"more\":1}}", 4,
     TF_W_BAD_HEADER, "tensor a", "an unknown field"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, TF_W_BAD_HEADER, "tensor a",
     "a field too few"},
    {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
     TF_W_BAD_HEADER, "tensor a", "a field twice"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,5]}}", 4, TF_W_BAD_HEADER,
     "tensor a", "a third data offset"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4, TF_W_BAD_HEADER,
     "tensor a", "a field too few"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, TF_W_BAD_HEADER,
     "tensor a", "negative"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}}", 4, TF_W_BAD_HEADER,
     "tensor a", "a whole number"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[99999999999999999999],\"data_offsets\":[0,4]}}", 4,
     TF_W_BAD_HEADER, "tensor a", "too large"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4,
     TF_W_BAD_HEADER, "tensor a", "too many dimensions"},
    {"{\"a\":{\"dtype\":null}}", 4, TF_W_BAD_HEADER, "tensor a", "null"},
    {"{\"\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}", 4, TF_W_BAD_HEADER,
     "a.safetensors", "empty"},
    {"{\"a\\u0000b\":{}}", 0, TF_W_BAD_HEADER, "a.safetensors", "NUL"},
    {"{\"a\":{\"dtype\":\"F31\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, TF_W_UNKNOWN_DTYPE,
     "tensor a", "'F31'"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, TF_W_WRONG_TENSOR_BYTES,
     "tensor a at offset 0", "8 bytes of F32"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4, TF_W_WRONG_TENSOR_BYTES,
     "tensor a", "[4, 0]"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0,
     TF_W_WRONG_TENSOR_BYTES, "tensor a", "2^64"},
    {"{" A ",\"c\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[20,24]}}", 24,
     TF_W_BAD_OFFSETS, "tensor c", "offset 20"},
    {"{" A ",\"c\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[28,32]}}", 32,
     TF_W_BAD_OFFSETS, "tensor c", "24, where the tensor before it ends"},
    {"{" A "," A "}", 48, TF_W_BAD_OFFSETS, "tensor a", "offset 0"},
    {"{" A "}", 25, TF_W_BAD_OFFSETS, "tensor a", "25 bytes of data"},
    {"{" A "}", 23, TF_W_TRUNCATED_FILE, "tensor a", "23 bytes of data"},
    {"{\"__metadata__\":{\"tfverify_header_only\":\"1\"}," A "}", 24, TF_W_BAD_HEADER,
     "a.safetensors", "24 bytes of data"},
    {"{\"__metadata__\":{\"x\":[1]}}", 0, TF_W_BAD_HEADER, "a.safetensors", "a list"},
};

static void what_does_not_agree_is_refused_by_name(check_case *t) {
    for (size_t i = 0; i < COUNT(wrong); i++) {
        seen s;
        tf_error err;
        bool header_only = false;
        tf_status status = parse(wrong[i].json, wrong[i].data_bytes, &s, &header_only, &err);
        CHECKF(t, status == TF_BAD_INPUT && err.word == wrong[i].word, "%s: [%s]", wrong[i].json,
               tf_word_text(err.word));
        CHECKF(t, strstr(err.what, wrong[i].what) != NULL, "%s: %s", wrong[i].json, err.what);
        bool said =
            strstr(err.found, wrong[i].said) != NULL || strstr(err.expected, wrong[i].said) != NULL;
        CHECKF(t, said, "%s: found '%s', expected '%s'", wrong[i].json, err.found, err.expected);
        CHECKF(t, s.count == 0, "%s: tensors were handed over", wrong[i].json);
        text_free(&s.text);
    }
}

/* A tensor between two others, one byte off at either end, in random layouts. */
static void any_shifted_offset_is_noticed(check_case *t) {
    check_random random = check_seed(t);
    for (int round = 0; round < 3000; round++) {
        uint64_t sizes[5];
        tf_text text = {0};
        uint64_t at = 0;
        size_t bad = (size_t)check_below(&random, 5);
        uint64_t shift = 1 + check_below(&random, 3);
        text_char(&text, '{');
        for (size_t i = 0; i < 5; i++) {
            sizes[i] = 1 + check_below(&random, 9);
            uint64_t begin = at + (i == bad ? shift : 0);
            text_print(
                &text,
                "%s\"t%zu\":{\"dtype\":\"U8\",\"shape\":[%llu],\"data_offsets\":[%llu,%llu]}",
                i == 0 ? "" : ",", i, (unsigned long long)sizes[i], (unsigned long long)begin,
                (unsigned long long)(begin + sizes[i]));
            at += sizes[i];
        }
        text_char(&text, '}');
        seen s;
        tf_error err;
        bool header_only = false;
        CHECK_U64(t, parse(text_str(&text), at, &s, &header_only, &err), TF_BAD_INPUT);
        text_free(&s.text);
        text_free(&text);
    }
}

static tf_status refuse(void *context, const pack_tensor *tensor, tf_error *err) {
    ++*(unsigned *)context;
    return tf_fail(err, TF_W_TOO_LARGE, "taking %s", tensor->name);
}
static void a_visitor_that_refuses_ends_the_reading(check_case *t) {
    static const char json[] = "{" A "," B "}";
    const pack_header header = {"a.safetensors", json, sizeof json - 1, 8, 26};
    tf_error err = {0};
    unsigned count = 0;
    bool header_only = false;
    CHECK_U64(t, pack_parse_header(&header, refuse, &count, &header_only, &err), TF_BAD_INPUT);
    CHECK_U64(t, count, 1);
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"header/a-good-header-is-taken-in-its-order", a_good_header_is_taken_in_its_order},
        {"header/what-does-not-agree-is-refused-by-name", what_does_not_agree_is_refused_by_name},
        {"header/any-shifted-offset-is-noticed", any_shifted_offset_is_noticed},
        {"header/a-visitor-that-refuses-ends-the-reading", a_visitor_that_refuses_ends_the_reading},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
