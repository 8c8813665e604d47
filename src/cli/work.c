/* work.c - the verb work: runs a command for each item of a queue. */
#include "cli/value.h"
#include "cli/verbs.h"
#include "cli/worker.h"
#include "sys/process.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define WORK_EXIT_REFUSED  65  /* EX_DATAERR of sysexits.h */
#define WORK_EXIT_NONE     127 /* the command could not be started; the same code as in a shell */
#define WORK_ENVIRON_COUNT 3   /* number of variables that a command gets */

struct work_job {
    struct process_child child;
    struct buffer input; /* text for standard input of the command */
    size_t written;
};

struct work_jobs {
    struct cli *cli;
    struct work_job jobs[WORKER_JOBS_MAX];
};

/* Returns the environment for a command: the variables of the item, then those of this process. */
static char **work_environment(const struct bytes item, struct buffer texts[WORK_ENVIRON_COUNT])
{
    static const struct {
        const char *variable, *name;
    } variables[WORK_ENVIRON_COUNT] = {
        {"TICKWHEEL_ID=", "id"}, {"TICKWHEEL_ATTEMPT=", "attempt"}, {"TICKWHEEL_DUE=", "due"}};
    size_t count = 0;

    while (environ[count])
        count++;
    char **environment = calloc(count + WORK_ENVIRON_COUNT + 1, sizeof(*environment));
    for (size_t i = 0; i < WORK_ENVIRON_COUNT; i++) {
        buffer_init(&texts[i]);
        buffer_append_text(&texts[i], variables[i].variable);
        cli_append_value(&texts[i], cli_member(item, variables[i].name));
        cli_text(&texts[i]);
        if (environment)
            environment[i] = texts[i].data;
    }
    if (environment)
        memcpy(environment + WORK_ENVIRON_COUNT, environ, count * sizeof(*environ));
    return environment;
}

static enum cli_exit work_start_command(struct work_jobs *work, struct work_job *job,
                                        struct bytes item)
{
    struct buffer texts[WORK_ENVIRON_COUNT];
    char **environment = work_environment(item, texts);
    char **arguments = work->cli->options.arguments + 1;
    struct error error = {.text = "out of memory"};
    enum cli_exit code = CLI_EXIT_DONE;

    if (!environment || process_start(arguments, environment, PROCESS_IS_FREE, &job->child, &error))
        code = cli_complain(CLI_EXIT_USAGE, "%s", error.text);
    for (size_t i = 0; i < WORK_ENVIRON_COUNT; i++)
        buffer_deinit(&texts[i]);
    free(environment);
    return code;
}

static void work_set_outcome(int code, struct worker_outcome *ret_outcome)
{
    *ret_outcome = (struct worker_outcome){.result = code == 0                   ? WORKER_DONE
                                                     : code == WORK_EXIT_REFUSED ? WORKER_REFUSED
                                                                                 : WORKER_FAILED};
    if (code > 128)
        snprintf(ret_outcome->error, sizeof(ret_outcome->error),
                 "the command was ended by signal %d", code - 128);
    else
        snprintf(ret_outcome->error, sizeof(ret_outcome->error), "exit code %d", code);
}

static enum cli_exit work_start(void *context, size_t slot, struct bytes item,
                                struct worker_outcome *ret_outcome)
{
    struct work_jobs *work = context;
    struct work_job *job = &work->jobs[slot];

    job->written = 0;
    buffer_clear(&job->input);
    worker_append_body(item, &job->input);
    enum cli_exit code = buffer_failed(&job->input) ? cli_complain(CLI_EXIT_FAILED, "out of memory")
                                                    : work_start_command(work, job, item);
    if (code)
        work_set_outcome(WORK_EXIT_NONE, ret_outcome);
    return code;
}

static unsigned work_append_waits(void *context, size_t slot, struct pollfd *waits)
{
    const struct process_child *child = &((struct work_jobs *)context)->jobs[slot].child;
    unsigned count = 0;

    waits[count++] = (struct pollfd){.fd = child->ended_fd, .events = POLLIN};
    if (child->input_fd >= 0)
        waits[count++] = (struct pollfd){.fd = child->input_fd, .events = POLLOUT};
    return count;
}

static bool work_step(void *context, size_t slot, struct worker_outcome *ret_outcome)
{
    struct work_job *job = &((struct work_jobs *)context)->jobs[slot];
    int code;

    if (job->child.input_fd >= 0)
        job->written += process_write(&job->child, (struct bytes){job->input.data + job->written,
                                                                  job->input.size - job->written});
    if (!process_ended(&job->child, &code))
        return false;
    work_set_outcome(code, ret_outcome);
    return true;
}

static void work_stop(void *context, size_t slot)
{
    process_stop(&((struct work_jobs *)context)->jobs[slot].child);
}

enum cli_exit work_run(struct cli *cli)
{
    static const struct worker_kind kind = {"commands",        false,     work_start,
                                            work_append_waits, work_step, work_stop};
    struct work_jobs *work = calloc(1, sizeof(*work));
    struct cli_calls *calls = cli_calls_create();
    uint64_t count;
    enum cli_exit code = worker_read_jobs(cli, &count);

    if (!code && cli->options.command != 1)
        code = cli_complain(CLI_EXIT_USAGE,
                            "the command stands behind --, as: tickwheel work jobs -- ./handle");
    if (!code && (!work || !calls))
        code = cli_complain(CLI_EXIT_FAILED, "out of memory");
    if (!code) {
        work->cli = cli;
        code = worker_run(cli, &kind, work, calls, count);
        for (size_t i = 0; i < count; i++)
            buffer_deinit(&work->jobs[i].input);
    }
    cli_calls_destroy(calls);
    free(work);
    return code;
}
