#include "engine/model/tokensha.h"

#include "engine/base/text.h"

void tokensha(const int32_t *ids, uint32_t count, char hex[SHA256_HEX]) {
    tf_text text = {0};
    text_i32s(&text, ids, count);
    hex[0] = '\0';
    if (!text.broken) sha256_hex(text_str(&text), text.length, hex);
    text_free(&text);
}
