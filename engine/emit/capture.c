#include "engine/emit/capture.h"

#include "engine/base/arena.h"
#include "engine/base/io.h"
#include "engine/base/json.h"
#include "engine/emit/calltext.h"

#include <string.h>

#define CAPTURE_BYTES_MAX (512ull << 20) /* a whole prefill list of the real model is 1 MB */

/* ---- writing ---- */

static void write_header(const tf_calls *calls, tf_text *out) {
    const tf_plan *plan = calls->plan;
    char hex[DIGEST_HEX];
    text_add(out, "{\"capture\":1,\"pack\":");
    text_json(out, plan->pack->name);
    text_print(out, ",\"pack_digest\":\"%s\",\"world\":%u,\"rank\":%u,\"weights\":[",
               digest_hex(plan->pack->digest, hex), plan->world, plan->rank);
    for (uint32_t r = 0; r < plan->world; r++)
        text_print(out, "%s%llu", r == 0 ? "" : ",", (unsigned long long)plan->weights[r]);
    text_print(out, "],\"phase\":\"%s\",\"layer\":", call_phase_name(calls->phase));
    if (calls->layer == EMIT_ALL_LAYERS) {
        text_add(out, "\"all\"");
    } else if (calls->layer == CALL_TOP) {
        text_add(out, "\"top\"");
    } else {
        text_u64(out, calls->layer);
    }
    text_print(out, ",\"rows\":%u,\"start\":%llu,\"context\":%llu,\"logits\":%s,\"calls\":%u}\n",
               calls->rows, (unsigned long long)calls->start, (unsigned long long)calls->context,
               calls->logits ? "true" : "false", calls->count);
}

static void write_call(const call *c, tf_text *out, tf_text *scratch) {
    text_print(out, "{\"ordinal\":%u,\"layer\":", c->ordinal);
    text_clear(scratch);
    calltext_layer(c->layer, scratch);
    text_json(out, text_str(scratch));
    text_print(out, ",\"kind\":\"%s\",\"name\":", call_kind_name(c->kind));
    text_json(out, c->name);
    text_add(out, ",\"grid\":");
    text_clear(scratch);
    calltext_grid(c, scratch);
    text_json(out, text_str(scratch));
    text_add(out, ",\"args\":{");
    for (uint32_t i = 0; i < c->arg_count; i++) {
        if (i > 0) text_char(out, ',');
        text_json(out, c->args[i].name);
        text_char(out, ':');
        text_clear(scratch);
        calltext_arg(&c->args[i], scratch);
        text_json(out, text_str(scratch));
    }
    text_add(out, "}}\n");
    if (scratch->broken) out->broken = true;
}

void capture_write(const tf_calls *calls, tf_text *out) {
    tf_text scratch = {0};
    write_header(calls, out);
    for (uint32_t i = 0; i < calls->count; i++)
        write_call(&calls->calls[i], out, &scratch);
    text_free(&scratch);
}

/* ---- checking ---- */

typedef struct lines {
    const char *at, *end;
    uint64_t number;
} lines;

/* The next line without its end; false at the end of the file. */
static bool next_line(lines *l, const char **line, size_t *n) {
    if (l->at >= l->end) return false;
    const char *stop = memchr(l->at, '\n', (size_t)(l->end - l->at));
    if (stop == NULL) stop = l->end;
    *line = l->at;
    *n = (size_t)(stop - l->at);
    l->at = stop < l->end ? stop + 1 : stop;
    l->number++;
    return true;
}

typedef struct recorded {
    emit_request request;
    uint32_t world, rank;
    uint64_t weights[TF_WORLD_MAX];
    uint64_t calls;
} recorded;

static tf_status read_layer(const json_doc *doc, const json_value *root, emit_request *r,
                            tf_error *err) {
    const json_place at = {doc, root, ""};
    const json_value *v = json_get(root, "layer");
    if (json_is_string(v) && strcmp(json_string(v), "all") == 0) {
        r->layer = EMIT_ALL_LAYERS;
        return TF_OK;
    }
    if (json_is_string(v) && strcmp(json_string(v), "top") == 0) {
        r->layer = CALL_TOP;
        return TF_OK;
    }
    uint64_t layer = 0;
    tf_status status = json_need_u64(at, "layer", (json_range){0, TF_LAYERS_MAX}, &layer, err);
    r->layer = (uint32_t)layer;
    return status;
}

static tf_status check_pack(const tf_pack *pack, const char *path, const json_doc *doc,
                            const json_value *root, tf_error *err) {
    const json_place at = {doc, root, ""};
    const char *digest = NULL;
    char hex[DIGEST_HEX];
    tf_status status = json_need_string(at, "pack_digest", &digest, err);
    if (status != TF_OK || strcmp(digest, digest_hex(pack->digest, hex)) == 0) return status;
    tf_fail(err, TF_W_BAD_CAPTURE, "checking %s: pack_digest", path);
    tf_found(err, "%.64s", digest);
    tf_expected(err, "%s, of pack %s", hex, pack->name);
    return tf_remedy(err, "give the pack that the capture was made from with --pack");
}

static tf_status read_header(const tf_pack *pack, const char *path, const json_doc *doc,
                             recorded *out, tf_error *err) {
    const json_value *root = json_root(doc);
    const json_place at = {doc, root, ""};
    const char *phase = NULL;
    uint64_t version = 0;
    uint64_t world = 0;
    uint64_t rank = 0;
    uint64_t rows = 0;
    size_t weights = 0;
    tf_status status = TF_OK;
    emit_request *r = &out->request;
    TF_TRY(json_need_u64(at, "capture", (json_range){1, 1}, &version, err));
    TF_TRY(check_pack(pack, path, doc, root, err));
    TF_TRY(json_need_u64(at, "world", (json_range){1, TF_WORLD_MAX}, &world, err));
    TF_TRY(json_need_u64(at, "rank", (json_range){0, world - 1}, &rank, err));
    TF_TRY(json_need_u64s(at, "weights", (json_range){0, UINT64_MAX}, out->weights, (size_t)world,
                          &weights, err));
    TF_TRY(json_need_string(at, "phase", &phase, err));
    TF_TRY(read_layer(doc, root, r, err));
    TF_TRY(json_need_u64(at, "rows", (json_range){1, EMIT_ROWS_MAX}, &rows, err));
    TF_TRY(json_need_u64(at, "start", (json_range){0, UINT32_MAX}, &r->start, err));
    TF_TRY(json_need_u64(at, "context", (json_range){1, UINT32_MAX}, &r->context, err));
    TF_TRY(json_need_u64(at, "calls", (json_range){0, UINT32_MAX}, &out->calls, err));
    r->logits = json_bool(json_get(root, "logits"));
    r->rows = (uint32_t)rows;
    out->world = (uint32_t)world;
    out->rank = (uint32_t)rank;
    if (weights != world || !call_phase_parse(phase, &r->phase)) {
        tf_fail(err, TF_W_BAD_CAPTURE, "checking %s: header", path);
        tf_found(err, "phase '%.32s', %zu weights", phase, weights);
        TF_TRY(tf_expected(err, "decode, prefill, draft or prefetch, and a weight a rank"));
    }
done:
    return status;
}

/* One field of one call; false after a difference. */
static bool same(const json_value *v, const tf_text *wanted, const char *path, const call *c,
                 const char *field, tf_error *err) {
    const char *found = json_string(v);
    if (json_is_string(v) && strcmp(found, text_str(wanted)) == 0) return true;
    tf_fail(err, TF_W_CALLS_DIFFER, "checking %s: call %u, %s %s: %s", path, c->ordinal,
            call_kind_name(c->kind), c->name, field);
    tf_found(err, "%.240s in the capture", json_is_string(v) ? found : "nothing");
    tf_expected(err, "%.240s, as emitted now", text_str(wanted));
    return false;
}

static tf_status compare_call(const json_doc *doc, const call *c, const char *path,
                              tf_text *scratch, tf_error *err) {
    const json_value *root = json_root(doc);
    const json_place at = {doc, root, ""};
    uint64_t ordinal = 0;
    tf_status status = json_need_u64(at, "ordinal", (json_range){0, UINT32_MAX}, &ordinal, err);
    if (status != TF_OK) return status;
    const json_value *args = json_get(root, "args");
    text_clear(scratch);
    calltext_layer(c->layer, scratch);
    if (!same(json_get(root, "layer"), scratch, path, c, "layer", err)) return err->status;
    text_clear(scratch);
    text_add(scratch, call_kind_name(c->kind));
    if (!same(json_get(root, "kind"), scratch, path, c, "kind", err)) return err->status;
    text_clear(scratch);
    text_add(scratch, c->name);
    if (!same(json_get(root, "name"), scratch, path, c, "name", err)) return err->status;
    text_clear(scratch);
    calltext_grid(c, scratch);
    if (!same(json_get(root, "grid"), scratch, path, c, "grid", err)) return err->status;
    for (uint32_t i = 0; i < c->arg_count; i++) {
        text_clear(scratch);
        calltext_arg(&c->args[i], scratch);
        if (!same(json_get(args, c->args[i].name), scratch, path, c, c->args[i].name, err))
            return err->status;
    }
    if (ordinal == c->ordinal && json_count(args) == c->arg_count) return TF_OK;
    tf_fail(err, TF_W_CALLS_DIFFER, "checking %s: call %u, %s", path, c->ordinal, c->name);
    tf_found(err, "ordinal %llu with %zu arguments in the capture", (unsigned long long)ordinal,
             json_count(args));
    return tf_expected(err, "ordinal %u with %u", c->ordinal, c->arg_count);
}

static tf_status compare_all(lines *l, const tf_calls *calls, const recorded *r, const char *path,
                             tf_error *err) {
    tf_text scratch = {0};
    json_doc *doc = NULL;
    tf_status status = TF_OK;
    uint32_t i = 0;
    const char *line = NULL;
    size_t n = 0;
    while (next_line(l, &line, &n)) {
        if (i == calls->count) break;
        TF_TRY(json_parse(path, line, n, &doc, err));
        TF_TRY(compare_call(doc, &calls->calls[i++], path, &scratch, err));
        json_free(doc);
        doc = NULL;
    }
    if (i < calls->count || l->at < l->end || r->calls != calls->count ||
        l->number > (uint64_t)i + 1) {
        tf_fail(err, TF_W_CALLS_DIFFER, "checking %s", path);
        tf_found(err, "%llu calls in the header, %u before the end or the next",
                 (unsigned long long)r->calls, i);
        TF_TRY(tf_expected(err, "%u, as emitted now", calls->count));
    }
done:
    if (status == TF_BAD_INPUT) tf_under(err, "line %llu", (unsigned long long)l->number);
    json_free(doc);
    text_free(&scratch);
    return status;
}

tf_status capture_check(const tf_pack *pack, const char *path, tf_text *report, tf_error *err) {
    char *data = NULL;
    size_t bytes = 0;
    const char *line = NULL;
    size_t n = 0;
    json_doc *doc = NULL;
    tf_plan *plan = NULL;
    tf_calls *calls = NULL;
    recorded r = {0};
    lines l = {0};
    tf_status status = TF_OK;
    TF_TRY(io_read_file(path, CAPTURE_BYTES_MAX, &data, &bytes, err));
    l.at = data;
    l.end = data + bytes;
    if (!next_line(&l, &line, &n)) {
        tf_fail(err, TF_W_BAD_CAPTURE, "checking %s", path);
        tf_found(err, "an empty file");
        TF_TRY(tf_expected(err, "a header and one line a call, as emit --json prints"));
    }
    TF_TRY(json_parse(path, line, n, &doc, err));
    TF_TRY(read_header(pack, path, doc, &r, err));
    TF_TRY(plan_make(pack, r.world, r.rank, r.weights, &plan, err));
    TF_TRY(emit_calls(plan, &r.request, &calls, err));
    TF_TRY(compare_all(&l, calls, &r, path, err));
    text_print(report, "%s: %u %s calls of %s, world %u rank %u, as emitted now\n", path,
               calls->count, call_phase_name(calls->phase), pack->name, r.world, r.rank);
done:
    json_free(doc);
    calls_free(calls);
    plan_free(plan);
    mem_free(data);
    return status;
}
