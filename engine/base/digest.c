#include "engine/base/digest.h"

#include "engine/base/arena.h"
#include "engine/base/check.h"

#include <assert.h>
#include <openssl/evp.h>
#include <string.h>
#ifdef TF_XXH_DISPATCH
/* XXH3 by the widest vectors of the machine it runs on; the digest is the same. */
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

static_assert(sizeof(XXH128_canonical_t) == sizeof(tf_digest), "canonical form is 16 bytes");

struct digest_state {
    XXH3_state_t *xxh;
};

static tf_digest canonical(XXH128_hash_t h) {
    XXH128_canonical_t c;
    XXH128_canonicalFromHash(&c, h);
    tf_digest d;
    memcpy(d.bytes, c.digest, sizeof d.bytes);
    return d;
}

tf_digest digest_bytes(const void *data, size_t n) {
    return canonical(XXH3_128bits(data, n));
}

tf_digest digest_str(const char *text) {
    return digest_bytes(text, strlen(text));
}

digest_state *digest_begin(void) {
    digest_state *state = mem_take(sizeof *state);
    if (state == NULL) return NULL;
    state->xxh = XXH3_createState();
    if (state->xxh == NULL || XXH3_128bits_reset(state->xxh) != XXH_OK) {
        XXH3_freeState(state->xxh);
        mem_free(state);
        return NULL;
    }
    return state;
}

void digest_add(digest_state *state, const void *data, size_t n) {
    if (n > 0) XXH3_128bits_update(state->xxh, data, n);
}

void digest_add_u64(digest_state *state, uint64_t value) {
    uint8_t le[8];
    for (int i = 0; i < 8; i++)
        le[i] = (uint8_t)(value >> (8 * i));
    digest_add(state, le, sizeof le);
}

tf_digest digest_end(digest_state *state) {
    tf_digest d = canonical(XXH3_128bits_digest(state->xxh));
    XXH3_freeState(state->xxh);
    mem_free(state);
    return d;
}

bool digest_equal(tf_digest a, tf_digest b) {
    return memcmp(a.bytes, b.bytes, 16) == 0;
}

bool digest_is_zero(tf_digest d) {
    return digest_equal(d, (tf_digest){{0}});
}

static void hex_of(const uint8_t *bytes, size_t n, char *hex) {
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        hex[2 * i] = digits[bytes[i] >> 4];
        hex[2 * i + 1] = digits[bytes[i] & 15];
    }
    hex[2 * n] = '\0';
}

const char *digest_hex(tf_digest d, char hex[DIGEST_HEX]) {
    hex_of(d.bytes, sizeof d.bytes, hex);
    return hex;
}

bool digest_parse(const char *hex, tf_digest *out) {
    for (size_t i = 0; i < 32; i++) {
        char c = hex[i];
        int v = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (v < 0) return false;
        uint8_t *b = &out->bytes[i / 2];
        *b = (uint8_t)(i % 2 == 0 ? v << 4 : *b | v);
    }
    return hex[32] == '\0';
}

struct sha256_state {
    EVP_MD_CTX *evp;
};

sha256_state *sha256_begin(void) {
    sha256_state *state = mem_take(sizeof *state);
    if (state == NULL) return NULL;
    state->evp = EVP_MD_CTX_new();
    if (state->evp == NULL || EVP_DigestInit_ex(state->evp, EVP_sha256(), NULL) != 1) {
        EVP_MD_CTX_free(state->evp);
        mem_free(state);
        return NULL;
    }
    return state;
}

void sha256_add(sha256_state *state, const void *data, size_t n) {
    int ok = EVP_DigestUpdate(state->evp, data, n);
    TF_ASSERT(ok == 1);
}

void sha256_end(sha256_state *state, char hex[SHA256_HEX]) {
    uint8_t out[32];
    unsigned n = 0;
    int ok = EVP_DigestFinal_ex(state->evp, out, &n);
    TF_ASSERT(ok == 1 && n == sizeof out);
    hex_of(out, sizeof out, hex);
    EVP_MD_CTX_free(state->evp);
    mem_free(state);
}

void sha256_hex(const void *data, size_t n, char hex[SHA256_HEX]) {
    uint8_t out[32];
    unsigned size = 0;
    int ok = EVP_Digest(data, n, out, &size, EVP_sha256(), NULL);
    TF_ASSERT(ok == 1 && size == sizeof out);
    hex_of(out, sizeof out, hex);
}
