#include "tests/script/made_up.h"

#include "engine/tf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tf_pack {
    char name[64];
    int *users; /* plans that borrow it */
};
struct tf_plan {
    const tf_pack *pack;
    tf_split split;
    char text[256];
    int *users; /* calls that borrow it */
};
struct tf_calls {
    const tf_plan *plan;
    tf_phase phase;
    char text[256];
    char lines[3][80];
};

int made_up_packs, made_up_plans, made_up_calls;
unsigned made_up_heads = 48;

const char *const *tf_pack_builtins(void) {
    static const char *const names[] = {"alpha", "beta", NULL};
    return names;
}

tf_status tf_pack_open(const char *name, const char *cache_dir, tf_pack **out, tf_error *err) {
    (void)cache_dir;
    if (strcmp(name, "broken") == 0) {
        tf_fail(err, TF_W_CANNOT_OPEN, "opening the pack %s", name);
        return tf_remedy(err, "name a pack");
    }
    *out = calloc(1, sizeof **out);
    snprintf((*out)->name, sizeof(*out)->name, "%s", name);
    (*out)->users = calloc(1, sizeof(int));
    made_up_packs++;
    return TF_OK;
}

void tf_pack_close(tf_pack *pack) {
    if (pack == NULL) return;
    if (*pack->users > 0) abort();
    free(pack->users);
    made_up_packs--;
    free(pack);
}

const char *tf_pack_name(const tf_pack *pack) {
    return pack->name;
}

const char *tf_pack_dir(const tf_pack *pack) {
    return pack->name;
}

bool tf_pack_has_data(const tf_pack *pack) {
    return strcmp(pack->name, "beta") != 0;
}

tf_digest tf_pack_digest(const tf_pack *pack) {
    return digest_str(pack->name);
}

uint32_t tf_pack_layers(const tf_pack *pack) {
    (void)pack;
    return 3;
}

void tf_pack_describe(const tf_pack *pack, bool json, tf_text *out) {
    (void)json;
    text_add(out, pack->name);
}

tf_status tf_pack_content_digest(const tf_pack *pack, tf_digest *out, tf_error *err) {
    (void)err;
    *out = digest_str(pack->name);
    return TF_OK;
}

tf_status tf_plan_make(const tf_pack *pack, const tf_split *split, tf_plan **out, tf_error *err) {
    if (split->world == 0 || split->world > 256) {
        return tf_fail(err, TF_W_BAD_WORLD, "planning for %u ranks", split->world);
    }
    if (split->world > 4) {
        tf_fail(err, TF_W_WORLD_NOT_ADMITTED, "planning %s", pack->name);
        return tf_found(err, "world %u", split->world);
    }
    *out = calloc(1, sizeof **out);
    tf_plan *p = *out;
    p->pack = pack;
    p->split = *split;
    snprintf(p->text, sizeof p->text, "plan 1 %s world %u rank %u\nheads=%u{H/W}\n", pack->name,
             split->world, split->rank, made_up_heads / split->world);
    p->users = calloc(1, sizeof(int));
    ++*pack->users;
    made_up_plans++;
    return TF_OK;
}

void tf_plan_close(tf_plan *plan) {
    if (plan == NULL) return;
    if (*plan->users > 0) abort();
    free(plan->users);
    --*plan->pack->users;
    made_up_plans--;
    free(plan);
}

const char *tf_plan_text(const tf_plan *plan) {
    return plan->text;
}

tf_digest tf_plan_fingerprint(const tf_plan *plan) {
    return digest_str(plan->text);
}

void tf_plan_facts_of(const tf_plan *plan, tf_plan_facts *out) {
    *out = (tf_plan_facts){.world = plan->split.world, .rank = plan->split.rank, .heads = 16};
    out->units[0] = (tf_unit_share){8, 3, 6};
    out->category_bytes[0] = 123;
}

const char *tf_unit_name(uint32_t unit) {
    static const char *const names[] = {"output groups", "b", "c", "d"};
    return names[unit];
}

uint32_t tf_category_count(void) {
    return 1;
}

const char *tf_category_name(uint32_t category) {
    (void)category;
    return "attention";
}

const char *tf_phase_name(tf_phase phase) {
    static const char *const names[] = {"decode", "prefill", "draft", "prefetch"};
    return names[phase];
}

bool tf_phase_parse(const char *name, tf_phase *out) {
    for (int p = 0; p < TF_PHASE_COUNT; p++) {
        *out = (tf_phase)p;
        if (strcmp(tf_phase_name(*out), name) == 0) return true;
    }
    return false;
}

tf_status tf_emit(const tf_plan *plan, const tf_emit_request *request, tf_calls **out,
                  tf_error *err) {
    (void)err;
    *out = calloc(1, sizeof **out);
    tf_calls *c = *out;
    c->plan = plan;
    c->phase = request->phase;
    for (unsigned i = 0; i < 3; i++) {
        snprintf(c->lines[i], sizeof c->lines[i], "%u %s L%u heads=%u{H/W}", i,
                 tf_phase_name(c->phase), i, made_up_heads / plan->split.world);
        size_t used = strlen(c->text);
        snprintf(c->text + used, sizeof c->text - used, "%s\n", c->lines[i]);
    }
    ++*plan->users;
    made_up_calls++;
    return TF_OK;
}

void tf_calls_close(tf_calls *calls) {
    if (calls == NULL) return;
    --*calls->plan->users;
    made_up_calls--;
    free(calls);
}

size_t tf_calls_count(const tf_calls *calls) {
    (void)calls;
    return 3;
}

const char *tf_calls_text(const tf_calls *calls) {
    return calls->text;
}

tf_digest tf_calls_digest(const tf_calls *calls) {
    return digest_str(calls->text);
}

void tf_calls_row(const tf_calls *calls, size_t index, tf_call_row *out) {
    *out = (tf_call_row){(uint32_t)index, (uint32_t)index,     "attend",
                         "core",          calls->lines[index], strlen(calls->lines[index])};
}

void tf_calls_buffers(const tf_calls *calls, bool json, tf_text *out) {
    (void)calls, (void)json;
    text_add(out, "peak 12\n");
}

tf_status tf_needs(const tf_pack *pack, const tf_split *split, bool json, tf_text *out,
                   tf_error *err) {
    (void)json, (void)err;
    text_print(out, "needs of %s, world %u\n", pack->name, split->world);
    return TF_OK;
}

tf_status tf_rank_text(const tf_plan *plan, const tf_rank_options *options, tf_text *out,
                       tf_digest *digest, tf_error *err) {
    (void)options, (void)err;
    *digest = digest_str(plan->text);
    char hex[DIGEST_HEX];
    text_print(out, "plan %s\ndigest %s\n", digest_hex(digest_str(plan->text), hex), hex);
    return TF_OK;
}

tf_status tf_admit(const char *operation, uint32_t world, tf_error *err) {
    if (world >= 1 && world <= 4) return TF_OK;
    tf_fail(err, TF_W_WORLD_NOT_ADMITTED, "asking for %s", operation);
    tf_found(err, "%u ranks", world);
    return tf_expected(err, "1, 2, 3, 4");
}

void tf_admission_describe(bool json, tf_text *out) {
    (void)json;
    text_add(out, "plan 1 2 3 4 8\n");
}
