/* model/tokensha - token_sha: SHA-256 of generated ids (FORMATS, token_sha).
 *
 * Idea: ids in decimal, joined by commas, no blanks, no separator at the end; the short form is the
 * first 12 digits. */
#ifndef TF_ENGINE_MODEL_TOKENSHA_H
#define TF_ENGINE_MODEL_TOKENSHA_H

#include "engine/base/digest.h"

#include <stdint.h>

#define TOKENSHA_SHORT 12

/* Empty hex when memory is out. */
void tokensha(const int32_t *ids, uint32_t count, char hex[SHA256_HEX]);

#endif
