/*
 * mcp_message.h - messages of the Model Context Protocol: JSON-RPC 2.0, one on each line.
 *
 *     mcp_lines_add(&lines, chunk);
 *     while (mcp_lines_next(&lines, &line))
 *         if (!line.is_too_long)
 *             code = mcp_message_read(line.text, &message);
 *
 * Memory     A line longer than MCP_LINE_BYTES_MAX is dropped and reported.
 * Ownership  Texts of a message are slices of its line, which is valid until the next call.
 * Threads    None: one owner.
 */
#ifndef TICKWHEEL_CLI_MCP_MESSAGE_H
#define TICKWHEEL_CLI_MCP_MESSAGE_H

#include "base/bytes.h"

#define MCP_LINE_BYTES_MAX (1 << 20) /* maximum of a message */

/* ---- lines ---- */

struct mcp_lines {
    struct buffer text_; /* bytes that were read and not handed out */
    size_t at_;          /* offset of the next line in `text_` */
    bool is_dropping_;   /* the beginning of the line was too long, and is dropped already */
};

struct mcp_line {
    struct bytes text; /* without its end; empty if it is too long */
    bool is_too_long;
};

void mcp_lines_init(struct mcp_lines *lines);
void mcp_lines_deinit(struct mcp_lines *lines);

/* Adds bytes that were read, at most MCP_LINE_BYTES_MAX. Call mcp_lines_next until it returns false
 * before the next bytes. */
void mcp_lines_add(struct mcp_lines *lines, struct bytes chunk);

/* Returns the next whole line that is not blank. Returns false if there is none yet. */
bool mcp_lines_next(struct mcp_lines *lines, struct mcp_line *ret_line);

/* ---- messages ---- */

/* Codes of JSON-RPC; MCP_ERROR_NONE is not one of them. */
enum mcp_error {
    MCP_ERROR_NONE = 0,
    MCP_ERROR_PARSE = -32700,
    MCP_ERROR_REQUEST = -32600,
    MCP_ERROR_METHOD = -32601,
    MCP_ERROR_PARAMS = -32602,
    MCP_ERROR_INTERNAL = -32603,
};

struct mcp_message {
    struct bytes id;     /* JSON of the request's id, a string or a number; empty: a notification */
    struct bytes method; /* decoded, as all methods are plain texts; empty in an answer */
    struct bytes params; /* JSON of an object; empty if there are none */
    bool is_answer;      /* an answer to a request of ours, which makes none */
};

/* Reads a message. After an error `id` is that of the request, or empty if it has none that can be
 * read, and `ret_why` has the reason. */
enum mcp_error mcp_message_read(struct bytes line, struct mcp_message *ret_message,
                                const char **ret_why);

#endif
