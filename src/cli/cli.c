/* cli.c - what a verb says and asks, and the numbers of its flags. */
#include "cli/cli.h"

#include "base/number.h"
#include "calendar/duration.h"
#include "sys/process.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- what a verb says ---- */

/* Puts ASCII in place of the marks of tables. Other forms have the daemon's texts only. */
static void cli_put_ascii(struct cli *cli)
{
    struct buffer text;

    if (!cli->is_ascii || cli->settings.form != CLI_FORM_TABLE)
        return;
    buffer_init(&text);
    screen_append_ascii(&text, buffer_bytes(&cli->out));
    text.failed = text.failed || buffer_failed(&cli->out);
    buffer_deinit(&cli->out);
    cli->out = text;
}

bool cli_flush(struct cli *cli)
{
    cli_put_ascii(cli);
    size_t size = buffer_failed(&cli->out) ? 0 : cli->out.size;

    if (buffer_failed(&cli->out))
        cli_complain(CLI_EXIT_FAILED, "out of memory");
    if (size && !cli->is_broken &&
        (fwrite(cli->out.data, 1, size, stdout) != size || fflush(stdout) != 0)) {
        const int cause = errno;

        cli->is_broken = true;
        if (cause != EPIPE) /* a reader that ends early, such as head, is no error */
            cli_complain(CLI_EXIT_FAILED, "standard output cannot be written: %s", strerror(cause));
    }
    buffer_clear(&cli->out);
    return !cli->is_broken;
}

enum cli_exit cli_complain(enum cli_exit code, const char *format, ...)
{
    char text[4096];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    struct buffer line;
    buffer_init(&line);
    buffer_append_text(&line, "tickwheel: ");
    screen_append(&line, bytes_of(text));
    buffer_append_text(&line, "\n");
    fflush(stdout);
    if (!buffer_failed(&line))
        fwrite(line.data, 1, line.size, stderr);
    buffer_deinit(&line);
    return code;
}

enum cli_exit cli_confirm(struct cli *cli, const char *format, ...)
{
    char text[512], answer[16] = "";
    va_list arguments;

    if (cli_flag(cli, CLI_FLAG_YES))
        return CLI_EXIT_DONE;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (!process_is_terminal(STDIN_FILENO))
        return cli_complain(CLI_EXIT_USAGE, "%s Add --yes: without a terminal it cannot be asked",
                            text);
    screen_append(&cli->out, bytes_of(text));
    buffer_append_text(&cli->out, " [y/N] ");
    if (!cli_flush(cli) || !fgets(answer, sizeof(answer), stdin))
        return CLI_EXIT_STOPPED;
    return *answer == 'y' || *answer == 'Y' ? CLI_EXIT_DONE : CLI_EXIT_STOPPED;
}

enum cli_exit cli_catch_signals(struct cli *cli)
{
    struct error error;

    if (signals_open(&cli->signals, &error))
        return cli_complain(CLI_EXIT_FAILED, "%s", error.text);
    cli->has_signals = true;
    return CLI_EXIT_DONE;
}

bool cli_wait(struct cli *cli, uint64_t ms)
{
    return !cli->has_signals || signals_wait(&cli->signals, -1, ms) == 0;
}

enum cli_exit cli_flag_number(const struct cli *cli, enum cli_flag_id flag, uint64_t min,
                              uint64_t max, uint64_t otherwise, uint64_t *ret_number)
{
    const char *text = cli_flag(cli, flag);
    uint64_t number = otherwise;

    if (text && (!number_parse(bytes_of(text), 10, &number) || number < min || number > max))
        return cli_complain(CLI_EXIT_USAGE, "--%s takes a number from %llu to %llu",
                            cli_flag_row(flag)->name, (unsigned long long)min,
                            (unsigned long long)max);
    *ret_number = number;
    return CLI_EXIT_DONE;
}

enum cli_exit cli_flag_interval(const struct cli *cli, uint64_t otherwise_ms, uint64_t *ret_ms)
{
    const char *text = cli_flag(cli, CLI_FLAG_INTERVAL);

    *ret_ms = otherwise_ms;
    if (text && (duration_parse(bytes_of(text), ret_ms, NULL) || *ret_ms < 100))
        return cli_complain(CLI_EXIT_USAGE, "--interval takes a duration from 100ms on");
    return CLI_EXIT_DONE;
}
