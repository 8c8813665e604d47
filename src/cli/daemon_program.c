/* daemon_program.c - finds the program of the daemon; and the verb check, which runs it. */
#include "cli/daemon_program.h"

#include "cli/verbs.h"
#include "sys/files.h"
#include "sys/process.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DAEMON_PROGRAM_LOOK_MS 50 /* interval of checks whether the program has ended */

void daemon_program_find(char *path, size_t size)
{
    ssize_t length = readlink("/proc/self/exe", path, size - sizeof("tickwheeld"));
    char *slash = NULL;

    if (length > 0) {
        path[length] = '\0';
        slash = strrchr(path, '/');
    }
    if (slash)
        memcpy(slash + 1, "tickwheeld", sizeof("tickwheeld"));
    if (!slash || !files_exists(path))
        snprintf(path, size, "tickwheeld");
}

/* Prints the output of tickwheeld --check, or --check-json, and returns its exit code. */
enum cli_exit check_run(struct cli *cli)
{
    char path[PATH_MAX];
    char *arguments[] = {
        path, cli->settings.form == CLI_FORM_JSON ? (char[]){"--check-json"} : (char[]){"--check"},
        cli->options.arguments[0], NULL};
    struct process_child daemon;
    struct error error;
    int code = 0;
    bool is_stopped = false;
    enum cli_exit caught = cli_catch_signals(cli);

    if (caught)
        return caught;
    daemon_program_find(path, sizeof(path));
    if (process_start(arguments, environ, PROCESS_IS_BOUND, &daemon, &error))
        return cli_complain(CLI_EXIT_FAILED, "%s", error.text);
    /* closes the input, because the daemon reads none */
    process_write(&daemon, (struct bytes){"", 0});
    while (!process_ended(&daemon, &code))
        if (!is_stopped && !cli_wait(cli, DAEMON_PROGRAM_LOOK_MS)) {
            is_stopped = true;
            process_stop(&daemon);
        }
    if (is_stopped)
        return CLI_EXIT_STOPPED;
    return code == 0 ? CLI_EXIT_DONE : code == 2 ? CLI_EXIT_USAGE : CLI_EXIT_FAILED;
}
