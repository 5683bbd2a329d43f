#include "engine/emit/expr.h"

#include "engine/base/check.h"

#include <string.h>

#define EXPR_DEPTH_MAX 32

static const char *const symbols[EXPR_SYMBOLS] = {
#define EXPR(name, symbol, meaning) [EXPR_##name] = symbol,
    EXPR_SYMBOLS_LIST(EXPR)
#undef EXPR
};

const char *expr_symbol_text(expr_symbol symbol) {
    TF_ASSERT(symbol < EXPR_SYMBOLS);
    return symbols[symbol];
}

expr_int expr_of(expr_scope *scope, expr_symbol symbol) {
    TF_ASSERT(symbol < EXPR_SYMBOLS);
    return (expr_int){scope->values[symbol], symbols[symbol]};
}

static expr_int broken(expr_scope *scope) {
    scope->broken = true;
    return expr_const(0);
}

/* A side of a product that is itself a sum needs brackets. */
static bool is_sum(const char *text) {
    int depth = 0;
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '(') depth++;
        if (*c == ')') depth--;
        if ((*c == '+' || *c == '-') && depth == 0) return true;
    }
    return false;
}

static const char *side(expr_scope *scope, expr_int x, bool product) {
    if (x.text == NULL) return arena_print(scope->arena, "%lld", (long long)x.value);
    if (product && is_sum(x.text)) return arena_print(scope->arena, "(%s)", x.text);
    return x.text;
}

static expr_int join(expr_scope *scope, expr_int a, expr_int b, char op, int64_t value) {
    const char *left = side(scope, a, op == '*');
    const char *right = side(scope, b, op == '*');
    if (left == NULL || right == NULL) return broken(scope);
    const char *text = arena_print(scope->arena, "%s%c%s", left, op, right);
    return text == NULL ? broken(scope) : (expr_int){value, text};
}

expr_int expr_add(expr_scope *scope, expr_int a, expr_int b) {
    int64_t value = 0;
    if (__builtin_add_overflow(a.value, b.value, &value)) return broken(scope);
    if (a.text == NULL && b.text == NULL) return expr_const(value);
    if (a.text == NULL && a.value == 0) return b;
    if (b.text == NULL && b.value == 0) return a;
    if (a.text == NULL && a.value < 0) return expr_add(scope, b, a);
    if (b.text != NULL || b.value > 0) return join(scope, a, b, '+', value);
    if (b.value == INT64_MIN) return broken(scope);
    return join(scope, a, expr_const(-b.value), '-', value);
}

expr_int expr_mul(expr_scope *scope, expr_int a, expr_int b) {
    int64_t value = 0;
    if (__builtin_mul_overflow(a.value, b.value, &value)) return broken(scope);
    if (a.text == NULL && b.text == NULL) return expr_const(value);
    if (a.text == NULL && a.value == 1) return b;
    if (b.text == NULL && b.value == 1) return a;
    if ((a.text == NULL && a.value < 0) || (b.text == NULL && b.value < 0)) return broken(scope);
    return join(scope, a, b, '*', value);
}

expr_int expr_times(expr_scope *scope, expr_symbol symbol, int64_t factor) {
    return expr_mul(scope, expr_of(scope, symbol), expr_const(factor));
}

/* ---- evaluation: sum := product {(+|-) product}; product := atom {* atom}; atom := number | symbol |
 * ( sum ) ---- */

typedef struct cursor {
    const char *at;
    const int64_t *values;
    int depth;
    bool bad;
} cursor;

static int64_t eval_sum(cursor *c);

static int64_t eval_number(cursor *c) {
    int64_t value = 0;
    while (*c->at >= '0' && *c->at <= '9') {
        int digit = *c->at++ - '0';
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, digit, &value))
            c->bad = true;
    }
    return value;
}

static int64_t eval_symbol(cursor *c) {
    size_t n = strspn(c->at, "WrHgIbVcns0");
    for (int i = 0; i < (int)EXPR_SYMBOLS && n > 0; i++) {
        if (strlen(symbols[i]) != n || memcmp(symbols[i], c->at, n) != 0) continue;
        c->at += n;
        return c->values[i];
    }
    c->bad = true;
    return 0;
}

static int64_t eval_atom(cursor *c) {
    if (*c->at >= '0' && *c->at <= '9') return eval_number(c);
    if (*c->at != '(') return eval_symbol(c);
    c->at++;
    if (++c->depth > EXPR_DEPTH_MAX) c->bad = true;
    int64_t value = c->bad ? 0 : eval_sum(c);
    c->depth--;
    if (*c->at == ')') {
        c->at++;
    } else {
        c->bad = true;
    }
    return value;
}

static int64_t eval_product(cursor *c) {
    int64_t value = eval_atom(c);
    while (!c->bad && *c->at == '*') {
        c->at++;
        if (__builtin_mul_overflow(value, eval_atom(c), &value)) c->bad = true;
    }
    return value;
}

static int64_t eval_sum(cursor *c) {
    int64_t value = eval_product(c);
    while (!c->bad && (*c->at == '+' || *c->at == '-')) {
        bool minus = *c->at++ == '-';
        int64_t product = eval_product(c);
        if (minus ? __builtin_sub_overflow(value, product, &value)
                  : __builtin_add_overflow(value, product, &value))
            c->bad = true;
    }
    return value;
}

tf_status expr_eval(const char *text, const int64_t values[EXPR_SYMBOLS], int64_t *out,
                    tf_error *err) {
    cursor c = {.at = text, .values = values};
    *out = eval_sum(&c);
    if (!c.bad && *c.at == '\0') return TF_OK;
    tf_fail(err, TF_W_BAD_EXPRESSION, "evaluating '%.100s'", text);
    tf_found(err, "'%.40s' at byte %zu", c.at, (size_t)(c.at - text));
    return tf_expected(
        err, "sums, differences and products of numbers and the symbols W r H g I b V c n s");
}
