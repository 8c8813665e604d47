/* help.c - the help of the program, made from the table of verbs. */
#include "cli/verbs.h"

#include <stdio.h>

static void help_append_flag_name(struct buffer *out, const struct cli_flag *flag)
{
    if (flag->letter)
        buffer_printf(out, "-%c, ", flag->letter);
    buffer_printf(out, "--%s", flag->name);
    if (flag->value)
        buffer_printf(out, " %s", flag->value);
}

static void help_append_flags(struct buffer *out, enum screen_style style,
                              const struct cli_flag_use *uses)
{
    struct screen_table table;
    struct buffer cell;

    screen_table_init(&table, 3);
    buffer_init(&cell);
    for (; uses->meaning; uses++) {
        const struct cli_flag *flag = cli_flag_row(uses->flag);

        buffer_clear(&cell);
        help_append_flag_name(&cell, flag);
        screen_table_add(&table, SCREEN_PLAIN, (struct bytes){"", 0});
        screen_table_add(&table, SCREEN_BOLD, buffer_bytes(&cell));
        buffer_clear(&cell);
        buffer_append_text(&cell, uses->meaning);
        if (flag->choices)
            buffer_printf(&cell, " (%s)", flag->choices);
        screen_table_add(&table, SCREEN_PLAIN, buffer_bytes(&cell));
    }
    screen_table_append(&table, style, out);
    buffer_deinit(&cell);
    screen_table_deinit(&table);
}

static void help_append_head(struct buffer *out, enum screen_style style, const char *text)
{
    buffer_append_text(out, "\n");
    screen_append_coloured(out, style, SCREEN_BOLD, bytes_of(text));
    buffer_append_text(out, "\n");
}

/* Appends the lines of the examples, indented by two blanks. */
static void help_append_examples(struct buffer *out, const char *examples)
{
    for (struct bytes rest = bytes_of(examples); rest.size > 0;) {
        buffer_append_text(out, "  ");
        buffer_append_bytes(out, bytes_cut(&rest, '\n'));
        buffer_append_text(out, "\n");
    }
}

void help_append_verb(struct buffer *out, enum screen_style style, const struct cli_verb *verb)
{
    buffer_printf(out, "%s.\n", verb->summary);
    help_append_head(out, style, "Usage");
    buffer_printf(out, "  tickwheel %s%s%s [FLAGS]\n", verb->name, *verb->arguments ? " " : "",
                  verb->arguments);
    if (verb->about)
        buffer_printf(out, "\n%s\n", verb->about);
    help_append_head(out, style, "Examples");
    help_append_examples(out, verb->examples);
    if (verb->uses->meaning) {
        help_append_head(out, style, "Flags");
        help_append_flags(out, style, verb->uses);
    }
    help_append_head(out, style, "Flags of every verb");
    help_append_flags(out, style, CLI_FLAGS_COMMON);
}

void help_append_overview(struct buffer *out, enum screen_style style)
{
    struct screen_table table;
    char number[16];

    buffer_append_text(out, "tickwheel schedules timers with tickwheeld, and works with them.\n");
    help_append_head(out, style, "Usage");
    buffer_append_text(out, "  tickwheel VERB [ARGUMENTS] [FLAGS]\n"
                            "  tickwheel VERB --help\n");
    help_append_head(out, style, "Examples");
    help_append_examples(out, "tickwheel add 30m https://shop.example/recheck --payload "
                              "'{\"order\": 42}' --key order-42\n"
                              "tickwheel list --label team:checkout\n"
                              "tickwheel cancel --key order-42");
    help_append_head(out, style, "Verbs");
    screen_table_init(&table, 3);
    for (size_t i = 0; i < CLI_VERB_COUNT; i++) {
        screen_table_add(&table, SCREEN_PLAIN, (struct bytes){"", 0});
        screen_table_add(&table, SCREEN_BOLD, bytes_of(CLI_VERBS[i].name));
        screen_table_add(&table, SCREEN_PLAIN, bytes_of(CLI_VERBS[i].summary));
    }
    screen_table_append(&table, style, out);
    screen_table_deinit(&table);
    help_append_head(out, style, "Settings");
    buffer_append_text(
        out,
        "  The daemon is named by --url, TICKWHEEL_URL, a context (tickwheel context), or url in\n"
        "  ~/.config/tickwheel/config; the token by --token, --token-file, TICKWHEEL_TOKEN, and "
        "the\n"
        "  authorities to trust by --ca-file, CURL_CA_BUNDLE, SSL_CERT_FILE, or in these files.\n");
    help_append_head(out, style, "Exit codes");
    screen_table_init(&table, 3);
#define X(name, code, meaning)                                     \
    snprintf(number, sizeof(number), "%d", code);                  \
    screen_table_add(&table, SCREEN_PLAIN, (struct bytes){"", 0}); \
    screen_table_add(&table, SCREEN_BOLD, bytes_of(number));       \
    screen_table_add(&table, SCREEN_PLAIN, BYTES(meaning));
    CLI_EXIT_LIST(X)
#undef X
    screen_table_append(&table, style, out);
    screen_table_deinit(&table);
}
