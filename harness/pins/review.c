#include "harness/pins/review.h"

#include "engine/base/io.h"
#include "engine/base/limits.h"
#include "harness/pins/diff.h"
#include "harness/pins/pinfile.h"
#include "harness/pins/pins.h"

#include <string.h>

static const char *command_of(const review_options *options) {
    return options->command == NULL ? "tfverify" : options->command;
}

/* A pending pin and the pin it would replace. */
typedef struct pair {
    char pin_path[TF_PATH_BYTES_MAX];
    char new_path[TF_PATH_BYTES_MAX];
    pin_file pin; /* empty when there is none */
    bool has_pin;
    pin_file fresh;
} pair;

static void pair_free(pair *p) {
    pinfile_free(&p->pin);
    pinfile_free(&p->fresh);
}

static tf_status pair_read(const char *root, const char *name, pair *p, tf_error *err) {
    tf_status status = TF_OK;
    *p = (pair){.has_pin = false};
    TF_TRY(pin_path(root, name, false, p->pin_path, sizeof p->pin_path, err));
    TF_TRY(pin_path(root, name, true, p->new_path, sizeof p->new_path, err));
    TF_TRY(pinfile_read(p->new_path, name, &p->fresh, err));
    p->has_pin = io_exists(p->pin_path);
    if (p->has_pin) TF_TRY(pinfile_read(p->pin_path, name, &p->pin, err));
    if (!p->fresh.pending) {
        tf_fail(err, TF_W_PIN_DAMAGED, "reading the pending pin %s", p->new_path);
        tf_found(err, "no line 'replaces'");
        TF_TRY(tf_remedy(err, "delete it and capture again"));
    }
done:
    if (status != TF_OK) pair_free(p);
    return status;
}

static bool is_same(const pair *p) {
    return p->has_pin && digest_equal(p->pin.digest, p->fresh.digest);
}

static bool is_stale(const pair *p) {
    return !digest_equal(p->fresh.replaces, p->pin.digest);
}

/* ---- show ----------------------------------------------------------------------------------- */

static void show_parts(const pair *p, tf_text *out) {
    size_t differ = 0;
    for (size_t i = 0; i < p->fresh.part_count; i++) {
        const pin_part *now = &p->fresh.parts[i];
        const pin_part *was = i < p->pin.part_count ? &p->pin.parts[i] : NULL;
        bool same = was != NULL && strcmp(was->name, now->name) == 0 &&
                    digest_equal(was->digest, now->digest);
        if (same) continue;
        if (differ++ == 0) text_add(out, "parts that differ:");
        if (differ <= 24) text_print(out, " %s", now->name);
    }
    if (differ > 24) text_print(out, " and %zu more", differ - 24);
    if (differ > 0) text_print(out, " (of %zu)\n", p->fresh.part_count);
}

static tf_status show_pair(const pair *p, tf_text *out, tf_error *err) {
    static const diff_limits limits = {.context = 3, .hunks = 8, .lines = 60};
    static const diff_limits all_new = {.context = 0, .hunks = 1, .lines = 12};
    const pin_file *now = &p->fresh;
    text_print(out, "=== %s: %s\n", now->name, p->has_pin ? "changed" : "new");
    text_print(out, "%s\n", now->what);
    if (p->has_pin)
        text_print(out, "--- pinned at %s, %llu lines\n", p->pin.captured_at,
                   (unsigned long long)p->pin.text_lines);
    text_print(out, "+++ captured at %s, %llu lines\n", now->captured_at,
               (unsigned long long)now->text_lines);
    if (p->has_pin && !(now->whole && p->pin.whole)) show_parts(p, out);
    tf_status status =
        diff_write(out, (diff_text){p->pin.text, p->pin.bytes}, (diff_text){now->text, now->bytes},
                   p->has_pin ? &limits : &all_new, NULL, err);
    if (is_stale(p))
        text_add(out, "stale: the pin changed since this was captured; capture again\n");
    text_print(out, "reproduce: %s\n\n", now->made_by);
    return status;
}

static tf_status drop(const pair *p, tf_error *err) {
    return io_remove_tree(p->new_path, err);
}

tf_status review_show(const review_options *options, tf_text *out, size_t *count, tf_error *err) {
    char **names = NULL;
    size_t total = 0;
    pair p = {.has_pin = false};
    tf_status status = TF_OK;
    *count = 0;
    TF_TRY(pin_names(options->root, true, &names, &total, err));
    for (size_t i = 0; i < total; i++) {
        if (!pinfile_match(options->pattern, names[i])) continue;
        TF_TRY(pair_read(options->root, names[i], &p, err));
        if (is_same(&p)) {
            if (!options->ci) TF_TRY(drop(&p, err));
        } else {
            TF_TRY(show_pair(&p, out, err));
            ++*count;
        }
        pair_free(&p);
    }
    text_print(out, "%zu pending pin%s\n", *count, *count == 1 ? "" : "s");
    if (*count > 0)
        text_print(out, "accept: %s pins accept NAME|--all   reject: %s pins reject NAME|--all\n",
                   command_of(options), command_of(options));
    TF_TRY(text_done(out, err));
done:
    pair_free(&p);
    io_free_names(names, total);
    return status;
}

/* ---- accept and reject ---------------------------------------------------------------------- */

static tf_status refuse_in_ci(const review_options *options, const char *act, tf_error *err) {
    if (!options->ci) return TF_OK;
    tf_fail(err, TF_W_PINS_READ_ONLY, "%s pins", act);
    tf_found(err, "the environment variable CI is set");
    tf_expected(err, "a person who read the review");
    return tf_remedy(err, "do it on your own machine and commit");
}

static tf_status check_acceptable(const review_options *options, const char *name, tf_error *err) {
    pair p;
    tf_status status = pair_read(options->root, name, &p, err);
    if (status != TF_OK) return status;
    if (!is_same(&p) && is_stale(&p)) {
        char hex[DIGEST_HEX];
        tf_fail(err, TF_W_PENDING_PIN_STALE, "accepting the pin %s", name);
        tf_found(err, "a pin of digest %s",
                 p.has_pin ? digest_hex(p.pin.digest, hex) : "none: it was deleted");
        tf_expected(err, "%s, which it was captured against",
                    digest_is_zero(p.fresh.replaces) ? "no pin"
                                                     : digest_hex(p.fresh.replaces, hex));
        status = tf_remedy(err, "%s pins capture '%s'", command_of(options), name);
    }
    pair_free(&p);
    return status;
}

static tf_status accept_one(const review_options *options, const char *name, tf_text *out,
                            tf_error *err) {
    pair p;
    tf_status status = TF_OK;
    TF_TRY(pair_read(options->root, name, &p, err));
    p.fresh.pending = false;
    if (!is_same(&p)) TF_TRY(pinfile_write(p.pin_path, &p.fresh, err));
    TF_TRY(drop(&p, err));
    text_print(out, "accepted %s\n", name);
done:
    if (status == TF_OK) pair_free(&p);
    return status;
}

static tf_status reject_one(const review_options *options, const char *name, tf_text *out,
                            tf_error *err) {
    char path[TF_PATH_BYTES_MAX];
    tf_status status = pin_path(options->root, name, true, path, sizeof path, err);
    if (status != TF_OK) return status;
    text_print(out, "rejected %s\n", name);
    return io_remove_tree(path, err);
}

typedef tf_status (*on_name)(const review_options *options, const char *name, tf_text *out,
                             tf_error *err);

static tf_status check_one(const review_options *options, const char *name, tf_text *out,
                           tf_error *err) {
    (void)out;
    return check_acceptable(options, name, err);
}

static tf_status each(const review_options *options, char **names, size_t total, on_name act,
                      tf_text *out, size_t *count, tf_error *err) {
    *count = 0;
    for (size_t i = 0; i < total; i++) {
        if (!pinfile_match(options->pattern, names[i])) continue;
        tf_status status = act(options, names[i], out, err);
        if (status != TF_OK) return status;
        ++*count;
    }
    return TF_OK;
}

static tf_status settle(const review_options *options, const char *act_name, bool accept,
                        tf_text *out, size_t *count, tf_error *err) {
    char **names = NULL;
    size_t total = 0;
    tf_status status = TF_OK;
    *count = 0;
    TF_TRY(refuse_in_ci(options, act_name, err));
    TF_TRY(pin_names(options->root, true, &names, &total, err));
    if (accept) TF_TRY(each(options, names, total, check_one, out, count, err));
    TF_TRY(each(options, names, total, accept ? accept_one : reject_one, out, count, err));
    if (*count == 0) {
        tf_fail(err, TF_W_NOTHING_PENDING, "%s pins", act_name);
        tf_found(err, "%zu pending pins, none that matches '%s'", total,
                 options->pattern == NULL ? "*" : options->pattern);
        TF_TRY(tf_remedy(err, "%s pins capture", command_of(options)));
    }
    TF_TRY(text_done(out, err));
done:
    io_free_names(names, total);
    return status;
}

tf_status review_accept(const review_options *options, tf_text *out, size_t *count, tf_error *err) {
    return settle(options, "accepting", true, out, count, err);
}

tf_status review_reject(const review_options *options, tf_text *out, size_t *count, tf_error *err) {
    return settle(options, "rejecting", false, out, count, err);
}
