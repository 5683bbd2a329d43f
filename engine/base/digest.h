/* base/digest - XXH3-128 against accidents, SHA-256 against people (FORMATS).
 *
 * Idea: a content digest is 16 bytes in xxHash's canonical (big-endian) order, 32 hex digits as text.
 * Trap: XXH3 finds accidents only; what a person signs is SHA-256. */
#ifndef TF_ENGINE_BASE_DIGEST_H
#define TF_ENGINE_BASE_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tf_digest {
    uint8_t bytes[16];
} tf_digest;

typedef struct digest_state digest_state; /* streaming XXH3-128 */
typedef struct sha256_state sha256_state;

#define DIGEST_HEX 33 /* 32 digits and a NUL */
#define SHA256_HEX 65

tf_digest digest_bytes(const void *data, size_t n);
tf_digest digest_str(const char *text);
/* NULL only when memory is out.  digest_end frees the state. */
digest_state *digest_begin(void);
void digest_add(digest_state *state, const void *data, size_t n);
void digest_add_u64(digest_state *state, uint64_t value); /* 8 bytes, little-endian */
tf_digest digest_end(digest_state *state);

bool digest_equal(tf_digest a, tf_digest b);
bool digest_is_zero(tf_digest d);
/* Writes 32 lower-case digits and a NUL; returns hex. */
const char *digest_hex(tf_digest d, char hex[DIGEST_HEX]);
bool digest_parse(const char *hex, tf_digest *out);

sha256_state *sha256_begin(void);
void sha256_add(sha256_state *state, const void *data, size_t n);
void sha256_end(sha256_state *state, char hex[SHA256_HEX]); /* frees the state */
void sha256_hex(const void *data, size_t n, char hex[SHA256_HEX]);

#endif
