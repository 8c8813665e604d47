/*
 * Goal: no input can crash the reader of the Model Context Protocol, and what it hands on is what
 * stood on the line. Method: any bytes, in chunks of any size, as its input; the lines must be
 * those of a reader that has all bytes at once.
 */
#include "cli/mcp_message.h"

#include "cli/value.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void mcp_fuzz_check(struct bytes line)
{
    struct mcp_message message;
    const char *why = NULL;
    const enum mcp_error code = mcp_message_read(line, &message, &why);

    if ((code == MCP_ERROR_NONE) != !why ||
        (code == MCP_ERROR_PARSE) != !cli_is_json(line, NULL, NULL))
        abort();
    const struct bytes slices[] = {message.id, message.method, message.params};
    for (size_t i = 0; i < sizeof(slices) / sizeof(*slices); i++)
        if (slices[i].size &&
            (slices[i].data < line.data || slices[i].data + slices[i].size > line.data + line.size))
            abort();
    if (code == MCP_ERROR_NONE && !message.is_answer && !message.method.size)
        abort();
    if (message.id.size && !cli_is_json(message.id, NULL, NULL))
        abort();
    if (message.params.size && !cli_is_json(message.params, NULL, NULL))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const size_t step = size ? 1 + data[0] % 16 : 1;
    struct bytes rest = {(const char *)data, size}, expected = rest;
    struct mcp_lines lines;
    struct mcp_line line;

    mcp_lines_init(&lines);
    while (rest.size) {
        const size_t part = rest.size < step ? rest.size : step;

        mcp_lines_add(&lines, (struct bytes){rest.data, part});
        rest = (struct bytes){rest.data + part, rest.size - part};
        while (mcp_lines_next(&lines, &line)) {
            struct bytes wanted = bytes_cut(&expected, '\n');
            while (bytes_trim(wanted).size == 0)
                wanted = bytes_cut(&expected, '\n');
            if (line.is_too_long || !bytes_equal(line.text, wanted))
                abort();
            mcp_fuzz_check(line.text);
        }
    }
    mcp_lines_deinit(&lines);
    return 0;
}
