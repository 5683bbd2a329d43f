#include "harness/pins/diff.h"

#include "engine/base/arena.h"
#include "engine/base/digest.h"

#include <string.h>

typedef struct line {
    const char *at;
    size_t bytes; /* with its newline, where it has one */
    uint64_t hash;
} line;

typedef struct side {
    line *lines;
    bool *changed; /* [count]: removed from a, added to b */
    size_t count;
} side;

typedef struct hunk {
    size_t a_begin, a_end, b_begin, b_end; /* changed lines, half open */
} hunk;

static bool split(tf_arena *arena, diff_text whole, side *out) {
    const char *text = whole.at;
    size_t bytes = whole.bytes;
    size_t count = 0;
    for (size_t i = 0; i < bytes; i++)
        count += text[i] == '\n';
    count += bytes > 0 && text[bytes - 1] != '\n';
    out->lines = arena_array(arena, count, sizeof *out->lines);
    out->changed = arena_array(arena, count, sizeof *out->changed);
    if (out->lines == NULL || out->changed == NULL) return false;
    out->count = count;
    const char *at = text;
    for (size_t i = 0; i < count; i++) {
        size_t left = bytes - (size_t)(at - text);
        const char *newline = memchr(at, '\n', left);
        line *l = &out->lines[i];
        *l = (line){.at = at, .bytes = newline == NULL ? left : (size_t)(newline - at) + 1};
        tf_digest digest = digest_bytes(l->at, l->bytes);
        memcpy(&l->hash, digest.bytes, sizeof l->hash);
        at += l->bytes;
    }
    return true;
}

static bool same(const line *a, const line *b) {
    return a->hash == b->hash && a->bytes == b->bytes && memcmp(a->at, b->at, a->bytes) == 0;
}

/* ---- the search ----------------------------------------------------------------------------- */

/* Row d of the trace holds the furthest a-line on diagonals -d, -d+2, ..., d, so rows take d + 1. */
static size_t row_at(size_t d) {
    return d * (d + 1) / 2;
}

typedef struct search {
    const line *a, *b;
    int64_t n, m;
    int64_t *trace;
} search;

static int64_t furthest(const search *s, int64_t d, int64_t k) {
    return s->trace[row_at((size_t)d) + (size_t)((k + d) / 2)];
}

/* Where a path of d edits stands on diagonal k before its run of equal lines; down says that its
 * last edit added a line of b. */
static int64_t step(const search *s, int64_t d, int64_t k, bool *down) {
    *down = true;
    if (d == 0) return 0;
    *down = k == -d || (k != d && furthest(s, d - 1, k - 1) < furthest(s, d - 1, k + 1));
    return *down ? furthest(s, d - 1, k + 1) : furthest(s, d - 1, k - 1) + 1;
}

/* Marks the edits of the path of d edits that ends on diagonal k. */
static void mark(const search *s, int64_t d, int64_t k, bool *a_changed, bool *b_changed) {
    for (; d > 0; d--) {
        bool down = false;
        int64_t x = step(s, d, k, &down);
        int64_t y = x - k;
        if (down) {
            b_changed[y - 1] = true;
            k++;
        } else {
            a_changed[x - 1] = true;
            k--;
        }
    }
}

/* Searches a shortest edit; stops at the end of both texts or after DIFF_EDITS_MAX edits.  Marks it
 * and says how many lines of each text it covers. */
static void search_once(const search *s, bool *a_changed, bool *b_changed, size_t *a_done,
                        size_t *b_done) {
    int64_t best_k = 0, best_sum = -1;
    int64_t d = 0;
    for (;; d++) {
        best_sum = -1;
        for (int64_t k = -d; k <= d; k += 2) {
            bool down = false;
            int64_t x = step(s, d, k, &down);
            int64_t y = x - k;
            while (x < s->n && y < s->m && same(&s->a[x], &s->b[y])) {
                x++;
                y++;
            }
            s->trace[row_at((size_t)d) + (size_t)((k + d) / 2)] = x;
            if (x <= s->n && y <= s->m && y >= 0 && x + y > best_sum) {
                best_sum = x + y;
                best_k = k;
            }
        }
        if (best_sum == s->n + s->m || d == DIFF_EDITS_MAX) break;
    }
    int64_t x = furthest(s, d, best_k);
    mark(s, d, best_k, a_changed, b_changed);
    *a_done = (size_t)x;
    *b_done = (size_t)(x - best_k);
}

static tf_status compare(tf_arena *arena, side *a, side *b, tf_error *err) {
    size_t start = 0;
    while (start < a->count && start < b->count && same(&a->lines[start], &b->lines[start]))
        start++;
    size_t a_end = a->count, b_end = b->count;
    while (a_end > start && b_end > start && same(&a->lines[a_end - 1], &b->lines[b_end - 1])) {
        a_end--;
        b_end--;
    }
    int64_t *trace = arena_array(arena, row_at(DIFF_EDITS_MAX + 1), sizeof *trace);
    if (trace == NULL) return tf_fail(err, TF_W_NO_MEMORY, "comparing two texts line by line");
    for (size_t i = start, j = start; i < a_end || j < b_end;) {
        search s = {.a = a->lines + i,
                    .b = b->lines + j,
                    .n = (int64_t)(a_end - i),
                    .m = (int64_t)(b_end - j),
                    .trace = trace};
        size_t a_done = 0, b_done = 0;
        search_once(&s, a->changed + i, b->changed + j, &a_done, &b_done);
        i += a_done;
        j += b_done;
    }
    return TF_OK;
}

/* ---- tokens --------------------------------------------------------------------------------- */

static bool separates(char c) {
    return c == ' ' || c == '\t' || c == ',' || c == '[' || c == ']' || c == '(' || c == ')' ||
           c == '=' || c == '\n' || c == '\r';
}

typedef struct token {
    const char *at;
    size_t bytes;
} token;

/* The next token after *at; name follows the last `word=` that was passed. */
static bool next_token(const char **at, const char *end, token *out, token *name) {
    const char *p = *at;
    while (p < end && separates(*p)) {
        if (*p == '=' && out->bytes > 0) *name = *out;
        p++;
    }
    const char *begin = p;
    while (p < end && !separates(*p))
        p++;
    *out = (token){begin, (size_t)(p - begin)};
    *at = p;
    return out->bytes > 0;
}

static void keep(char *to, size_t size, token t) {
    size_t n = t.bytes < size ? t.bytes : size - 1;
    memcpy(to, t.at, n);
    to[n] = '\0';
}

static const char *expression_of(const char *text) {
    const char *brace = strchr(text, '{');
    return brace != NULL && text[strlen(text) - 1] == '}' ? brace : NULL;
}

bool diff_token(const char *a, size_t a_bytes, const char *b, size_t b_bytes, diff_change *out) {
    const char *pa = a, *pb = b;
    token ta = {a, 0}, tb = {b, 0};
    token na = {a, 0}, nb = {b, 0};
    bool more_a = true, more_b = true;
    do {
        more_a = next_token(&pa, a + a_bytes, &ta, &na);
        more_b = next_token(&pb, b + b_bytes, &tb, &nb);
    } while (more_a && more_b && ta.bytes == tb.bytes && memcmp(ta.at, tb.at, ta.bytes) == 0);
    if (!more_a && !more_b) return false;
    *out = (diff_change){0};
    keep(out->name, sizeof out->name, nb);
    keep(out->from, sizeof out->from, ta);
    keep(out->to, sizeof out->to, tb);
    const char *ea = expression_of(out->from), *eb = expression_of(out->to);
    out->same_expression = ea != NULL && eb != NULL && strcmp(ea, eb) == 0;
    return true;
}

typedef struct tally {
    diff_change change[DIFF_CHANGES_MAX];
    size_t lines[DIFF_CHANGES_MAX];
    size_t count;
    size_t others; /* lines whose change found no room */
} tally;

static void count_change(tally *t, const line *a, const line *b) {
    diff_change change;
    if (!diff_token(a->at, a->bytes, b->at, b->bytes, &change)) return;
    size_t i = 0;
    while (i < t->count &&
           (strcmp(t->change[i].from, change.from) != 0 ||
            strcmp(t->change[i].to, change.to) != 0 || strcmp(t->change[i].name, change.name) != 0))
        i++;
    if (i == DIFF_CHANGES_MAX) {
        t->others++;
        return;
    }
    if (i == t->count) {
        t->change[i] = change;
        t->count++;
    }
    t->lines[i]++;
}

static const char *or_nothing(const char *token_text) {
    return token_text[0] == '\0' ? "(nothing)" : token_text;
}

static void write_changes(tf_text *out, const tally *t) {
    for (size_t i = 0; i < t->count; i++) {
        const diff_change *c = &t->change[i];
        text_add(out, "changed: ");
        if (c->name[0] != '\0') {
            diff_visible(out, c->name, strlen(c->name));
            text_add(out, ": ");
        }
        diff_visible(out, or_nothing(c->from), strlen(or_nothing(c->from)));
        text_add(out, " -> ");
        diff_visible(out, or_nothing(c->to), strlen(or_nothing(c->to)));
        if (c->same_expression) {
            text_add(out, ", the value of ");
            diff_visible(out, expression_of(c->to), strlen(expression_of(c->to)));
        }
        text_print(out, ", in %zu line%s\n", t->lines[i], t->lines[i] == 1 ? "" : "s");
    }
    if (t->others > 0) text_print(out, "changed: something else, in %zu lines\n", t->others);
}

/* ---- hunks ---------------------------------------------------------------------------------- */

/* The bytes of a whole UTF-8 sequence at s, or 0. */
static size_t sequence(const unsigned char *s, size_t left) {
    size_t n = s[0] < 0x80 ? 1 : s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    if (n == 1) return 1;
    /* 0x80-0x9f of Latin-1, which terminals obey, come as c2 80 - c2 9f. */
    if (s[0] < 0xc2 || s[0] > 0xf4 || n > left || (s[0] == 0xc2 && s[1] < 0xa0)) return 0;
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80) return 0;
    }
    return n;
}

void diff_visible(tf_text *out, const char *text, size_t bytes) {
    const unsigned char *s = (const unsigned char *)text;
    size_t inked = bytes;
    while (inked > 0 && (s[inked - 1] == ' ' || s[inked - 1] == '\t' || s[inked - 1] == '\r'))
        inked--;
    for (size_t i = 0; i < bytes;) {
        if (i >= DIFF_LINE_BYTES_MAX) {
            text_print(out, "... (%zu more bytes)", bytes - i);
            return;
        }
        size_t n = sequence(s + i, bytes - i);
        if (s[i] == '\t') {
            text_add(out, "\\t");
        } else if (s[i] == '\r') {
            text_add(out, "\\r");
        } else if (s[i] == ' ' && i >= inked) {
            text_add(out, "\xc2\xb7");
        } else if (n == 0 || s[i] < 0x20 || s[i] == 0x7f) {
            text_print(out, "\\x%02x", (unsigned)s[i]);
            n = 1;
        } else {
            text_add_n(out, text + i, n);
        }
        i += n;
    }
}

static void write_line(tf_text *out, char mark_char, const line *l) {
    bool ended = l->bytes > 0 && l->at[l->bytes - 1] == '\n';
    text_char(out, mark_char);
    diff_visible(out, l->at, l->bytes - ended);
    text_char(out, '\n');
    if (!ended) text_add(out, "\\ no newline at the end\n");
}

/* All runs of changed lines; *count set.  NULL when memory is out. */
static hunk *changes_of(tf_arena *arena, const side *a, const side *b, size_t *count) {
    hunk *list = arena_array(arena, a->count + b->count + 1, sizeof *list);
    *count = 0;
    if (list == NULL) return NULL;
    for (size_t i = 0, j = 0; i < a->count || j < b->count;) {
        hunk h = {i, i, j, j};
        while (h.a_end < a->count && a->changed[h.a_end])
            h.a_end++;
        while (h.b_end < b->count && b->changed[h.b_end])
            h.b_end++;
        if (h.a_end > i || h.b_end > j) list[(*count)++] = h;
        i = h.a_end + 1;
        j = h.b_end + 1;
    }
    return list;
}

typedef struct printer {
    tf_text *out;
    const side *a, *b;
    uint32_t lines_max; /* of one hunk; 0: no limit */
    uint32_t lines;     /* of this hunk, so far */
    size_t hidden;      /* of this hunk */
} printer;

static void print_lines(printer *p, char mark_char, const line *lines, size_t begin, size_t end) {
    for (size_t i = begin; i < end; i++) {
        if (p->lines_max != 0 && p->lines == p->lines_max) {
            p->hidden += end - i;
            return;
        }
        write_line(p->out, mark_char, &lines[i]);
        p->lines++;
    }
}

/* Changes [begin, end) of the list with the equal lines between and around them. */
static void print_hunk(printer *p, const hunk *list, size_t begin, size_t end, uint32_t context) {
    const hunk *first = &list[begin], *last = &list[end - 1];
    size_t lead = first->a_begin < context ? first->a_begin : context;
    size_t rest = p->a->count - last->a_end;
    size_t tail = rest < context ? rest : context;
    text_print(p->out, "@@ -%zu,%zu +%zu,%zu @@\n", first->a_begin - lead + 1,
               last->a_end + tail - first->a_begin + lead, first->b_begin - lead + 1,
               last->b_end + tail - first->b_begin + lead);
    p->lines = 0;
    p->hidden = 0;
    print_lines(p, ' ', p->a->lines, first->a_begin - lead, first->a_begin);
    for (size_t i = begin; i < end; i++) {
        const hunk *h = &list[i];
        print_lines(p, '-', p->a->lines, h->a_begin, h->a_end);
        print_lines(p, '+', p->b->lines, h->b_begin, h->b_end);
        size_t next = i + 1 < end ? list[i + 1].a_begin : h->a_end + tail;
        print_lines(p, ' ', p->a->lines, h->a_end, next);
    }
    if (p->hidden > 0) text_print(p->out, "... (%zu more lines)\n", p->hidden);
}

static void print_all(printer *p, const hunk *list, size_t count, const diff_limits *limits,
                      diff_totals *totals) {
    tally changes = {.count = 0};
    for (size_t begin = 0, end = 0; begin < count; begin = end) {
        end = begin + 1;
        while (end < count &&
               list[end].a_begin - list[end - 1].a_end <= 2 * (size_t)limits->context)
            end++;
        totals->hunks++;
        if (limits->hunks == 0 || totals->hunks <= limits->hunks)
            print_hunk(p, list, begin, end, limits->context);
    }
    if (limits->hunks != 0 && totals->hunks > limits->hunks)
        text_print(p->out, "... (%zu more places)\n", totals->hunks - limits->hunks);
    for (size_t i = 0; i < count; i++) {
        const hunk *h = &list[i];
        size_t removed = h->a_end - h->a_begin, added = h->b_end - h->b_begin;
        for (size_t pair = 0; pair < removed && pair < added; pair++)
            count_change(&changes, &p->a->lines[h->a_begin + pair],
                         &p->b->lines[h->b_begin + pair]);
        totals->removed += removed;
        totals->added += added;
    }
    write_changes(p->out, &changes);
}

tf_status diff_write(tf_text *out, diff_text a, diff_text b, const diff_limits *limits,
                     diff_totals *totals, tf_error *err) {
    tf_status status = TF_OK;
    tf_arena arena;
    arena_init(&arena, 0);
    diff_totals sums = {0};
    side sa, sb;
    size_t count = 0;
    hunk *list = NULL;
    printer p = {.out = out, .a = &sa, .b = &sb, .lines_max = limits->lines};
    if (!split(&arena, a, &sa) || !split(&arena, b, &sb))
        TF_TRY(tf_fail(err, TF_W_NO_MEMORY, "comparing two texts line by line"));
    TF_TRY(compare(&arena, &sa, &sb, err));
    list = changes_of(&arena, &sa, &sb, &count);
    if (list == NULL) TF_TRY(tf_fail(err, TF_W_NO_MEMORY, "comparing two texts line by line"));
    if (count > 0) sums.first_line = list[0].a_begin + 1;
    print_all(&p, list, count, limits, &sums);
done:
    if (totals != NULL) *totals = sums;
    arena_free(&arena);
    return status;
}
