/*
 * sim - runs the engine in simulated worlds, one for each seed, and checks its promises at each
 * step.
 *
 *     sim [--seed N] [--runs N] [--steps N] [--seconds N] [--verbose] [--replay] [--seeds FILE]
 *
 * --replay runs each seed twice and demands the same hash of all that happened. --seeds reads a
 * line "seed steps" for each run from a file.
 *
 * Runs are made in a child process, so that an abort, a crash or an endless loop inside the engine
 * is told with the seed that led to it.
 */
#include "world.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RUN_SECONDS_MAX = 120 }; /* a run takes some milliseconds */

struct arguments {
    uint64_t seed, runs, steps;
    uint64_t seconds; /* begin no run later than that; 0: no limit */
    bool is_verbose;
    bool is_replayed;
    const char *seeds; /* a file; NULL: count on from `seed` */
};

/* Shared with the child. */
struct progress {
    uint64_t seed, steps; /* of the run at hand */
    struct totals totals;
};

static bool parse_number(const char *text, uint64_t *ret_number)
{
    char *end;

    errno = 0;
    *ret_number = text ? strtoull(text, &end, 10) : 0;
    return text && *text && !*end && !errno;
}

static bool parse(int argc, char **argv, struct arguments *ret_arguments)
{
    for (int i = 1; i < argc; i++) {
        uint64_t *number = !strcmp(argv[i], "--seed")      ? &ret_arguments->seed
                           : !strcmp(argv[i], "--runs")    ? &ret_arguments->runs
                           : !strcmp(argv[i], "--steps")   ? &ret_arguments->steps
                           : !strcmp(argv[i], "--seconds") ? &ret_arguments->seconds
                                                           : NULL;

        if (number && parse_number(argv[i + 1], number))
            i++;
        else if (!strcmp(argv[i], "--verbose"))
            ret_arguments->is_verbose = true;
        else if (!strcmp(argv[i], "--replay"))
            ret_arguments->is_replayed = true;
        else if (!strcmp(argv[i], "--seeds") && argv[i + 1])
            ret_arguments->seeds = argv[++i];
        else
            return false;
    }
    return true;
}

static void run_one(const struct arguments *arguments, struct progress *progress, uint64_t seed,
                    uint64_t steps)
{
    const struct settings settings = {seed, steps, arguments->is_verbose};
    uint64_t hash, again;

    progress->seed = seed;
    progress->steps = steps;
    alarm(RUN_SECONDS_MAX);
    world_run(&settings, &progress->totals, &hash);
    if (!arguments->is_replayed)
        return;
    world_run(&settings, &progress->totals, &again);
    if (hash == again)
        return;
    printf("BROKEN: one seed, one run: the hashes are %016" PRIx64 " and %016" PRIx64 "\n", hash,
           again);
    exit(EXIT_FAILURE);
}

static void run_range(const struct arguments *arguments, struct progress *progress)
{
    const time_t start = time(NULL);

    for (uint64_t i = 0; i < arguments->runs; i++) {
        if (arguments->seconds && (uint64_t)(time(NULL) - start) >= arguments->seconds)
            break;
        run_one(arguments, progress, arguments->seed + i, arguments->steps);
    }
}

static void run_file(const struct arguments *arguments, struct progress *progress)
{
    FILE *file = fopen(arguments->seeds, "r");
    char line[128];

    if (!file) {
        perror(arguments->seeds);
        exit(EXIT_FAILURE);
    }
    while (fgets(line, sizeof(line), file)) {
        uint64_t seed, steps;

        if (sscanf(line, "%" SCNu64 " %" SCNu64, &seed, &steps) == 2)
            run_one(arguments, progress, seed, steps);
    }
    fclose(file);
}

static void print_totals(const struct totals *totals)
{
    const double year_ms = 365.25 * 24 * 3600 * 1000;

#define X(name, label) printf("%14" PRIu64 "  %s\n", totals->name, label);
    TOTALS_LIST(X)
#undef X
    printf("sim: %" PRIu64 " runs, %" PRIu64 " steps, %.0f years, %" PRIu64 " crashes, %" PRIu64
           " deliveries, %" PRIu64 " duplicates (all explained)\n",
           totals->runs, totals->steps, (double)totals->simulated_ms / year_ms, totals->crashes,
           totals->deliveries, totals->duplicates);
}

static bool report(const struct progress *progress, int status)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS) {
        print_totals(&progress->totals);
        return true;
    }
    if (WIFSIGNALED(status))
        printf("BROKEN: the run ended by signal %d (%s)\n", WTERMSIG(status),
               WTERMSIG(status) == SIGALRM ? "it takes too long" : strsignal(WTERMSIG(status)));
    printf("FAILED after %" PRIu64 " runs; replay: sim --seed %" PRIu64 " --runs 1 --steps %" PRIu64
           " --verbose\n",
           progress->totals.runs, progress->seed, progress->steps);
    return false;
}

int main(int argc, char **argv)
{
    struct arguments arguments = {.runs = 1000, .steps = 800};
    struct progress *progress;
    int status = 0;
    pid_t child;

    if (getrandom(&arguments.seed, 4, 0) != 4 || !parse(argc, argv, &arguments)) {
        fprintf(stderr, "usage: sim [--seed N] [--runs N] [--steps N] [--seconds N] [--verbose] "
                        "[--replay] [--seeds FILE]\n");
        return 2;
    }
    progress =
        mmap(NULL, sizeof(*progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (progress == MAP_FAILED)
        return 2;
    if (arguments.seeds)
        printf("sim: the seeds of %s\n", arguments.seeds);
    else
        printf("sim: seed %" PRIu64 ", at most %" PRIu64 " runs of %" PRIu64 " steps\n",
               arguments.seed, arguments.runs, arguments.steps);
    fflush(stdout);
    child = fork();
    if (child == 0) {
        setvbuf(stdout, NULL, _IOLBF, 0);
        if (arguments.seeds)
            run_file(&arguments, progress);
        else
            run_range(&arguments, progress);
        munmap(progress, sizeof(*progress));
        fflush(stdout);
        exit(EXIT_SUCCESS);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        return 2;
    return report(progress, status) ? EXIT_SUCCESS : EXIT_FAILURE;
}
