#include "tests/support/golden.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool golden_read(const char *path, char **bytes, size_t *n) {
    FILE *f = fopen(path, "rb");
    *bytes = NULL;
    *n = 0;
    if (f == NULL) return false;
    bool read = fseek(f, 0, SEEK_END) == 0;
    long size = read ? ftell(f) : -1;
    if (size >= 0 && fseek(f, 0, SEEK_SET) == 0) *bytes = calloc(1, (size_t)size + 1);
    if (*bytes != NULL) *n = fread(*bytes, 1, (size_t)size, f);
    read = *bytes != NULL && *n == (size_t)size;
    fclose(f);
    return read;
}

bool golden_open(const char *path, golden_file *out) {
    *out = (golden_file){0};
    if (!golden_read(path, &out->bytes, &out->n) || out->n < 8) return false;
    uint64_t length = 0;
    for (int i = 7; i >= 0; i--) {
        length = length << 8 | (uint8_t)out->bytes[i];
    }
    if (length > out->n - 8) return false;
    out->data_begin = (size_t)length + 8;
    out->hint = 8;
    return true;
}

void golden_close(golden_file *file) {
    free(file->bytes);
    *file = (golden_file){0};
}

const char *golden_seek(const char *from, const char *to, const char *text) {
    size_t n = strlen(text);
    for (const char *at = from; at + n <= to; at++) {
        at = memchr(at, text[0], (size_t)(to - at) - n + 1);
        if (at == NULL) return NULL;
        if (memcmp(at, text, n) == 0) return at;
    }
    return NULL;
}

static void read_shape(const char *at, char *to, size_t size) {
    size_t n = 0;
    for (; *at != ']' && n + 1 < size; at++) {
        if (*at == ' ') continue;
        to[n++] = *at == ',' ? 'x' : *at;
    }
    to[n] = '\0';
    if (n == 0) snprintf(to, size, "scalar");
}

bool golden_find(golden_file *file, const char *name, golden_tensor *out) {
    const char *end = file->bytes + file->data_begin;
    char key[600];
    snprintf(key, sizeof key, "\"%s\":", name);
    const char *at = golden_seek(file->bytes + file->hint, end, key);
    if (at == NULL) at = golden_seek(file->bytes + 8, end, key);
    if (at == NULL) return false;
    file->hint = (size_t)(at - file->bytes);
    const char *close = golden_seek(at, end, "}");
    const char *dtype = golden_seek(at, end, "\"dtype\":");
    const char *shape = golden_seek(at, end, "\"shape\":");
    const char *offsets = golden_seek(at, end, "\"data_offsets\":");
    if (close == NULL || dtype == NULL || shape == NULL || offsets == NULL) return false;
    if (sscanf(dtype + 8, " \"%15[A-Z0-9_]\"", out->dtype) != 1) return false;
    if (sscanf(offsets + 15, " [ %zu , %zu ]", &out->begin, &out->end) != 2) return false;
    read_shape(strchr(shape, '[') + 1, out->shape, sizeof out->shape);
    bool stored = out->end <= file->n - file->data_begin;
    out->data = stored ? (const uint8_t *)end + out->begin : NULL;
    return true;
}

size_t golden_count(const golden_file *file) {
    size_t count = 0;
    const char *end = file->bytes + file->data_begin;
    for (const char *at = file->bytes + 8; (at = golden_seek(at, end, "\"data_offsets\"")) != NULL;
         at++) {
        count++;
    }
    return count;
}
