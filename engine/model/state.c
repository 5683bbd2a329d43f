/* model/state - what a request has left behind: forget it, take some back, keep it elsewhere.
 *
 * Idea: every rank holds a request's state whole, so the bytes of one serve all, at any world.  They
 * stand behind a header:
 *     offset size
 *          0    8  magic "TFSTATE1"
 *          8   16  config digest
 *         24   16  pack digest
 *         40    8  context
 *         48    4  profile
 *         52    4  length: positions known
 *         56   16  digest of the state's bytes
 *         72       the state
 * Trap: rings forget; positions older than they hold cannot be taken back. */
#include "engine/base/arena.h"
#include "engine/model/model.h"

#include <string.h>

#define MAGIC        "TFSTATE1"
#define HEADER_BYTES 72u

typedef struct state_header {
    char magic[8];
    tf_digest config, pack;
    uint64_t context;
    uint32_t profile;
    uint32_t length;
    tf_digest payload;
} state_header;

_Static_assert(sizeof(state_header) == HEADER_BYTES, "the header has no holes");

size_t tf_model_state_bytes(const tf_model *m) {
    return HEADER_BYTES + rank_state_bytes(m->ranks[0]);
}

static state_header header_of(const tf_model *m) {
    state_header h = {
        .config = m->pack->config.digest,
        .pack = m->pack->digest,
        .context = m->options.context,
        .profile = (uint32_t)m->options.settings.profile,
    };
    memcpy(h.magic, MAGIC, sizeof h.magic);
    return h;
}

static tf_status check_size(const tf_model *m, size_t bytes, tf_error *err) {
    size_t want = tf_model_state_bytes(m);
    if (bytes == want) return TF_OK;
    tf_fail(err, TF_W_STATE_DIFFERS, "a request's saved state");
    tf_found(err, "%zu bytes", bytes);
    return tf_expected(err, "%zu bytes", want);
}

tf_status tf_model_save(tf_model *m, uint32_t index, void *to, size_t bytes, tf_error *err) {
    tf_status status = model_check_slot(m, index, err);
    if (status == TF_OK) status = check_size(m, bytes, err);
    if (status != TF_OK) return status;
    char *payload = (char *)to + HEADER_BYTES;
    status = rank_read_state(m->ranks[0], index, payload, err);
    if (status != TF_OK) return status;
    state_header h = header_of(m);
    h.length = m->slots[index].length;
    h.payload = digest_bytes(payload, bytes - HEADER_BYTES);
    memcpy(to, &h, sizeof h);
    return TF_OK;
}

static tf_status differs(tf_error *err, const char *what, uint64_t found, uint64_t expected) {
    tf_fail(err, TF_W_STATE_DIFFERS, "restoring a request: %s", what);
    tf_found(err, "%llu", (unsigned long long)found);
    return tf_expected(err, "%llu", (unsigned long long)expected);
}

static tf_status differs_digest(tf_error *err, const char *what, tf_digest found,
                                tf_digest expected) {
    char hex[DIGEST_HEX];
    tf_fail(err, TF_W_STATE_DIFFERS, "restoring a request: %s", what);
    tf_found(err, "%s", digest_hex(found, hex));
    return tf_expected(err, "%s", digest_hex(expected, hex));
}

static tf_status check_header(const tf_model *m, const state_header *h, tf_digest payload,
                              tf_error *err) {
    state_header want = header_of(m);
    if (memcmp(h->magic, want.magic, sizeof h->magic) != 0) {
        tf_fail(err, TF_W_STATE_DIFFERS, "restoring a request: its first bytes");
        return tf_expected(err, "%s", MAGIC);
    }
    if (!digest_equal(h->config, want.config))
        return differs_digest(err, "config digest", h->config, want.config);
    if (!digest_equal(h->pack, want.pack))
        return differs_digest(err, "pack digest", h->pack, want.pack);
    if (h->context != want.context) return differs(err, "context", h->context, want.context);
    if (h->profile != want.profile) return differs(err, "profile", h->profile, want.profile);
    if (h->length > want.context) return differs(err, "length", h->length, want.context);
    if (!digest_equal(h->payload, payload))
        return differs_digest(err, "digest of its bytes", payload, h->payload);
    return TF_OK;
}

typedef struct restore_act {
    tf_model *model;
    uint32_t slot;
    const char *payload;
} restore_act;

static tf_status restore_rank(void *context, uint32_t index, tf_error *err) {
    const restore_act *a = context;
    return rank_write_state(a->model->ranks[index], a->slot, a->payload, err);
}

tf_status tf_model_restore(tf_model *m, uint32_t index, const void *from, size_t bytes,
                           tf_error *err) {
    state_header h;
    tf_status status = model_check_slot(m, index, err);
    if (status == TF_OK) status = check_size(m, bytes, err);
    if (status != TF_OK) return status;
    const char *payload = (const char *)from + HEADER_BYTES;
    memcpy(&h, from, sizeof h);
    status = check_header(m, &h, digest_bytes(payload, bytes - HEADER_BYTES), err);
    if (status != TF_OK) return status;
    restore_act a = {m, index, payload};
    status = model_act(m, restore_rank, &a, err);
    if (status == TF_OK) m->slots[index].length = h.length;
    return status;
}

/* Whatever the state still holds lies at positions that are written again before they are read. */
tf_status tf_model_reset(tf_model *m, uint32_t index, tf_error *err) {
    tf_status status = model_check_slot(m, index, err);
    if (status == TF_OK) m->slots[index].length = 0;
    return status;
}

tf_status tf_model_rollback(tf_model *m, uint32_t index, uint32_t length, tf_error *err) {
    tf_status status = model_check_slot(m, index, err);
    if (status != TF_OK) return status;
    uint32_t known = m->slots[index].length;
    uint32_t most = m->pack->config.draft_block + 1;
    if (length <= known && known - length <= most) {
        m->slots[index].length = length;
        return TF_OK;
    }
    tf_fail(err, TF_W_ROLLBACK_TOO_FAR, "taking slot %u back to position %u", index, length);
    tf_found(err, "%u positions known", known);
    return tf_expected(err, "%u to %u", known < most ? 0 : known - most, known);
}

tf_status tf_model_sampling(tf_model *m, uint32_t index, double temperature, int64_t seed,
                            tf_error *err) {
    tf_status status = model_check_slot(m, index, err);
    if (status != TF_OK) return status;
    if (!(temperature >= 0.0 && temperature <= 1e6)) {
        tf_fail(err, TF_W_BAD_REQUEST, "sampling slot %u", index);
        tf_found(err, "temperature %g", temperature);
        return tf_expected(err, "0 to 1e6");
    }
    m->slots[index].temperature = temperature;
    m->slots[index].seed = seed;
    return TF_OK;
}
