#include "engine/model/tokensha.h"

#include <stdio.h>

void tokensha(const int32_t *ids, uint32_t count, char hex[SHA256_HEX]) {
    sha256_state *s = sha256_begin();
    hex[0] = '\0';
    if (s == NULL) return;
    for (uint32_t i = 0; i < count; i++) {
        char text[16];
        int n = snprintf(text, sizeof text, "%s%d", i == 0 ? "" : ",", ids[i]);
        sha256_add(s, text, (size_t)n);
    }
    sha256_end(s, hex);
}
