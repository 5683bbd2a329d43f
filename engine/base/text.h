/* base/text - builds canonical texts.
 *
 * Idea: a builder that goes broken on failure and ignores later writes, checked once at the end
 * with text_done.  Every text with a digest goes through it, so form is decided in one place.
 * Trap: no locale, no time, no address may enter; numbers are decimal, doubles by their bits. */
#ifndef TF_ENGINE_BASE_TEXT_H
#define TF_ENGINE_BASE_TEXT_H

#include "engine/base/status.h"

#include <stddef.h>
#include <stdint.h>

/* Zero it before use; text_free afterwards. */
typedef struct tf_text {
    char *data; /* NUL-terminated once something was added; builder owns */
    size_t length;
    size_t capacity;
    bool broken;
} tf_text;

void text_free(tf_text *text);
void text_clear(tf_text *text);
void text_add(tf_text *text, const char *string);
void text_add_n(tf_text *text, const char *bytes, size_t n);
void text_char(tf_text *text, char c);
void text_u64(tf_text *text, uint64_t value);
void text_i64(tf_text *text, int64_t value);
void text_hex(tf_text *text, const uint8_t *bytes, size_t n);
/* Shortest decimal that reads back to the same bits ("0.5"); nan and inf as words. */
void text_f64(tf_text *text, double value);
void text_print(tf_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "0,12,7". */
void text_i32s(tf_text *text, const int32_t *values, uint32_t count);
/* A JSON string with quotes and escapes; bytes that are not UTF-8 become U+FFFD. */
void text_json(tf_text *text, const char *string);
/* The text, never NULL ("" when nothing was added). Borrowed until the next call. */
const char *text_str(const tf_text *text);
/* 32 bits of a string (FNV-1a), for tables in memory: never recorded, and no digest. */
uint32_t text_hash(const char *string);
/* Fails with text-broken when any write was lost. */
tf_status text_done(const tf_text *text, tf_error *err);

#endif
