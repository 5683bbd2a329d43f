#include "tests/oracle/slices.h"

#include <stdlib.h>
#include <string.h>

typedef enum {
    BY_NOBODY, /* held by all */
    BY_GROUP,
    BY_BLOCK, /* of 128 of the expert width */
    BY_VOCAB,
    BY_COLUMN,
} sharing;

typedef struct rule {
    sharing by;
    char axis;     /* 'K' or 'N' of a linear, 'R': first index, 'P': the whole goes to `unit` */
    uint32_t unit; /* of 'P' */
} rule;

void oracle_deal(uint32_t units, uint32_t world, const uint64_t *weights, uint32_t *owner) {
    uint64_t total = 0, share[256], rest[256], given = 0;
    for (uint32_t r = 0; r < world; r++)
        total += weights[r];
    for (uint32_t r = 0; r < world; r++) {
        share[r] = 0;
        rest[r] = units * weights[r];
        while (rest[r] >= total) {
            rest[r] -= total;
            share[r]++;
        }
        given += share[r];
    }
    for (; given < units; given++) {
        uint32_t best = world - 1;
        for (uint32_t r = world; r-- > 0;) {
            if (rest[r] >= rest[best]) best = r;
        }
        share[best]++;
        rest[best] = 0;
    }
    uint32_t unit = 0;
    for (uint32_t r = 0; r < world; r++) {
        for (uint64_t i = 0; i < share[r]; i++)
            owner[unit++] = r;
    }
}

static bool is_prime(uint64_t n) {
    for (uint64_t d = 2; d < n; d++) {
        if (n % d == 0) return false;
    }
    return n > 1;
}

static bool is_in(const uint64_t *list, uint32_t count, uint64_t value) {
    for (uint32_t i = 0; i < count; i++) {
        if (list[i] == value) return true;
    }
    return false;
}

/* Rows of each hash column: primes that no other column of any table has. */
static void find_columns(oracle *o) {
    uint64_t taken[1024];
    uint32_t count = 0, columns = (o->model.ngram - 1) * o->model.hash_heads;
    for (uint32_t i = 0; i < ORACLE_TABLES_MAX * columns; i++) {
        uint64_t p = o->model.hash_vocab;
        while (!is_prime(p) || is_in(taken, count, p))
            p++;
        taken[count++] = p;
        o->column_rows[i / columns][i % columns] = p;
    }
}

void oracle_make(oracle *o, const oracle_model *model, uint32_t world, const uint64_t *weights) {
    memset(o, 0, sizeof *o);
    o->model = *model;
    oracle_deal(model->groups, world, weights, o->group_owner);
    oracle_deal(model->expert_width / 128, world, weights, o->block_owner);
    oracle_deal(model->vocab / 128, world, weights, o->vocab_owner);
    oracle_deal((model->ngram - 1) * model->hash_heads, world, weights, o->column_owner);
    find_columns(o);
}

/* The name without its layer; *layer: the number of a `layers.` name, else -1. */
static const char *without_layer(const char *name, int *layer) {
    *layer = -1;
    bool draft = strncmp(name, "mtp.", 4) == 0;
    if (!draft && strncmp(name, "layers.", 7) != 0) return name;
    const char *dot = strchr(name, '.');
    if (!draft) *layer = (int)strtol(dot + 1, NULL, 10);
    return strchr(dot + 1, '.') + 1;
}

static bool starts(const char *s, const char *with) {
    return strncmp(s, with, strlen(with)) == 0;
}

static bool ends(const char *s, const char *with) {
    size_t n = strlen(s), m = strlen(with);
    return n >= m && strcmp(s + n - m, with) == 0;
}

static rule rule_of(const char *name) {
    int layer;
    const char *s = without_layer(name, &layer);
    bool top = s == name;
    if (starts(s, "attn.wq_b.")) return (rule){BY_GROUP, 'N', 0};
    if (starts(s, "attn.wo_b.")) return (rule){BY_GROUP, 'K', 0};
    if (strcmp(s, "attn.attn_sink") == 0) return (rule){BY_GROUP, 'R', 0};
    if (starts(s, "attn.wo_a.slice."))
        return (rule){BY_GROUP, 'P', (uint32_t)strtoul(s + 16, NULL, 10)};
    if (starts(s, "ffn.") && strstr(s, "experts") != NULL)
        return (rule){BY_BLOCK, strstr(s, ".w2.") != NULL ? 'K' : 'N', 0};
    if (top && strcmp(s, "embed.weight") == 0) return (rule){BY_VOCAB, 'R', 0};
    if (top && starts(s, "head.")) return (rule){BY_VOCAB, 'N', 0};
    if (starts(s, "engram.embed.")) return (rule){BY_COLUMN, 'R', 0};
    return (rule){BY_NOBODY, '-', 0};
}

/* Which index runs along the axis (-1: none does), and how many of the axis one step of it is. */
static int index_along(const char *name, char axis, uint64_t *step) {
    *step = 1;
    if (axis == 'R') return 0;
    if (ends(name, ".weight")) return axis == 'N' ? 0 : 1;
    if (ends(name, ".suh")) return axis == 'K' ? 0 : -1;
    if (ends(name, ".svh")) return axis == 'N' ? 0 : -1;
    if (!ends(name, ".trellis")) return -1;
    *step = 16;
    return axis == 'N' ? 1 : 0;
}

bool oracle_is_split(const oracle_tensor *t) {
    uint64_t step;
    rule r = rule_of(t->name);
    return r.axis == 'P' || (r.by != BY_NOBODY && index_along(t->name, r.axis, &step) >= 0);
}

static uint32_t column_of(const oracle *o, const char *name, uint64_t row) {
    int layer;
    without_layer(name, &layer);
    uint32_t table = o->model.hash_layers[0] == layer ? 0 : 1;
    uint32_t column = 0;
    while (row >= o->column_rows[table][column])
        row -= o->column_rows[table][column++];
    return column;
}

/* at: place on the axis; length: of the axis. */
static uint32_t owner_of(const oracle *o, const oracle_tensor *t, rule r, uint64_t at,
                         uint64_t length) {
    switch (r.by) {
    case BY_NOBODY:
        break;
    case BY_GROUP:
        return o->group_owner[at * o->model.groups / length];
    case BY_BLOCK:
        return o->block_owner[at / 128];
    case BY_VOCAB:
        return o->vocab_owner[at / 128];
    case BY_COLUMN:
        return o->column_owner[column_of(o, t->name, at)];
    }
    return UINT32_MAX;
}

size_t oracle_slice(const oracle *o, const oracle_tensor *t, const unsigned char *whole,
                    unsigned char *part, uint32_t rank) {
    uint64_t s[3] = {1, 1, 1}, step = 1, index[3];
    rule r = rule_of(t->name);
    int along = r.axis == 'P' || r.axis == '-' ? -1 : index_along(t->name, r.axis, &step);
    for (uint32_t i = 0; i < t->dims; i++)
        s[i] = t->shape[i];
    if (r.axis == 'P' && o->group_owner[r.unit] != rank) return 0;
    size_t bytes = 0;
    for (index[0] = 0; index[0] < s[0]; index[0]++) {
        for (index[1] = 0; index[1] < s[1]; index[1]++) {
            for (index[2] = 0; index[2] < s[2]; index[2]++) {
                uint64_t at = along < 0 ? 0 : index[along] * step;
                if (along >= 0 && owner_of(o, t, r, at, s[along] * step) != rank) continue;
                uint64_t flat = (index[0] * s[1] + index[1]) * s[2] + index[2];
                memcpy(part + bytes, whole + flat * t->element_bytes, t->element_bytes);
                bytes += t->element_bytes;
            }
        }
    }
    return bytes;
}
