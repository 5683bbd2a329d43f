/* oracle/slices - a second, naive way to say which elements of a tensor a rank holds.
 *
 * Idea: one question for one element at a time, asked from the tensor's name; shares are dealt out
 * unit by unit.  It shares no code with the planner, so that the two can contradict each other.
 * Trap: slow on purpose; small models only. */
#ifndef TF_TESTS_ORACLE_SLICES_H
#define TF_TESTS_ORACLE_SLICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ORACLE_UNITS_MAX  2048u
#define ORACLE_TABLES_MAX 2u

typedef struct oracle_model {
    uint32_t groups, expert_width, vocab;
    uint32_t ngram, hash_heads, hash_vocab; /* hash_heads 0: no n-gram memory */
    int hash_layers[ORACLE_TABLES_MAX];     /* -1: none */
} oracle_model;

/* The model shared out: who owns each unit. */
typedef struct oracle {
    oracle_model model;
    uint32_t group_owner[ORACLE_UNITS_MAX];
    uint32_t block_owner[ORACLE_UNITS_MAX];
    uint32_t vocab_owner[ORACLE_UNITS_MAX];
    uint32_t column_owner[ORACLE_UNITS_MAX];
    uint64_t column_rows[ORACLE_TABLES_MAX][256];
} oracle;

typedef struct oracle_tensor {
    const char *name;
    uint32_t dims;
    uint64_t shape[3];
    size_t element_bytes;
} oracle_tensor;

/* owner[units]: the rank that each unit goes to. */
void oracle_deal(uint32_t units, uint32_t world, const uint64_t *weights, uint32_t *owner);
void oracle_make(oracle *o, const oracle_model *model, uint32_t world, const uint64_t *weights);
/* Is each element held by one rank alone, or by all? */
bool oracle_is_split(const oracle_tensor *tensor);
/* Copies what `rank` holds of `whole`, element by element in row-major order; returns the bytes. */
size_t oracle_slice(const oracle *o, const oracle_tensor *tensor, const unsigned char *whole,
                    unsigned char *part, uint32_t rank);

#endif
