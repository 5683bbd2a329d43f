/* emit/expr - integers that remember what they were made from.
 *
 * Idea: a size that depends on the split is a value and an expression over the rank's shares; the
 * text of a call shows both, 24{H}, and an oracle can evaluate the expression for any world.
 * Trap: arithmetic on a bare value loses the expression; make every step here. */
#ifndef TF_ENGINE_EMIT_EXPR_H
#define TF_ENGINE_EMIT_EXPR_H

#include "engine/base/arena.h"
#include "engine/base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* EXPR(NAME, "symbol", "what it stands for"): this rank's shares and where they begin. */
#define EXPR_SYMBOLS_LIST(EXPR)                                         \
    EXPR(WORLD, "W", "ranks")                                           \
    EXPR(RANK, "r", "this rank")                                        \
    EXPR(HEADS, "H", "query heads of this rank")                        \
    EXPR(FIRST_HEAD, "H0", "its first query head")                      \
    EXPR(GROUPS, "g", "output groups of this rank")                     \
    EXPR(FIRST_GROUP, "g0", "its first output group")                   \
    EXPR(WIDTH, "I", "columns of the expert width of this rank")        \
    EXPR(BLOCKS, "b", "blocks of 128 of the expert width of this rank") \
    EXPR(FIRST_BLOCK, "b0", "its first block")                          \
    EXPR(VOCAB, "V", "vocabulary entries of this rank")                 \
    EXPR(FIRST_VOCAB, "V0", "its first vocabulary entry")               \
    EXPR(COLUMNS, "c", "hash columns of this rank")                     \
    EXPR(FIRST_COLUMN, "c0", "its first hash column")                   \
    EXPR(ROWS, "n", "rows of this step or chunk")                       \
    EXPR(START, "s", "position of a chunk's first row")

typedef enum {
#define EXPR(name, symbol, meaning) EXPR_##name,
    EXPR_SYMBOLS_LIST(EXPR)
#undef EXPR
    EXPR_SYMBOLS,
} expr_symbol;

typedef struct expr_int {
    int64_t value;
    const char *text; /* NULL: the same at every split, row count and start; else arena owns */
} expr_int;

/* Where expressions are made: the values of the symbols, and the memory of the texts.  A failed
 * allocation or an overflow leaves it broken; later results are 0 and the owner asks at the end. */
typedef struct expr_scope {
    tf_arena *arena;
    int64_t values[EXPR_SYMBOLS];
    bool broken;
} expr_scope;

static inline expr_int expr_const(int64_t value) {
    return (expr_int){value, NULL};
}
expr_int expr_of(expr_scope *scope, expr_symbol symbol);
/* a + b, a * b: constants fold (x * 1 is x, x + 0 is x).  A negative constant may be added, "n-1",
 * but is no factor. */
expr_int expr_add(expr_scope *scope, expr_int a, expr_int b);
expr_int expr_mul(expr_scope *scope, expr_int a, expr_int b);
expr_int expr_times(expr_scope *scope, expr_symbol symbol, int64_t factor);

const char *expr_symbol_text(expr_symbol symbol);
/* Evaluates a text made here with other values of the symbols; bad-expression for anything else. */
tf_status expr_eval(const char *text, const int64_t values[EXPR_SYMBOLS], int64_t *out,
                    tf_error *err);

#endif
