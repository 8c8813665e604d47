/*
 * sim - runs the engine in simulated worlds, one for each seed, and checks its promises at each step.
 *
 *     sim [--seed N] [--runs N] [--steps N] [--seconds N] [--verbose]
 *
 * Runs are made in a child process, so that an abort, a crash or an endless loop inside the engine is
 * told with the seed that led to it.
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
    bool is_hash_shown;
};

/* Shared with the child. */
struct progress {
    uint64_t seed; /* of the run at hand */
    uint64_t hash; /* of all runs */
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
        else if (!strcmp(argv[i], "--hash"))
            ret_arguments->is_hash_shown = true;
        else
            return false;
    }
    return true;
}

static void run_all(const struct arguments *arguments, struct progress *progress)
{
    const time_t start = time(NULL);

    for (uint64_t i = 0; i < arguments->runs; i++) {
        const struct settings settings = {arguments->seed + i, arguments->steps,
                                          arguments->is_verbose};
        uint64_t hash;

        if (arguments->seconds && (uint64_t)(time(NULL) - start) >= arguments->seconds)
            break;
        progress->seed = settings.seed;
        alarm(RUN_SECONDS_MAX);
        world_run(&settings, &progress->totals, &hash);
        progress->hash = random_mix(progress->hash ^ hash);
    }
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

static bool report(const struct arguments *arguments, const struct progress *progress, int status)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS) {
        print_totals(&progress->totals);
        if (arguments->is_hash_shown)
            printf("hash %016" PRIx64 "\n", progress->hash);
        return true;
    }
    if (WIFSIGNALED(status))
        printf("BROKEN: the run ended by signal %d (%s)\n", WTERMSIG(status),
               WTERMSIG(status) == SIGALRM ? "it takes too long" : strsignal(WTERMSIG(status)));
    printf("FAILED after %" PRIu64 " runs; replay: sim --seed %" PRIu64 " --runs 1 --steps %" PRIu64
           " --verbose\n",
           progress->totals.runs, progress->seed, arguments->steps);
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
                        "[--hash]\n");
        return 2;
    }
    progress = mmap(NULL, sizeof(*progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                    0);
    if (progress == MAP_FAILED)
        return 2;
    printf("sim: seed %" PRIu64 ", %" PRIu64 " runs of %" PRIu64 " steps\n", arguments.seed,
           arguments.runs, arguments.steps);
    fflush(stdout);
    child = fork();
    if (child == 0) {
        setvbuf(stdout, NULL, _IOLBF, 0);
        run_all(&arguments, progress);
        munmap(progress, sizeof(*progress));
        fflush(stdout);
        exit(EXIT_SUCCESS);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        return 2;
    return report(&arguments, progress, status) ? EXIT_SUCCESS : EXIT_FAILURE;
}
