/* run.c - one run of the program: its verb, flags and settings. */
#include "cli/run.h"

#include "base/nearest.h"
#include "calendar/duration.h"
#include "cli/verbs.h"
#include "sys/files.h"
#include "sys/process.h"

#include <curl/curl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define RUN_TIMEOUT_MS_DEFAULT 60000
#define RUN_TIMEOUT_MS_MAX     (24 * 3600 * 1000)

/* ---- settings ---- */

static enum error_code run_read_config(struct cli_settings *settings, struct error *ret_error)
{
    const char *folder = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    char path[PATH_MAX];

    if (folder && *folder)
        snprintf(path, sizeof(path), "%s/tickwheel/config", folder);
    else if (home && *home)
        snprintf(path, sizeof(path), "%s/.config/tickwheel/config", home);
    else
        return ERROR_NONE;
    if (!files_exists(path))
        return ERROR_NONE;
    struct buffer text;
    buffer_init(&text);
    enum error_code code = files_read(path, CLI_CONFIG_BYTES_MAX, &text, ret_error);
    if (!code)
        code = cli_settings_read(settings, buffer_bytes(&text), path, ret_error);
    if (!code && *settings->token && !files_is_private(path))
        cli_complain(CLI_EXIT_DONE, "other users may read the token in %s: chmod 600 it", path);
    buffer_deinit(&text);
    return code;
}

static enum error_code run_read_timeout(struct cli *cli, struct error *ret_error)
{
    const char *text = cli_flag(cli, CLI_FLAG_TIMEOUT);
    uint64_t *ms = &cli->settings.timeout_ms;

    *ms = RUN_TIMEOUT_MS_DEFAULT;
    if (text && (duration_parse(bytes_of(text), ms, NULL) || *ms < 1 || *ms > RUN_TIMEOUT_MS_MAX))
        return error_set(ret_error, ERROR_INVALID, "--timeout takes a duration up to 24h, as 90s");
    return ERROR_NONE;
}

/* The authorities to trust: by the flag, or the variables by which curl and OpenSSL know them. */
static enum error_code run_read_ca_file(struct cli *cli, struct error *ret_error)
{
    struct cli_settings *settings = &cli->settings;
    const char *const names[] = {cli_flag(cli, CLI_FLAG_CA_FILE), getenv("CURL_CA_BUNDLE"),
                                 getenv("SSL_CERT_FILE")};
    enum error_code code = ERROR_NONE;

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (names[i] && *names[i]) {
            code = cli_settings_set_ca_file(settings, bytes_of(names[i]), ret_error);
            break;
        }
    if (!code && cli_flag(cli, CLI_FLAG_CA_FILE) && !files_exists(settings->ca_file))
        return error_set(ret_error, ERROR_INVALID, "--ca-file: there is no file %s",
                         settings->ca_file);
    return code;
}

/* The stronger source is read later. The token of a flag is wiped from the arguments, which other
 * users of the machine can list. */
static enum error_code run_read_settings(struct cli *cli, struct error *ret_error)
{
    struct cli_settings *settings = &cli->settings;
    const char *url = getenv("TICKWHEEL_URL"), *token = getenv("TICKWHEEL_TOKEN");
    const char *form = cli_flag(cli, CLI_FLAG_OUTPUT);
    enum error_code code = run_read_config(settings, ret_error);

    if (cli_flag(cli, CLI_FLAG_URL))
        url = cli_flag(cli, CLI_FLAG_URL);
    if (cli_flag(cli, CLI_FLAG_TOKEN))
        token = cli_flag(cli, CLI_FLAG_TOKEN);
    if (!code && url && *url)
        code = cli_settings_set_url(settings, bytes_of(url), ret_error);
    if (!code && token && *token)
        code = cli_settings_set_token(settings, bytes_of(token), ret_error);
    if (!code && form)
        code = cli_settings_set_form(settings, bytes_of(form), ret_error);
    if (!code && !*settings->url)
        code = cli_settings_set_url(settings, BYTES(CLI_URL_DEFAULT), ret_error);
    for (size_t i = 0; i < cli->options.given_count; i++)
        if (cli->options.given[i].flag == CLI_FLAG_TOKEN)
            memset(cli->options.given[i].value, 'x', strlen(cli->options.given[i].value));
    if (!code)
        code = run_read_ca_file(cli, ret_error);
    return code ? code : run_read_timeout(cli, ret_error);
}

static void run_read_terminal(struct cli *cli)
{
    const char *when = cli_flag(cli, CLI_FLAG_COLOR), *off = getenv("NO_COLOR");

    cli->is_terminal = process_is_terminal(STDOUT_FILENO);
    cli->is_coloured = cli->is_terminal && !(off && *off);
    if (when && strcmp(when, "auto") != 0)
        cli->is_coloured = strcmp(when, "always") == 0;
}

/* ---- the run ---- */

static enum cli_exit run_refuse_verb(const char *name)
{
    struct nearest nearest = nearest_to(bytes_of(name));

    if (*name == '-')
        return cli_complain(CLI_EXIT_USAGE, "there is no verb; tickwheel help lists them");
    for (size_t i = 0; i < CLI_VERB_COUNT; i++)
        nearest_try(&nearest, CLI_VERBS[i].name);
    if (nearest.name)
        return cli_complain(CLI_EXIT_USAGE, "\"%s\" is no verb: did you mean %s?", name,
                            nearest.name);
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
