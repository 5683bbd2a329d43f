#include "engine/pack/sums.h"

#include "engine/base/arena.h"
#include "engine/base/digest.h"
#include "engine/base/io.h"
#include "engine/base/limits.h"
#include "engine/base/text.h"

#include <string.h>

#define CHUNK_BYTES ((size_t)1 << 20)

static tf_status digest_file(const char *path, tf_digest *out, uint64_t *size, tf_error *err) {
    int fd = -1;
    digest_state *state = NULL;
    char *buf = NULL;
    tf_status status = TF_OK;
    TF_TRY(io_open(path, &fd, size, err));
    buf = mem_take(CHUNK_BYTES);
    state = digest_begin();
    if (buf == NULL || state == NULL) TF_TRY(tf_fail(err, TF_W_NO_MEMORY, "reading %s", path));
    for (uint64_t at = 0; at < *size; at += CHUNK_BYTES) {
        size_t n = *size - at < CHUNK_BYTES ? (size_t)(*size - at) : CHUNK_BYTES;
        TF_TRY(io_read_at(fd, path, buf, n, at, err));
        digest_add(state, buf, n);
    }
done:
    if (state != NULL) *out = digest_end(state);
    mem_free(buf);
    io_close(&fd);
    return status;
}

/* "<digest> <size> <name>" a file, after a line with the digest of those lines. */
static tf_status list(const char *dir, tf_text *out, tf_error *err) {
    char **names = NULL;
    size_t count = 0;
    tf_text lines = {0};
    char hex[DIGEST_HEX];
    tf_status status = TF_OK;
    TF_TRY(io_list(dir, &names, &count, err));
    for (size_t i = 0; i < count; i++) {
        char path[TF_PATH_BYTES_MAX + 128];
        tf_digest digest = {0};
        uint64_t size = 0;
        if (strcmp(names[i], SUMS_FILE) == 0) continue;
        io_join(path, sizeof path, dir, names[i]);
        TF_TRY(digest_file(path, &digest, &size, err));
        text_print(&lines, "%s %llu %s\n", digest_hex(digest, hex), (unsigned long long)size,
                   names[i]);
    }
    TF_TRY(text_done(&lines, err));
    text_print(out, "digests 1 %s\n", digest_hex(digest_str(text_str(&lines)), hex));
    text_add(out, text_str(&lines));
    TF_TRY(text_done(out, err));
done:
    text_free(&lines);
    io_free_names(names, count);
    return status;
}

tf_status sums_write(const char *dir, tf_error *err) {
    tf_text out = {0};
    char path[TF_PATH_BYTES_MAX + 128];
    io_join(path, sizeof path, dir, SUMS_FILE);
    tf_status status = list(dir, &out, err);
    if (status == TF_OK) status = io_write_file(path, out.data, out.length, err);
    text_free(&out);
    return status;
}

/* Copies the line at `text` into to; returns what follows it. */
static const char *take_line(const char *text, char *to, size_t size) {
    size_t n = strcspn(text, "\n");
    size_t kept = n < size ? n : size - 1;
    memcpy(to, text, kept);
    to[kept] = '\0';
    return text[n] == '\n' ? text + n + 1 : text + n;
}

/* Names the first line that differs; the digest line stands first and differs always, so it counts
 * only when nothing else does. */
static tf_status differ(const char *dir, const char *now, const char *then, tf_error *err) {
    char a[512];
    char b[512];
    now = take_line(now, a, sizeof a);
    then = take_line(then, b, sizeof b);
    while (*now != '\0' || *then != '\0') {
        char x[512];
        char y[512];
        now = take_line(now, x, sizeof x);
        then = take_line(then, y, sizeof y);
        if (strcmp(x, y) == 0) continue;
        memcpy(a, x, sizeof a);
        memcpy(b, y, sizeof b);
        break;
    }
    tf_fail(err, TF_W_FOLDER_DAMAGED, "checking the files of %s against its %s", dir, SUMS_FILE);
    tf_found(err, "%s", a[0] == '\0' ? "nothing" : a);
    tf_expected(err, "%s", b[0] == '\0' ? "nothing" : b);
    return tf_remedy(err, "remove %s; it is made anew when asked for", dir);
}

tf_status sums_check(const char *dir, tf_error *err) {
    tf_text now = {0};
    char *then = NULL;
    size_t n = 0;
    char path[TF_PATH_BYTES_MAX + 128];
    tf_status status = TF_OK;
    io_join(path, sizeof path, dir, SUMS_FILE);
    if (io_exists(path)) TF_TRY(io_read_file(path, TF_JSON_BYTES_MAX, &then, &n, err));
    TF_TRY(list(dir, &now, err));
    if (then == NULL || strlen(then) != n || strcmp(text_str(&now), then) != 0) {
        TF_TRY(differ(dir, text_str(&now), then == NULL ? "" : then, err));
    }
done:
    text_free(&now);
    mem_free(then);
    return status;
}
