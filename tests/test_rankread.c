/* What plan/rankread promises: the bytes asked for, however the reads lie to each other. */
#include "engine/plan/rankread.h"

#include "engine/base/io.h"
#include "tests/support/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_BYTES ((size_t)2000003)

typedef struct {
    char path[256];
    uint8_t *data;
    uint64_t size;
    int fd;
} file;

static void make_file(check_case *t, file *f, const char *name, uint64_t seed) {
    check_random r = {.state = seed};
    tf_error err = {0};
    snprintf(f->path, sizeof f->path, "%s/%s", check_tmpdir(t), name);
    f->data = malloc(FILE_BYTES);
    for (size_t i = 0; i < FILE_BYTES; i++)
        f->data[i] = (uint8_t)(check_next(&r) >> 40);
    CHECK_U64(t, io_write_file(f->path, f->data, FILE_BYTES, &err), TF_OK);
    CHECK_U64(t, io_open(f->path, &f->fd, &f->size, &err), TF_OK);
}

static void close_file(file *f) {
    io_close(&f->fd);
    free(f->data);
}

/* Sizes from a byte to beyond the window, at places that run on, skip a little, or jump. */
static void next_read(check_random *r, uint64_t *at, size_t *n) {
    static const uint64_t scale[] = {8, 600, 5000, 70000, 600000};
    *n = 1 + (size_t)check_below(r, scale[check_below(r, COUNT(scale))]);
    uint64_t how = check_below(r, 8);
    if (how == 0) *at = check_below(r, FILE_BYTES);
    if (how < 4) *at += check_below(r, 1 + 12 * *n);
    if (*at >= FILE_BYTES) *at = check_below(r, 1000);
    if (*n > FILE_BYTES - *at) *n = (size_t)(FILE_BYTES - *at);
}

static void gives_the_bytes_asked_for(check_case *t) {
    check_random r = check_seed(t);
    file f;
    make_file(t, &f, "data", 1);
    uint8_t *got = malloc(FILE_BYTES);
    rankread reader = {.window = malloc(RANKREAD_WINDOW)};
    rankread_open(&reader, f.fd, f.path, f.size);
    uint64_t at = 0;
    for (int i = 0; i < 20000; i++) {
        tf_error err = {0};
        size_t n = 0;
        next_read(&r, &at, &n);
        if (!CHECK_U64(t, rankread_at(&reader, at, got, n, &err), TF_OK)) break;
        const uint8_t *view = got;
        bool short_read = n < RANKREAD_LONG && i % 3 == 0;
        if (short_read) CHECK_U64(t, rankread_view(&reader, at, n, &view, &err), TF_OK);
        if (!CHECKF(t, memcmp(view, f.data + at, n) == 0, "%zu bytes at %llu", n,
                    (unsigned long long)at))
            break;
        at += n;
    }
    free(reader.window);
    free(got);
    close_file(&f);
}

static void forgets_the_file_before(check_case *t) {
    file a, b;
    tf_error err = {0};
    uint8_t got[300];
    make_file(t, &a, "a", 1);
    make_file(t, &b, "b", 2);
    rankread reader = {.window = malloc(RANKREAD_WINDOW)};
    rankread_open(&reader, a.fd, a.path, a.size);
    CHECK_U64(t, rankread_at(&reader, 0, got, sizeof got, &err), TF_OK);
    CHECK(t, memcmp(got, a.data, sizeof got) == 0);
    /* The same number, another file. */
    CHECK(t, dup2(b.fd, a.fd) == a.fd);
    rankread_open(&reader, a.fd, b.path, b.size);
    CHECK_U64(t, rankread_at(&reader, 0, got, sizeof got, &err), TF_OK);
    CHECK(t, memcmp(got, b.data, sizeof got) == 0);
    free(reader.window);
    close_file(&a);
    close_file(&b);
}

static void names_a_file_that_shrank(check_case *t) {
    file f;
    tf_error err = {0};
    uint8_t got[100];
    make_file(t, &f, "data", 3);
    rankread reader = {.window = malloc(RANKREAD_WINDOW)};
    rankread_open(&reader, f.fd, f.path, f.size);
    CHECK(t, truncate(f.path, 5000) == 0);
    CHECK_U64(t, rankread_at(&reader, 10000, got, sizeof got, &err), TF_IO);
    CHECK_U64(t, err.word, TF_W_CANNOT_READ);
    CHECK(t, strstr(err.what, f.path) != NULL);
    free(reader.window);
    close_file(&f);
}

int main(int argc, char **argv) {
    static const check_entry cases[] = {
        {"rankread/gives-the-bytes-asked-for", gives_the_bytes_asked_for},
        {"rankread/forgets-the-file-before", forgets_the_file_before},
        {"rankread/names-a-file-that-shrank", names_a_file_that_shrank},
    };
    return check_main(argc, argv, cases, COUNT(cases));
}
