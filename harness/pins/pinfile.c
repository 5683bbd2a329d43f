#include "harness/pins/pinfile.h"

#include "engine/base/io.h"
#include "engine/base/limits.h"

#include <stdio.h>
#include <string.h>

void pinfile_free(pin_file *file) {
    arena_free(&file->arena);
    *file = (pin_file){0};
}

/* ---- names ---------------------------------------------------------------------------------- */

static bool name_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '+' || c == '.' || c == '-';
}

tf_status pinfile_check_name(const char *name, tf_error *err) {
    size_t length = strlen(name);
    size_t components = 1;
    bool fits = length > 0 && length <= PIN_NAME_BYTES_MAX;
    bool fresh = true;
    for (size_t i = 0; i < length && fits; i++) {
        components += name[i] == '/';
        fits = (name[i] == '/' && !fresh) || (name_char(name[i]) && !(fresh && name[i] == '.'));
        fresh = name[i] == '/';
    }
    if (fits && !fresh && components <= PIN_DEPTH_MAX) return TF_OK;
    tf_fail(err, TF_W_BAD_PIN_NAME, "naming a pin");
    tf_found(err, "'%s'", name);
    tf_expected(err,
                "up to %u parts of letters, digits, _ + . - joined by /, none beginning "
                "with a dot, at most %u bytes",
                PIN_DEPTH_MAX, PIN_NAME_BYTES_MAX);
    return tf_remedy(err, "give the pin such a name in the script");
}

/* Both pointers go back to the last star at most once per byte of text: no blow-up. */
static bool glob(const char *pattern, const char *text) {
    const char *star = NULL, *resume = NULL;
    while (*text != '\0') {
        if (*pattern == '*') {
            star = pattern++;
            resume = text;
        } else if (*pattern == '?' || *pattern == *text) {
            pattern++;
            text++;
        } else if (star != NULL) {
            pattern = star + 1;
            text = ++resume;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}

bool pinfile_match(const char *pattern, const char *name) {
    if (pattern == NULL) return true;
    for (const char *at = name; at != NULL; at = strchr(at, '/')) {
        at += *at == '/';
        if (glob(pattern, at)) return true;
    }
    return false;
}

/* ---- reading -------------------------------------------------------------------------------- */

typedef struct reader {
    const char *path;
    char *at, *end; /* a NUL stands at end */
    size_t line;    /* number of the line taken last, from 1 */
    tf_error *err;
} reader;

static tf_status damaged(reader *r, const char *found, const char *expected) {
    tf_fail(r->err, TF_W_PIN_DAMAGED, "reading the pin %s, line %zu", r->path, r->line);
    tf_found(r->err, "'%.120s'", found);
    tf_expected(r->err, "%s", expected);
    return tf_remedy(r->err, "restore it (git checkout -- %s), or delete it and capture again",
                     r->path);
}

/* Takes one line and ends it with a NUL in place of its newline. */
static tf_status take_line(reader *r, char **out) {
    r->line++;
    char *newline = r->at < r->end ? memchr(r->at, '\n', (size_t)(r->end - r->at)) : NULL;
    if (newline == NULL) return damaged(r, "the end of the file", "the rest of the header");
    *newline = '\0';
    *out = r->at;
    r->at = newline + 1;
    size_t length = strlen(*out);
    if (*out + length != newline) return damaged(r, *out, "a line without a NUL byte");
    if (length > 0 && (*out)[length - 1] == '\r')
        return damaged(r, "a carriage return at the line's end", "line ends of LF alone");
    return TF_OK;
}

/* `key value` with the value not empty. */
static tf_status take_value(reader *r, const char *key, const char **value) {
    char *line = NULL;
    tf_status status = take_line(r, &line);
    if (status != TF_OK) return status;
    size_t n = strlen(key);
    if (strncmp(line, key, n) != 0 || line[n] != ' ' || line[n + 1] == '\0') {
        char expected[64];
        snprintf(expected, sizeof expected, "'%s' and its value", key);
        return damaged(r, line, expected);
    }
    *value = line + n + 1;
    return TF_OK;
}

/* Parses a decimal without sign or leading zero that ends at `stop`. */
static bool take_number(const char **at, char stop, uint64_t *out) {
    const char *p = *at;
    uint64_t value = 0;
    if (*p < '0' || *p > '9' || (p[0] == '0' && p[1] >= '0' && p[1] <= '9')) return false;
    for (; *p >= '0' && *p <= '9'; p++) {
        if (value > (UINT64_MAX - 9) / 10) return false;
        value = value * 10 + (uint64_t)(*p - '0');
    }
    if (*p != stop) return false;
    *at = p + (stop != '\0');
    *out = value;
    return true;
}

static bool take_word(const char **at, const char *word) {
    size_t n = strlen(word);
    if (strncmp(*at, word, n) != 0) return false;
    *at += n;
    return true;
}

static bool starts(const reader *r, const char *key) {
    size_t n = strlen(key);
    return (size_t)(r->end - r->at) > n && memcmp(r->at, key, n) == 0;
}

static tf_status take_digest(reader *r, const char *key, bool none_allowed, tf_digest *out) {
    const char *value = NULL;
    tf_status status = take_value(r, key, &value);
    if (status != TF_OK) return status;
    *out = (tf_digest){0};
    if (none_allowed && strcmp(value, "none") == 0) return TF_OK;
    if (!digest_parse(value, out)) return damaged(r, value, "32 lower-case hex digits");
    return TF_OK;
}

static tf_status take_header(reader *r, pin_file *out) {
    tf_status status = TF_OK;
    char *first = NULL;
    const char *size = NULL;
    TF_TRY(take_line(r, &first));
    if (strcmp(first, "pin 1") != 0) TF_TRY(damaged(r, first, "'pin 1'"));
    TF_TRY(take_value(r, "name", &out->name));
    TF_TRY(take_value(r, "what", &out->what));
    TF_TRY(take_value(r, "run", &out->run));
    TF_TRY(take_value(r, "made-by", &out->made_by));
    TF_TRY(take_value(r, "captured-at", &out->captured_at));
    TF_TRY(take_value(r, "tool", &out->tool));
    TF_TRY(take_digest(r, "digest", false, &out->digest));
    TF_TRY(take_value(r, "text", &size));
    if (!take_number(&size, ' ', &out->text_bytes) || !take_word(&size, "bytes ") ||
        !take_number(&size, ' ', &out->text_lines) || strcmp(size, "lines") != 0)
        TF_TRY(damaged(r, size, "'<bytes> bytes <lines> lines'"));
    out->pending = starts(r, "replaces ");
    if (out->pending) TF_TRY(take_digest(r, "replaces", true, &out->replaces));
done:
    return status;
}

static tf_status take_part(reader *r, pin_part *out) {
    char *line = NULL;
    tf_status status = take_line(r, &line);
    if (status != TF_OK) return status;
    char *space = strchr(line + 5, ' ');
    const char *rest = space == NULL ? "" : space + 1;
    *out = (pin_part){.name = line + 5};
    if (space == NULL || space == out->name || !take_number(&rest, ' ', &out->lines) ||
        !take_word(&rest, "lines ") || !digest_parse(rest, &out->digest))
        return damaged(r, line, "'part <name> <lines> lines <32 hex digits>'");
    *space = '\0';
    return TF_OK;
}

/* The `head` and `part` lines. */
static tf_status take_parts(reader *r, pin_file *out, uint64_t *head_lines) {
    tf_status status = TF_OK;
    const char *value = NULL;
    uint64_t lines = 0;
    pin_part *parts = arena_array(&out->arena, PIN_PARTS_MAX, sizeof *parts);
    if (parts == NULL) return tf_fail(r->err, TF_W_NO_MEMORY, "reading the pin %s", r->path);
    TF_TRY(take_value(r, "head", &value));
    if (!take_number(&value, ' ', head_lines) || strcmp(value, "lines") != 0)
        TF_TRY(damaged(r, value, "'<lines> lines'"));
    while (starts(r, "part ")) {
        if (out->part_count == PIN_PARTS_MAX) {
            r->line++;
            TF_TRY(damaged(r, "one more part", "at most 4096 parts"));
        }
        TF_TRY(take_part(r, &parts[out->part_count]));
        lines += parts[out->part_count++].lines;
    }
    if (out->part_count == 0 || lines != out->text_lines)
        TF_TRY(damaged(r, "parts that do not add up", "parts with the lines of the whole text"));
    out->parts = parts;
done:
    return status;
}

static uint64_t lines_in(const char *text, size_t bytes) {
    uint64_t lines = bytes > 0 && text[bytes - 1] != '\n';
    for (size_t i = 0; i < bytes; i++)
        lines += text[i] == '\n';
    return lines;
}

/* Everything the header says about the text below it. */
static tf_status check_text(reader *r, pin_file *out, uint64_t head_lines) {
    uint64_t lines = lines_in(out->text, out->bytes);
    char found[96];
    r->line++;
    if (!out->whole) {
        snprintf(found, sizeof found, "%llu lines of text", (unsigned long long)lines);
        bool shorter = out->bytes < out->text_bytes && out->bytes <= PIN_HEAD_BYTES;
        if (lines != head_lines || !shorter || out->text_bytes <= PIN_WHOLE_BYTES)
            return damaged(r, found, "the first lines of a longer text, as the header counts them");
        return TF_OK;
    }
    snprintf(found, sizeof found, "%zu bytes, %llu lines", out->bytes, (unsigned long long)lines);
    if (out->bytes != out->text_bytes || lines != out->text_lines)
        return damaged(r, found, "a text as long as the header's `text` line says");
    tf_digest digest = digest_bytes(out->text, out->bytes);
    char hex[DIGEST_HEX];
    if (!digest_equal(digest, out->digest))
        return damaged(r, digest_hex(digest, hex), "a text with the digest the header gives");
    return TF_OK;
}

tf_status pinfile_parse(const char *path, const char *data, size_t n, pin_file *out,
                        tf_error *err) {
    tf_status status = TF_OK;
    uint64_t head_lines = 0;
    char *line = NULL;
    *out = (pin_file){0};
    arena_init(&out->arena, 0);
    char *copy = arena_copy(&out->arena, data, n);
    if (copy == NULL) return tf_fail(err, TF_W_NO_MEMORY, "reading the pin %s", path);
    reader r = {.path = path, .at = copy, .end = copy + n, .err = err};
    TF_TRY(take_header(&r, out));
    out->whole = !starts(&r, "head ");
    if (!out->whole) TF_TRY(take_parts(&r, out, &head_lines));
    TF_TRY(take_line(&r, &line));
    if (strcmp(line, "--") != 0) TF_TRY(damaged(&r, line, "'--' before the text"));
    out->text = r.at;
    out->bytes = (size_t)(r.end - r.at);
    TF_TRY(check_text(&r, out, head_lines));
done:
    if (status != TF_OK) pinfile_free(out);
    return status;
}

tf_status pinfile_read(const char *path, const char *name, pin_file *out, tf_error *err) {
    char *data = NULL;
    size_t n = 0;
    tf_status status = TF_OK;
    *out = (pin_file){0};
    TF_TRY(io_read_file(path, PIN_FILE_BYTES_MAX, &data, &n, err));
    TF_TRY(pinfile_parse(path, data, n, out, err));
    if (strcmp(out->name, name) != 0) {
        reader r = {.path = path, .line = 2, .err = err};
        char expected[PIN_NAME_BYTES_MAX + 32];
        snprintf(expected, sizeof expected, "'%s', as the file is called", name);
        TF_TRY(damaged(&r, out->name, expected));
    }
done:
    mem_free(data);
    if (status != TF_OK) pinfile_free(out);
    return status;
}

/* ---- writing -------------------------------------------------------------------------------- */

/* A header value is one line; what a caller slips in must not begin another. */
static void print_value(tf_text *out, const char *key, const char *value) {
    text_add(out, key);
    text_char(out, ' ');
    if (value[0] == '\0') text_char(out, '-');
    for (const char *c = value; *c != '\0'; c++)
        text_char(out, (unsigned char)*c < 0x20 ? '?' : *c);
    text_char(out, '\n');
}

void pinfile_print(tf_text *out, const pin_file *file) {
    char hex[DIGEST_HEX];
    text_add(out, "pin 1\n");
    print_value(out, "name", file->name);
    print_value(out, "what", file->what);
    print_value(out, "run", file->run);
    print_value(out, "made-by", file->made_by);
    print_value(out, "captured-at", file->captured_at);
    print_value(out, "tool", file->tool);
    print_value(out, "digest", digest_hex(file->digest, hex));
    text_print(out, "text %llu bytes %llu lines\n", (unsigned long long)file->text_bytes,
               (unsigned long long)file->text_lines);
    if (file->pending) {
        bool fresh = digest_is_zero(file->replaces);
        print_value(out, "replaces", fresh ? "none" : digest_hex(file->replaces, hex));
    }
    if (!file->whole) {
        text_print(out, "head %llu lines\n", (unsigned long long)lines_in(file->text, file->bytes));
        for (size_t i = 0; i < file->part_count; i++) {
            const pin_part *p = &file->parts[i];
            text_print(out, "part %s %llu lines %s\n", p->name, (unsigned long long)p->lines,
                       digest_hex(p->digest, hex));
        }
    }
    text_add(out, "--\n");
    text_add_n(out, file->text, file->bytes);
}

tf_status pinfile_write(const char *path, const pin_file *file, tf_error *err) {
    tf_status status = TF_OK;
    tf_text text = {0};
    char dir[TF_PATH_BYTES_MAX];
    const char *slash = strrchr(path, '/');
    pinfile_print(&text, file);
    TF_TRY(text_done(&text, err));
    if (slash != NULL && (size_t)(slash - path) < sizeof dir) {
        snprintf(dir, sizeof dir, "%.*s", (int)(slash - path), path);
        TF_TRY(io_make_dirs(dir, err));
    }
    TF_TRY(io_write_file(path, text.data, text.length, err));
done:
    text_free(&text);
    return status;
}
