/* config_text.c - help, documents and example files, made from the table of settings. */
#include "ops/config.h"
#include "ops/config_table.h"

#include <ctype.h>

static const char *const type_names[] = {
    [CONFIG_TYPE_SECTION] = "",      [CONFIG_TYPE_U32] = "NUMBER",
    [CONFIG_TYPE_U64] = "NUMBER",    [CONFIG_TYPE_DURATION] = "DURATION",
    [CONFIG_TYPE_BYTES] = "SIZE",    [CONFIG_TYPE_TEXT] = "TEXT",
    [CONFIG_TYPE_LIST] = "LIST",     [CONFIG_TYPE_SECRET] = "TEXT",
    [CONFIG_TYPE_CHOICE] = "CHOICE",
};

/* Appends "name = value"; without a value there is no blank after the "=". Frees the buffer of the
 * value. */
static void config_text_append_setting(struct buffer *buffer, const char *name,
                                       struct buffer *value)
{
    buffer_printf(buffer, "%s =%s", name, value->size ? " " : "");
    buffer_append_bytes(buffer, buffer_bytes(value));
    buffer_append_text(buffer, "\n");
    buffer->failed |= value->failed;
    buffer_deinit(value);
}

void config_format(const struct config *config, struct buffer *buffer)
{
    for (size_t i = 0; i < config_row_count; i++) {
        const struct config_row *row = &config_rows[i];

        if (row->type == CONFIG_TYPE_SECTION) {
            buffer_printf(buffer, "%s[%s]\n", i ? "\n" : "", row->name);
            continue;
        }
        /* Printed secrets are commented out, because what is printed instead of them must not be
         * read as their values. */
        buffer_append_text(buffer, row->type == CONFIG_TYPE_SECRET ? "; " : "");
        struct buffer value;
        buffer_init(&value);
        config_row_format_value(row, config, &value);
        config_text_append_setting(buffer, row->name, &value);
    }
}

static void config_text_append_flag(struct buffer *buffer, const char *name)
{
    buffer_append_text(buffer, "--");
    for (; *name; name++)
        buffer_append(buffer, *name == '_' ? "-" : name, 1);
}

void config_format_help(struct buffer *buffer)
{
    buffer_append_text(
        buffer,
        "Usage: tickwheeld [--config FILE] [--name value]...\n"
        "\n"
        "Stores timers that clients schedule over HTTP, and delivers them when due to webhooks,\n"
        "message brokers and queues.\n"
        "Each setting is a flag (--listen-port 80), an environment variable\n"
        "(TICKWHEEL_LISTEN_PORT=80) or a line of the config file (listen_port = 80);\n"
        "flags win over the environment, the environment over the file.\n"
        "\n"
        "  --config FILE          read settings from a file\n"
        "  --check-config         check that all settings are valid, and exit\n"
        "  --check FOLDER         verify a data folder that no daemon has open; exit code 0 "
        "valid,\n"
        "                         1 damaged, 2 not readable\n"
        "  --check-json FOLDER    the same, with the report as a line of JSON\n"
        "  --restore BACKUP       copy a backup into data_folder, which must be named and empty, "
        "and\n"
        "                         check it; exit code 0 restored, 1 or 3 not valid, 2 not "
        "possible\n"
        "  --cluster-create       make the topics or the table of the cluster's log, or check "
        "those "
        "that are\n"
        "                         there; exit code 0 they are right, 1 they are not, or cannot be "
        "made\n"
        "  --cluster-change-secret\n"
        "                         found the cluster again with cluster_secret: nodes with the one "
        "before\n"
        "                         are refused\n"
        "  --cluster-import FOLDER\n"
        "                         put the timers of a single node's data folder into the log of a "
        "new\n"
        "                         cluster, or those of all nodes of another cluster, whose log is "
        "broken:\n"
        "                         give one for each folder; exit code 0 all are there, 1 not, 2 "
        "the\n"
        "                         folders cannot be read, or do not have all partitions\n"
        "  --print-config         print the settings in effect, and exit\n"
        "  --print-config-docs    print docs/configuration.md, and exit\n"
        "  --print-config-example print an example config file, and exit\n"
        "  --print-metrics-docs   print docs/metrics.md, and exit\n"
        "  --print-openapi        print the OpenAPI document, and exit\n"
        "  --print-openapi-strict print the OpenAPI document with every rule, and exit\n"
        "  --print-routes         print the overview of the HTTP API in docs/api.md, and exit\n"
        "  --make-token TENANT [SCOPES]\n"
        "                         print a new token and its line for the tokens file\n"
        "  --make-webhook-key     print a private key that signs webhooks, and its public key\n"
        "  --banner               print a command to try at the start\n"
        "  --version, --help\n");
    for (size_t i = 0; i < config_row_count; i++) {
        const struct config_row *row = &config_rows[i];

        if (row->type == CONFIG_TYPE_SECTION) {
            buffer_printf(buffer, "\n%s: %s\n", row->name, row->help);
            continue;
        }
        buffer_append_text(buffer, "  ");
        config_text_append_flag(buffer, row->name);
        buffer_printf(buffer, " %s\n        %s\n        (", type_names[row->type], row->help);
        config_row_format_limits(row, buffer);
        if (*row->preset) {
            buffer_append_text(buffer, "; default ");
            config_row_format_default(row, buffer);
        }
        buffer_append_text(buffer, ")\n");
    }
}

/* Appends the default and the limits in parentheses. They are left out where there is no default
 * and the text may have PLAIN_BYTES bytes, as most texts may. */
static void config_text_append_values(struct buffer *buffer, const struct config_row *row)
{
    enum { PLAIN_BYTES = 4000 };
    bool is_text = row->type == CONFIG_TYPE_TEXT || row->type == CONFIG_TYPE_LIST ||
                   row->type == CONFIG_TYPE_SECRET;
    bool is_plain = is_text && row->max == PLAIN_BYTES;

    if (is_plain && !*row->preset)
        return;
    buffer_append_text(buffer, " (");
    if (*row->preset) {
        buffer_append_text(buffer, "`");
        config_row_format_default(row, buffer);
        buffer_append_text(buffer, is_plain ? "`" : "`; ");
    }
    if (is_text && !is_plain)
        buffer_printf(buffer, "%llu bytes", (unsigned long long)row->max);
    else if (!is_text)
        config_row_format_limits(row, buffer);
    buffer_append_text(buffer, ")");
}

/* True if `row` is the setting that names a file from which `other` is read. */
static bool config_text_is_file_of(const struct config_row *row, const struct config_row *other)
{
    size_t length = strlen(other->name);

    return strncmp(row->name, other->name, length) == 0 && strcmp(row->name + length, "_file") == 0;
}

void config_format_docs(struct buffer *buffer)
{
    buffer_append_text(
        buffer,
        "# Configuration\n"
        "\n"
        "<!-- Made by `make docs` from the table in src/ops/config.h; a test keeps it current. "
        "-->\n"
        "\n"
        "Each setting of `tickwheeld` can be given in three ways; the first in this list wins:\n"
        "\n"
        "1. a flag: `--listen-port 8463` or `--listen-port=8463`;\n"
        "2. the environment: `TICKWHEEL_LISTEN_PORT=8463` (`TICKWHEEL_URL` and `TICKWHEEL_TOKEN`\n"
        "   are of the [command line](cli.md));\n"
        "3. a line of the config file named by `--config` or `TICKWHEEL_CONFIG`: "
        "`listen_port = 8463`.\n"
        "\n"
        "A setting `NAME_file` beside `NAME` names a file to read it from. Give secrets so, or in "
        "the "
        "environment: every user of the machine\ncan see the arguments of a program until the "
        "daemon "
        "has overwritten them.\n"
        "\n"
        "An unknown name or a value out of its limits stops the start; the error names the nearest "
        "name, or the limits.\n"
        "`--check-config` checks the settings and exits; `--print-config` prints those in effect, "
        "`--print-config-example` a file to start from.\n"
        "\n"
        "In parentheses: the default, and the limits; a text without one may have 4,000 bytes. "
        "Durations are written `500ms`, `10s`, `1h30m`;\nsizes `4096`, `64K`, `256M`, `1G` (powers "
        "of 1024).\n\n");
    buffer_printf(
        buffer,
        "In the file, sections are optional and a line holds at most %d bytes. A line "
        "that begins with `#` or `;` is a comment, and so is\nthe text after a blank and `;`. "
        "A list may take several lines; indent those after the first.\n",
        CONFIG_LINE_BYTES_MAX);
    for (size_t i = 0; i < config_row_count; i++) {
        const struct config_row *row = &config_rows[i];

        if (row->type == CONFIG_TYPE_SECTION) {
            buffer_printf(buffer, "\n## %c%s\n\n%s\n\n", toupper((unsigned char)row->name[0]),
                          row->name + 1, row->help);
            continue;
        }
        if (i > 0 && config_text_is_file_of(row, &config_rows[i - 1]))
            continue;
        buffer_printf(buffer, "- `%s`", row->name);
        if (i + 1 < config_row_count && config_text_is_file_of(row + 1, row))
            buffer_printf(buffer, ", `%s`", row[1].name);
        config_text_append_values(buffer, row);
        buffer_printf(buffer, ": %s\n", row->help);
    }
}

void config_format_example(struct buffer *buffer)
{
    buffer_append_text(buffer, "# Settings of tickwheeld. Each line that is commented out shows "
                               "the default.\n"
                               "# Start with: tickwheeld --config FILE\n");
    for (size_t i = 0; i < config_row_count; i++) {
        const struct config_row *row = &config_rows[i];

        if (row->type == CONFIG_TYPE_SECTION) {
            buffer_printf(buffer, "\n[%s]\n# %s\n", row->name, row->help);
            continue;
        }
        buffer_printf(buffer, "\n# %s (", row->help);
        config_row_format_limits(row, buffer);
        buffer_append_text(buffer, ")\n;");
        struct buffer value;
        buffer_init(&value);
        config_row_format_default(row, &value);
        config_text_append_setting(buffer, row->name, &value);
    }
}
