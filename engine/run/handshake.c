#include "engine/run/handshake.h"

#include "engine/base/arena.h"
#include "engine/base/check.h"
#include "engine/base/digest.h"
#include "engine/base/text.h"

#include <string.h>

/* A field as it travels; all zero beyond the last. */
typedef struct shown {
    char name[HANDSHAKE_NAME];
    char value[HANDSHAKE_VALUE];
    tf_digest digest; /* of the whole value */
} shown;

/* All ranks send the same size, so that another number of fields is seen as a field, by name. */
typedef struct card {
    shown fields[HANDSHAKE_FIELDS];
} card;

static void put(char *to, size_t size, const char *text) {
    size_t length = strlen(text);
    if (length >= size) length = size - 1;
    memcpy(to, text, length);
}

static bool same(const shown *a, const shown *b) {
    return memcmp(a->name, b->name, sizeof a->name) == 0 && digest_equal(a->digest, b->digest);
}

/* "ranks 0, 2": those of the world whose field f is that of `like`. */
static void add_ranks(tf_text *text, const card *cards, uint32_t world, uint32_t f,
                      const shown *like) {
    uint32_t count = 0;
    for (uint32_t r = 0; r < world; r++)
        count += same(&cards[r].fields[f], like);
    text_add(text, count > 1 ? "ranks " : "rank ");
    const char *between = "";
    for (uint32_t r = 0; r < world; r++) {
        if (!same(&cards[r].fields[f], like)) continue;
        text_print(text, "%s%u", between, r);
        between = ", ";
    }
}

static void add_field(tf_text *text, const shown *field, const char *name) {
    if (field->name[0] == '\0')
        text_print(text, "no %s", name);
    else if (strcmp(field->name, name) == 0)
        text_print(text, "'%s'", field->value);
    else
        text_print(text, "%s '%s'", field->name, field->value);
}

static tf_status refuse(const card *cards, uint32_t world, uint32_t f, uint32_t rank,
                        tf_error *err) {
    const shown *first = &cards[0].fields[f], *other = &cards[rank].fields[f];
    const char *name = first->name[0] != '\0' ? first->name : other->name;
    tf_text found = {0}, expected = {0};
    add_field(&found, other, name);
    text_add(&found, " on ");
    add_ranks(&found, cards, world, f, other);
    add_field(&expected, first, name);
    text_add(&expected, " as on ");
    add_ranks(&expected, cards, world, f, first);
    tf_fail(err, TF_W_HANDSHAKE_DIFFERS, "comparing the ranks: %s differs", name);
    tf_found(err, "%s", text_str(&found));
    tf_expected(err, "%s", text_str(&expected));
    text_free(&found);
    text_free(&expected);
    return tf_remedy(err, "start all ranks from one build with the same settings and pack");
}

tf_status handshake_run(exchange *x, const handshake_field *fields, uint32_t count, tf_error *err) {
    TF_ASSERT(count <= HANDSHAKE_FIELDS);
    tf_status status = TF_OK;
    uint64_t bytes[TF_WORLD_MAX];
    card *own = mem_take(sizeof *own);
    card *all = mem_take(x->world * sizeof *all);
    exchange_part part = {.site = "handshake", .send = own, .recv = all, .bytes = bytes};
    if (own == NULL || all == NULL) {
        status = tf_fail(err, TF_W_NO_MEMORY, "comparing the ranks");
        goto done;
    }
    for (uint32_t f = 0; f < count; f++) {
        put(own->fields[f].name, HANDSHAKE_NAME, fields[f].name);
        put(own->fields[f].value, HANDSHAKE_VALUE, fields[f].value);
        own->fields[f].digest = digest_str(fields[f].value);
    }
    for (uint32_t r = 0; r < x->world; r++)
        bytes[r] = sizeof *own;
    TF_TRY(x->ops->gather(x, &part, err));
    for (uint32_t f = 0; f < HANDSHAKE_FIELDS; f++) {
        for (uint32_t r = 1; r < x->world; r++) {
            if (same(&all[0].fields[f], &all[r].fields[f])) continue;
            TF_TRY(refuse(all, x->world, f, r, err));
        }
    }
done:
    mem_free(own);
    mem_free(all);
    return status;
}
