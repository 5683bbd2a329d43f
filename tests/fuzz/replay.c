/* Without libFuzzer: runs the target over every file of the folders and files named as arguments,
 * so that a corpus is replayed in every test run. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned long replayed;

static int replay_file(const char *path) {
    FILE *file = fopen(path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0) {
        printf("# cannot read %s\n", path);
        return 1;
    }
    long size = ftell(file);
    rewind(file);
    /* Exactly as large as the input, so that a sanitizer sees every byte read too far. */
    uint8_t *data = malloc(size > 0 ? (size_t)size : 1);
    int bad = data == NULL || size < 0 || fread(data, 1, (size_t)size, file) != (size_t)size;
    fclose(file);
    if (!bad) LLVMFuzzerTestOneInput(data, (size_t)size);
    free(data);
    replayed++;
    return bad;
}

int main(int argc, char **argv) {
    int bad = 0;
    for (int i = 1; i < argc; i++) {
        DIR *dir = opendir(argv[i]);
        if (dir == NULL) {
            bad |= replay_file(argv[i]);
            continue;
        }
        for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
            char path[4096];
            if (e->d_name[0] == '.') continue;
            snprintf(path, sizeof path, "%s/%s", argv[i], e->d_name);
            bad |= replay_file(path);
        }
        closedir(dir);
    }
    printf("# %lu inputs replayed\n", replayed);
    return bad != 0 || replayed == 0;
}
