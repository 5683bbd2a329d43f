/* pack/header - one safetensors header, streamed through YAJL.
 *
 * Idea: the parser calls back per token; a small state (depth, current tensor, current field) is
 * all that is kept, so a header of 150,000 tensors costs its list and nothing more.
 * Trap: offsets are believed only after all of them together tile the data area exactly. */
#include "engine/base/arena.h"
#include "engine/base/check.h"
#include "engine/base/limits.h"
#include "engine/pack/pack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yajl/yajl_parse.h>

typedef enum {
    FIELD_NONE,
    FIELD_DTYPE,
    FIELD_SHAPE,
    FIELD_OFFSETS
} field;

typedef struct entry {
    pack_tensor tensor; /* offset: begin, within the data area */
    uint64_t end;
} entry;

typedef struct parse {
    const char *file;
    tf_error *err;
    tf_arena names;
    entry *entries;
    size_t count, capacity;
    /* where in the document: 1 the header's object, 2 inside a tensor or __metadata__, 3 an array */
    int depth;
    bool metadata;    /* the current member is __metadata__ */
    bool marker;      /* its current key is tfverify_header_only */
    bool header_only; /* the marker was "1" */
    field field;
    unsigned seen;    /* bit a field: of the current tensor */
    uint32_t offsets; /* numbers of data_offsets so far */
} parse;

static entry *current(parse *p) {
    return &p->entries[p->count - 1];
}

static int refuse(parse *p, const char *found, const char *expected) {
    if (p->count > 0 && !p->metadata && p->depth > 1) {
        tf_fail(p->err, TF_W_BAD_HEADER, "reading %s: tensor %s", p->file, current(p)->tensor.name);
    } else {
        tf_fail(p->err, TF_W_BAD_HEADER, "reading the header of %s", p->file);
    }
    tf_found(p->err, "%s", found);
    tf_expected(p->err, "%s", expected);
    return 0;
}

/* A callback's failure, recorded in p->err: parsing ends. */
static int stop(tf_status status) {
    TF_ASSERT(status != TF_OK);
    return 0;
}

static int begin_tensor(parse *p, const unsigned char *key, size_t n) {
    if (p->count == p->capacity) {
        size_t capacity = p->capacity == 0 ? 256 : p->capacity * 2;
        entry *grown = mem_grow(p->entries, capacity * sizeof *grown);
        if (grown == NULL) return stop(tf_fail(p->err, TF_W_NO_MEMORY, "reading %s", p->file));
        p->entries = grown;
        p->capacity = capacity;
    }
    if (n == 0 || n > TF_NAME_BYTES_MAX || memchr(key, 0, n) != NULL) {
        return refuse(p, "a tensor name that is empty, too long or holds a NUL",
                      "a name of 1 to 512 bytes");
    }
    if (p->count >= TF_TENSORS_MAX) {
        tf_fail(p->err, TF_W_TOO_LARGE, "reading %s", p->file);
        return stop(tf_expected(p->err, "at most %u tensors", TF_TENSORS_MAX));
    }
    char *name = arena_copy(&p->names, (const char *)key, n);
    if (name == NULL) return stop(tf_fail(p->err, TF_W_NO_MEMORY, "reading %s", p->file));
    p->entries[p->count++] = (entry){.tensor = {.name = name}};
    p->seen = 0;
    p->offsets = 0;
    return 1;
}

static bool key_is(const unsigned char *key, size_t n, const char *wanted) {
    return n == strlen(wanted) && memcmp(key, wanted, n) == 0;
}

static int on_key(void *context, const unsigned char *key, size_t n) {
    parse *p = context;
    p->field = FIELD_NONE;
    if (p->depth == 1) {
        p->metadata = key_is(key, n, "__metadata__");
        return p->metadata ? 1 : begin_tensor(p, key, n);
    }
    if (p->metadata) {
        p->marker = key_is(key, n, "tfverify_header_only");
        return 1;
    }
    if (key_is(key, n, "dtype")) p->field = FIELD_DTYPE;
    if (key_is(key, n, "shape")) p->field = FIELD_SHAPE;
    if (key_is(key, n, "data_offsets")) p->field = FIELD_OFFSETS;
    if (p->field == FIELD_NONE) {
        return refuse(p, "an unknown field", "dtype, shape and data_offsets alone");
    }
    if ((p->seen & (1u << p->field)) != 0) return refuse(p, "a field twice", "each field once");
    p->seen |= 1u << p->field;
    return 1;
}

static int on_string(void *context, const unsigned char *text, size_t n) {
    parse *p = context;
    if (p->metadata && p->depth == 2) {
        if (p->marker) p->header_only = key_is(text, n, "1");
        return 1;
    }
    if (p->depth != 2 || p->field != FIELD_DTYPE) return refuse(p, "a string", "another value");
    if (dtype_parse((const char *)text, n, &current(p)->tensor.dtype)) return 1;
    tf_fail(p->err, TF_W_UNKNOWN_DTYPE, "reading %s: tensor %s", p->file, current(p)->tensor.name);
    tf_found(p->err, "'%.*s'", (int)(n < 64 ? n : 64), (const char *)text);
    return stop(tf_expected(p->err, "BF16, F16, F32, F8_E4M3, F8_E8M0, I16, I32, I64 or the like"));
}

static bool whole_number(const char *text, size_t n, uint64_t *out) {
    uint64_t value = 0;
    if (n == 0) return false;
    for (size_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9') return false;
        uint64_t digit = (uint64_t)(text[i] - '0');
        if (value > (UINT64_MAX - digit) / 10) return false;
        value = value * 10 + digit;
    }
    *out = value;
    return true;
}

static int on_number(void *context, const char *text, size_t n) {
    parse *p = context;
    uint64_t value = 0;
    if (p->depth != 3 || p->metadata || p->field < FIELD_SHAPE) {
        return refuse(p, "a number", "another value");
    }
    if (!whole_number(text, n, &value)) {
        return refuse(p, "a number that is negative, broken or too large", "a whole number");
    }
    entry *e = current(p);
    if (p->field == FIELD_SHAPE) {
        if (e->tensor.dims == TF_DIMS_MAX) return refuse(p, "too many dimensions", "at most 8");
        e->tensor.shape[e->tensor.dims++] = value;
        return 1;
    }
    if (p->offsets == 2) return refuse(p, "a third data offset", "begin and end");
    if (p->offsets++ == 0)
        e->tensor.offset = value;
    else
        e->end = value;
    return 1;
}

static int on_start_map(void *context) {
    parse *p = context;
    if (p->depth >= 2) return refuse(p, "an object", "a flat header");
    p->depth++;
    return 1;
}

static int on_end_map(void *context) {
    parse *p = context;
    unsigned all = 1u << FIELD_DTYPE | 1u << FIELD_SHAPE | 1u << FIELD_OFFSETS;
    if (p->depth == 2 && !p->metadata && (p->seen != all || p->offsets != 2)) {
        return refuse(p, "a field too few", "dtype, shape and two data_offsets");
    }
    p->depth--;
    return 1;
}

static int on_start_array(void *context) {
    parse *p = context;
    if (p->depth != 2 || p->metadata || p->field < FIELD_SHAPE) {
        return refuse(p, "a list", "another value");
    }
    p->depth++;
    return 1;
}

static int on_end_array(void *context) {
    parse *p = context;
    p->depth--;
    p->field = FIELD_NONE;
    return 1;
}

static int on_null(void *context) {
    return refuse(context, "null", "another value");
}
static int on_boolean(void *context, int value) {
    (void)value;
    return refuse(context, "true or false", "another value");
}

static tf_status run_parser(parse *p, const char *json, size_t n) {
    static const yajl_callbacks callbacks = {
        .yajl_null = on_null,
        .yajl_boolean = on_boolean,
        .yajl_number = on_number,
        .yajl_string = on_string,
        .yajl_start_map = on_start_map,
        .yajl_map_key = on_key,
        .yajl_end_map = on_end_map,
        .yajl_start_array = on_start_array,
        .yajl_end_array = on_end_array,
    };
    yajl_handle handle = yajl_alloc(&callbacks, NULL, p);
    if (handle == NULL) return tf_fail(p->err, TF_W_NO_MEMORY, "reading %s", p->file);
    yajl_status result = yajl_parse(handle, (const unsigned char *)json, n);
    if (result == yajl_status_ok) result = yajl_complete_parse(handle);
    size_t at = yajl_get_bytes_consumed(handle);
    yajl_free(handle);
    if (p->err->status != TF_OK) return p->err->status;
    if (result == yajl_status_ok && n > 0 && json[0] == '{') return TF_OK;
    tf_fail(p->err, TF_W_BAD_HEADER, "reading the header of %s", p->file);
    tf_found(p->err, "no JSON object, at byte %zu of the header", at);
    return tf_expected(p->err, "a JSON object of tensors");
}

static int by_offset(const void *a, const void *b) {
    const entry *x = *(const entry *const *)a;
    const entry *y = *(const entry *const *)b;
    if (x->tensor.offset != y->tensor.offset) return x->tensor.offset < y->tensor.offset ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

static tf_status check_bytes(const parse *p, const entry *e) {
    const pack_tensor *t = &e->tensor;
    uint64_t bytes = dtype_bytes(t->dtype);
    bool fits = true;
    for (uint32_t d = 0; d < t->dims && fits; d++) {
        fits = t->shape[d] == 0 || bytes <= UINT64_MAX / t->shape[d];
        bytes *= t->shape[d];
    }
    if (fits && e->end >= t->offset && e->end - t->offset == bytes) return TF_OK;
    tf_fail(p->err, TF_W_WRONG_TENSOR_BYTES, "reading %s: tensor %s at offset %llu", p->file,
            t->name, (unsigned long long)t->offset);
    tf_found(p->err, "data_offsets [%llu, %llu]", (unsigned long long)t->offset,
             (unsigned long long)e->end);
    if (!fits) return tf_expected(p->err, "a shape of fewer than 2^64 bytes");
    return tf_expected(p->err, "%llu bytes of %s", (unsigned long long)bytes, dtype_name(t->dtype));
}

/* The tensors, by offset, must tile [0, data_bytes) exactly. */
static tf_status check_tiling(const parse *p, entry **sorted, uint64_t data_bytes) {
    uint64_t at = 0;
    for (size_t i = 0; i < p->count; i++) {
        const entry *e = sorted[i];
        tf_status status = check_bytes(p, e);
        if (status != TF_OK) return status;
        if (e->tensor.offset != at) {
            tf_fail(p->err, TF_W_BAD_OFFSETS, "reading %s: tensor %s", p->file, e->tensor.name);
            tf_found(p->err, "offset %llu", (unsigned long long)e->tensor.offset);
            return tf_expected(p->err, "%llu, where the tensor before it ends",
                               (unsigned long long)at);
        }
        at = e->end;
    }
    if (at == data_bytes) return TF_OK;
    const char *last = p->count == 0 ? "(none)" : sorted[p->count - 1]->tensor.name;
    tf_word word = at > data_bytes ? TF_W_TRUNCATED_FILE : TF_W_BAD_OFFSETS;
    tf_fail(p->err, word, "reading %s: tensor %s, the last by offset", p->file, last);
    tf_found(p->err, "%llu bytes of data in the file", (unsigned long long)data_bytes);
    return tf_expected(p->err, "%llu, where that tensor ends", (unsigned long long)at);
}

static tf_status deliver(parse *p, uint64_t data_begin, uint64_t data_bytes, pack_each each,
                         void *context) {
    if (p->count == 0) return check_tiling(p, NULL, data_bytes);
    entry **sorted = mem_take(p->count * sizeof *sorted);
    if (sorted == NULL) return tf_fail(p->err, TF_W_NO_MEMORY, "reading %s", p->file);
    uint64_t end = 0;
    for (size_t i = 0; i < p->count; i++) {
        sorted[i] = &p->entries[i];
        if (p->entries[i].end > end) end = p->entries[i].end;
    }
    qsort(sorted, p->count, sizeof *sorted, by_offset);
    /* A header-only shard ends after its header; what it says of its data is all there is. */
    if (p->header_only && data_bytes == 0) data_bytes = end;
    tf_status status = check_tiling(p, sorted, data_bytes);
    if (status == TF_OK && end > UINT64_MAX - data_begin) {
        tf_fail(p->err, TF_W_BAD_OFFSETS, "reading %s", p->file);
        tf_found(p->err, "data up to byte %llu", (unsigned long long)end);
        status = tf_expected(p->err, "a file of fewer than 2^64 bytes");
    }
    mem_free(sorted);
    for (size_t i = 0; i < p->count && status == TF_OK; i++) {
        entry *e = &p->entries[i];
        e->tensor.bytes = e->end - e->tensor.offset;
        e->tensor.offset += data_begin;
        status = each(context, &e->tensor, p->err);
    }
    return status;
}

tf_status pack_parse_header(const pack_header *header, pack_each each, void *context,
                            bool *header_only, tf_error *err) {
    parse p = {.file = header->file, .err = err};
    arena_init(&p.names, 0);
    *header_only = false;
    tf_status status = run_parser(&p, header->json, header->n);
    if (status == TF_OK && p.header_only && header->data_bytes != 0) {
        tf_fail(err, TF_W_BAD_HEADER, "reading %s", header->file);
        tf_found(err, "%llu bytes of data", (unsigned long long)header->data_bytes);
        status = tf_expected(err, "none in a file marked tfverify_header_only");
    }
    if (status == TF_OK)
        status = deliver(&p, header->data_begin, header->data_bytes, each, context);
    if (status == TF_OK) *header_only = p.header_only;
    arena_free(&p.names);
    mem_free(p.entries);
    return status;
}
