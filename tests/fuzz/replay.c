/*
 * replay.c - the main of a fuzz target without a fuzzer: runs the target once on every file of the
 * folders given, so that each build tests all inputs that a fuzzer ever found. With the fuzz preset
 * libFuzzer calls the target instead.
 *
 *     record_fuzz build/dev/corpora/record_fuzz
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fail(const char *what, const char *path)
{
    fprintf(stderr, "replay: %s %s\n", what, path);
    exit(1);
}

static void run_file(const char *path)
{
    FILE *file = fopen(path, "rb");

    if (!file)
        fail("cannot open", path);
    uint8_t *data = NULL;
    size_t size = 0;
    for (size_t room = 4096, got = 1; got > 0; room *= 2, size += got) {
        data = realloc(data, room);
        if (!data)
            fail("out of memory for", path);
        got = fread(data + size, 1, room - size, file);
    }
    if (ferror(file))
        fail("cannot read", path);
    fclose(file);
    /* Printed first, so that the log ends with the input that stopped the target. */
    fprintf(stderr, "%s\n", path);
    LLVMFuzzerTestOneInput(data, size);
    free(data);
}

static size_t run_folder(const char *folder)
{
    struct dirent **names;
    int count = scandir(folder, &names, NULL, alphasort);

    if (count < 0)
        fail("cannot list", folder);
    size_t ran = 0;
    for (int i = 0; i < count; i++) {
        if (names[i]->d_name[0] != '.') {
            char path[4096];
            snprintf(path, sizeof(path), "%s/%s", folder, names[i]->d_name);
            run_file(path);
            ran++;
        }
        free(names[i]);
    }
    free(names);
    return ran;
}

int main(int argc, char *argv[])
{
    for (int i = 1; i < argc; i++)
        if (run_folder(argv[i]) == 0)
            fail("nothing in", argv[i]);
    return argc < 2;
}
