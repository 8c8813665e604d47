/*
 * periodic_jobs.c - runs commands, each at an interval of its own, on a ring.
 *
 *     periodic_jobs TICK_MS TICKS INTERVAL COMMAND [INTERVAL COMMAND]...
 *
 * INTERVAL is in ticks, at most SECTORS; the program ends after TICKS ticks, with 0 never. A
 * command that still runs when it is due again is skipped. A command that failed is run again at
 * the next tick, and its interval counts from there.
 */
#include <tickwheel/clock.h>
#include <tickwheel/ring.h>

#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SECTORS = 3600, JOBS_MAX = 64 };

struct periodic_job {
    char *command;
    pid_t process; /* 0: it does not run */
    tw_handle item;
};

struct runner {
    struct tw_ring *ring; /* an item's data is the index in `jobs` */
    struct periodic_job jobs[JOBS_MAX];
    size_t job_count;
    uint64_t tick, tick_ms;
    int children; /* readable when a job has ended */
    posix_spawnattr_t unblocked;
};

static uint64_t now_ms(void)
{
    return tw_clock_now(tw_clock_monotonic()).ns / 1000000;
}

static void start(struct runner *runner, struct periodic_job *job)
{
    extern char **environ;
    const char *arguments[] = {"sh", "-c", job->command, NULL};
    const char *what = job->process ? "still running" : "run";

    if (!job->process && posix_spawnp(&job->process, "sh", NULL, &runner->unblocked,
                                      (char **)arguments, environ) != 0) {
        job->process = 0;
        what = "cannot run";
    }
    printf("tick %" PRIu64 ": %s: %s\n", runner->tick, what, job->command);
}

/* [quote: tick] */
/* Handles every tick until now, also those missed during the sleep; no item is skipped. */
static void catch_up(struct runner *runner, uint64_t tick_now)
{
    while (runner->tick < tick_now) {
        struct tw_ring_item due[16];
        runner->tick += tw_ring_advance(runner->ring, tick_now - runner->tick);
        for (size_t n; (n = tw_ring_take(runner->ring, due, 16)) > 0;)
            for (size_t i = 0; i < n; i++)
                start(runner, &runner->jobs[due[i].data]); /* the ring has moved the item already */
    }
}

static void run_again_if_failed(struct runner *runner, struct periodic_job *job, int status)
{
    job->process = 0;
    if (status != 0)
        tw_ring_reschedule(runner->ring, job->item, 1);
}
/* [end] */

static void reap(struct runner *runner)
{
    struct signalfd_siginfo signal;
    int status;
    if (read(runner->children, &signal, sizeof(signal)) < 0)
        return;
    for (pid_t process; (process = waitpid(-1, &status, WNOHANG)) > 0;)
        for (size_t i = 0; i < runner->job_count; i++)
            if (runner->jobs[i].process == process)
                run_again_if_failed(runner, &runner->jobs[i], status);
}

static int wait_ms(uint64_t passed_ms, uint64_t wake_ms)
{
    if (wake_ms <= passed_ms)
        return 0;
    return wake_ms - passed_ms < INT_MAX ? (int)(wake_ms - passed_ms) : INT_MAX;
}

/* Sleeps until the next tick with a job, or until a child has ended. */
static void run(struct runner *runner, uint64_t tick_last)
{
    uint64_t began = now_ms();
    while (runner->tick < tick_last) {
        struct pollfd child = {.fd = runner->children, .events = POLLIN};
        uint64_t ahead = tw_ring_wake_in(runner->ring), left = tick_last - runner->tick;
        uint64_t wake_ms = (runner->tick + (ahead < left ? ahead : left)) * runner->tick_ms;
        if (poll(&child, 1, wait_ms(now_ms() - began, wake_ms)) > 0)
            reap(runner);
        uint64_t tick_now = (now_ms() - began) / runner->tick_ms;
        catch_up(runner, tick_now < tick_last ? tick_now : tick_last);
    }
}

static bool add_jobs(struct runner *runner, char **arguments)
{
    for (; *arguments; arguments += 2) {
        struct periodic_job *job = &runner->jobs[runner->job_count];
        int64_t interval = strtoll(arguments[0], NULL, 10);
        job->command = arguments[1];
        job->item = tw_ring_add_moving(runner->ring, 1, interval, runner->job_count++);
        if (job->item == TW_NONE) {
            fprintf(stderr, "periodic_jobs: an interval of %s ticks does not fit\n", arguments[0]);
            return false;
        }
    }
    return true;
}

/* Makes the end of a child a descriptor to wait for; the children do not inherit the signal mask.
 */
static void wait_for_children(struct runner *runner)
{
    sigset_t ended, none;
    sigemptyset(&none);
    sigemptyset(&ended);
    sigaddset(&ended, SIGCHLD);
    sigprocmask(SIG_BLOCK, &ended, NULL);
    runner->children = signalfd(-1, &ended, SFD_CLOEXEC | SFD_NONBLOCK);
    posix_spawnattr_init(&runner->unblocked);
    posix_spawnattr_setsigmask(&runner->unblocked, &none);
    posix_spawnattr_setflags(&runner->unblocked, POSIX_SPAWN_SETSIGMASK);
}

int main(int argc, char **argv)
{
    struct runner runner = {.tick_ms = argc > 1 ? strtoull(argv[1], NULL, 10) : 0};
    if (argc < 5 || argc % 2 == 0 || argc > 3 + 2 * JOBS_MAX || runner.tick_ms == 0) {
        fprintf(stderr, "usage: periodic_jobs TICK_MS TICKS INTERVAL COMMAND ...\n");
        return 2;
    }
    runner.ring = tw_ring_create(&(struct tw_ring_options){.size = SECTORS});
    bool is_ready = runner.ring && add_jobs(&runner, argv + 3);
    if (is_ready) {
        uint64_t ticks = strtoull(argv[2], NULL, 10);
        setvbuf(stdout, NULL, _IOLBF, 0);
        wait_for_children(&runner);
        run(&runner, ticks > 0 ? ticks : UINT64_MAX);
        while (wait(NULL) > 0)
            continue;
        posix_spawnattr_destroy(&runner.unblocked);
    }
    tw_ring_destroy(runner.ring);
    return is_ready ? 0 : 2;
}
