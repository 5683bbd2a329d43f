#include "harness/pins/pins.h"

#include "engine/base/arena.h"
#include "engine/base/check.h"
#include "engine/base/io.h"
#include "engine/base/limits.h"
#include "harness/pins/diff.h"
#include "harness/pins/pinfile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PENDING_SUFFIX ".txt.new"
#define PIN_SUFFIX     ".txt"
/* Pins of one project: bounds a walk. */
#define PINS_MAX 1000000u

struct pin_book {
    tf_arena arena;
    pin_options options;
    pin_counts counts;
    const char **claimed; /* heap; names in the arena */
    size_t claimed_count, claimed_capacity;
};

/* ---- names and places ----------------------------------------------------------------------- */

tf_status pin_path(const char *root, const char *name, bool pending, char *to, size_t size,
                   tf_error *err) {
    tf_status status = pinfile_check_name(name, err);
    if (status != TF_OK) return status;
    int n = snprintf(to, size, "%s/pins/%s%s", root, name, pending ? PENDING_SUFFIX : PIN_SUFFIX);
    if (n > 0 && (size_t)n < size) return TF_OK;
    tf_fail(err, TF_W_TOO_LARGE, "finding the pin %s below %s", name, root);
    tf_found(err, "a path of %d bytes", n);
    return tf_expected(err, "fewer than %zu bytes", size);
}

typedef struct walk {
    const char *suffix;
    char **names;
    size_t count, capacity;
    tf_error *err;
} walk;

static tf_status walk_add(walk *w, const char *name, size_t length) {
    if (w->count == PINS_MAX) return tf_fail(w->err, TF_W_TOO_LARGE, "listing pins");
    if (w->count == w->capacity) {
        size_t capacity = w->capacity == 0 ? 64 : w->capacity * 2;
        char **grown = mem_grow(w->names, capacity * sizeof *grown);
        if (grown == NULL) return tf_fail(w->err, TF_W_NO_MEMORY, "listing pins");
        w->names = grown;
        w->capacity = capacity;
    }
    char *copy = mem_take(length + 1);
    if (copy == NULL) return tf_fail(w->err, TF_W_NO_MEMORY, "listing pins");
    memcpy(copy, name, length);
    w->names[w->count++] = copy;
    return TF_OK;
}

static bool ends_in(const char *name, const char *suffix) {
    size_t n = strlen(name), m = strlen(suffix);
    return n > m && strcmp(name + n - m, suffix) == 0;
}

/* dir is root/pins or below; prefix what stands before its entries in a name. */
static tf_status walk_dir(walk *w, const char *dir, const char *prefix, unsigned depth) {
    char **entries = NULL;
    size_t count = 0;
    tf_status status = TF_OK;
    TF_TRY(io_list(dir, &entries, &count, w->err));
    for (size_t i = 0; i < count; i++) {
        char path[TF_PATH_BYTES_MAX], name[TF_PATH_BYTES_MAX];
        int n =
            snprintf(name, sizeof name, "%s%s%s", prefix, prefix[0] == '\0' ? "" : "/", entries[i]);
        if (entries[i][0] == '.' || n < 0 || (size_t)n >= sizeof name) continue;
        if (!io_join(path, sizeof path, dir, entries[i])) continue;
        if (io_is_dir(path)) {
            if (depth < PIN_DEPTH_MAX) TF_TRY(walk_dir(w, path, name, depth + 1));
        } else if (ends_in(name, w->suffix)) {
            TF_TRY(walk_add(w, name, strlen(name) - strlen(w->suffix)));
        }
    }
done:
    io_free_names(entries, count);
    return status;
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

tf_status pin_names(const char *root, bool pending, char ***names, size_t *count, tf_error *err) {
    walk w = {.suffix = pending ? PENDING_SUFFIX : PIN_SUFFIX, .err = err};
    char dir[TF_PATH_BYTES_MAX];
    tf_status status = TF_OK;
    *names = NULL;
    *count = 0;
    if (!io_join(dir, sizeof dir, root, "pins") || !io_is_dir(dir)) return TF_OK;
    TF_TRY(walk_dir(&w, dir, "", 1));
    if (w.count > 1) qsort(w.names, w.count, sizeof *w.names, by_name);
    *names = w.names;
    *count = w.count;
    w = (walk){0};
done:
    io_free_names(w.names, w.count);
    return status;
}

/* ---- the book ------------------------------------------------------------------------------- */

static const char *kept(tf_arena *arena, const char *text, const char *otherwise) {
    const char *from = text == NULL || text[0] == '\0' ? otherwise : text;
    return from == NULL ? NULL : arena_copy(arena, from, strlen(from));
}

tf_status pin_open(const pin_options *options, pin_book **out, tf_error *err) {
    *out = NULL;
    if (options->capture && options->ci) {
        tf_fail(err, TF_W_PINS_READ_ONLY, "capturing pins of %s", options->run);
        tf_found(err, "the environment variable CI is set");
        tf_expected(err, "a person who reads what is captured");
        return tf_remedy(err, "capture on your own machine, review, accept and commit");
    }
    pin_book *book = mem_take(sizeof *book);
    if (book == NULL) return tf_fail(err, TF_W_NO_MEMORY, "opening the pins");
    arena_init(&book->arena, 0);
    book->options = *options;
    pin_options *o = &book->options;
    o->root = kept(&book->arena, options->root, ".");
    o->run = kept(&book->arena, options->run, "pins");
    o->pattern = kept(&book->arena, options->pattern, NULL);
    o->revision = kept(&book->arena, options->revision, "none");
    o->command = kept(&book->arena, options->command, "tfverify");
    bool asked = options->pattern != NULL && options->pattern[0] != '\0';
    if (o->root == NULL || o->run == NULL || o->revision == NULL || o->command == NULL ||
        (asked && o->pattern == NULL)) {
        pin_close(book);
        return tf_fail(err, TF_W_NO_MEMORY, "opening the pins");
    }
    *out = book;
    return TF_OK;
}

void pin_close(pin_book *book) {
    if (book == NULL) return;
    mem_free(book->claimed);
    arena_free(&book->arena);
    mem_free(book);
}

void pin_count(const pin_book *book, pin_counts *out) {
    *out = book->counts;
}

bool pin_wants(const pin_book *book, const char *name) {
    return pinfile_match(book->options.pattern, name);
}

/* Claims are kept sorted; a run has thousands at most and meets them nearly in order. */
static tf_status claim(pin_book *book, const char *name, tf_error *err) {
    tf_status status = pinfile_check_name(name, err);
    if (status != TF_OK) return status;
    if (book->claimed_count == book->claimed_capacity) {
        size_t capacity = book->claimed_capacity == 0 ? 64 : book->claimed_capacity * 2;
        const char **grown = mem_grow(book->claimed, capacity * sizeof *grown);
        if (grown == NULL) return tf_fail(err, TF_W_NO_MEMORY, "claiming the pin %s", name);
        book->claimed = grown;
        book->claimed_capacity = capacity;
    }
    size_t low = 0, high = book->claimed_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(book->claimed[middle], name);
        if (order == 0) {
            tf_fail(err, TF_W_PIN_NAMED_TWICE, "claiming the pin %s in the run %s", name,
                    book->options.run);
            tf_found(err, "a second subject of that name");
            return tf_remedy(err, "name it apart in the script: t:pin(x, {name = \"...\"})");
        }
        if (order < 0) low = middle + 1;
        if (order > 0) high = middle;
    }
    const char *copy = arena_copy(&book->arena, name, strlen(name));
    if (copy == NULL) return tf_fail(err, TF_W_NO_MEMORY, "claiming the pin %s", name);
    memmove(&book->claimed[low + 1], &book->claimed[low],
            (book->claimed_count - low) * sizeof *book->claimed);
    book->claimed[low] = copy;
    book->claimed_count++;
    return TF_OK;
}

tf_status pin_claim(pin_book *book, const char *name, tf_error *err) {
    tf_status status = claim(book, name, err);
    if (status == TF_OK) book->counts.left_out++;
    return status;
}

static bool is_claimed(const pin_book *book, const char *name) {
    return book->claimed_count > 0 && bsearch(&name, book->claimed, book->claimed_count,
                                              sizeof *book->claimed, by_name) != NULL;
}

/* ---- a subject as a pin file ---------------------------------------------------------------- */

static size_t line_end(const char *text, size_t bytes, size_t begin) {
    const char *newline = memchr(text + begin, '\n', bytes - begin);
    return newline == NULL ? bytes : (size_t)(newline - text) + 1;
}

static uint64_t lines_of(const char *text, size_t begin, size_t end) {
    uint64_t lines = end > begin && text[end - 1] != '\n';
    for (size_t at = begin; at < end;) {
        const char *newline = memchr(text + at, '\n', end - at);
        lines += newline != NULL;
        at = newline == NULL ? end : (size_t)(newline - text) + 1;
    }
    return lines;
}

static pin_part part_of(const char *name, const char *text, size_t begin, size_t end) {
    return (pin_part){name, lines_of(text, begin, end), digest_bytes(text + begin, end - begin)};
}

/* Parts by the subject's own spans. */
static size_t parts_by_span(const pin_subject *s, pin_part *parts) {
    size_t at = 0;
    for (size_t i = 0; i < s->span_count; i++) {
        const pin_span *span = &s->spans[i];
        TF_ASSERT(span->begin == at && span->end >= at && span->end <= s->bytes);
        parts[i] = part_of(span->name, s->text, span->begin, span->end);
        at = span->end;
    }
    TF_ASSERT(at == s->bytes);
    return s->span_count;
}

/* Parts of equally many lines, named by them. */
static size_t parts_by_lines(const pin_subject *s, uint64_t lines, tf_arena *arena,
                             pin_part *parts) {
    uint64_t each = 1000;
    while (lines / each >= PIN_PARTS_MAX)
        each *= 10;
    size_t count = 0;
    size_t begin = 0;
    for (uint64_t first = 1; begin < s->bytes; first += each) {
        size_t end = begin;
        for (uint64_t i = 0; i < each && end < s->bytes; i++)
            end = line_end(s->text, s->bytes, end);
        uint64_t last = lines - first < each ? lines : first + each - 1;
        const char *name = arena_print(arena, "lines-%llu-%llu", (unsigned long long)first,
                                       (unsigned long long)last);
        if (name == NULL) return 0;
        parts[count++] = part_of(name, s->text, begin, end);
        begin = end;
    }
    return count;
}

/* The pin a subject would have.  Its texts are borrowed from the book and the subject. */
static tf_status describe(const pin_book *book, const pin_subject *s, pin_file *out,
                          tf_error *err) {
    *out = (pin_file){.name = s->name,
                      .what = s->what,
                      .run = book->options.run,
                      .made_by = s->made_by,
                      .captured_at = book->options.revision,
                      .tool = TF_VERSION,
                      .digest = digest_bytes(s->text, s->bytes),
                      .text_bytes = s->bytes,
                      .text_lines = lines_of(s->text, 0, s->bytes),
                      .whole = s->bytes <= PIN_WHOLE_BYTES,
                      .text = s->text,
                      .bytes = s->bytes};
    arena_init(&out->arena, 0);
    if (out->whole) return TF_OK;
    pin_part *parts = arena_array(&out->arena, PIN_PARTS_MAX + 1, sizeof *parts);
    bool spans = s->span_count > 0 && s->span_count <= PIN_PARTS_MAX;
    if (parts != NULL) {
        out->part_count = spans ? parts_by_span(s, parts)
                                : parts_by_lines(s, out->text_lines, &out->arena, parts);
    }
    if (out->part_count == 0) {
        pinfile_free(out);
        return tf_fail(err, TF_W_NO_MEMORY, "describing the pin %s", s->name);
    }
    out->parts = parts;
    out->bytes = 0;
    for (size_t end = line_end(s->text, s->bytes, 0); end <= PIN_HEAD_BYTES;
         end = line_end(s->text, s->bytes, end))
        out->bytes = end;
    return TF_OK;
}

/* ---- the report of a difference ------------------------------------------------------------- */

static const pin_part *find_part(const pin_file *file, const char *name) {
    for (size_t i = 0; i < file->part_count; i++) {
        if (strcmp(file->parts[i].name, name) == 0) return &file->parts[i];
    }
    return NULL;
}

/* Which parts differ, and the new lines of the first that lies below what the pin still shows. */
static void report_parts(tf_text *out, const pin_file *old, const pin_file *now,
                         const pin_subject *s) {
    size_t listed = 0, differ = 0, begin = 0;
    size_t first_begin = SIZE_MAX;
    text_add(out, "parts that differ:");
    for (size_t i = 0; i < now->part_count; i++) {
        const pin_part *p = &now->parts[i];
        const pin_part *was = find_part(old, p->name);
        bool same = was != NULL && digest_equal(was->digest, p->digest);
        differ += !same;
        if (!same && listed++ < 12)
            text_print(out, " %s%s", p->name, was == NULL && old->part_count > 0 ? " (new)" : "");
        if (!same && first_begin == SIZE_MAX) first_begin = begin;
        for (uint64_t l = 0; l < p->lines; l++)
            begin = line_end(s->text, s->bytes, begin);
    }
    for (size_t i = 0; i < old->part_count; i++) {
        if (now->part_count > 0 && find_part(now, old->parts[i].name) == NULL)
            text_print(out, " %s (gone)", old->parts[i].name);
    }
    text_print(out, "%s, %zu of %zu\n", listed > 12 ? " ..." : "", differ, now->part_count);
    if (first_begin == SIZE_MAX || first_begin < old->bytes) return;
    text_add(out, "it begins now with\n");
    for (size_t i = 0, at = first_begin; i < 4 && at < s->bytes; i++) {
        size_t end = line_end(s->text, s->bytes, at);
        text_add(out, "  ");
        diff_visible(out, s->text + at, end - at - (s->text[end - 1] == '\n'));
        text_char(out, '\n');
        at = end;
    }
}

static tf_status report_change(const pin_book *book, const pin_subject *s, const pin_file *old,
                               const pin_file *now, tf_text *out, tf_error *err) {
    static const diff_limits limits = {.context = 3, .hunks = 1, .lines = 24};
    diff_totals totals = {0};
    tf_text hunks = {0};
    tf_status status = diff_write(&hunks, (diff_text){old->text, old->bytes},
                                  (diff_text){now->text, now->bytes}, &limits, &totals, err);
    text_print(out, "%s\n", s->what);
    text_print(out, "pinned at %s by tfverify %s: %llu lines; now %llu lines\n", old->captured_at,
               old->tool, (unsigned long long)old->text_lines, (unsigned long long)now->text_lines);
    if (!old->whole || !now->whole) report_parts(out, old, now, s);
    if (totals.first_line > 0) {
        text_print(out, "first difference in line %zu (-%zu +%zu lines in %zu places%s)\n",
                   totals.first_line, totals.removed, totals.added, totals.hunks,
                   old->whole && now->whole ? "" : " of the lines held");
        text_add(out, text_str(&hunks));
    }
    text_print(out, "reproduce: %s\n", s->made_by);
    if (old->captured_at[0] != '\0' && strcmp(old->captured_at, "none") != 0 && !old->whole)
        text_print(out, "the text before: %s pins capture --base %s '%s'\n", book->options.command,
                   old->captured_at, s->name);
    text_free(&hunks);
    return status;
}

static void report_accept(const pin_book *book, const char *name, tf_text *out) {
    const char *command = book->options.command;
    if (!book->options.capture) {
        text_print(out, "accept: %s pins capture '%s' && %s pins review && %s pins accept '%s'\n",
                   command, name, command, command, name);
    } else if (!book->options.accept) {
        text_print(out, "accept: %s pins review && %s pins accept '%s'\n", command, command, name);
    }
}

/* ---- check and capture ---------------------------------------------------------------------- */

/* A pending pin left from an earlier capture says nothing once the pin holds. */
static tf_status drop_pending(const pin_book *book, const char *name, tf_error *err) {
    char path[TF_PATH_BYTES_MAX];
    tf_status status = pin_path(book->options.root, name, true, path, sizeof path, err);
    if (status != TF_OK || !io_exists(path)) return status;
    return io_remove_tree(path, err);
}

static tf_status capture(pin_book *book, pin_file *now, const pin_file *old, tf_error *err) {
    char path[TF_PATH_BYTES_MAX];
    tf_status status = TF_OK;
    now->pending = !book->options.accept;
    if (old != NULL) now->replaces = old->digest;
    TF_TRY(pin_path(book->options.root, now->name, now->pending, path, sizeof path, err));
    TF_TRY(pinfile_write(path, now, err));
    if (book->options.accept) TF_TRY(drop_pending(book, now->name, err));
    book->counts.written++;
done:
    return status;
}

static tf_status missing(const pin_book *book, const pin_subject *s, const char *path,
                         tf_error *err) {
    char dir[TF_PATH_BYTES_MAX];
    bool folder = io_join(dir, sizeof dir, book->options.root, "pins") && io_is_dir(dir);
    tf_fail(err, folder ? TF_W_PIN_MISSING : TF_W_NO_PINS, "checking the pin %s", s->name);
    tf_found(err, "no %s", folder ? path : dir);
    tf_expected(err, "a captured and accepted pin");
    return tf_remedy(err, "%s pins capture '%s', then pins review and pins accept",
                     book->options.command, folder ? s->name : "*");
}

/* The pin exists: compare. */
static tf_status meet_pin(pin_book *book, const pin_subject *s, const char *path, pin_file *now,
                          pin_verdict *verdict, tf_text *report, tf_error *err) {
    tf_status status = TF_OK;
    pin_file old = {0};
    char was[DIGEST_HEX], is[DIGEST_HEX];
    TF_TRY(pinfile_read(path, s->name, &old, err));
    if (digest_equal(old.digest, now->digest) && old.text_bytes == now->text_bytes) {
        *verdict = PIN_SAME;
        book->counts.same++;
        if (book->options.capture) TF_TRY(drop_pending(book, s->name, err));
        goto done;
    }
    *verdict = PIN_CHANGED;
    book->counts.changed++;
    TF_TRY(report_change(book, s, &old, now, report, err));
    report_accept(book, s->name, report);
    if (book->options.capture) {
        TF_TRY(capture(book, now, &old, err));
    } else {
        tf_fail(err, TF_W_PIN_CHANGED, "checking the pin %s", s->name);
        tf_found(err, "digest %s", digest_hex(now->digest, is));
        TF_TRY(tf_expected(err, "%s", digest_hex(old.digest, was)));
    }
done:
    pinfile_free(&old);
    return status;
}

tf_status pin_meet(pin_book *book, const pin_subject *subject, pin_verdict *verdict,
                   tf_text *report, tf_error *err) {
    tf_status status = TF_OK;
    pin_file now = {0};
    char path[TF_PATH_BYTES_MAX];
    *verdict = PIN_LEFT_OUT;
    if (!pin_wants(book, subject->name)) return pin_claim(book, subject->name, err);
    TF_TRY(claim(book, subject->name, err));
    TF_TRY(pin_path(book->options.root, subject->name, false, path, sizeof path, err));
    TF_TRY(describe(book, subject, &now, err));
    if (io_exists(path)) {
        TF_TRY(meet_pin(book, subject, path, &now, verdict, report, err));
        goto done;
    }
    *verdict = PIN_MISSING;
    book->counts.missing++;
    text_print(report, "%s: no pin yet, %llu lines\nreproduce: %s\n", subject->what,
               (unsigned long long)now.text_lines, subject->made_by);
    report_accept(book, subject->name, report);
    TF_TRY(book->options.capture ? capture(book, &now, NULL, err)
                                 : missing(book, subject, path, err));
done:
    pinfile_free(&now);
    return status;
}

/* ---- the end of a run ----------------------------------------------------------------------- */

tf_status pin_obsolete(pin_book *book, tf_text *names, size_t *count, tf_error *err) {
    char **all = NULL;
    size_t total = 0;
    pin_file file = {0};
    char path[TF_PATH_BYTES_MAX];
    tf_status status = TF_OK;
    *count = 0;
    TF_TRY(pin_names(book->options.root, false, &all, &total, err));
    for (size_t i = 0; i < total; i++) {
        if (is_claimed(book, all[i]) || !pin_wants(book, all[i])) continue;
        TF_TRY(pin_path(book->options.root, all[i], false, path, sizeof path, err));
        TF_TRY(pinfile_read(path, all[i], &file, err));
        bool ours = strcmp(file.run, book->options.run) == 0;
        pinfile_free(&file);
        if (!ours) continue;
        text_print(names, "%s\n", all[i]);
        ++*count;
    }
done:
    io_free_names(all, total);
    return status;
}

tf_status pin_finish(const pin_book *book, tf_error *err) {
    const pin_counts *c = &book->counts;
    if (book->options.pattern == NULL || c->left_out == 0 || c->same + c->changed + c->missing > 0)
        return TF_OK;
    tf_fail(err, TF_W_NOTHING_CHECKED, "checking the pins that match '%s'", book->options.pattern);
    tf_found(err, "none of the run's %zu pins, such as %s", c->left_out, book->claimed[0]);
    return tf_remedy(err, "a pattern is matched with a name, or its end from any / on: 'w3/*'");
}
