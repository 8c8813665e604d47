/* mcp_tools.c - the table of tools, their schemas, and the arguments of a call. */
#include "cli/mcp_tools.h"

#include "base/base64.h"
#include "base/json_write.h"
#include "base/utf8.h"
#include "cli/value.h"

#include <stdio.h>
#include <stdlib.h>

#define MCP_LIMIT_DEFAULT 100 /* rows of a list whose caller names no limit */

static const struct mcp_tool MCP_TOOLS[] = {
    {"schedule", "add", NULL, NULL, MCP_ADDS, MCP_ONE, NULL},
    {"get", "get", NULL, NULL, MCP_READS, MCP_ONE, NULL},
    {"list", "list", NULL, NULL, MCP_READS, MCP_MANY, NULL},
    {"count", "count", NULL, NULL, MCP_READS, MCP_ONE, NULL},
    {"schedules", "schedules", NULL, NULL, MCP_READS, MCP_MANY, NULL},
    {"preview", "preview", NULL, NULL, MCP_READS, MCP_ONE, "Show when a schedule would fire"},
    {"explain", "explain", NULL, NULL, MCP_READS, MCP_ONE, NULL},
    {"deliveries", "log", NULL, NULL, MCP_READS, MCP_MANY, NULL},
    {"change", "change", NULL, NULL, MCP_CHANGES, MCP_ONE, NULL},
    {"touch", "touch", NULL, NULL, MCP_CHANGES, MCP_ONE, NULL},
    {"cancel", "cancel", NULL, NULL, MCP_CHANGES_ONCE, MCP_ONE, NULL},
    {"pause", "pause", NULL, NULL, MCP_ADDS_ONCE, MCP_ONE, NULL},
    {"resume", "resume", NULL, NULL, MCP_ADDS_ONCE, MCP_ONE, NULL},
    {"fire", "fire", NULL, NULL, MCP_CHANGES, MCP_ONE, NULL},
    {"complete", "complete", NULL, NULL, MCP_CHANGES_ONCE, MCP_ONE, NULL},
    {"lease", "lease", NULL, NULL, MCP_ADDS, MCP_MANY,
     "Lease items of a queue, and wait for the first one"},
    {"ack", "ack", NULL, NULL, MCP_CHANGES_ONCE, MCP_ONE, NULL},
    {"nack", "nack", NULL, NULL, MCP_CHANGES_ONCE, MCP_ONE, NULL},
    {"extend", "extend", NULL, NULL, MCP_ADDS, MCP_ONE, NULL},
    {"queues", "queues", NULL, "[QUEUE]", MCP_READS, MCP_ONE, "Show how full queues are"},
    {"targets", "targets", NULL, "", MCP_READS, MCP_ONE,
     "Show what goes to each target, and which fail"},
    {"dead_letters", "dead", "list", "", MCP_READS, MCP_MANY, "List dead letters"},
    {"dead_groups", "dead", "groups", "", MCP_READS, MCP_ONE,
     "Count dead letters by origin and error"},
    {"redrive", "dead", "redrive", "[ID...]", MCP_CHANGES, MCP_ONE, "Redrive dead letters"},
};

#define MCP_TOOL_COUNT (sizeof(MCP_TOOLS) / sizeof(*MCP_TOOLS))

static bool mcp_tool_is_in(const struct mcp_tool *tool, enum mcp_scope scope)
{
    return scope == MCP_ALL_TOOLS || tool->effect == MCP_READS;
}

const struct mcp_tool *mcp_tools_find(struct bytes name, enum mcp_scope scope)
{
    for (size_t i = 0; i < MCP_TOOL_COUNT; i++)
        if (bytes_equal(name, bytes_of(MCP_TOOLS[i].name)) && mcp_tool_is_in(&MCP_TOOLS[i], scope))
            return &MCP_TOOLS[i];
    return NULL;
}

/* ---- the properties of a tool ---- */

/* How a property is written in JSON. */
enum mcp_kind {
    MCP_SWITCH,
    MCP_TEXT,
    MCP_NUMBER,
    MCP_JSON,   /* any value */
    MCP_PAIRS,  /* object of texts: NAME:VALUE */
    MCP_FIELDS, /* object of any values: FIELD=JSON */
};

struct mcp_property {
    char name[32];
    enum mcp_kind kind;
    bool is_many;     /* an array of texts, or one text */
    bool is_argument; /* no flag */
    bool is_required;
    const struct cli_flag_use *use; /* NULL if no flag has the name */
};

/* Arguments of a verb, and its flags. */
#define MCP_PROPERTY_ROOM 64

struct mcp_properties {
    struct mcp_property rows[MCP_PROPERTY_ROOM];
    size_t count;
};

static enum mcp_kind mcp_kind_of(const struct cli_flag *flag)
{
    static const struct {
        const char *value;
        enum mcp_kind kind;
    } kinds[] = {
        {"NUMBER", MCP_NUMBER},
        {"JSON", MCP_JSON},
        {"NAME:VALUE", MCP_PAIRS},
        {"FIELD=JSON", MCP_FIELDS},
    };

    if (!flag->value)
        return MCP_SWITCH;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
        if (strcmp(flag->value, kinds[i].value) == 0)
            return kinds[i].kind;
    return MCP_TEXT;
}

/* Removes the parts of a verb from the meaning of a flag that only they take, such as "list and
 * groups: at most this many". Returns false if `part` is not among them. */
static bool mcp_meaning_is_of(const char **meaning, const char *part)
{
    const char *colon = strchr(*meaning, ':'), *found = strstr(*meaning, part);

    if (!colon)
        return strncmp(*meaning, "redrive ", 8) != 0 || strcmp(part, "redrive") == 0;
    *meaning = colon + 2;
    return found && found < colon;
}

/* True if a tool has no such property: a call ends, and has no terminal. */
static bool mcp_property_is_hidden(const struct mcp_tool *tool, const struct cli_flag_use *use)
{
    const char *meaning = use->meaning;

    return use->flag == CLI_FLAG_WATCH || use->flag == CLI_FLAG_INTERVAL ||
           use->flag == CLI_FLAG_FOLLOW || use->flag == CLI_FLAG_CHECK ||
           (tool->effect == MCP_READS &&
            (use->flag == CLI_FLAG_YES || strncmp(meaning, "pause: ", 7) == 0)) ||
           (tool->part && !mcp_meaning_is_of(&meaning, tool->part));
}

/* Writes a name of a flag or an argument as one of a property: due-after is due_after. */
static void mcp_property_name(struct bytes word, char name[32])
{
    size_t size = 0;

    for (; size < word.size && size < 31; size++) {
        const char c = word.data[size];

        name[size] = (char)(c == '-' ? '_' : c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    }
    name[size] = '\0';
}

static struct mcp_property *mcp_properties_find(struct mcp_properties *properties, const char *name)
{
    for (size_t i = 0; i < properties->count; i++)
        if (strcmp(properties->rows[i].name, name) == 0)
            return &properties->rows[i];
    return NULL;
}

/* Adds the arguments of a verb, such as "[WHEN] TARGET" or "QUEUE RECEIPT...". */
static void mcp_properties_add_arguments(const struct mcp_tool *tool, const struct cli_verb *verb,
                                         struct mcp_properties *properties)
{
    struct bytes rest = bytes_of(tool->arguments ? tool->arguments : verb->arguments), word;
    unsigned required = verb->arguments_min - (tool->part != NULL);

    while (bytes_next_word(&rest, &word)) {
        struct mcp_property *row = &properties->rows[properties->count++];

        *row = (struct mcp_property){.kind = MCP_TEXT, .is_argument = true};
        if (*word.data == '[')
            word = (struct bytes){word.data + 1, word.size - 2};
        if (word.size > 3 && memcmp(word.data + word.size - 3, "...", 3) == 0) {
            row->is_many = true;
            word.size -= 3;
        }
        mcp_property_name(word, row->name);
        const size_t end = strlen(row->name);
        if (row->is_many && end + 1 < sizeof(row->name))
            memcpy(row->name + end, "s", 2);
    }
    /* If fewer are required than there are, a flag such as --key is in place of the first. */
    for (size_t i = properties->count; i > 0 && required > 0; i--, required--)
        properties->rows[i - 1].is_required = true;
}

static void mcp_properties_of(const struct mcp_tool *tool, struct mcp_properties *properties)
{
    const struct cli_verb *verb = verbs_find(tool->verb);

    properties->count = 0;
    mcp_properties_add_arguments(tool, verb, properties);
    for (const struct cli_flag_use *use = verb->uses; use->meaning; use++) {
        const struct cli_flag *flag = cli_flag_row(use->flag);
        const enum mcp_kind kind = mcp_kind_of(flag);
        /* The table of verbs says in words which flags may be given several times. */
        const bool is_many = kind == MCP_TEXT && (strstr(use->meaning, "repeated") ||
                                                  strstr(use->meaning, "repeatable"));
        char name[32];

        if (mcp_property_is_hidden(tool, use) || properties->count == MCP_PROPERTY_ROOM)
            continue;
        mcp_property_name(bytes_of(flag->name), name);
        struct mcp_property *row = mcp_properties_find(properties, name);
        if (row) { /* an argument whose further values are those of the flag */
            row->is_many = is_many;
            row->use = use;
            continue;
        }
        row = &properties->rows[properties->count++];
        *row = (struct mcp_property){.kind = kind, .is_many = is_many, .use = use};
        memcpy(row->name, name, sizeof(name));
    }
}

/* ---- schemas ---- */

/* Appends a text of the table of verbs in the words of a tool: flags are properties, and what is
 * several lines is one. */
static void mcp_append_words(struct buffer *out, struct bytes text)
{
    for (size_t i = 0; i < text.size; i++) {
        const char c = text.data[i] == '\n' ? ' ' : text.data[i];
        const bool is_flag = c == '-' && i + 2 < text.size && text.data[i + 1] == '-' &&
                             text.data[i + 2] >= 'a' && text.data[i + 2] <= 'z';

        if (is_flag)
            for (i += 2; i < text.size &&
                         ((text.data[i] >= 'a' && text.data[i] <= 'z') || text.data[i] == '-');
                 i++)
                buffer_append_text(out, text.data[i] == '-' ? "_" : (char[]){text.data[i], 0});
        i -= is_flag; /* the character after the name is next */
        if (!is_flag && !(c == ' ' && out->size && out->data[out->size - 1] == ' '))
            buffer_append(out, &c, 1);
    }
}

/* Appends what a flag means, without what is about files, repetition and terminals. */
static void mcp_append_meaning(struct buffer *out, const char *meaning)
{
    const char *const ends[] = {strstr(meaning, ", @"), strchr(meaning, ';')};
    struct bytes text = bytes_of(meaning);
    struct buffer words;

    for (size_t i = 0; i < 2; i++)
        if (ends[i] && (size_t)(ends[i] - meaning) < text.size)
            text.size = (size_t)(ends[i] - meaning);
    buffer_init(&words);
    mcp_append_words(&words, text);
    json_put_string(out, "description", buffer_bytes(&words));
    buffer_deinit(&words);
}

static void mcp_append_type(struct buffer *out, const struct mcp_property *row)
{
    static const char *const types[] = {
        [MCP_SWITCH] = "boolean", [MCP_TEXT] = "string",  [MCP_NUMBER] = "integer",
        [MCP_JSON] = NULL,        [MCP_PAIRS] = "object", [MCP_FIELDS] = "object",
    };

    if (row->is_many && row->is_argument && row->use) {
        json_put_raw(out, "type", BYTES("[\"string\",\"array\"]"));
    } else if (row->is_many) {
        json_put_text(out, "type", "array");
    } else if (types[row->kind]) {
        json_put_text(out, "type", types[row->kind]);
    }
    if (row->is_many || row->kind == MCP_PAIRS) {
        json_open(out, row->is_many ? "items" : "additionalProperties", '{');
        json_put_text(out, "type", "string");
    }
    const char *choices =
        row->use && !row->is_argument ? cli_flag_row(row->use->flag)->choices : NULL;
    if (choices) {
        struct bytes rest = bytes_of(choices), word;

        json_open(out, "enum", '[');
        while (bytes_next_word(&rest, &word))
            json_put_string(out, NULL, word);
        json_close(out, ']');
    }
    if (row->is_many || row->kind == MCP_PAIRS)
        json_close(out, '}');
}

static void mcp_append_property(struct buffer *out, const struct mcp_tool *tool,
                                const struct mcp_property *row)
{
    const char *meaning = row->use ? row->use->meaning : "";

    if (row->use && tool->part)
        (void)mcp_meaning_is_of(&meaning, tool->part);
    json_open(out, row->name, '{');
    mcp_append_type(out, row);
    if (row->use && row->use->flag == CLI_FLAG_LIMIT)
        json_put_number(out, "default", MCP_LIMIT_DEFAULT);
    if (row->use && row->use->flag == CLI_FLAG_YES)
        json_put_text(out, "description", "confirms a call for more than one timer");
    else if (row->use && !row->is_argument)
        mcp_append_meaning(out, meaning);
    json_close(out, '}');
}

static void mcp_append_schema(struct buffer *out, const struct mcp_tool *tool,
                              const struct mcp_properties *properties)
{
    json_open(out, "inputSchema", '{');
    json_put_text(out, "type", "object");
    json_open(out, "properties", '{');
    for (size_t i = 0; i < properties->count; i++)
        mcp_append_property(out, tool, &properties->rows[i]);
    json_close(out, '}');
    json_open(out, "required", '[');
    for (size_t i = 0; i < properties->count; i++)
        if (properties->rows[i].is_required)
            json_put_text(out, NULL, properties->rows[i].name);
    json_close(out, ']');
    json_put_flag(out, "additionalProperties", false);
    json_close(out, '}');
}

static void mcp_append_tool(struct buffer *out, const struct mcp_tool *tool)
{
    const struct cli_verb *verb = verbs_find(tool->verb);
    const char *summary = tool->summary ? tool->summary : verb->summary;
    struct mcp_properties properties;
    struct buffer text;

    mcp_properties_of(tool, &properties);
    buffer_init(&text);
    buffer_printf(&text, "%s.", summary);
    if (verb->about && !tool->summary) {
        buffer_append_text(&text, " ");
        mcp_append_words(&text, bytes_of(verb->about));
    }
    json_open(out, NULL, '{');
    json_put_text(out, "name", tool->name);
    json_put_text(out, "title", summary);
    json_put_string(out, "description", buffer_bytes(&text));
    buffer_deinit(&text);
    mcp_append_schema(out, tool, &properties);
    json_open(out, "annotations", '{');
    json_put_flag(out, "readOnlyHint", tool->effect == MCP_READS);
    if (tool->effect != MCP_READS) {
        json_put_flag(out, "destructiveHint",
                      tool->effect == MCP_CHANGES || tool->effect == MCP_CHANGES_ONCE);
        json_put_flag(out, "idempotentHint",
                      tool->effect == MCP_ADDS_ONCE || tool->effect == MCP_CHANGES_ONCE);
    }
    json_close(out, '}');
    json_close(out, '}');
}

void mcp_tools_append(struct buffer *out, const char *name, enum mcp_scope scope)
{
    json_open(out, name, '[');
    for (size_t i = 0; i < MCP_TOOL_COUNT; i++)
        if (mcp_tool_is_in(&MCP_TOOLS[i], scope))
            mcp_append_tool(out, &MCP_TOOLS[i]);
    json_close(out, ']');
}

/* ---- the arguments of a call ---- */

void mcp_arguments_init(struct mcp_arguments *arguments)
{
    *arguments = (struct mcp_arguments){0};
    buffer_init(&arguments->texts_);
    buffer_init(&arguments->places_);
}

void mcp_arguments_deinit(struct mcp_arguments *arguments)
{
    buffer_deinit(&arguments->texts_);
    buffer_deinit(&arguments->places_);
    free(arguments->values);
}

/* Begins an argument, whose text the caller appends. */
static void mcp_arguments_begin(struct mcp_arguments *arguments)
{
    if (arguments->count)
        buffer_append(&arguments->texts_, "", 1);
    buffer_append(&arguments->places_, &arguments->texts_.size, sizeof(size_t));
    arguments->count++;
}

static void mcp_arguments_begin_flag(struct mcp_arguments *arguments, enum cli_flag_id flag)
{
    mcp_arguments_begin(arguments);
    buffer_printf(&arguments->texts_, "--%s", cli_flag_row(flag)->name);
    if (cli_flag_row(flag)->value)
        buffer_append_text(&arguments->texts_, "=");
}

/* A property of a call, and where its faults are reported. */
struct mcp_given {
    const struct mcp_property *row;
    struct bytes value;
    struct mcp_arguments *arguments;
    struct error *error;
};

static enum error_code mcp_refuse(const struct mcp_given *given, const char *wanted)
{
    return error_set(given->error, ERROR_INVALID, "%s: %s is expected", given->row->name, wanted);
}

/* Appends the text of a string, which must have no NUL. */
static enum error_code mcp_append_text(const struct mcp_given *given, struct bytes json)
{
    struct buffer *texts = &given->arguments->texts_;
    const size_t before = texts->size;

    if (!json.size || *json.data != '"')
        return mcp_refuse(given, "a string");
    cli_append_value(texts, json);
    if (texts->size > before && memchr(texts->data + before, '\0', texts->size - before))
        return mcp_refuse(given, "a string without NUL");
    return ERROR_NONE;
}

/* A body is given as a field in Base64: as a flag it could name a file. */
static enum error_code mcp_add_body(const struct mcp_given *given)
{
    struct buffer text, encoded;

    if (!given->value.size || *given->value.data != '"')
        return mcp_refuse(given, "a string");
    buffer_init(&text);
    buffer_init(&encoded);
    cli_append_value(&text, given->value);
    base64_append(&encoded, buffer_bytes(&text));
    mcp_arguments_begin_flag(given->arguments, CLI_FLAG_SET);
    buffer_append_text(&given->arguments->texts_, "body_base64=\"");
    buffer_append_bytes(&given->arguments->texts_, buffer_bytes(&encoded));
    buffer_append_text(&given->arguments->texts_, "\"");
    buffer_deinit(&encoded);
    buffer_deinit(&text);
    return ERROR_NONE;
}

/* Adds a flag for each member of an object. */
static enum error_code mcp_add_members(const struct mcp_given *given)
{
    struct buffer *texts = &given->arguments->texts_;
    const bool is_pair = given->row->kind == MCP_PAIRS;
    struct json_reader reader;
    struct json_string name;
    struct bytes value;

    json_reader_init(&reader, given->value);
    if (json_peek(&reader) != JSON_OBJECT || !json_enter_object(&reader))
        return mcp_refuse(given, "an object");
    while (json_next_member(&reader, &name) && json_skip(&reader, &value)) {
        /* the quotes of a JSON string stand beside `raw` */
        const struct bytes quoted = {name.raw.data - 1, name.raw.size + 2};
        struct buffer key;

        buffer_init(&key);
        cli_append_value(&key, quoted);
        const struct bytes text = buffer_bytes(&key);
        enum error_code code = ERROR_NONE;
        if (!text.size || memchr(text.data, '\0', text.size) ||
            (!is_pair && memchr(text.data, '=', text.size)))
            code = mcp_refuse(given, "an object of names");
        mcp_arguments_begin_flag(given->arguments, given->row->use->flag);
        if (is_pair)
            buffer_append_text(texts, "\"");
        for (size_t i = 0; !code && i < text.size; i++)
            buffer_append_text(texts,
                               is_pair && text.data[i] == '"' ? "\"\"" : (char[]){text.data[i], 0});
        buffer_append_text(texts, is_pair ? "\":" : "=");
        buffer_deinit(&key);
        if (!code && is_pair)
            code = mcp_append_text(given, value);
        else if (!code)
            buffer_append_bytes(texts, value);
        if (code)
            return code;
    }
    return ERROR_NONE;
}

/* Adds one flag. */
static enum error_code mcp_add_flag(const struct mcp_given *given, struct bytes value)
{
    const struct mcp_property *row = given->row;
    struct buffer *texts = &given->arguments->texts_;

    if (row->kind == MCP_SWITCH && !bytes_equal(value, BYTES("true")))
        return bytes_equal(value, BYTES("false")) ? ERROR_NONE : mcp_refuse(given, "true or false");
    mcp_arguments_begin_flag(given->arguments, row->use->flag);
    switch (row->kind) {
    case MCP_NUMBER:
        if (!value.size || !((*value.data >= '0' && *value.data <= '9') || *value.data == '-'))
            return mcp_refuse(given, "a number");
        buffer_append_bytes(texts, value);
        return ERROR_NONE;
    case MCP_JSON:
        buffer_append_bytes(texts, value);
        return ERROR_NONE;
    case MCP_TEXT:
        return mcp_append_text(given, value);
    default:
        return ERROR_NONE;
    }
}

/* Adds an argument, or a flag for each element of an array. If a flag has the name of an argument,
 * the elements after the first are flags. */
static enum error_code mcp_add(const struct mcp_given *given, bool as_arguments)
{
    const struct mcp_property *row = given->row;
    const bool is_array = row->is_many && given->value.size && *given->value.data == '[';
    struct bytes value = given->value;
    struct cli_list list;
    enum error_code code = ERROR_NONE;

    if (row->kind == MCP_PAIRS || row->kind == MCP_FIELDS)
        return as_arguments ? ERROR_NONE : mcp_add_members(given);
    if (row->use && row->use->flag == CLI_FLAG_BODY)
        return as_arguments ? ERROR_NONE : mcp_add_body(given);
    cli_list_init(&list, given->value);
    for (size_t i = 0; !code && (is_array ? cli_list_next(&list, &value) : i == 0); i++) {
        const bool is_argument = row->is_argument && (i == 0 || !row->use);

        if (is_argument != as_arguments)
            continue;
        if (!is_argument) {
            code = mcp_add_flag(given, value);
            continue;
        }
        mcp_arguments_begin(given->arguments);
        code = mcp_append_text(given, value);
    }
    return code;
}

static enum error_code mcp_arguments_add_all(struct mcp_properties *properties, struct bytes input,
                                             bool as_arguments, struct mcp_arguments *arguments,
                                             struct error *ret_error)
{
    /* Arguments are in the order of the verb, not of the call. */
    for (size_t i = 0; i < properties->count; i++) {
        const struct mcp_property *row = &properties->rows[i];
        const struct mcp_given given = {row, cli_member(input, row->name), arguments, ret_error};
        const bool is_absent = !given.value.size || bytes_equal(given.value, BYTES("null"));

        if (is_absent && row->is_required && as_arguments)
            return error_set(ret_error, ERROR_INVALID, "%s is required", row->name);
        /* null is a payload */
        if (!given.value.size || (is_absent && row->kind != MCP_JSON))
            continue;
        const enum error_code code = mcp_add(&given, as_arguments);
        if (code)
            return code;
    }
    return ERROR_NONE;
}

static enum error_code mcp_arguments_check_names(struct mcp_properties *properties,
                                                 struct bytes input, struct error *ret_error)
{
    struct cli_list members;
    struct bytes value;
    char name[64];

    if (input.size && *input.data != '{')
        return error_set(ret_error, ERROR_INVALID, "the arguments are an object");
    cli_members_init(&members, input);
    while (cli_members_next(&members, name, &value))
        if (!mcp_properties_find(properties, name))
            return error_set(ret_error, ERROR_INVALID, "there is no argument \"%s\"", name);
    return ERROR_NONE;
}

enum error_code mcp_arguments_read(const struct mcp_tool *tool, struct bytes input,
                                   struct mcp_arguments *arguments, struct error *ret_error)
{
    struct mcp_properties properties;

    mcp_properties_of(tool, &properties);
    enum error_code code = mcp_arguments_check_names(&properties, input, ret_error);
    if (!code)
        code = mcp_arguments_add_all(&properties, input, false, arguments, ret_error);
    if (!code && mcp_properties_find(&properties, "limit") && !cli_member(input, "limit").size) {
        mcp_arguments_begin_flag(arguments, CLI_FLAG_LIMIT);
        buffer_printf(&arguments->texts_, "%d", MCP_LIMIT_DEFAULT);
    }
    if (code)
        return code;
    mcp_arguments_begin(arguments); /* what follows is no flag, whatever it begins with */
    buffer_append_text(&arguments->texts_, "--");
    if (tool->part) {
        mcp_arguments_begin(arguments);
        buffer_append_text(&arguments->texts_, tool->part);
    }
    code = mcp_arguments_add_all(&properties, input, true, arguments, ret_error);
    if (code)
        return code;
    buffer_append(&arguments->texts_, "", 1);
    arguments->values = calloc((size_t)arguments->count + 1, sizeof(char *));
    if (!arguments->values || buffer_failed(&arguments->texts_) ||
        buffer_failed(&arguments->places_))
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    for (int i = 0; i < arguments->count; i++) {
        size_t at;

        memcpy(&at, arguments->places_.data + (size_t)i * sizeof(at), sizeof(at));
        arguments->values[i] = arguments->texts_.data + at;
    }
    return ERROR_NONE;
}
