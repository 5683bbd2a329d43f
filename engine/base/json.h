/* base/json - JSON documents from outside, bounded, with errors that name the field.
 *
 * Idea: cJSON parses; this room adds the limits (size, depth, repeated keys refused) and getters
 * that fail with the file, the path of the field, the value found and the form expected.
 * Trap: cJSON keeps numbers as double: integers beyond 2^53 are refused, not rounded. */
#ifndef TF_ENGINE_BASE_JSON_H
#define TF_ENGINE_BASE_JSON_H

#include "engine/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct json_doc json_doc;     /* owns all values */
typedef struct json_value json_value; /* borrowed from its document */

/* name is for messages (a path).  Fails with bad-json or too-large. */
tf_status json_parse(const char *name, const char *data, size_t n, json_doc **out, tf_error *err);
tf_status json_read(const char *path, uint64_t limit_bytes, json_doc **out, tf_error *err);
void json_free(json_doc *doc);
const json_value *json_root(const json_doc *doc);

/* NULL when absent or not an object. */
const json_value *json_get(const json_value *object, const char *key);
bool json_is_null(const json_value *v);
bool json_is_object(const json_value *v);
bool json_is_array(const json_value *v);
bool json_is_string(const json_value *v);
bool json_is_number(const json_value *v);
bool json_is_bool(const json_value *v);
size_t json_count(const json_value *v);                       /* of an array or object, else 0 */
const json_value *json_at(const json_value *v, size_t index); /* array or object member */
/* The walk over members that costs nothing a step: json_at counts from the first. */
const json_value *json_first(const json_value *v);
const json_value *json_next(const json_value *member);
const char *json_key(const json_value *member); /* "" outside an object */
const char *json_string(const json_value *v);   /* "" when not a string */
double json_number(const json_value *v);
bool json_bool(const json_value *v);

/* Where a field is looked for, and what to print for that object ("text_config"). */
typedef struct json_place {
    const json_doc *doc;
    const json_value *object;
    const char *path; /* "" at the root */
} json_place;

typedef struct json_range {
    uint64_t min, max; /* both allowed */
} json_range;

/* Required fields: fail with bad-json, naming document, path and the value found. */
tf_status json_need_u64(json_place at, const char *key, json_range range, uint64_t *out,
                        tf_error *err);
tf_status json_need_f64(json_place at, const char *key, double *out, tf_error *err);
tf_status json_need_string(json_place at, const char *key, const char **out, tf_error *err);
/* Array of integers into out[0..limit); *count set. */
tf_status json_need_u64s(json_place at, const char *key, json_range range, uint64_t *out,
                         size_t limit, size_t *count, tf_error *err);

#endif
