#include "engine/base/arena.h"
#include "harness/base/tap.h"

#include <string.h>

typedef struct read_level {
    uint64_t points;
    uint64_t bad;
    uint64_t planned;
    bool has_plan;
    bool plan_first; /* the plan came before the points, which it then closes off */
} read_level;

typedef struct reader {
    const char *name;
    tap_visit visit;
    void *context;
    tap_summary *summary;
    read_level levels[TAP_DEPTH_MAX];
    unsigned depth;
    bool has_inner; /* a subtest closed just now, waiting for its point */
    read_level inner;
    unsigned line; /* number of the current one */
    /* The point whose YAML block may follow. */
    bool waiting;
    tap_event event;
    tf_text name_text, reason_text, yaml;
    bool in_yaml;
} reader;

static tf_status bad_tap(const reader *r, const char *found, const char *expected, tf_error *err) {
    tf_fail(err, TF_W_BAD_TAP, "reading the test output of %s, line %u", r->name, r->line);
    tf_found(err, "%s", found);
    return tf_expected(err, "%s", expected);
}

/* Hands over the point that waited for a YAML block. */
static tf_status tell(reader *r, tf_error *err) {
    if (!r->waiting) return TF_OK;
    r->waiting = false;
    r->event.name = text_str(&r->name_text);
    r->event.reason = text_str(&r->reason_text);
    r->event.yaml = text_str(&r->yaml);
    tf_status status = r->visit == NULL ? TF_OK : r->visit(r->context, &r->event, err);
    text_clear(&r->yaml);
    return status;
}

/* Unescapes up to an unescaped '#'; returns where it stopped. */
static size_t take_text(tf_text *to, const char *from, size_t n) {
    text_clear(to);
    size_t i = 0;
    for (; i < n && from[i] != '#'; i++) {
        if (from[i] == '\\' && i + 1 < n && (from[i + 1] == '#' || from[i + 1] == '\\')) i++;
        text_char(to, from[i]);
    }
    return i;
}

static void trim_end(tf_text *text) {
    while (text->length > 0 && text->data[text->length - 1] == ' ')
        text->data[--text->length] = '\0';
}

static bool begins_word(const char *text, size_t n, const char *word) {
    size_t k = strlen(word);
    if (n < k) return false;
    for (size_t i = 0; i < k; i++) {
        char c = text[i] >= 'a' && text[i] <= 'z' ? (char)(text[i] - 'a' + 'A') : text[i];
        if (c != word[i]) return false;
    }
    return true;
}

/* The directive after a '#', if it is one we know. */
static tap_outcome directive(reader *r, const char *text, size_t n, bool ok) {
    static const struct {
        const char *word;
        tap_outcome outcome;
    } known[] = {{"SKIP", TAP_SKIP}, {"TODO", TAP_TODO}, {"ERROR", TAP_ERROR}};
    size_t skip = 0;
    while (skip < n && (text[skip] == '#' || text[skip] == ' '))
        skip++;
    text += skip;
    n -= skip;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (!begins_word(text, n, known[i].word)) continue;
        size_t at = 0;
        while (at < n && text[at] != ' ')
            at++;
        while (at < n && text[at] == ' ')
            at++;
        take_text(&r->reason_text, text + at, n - at);
        bool fits = known[i].outcome != TAP_ERROR || !ok;
        if (fits) return known[i].outcome;
    }
    return ok ? TAP_OK : TAP_NOT_OK;
}

/* A run of digits at *at; false when there is none or it is too long. */
static bool take_number(const char *text, size_t n, size_t *at, uint64_t *value) {
    size_t begin = *at;
    *value = 0;
    while (*at < n && text[*at] >= '0' && text[*at] <= '9' && *at - begin < 18)
        *value = 10 * *value + (uint64_t)(text[(*at)++] - '0');
    return *at > begin && (*at == n || text[*at] < '0' || text[*at] > '9');
}

static void count_point(reader *r, tap_outcome outcome, bool ok) {
    read_level *level = &r->levels[r->depth];
    level->points++;
    bool bad = !ok && outcome != TAP_TODO && outcome != TAP_SKIP;
    level->bad += bad;
    if (r->depth > 0) return;
    r->summary->held += ok && outcome == TAP_OK;
    r->summary->failed += bad;
    r->summary->skipped += outcome == TAP_SKIP;
    r->summary->todo += outcome == TAP_TODO;
}

/* text: behind "ok" or "not ok". */
static tf_status read_point(reader *r, bool ok, const char *text, size_t n, tf_error *err) {
    read_level *level = &r->levels[r->depth];
    size_t at = 0;
    uint64_t number = 0;
    while (at < n && text[at] == ' ')
        at++;
    bool numbered = take_number(text, n, &at, &number);
    if (numbered && number != level->points + 1)
        return bad_tap(r, "a point out of its order", "the next number", err);
    if (level->has_plan && !level->plan_first)
        return bad_tap(r, "a point after the plan that closes the stream", "no more points", err);
    while (at < n && text[at] == ' ')
        at++;
    if (at < n && text[at] == '-') at++;
    while (at < n && text[at] == ' ')
        at++;
    at += take_text(&r->name_text, text + at, n - at);
    trim_end(&r->name_text);
    text_clear(&r->reason_text);
    tap_outcome outcome = directive(r, text + at, n - at, ok);
    if (r->has_inner && r->inner.bad > 0 && ok && outcome == TAP_OK)
        return bad_tap(r, "ok over a subtest with failures", "not ok", err);
    r->has_inner = false;
    count_point(r, outcome, ok);
    r->event = (tap_event){.depth = r->depth, .number = level->points, .outcome = outcome};
    r->waiting = true;
    return TF_OK;
}

/* text: behind "1..". */
static tf_status read_plan(reader *r, const char *text, size_t n, tf_error *err) {
    read_level *level = &r->levels[r->depth];
    size_t at = 0;
    if (level->has_plan) return bad_tap(r, "a second plan", "one", err);
    if (!take_number(text, n, &at, &level->planned))
        return bad_tap(r, "a plan without a number", "1..N", err);
    level->has_plan = true;
    level->plan_first = level->points == 0;
    if (!level->plan_first && level->planned != level->points)
        return bad_tap(r, "a plan of another count than the points before it", "their count", err);
    if (r->depth == 0 && level->planned == 0) {
        text_clear(&r->reason_text);
        r->summary->skip_all = directive(r, text + at, n - at, true) == TAP_SKIP;
    }
    return TF_OK;
}

static tf_status close_level(reader *r, tf_error *err) {
    const read_level *level = &r->levels[r->depth];
    if (!level->has_plan) return bad_tap(r, "no plan", "1..N, before or after the points", err);
    if (level->planned != level->points)
        return bad_tap(r, "fewer or more points than the plan says", "as many", err);
    if (r->depth > 0) {
        r->inner = *level;
        r->has_inner = true;
        r->depth--;
    }
    return TF_OK;
}

/* Goes to the depth of a line that means something. */
static tf_status go_to(reader *r, unsigned depth, tf_error *err) {
    tf_status status = TF_OK;
    while (r->depth > depth)
        TF_TRY(close_level(r, err));
    if (depth > r->depth + 1 || depth >= TAP_DEPTH_MAX)
        return bad_tap(r, "a subtest that begins too deep", "one level at a time", err);
    if (depth == r->depth + 1) {
        r->depth = depth;
        r->levels[depth] = (read_level){0};
    }
done:
    return status;
}

static bool starts(const char *line, size_t n, const char *with) {
    return n >= strlen(with) && strncmp(line, with, strlen(with)) == 0;
}

/* "ok" or "not ok" as a word of its own. */
static bool is_point(const char *line, size_t n, bool *ok, size_t *used) {
    *ok = starts(line, n, "ok");
    *used = *ok ? 2 : 6;
    if (!*ok && !starts(line, n, "not ok")) return false;
    return n == *used || line[*used] == ' ';
}

/* A line of a YAML block, or its marks; false when the line is something else. */
static bool read_yaml(reader *r, const char *line, size_t n) {
    size_t blanks = 4 * (size_t)r->event.depth + 2;
    size_t have = strspn(line, " ");
    if (have > n) have = n;
    bool inside = have >= blanks || have == n;
    if (!r->in_yaml) {
        bool opens = r->waiting && have == blanks && n == blanks + 3 &&
                     strncmp(line + blanks, "---", 3) == 0;
        r->in_yaml = opens;
        return opens;
    }
    if (inside && have == blanks && n == blanks + 3 && strncmp(line + blanks, "...", 3) == 0) {
        r->in_yaml = false;
        return true;
    }
    if (!inside) {
        r->in_yaml = false;
        return false;
    }
    if (n > blanks) text_add_n(&r->yaml, line + blanks, n - blanks);
    text_char(&r->yaml, '\n');
    return true;
}

static tf_status read_line(reader *r, const char *line, size_t n, tf_error *err) {
    tf_status status = TF_OK;
    if (n > 0 && line[n - 1] == '\r') n--;
    if (read_yaml(r, line, n)) return TF_OK;
    size_t blanks = 0;
    while (blanks < n && line[blanks] == ' ')
        blanks++;
    const char *text = line + blanks;
    size_t rest = n - blanks;
    bool ok;
    size_t used;
    bool point = is_point(text, rest, &ok, &used);
    bool plan = starts(text, rest, "1..");
    if (starts(line, n, "Bail out!")) {
        TF_TRY(tell(r, err));
        tf_fail(err, TF_W_TAP_BAILED_OUT, "reading the test output of %s", r->name);
        return tf_found(err, "%.*s", n > 200 ? 200 : (int)n, line);
    }
    /* Everything else is a comment, or what a program printed beside its points. */
    if ((!point && !plan) || blanks % 4 != 0) return TF_OK;
    TF_TRY(tell(r, err));
    TF_TRY(go_to(r, (unsigned)(blanks / 4), err));
    TF_TRY(point ? read_point(r, ok, text + used, rest - used, err)
                 : read_plan(r, text + 3, rest - 3, err));
done:
    return status;
}

tf_status tap_read(const char *name, const char *text, size_t n, tap_visit visit, void *context,
                   tap_summary *out, tf_error *err) {
    tf_status status = TF_OK;
    reader *r = mem_take(sizeof *r);
    if (r == NULL) return tf_fail(err, TF_W_NO_MEMORY, "reading the test output of %s", name);
    *out = (tap_summary){0};
    r->name = name;
    r->visit = visit;
    r->context = context;
    r->summary = out;
    for (size_t at = 0; at < n;) {
        const char *end = memchr(text + at, '\n', n - at);
        size_t length = end == NULL ? n - at : (size_t)(end - text) - at;
        r->line++;
        TF_TRY(read_line(r, text + at, length, err));
        at += length + 1;
    }
    TF_TRY(tell(r, err));
    TF_TRY(go_to(r, 0, err));
    TF_TRY(close_level(r, err));
    out->planned = r->levels[0].planned;
    TF_TRY(text_done(&r->name_text, err));
    TF_TRY(text_done(&r->yaml, err));
done:
    text_free(&r->name_text);
    text_free(&r->reason_text);
    text_free(&r->yaml);
    mem_free(r);
    return status;
}
