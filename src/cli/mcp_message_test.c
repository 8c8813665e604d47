/*
 * Goal: each line of the input is handed out once, whole and in order, and a message is what its
 * line says. Method: lines in chunks of any size, at and beyond the maximum; right and wrong
 * messages.
 */
#include "cli/mcp_message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static void expect_text_line(struct mcp_lines *lines, const char *text)
{
    struct mcp_line line;

    assert_true(mcp_lines_next(lines, &line));
    assert_false(line.is_too_long);
    if (!bytes_equal(line.text, bytes_of(text)))
        fail_msg("%.*s, not %s", (int)line.text.size, line.text.data, text);
}

static void lines_come_whole(void **state)
{
    const struct bytes input = BYTES("ab\n\n  \ncd e\n\r\nf");
    struct mcp_lines lines;
    struct mcp_line line;

    (void)state;
    for (size_t step = 1; step <= input.size; step++) {
        struct buffer seen;

        buffer_init(&seen);
        mcp_lines_init(&lines);
        for (size_t at = 0; at < input.size; at += step) {
            const size_t size = input.size - at < step ? input.size - at : step;

            mcp_lines_add(&lines, (struct bytes){input.data + at, size});
            while (mcp_lines_next(&lines, &line))
                buffer_printf(&seen, "%.*s|", (int)line.text.size, line.text.data);
        }
        assert_true(bytes_equal(buffer_bytes(&seen), BYTES("ab|cd e|\r|")));
        buffer_deinit(&seen);
        mcp_lines_add(&lines, BYTES("g\n"));
        expect_text_line(&lines, "fg");
        mcp_lines_deinit(&lines);
    }
}

/* proves: mcp-line */
static void a_line_beyond_the_maximum_is_dropped(void **state)
{
    char *text = malloc(MCP_LINE_BYTES_MAX);
    struct mcp_lines lines;
    struct mcp_line line;

    (void)state;
    assert_non_null(text);
    memset(text, 'x', MCP_LINE_BYTES_MAX);
    mcp_lines_init(&lines);
    mcp_lines_add(&lines, (struct bytes){text, MCP_LINE_BYTES_MAX});
    assert_false(mcp_lines_next(&lines, &line));
    mcp_lines_add(&lines, BYTES("\n"));
    assert_true(mcp_lines_next(&lines, &line));
    assert_int_equal(line.text.size, MCP_LINE_BYTES_MAX);
    for (int i = 0; i < 5; i++) {
        mcp_lines_add(&lines, (struct bytes){text, MCP_LINE_BYTES_MAX});
        assert_false(mcp_lines_next(&lines, &line));
    }
    mcp_lines_add(&lines, BYTES("y\nnext\n"));
    assert_true(mcp_lines_next(&lines, &line));
    assert_true(line.is_too_long);
    expect_text_line(&lines, "next");
    assert_false(mcp_lines_next(&lines, &line));
    mcp_lines_deinit(&lines);
    free(text);
}

/* proves: mcp */
static void messages_are_requests_notifications_or_answers(void **state)
{
    struct mcp_message message;
    const char *why;

    (void)state;
    assert_int_equal(
        mcp_message_read(BYTES(" {\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"ping\","
                               "\"params\":{\"x\":[1]}}\r"),
                         &message, &why),
        MCP_ERROR_NONE);
    assert_true(bytes_equal(message.id, BYTES("\"a\"")));
    assert_true(bytes_equal(message.method, BYTES("ping")));
    assert_true(bytes_equal(message.params, BYTES("{\"x\":[1]}")));
    assert_int_equal(
        mcp_message_read(BYTES("{\"jsonrpc\":\"2.0\",\"method\":\"a/b\"}"), &message, &why),
        MCP_ERROR_NONE);
    assert_true(message.id.size == 0 && !message.is_answer);
    assert_int_equal(
        mcp_message_read(BYTES("{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{}}"), &message, &why),
        MCP_ERROR_NONE);
    assert_true(message.is_answer);
    assert_int_equal(mcp_message_read(BYTES("{\"jsonrpc\":\"2.0\",\"id\":1}"), &message, &why),
                     MCP_ERROR_REQUEST);
    assert_true(bytes_equal(message.id, BYTES("1")));
    assert_int_equal(mcp_message_read(BYTES("{\"jsonrpc\""), &message, &why), MCP_ERROR_PARSE);
    assert_non_null(why);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_come_whole),
        cmocka_unit_test(a_line_beyond_the_maximum_is_dropped),
        cmocka_unit_test(messages_are_requests_notifications_or_answers),
    };

    return cmocka_run_group_tests_name("mcp_message", tests, NULL, NULL);
}
