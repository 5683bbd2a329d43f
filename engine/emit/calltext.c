#include "engine/emit/calltext.h"

#include "engine/base/arena.h"

#include <string.h>

static void put_expr(tf_text *out, expr_int x) {
    text_i64(out, x.value);
    if (x.text == NULL) return;
    text_char(out, '{');
    text_add(out, x.text);
    text_char(out, '}');
}

static void put_list(tf_text *out, const expr_int *values, uint32_t count) {
    text_char(out, '[');
    for (uint32_t i = 0; i < count; i++) {
        if (i > 0) text_char(out, ',');
        put_expr(out, values[i]);
    }
    text_char(out, ']');
}

static void put_tensor(tf_text *out, const call_tensor *t) {
    text_add(out, t->role);
    text_char(out, ':');
    text_add(out, dtype_name(t->dtype));
    put_list(out, t->shape, t->dims);
    if (!t->is_view) return;
    text_add(out, "/");
    put_list(out, t->stride, t->dims);
    text_add(out, "+");
    put_expr(out, t->offset);
}

/* Twice the bits, as "3" or "2.5". */
static void put_bits(tf_text *out, uint32_t bits2) {
    text_u64(out, bits2 / 2);
    if (bits2 % 2 != 0) text_add(out, ".5");
}

static void put_weight_text(tf_text *out, const call_weight *w) {
    text_add(out, w->stem);
    text_char(out, ':');
    if (w->form == WEIGHT_PLAIN) {
        text_add(out, dtype_name(w->dtype));
    } else {
        text_add(out, "EXL3/");
        text_add(out, w->codebook);
        text_char(out, '/');
        if (w->bits2 != 0) put_bits(out, w->bits2);
        for (int64_t i = 0; w->bits2 == 0 && i < w->count.value; i++) {
            if (i > 0) text_char(out, ',');
            put_bits(out, w->each[i]);
        }
    }
    put_list(out, (const expr_int[]){w->k, w->n}, 2);
    if (w->first_row.text != NULL || w->first_row.value != 0) {
        text_add(out, "+row");
        put_expr(out, w->first_row);
    }
    if (w->count.text == NULL && w->count.value == 0) return;
    text_add(out, "x");
    put_expr(out, w->count);
    text_char(out, '@');
    put_expr(out, w->first);
}

void calltext_arg(const call_arg *a, tf_text *out) {
    switch (a->type) {
    case ARG_NONE:
        text_add(out, "none");
        break;
    case ARG_INT:
        put_expr(out, a->i);
        break;
    case ARG_REAL:
        text_f64(out, a->f);
        break;
    case ARG_BOOL:
        text_add(out, a->b ? "true" : "false");
        break;
    case ARG_WORD:
        text_add(out, a->word);
        break;
    case ARG_INTS:
        text_char(out, '[');
        for (uint32_t i = 0; i < a->ints.count; i++) {
            if (i > 0) text_char(out, ',');
            text_i64(out, a->ints.values[i]);
        }
        text_char(out, ']');
        if (a->ints.text == NULL) break;
        text_char(out, '{');
        text_add(out, a->ints.text);
        text_char(out, '}');
        break;
    case ARG_TENSOR:
        put_tensor(out, &a->tensor);
        break;
    case ARG_WEIGHT:
        put_weight_text(out, &a->weight);
        break;
    }
}

void calltext_grid(const call *c, tf_text *out) {
    put_list(out, c->grid, 3);
}

void calltext_layer(uint32_t layer, tf_text *out) {
    if (layer == CALL_TOP) {
        text_add(out, "top");
        return;
    }
    text_char(out, 'L');
    text_u64(out, layer);
}

void calltext_line(const tf_calls *calls, const call *c, tf_text *out) {
    text_u64(out, c->ordinal);
    text_char(out, ' ');
    text_add(out, call_phase_name(calls->phase));
    text_char(out, ' ');
    calltext_layer(c->layer, out);
    text_char(out, ' ');
    text_add(out, call_kind_name(c->kind));
    text_char(out, ' ');
    text_add(out, c->name);
    text_add(out, " grid=");
    calltext_grid(c, out);
    text_add(out, c->collective ? " flags=collective" : " flags=none");
    for (uint32_t i = 0; i < c->arg_count; i++) {
        text_char(out, ' ');
        text_add(out, c->args[i].name);
        text_char(out, '=');
        calltext_arg(&c->args[i], out);
    }
}

tf_status calltext_make(tf_calls *calls, tf_error *err) {
    calls->line = mem_take(((size_t)calls->count + 1) * sizeof *calls->line);
    if (calls->line == NULL) return tf_fail(err, TF_W_NO_MEMORY, "writing the text of calls");
    for (uint32_t i = 0; i < calls->count; i++) {
        calls->line[i] = calls->text.length;
        calltext_line(calls, &calls->calls[i], &calls->text);
        text_char(&calls->text, '\n');
    }
    calls->line[calls->count] = calls->text.length;
    calls->digest = digest_bytes(text_str(&calls->text), calls->text.length);
    return text_done(&calls->text, err);
}
