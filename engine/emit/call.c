#include "engine/emit/call.h"

#include "engine/base/arena.h"
#include "engine/base/check.h"

#include <string.h>

static const struct {
    const char *name;
    const char *args;
} kinds[CALL_KINDS] = {
#define KIND(name, text, args) [CALL_##name] = {text, args},
#include "engine/emit/kinds.def"
#undef KIND
};

const char *call_kind_name(call_kind kind) {
    TF_ASSERT(kind < CALL_KINDS);
    return kinds[kind].name;
}

uint32_t call_kind_arg_count(call_kind kind) {
    uint32_t count = 1;
    for (const char *c = kinds[kind].args; *c != '\0'; c++)
        count += *c == ' ';
    return count;
}

bool call_kind_takes(call_kind kind, uint32_t index, const char *name) {
    TF_ASSERT(kind < CALL_KINDS);
    const char *at = kinds[kind].args;
    for (uint32_t i = 0; i < index; i++) {
        at = strchr(at, ' ');
        if (at == NULL) return false;
        at++;
    }
    size_t n = strcspn(at, " ");
    return strlen(name) == n && memcmp(at, name, n) == 0;
}

static const char *const phases[PHASE_COUNT] = {"decode", "prefill", "draft", "prefetch"};

const char *call_phase_name(call_phase phase) {
    TF_ASSERT(phase < PHASE_COUNT);
    return phases[phase];
}

bool call_phase_parse(const char *name, call_phase *out) {
    for (int i = 0; i < (int)PHASE_COUNT; i++) {
        if (strcmp(name, phases[i]) != 0) continue;
        *out = (call_phase)i;
        return true;
    }
    return false;
}

const call_arg *call_find(const call *c, const char *name) {
    for (uint32_t i = 0; i < c->arg_count; i++) {
        if (strcmp(c->args[i].name, name) == 0) return &c->args[i];
    }
    return NULL;
}

/* By hand, not by printf: a list of the real model names 46,000 members. */
static char *append(char *at, const char *end, const char *text, size_t n) {
    if (at == NULL || n >= (size_t)(end - at)) return NULL;
    memcpy(at, text, n);
    at[n] = '\0';
    return at + n;
}

bool call_member_image(const call_weight *w, int64_t index, const char *part, char *image,
                       size_t size) {
    const char *hole = strchr(w->stem, '{');
    const char *end = image + size;
    size_t head = hole == NULL ? strlen(w->stem) : (size_t)(hole - w->stem);
    char *at = append(image, end, w->stem, head);
    if (hole != NULL) {
        char digits[20];
        size_t d = sizeof digits;
        uint64_t left = (uint64_t)index;
        do {
            digits[--d] = (char)('0' + left % 10);
            left /= 10;
        } while (left != 0);
        at = append(at, end, digits + d, sizeof digits - d);
        at = append(at, end, hole + 3, strlen(hole + 3));
    }
    return append(at, end, part, strlen(part)) != NULL;
}

bool call_role_is_buffer(const char *role) {
    static const char *const prefixes[] = {"in.", "out.", "s.", "w.", "x.", "L."};
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        if (strncmp(role, prefixes[i], strlen(prefixes[i])) == 0) return true;
    }
    return false;
}

const call_buffer *calls_buffer(const tf_calls *calls, const char *role) {
    for (uint32_t i = 0; i < calls->buffer_count; i++) {
        if (strcmp(calls->buffers[i].role, role) == 0) return &calls->buffers[i];
    }
    return NULL;
}

void calls_free(tf_calls *calls) {
    if (calls == NULL) return;
    calls_free(calls->from[0]);
    calls_free(calls->from[1]);
    mem_free(calls->calls);
    mem_free(calls->buffers);
    mem_free(calls->line);
    text_free(&calls->text);
    arena_free(&calls->arena);
    mem_free(calls);
}
