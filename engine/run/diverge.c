#include "engine/run/diverge.h"

#include "engine/base/arena.h"
#include "engine/base/io.h"
#include "engine/base/json.h"
#include "engine/base/limits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIDE_PATH_MAX 1000u /* with room for ".r4294967295" */

/* ---- reading ---- */

void diverge_run_free(diverge_run *run) {
    mem_free(run->entries);
    *run = (diverge_run){0};
}

static tf_status damaged(const char *where, const char *what, tf_error *err) {
    tf_fail(err, TF_W_BAD_HASHES, "reading layer hashes: %s", where);
    tf_found(err, "%s", what);
    return tf_expected(err, "lines that generate --layer-hashes wrote");
}

/* It will be printed: nothing that steers a terminal. */
static bool copy_text(const json_value *object, const char *key, char *to, size_t size) {
    const json_value *v = json_get(object, key);
    const char *text = json_string(v);
    if (!json_is_string(v) || strlen(text) >= size) return false;
    for (const char *c = text; *c != '\0'; c++)
        if ((unsigned char)*c < ' ' || *c == '\177') return false;
    memcpy(to, text, strlen(text) + 1);
    return true;
}

static bool copy_digest(const json_value *object, const char *key, tf_digest *to) {
    return digest_parse(json_string(json_get(object, key)), to);
}

static bool copy_u32(const json_value *object, const char *key, uint32_t most, uint32_t *to) {
    const json_value *v = json_get(object, key);
    double x = json_is_number(v) ? json_number(v) : -1.0;
    if (!(x >= 0.0 && x <= (double)most) || (double)(uint32_t)x != x) return false;
    *to = (uint32_t)x;
    return true;
}

static bool copy_layer(const json_value *object, uint32_t *to) {
    char text[16];
    char *end = NULL;
    if (!copy_text(object, "layer", text, sizeof text)) return false;
    *to = CALL_TOP;
    if (strcmp(text, "top") == 0) return true;
    if (text[0] != 'L' || text[1] < '0' || text[1] > '9') return false;
    unsigned long layer = strtoul(text + 1, &end, 10);
    *to = (uint32_t)layer;
    return *end == '\0' && layer < TF_LAYERS_MAX;
}

static bool copy_shape(const json_value *object, char *to, size_t size) {
    const json_value *shape = json_get(object, "shape");
    size_t used = 0;
    if (!json_is_array(shape) || json_count(shape) == 0 || json_count(shape) > CALL_DIMS_MAX)
        return false;
    for (const json_value *v = json_first(shape); v != NULL; v = json_next(v)) {
        double x = json_is_number(v) ? json_number(v) : -1.0;
        if (!(x >= 0.0 && x <= (double)UINT32_MAX)) return false;
        int n = snprintf(to + used, size - used, "%s%.0f", used == 0 ? "" : ",", x);
        if (n < 0 || (size_t)n >= size - used) return false;
        used += (size_t)n;
    }
    return true;
}

static bool read_header(const json_value *o, diverge_run *out) {
    uint32_t version = 0;
    return copy_u32(o, "layer_hashes", 1, &version) && version == 1 &&
           copy_text(o, "model", out->model, sizeof out->model) &&
           copy_text(o, "profile", out->profile, sizeof out->profile) &&
           copy_digest(o, "plan", &out->plan) && copy_digest(o, "split", &out->split) &&
           copy_digest(o, "settings", &out->settings) &&
           copy_u32(o, "world", TF_WORLD_MAX, &out->world) && out->world > 0 &&
           copy_u32(o, "rank", out->world - 1, &out->rank);
}

static bool read_entry(const json_value *o, diverge_entry *out) {
    char point[16];
    return copy_u32(o, "step", UINT32_MAX, &out->step) &&
           copy_text(o, "phase", out->phase, sizeof out->phase) && copy_layer(o, &out->layer) &&
           copy_text(o, "point", point, sizeof point) &&
           layerhash_point_parse(point, &out->point) &&
           copy_shape(o, out->shape, sizeof out->shape) && copy_digest(o, "hash", &out->hash);
}

static diverge_entry *next_entry(diverge_run *run, size_t *capacity) {
    if (run->count == *capacity) {
        *capacity = *capacity == 0 ? 1024 : 2 * *capacity;
        diverge_entry *more = mem_grow(run->entries, *capacity * sizeof *more);
        if (more == NULL) return NULL;
        run->entries = more;
    }
    run->entries[run->count] = (diverge_entry){0};
    return &run->entries[run->count++];
}

static tf_status read_line(const char *where, const char *line, size_t n, diverge_run *out,
                           size_t *capacity, bool header, tf_error *err) {
    json_doc *doc = NULL;
    tf_error inner = {0};
    bool held = n <= DIVERGE_LINE_BYTES_MAX && json_parse(where, line, n, &doc, &inner) == TF_OK;
    diverge_entry *entry = NULL;
    if (held && !header) {
        entry = next_entry(out, capacity);
        if (entry == NULL) {
            json_free(doc);
            return tf_fail(err, TF_W_NO_MEMORY, "reading layer hashes: %s", where);
        }
    }
    held = held && (header ? read_header(json_root(doc), out) : read_entry(json_root(doc), entry));
    json_free(doc);
    return held ? TF_OK
                : damaged(where, header ? "no header of layer hashes" : "a line of another form",
                          err);
}

tf_status diverge_parse(const char *path, const char *data, size_t n, diverge_run *out,
                        tf_error *err) {
    size_t capacity = 0;
    unsigned number = 1;
    tf_status status = n == 0 ? damaged(path, "an empty file", err) : TF_OK;
    for (size_t at = 0; status == TF_OK && at < n; number++) {
        const char *newline = memchr(data + at, '\n', n - at);
        char where[TF_PATH_BYTES_MAX + 32];
        snprintf(where, sizeof where, "%.1000s line %u", path, number);
        if (newline == NULL) {
            status = damaged(where, "a line that ends too early", err);
            break;
        }
        size_t end = (size_t)(newline - data);
        status = read_line(where, data + at, end - at, out, &capacity, number == 1, err);
        at = end + 1;
    }
    if (status != TF_OK) diverge_run_free(out);
    return status;
}

/* The files of one side. */
typedef struct side {
    const char *path;
    diverge_run *ranks; /* [count] */
    uint32_t count;     /* the world; 1: one rank's own file */
} side;

static void side_free(side *s) {
    for (uint32_t r = 0; s->ranks != NULL && r < s->count; r++)
        diverge_run_free(&s->ranks[r]);
    mem_free(s->ranks);
}

static tf_status read_rank(const char *path, diverge_run *out, tf_error *err) {
    char *data = NULL;
    size_t n = 0;
    tf_status status = io_read_file(path, DIVERGE_FILE_BYTES_MAX, &data, &n, err);
    if (status == TF_OK) status = diverge_parse(path, data, n, out, err);
    mem_free(data);
    return status;
}

/* Did one program of one world write both, in the same run? */
static bool of_one_run(const diverge_run *a, const diverge_run *b) {
    return a->world == b->world && digest_equal(a->split, b->split) &&
           digest_equal(a->settings, b->settings) && strcmp(a->model, b->model) == 0 &&
           strcmp(a->profile, b->profile) == 0;
}

static tf_status read_other_ranks(side *s, tf_error *err) {
    tf_status status = TF_OK;
    for (uint32_t r = 1; status == TF_OK && r < s->count; r++) {
        char name[TF_PATH_BYTES_MAX];
        snprintf(name, sizeof name, "%.1000s.r%u", s->path, r);
        status = read_rank(name, &s->ranks[r], err);
        if (status == TF_OK && s->ranks[r].rank != r)
            status = damaged(name, "the hashes of another rank", err);
        if (status == TF_OK && !of_one_run(&s->ranks[0], &s->ranks[r]))
            status = damaged(name, "the hashes of another run than rank 0's", err);
    }
    return status;
}

static tf_status side_read(const char *path, side *out, tf_error *err) {
    char name[TF_PATH_BYTES_MAX];
    diverge_run first = {0};
    if (strlen(path) > SIDE_PATH_MAX) return tf_fail(err, TF_W_TOO_LARGE, "naming %s", path);
    snprintf(name, sizeof name, "%.1000s.r0", path);
    bool own = io_exists(path);
    if (own && io_exists(name)) {
        damaged(path, "both it and its .r0: of two runs", err);
        return tf_remedy(err, "remove the older one, or name a rank's file in full");
    }
    tf_status status = read_rank(own ? path : name, &first, err);
    if (status != TF_OK) return status;
    out->path = path;
    if (!own && first.rank != 0) {
        diverge_run_free(&first);
        return damaged(name, "the hashes of another rank", err);
    }
    out->count = own ? 1 : first.world;
    out->ranks = mem_take(out->count * sizeof *out->ranks);
    if (out->ranks == NULL) {
        diverge_run_free(&first);
        return tf_fail(err, TF_W_NO_MEMORY, "reading layer hashes %s", path);
    }
    out->ranks[0] = first;
    return read_other_ranks(out, err);
}

/* ---- comparing ---- */

static const char *const classes[] = {"none", "input", "local", "exchange",
                                      "sum",  "later", "shape"};

const char *diverge_class_name(diverge_class c) {
    return classes[c];
}

typedef struct finding {
    diverge_class class;
    uint32_t rank;
    const diverge_entry *a, *b;
    size_t compared;    /* points that were equal */
    bool partials;      /* what belongs to a rank was compared ... */
    bool every_partial; /* ... on every rank of the world */
    bool other_model, other_profile, other_settings, other_split;
} finding;

static diverge_class class_of(layerhash_point p, const finding *f) {
    switch (p) {
    case LAYERHASH_IDS:
        return DIVERGE_INPUT;
    case LAYERHASH_ATTN_PARTIAL:
    case LAYERHASH_FFN_PARTIAL:
    case LAYERHASH_LOGITS:
        return DIVERGE_LOCAL;
    case LAYERHASH_ATTN_SUM:
    case LAYERHASH_FFN_SUM:
        return f->every_partial ? DIVERGE_EXCHANGE : DIVERGE_SUM;
    case LAYERHASH_STREAMS:
    case LAYERHASH_ALL_LOGITS:
    case LAYERHASH_COUNT:
        break;
    }
    return DIVERGE_LATER;
}

static bool same_place(const diverge_entry *a, const diverge_entry *b, bool shapes) {
    return a->step == b->step && a->layer == b->layer && a->point == b->point &&
           strcmp(a->phase, b->phase) == 0 && (!shapes || strcmp(a->shape, b->shape) == 0);
}

/* Entry `index` of rank r on both sides; false when there is a difference. */
static bool same_entry(const diverge_run *a, const diverge_run *b, size_t index, finding *f) {
    const diverge_entry *x = index < a->count ? &a->entries[index] : NULL;
    const diverge_entry *y = index < b->count ? &b->entries[index] : NULL;
    f->a = x;
    f->b = y;
    if (x == NULL && y == NULL) return true;
    bool own = x != NULL && layerhash_is_own(x->point);
    bool skip = own && !f->partials;
    if (x == NULL || y == NULL || !same_place(x, y, !skip)) {
        f->class = DIVERGE_SHAPE;
        return false;
    }
    if (skip) return true;
    if (!digest_equal(x->hash, y->hash)) {
        f->class = class_of(x->point, f);
        return false;
    }
    f->compared++;
    return true;
}

/* Ranks of a side that have a partner on the other. */
typedef struct view {
    const diverge_run *ranks;
    uint32_t count;
} view;

static bool same_split(const diverge_run *a, const diverge_run *b) {
    return a->world == b->world && digest_equal(a->split, b->split);
}

/* A rank's own file meets the same rank of a whole run of that split. */
static view view_of(const side *s, const side *other) {
    const diverge_run *alone = &other->ranks[0];
    if (other->count == 1 && s->count > 1 && same_split(&s->ranks[0], alone))
        return (view){&s->ranks[alone->rank], 1};
    return (view){s->ranks, s->count};
}

static void compare_headers(const view *a, const view *b, finding *f) {
    const diverge_run *x = a->ranks;
    const diverge_run *y = b->ranks;
    f->other_model = strcmp(x->model, y->model) != 0;
    f->other_profile = strcmp(x->profile, y->profile) != 0;
    f->other_settings = !digest_equal(x->settings, y->settings);
    f->other_split = !same_split(x, y);
    f->partials = !f->other_split && x->rank == y->rank;
    f->every_partial = f->partials && a->count == x->world;
}

static size_t most_points(const view *v) {
    size_t most = 0;
    for (uint32_t r = 0; r < v->count; r++)
        if (v->ranks[r].count > most) most = v->ranks[r].count;
    return most;
}

/* Points go in step on all ranks, so the earliest difference is the first over points, then ranks. */
static void find_first(const side *left, const side *right, finding *f) {
    view a = view_of(left, right);
    view b = view_of(right, left);
    size_t most = most_points(&a) > most_points(&b) ? most_points(&a) : most_points(&b);
    uint32_t ranks = a.count > b.count ? a.count : b.count;
    compare_headers(&a, &b, f);
    for (size_t i = 0; i < most; i++) {
        for (uint32_t r = 0; r < ranks; r++) {
            const diverge_run *x = &a.ranks[r % a.count];
            const diverge_run *y = &b.ranks[r % b.count];
            f->rank = a.count >= b.count ? x->rank : y->rank;
            if (!same_entry(x, y, i, f)) return;
        }
    }
}

/* ---- telling ---- */

static const char *meaning(diverge_class class) {
    switch (class) {
    case DIVERGE_NONE:
        return "every point is the same";
    case DIVERGE_INPUT:
        return "the runs were given other ids";
    case DIVERGE_LOCAL:
        return "this rank computed it, before any exchange of it";
    case DIVERGE_EXCHANGE:
        return "the partials of all ranks were equal, the sum is not";
    case DIVERGE_SUM:
        return "not every rank's partial could be compared: it is a rank's own or the exchange";
    case DIVERGE_LATER:
        return "the sums were equal, what a rank made of them is not";
    case DIVERGE_SHAPE:
        return "one run computed something here that the other did not";
    }
    return "";
}

static void place_of(const diverge_entry *e, char *to, size_t size) {
    char layer[16] = "top";
    if (e->layer != CALL_TOP) snprintf(layer, sizeof layer, "L%u", e->layer);
    snprintf(to, size, "step %u, %s, %s, %s", e->step, e->phase, layer,
             layerhash_point_name(e->point));
}

static void tell_side(tf_text *out, char name, const side *s, const diverge_entry *e) {
    char hex[DIGEST_HEX];
    text_print(out, "  %c  %s: %s, world %u, profile %s", name, s->path, s->ranks[0].model,
               s->ranks[0].world, s->ranks[0].profile);
    if (e != NULL) text_print(out, ", [%s] %s", e->shape, digest_hex(e->hash, hex));
    text_char(out, '\n');
}

/* What makes the runs different before the first point. */
static void tell_headers(const finding *f, tf_text *out) {
    const char *split = f->other_split ? "splits" : "ranks";
    if (!f->partials)
        text_print(out, "the %s differ: only what every rank holds alike was compared\n", split);
    if (f->other_model) text_add(out, "the models differ\n");
    if (f->other_profile) text_add(out, "the profiles differ: other bits are no fault\n");
    if (f->other_settings && !f->other_profile)
        text_add(out, "the settings differ (slots, positions, rows)\n");
}

static void tell(const finding *f, const side *a, const side *b, tf_text *out) {
    char place[96] = "";
    const diverge_entry *at = f->a != NULL ? f->a : f->b;
    if (f->class == DIVERGE_NONE) {
        text_print(out, "no difference: %zu points are equal\n", f->compared);
    } else {
        place_of(at, place, sizeof place);
        text_print(out, "first difference: %s, rank %u\n", place, f->rank);
        text_print(out, "class: %s: %s\n", diverge_class_name(f->class), meaning(f->class));
        text_print(out, "%zu points before it are equal\n", f->compared);
    }
    tell_headers(f, out);
    tell_side(out, 'A', a, f->class == DIVERGE_NONE ? NULL : f->a);
    tell_side(out, 'B', b, f->class == DIVERGE_NONE ? NULL : f->b);
}

static void side_json(tf_text *out, char name, const diverge_entry *e) {
    char hex[DIGEST_HEX];
    text_print(out, ",\"%c\":", name);
    if (e == NULL) {
        text_add(out, "null");
    } else {
        text_print(out, "{\"shape\":[%s],\"hash\":\"%s\"}", e->shape, digest_hex(e->hash, hex));
    }
}

static void bool_json(tf_text *out, const char *key, bool value) {
    text_print(out, ",\"%s\":%s", key, value ? "true" : "false");
}

static void tell_json(const finding *f, tf_text *out) {
    const diverge_entry *at = f->a != NULL ? f->a : f->b;
    text_print(out, "{\"class\":\"%s\",\"compared\":%zu", diverge_class_name(f->class),
               f->compared);
    bool_json(out, "equal", f->class == DIVERGE_NONE);
    bool_json(out, "partials", f->partials);
    bool_json(out, "other_model", f->other_model);
    bool_json(out, "other_profile", f->other_profile);
    bool_json(out, "other_settings", f->other_settings);
    bool_json(out, "other_split", f->other_split);
    if (f->class != DIVERGE_NONE) {
        text_print(out, ",\"step\":%u,\"phase\":", at->step);
        text_json(out, at->phase);
        if (at->layer == CALL_TOP) {
            text_add(out, ",\"layer\":\"top\"");
        } else {
            text_print(out, ",\"layer\":%u", at->layer);
        }
        text_print(out, ",\"point\":\"%s\",\"rank\":%u", layerhash_point_name(at->point), f->rank);
        side_json(out, 'a', f->a);
        side_json(out, 'b', f->b);
    }
    text_add(out, "}\n");
}

tf_status diverge_compare(const char *a, const char *b, bool json, tf_text *out, tf_error *err) {
    side left = {0};
    side right = {0};
    finding f = {0};
    tf_status status = side_read(a, &left, err);
    if (status == TF_OK) status = side_read(b, &right, err);
    if (status == TF_OK) {
        find_first(&left, &right, &f);
        if (json) {
            tell_json(&f, out);
        } else {
            tell(&f, &left, &right, out);
        }
        status = text_done(out, err);
    }
    if (status == TF_OK && f.class != DIVERGE_NONE) {
        char place[96];
        place_of(f.a != NULL ? f.a : f.b, place, sizeof place);
        tf_fail(err, TF_W_HASHES_DIFFER, "comparing %s with %s", a, b);
        tf_found(err, "a difference at %s, rank %u", place, f.rank);
        status = tf_expected(err, "the same hashes");
    }
    side_free(&left);
    side_free(&right);
    return status;
}
