/* pages.c - completion for shells and manual pages, made from the table of verbs. */
#include "cli/client.h"
#include "cli/verbs.h"
#include "sys/files.h"

#include <ctype.h>
#include <stdio.h>

/* ---- both ---- */

/* Calls `each` for the flags of a verb, then for those that all verbs take. */
static void pages_each_flag(const struct cli_verb *verb,
                            void (*each)(struct buffer *out, const struct cli_verb *verb,
                                         const struct cli_flag_use *use),
                            struct buffer *out)
{
    const struct cli_flag_use *const lists[] = {verb->uses, CLI_FLAGS_COMMON};

    for (size_t i = 0; i < 2; i++)
        for (const struct cli_flag_use *use = lists[i]; use->meaning; use++)
            each(out, verb, use);
}

/* Appends the words that the first argument of a verb can be, "list|groups", separated by blanks.
 * Appends nothing if it can be any text. */
static void pages_append_words(struct buffer *out, const struct cli_verb *verb)
{
    struct bytes rest = bytes_of(verb->arguments), first;

    if (!bytes_next_word(&rest, &first) || !memchr(first.data, '|', first.size))
        return;
    while (first.size > 0) {
        buffer_append_text(out, " ");
        buffer_append_bytes(out, bytes_cut(&first, '|'));
    }
}

/* Returns the command that prints the possible values of an argument or flag, one in each line.
 * NULL if they are not known. */
static const char *pages_command_of(const char *text)
{
    static const struct {
        const char *word, *command;
    } commands[] = {
        {"KEY", "tickwheel list --limit 1000 -o keys"},
        {"QUEUE", "tickwheel queues -o ids"},
        {"TARGET", "tickwheel targets -o ids"},
        {"CONTEXT", "tickwheel context -o ids"},
        {"ZONE", "grep -v coordinates /usr/share/zoneinfo/zone1970.tab | cut -sf3"},
    };

    for (size_t i = 0; text && i < sizeof(commands) / sizeof(*commands); i++) {
        const char *at = strstr(text, commands[i].word);

        if (at && (at == text || !isupper((unsigned char)at[-1])) &&
            !isupper((unsigned char)at[strlen(commands[i].word)]))
            return commands[i].command;
    }
    return NULL;
}

/* Appends the text for use within single quotes of a shell. Each character of `special` gets a
 * backslash. */
static void pages_append_escaped(struct buffer *out, const char *text, const char *special)
{
    for (; *text; text++) {
        if (*text == '\'')
            buffer_append_text(out, "'\\''");
        else
            buffer_printf(out, strchr(special, *text) ? "\\%c" : "%c", *text);
    }
}

/* ---- bash ----
 *
 * `words` has the words of these tables, with blanks between; `found` what the daemon has, a line
 * each. A key holds whatever a client chose, so bash must neither split nor expand it: compgen -W
 * would. */

static void pages_bash_flag(struct buffer *out, const struct cli_verb *verb,
                            const struct cli_flag_use *use)
{
    (void)verb;
    buffer_printf(out, " --%s", cli_flag_row(use->flag)->name);
}

static void pages_append_bash(struct buffer *out)
{
    buffer_append_text(out, "_tickwheel() {\n"
                            "    local cur=${COMP_WORDS[COMP_CWORD]} words= found= word\n"
                            "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
                            "        words='");
    for (size_t i = 0; i < CLI_VERB_COUNT; i++)
        buffer_printf(out, "%s ", CLI_VERBS[i].name);
    buffer_append_text(out, "help'\n    else\n        case ${COMP_WORDS[COMP_CWORD - 1]} in\n");
    for (enum cli_flag_id flag = 0; flag < CLI_FLAG_COUNT; flag++) {
        const struct cli_flag *row = cli_flag_row(flag);

        const char *command = pages_command_of(row->value);

        if (!row->choices && !command)
            continue;
        buffer_printf(out, "        --%s", row->name);
        if (row->letter)
            buffer_printf(out, " | -%c", row->letter);
        if (row->choices)
            buffer_printf(out, ") words='%s' ;;\n", row->choices);
        else
            buffer_printf(out, ") found=$(%s 2>/dev/null) ;;\n", command);
    }
    buffer_append_text(out, "        *)\n            case ${COMP_WORDS[1]} in\n");
    for (size_t i = 0; i < CLI_VERB_COUNT; i++) {
        buffer_printf(out, "            %s) words='", CLI_VERBS[i].name);
        pages_append_words(out, &CLI_VERBS[i]);
        pages_each_flag(&CLI_VERBS[i], pages_bash_flag, out);
        buffer_append_text(out, "'");
        if (pages_command_of(CLI_VERBS[i].arguments))
            buffer_printf(out, "\n                [[ $cur == -* ]] || found=$(%s 2>/dev/null)",
                          pages_command_of(CLI_VERBS[i].arguments));
        buffer_append_text(out, " ;;\n");
    }
    buffer_append_text(out, "            esac ;;\n        esac\n    fi\n"
                            "    COMPREPLY=()\n"
                            "    while IFS= read -r word; do\n"
                            "        [[ -n $word && $word == \"$cur\"* ]] &&\n"
                            "            COMPREPLY+=(\"$(printf %q \"$word\")\")\n"
                            "    done <<<\"${words// /$'\\n'}\"$'\\n'\"$found\"\n"
                            "}\ncomplete -o default -F _tickwheel tickwheel\n");
}

/* ---- zsh ---- */

/* Appends how a value is completed: by its command, or as the name of a file. */
static void pages_append_zsh_action(struct buffer *out, const char *value)
{
    const char *command = pages_command_of(value);

    if (command)
        buffer_printf(out, "{compadd -- ${(f)\"$(%s 2>/dev/null)\"}}", command);
    else if (value)
        buffer_append_text(out, "_files");
}

static void pages_zsh_flag(struct buffer *out, const struct cli_verb *verb,
                           const struct cli_flag_use *use)
{
    const struct cli_flag *row = cli_flag_row(use->flag);

    (void)verb;
    for (unsigned form = row->letter ? 0 : 1; form < 2; form++) {
        if (form)
            buffer_printf(out, " \\\n            '*--%s%s[", row->name, row->value ? "=" : "");
        else
            buffer_printf(out, " \\\n            '*-%c%s[", row->letter, row->value ? "+" : "");
        pages_append_escaped(out, use->meaning, "[]:");
        buffer_append_text(out, "]");
        if (row->value)
            buffer_printf(out, ":%s:", row->value);
        if (row->choices)
            buffer_printf(out, "(%s)", row->choices);
        else
            pages_append_zsh_action(out, row->value);
        buffer_append_text(out, "'");
    }
}

static void pages_append_zsh(struct buffer *out)
{
    buffer_append_text(out, "#compdef tickwheel\n\n_tickwheel() {\n"
                            "    local -a verbs\n"
                            "    if (( CURRENT == 2 )); then\n        verbs=(\n");
    for (size_t i = 0; i < CLI_VERB_COUNT; i++) {
        buffer_printf(out, "            '%s:", CLI_VERBS[i].name);
        pages_append_escaped(out, CLI_VERBS[i].summary, "");
        buffer_append_text(out, "'\n");
    }
    buffer_append_text(out, "        )\n        _describe verb verbs\n        return\n    fi\n"
                            "    local verb=$words[2]\n    shift words\n    (( CURRENT-- ))\n"
                            "    case $verb in\n");
    for (size_t i = 0; i < CLI_VERB_COUNT; i++) {
        struct buffer words;

        buffer_init(&words);
        pages_append_words(&words, &CLI_VERBS[i]);
        buffer_printf(out, "    %s)\n        _arguments", CLI_VERBS[i].name);
        if (words.size)
            buffer_printf(out, " '1:word:(%s)'", cli_text(&words));
        pages_each_flag(&CLI_VERBS[i], pages_zsh_flag, out);
        buffer_append_text(out, " \\\n            '*: :");
        pages_append_zsh_action(out, CLI_VERBS[i].arguments);
        buffer_append_text(out, "' ;;\n");
        buffer_deinit(&words);
    }
    buffer_append_text(out, "    esac\n}\n\n_tickwheel \"$@\"\n");
}

/* ---- fish ---- */

static void pages_fish_flag(struct buffer *out, const struct cli_verb *verb,
                            const struct cli_flag_use *use)
{
    const struct cli_flag *row = cli_flag_row(use->flag);

    buffer_printf(out, "complete -c tickwheel -n '__fish_seen_subcommand_from %s' -l %s",
                  verb->name, row->name);
    if (row->letter)
        buffer_printf(out, " -s %c", row->letter);
    if (row->choices)
        buffer_printf(out, " -x -a '%s'", row->choices);
    else if (pages_command_of(row->value))
        buffer_printf(out, " -x -a '(%s 2>/dev/null)'", pages_command_of(row->value));
    else if (row->value)
        buffer_append_text(out, " -r");
    buffer_append_text(out, " -d '");
    pages_append_escaped(out, use->meaning, "");
    buffer_append_text(out, "'\n");
}

static void pages_append_fish(struct buffer *out)
{
    for (size_t i = 0; i < CLI_VERB_COUNT; i++) {
        struct buffer words;

        buffer_init(&words);
        pages_append_words(&words, &CLI_VERBS[i]);
        buffer_printf(out, "complete -c tickwheel -n __fish_use_subcommand -f -a %s -d '",
                      CLI_VERBS[i].name);
        pages_append_escaped(out, CLI_VERBS[i].summary, "");
        buffer_append_text(out, "'\n");
        if (words.size)
            buffer_printf(out,
                          "complete -c tickwheel -n '__fish_seen_subcommand_from %s' -f -a '%s'\n",
                          CLI_VERBS[i].name, cli_text(&words) + 1);
        if (pages_command_of(CLI_VERBS[i].arguments))
            buffer_printf(out,
                          "complete -c tickwheel -n '__fish_seen_subcommand_from %s' -f -a '(%s "
                          "2>/dev/null)'\n",
                          CLI_VERBS[i].name, pages_command_of(CLI_VERBS[i].arguments));
        pages_each_flag(&CLI_VERBS[i], pages_fish_flag, out);
        buffer_deinit(&words);
    }
}

enum cli_exit pages_completion(struct cli *cli)
{
    const char *shell = cli->options.arguments[0];

    if (strcmp(shell, "bash") == 0)
        pages_append_bash(&cli->out);
    else if (strcmp(shell, "zsh") == 0)
        pages_append_zsh(&cli->out);
    else if (strcmp(shell, "fish") == 0)
        pages_append_fish(&cli->out);
    else
        return cli_complain(CLI_EXIT_USAGE, "there is completion for bash, zsh and fish");
    return CLI_EXIT_DONE;
}

/* ---- manual pages ---- */

/* Appends text for roff: backslashes and minus signs are escaped, and so is the beginning of a line
 * that would be a request. */
static void pages_append_roff(struct buffer *out, const char *text)
{
    bool is_start = true;

    for (; *text; text++) {
        if (is_start && (*text == '.' || *text == '\''))
            buffer_append_text(out, "\\&");
        if (*text == '\\')
            buffer_append_text(out, "\\e");
        else
            buffer_printf(out, *text == '-' ? "\\-" : *text == '\'' ? "\\(aq" : "%c", *text);
        is_start = *text == '\n';
    }
}

/* Appends paragraphs, which an empty line separates in the text. */
static void pages_append_paragraphs(struct buffer *out, const char *text)
{
    struct bytes rest = bytes_of(text);

    while (rest.size > 0) {
        struct bytes line = bytes_cut(&rest, '\n');
        struct buffer copy;

        buffer_init(&copy);
        buffer_append_bytes(&copy, line);
        if (line.size)
            pages_append_roff(out, cli_text(&copy));
        buffer_append_text(out, line.size ? "\n" : ".PP\n");
        buffer_deinit(&copy);
    }
}

static void pages_man_flag(struct buffer *out, const struct cli_verb *verb,
                           const struct cli_flag_use *use)
{
    const struct cli_flag *row = cli_flag_row(use->flag);

    (void)verb;
    buffer_append_text(out, ".TP\n.B ");
    if (row->letter)
        buffer_printf(out, "\\-%c, ", row->letter);
    buffer_append_text(out, "\\-\\-");
    pages_append_roff(out, row->name);
    if (row->value)
        buffer_printf(out, "\\fR \\fI%s\\fR", row->value);
    buffer_append_text(out, "\n");
    pages_append_roff(out, use->meaning);
    if (row->choices)
        buffer_printf(out, " (%s)", row->choices);
    buffer_append_text(out, "\n");
}

static void pages_append_head(struct buffer *out, const char *name, const char *summary)
{
    buffer_append_text(out, ".TH ");
    for (const char *at = name; *at; at++)
        buffer_printf(out, "%c", *at >= 'a' && *at <= 'z' ? *at - 'a' + 'A' : *at);
    buffer_append_text(out, " 1 \"\" \"tickwheel " TICKWHEEL_VERSION "\" \"Tickwheel\"\n"
                            ".SH NAME\n");
    pages_append_roff(out, name);
    buffer_append_text(out, " \\- ");
    pages_append_roff(out, summary);
    buffer_append_text(out, "\n.SH SYNOPSIS\n");
}

static void pages_append_verb(struct buffer *out, const struct cli_verb *verb)
{
    char name[64];

    snprintf(name, sizeof(name), "tickwheel-%s", verb->name);
    pages_append_head(out, name, verb->summary);
    buffer_printf(out, ".B tickwheel %s\n", verb->name);
    pages_append_roff(out, verb->arguments);
    buffer_append_text(out, "\n[FLAGS]\n.SH DESCRIPTION\n");
    pages_append_roff(out, verb->summary);
    buffer_append_text(out, ".\n");
    if (verb->about) {
        buffer_append_text(out, ".PP\n");
        pages_append_paragraphs(out, verb->about);
    }
    buffer_append_text(out, ".SH OPTIONS\n");
    pages_each_flag(verb, pages_man_flag, out);
    buffer_append_text(out, ".SH EXAMPLES\n.nf\n");
    pages_append_roff(out, verb->examples);
    buffer_append_text(out, "\n.fi\n.SH SEE ALSO\n.BR tickwheel (1)\n");
}

static void pages_append_overview(struct buffer *out)
{
    pages_append_head(out, "tickwheel", "schedule timers with tickwheeld, and work with them");
    buffer_append_text(out, ".B tickwheel\nVERB [ARGUMENTS] [FLAGS]\n.SH VERBS\n");
    for (size_t i = 0; i < CLI_VERB_COUNT; i++) {
        buffer_printf(out, ".TP\n.BR tickwheel\\-%s (1)\n", CLI_VERBS[i].name);
        pages_append_roff(out, CLI_VERBS[i].summary);
        buffer_append_text(out, ".\n");
    }
    buffer_append_text(out, ".SH EXIT STATUS\n");
#define X(name, code, meaning)                \
    buffer_printf(out, ".TP\n.B %d\n", code); \
    pages_append_roff(out, meaning);          \
    buffer_append_text(out, "\n");
    CLI_EXIT_LIST(X)
#undef X
    buffer_append_text(out, ".SH ENVIRONMENT\n.TP\n.B TICKWHEEL_URL\n"
                            "the daemon, " CLI_URL_DEFAULT " by default\n"
                            ".TP\n.B TICKWHEEL_TOKEN\nthe token\n"
                            ".TP\n.B TICKWHEEL_CONTEXT\nthe context, unless a flag names one\n"
                            ".TP\n.BR CURL_CA_BUNDLE , \" SSL_CERT_FILE\"\n"
                            "a PEM file of the authorities to trust, for https\n"
                            ".TP\n.B NO_COLOR\nno colours on a terminal\n.SH FILES\n.TP\n"
                            ".I ~/.config/tickwheel/config\n"
                            "lines of url, token, token_file, ca_file, client_cert, client_key and "
                            "output, each with = and a value\n"
                            ".TP\n.I ~/.config/tickwheel/contexts/NAME\n"
                            "the same of a context\n");
}

/* Writes the page tickwheel-VERB.1; the overview if `verb` is NULL. */
static enum cli_exit pages_write(const char *folder, const struct cli_verb *verb)
{
    char path[4096];
    struct buffer page;
    struct error error = {.text = "out of memory"};

    buffer_init(&page);
    if (verb)
        pages_append_verb(&page, verb);
    else
        pages_append_overview(&page);
    snprintf(path, sizeof(path), "%s/tickwheel%s%s.1", folder, verb ? "-" : "",
             verb ? verb->name : "");
    bool has_failed = buffer_failed(&page) || files_write(path, buffer_bytes(&page), &error);
    buffer_deinit(&page);
    return has_failed ? cli_complain(CLI_EXIT_FAILED, "%s", error.text) : CLI_EXIT_DONE;
}

enum cli_exit pages_manual(struct cli *cli)
{
    const char *folder = cli->options.arguments[0];
    struct error error;

    if (files_make_folder(folder, &error))
        return cli_complain(CLI_EXIT_FAILED, "%s", error.text);
    enum cli_exit code = pages_write(folder, NULL);
    for (size_t i = 0; i < CLI_VERB_COUNT && !code; i++)
        code = pages_write(folder, &CLI_VERBS[i]);
    return code;
}
