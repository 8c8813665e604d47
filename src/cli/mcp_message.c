/* mcp_message.c - splits the input into lines, and reads a message. */
#include "cli/mcp_message.h"

#include "cli/value.h"

/* ---- lines ---- */

void mcp_lines_init(struct mcp_lines *lines)
{
    *lines = (struct mcp_lines){0};
    buffer_init(&lines->text_);
}

void mcp_lines_deinit(struct mcp_lines *lines)
{
    buffer_deinit(&lines->text_);
}

void mcp_lines_add(struct mcp_lines *lines, struct bytes chunk)
{
    /* Only the beginning of a line is left, which moves to the front. */
    if (lines->at_)
        memmove(lines->text_.data, lines->text_.data + lines->at_, lines->text_.size - lines->at_);
    lines->text_.size -= lines->at_;
    lines->at_ = 0;
    buffer_append_bytes(&lines->text_, chunk);
}

/* Returns the rest that has no end yet; drops it if it is too long. */
static bool mcp_lines_keep(struct mcp_lines *lines, size_t size)
{
    if (lines->is_dropping_ || size > MCP_LINE_BYTES_MAX) {
        lines->is_dropping_ = true;
        lines->at_ = lines->text_.size;
    }
    return false;
}

bool mcp_lines_next(struct mcp_lines *lines, struct mcp_line *ret_line)
{
    for (;;) {
        const size_t left = lines->text_.size - lines->at_;
        const char *begin = left ? lines->text_.data + lines->at_ : NULL;
        const char *end = left ? memchr(begin, '\n', left) : NULL;

        if (!end)
            return mcp_lines_keep(lines, left);
        const size_t size = (size_t)(end - begin);
        const bool was_dropping = lines->is_dropping_;
        lines->at_ += size + 1;
        lines->is_dropping_ = false;
        if (was_dropping || size > MCP_LINE_BYTES_MAX) {
            *ret_line = (struct mcp_line){.is_too_long = true};
            return true;
        }
        const struct bytes text = {begin, size};
        if (bytes_trim(text).size == 0)
            continue;
        *ret_line = (struct mcp_line){.text = text};
        return true;
    }
}

/* ---- messages ---- */

/* True if the JSON is a string or a number, as ids are. */
static bool mcp_message_is_id(struct bytes json)
{
    return json.size > 0 && (json.data[0] == '"' || json.data[0] == '-' ||
                             (json.data[0] >= '0' && json.data[0] <= '9'));
}

/* Returns the text of a string without escapes; empty for any other value. */
static struct bytes mcp_message_text(struct bytes json)
{
    if (json.size < 2 || json.data[0] != '"' || memchr(json.data, '\\', json.size))
        return (struct bytes){0};
    return (struct bytes){json.data + 1, json.size - 2};
}

enum mcp_error mcp_message_read(struct bytes line, struct mcp_message *ret_message,
                                const char **ret_why)
{
    struct json_reader reader;

    *ret_message = (struct mcp_message){0};
    json_reader_init(&reader, line);
    json_skip(&reader, &line);
    const bool is_json = json_finish(&reader);
    *ret_why = json_error(&reader);
    if (!is_json)
        return MCP_ERROR_PARSE;
    *ret_why = line.data[0] == '[' ? "batches are not supported" : "a message is an object";
    if (line.data[0] != '{')
        return MCP_ERROR_REQUEST;
    const struct bytes id = cli_member(line, "id"), method = cli_member(line, "method");
    if (mcp_message_is_id(id))
        ret_message->id = id;
    ret_message->method = mcp_message_text(method);
    ret_message->params = cli_member(line, "params");
    ret_message->is_answer =
        !method.data && (cli_member(line, "result").data || cli_member(line, "error").data);
    *ret_why = "jsonrpc is not \"2.0\"";
    if (!cli_is_text(cli_member(line, "jsonrpc"), "2.0"))
        return MCP_ERROR_REQUEST;
    *ret_why = "id is a string or a number";
    if (id.data && !ret_message->id.size && !ret_message->is_answer)
        return MCP_ERROR_REQUEST;
    *ret_why = "method is a string without escapes";
    if (!ret_message->method.size && !ret_message->is_answer)
        return MCP_ERROR_REQUEST;
    *ret_why = "params is an object";
    if (ret_message->params.data && ret_message->params.data[0] != '{')
        return MCP_ERROR_PARAMS;
    *ret_why = NULL;
    return MCP_ERROR_NONE;
}
