#include "engine/base/text.h"

#include "engine/base/arena.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void text_free(tf_text *text) {
    mem_free(text->data);
    *text = (tf_text){0};
}

void text_clear(tf_text *text) {
    text->length = 0;
    text->broken = false;
    if (text->data != NULL) text->data[0] = '\0';
}

/* Room for n more bytes and a NUL; false leaves the builder broken. */
static bool reserve(tf_text *text, size_t n) {
    if (text->broken) return false;
    if (n < text->capacity - text->length && text->capacity != 0) return true;
    size_t wanted = text->length + n + 1;
    size_t capacity = text->capacity < 128 ? 128 : text->capacity;
    while (capacity < wanted && capacity <= SIZE_MAX / 2)
        capacity *= 2;
    char *data = n < SIZE_MAX / 2 && capacity >= wanted ? mem_grow(text->data, capacity) : NULL;
    if (data == NULL) {
        text->broken = true;
        return false;
    }
    if (text->data == NULL) data[0] = '\0';
    text->data = data;
    text->capacity = capacity;
    return true;
}

void text_add_n(tf_text *text, const char *bytes, size_t n) {
    if (!reserve(text, n)) return;
    if (n > 0) memcpy(text->data + text->length, bytes, n);
    text->length += n;
    text->data[text->length] = '\0';
}

void text_add(tf_text *text, const char *string) {
    text_add_n(text, string, strlen(string));
}

void text_char(tf_text *text, char c) {
    text_add_n(text, &c, 1);
}

void text_u64(tf_text *text, uint64_t value) {
    char digits[20];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    text_add_n(text, digits + at, sizeof digits - at);
}

void text_i64(tf_text *text, int64_t value) {
    if (value < 0) text_char(text, '-');
    text_u64(text, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

void text_i32s(tf_text *text, const int32_t *values, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        if (i > 0) text_char(text, ',');
        text_i64(text, values[i]);
    }
}

void text_hex(tf_text *text, const uint8_t *bytes, size_t n) {
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        char pair[2] = {digits[bytes[i] >> 4], digits[bytes[i] & 15]};
        text_add_n(text, pair, 2);
    }
}

void text_f64(tf_text *text, double value) {
    if (isnan(value)) {
        text_add(text, "nan");
        return;
    }
    if (isinf(value)) {
        text_add(text, value < 0 ? "-inf" : "inf");
        return;
    }
    char buf[40];
    if (value == trunc(value) && fabs(value) < 1e15) {
        snprintf(buf, sizeof buf, "%.0f", value);
        text_add(text, buf);
        return;
    }
    for (int precision = 1; precision <= 17; precision++) {
        snprintf(buf, sizeof buf, "%.*g", precision, value);
        if (strtod(buf, NULL) == value) break;
    }
    text_add(text, buf);
}

void text_print(tf_text *text, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (n < 0) text->broken = true;
    if (n < 0 || !reserve(text, (size_t)n)) return;
    va_start(args, format);
    vsnprintf(text->data + text->length, (size_t)n + 1, format, args);
    va_end(args);
    text->length += (size_t)n;
}

/* Bytes of the UTF-8 sequence at s, 0 when it is not one (overlong and surrogates included). */
static size_t utf8_sequence(const unsigned char *s) {
    if (s[0] < 0x80) return 1;
    size_t n = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    if (s[0] < 0xc2 || s[0] > 0xf4) return 0;
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80) return 0;
    }
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f)) return 0;
    if ((s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f)) return 0;
    return n;
}

void text_json(tf_text *text, const char *string) {
    text_char(text, '"');
    for (const unsigned char *s = (const unsigned char *)string; *s != '\0';) {
        size_t n = utf8_sequence(s);
        if (n == 0) {
            text_add(text, "\\ufffd");
        } else if (*s == '"' || *s == '\\') {
            text_char(text, '\\');
            text_char(text, (char)*s);
        } else if (*s == '\n') {
            text_add(text, "\\n");
        } else if (*s < 0x20) {
            text_print(text, "\\u%04x", (unsigned)*s);
        } else {
            text_add_n(text, (const char *)s, n);
        }
        s += n == 0 ? 1 : n;
    }
    text_char(text, '"');
}

const char *text_str(const tf_text *text) {
    return text->data == NULL ? "" : text->data;
}

uint32_t text_hash(const char *string) {
    uint32_t hash = 2166136261u;
    for (; *string != '\0'; string++)
        hash = (hash ^ (uint8_t)*string) * 16777619u;
    return hash;
}

tf_status text_done(const tf_text *text, tf_error *err) {
    if (!text->broken) return TF_OK;
    tf_fail(err, TF_W_TEXT_BROKEN, "building a text of %zu bytes so far", text->length);
    return tf_remedy(err, "free memory and run again");
}
