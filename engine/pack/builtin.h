/* pack/builtin - the models that the program itself knows: two tiny ones, the real one's shape, and
 * two wide ones whose speed is measured.
 *
 * Idea: a model is a row of numbers; its config.json, its inventory and its bytes all follow from
 * the row, so nothing has to be shipped or fetched.
 * Trap: config.json must equal the golden one byte for byte, since a pack is compared by its files;
 * the form of every number is part of the row.
 * Trap: which layers' shared experts have 4 bits in the real release and which 5 is not public, only
 * how many; flash gives 4 to the first ones. */
#ifndef TF_ENGINE_PACK_BUILTIN_H
#define TF_ENGINE_PACK_BUILTIN_H

#include "engine/base/text.h"
#include "engine/pack/inventory.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct builtin_shape builtin_shape; /* what config.json says; private to builtin.c */

typedef struct builtin_pairs {
    size_t count;
    const uint16_t (*at)[2];
} builtin_pairs;

typedef struct builtin_model {
    const char *name;
    bool header_only;    /* headers without data: the real model's are 200 GB */
    bool large;          /* gigabytes: made where a person says, never on first use */
    uint64_t seed;       /* of the value recipe */
    uint32_t layers;     /* target layers of its own */
    bool scales;         /* more target layers can be asked for */
    inventory_bits bits; /* EXL3 bits a weight; NULL: plain weights */
    double markov_boost; /* each pair {a, b}: after token a the draft head prefers b */
    const builtin_pairs *markov_pairs; /* NULL: none */
    const builtin_shape *shape;
} builtin_model;

/* NULL when there is no such model. */
const builtin_model *builtin_find(const char *name);
/* All of them; NULL-terminated; static. */
const char *const *builtin_kinds(void);
/* Those that are packs by name, made on first use: all but the large ones. */
const char *const *builtin_names(void);
/* config.json in the publisher's form.  target_layers at or above the model's own: further layers
 * are of ratio 1, read the last key/value source and choose anew on every even one. */
void builtin_config_json(const builtin_model *model, uint32_t target_layers, tf_text *out);
/* Entry `token` of a token map with so many compressed ids: the upper tokens share theirs in pairs, and
 * where all are given they are given again. */
int32_t builtin_token(uint32_t token, uint32_t compressed);

/* In builtin_pairs.c: which drafts come out right was chosen by the authors of the golden data. */
extern const builtin_pairs BUILTIN_PAIRS_BF16;
extern const builtin_pairs BUILTIN_PAIRS_EXL3;

#endif
