/* support/golden - reads safetensors files for tests with a parser of its own, so that what the
 * engine wrote is not judged by the engine's reader. */
#ifndef TF_TESTS_SUPPORT_GOLDEN_H
#define TF_TESTS_SUPPORT_GOLDEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct golden_file {
    char *bytes; /* owned; golden_close */
    size_t n;
    size_t data_begin;
    size_t hint; /* where the last search ended: the next one is usually near */
} golden_file;

typedef struct golden_tensor {
    char dtype[16];
    char shape[64]; /* "1280x256", "scalar" */
    const uint8_t *data;
    size_t begin, end; /* within the data part; data is NULL when the file ends before `end` */
} golden_tensor;

/* Reads a whole file into bytes with a NUL after it; false when it cannot.  Free with free. */
bool golden_read(const char *path, char **bytes, size_t *n);
bool golden_open(const char *path, golden_file *out);
void golden_close(golden_file *file);
bool golden_find(golden_file *file, const char *name, golden_tensor *out);
/* First place of `text` in [from, to), or NULL: bytes after the header are not looked at. */
const char *golden_seek(const char *from, const char *to, const char *text);
/* Tensors in the header. */
size_t golden_count(const golden_file *file);

#endif
