#include "engine/base/json.h"

#include "engine/base/arena.h"
#include "engine/base/io.h"
#include "engine/base/limits.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* From 2^53 on, a double may be another integer, rounded. */
#define EXACT_MAX 9007199254740991.0

struct json_doc {
    cJSON *root;
    char *name;
};

/* A json_value is a cJSON node; the type is opaque so that no other room sees the library. */
static const cJSON *node(const json_value *v) {
    return (const cJSON *)(const void *)v;
}
static const json_value *value(const cJSON *n) {
    return (const json_value *)(const void *)n;
}

/* Measured before the library recurses: its own limit is far deeper than any real document. */
static bool too_deep(const char *data, size_t n) {
    uint32_t depth = 0;
    bool quoted = false;
    for (size_t i = 0; i < n; i++) {
        char c = data[i];
        if (quoted) {
            if (c == '\\') i++;
            if (c == '"') quoted = false;
        } else if (c == '"') {
            quoted = true;
        } else if (c == '[' || c == '{') {
            if (++depth > TF_JSON_DEPTH_MAX) return true;
        } else if ((c == ']' || c == '}') && depth > 0) {
            depth--;
        }
    }
    return false;
}

static int by_key(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static tf_status refuse_repeat(const char *name, const cJSON *object, tf_error *err);

static tf_status refuse_repeats(const char *name, const cJSON *n, tf_error *err) {
    tf_status status = TF_OK;
    if (cJSON_IsObject(n)) status = refuse_repeat(name, n, err);
    for (const cJSON *c = n->child; c != NULL && status == TF_OK; c = c->next)
        status = refuse_repeats(name, c, err);
    return status;
}

static tf_status refuse_repeat(const char *name, const cJSON *object, tf_error *err) {
    size_t count = 0;
    for (const cJSON *c = object->child; c != NULL; c = c->next)
        count++;
    bool ascending = true;
    for (const cJSON *c = object->child; c != NULL && c->next != NULL && ascending; c = c->next)
        ascending = strcmp(c->string, c->next->string) < 0;
    if (ascending) return TF_OK;
    const char **keys = mem_take(count * sizeof *keys);
    if (keys == NULL) return tf_fail(err, TF_W_NO_MEMORY, "reading %s", name);
    size_t i = 0;
    for (const cJSON *c = object->child; c != NULL; c = c->next)
        keys[i++] = c->string;
    qsort(keys, count, sizeof *keys, by_key);
    tf_status status = TF_OK;
    for (i = 1; i < count && status == TF_OK; i++) {
        if (strcmp(keys[i - 1], keys[i]) != 0) continue;
        tf_fail(err, TF_W_BAD_JSON, "reading %s", name);
        tf_found(err, "the key '%s' twice in one object", keys[i]);
        status = tf_expected(err, "each key once");
    }
    mem_free(keys);
    return status;
}

tf_status json_parse(const char *name, const char *data, size_t n, json_doc **out, tf_error *err) {
    *out = NULL;
    if (n > TF_JSON_BYTES_MAX) {
        tf_fail(err, TF_W_TOO_LARGE, "reading %s", name);
        tf_found(err, "%zu bytes", n);
        return tf_expected(err, "at most %llu bytes", TF_JSON_BYTES_MAX);
    }
    if (too_deep(data, n)) {
        tf_fail(err, TF_W_BAD_JSON, "reading %s", name);
        tf_found(err, "brackets nested more than %d deep", TF_JSON_DEPTH_MAX);
        return tf_expected(err, "a document of at most %d levels", TF_JSON_DEPTH_MAX);
    }
    json_doc *doc = mem_take(sizeof *doc);
    if (doc != NULL) doc->name = mem_take(strlen(name) + 1);
    if (doc == NULL || doc->name == NULL) {
        json_free(doc);
        return tf_fail(err, TF_W_NO_MEMORY, "reading %s", name);
    }
    memcpy(doc->name, name, strlen(name) + 1);
    const char *end = NULL;
    doc->root = cJSON_ParseWithLengthOpts(data, n, &end, 0);
    size_t at = end != NULL ? (size_t)(end - data) : 0;
    bool whole = doc->root != NULL;
    for (size_t i = at; whole && i < n; i++)
        whole = data[i] == ' ' || data[i] == '\n' || data[i] == '\r' || data[i] == '\t';
    if (!whole || memchr(data, '\0', n) != NULL) {
        json_free(doc);
        tf_fail(err, TF_W_BAD_JSON, "reading %s", name);
        tf_found(err, "no JSON at byte %zu", at);
        return tf_expected(err, "one JSON document");
    }
    tf_status status = refuse_repeats(name, doc->root, err);
    if (status != TF_OK) {
        json_free(doc);
        return status;
    }
    *out = doc;
    return TF_OK;
}

tf_status json_read(const char *path, uint64_t limit_bytes, json_doc **out, tf_error *err) {
    char *data = NULL;
    size_t n = 0;
    *out = NULL;
    tf_status status = io_read_file(path, limit_bytes, &data, &n, err);
    if (status == TF_OK) status = json_parse(path, data, n, out, err);
    mem_free(data);
    return status;
}

void json_free(json_doc *doc) {
    if (doc == NULL) return;
    cJSON_Delete(doc->root);
    mem_free(doc->name);
    mem_free(doc);
}

const json_value *json_root(const json_doc *doc) {
    return value(doc->root);
}

const json_value *json_get(const json_value *object, const char *key) {
    return object == NULL ? NULL : value(cJSON_GetObjectItemCaseSensitive(node(object), key));
}

bool json_is_null(const json_value *v) {
    return v != NULL && cJSON_IsNull(node(v));
}
bool json_is_object(const json_value *v) {
    return v != NULL && cJSON_IsObject(node(v));
}
bool json_is_array(const json_value *v) {
    return v != NULL && cJSON_IsArray(node(v));
}
bool json_is_string(const json_value *v) {
    return v != NULL && cJSON_IsString(node(v));
}
bool json_is_number(const json_value *v) {
    return v != NULL && cJSON_IsNumber(node(v));
}
bool json_is_bool(const json_value *v) {
    return v != NULL && cJSON_IsBool(node(v));
}

size_t json_count(const json_value *v) {
    if (!json_is_array(v) && !json_is_object(v)) return 0;
    size_t count = 0;
    for (const cJSON *c = node(v)->child; c != NULL; c = c->next)
        count++;
    return count;
}

const json_value *json_at(const json_value *v, size_t index) {
    if (!json_is_array(v) && !json_is_object(v)) return NULL;
    const cJSON *c = node(v)->child;
    while (c != NULL && index-- > 0)
        c = c->next;
    return value(c);
}

const json_value *json_first(const json_value *v) {
    return json_is_array(v) || json_is_object(v) ? value(node(v)->child) : NULL;
}

const json_value *json_next(const json_value *member) {
    return member == NULL ? NULL : value(node(member)->next);
}

const char *json_key(const json_value *member) {
    return member == NULL || node(member)->string == NULL ? "" : node(member)->string;
}

const char *json_string(const json_value *v) {
    return json_is_string(v) ? node(v)->valuestring : "";
}

double json_number(const json_value *v) {
    return json_is_number(v) ? node(v)->valuedouble : 0.0;
}

bool json_bool(const json_value *v) {
    return v != NULL && cJSON_IsTrue(node(v));
}

/* What was found where something else was wanted. */
static void found_value(tf_error *err, const json_value *v) {
    if (v == NULL) {
        tf_found(err, "no such field");
        return;
    }
    char *text = cJSON_PrintUnformatted(node(v));
    tf_found(err, "%.200s", text == NULL ? "(no memory)" : text);
    cJSON_free(text);
}

static tf_status wrong_field(json_place at, const char *key, const json_value *v, tf_error *err) {
    tf_fail(err, TF_W_BAD_JSON, "reading %s: %s%s%s", at.doc->name, at.path,
            at.path[0] == '\0' ? "" : ".", key);
    found_value(err, v);
    return err->status;
}

static bool is_u64(const json_value *v, json_range range, uint64_t *out) {
    double d = json_number(v);
    if (!json_is_number(v) || !(d >= 0.0) || d > EXACT_MAX || floor(d) < d) return false;
    *out = (uint64_t)d;
    return *out >= range.min && *out <= range.max;
}

tf_status json_need_u64(json_place at, const char *key, json_range range, uint64_t *out,
                        tf_error *err) {
    const json_value *v = json_get(at.object, key);
    if (is_u64(v, range, out)) return TF_OK;
    wrong_field(at, key, v, err);
    return tf_expected(err, "a whole number from %llu to %llu", (unsigned long long)range.min,
                       (unsigned long long)range.max);
}

tf_status json_need_f64(json_place at, const char *key, double *out, tf_error *err) {
    const json_value *v = json_get(at.object, key);
    *out = json_number(v);
    if (json_is_number(v) && isfinite(*out)) return TF_OK;
    wrong_field(at, key, v, err);
    return tf_expected(err, "a finite number");
}

tf_status json_need_string(json_place at, const char *key, const char **out, tf_error *err) {
    const json_value *v = json_get(at.object, key);
    *out = json_string(v);
    if (json_is_string(v)) return TF_OK;
    wrong_field(at, key, v, err);
    return tf_expected(err, "a string");
}

tf_status json_need_u64s(json_place at, const char *key, json_range range, uint64_t *out,
                         size_t limit, size_t *count, tf_error *err) {
    const json_value *v = json_get(at.object, key);
    *count = 0;
    bool held = json_is_array(v);
    for (const cJSON *c = held ? node(v)->child : NULL; held && c != NULL; c = c->next)
        held = *count < limit && is_u64(value(c), range, &out[(*count)++]);
    if (held) return TF_OK;
    wrong_field(at, key, v, err);
    return tf_expected(err, "at most %zu whole numbers from %llu to %llu", limit,
                       (unsigned long long)range.min, (unsigned long long)range.max);
}
