/*
 * mcp_tools.h - the tools of `tickwheel mcp`: verbs of the command line, whose flags and arguments
 * are the properties of a tool's input.
 *
 *     const struct mcp_tool *tool = mcp_tools_find(BYTES("schedule"), MCP_ALL_TOOLS);
 *     mcp_arguments_init(&arguments);
 *     if (mcp_arguments_read(tool, json, &arguments, &error) == ERROR_NONE)
 *         cli_options_read(verbs_find(tool->verb), arguments.count, arguments.values, ...);
 *
 * No text of a caller is read as a flag, as the name of a file, or as one of the flags of every
 * verb, such as the token.
 *
 * Threads    None: one owner.
 */
#ifndef TICKWHEEL_CLI_MCP_TOOLS_H
#define TICKWHEEL_CLI_MCP_TOOLS_H

#include "cli/verbs.h"

/* What a tool does, as the annotations of the protocol say it. */
enum mcp_effect {
    MCP_READS,
    MCP_ADDS,         /* adds or holds something; a repeated call does so again */
    MCP_ADDS_ONCE,    /* adds or holds something; a repeated call changes nothing */
    MCP_CHANGES,      /* ends, delivers or overwrites something; a repeated call does so again */
    MCP_CHANGES_ONCE, /* ends or delivers something; a repeated call changes nothing */
};

/* What the verb prints in JSON. */
enum mcp_output {
    MCP_ONE,  /* one document */
    MCP_MANY, /* a document for each element of a list */
};

struct mcp_tool {
    const char *name;
    const char *verb;
    const char *part;      /* first argument, such as "list" of `dead`; NULL if there is none */
    const char *arguments; /* arguments, if they are not those of the verb; NULL otherwise */
    enum mcp_effect effect;
    enum mcp_output output;
    /* what it does, in place of the verb's summary and paragraphs; NULL if these say it */
    const char *summary;
};

/* Whether all tools are meant, or those that only read. */
enum mcp_scope { MCP_ALL_TOOLS, MCP_READING_TOOLS };

/* Returns a tool of the scope; NULL if there is none of this name. */
const struct mcp_tool *mcp_tools_find(struct bytes name, enum mcp_scope scope);

/* Appends the array of all tools of the scope, with their schemas. */
void mcp_tools_append(struct buffer *out, const char *name, enum mcp_scope scope);

/* The arguments of a run of the verb, in memory that it may write to. */
struct mcp_arguments {
    struct buffer texts_;
    struct buffer places_; /* size_t: offset of each text */
    char **values;         /* valid after mcp_arguments_read; ends with NULL */
    int count;
};

void mcp_arguments_init(struct mcp_arguments *arguments);
void mcp_arguments_deinit(struct mcp_arguments *arguments);

/* Makes the arguments of the JSON object `input`, which may be empty. ERROR_INVALID has a sentence
 * for the caller. */
enum error_code mcp_arguments_read(const struct mcp_tool *tool, struct bytes input,
                                   struct mcp_arguments *arguments, struct error *ret_error);

#endif
