/* run.c - one run of the program: its verb, flags and settings. */
#include "cli/run.h"

#include "base/nearest.h"
#include "calendar/duration.h"
#include "cli/contexts.h"
#include "cli/verbs.h"
#include "sys/clock.h"
#include "sys/files.h"
#include "sys/process.h"

#include <curl/curl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RUN_TIMEOUT_MS_DEFAULT 60000
#define RUN_TIMEOUT_MS_MAX     (24 * 3600 * 1000)

/* ---- settings ---- */

static enum error_code run_read_timeout(struct cli *cli, struct error *ret_error)
{
    const char *text = cli_flag(cli, CLI_FLAG_TIMEOUT);
    uint64_t *ms = &cli->settings.timeout_ms;

    *ms = RUN_TIMEOUT_MS_DEFAULT;
    if (text && (duration_parse(bytes_of(text), ms, NULL) || *ms < 1 || *ms > RUN_TIMEOUT_MS_MAX))
        return error_set(ret_error, ERROR_INVALID, "--timeout takes a duration up to 24h, as 90s");
    return ERROR_NONE;
}

/* Sets a setting from its flag; if that was not given, from its environment variable. */
static enum error_code run_read_setting(struct cli *cli, enum cli_setting setting,
                                        bool has_variables, struct error *ret_error)
{
    static const struct {
        enum cli_flag_id flag;
        const char *variables[2];
    } sources[] = {
#define X(name, text, variable, other) {CLI_FLAG_##name, {variable, other}},
        CLI_SETTING_LIST(X)
#undef X
    };
    const char *flag = cli_flag(cli, sources[setting].flag), *value = flag;
    const bool is_file = setting >= CLI_SETTING_TOKEN_FILE && setting <= CLI_SETTING_CLIENT_KEY;

    for (size_t i = 0; i < 2 && has_variables && !(value && *value); i++)
        value = getenv(sources[setting].variables[i]);
    if (!(flag || (value && *value)))
        return ERROR_NONE;
    if (flag && is_file && !files_exists(flag))
        return error_set(ret_error, ERROR_INVALID, "--%s: there is no file %s",
                         cli_flag_row(sources[setting].flag)->name, flag);
    return cli_settings_set(&cli->settings, setting, bytes_of(value), ret_error);
}

static enum error_code run_read_token_file(struct cli_settings *settings, struct error *ret_error)
{
    struct buffer text;
    struct error error;

    if (!*settings->token_file)
        return ERROR_NONE;
    buffer_init(&text);
    enum error_code code = files_read(settings->token_file, CLI_CONFIG_BYTES_MAX, &text, ret_error);
    if (!code && cli_settings_read_token(settings, buffer_bytes(&text), &error))
        code = error_set(ret_error, ERROR_INVALID, "%s: %s", settings->token_file, error.text);
    buffer_deinit(&text);
    return code;
}

/* If another URL was given, drops the token and certificate that a file has for its daemon.
 * Otherwise a typing error in the URL would reveal the token to another server. */
static void run_keep_from_others(struct cli_settings *settings, const char *url)
{
    if (!*url || strcmp(url, settings->url) == 0)
        return;
    if (*settings->token || *settings->token_file || *settings->client_cert)
        cli_complain(CLI_EXIT_DONE, "the token and certificate for %s are not sent to %s", url,
                     settings->url);
    *settings->token = *settings->token_file = '\0';
    *settings->client_cert = *settings->client_key = '\0';
}

/* Stronger sources are read later. A context that a flag names replaces the environment, except for
 * ca_file if the context has none. The verb context repairs files, so it uses only flags. The token
 * of a flag is wiped from the arguments, because other users of the machine can list these. */
static enum error_code run_read_settings(struct cli *cli, struct error *ret_error)
{
    const bool is_mending = cli->verb->run == contexts_run;
    const char *flag = cli_flag(cli, CLI_FLAG_CONTEXT), *variable = getenv("TICKWHEEL_CONTEXT");
    const char *name = flag ? flag : variable && *variable ? variable : NULL;
    struct cli_settings *settings = &cli->settings;
    enum error_code code = is_mending ? ERROR_NONE : contexts_read(settings, name, ret_error);
    char url[sizeof(settings->url)];

    snprintf(url, sizeof(url), "%s", settings->url); /* the URL from a file */
    for (enum cli_setting i = 0; i < CLI_SETTING_COUNT && !code; i++) {
        const bool has_variables =
            !is_mending && (!flag || (i == CLI_SETTING_CA_FILE && !*settings->ca_file));
        code = run_read_setting(cli, i, has_variables, ret_error);
        if (i == CLI_SETTING_URL && !code)
            run_keep_from_others(settings, url);
    }
    for (size_t i = 0; i < cli->options.given_count; i++)
        if (cli->options.given[i].flag == CLI_FLAG_TOKEN)
            memset(cli->options.given[i].value, 'x', strlen(cli->options.given[i].value));
    if (!code && !is_mending)
        code = run_read_token_file(settings, ret_error);
    if (!code && !*settings->url)
        code = cli_settings_set(settings, CLI_SETTING_URL, BYTES(CLI_URL_DEFAULT), ret_error);
    return code ? code : run_read_timeout(cli, ret_error);
}

/* True if the environment names a locale without UTF-8, such as C. If it names none, as in many
 * containers, UTF-8 is assumed. */
static bool run_is_ascii(void)
{
    static const char *const variables[] = {"LC_ALL", "LC_CTYPE", "LANG"}; /* the strongest first */
    const char *locale = NULL;

    for (size_t i = 0; i < 3 && !(locale && *locale); i++)
        locale = getenv(variables[i]);
    return locale && *locale && !strcasestr(locale, "utf-8") && !strcasestr(locale, "utf8");
}

static void run_read_terminal(struct cli *cli)
{
    const char *when = cli_flag(cli, CLI_FLAG_COLOR), *off = getenv("NO_COLOR");

    cli->is_ascii = run_is_ascii();
    cli->is_terminal = process_is_terminal(STDOUT_FILENO);
    cli->is_coloured = cli->is_terminal && !(off && *off);
    if (when && strcmp(when, "auto") != 0)
        cli->is_coloured = strcmp(when, "always") == 0;
}

/* ---- the run ---- */

/* Returns the verb for a word that other programs have for it; NULL for other words. */
static const char *run_verb_of_word(const char *word)
{
    static const char *const words[][2] = {
        {"create", "add"},    {"new", "add"},       {"delete", "cancel"}, {"remove", "cancel"},
        {"rm", "cancel"},     {"ls", "list"},       {"show", "get"},      {"describe", "get"},
        {"update", "change"}, {"status", "health"}, {"ping", "health"},   {"logs", "log"},
    };

    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
        if (strcmp(words[i][0], word) == 0)
            return words[i][1];
    return NULL;
}

static enum cli_exit run_refuse_verb(const char *name)
{
    struct nearest nearest = nearest_to(bytes_of(name));
    const char *other = run_verb_of_word(name);

    if (*name == '-')
        return cli_complain(CLI_EXIT_USAGE, "there is no verb; tickwheel help lists them");
    for (size_t i = 0; i < CLI_VERB_COUNT; i++)
        nearest_try(&nearest, CLI_VERBS[i].name);
    if (other || nearest.name)
        return cli_complain(CLI_EXIT_USAGE, "\"%s\" is no verb: did you mean %s?", name,
                            other ? other : nearest.name);
    return cli_complain(CLI_EXIT_USAGE, "\"%s\" is no verb; tickwheel help lists them", name);
}

static enum cli_exit run_help(struct cli *cli, const char *name)
{
    const struct cli_verb *verb = name ? verbs_find(name) : NULL;

    if (name && !verb)
        return run_refuse_verb(name);
    run_read_terminal(cli);
    if (verb)
        help_append_verb(&cli->out, cli_style(cli), verb);
    else
        help_append_overview(&cli->out, cli_style(cli));
    return CLI_EXIT_DONE;
}

static enum cli_exit run_run_verb(struct cli *cli, int argc, char **argv)
{
    struct error error = {.text = "out of memory"};

    cli->verb = verbs_find(argv[1]);
    if (!cli->verb)
        return run_refuse_verb(argv[1]);
    if (cli_options_read(cli->verb, argc - 2, argv + 2, &cli->options, &error))
        return cli_complain(CLI_EXIT_USAGE, "%s; tickwheel %s --help has examples", error.text,
                            cli->verb->name);
    if (cli_flag(cli, CLI_FLAG_HELP))
        return run_help(cli, cli->verb->name);
    if (run_read_settings(cli, &error))
        return cli_complain(CLI_EXIT_USAGE, "%s", error.text);
    cli_options_settle_times(&cli->options, wall_now());
    run_read_terminal(cli);
    return cli->verb->run(cli);
}

int run_program(int argc, char **argv)
{
    struct cli *cli = calloc(1, sizeof(*cli));

    if (!cli)
        return cli_complain(CLI_EXIT_FAILED, "out of memory");
    cli_options_move_verb(argc, argv);
    const char *first = argc > 1 ? argv[1] : "help";
    enum cli_exit code;
    if (strcmp(first, "help") == 0 || strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0)
        code = run_help(cli, argc > 2 ? argv[2] : NULL);
    else if (strcmp(first, "--version") == 0)
        code = run_run_verb(cli, 2, (char *[]){argv[0], (char[]){"version"}, NULL});
    else
        code = run_run_verb(cli, argc, argv);
    if (!cli_flush(cli) && code == CLI_EXIT_DONE)
        code = CLI_EXIT_FAILED;
    if (cli->has_signals)
        signals_close(&cli->signals);
    curl_easy_cleanup(cli->curl);
    buffer_deinit(&cli->out);
    free(cli);
    return code;
}
