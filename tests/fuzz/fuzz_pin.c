/* Any bytes as a pin file: refused by name, or printed back as the same bytes. */
#include "harness/pins/pinfile.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    pin_file file;
    tf_error err = {0};
    if (pinfile_parse("pin.txt", (const char *)data, size, &file, &err) != TF_OK) {
        if (err.word != TF_W_PIN_DAMAGED || err.found[0] == '\0' || err.expected[0] == '\0')
            abort();
        return 0;
    }
    tf_text printed = {0};
    pinfile_print(&printed, &file);
    /* A control byte in a value is the one thing that is not printed as it was read. */
    pin_file again;
    if (pinfile_parse("pin.txt", printed.data, printed.length, &again, &err) != TF_OK) abort();
    if (again.bytes != file.bytes || memcmp(again.text, file.text, file.bytes) != 0) abort();
    pinfile_free(&again);
    text_free(&printed);
    pinfile_free(&file);
    return 0;
}
