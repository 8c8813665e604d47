/*
 * cluster_sim - runs the ownership of a partition in simulated clusters, one for each seed, and
 * checks the promises of docs/cluster-design.md at each step.
 *
 *     cluster_sim [--seed N] [--runs N] [--seconds N] [--verbose] [--replay]
 *
 * --seconds begins no run later than that; --replay runs each seed twice and demands equal hashes
 * of all events. Runs are made in a child process, so that an abort is told with its seed.
 */
#include "cluster_totals.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RUN_SECONDS_MAX = 60 }; /* of the processor; a run takes some milliseconds */

struct task {
    uint64_t seed, runs, seconds;
    bool is_verbose, is_replayed;
};

/* Shared with the child. */
struct state {
    uint64_t seed; /* of the run at hand */
    struct cluster_totals totals;
};

static bool parse(int argc, char **argv, struct task *task)
{
    for (int i = 1; i < argc; i++) {
        uint64_t *number = !strcmp(argv[i], "--seed")      ? &task->seed
                           : !strcmp(argv[i], "--runs")    ? &task->runs
                           : !strcmp(argv[i], "--seconds") ? &task->seconds
                                                           : NULL;
        char none[] = "", *end = none;

        errno = 0;
        if (number && i + 1 < argc)
            *number = strtoull(argv[++i], &end, 10);
        else if (!strcmp(argv[i], "--verbose"))
            task->is_verbose = true;
        else if (!strcmp(argv[i], "--replay"))
            task->is_replayed = true;
        else
            return false;
        if (*end || errno)
            return false;
    }
    return true;
}

static void run_all(const struct task *task, struct state *state)
{
    const struct itimerval limit = {.it_value.tv_sec = RUN_SECONDS_MAX};
    const time_t start = time(NULL);

    for (uint64_t i = 0; i < task->runs; i++) {
        if (task->seconds && (uint64_t)(time(NULL) - start) >= task->seconds)
            break;
        state->seed = task->seed + i;
        setitimer(ITIMER_PROF, &limit, NULL);
        uint64_t hash, again;
        cluster_run(state->seed, task->is_verbose, &state->totals, &hash);
        if (!task->is_replayed)
            continue;
        cluster_run(state->seed, task->is_verbose, &state->totals, &again);
        if (hash == again)
            continue;
        printf("BROKEN: one seed is two runs: the hashes are %016" PRIx64 " and %016" PRIx64 "\n",
               hash, again);
        exit(EXIT_FAILURE);
    }
}

int main(int argc, char **argv)
{
    struct task task = {.runs = 1000};

    if (getrandom(&task.seed, 4, 0) != 4 || !parse(argc, argv, &task)) {
        fprintf(stderr, "usage: cluster_sim [--seed N] [--runs N] [--seconds N] [--verbose] "
                        "[--replay]\n");
        return 2;
    }
    struct state *state =
        mmap(NULL, sizeof(*state), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (state == MAP_FAILED)
        return 2;
    printf("cluster_sim: seed %" PRIu64 ", at most %" PRIu64 " runs\n", task.seed, task.runs);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        run_all(&task, state);
        fflush(stdout);
        exit(EXIT_SUCCESS);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child)
        return 2;
    if (WIFSIGNALED(status))
        printf("BROKEN: the run ended by signal %d (%s)\n", WTERMSIG(status),
               strsignal(WTERMSIG(status)));
    if (status != 0) {
        printf("FAILED after %" PRIu64 " runs; replay: cluster_sim --seed %" PRIu64
               " --runs 1 --verbose\n",
               state->totals.runs, state->seed);
        return EXIT_FAILURE;
    }
#define X(name, label) printf("%14" PRIu64 "  %s\n", state->totals.name, label);
    CLUSTER_TOTALS_LIST(X)
#undef X
    return EXIT_SUCCESS;
}
