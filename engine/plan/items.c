/* Finds every tensor of the model in the pack, checks its form, and cuts this rank's part. */
#include "engine/base/check.h"
#include "engine/pack/engram.h"
#include "engine/plan/parts.h"
#include "engine/plan/tensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NOT_SEEN  UINT32_MAX
#define TILE      16u /* an EXL3 tile is 16 x 16 weights */
#define RULES_MAX 64u
#define BLOCK     128u /* EXL3 is cut only here: one Hadamard block */

typedef struct walk {
    tf_plan *plan;
    tf_error *err;
    uint32_t layer;               /* CONFIG_NONE: top */
    uint32_t begin, end;          /* the layer's tensors in the pack */
    char name[TF_NAME_BYTES_MAX]; /* of the tensor or linear being looked for */
    size_t prefix;                /* bytes of it that name the layer */
    uint64_t extent[EXTENT_COUNT];
    uint64_t table_rows[ENGRAM_COLUMNS_MAX + 1]; /* first row of each hash column; then the count */
    const char *codebook;                        /* of the linears so far; NULL: none seen */
    const char *codebook_of;                     /* the first of them */
    const tensor_rule *rule;
    plan_bounds cut; /* of the rule's axis, unless AXIS_WHOLE */
    /* The last piece of each rule and part: experts are alike. */
    const plan_piece *latest[RULES_MAX][PART_NONE + 1];
} walk;

/* ---- finding ------------------------------------------------------------------------------- */

/* First tensor of the layer whose name is not before `key` (a name without the prefix). */
static uint32_t lower_bound(const walk *w, const char *key) {
    uint32_t begin = w->begin, end = w->end;
    while (begin < end) {
        uint32_t middle = begin + (end - begin) / 2;
        if (strcmp(w->plan->pack->tensors[middle].name + w->prefix, key) < 0)
            begin = middle + 1;
        else
            end = middle;
    }
    return begin;
}

static const pack_tensor *find(const walk *w, const char *key) {
    uint32_t at = lower_bound(w, key);
    if (at == w->end) return NULL;
    const pack_tensor *t = &w->plan->pack->tensors[at];
    return strcmp(t->name + w->prefix, key) == 0 ? t : NULL;
}

static tf_status missing(const walk *w, const char *suffix) {
    tf_fail(w->err, TF_W_MISSING_TENSOR, "looking for tensor %s%s", w->name, suffix);
    tf_found(w->err, "no such name among the %u of pack %s", w->plan->pack->tensor_count,
             w->plan->pack->name);
    return tf_remedy(w->err, "complete the pack, or give the config.json that belongs to it");
}

typedef struct quartet {
    const pack_tensor *plain, *trellis, *suh, *svh, *mul1, *mcg;
} quartet;

static const pack_tensor *marker_of(const quartet *q) {
    return q->mul1 != NULL ? q->mul1 : q->mcg;
}

/* Everything stored under w->name: the parts lie side by side in name order. */
static quartet find_linear(walk *w) {
    quartet q = {0};
    size_t n = strlen(w->name);
    TF_ASSERT(n + 2 < sizeof w->name);
    w->name[n] = '.';
    w->name[n + 1] = '\0';
    const pack_tensor *tensors = w->plan->pack->tensors;
    for (uint32_t i = lower_bound(w, w->name + w->prefix); i < w->end; i++) {
        const char *part = tensors[i].name + n + 1;
        if (strncmp(tensors[i].name, w->name, n + 1) != 0) break;
        if (strcmp(part, "weight") == 0) q.plain = &tensors[i];
        if (strcmp(part, "trellis") == 0) q.trellis = &tensors[i];
        if (strcmp(part, "suh") == 0) q.suh = &tensors[i];
        if (strcmp(part, "svh") == 0) q.svh = &tensors[i];
        if (strcmp(part, "mul1") == 0) q.mul1 = &tensors[i];
        if (strcmp(part, "mcg") == 0) q.mcg = &tensors[i];
    }
    w->name[n] = '\0';
    return q;
}

/* ---- checking ------------------------------------------------------------------------------ */

static void shape_text(char *to, size_t size, const uint64_t *shape, uint32_t dims) {
    size_t at = 0;
    snprintf(to, size, "scalar");
    for (uint32_t i = 0; i < dims && at < size; i++) {
        int n = snprintf(to + at, size - at, "%s%" PRIu64, i == 0 ? "" : "x", shape[i]);
        at += n > 0 ? (size_t)n : size;
    }
}

static tf_status wrong_shape(const walk *w, const pack_tensor *t, const char *expected) {
    char found[160];
    shape_text(found, sizeof found, t->shape, t->dims);
    tf_fail(w->err, TF_W_WRONG_SHAPE, "checking tensor %s", t->name);
    tf_found(w->err, "shape %s", found);
    tf_expected(w->err, "%s", expected);
    return tf_remedy(w->err, "give the config.json that belongs to this pack");
}

static tf_status check_form(const walk *w, const pack_tensor *t, tf_dtype dtype,
                            const uint64_t *shape, uint32_t dims) {
    if (t->dims != dims || (dims > 0 && memcmp(t->shape, shape, dims * sizeof *shape) != 0)) {
        char expected[160], text[176];
        shape_text(expected, sizeof expected, shape, dims);
        snprintf(text, sizeof text, "shape %s", expected);
        return wrong_shape(w, t, text);
    }
    if (t->dtype == dtype) return TF_OK;
    tf_fail(w->err, TF_W_WRONG_DTYPE, "checking tensor %s", t->name);
    tf_found(w->err, "%s", dtype_name(t->dtype));
    return tf_expected(w->err, "%s", dtype_name(dtype));
}

/* Widths may differ from linear to linear, the codebook may not: kernels are made for one. */
static tf_status check_codebook(walk *w, const quartet *q) {
    const char *codebook = q->mul1 != NULL ? "mul1" : q->mcg != NULL ? "mcg" : "default";
    bool both = q->mul1 != NULL && q->mcg != NULL;
    if (w->codebook == NULL) {
        w->codebook = codebook;
        w->codebook_of = q->trellis->name;
    }
    if (!both && strcmp(w->codebook, codebook) == 0) return TF_OK;
    tf_fail(w->err, TF_W_CODEBOOKS_DIFFER, "checking linear %s", w->name);
    tf_found(w->err, "codebook %s", both ? "mul1 and mcg" : codebook);
    return tf_expected(w->err, "%s, as %s has", w->codebook, w->codebook_of);
}

static tf_status check_trellis(const walk *w, const pack_tensor *t, uint64_t k, uint64_t n) {
    const uint64_t words = t->dims == 3 ? t->shape[2] : 0;
    if (k % BLOCK != 0 || n % BLOCK != 0)
        return wrong_shape(w, t, "a linear of whole blocks of 128: use plain weights");
    /* 16 words a tile for each bit of width; half bits exist. */
    if (words % 8 != 0 || words < 16 || words > 128)
        return wrong_shape(w, t, "3 dimensions, the last 16 x a width of 1 to 8 bits");
    return check_form(w, t, DTYPE_I16, (uint64_t[]){k / TILE, n / TILE, words}, 3);
}

static tf_status check_quartet(walk *w, const quartet *q, uint64_t k, uint64_t n) {
    if (q->suh == NULL) return missing(w, ".suh");
    if (q->svh == NULL) return missing(w, ".svh");
    tf_status status = check_trellis(w, q->trellis, k, n);
    if (status == TF_OK) status = check_form(w, q->suh, DTYPE_F16, &k, 1);
    if (status == TF_OK) status = check_form(w, q->svh, DTYPE_F16, &n, 1);
    if (status == TF_OK && marker_of(q) != NULL)
        status = check_form(w, marker_of(q), DTYPE_I32, NULL, 0);
    return status == TF_OK ? check_codebook(w, q) : status;
}

/* ---- cutting ------------------------------------------------------------------------------- */

plan_span plan_cut(const pack_tensor *tensor, uint32_t dim, uint64_t begin, uint64_t end) {
    TF_ASSERT(dim < tensor->dims && begin <= end && end <= tensor->shape[dim]);
    uint64_t inner = dtype_bytes(tensor->dtype), outer = 1;
    for (uint32_t i = dim + 1; i < tensor->dims; i++)
        inner *= tensor->shape[i];
    for (uint32_t i = 0; i < dim; i++)
        outer *= tensor->shape[i];
    if (end - begin == tensor->shape[dim]) return (plan_span){0, tensor->bytes, 0, 1};
    if (outer == 1) return (plan_span){begin * inner, (end - begin) * inner, 0, 1};
    return (plan_span){begin * inner, (end - begin) * inner, tensor->shape[dim] * inner, outer};
}

/* Extent of the axis that a rule cuts. */
static uint64_t axis_extent(const walk *w, const tensor_rule *rule) {
    bool second = rule->form == FORM_LINEAR && rule->axis == AXIS_COLUMNS;
    return w->extent[second ? rule->second : rule->first];
}

static tf_status not_on_block(const walk *w, const char *found, uint64_t at, const char *expected) {
    tf_fail(w->err, TF_W_SPLIT_NOT_ON_BLOCK, "cutting tensor %s over %u ranks", w->name,
            w->plan->world);
    tf_found(w->err, "%s %" PRIu64, found, at);
    tf_expected(w->err, "%s", expected);
    return tf_remedy(w->err,
                     "use a world or weights that cut elsewhere, or a pack of other weights");
}

/* block: elements that no bound may divide; 1 for plain weights. */
static tf_status make_cut(walk *w, uint32_t block) {
    const tf_plan *plan = w->plan;
    const tensor_rule *rule = w->rule;
    plan_bounds *c = &w->cut;
    if (rule->axis == AXIS_WHOLE) return TF_OK;
    uint64_t extent = axis_extent(w, rule);
    uint32_t units = plan->units[rule->unit];
    bool by_table = rule->unit == UNIT_ENGRAM_COLUMN;
    if (!by_table && extent % units != 0)
        return not_on_block(w, "an axis of", extent, "whole units");
    const canon_range *ranges = plan->ranges[rule->unit];
    c->world = plan->world;
    c->at[0] = 0;
    for (uint32_t r = 0; r < plan->world; r++) {
        uint64_t end = ranges[r].end;
        c->at[r + 1] = by_table ? w->table_rows[end] : end * (extent / units);
        if (c->at[r + 1] % block != 0)
            return not_on_block(w, "a cut at element", c->at[r + 1], "a multiple of 128");
    }
    return TF_OK;
}

tf_status plan_take_part(const pack_tensor *tensor, const plan_bounds *bounds, uint32_t dim,
                         uint32_t scale, uint32_t rank, plan_piece *part, tf_error *err) {
    uint64_t all_bytes = 0;
    bool whole = bounds->at[0] == 0 && bounds->at[bounds->world] == scale * tensor->shape[dim];
    for (uint32_t r = 0; whole && r < bounds->world; r++) {
        uint64_t begin = bounds->at[r] / scale, end = bounds->at[r + 1] / scale;
        plan_span span = plan_cut(tensor, dim, begin, end);
        all_bytes += span.length * span.count;
        if (r != rank) continue;
        part->span = span;
        part->shape[dim] = end - begin;
    }
    if (all_bytes == tensor->bytes) return TF_OK;
    tf_fail(err, TF_W_BYTES_NOT_OWNED_ONCE, "cutting tensor %s over %u ranks", tensor->name,
            bounds->world);
    tf_found(err, "parts of %" PRIu64 " bytes together", all_bytes);
    return tf_expected(err, "%" PRIu64 " bytes", tensor->bytes);
}

/* Keeps a piece in the plan, or finds the same one again. */
static const plan_piece *keep(walk *w, const plan_piece *own, plan_part part) {
    const plan_piece **latest = &w->latest[w->rule - tensor_rules][part];
    if (*latest != NULL && memcmp(*latest, own, sizeof *own) == 0) return *latest;
    plan_piece *kept = arena_take(&w->plan->arena, sizeof *kept);
    if (kept != NULL) *kept = *own;
    *latest = kept;
    return kept;
}

#define NO_DIM UINT32_MAX /* not cut: all of the tensor */

static tf_status add_item(walk *w, const pack_tensor *t, plan_part part, uint32_t dim,
                          uint32_t scale) {
    tf_plan *plan = w->plan;
    uint32_t index = (uint32_t)(t - plan->pack->tensors);
    TF_ASSERT(plan->item_of[index] == NOT_SEEN);
    plan_piece own = {.span = {0, t->bytes, 0, 1}};
    memcpy(own.shape, t->shape, sizeof own.shape);
    tf_status status = TF_OK;
    if (dim != NO_DIM) status = plan_take_part(t, &w->cut, dim, scale, plan->rank, &own, w->err);
    if (status != TF_OK) return status;
    const plan_piece *kept = keep(w, &own, part);
    if (kept == NULL) return tf_fail(w->err, TF_W_NO_MEMORY, "planning tensor %s", t->name);

    bool draft = w->layer != CONFIG_NONE && w->layer >= plan->pack->config.target_layers;
    plan->items[plan->item_count] =
        (plan_item){.tensor = t,
                    .image = t->name,
                    .part = part,
                    .layer = w->layer,
                    .axis = dim == NO_DIM ? AXIS_WHOLE : w->rule->axis,
                    .unit = dim == NO_DIM ? UNIT_NONE : w->rule->unit,
                    .range = dim == NO_DIM ? (canon_range){0, 0} : plan->range[w->rule->unit],
                    .shape = kept->shape,
                    .spans = &kept->span,
                    .span_count = 1,
                    .bytes = kept->span.length * kept->span.count,
                    .category = draft ? BYTES_DRAFT : w->rule->category};
    plan->item_of[index] = plan->item_count++;
    return TF_OK;
}

/* ---- rules ---------------------------------------------------------------------------------- */

static tf_status plan_tensor(walk *w) {
    const tensor_rule *rule = w->rule;
    const pack_tensor *t = find(w, w->name + w->prefix);
    if (t == NULL) return missing(w, "");
    uint64_t shape[2] = {w->extent[rule->first], w->extent[rule->second]};
    tf_status status = TF_OK;
    TF_TRY(check_form(w, t, rule->dtype, shape, rule->form == FORM_MATRIX ? 2 : 1));
    TF_TRY(make_cut(w, 1));
    TF_TRY(add_item(w, t, PART_NONE, rule->axis == AXIS_WHOLE ? NO_DIM : 0, 1));
done:
    return status;
}

/* A tensor that belongs whole to the owner of one unit. */
static tf_status pick_item(walk *w, const pack_tensor *t, plan_part part, uint32_t unit) {
    tf_plan *plan = w->plan;
    canon_range own = plan->range[w->rule->unit];
    if (unit < own.begin || unit >= own.end) {
        plan->item_of[t - plan->pack->tensors] = PLAN_OTHERS;
        return TF_OK;
    }
    tf_status status = add_item(w, t, part, NO_DIM, 1);
    if (status != TF_OK) return status;
    plan_item *item = &plan->items[plan->item_count - 1];
    item->axis = AXIS_PICK;
    item->unit = w->rule->unit;
    item->range = (canon_range){unit, unit + 1};
    return TF_OK;
}

static tf_status pick_linear(walk *w, const quartet *q, uint32_t unit) {
    const pack_tensor *const parts[] = {q->plain, q->trellis, q->suh, q->svh, marker_of(q)};
    for (int part = PART_PLAIN; part <= (int)PART_MARKER; part++) {
        if (parts[part] == NULL) continue;
        tf_status status = pick_item(w, parts[part], (plan_part)part, unit);
        if (status != TF_OK) return status;
    }
    return TF_OK;
}

/* Weights and scales of one linear are cut by one `cut` (MODEL 8, "Cuts"). */
static tf_status cut_linear(walk *w, const quartet *q) {
    bool rows = w->rule->axis == AXIS_ROWS, columns = w->rule->axis == AXIS_COLUMNS;
    tf_status status = TF_OK;
    if (q->trellis == NULL)
        return add_item(w, q->plain, PART_PLAIN, rows ? 1 : columns ? 0 : NO_DIM, 1);
    TF_TRY(add_item(w, q->trellis, PART_TRELLIS, rows ? 0 : columns ? 1 : NO_DIM, TILE));
    TF_TRY(add_item(w, q->suh, PART_SUH, rows ? 0 : NO_DIM, 1));
    TF_TRY(add_item(w, q->svh, PART_SVH, columns ? 0 : NO_DIM, 1));
    if (marker_of(q) != NULL) TF_TRY(add_item(w, marker_of(q), PART_MARKER, NO_DIM, 1));
done:
    return status;
}

static tf_status plan_linear(walk *w, uint32_t instance) {
    const tensor_rule *rule = w->rule;
    tf_status status = TF_OK;
    quartet q = find_linear(w);
    uint64_t k = w->extent[rule->first], n = w->extent[rule->second];
    if (q.plain == NULL && q.trellis == NULL)
        return missing(w, w->plan->pack->config.exl3 ? ".trellis" : ".weight");
    if (q.trellis != NULL) {
        q.plain = NULL; /* a second form of one linear stays unseen, and so is refused */
        TF_TRY(check_quartet(w, &q, k, n));
    } else {
        TF_TRY(check_form(w, q.plain, rule->dtype, (uint64_t[]){n, k}, 2));
    }
    if (rule->axis == AXIS_PICK) return pick_linear(w, &q, instance);
    TF_TRY(make_cut(w, q.trellis != NULL ? BLOCK : 1));
    TF_TRY(cut_linear(w, &q));
done:
    return status;
}

/* The name within the layer, '%' replaced by the instance. */
static void set_name(walk *w, const char *pattern, uint32_t instance) {
    char *to = w->name + w->prefix;
    for (; *pattern != '\0'; pattern++) {
        TF_ASSERT(to + 12 < w->name + sizeof w->name);
        if (*pattern != '%') {
            *to++ = *pattern;
            continue;
        }
        char digits[10];
        size_t n = 0;
        do
            digits[n++] = (char)('0' + instance % 10);
        while ((instance /= 10) != 0);
        while (n > 0)
            *to++ = digits[--n];
    }
    *to = '\0';
}

static tf_status plan_rule(walk *w, const tensor_rule *rule, uint32_t instance) {
    w->rule = rule;
    set_name(w, rule->name, instance);
    return rule->form == FORM_LINEAR ? plan_linear(w, instance) : plan_tensor(w);
}

static uint32_t instances(const walk *w, tensor_each each) {
    if (each == EACH_GROUP) return w->plan->pack->config.groups;
    return each == EACH_EXPERT ? (uint32_t)w->extent[EXTENT_EXPERTS] : 1;
}

static tf_status plan_layer(walk *w) {
    tf_status status = TF_OK;
    for (size_t i = 0, next; i < tensor_rule_count; i = next) {
        const tensor_rule *rule = &tensor_rules[i];
        next = i + 1;
        while (rule->each != EACH_ONCE && next < tensor_rule_count &&
               tensor_rules[next].each == rule->each)
            next++;
        if (!tensor_applies(rule, &w->plan->pack->config, w->layer)) continue;
        uint32_t count = instances(w, rule->each);
        for (uint32_t instance = 0; instance < count; instance++) {
            for (size_t k = i; k < next; k++)
                TF_TRY(plan_rule(w, &tensor_rules[k], instance));
        }
    }
done:
    return status;
}

/* Points the walk at a layer: its prefix, its run of the pack's sorted names, its sizes. */
static tf_status enter_layer(walk *w, uint32_t layer) {
    const tf_config *c = &w->plan->pack->config;
    w->layer = layer;
    w->begin = 0;
    w->end = w->plan->pack->tensor_count;
    w->prefix = 0;
    tensor_extents(c, layer, w->extent);
    if (layer == CONFIG_NONE) return TF_OK;

    bool draft = c->layer[layer].kind == LAYER_DRAFT;
    int n = snprintf(w->name, sizeof w->name, "%s.%u.", draft ? "mtp" : "layers",
                     draft ? layer - c->target_layers : layer);
    TF_ASSERT(n > 0);
    uint32_t begin = lower_bound(w, w->name);
    w->name[n - 1]++; /* '.' + 1: just after every name of the layer */
    w->end = lower_bound(w, w->name);
    w->name[n - 1]--;
    w->begin = begin;
    w->prefix = (size_t)n;
    uint32_t table = c->layer[layer].engram;
    return table == CONFIG_NONE ? TF_OK : engram_columns(c, table, w->table_rows, w->err);
}

/* ---- coverage ------------------------------------------------------------------------------- */

/* Every stored name is an item, another rank's, or on the ignore list. */
static tf_status check_coverage(const walk *w) {
    const tf_pack *pack = w->plan->pack;
    const char *first = NULL;
    uint32_t count = 0;
    for (uint32_t i = 0; i < pack->tensor_count; i++) {
        if (w->plan->item_of[i] != NOT_SEEN) continue;
        if (tensor_is_ignored(pack->tensors[i].name)) {
            w->plan->item_of[i] = PLAN_IGNORED;
            continue;
        }
        if (count++ == 0) first = pack->tensors[i].name;
    }
    if (count == 0) return TF_OK;
    bool known = tensor_is_known(first);
    tf_fail(w->err, known ? TF_W_UNPLANNED_TENSOR : TF_W_UNEXPECTED_TENSOR,
            "accounting for tensor %s", first);
    tf_found(w->err, "%s; %u stored names are left over",
             known ? "a kind that this layer does not have" : "a name that the model does not have",
             count);
    tf_expected(w->err, "every stored name planned or ignored");
    return tf_remedy(w->err, "give the config.json that belongs to this pack, or leave them out");
}

static void add_up(tf_plan *plan) {
    for (uint32_t i = 0; i < plan->item_count; i++) {
        plan->bytes += plan->items[i].bytes;
        plan->category_bytes[plan->items[i].category] += plan->items[i].bytes;
    }
}

tf_status plan_fill_items(tf_plan *plan, tf_error *err) {
    const tf_pack *pack = plan->pack;
    tf_status status = TF_OK;
    walk w = {.plan = plan, .err = err};
    TF_ASSERT(tensor_rule_count <= RULES_MAX);
    plan->items = arena_array(&plan->arena, pack->tensor_count, sizeof *plan->items);
    plan->item_of = arena_array(&plan->arena, pack->tensor_count, sizeof *plan->item_of);
    plan->layer_end = arena_array(&plan->arena, pack->config.layers + 1u, sizeof(uint32_t));
    if (plan->items == NULL || plan->item_of == NULL || plan->layer_end == NULL)
        return tf_fail(err, TF_W_NO_MEMORY, "listing %u tensors", pack->tensor_count);
    memset(plan->item_of, 0xff, pack->tensor_count * sizeof *plan->item_of);
    for (uint32_t slot = 0; slot <= pack->config.layers; slot++) {
        TF_TRY(enter_layer(&w, slot == 0 ? CONFIG_NONE : slot - 1));
        TF_TRY(plan_layer(&w));
        plan->layer_end[slot] = plan->item_count;
    }
    TF_TRY(check_coverage(&w));
    add_up(plan);
done:
    return status;
}
