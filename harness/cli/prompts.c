#include "harness/cli/prompts.h"

#include "engine/base/io.h"
#include "engine/base/json.h"
#include "engine/base/limits.h"

#include <stdio.h>
#include <string.h>

void prompts_free(prompts *p) {
    mem_free(p->list);
    arena_free(&p->arena);
    *p = (prompts){0};
}

static tf_status bad(tf_error *err, const char *where, const char *at, size_t n) {
    tf_fail(err, TF_W_BAD_PROMPT, "reading a prompt: %s", where);
    tf_found(err, "'%.*s'", (int)(n > 40 ? 40 : n), at);
    return tf_expected(err, "token ids from 0, separated by commas or blanks");
}

static tf_status full(tf_error *err, const char *where) {
    return tf_fail(err, TF_W_NO_MEMORY, "reading a prompt: %s", where);
}

static prompt_ids *next_prompt(prompts *p) {
    if (p->count == p->capacity) {
        uint32_t capacity = p->capacity == 0 ? 16 : 2 * p->capacity;
        prompt_ids *more = mem_grow(p->list, capacity * sizeof *more);
        if (more == NULL) return NULL;
        p->list = more;
        p->capacity = capacity;
    }
    return &p->list[p->count];
}

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r';
}

/* One id at text[*at]; moves *at behind it and what separates it from the next. */
static bool read_id(const char *text, size_t n, size_t *at, int32_t *out) {
    int64_t value = 0;
    size_t i = *at;
    size_t digits = 0;
    for (; i < n && text[i] >= '0' && text[i] <= '9'; i++, digits++) {
        value = 10 * value + (text[i] - '0');
        if (value > INT32_MAX) return false;
    }
    size_t end = i;
    while (i < n && is_blank(text[i]))
        i++;
    bool comma = i < n && text[i] == ',';
    if (comma) i++;
    while (i < n && is_blank(text[i]))
        i++;
    /* A comma needs an id behind it; an id needs something between it and the next. */
    if (digits == 0 || (comma && i == n) || (i < n && i == end)) return false;
    *at = i;
    *out = (int32_t)value;
    return true;
}

tf_status prompts_add(prompts *p, const char *where, const char *text, size_t n, tf_error *err) {
    prompt_ids *to = next_prompt(p);
    if (to == NULL) return full(err, where);
    size_t at = 0;
    while (at < n && is_blank(text[at]))
        at++;
    /* An id and its comma take two characters at least. */
    size_t most = (n - at) / 2 + 1;
    if (most > PROMPTS_IDS_MAX) {
        tf_fail(err, TF_W_TOO_LARGE, "reading a prompt: %s", where);
        return tf_expected(err, "at most %u ids", PROMPTS_IDS_MAX);
    }
    *to = (prompt_ids){.ids = arena_array(&p->arena, most, sizeof(int32_t))};
    if (to->ids == NULL) return full(err, where);
    if (at == n) return bad(err, where, "", 0);
    while (at < n) {
        size_t begin = at;
        if (!read_id(text, n, &at, &to->ids[to->count]))
            return bad(err, where, text + begin, n - begin);
        to->count++;
    }
    p->count++;
    return TF_OK;
}

/* {"ids": [..]}, and nothing that would be ignored. */
static tf_status add_json(prompts *p, const char *where, const char *text, size_t n,
                          tf_error *err) {
    json_doc *doc = NULL;
    prompt_ids *to = next_prompt(p);
    if (to == NULL) return full(err, where);
    tf_status status = json_parse(where, text, n, &doc, err);
    if (status != TF_OK) return status;
    const json_value *ids = json_get(json_root(doc), "ids");
    size_t count = json_is_array(ids) ? json_count(ids) : 0;
    *to = (prompt_ids){.ids = arena_array(&p->arena, count, sizeof(int32_t))};
    if (to->ids == NULL) status = full(err, where);
    if (status == TF_OK && (count == 0 || json_count(json_root(doc)) != 1))
        status = bad(err, where, text, n);
    const json_value *v = count == 0 ? NULL : json_first(ids);
    for (; status == TF_OK && v != NULL; v = json_next(v)) {
        double id = json_is_number(v) ? json_number(v) : -1.0;
        if (!(id >= 0.0 && id <= INT32_MAX) || (double)(int32_t)id != id) {
            status = bad(err, where, text, n);
        } else {
            to->ids[to->count++] = (int32_t)id;
        }
    }
    json_free(doc);
    if (status == TF_OK) p->count++;
    return status;
}

tf_status prompts_parse(prompts *p, const char *path, const char *text, size_t n, tf_error *err) {
    uint32_t before = p->count;
    uint32_t line = 1;
    tf_status status = TF_OK;
    p->path = path;
    for (size_t at = 0; status == TF_OK && at < n; line++) {
        const char *newline = memchr(text + at, '\n', n - at);
        size_t end = newline == NULL ? n : (size_t)(newline - text);
        char where[TF_PATH_BYTES_MAX + 32];
        size_t begin = at;
        uint32_t known = p->count;
        while (begin < end && is_blank(text[begin]))
            begin++;
        snprintf(where, sizeof where, "%.1000s line %u", path, line);
        if (begin < end && text[begin] == '{') {
            status = add_json(p, where, text + begin, end - begin, err);
        } else if (begin < end && text[begin] != '#') {
            status = prompts_add(p, where, text + begin, end - begin, err);
        }
        if (status == TF_OK && p->count > known) p->list[known].line = line;
        at = end + 1;
    }
    if (status != TF_OK || p->count > before) return status;
    tf_fail(err, TF_W_BAD_PROMPT, "reading prompts: %s", path);
    tf_found(err, "no prompt in it");
    return tf_expected(err, "a prompt a line: 0,12,7 or {\"ids\": [0, 12, 7]}");
}

tf_status prompts_read(prompts *p, const char *path, tf_error *err) {
    char *data = NULL;
    size_t n = 0;
    tf_status status = io_read_file(path, PROMPTS_FILE_BYTES_MAX, &data, &n, err);
    if (status == TF_OK) status = prompts_parse(p, path, data, n, err);
    mem_free(data);
    return status;
}

tf_status prompts_check(const prompts *p, uint32_t vocab, tf_error *err) {
    for (uint32_t i = 0; i < p->count; i++) {
        const prompt_ids *one = &p->list[i];
        uint32_t k = 0;
        while (k < one->count && (uint32_t)one->ids[k] < vocab)
            k++;
        if (k == one->count) continue;
        if (one->line == 0) {
            tf_fail(err, TF_W_BAD_TOKEN, "reading a prompt: --ids");
        } else {
            tf_fail(err, TF_W_BAD_TOKEN, "reading a prompt: %s line %u", p->path, one->line);
        }
        tf_found(err, "%d, id %u of %u", one->ids[k], k + 1, one->count);
        return tf_expected(err, "0 to %u, the pack's vocabulary", vocab - 1);
    }
    return TF_OK;
}
