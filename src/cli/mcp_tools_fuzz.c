/*
 * Goal: no input of a tool can crash the command line, and none sets a flag of every verb, such as
 * the token, or another part of its verb. Method: any JSON as the input of any tool; what is taken
 * must be arguments that the verb's row reads as the tool means them.
 */
#include "cli/mcp_tools.h"

#include "cli/value.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void mcp_tools_fuzz_check(const struct mcp_tool *tool, struct bytes input)
{
    struct cli_options *options = malloc(sizeof(*options));
    struct mcp_arguments arguments;
    struct error error = {.text = ""};

    if (!options)
        abort();
    mcp_arguments_init(&arguments);
    if (mcp_arguments_read(tool, input, &arguments, &error)) {
        if (!*error.text)
            abort();
    } else if (cli_options_read(verbs_find(tool->verb), arguments.count, arguments.values, options,
                                &error) == ERROR_NONE) {
        for (enum cli_flag_id flag = CLI_FLAG_URL; flag <= CLI_FLAG_HELP; flag++)
            if (cli_options_value(options, flag))
                abort();
        if (tool->part && strcmp(options->arguments[0], tool->part) != 0)
            abort();
    }
    mcp_arguments_deinit(&arguments);
    free(options);
}

/* The name of a tool, a blank, and its input. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes rest = {(const char *)data, size}, name = bytes_cut(&rest, ' ');
    const struct mcp_tool *tool = mcp_tools_find(name, MCP_ALL_TOOLS);
    struct json_reader reader;

    /* as it comes out of a message: a whole value without white space around it */
    json_reader_init(&reader, rest);
    if (!tool || !json_skip(&reader, &rest) || !json_finish(&reader))
        return 0;
    mcp_tools_fuzz_check(tool, rest);
    return 0;
}
