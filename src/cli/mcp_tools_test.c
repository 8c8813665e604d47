/*
 * Goal: the input of a tool is arguments of its verb, which the verb's row takes, whatever a caller
 * writes. Method: an input of every property of every tool; inputs that would be flags or files;
 * and wrong ones.
 */
#include "cli/mcp_tools.h"

#include "base/json_write.h"
#include "cli/value.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

/* Appends a value that the schema of a property allows. */
static void append_example(struct buffer *out, const char *name, struct bytes schema)
{
    const struct bytes type = cli_member(schema, "type");
    struct cli_list choices;
    struct bytes choice;

    cli_list_init(&choices, cli_member(schema, "enum"));
    if (cli_list_next(&choices, &choice))
        json_put_raw(out, name, choice);
    else if (cli_is_text(type, "boolean"))
        json_put_flag(out, name, true);
    else if (cli_is_text(type, "integer"))
        json_put_number(out, name, 7);
    else if (cli_is_text(type, "object"))
        json_put_raw(out, name, BYTES("{\"-a\":\"@b\",\"c\":\"--d\"}"));
    else if (cli_is_text(type, "array") && cli_member(cli_member(schema, "items"), "enum").size)
        json_put_raw(out, name, BYTES("[]"));
    else if (cli_is_text(type, "array") || (type.size && *type.data == '['))
        json_put_raw(out, name, BYTES("[\"--token=x\",\"-\"]"));
    else
        json_put_text(out, name, "--token=x");
}

/* proves: mcp */
static void every_property_is_one_of_the_verb(void **state)
{
    struct buffer list, input;
    struct cli_list tools, members;
    struct bytes tool, schema;
    char name[64];
    size_t count = 0;

    (void)state;
    buffer_init(&list);
    buffer_init(&input);
    mcp_tools_append(&list, NULL, MCP_ALL_TOOLS);
    cli_list_init(&tools, buffer_bytes(&list));
    while (cli_list_next(&tools, &tool)) {
        struct cli_options options;
        struct mcp_arguments arguments;
        struct error error = {.text = ""};
        struct buffer own;

        buffer_init(&own);
        cli_append_value(&own, cli_member(tool, "name"));
        const struct mcp_tool *found = mcp_tools_find(buffer_bytes(&own), MCP_ALL_TOOLS);
        assert_non_null(found);
        const bool reads = cli_is_true(cli_member(cli_member(tool, "annotations"), "readOnlyHint"));
        assert_int_equal(reads, mcp_tools_find(buffer_bytes(&own), MCP_READING_TOOLS) == found);
        buffer_clear(&input);
        json_open(&input, NULL, '{');
        cli_members_init(&members, cli_member(cli_member(tool, "inputSchema"), "properties"));
        while (cli_members_next(&members, name, &schema))
            append_example(&input, name, schema);
        json_close(&input, '}');
        mcp_arguments_init(&arguments);
        if (mcp_arguments_read(found, buffer_bytes(&input), &arguments, &error) ||
            cli_options_read(verbs_find(found->verb), arguments.count, arguments.values, &options,
                             &error))
            fail_msg("%s: %s", found->name, error.text);
        for (enum cli_flag_id flag = CLI_FLAG_URL; flag <= CLI_FLAG_HELP; flag++)
            assert_null(cli_options_value(&options, flag));
        if (found->part)
            assert_string_equal(options.arguments[0], found->part);
        mcp_arguments_deinit(&arguments);
        buffer_deinit(&own);
        count++;
    }
    assert_true(count > 20);
    buffer_deinit(&input);
    buffer_deinit(&list);
}

static void inputs_become_arguments(void **state)
{
    static const struct {
        const char *tool, *input, *wanted; /* the sentence of an error, or the arguments */
    } cases[] = {
        {"get", "{\"key\":\"a b\"}", "--key=a b|--|"},
        {"get", "", "--|"},
        {"touch", "{\"when\":\"1h\",\"id\":\"x\"}", "--|x|1h|"},
        {"list", "{}", "--limit=100|--|"},
        {"list", "{\"limit\":5,\"label\":{\"a:b\":\"c\",\"q\\\"\":\"\"}}",
         "--label=\"a:b\":c|--label=\"q\"\"\":|--limit=5|--|"},
        {"schedule", "{\"target\":[\"a\",\"b\"],\"payload\":null,\"body\":\"@f\",\"key\":null}",
         "--target=b|--payload=null|--set=body_base64=\"QGY=\"|--|a|"},
        {"schedule", "{\"target\":\"--a\",\"set\":{\"x\":[1, 2]},\"replace\":false}",
         "--set=x=[1, 2]|--|--a|"},
        {"redrive", "{\"ids\":[\"1\",\"2\"]}", "--|redrive|1|2|"},
        {"schedule", "{}", "target is required"},
        {"get", "{\"keys\":\"a\"}", "there is no argument \"keys\""},
        {"get", "[]", "the arguments are an object"},
        {"get", "{\"key\":\"a\\u0000b\"}", "key: a string without NUL is expected"},
        {"redrive", "{\"limit\":1}", "there is no argument \"limit\""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct mcp_arguments arguments;
        struct error error = {.text = ""};
        struct buffer seen;

        mcp_arguments_init(&arguments);
        buffer_init(&seen);
        if (mcp_arguments_read(mcp_tools_find(bytes_of(cases[i].tool), MCP_ALL_TOOLS),
                               bytes_of(cases[i].input), &arguments, &error))
            buffer_append_text(&seen, error.text);
        else
            for (int j = 0; j < arguments.count; j++)
                buffer_printf(&seen, "%s|", arguments.values[j]);
        if (!bytes_equal(buffer_bytes(&seen), bytes_of(cases[i].wanted)))
            fail_msg("%.*s, not %s", (int)seen.size, seen.data, cases[i].wanted);
        buffer_deinit(&seen);
        mcp_arguments_deinit(&arguments);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_property_is_one_of_the_verb),
        cmocka_unit_test(inputs_become_arguments),
    };

    return cmocka_run_group_tests_name("mcp_tools", tests, NULL, NULL);
}
