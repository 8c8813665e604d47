/*
 * Goal: no text can crash the reader of documents, and what it takes is JSON without repeated
 * names, on one line, of which a member's line is within the text. Method: any bytes.
 */
#include "cli/specs.h"

#include "cli/value.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum error_code specs_fuzz_take(void *context, const struct spec_document *document,
                                       struct error *ret_error)
{
    const uint32_t *lines = context;
    struct cli_list members;
    struct bytes value;
    char name[64];

    (void)ret_error;
    if (!cli_is_json(document->json, NULL, NULL) || document->json.data[0] != '{' ||
        memchr(document->json.data, '\n', document->json.size))
        abort();
    if (!document->line || document->line > *lines)
        abort();
    for (size_t i = 0; i < document->place_count; i++)
        if (!document->places[i].line || document->places[i].line > *lines ||
            (i && document->places[i].pointer <= document->places[i - 1].pointer))
            abort();
    cli_members_init(&members, document->json);
    while (cli_members_next(&members, name, &value))
        if (!value.size || spec_line(document, BYTES("/a/b~1c/0")) > *lines)
            abort();
    return ERROR_NONE;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = malloc(size + !size); /* so that a look past it is seen */
    uint32_t lines = 1;
    struct error error;

    if (!copy)
        abort();
    if (size)
        memcpy(copy, data, size);
    for (size_t i = 0; i < size; i++)
        lines += copy[i] == '\n' || copy[i] == '\r' || (uint8_t)copy[i] >= 0x80;
    const enum error_code code =
        specs_read((struct bytes){copy, size}, specs_fuzz_take, &lines, &error);
    if (code && code != ERROR_INVALID)
        abort();
    free(copy);
    return 0;
}
