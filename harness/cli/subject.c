#include "harness/cli/subject.h"

#include "harness/cli/session.h"

#include <string.h>

tf_status subject_split(const args *a, tf_split *split, tf_error *err) {
    *split = (tf_split){.world = 1, .rank = (uint32_t)a->number[OPT_RANK]};
    if (a->given[OPT_WEIGHTS]) {
        split->world = a->weight_count;
        split->has_weights = true;
        memcpy(split->weights, a->weights, sizeof split->weights);
    }
    if (!a->given[OPT_WORLD]) return TF_OK;
    if (split->has_weights && a->number[OPT_WORLD] != a->weight_count) {
        tf_fail(err, TF_W_BAD_WEIGHTS, "reading --weights %s", a->text[OPT_WEIGHTS]);
        tf_found(err, "%u weights", a->weight_count);
        return tf_expected(err, "one for each of %s ranks", a->text[OPT_WORLD]);
    }
    split->world = (uint32_t)a->number[OPT_WORLD];
    return TF_OK;
}

tf_status subject_need_rank(const args *a, tf_error *err) {
    uint64_t world = a->given[OPT_WORLD] ? a->number[OPT_WORLD] : 1;
    if (a->given[OPT_WEIGHTS]) world = a->weight_count;
    if (a->given[OPT_RANK] || world == 1) return TF_OK;
    tf_fail(err, TF_W_USAGE, "choosing one of %llu ranks", (unsigned long long)world);
    tf_found(err, "no --rank");
    return tf_remedy(err, "add --rank R, from 0 to %llu",
                     (unsigned long long)(world == 0 ? 0 : world - 1));
}

static tf_status need_pack(const args *a, tf_error *err) {
    if (a->given[OPT_PACK]) return TF_OK;
    tf_text names = {0};
    for (const char *const *name = tf_pack_builtins(); *name != NULL; name++)
        text_print(&names, "%s, ", *name);
    tf_fail(err, TF_W_USAGE, "choosing the pack");
    tf_found(err, "no --pack");
    tf_expected(err, "%sor a directory", text_str(&names));
    text_free(&names);
    return tf_remedy(err, "add --pack PACK");
}

tf_status subject_open(const session *s, const args *a, const char *operation, subject *out,
                       tf_error *err) {
    tf_status status = TF_OK;
    TF_TRY(need_pack(a, err));
    TF_TRY(subject_split(a, &out->split, err));
    if (operation != NULL) TF_TRY(tf_admit(operation, out->split.world, err));
    TF_TRY(tf_pack_open(a->text[OPT_PACK], s->cache, &out->pack, err));
done:
    return status;
}

void subject_close(subject *on) {
    tf_pack_close(on->pack);
    *on = (subject){0};
}
