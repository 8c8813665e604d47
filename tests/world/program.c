/*
 * world - runs engines in simulated worlds of one node or several, one world for each seed, and
 * checks the promises at each step.
 *
 *     world [--seed N] [--runs N] [--steps N] [--seconds N] [--verbose] [--replay] [--seeds FILE]
 *           [--nodes one|several] [--log kafka|postgres] [--store memory|wheel]
 *           [--without FEATURE,...] [--shrink]
 *
 * --replay runs each seed twice and demands equal hashes of all events. --seeds reads a line "seed
 * steps FEATURE,..." for each run from a file, which is made without those features. --nodes makes
 * all runs of one node, or of several, and --log gives all runs of several nodes a log that behaves
 * as Kafka, or as PostgreSQL (table.h): otherwise their seeds say. --store gives a single node the
 * storage in memory, or the one on a wheel over a disk in memory. --without takes features away
 * (plan.h); --shrink removes features and steps that a failing run does not need, and shows the
 * rest.
 *
 * Runs are made in a child process, so that an abort, a crash or an endless loop inside the engine
 * is told with the seed that led to it.
 */
#include "shrink.h"
#include "world.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RUN_SECONDS_MAX = 120 }; /* limit of processor time; a run takes some milliseconds */

struct arguments {
    uint64_t seed, runs, steps;
    uint64_t seconds; /* time after which no run begins; 0 for no limit */
    bool is_verbose;
    bool is_replayed;
    bool is_shrunk;
    enum plan_nodes nodes;
    enum plan_log log;
    enum plan_store store;
    uint64_t without;  /* removed features: a bit for each of enum feature */
    const char *seeds; /* file of seeds; NULL to count on from `seed` */
};

/* Memory shared with the child process. */
struct progress {
    uint64_t seed, steps; /* seed and steps of the present run */
    uint64_t without;     /* features that its line of a file of seeds removes */
    struct totals totals;
};

static bool parse_number(const char *text, uint64_t *ret_number)
{
    errno = 0;
    char *end;
    *ret_number = text ? strtoull(text, &end, 10) : 0;
    return text && *text && !*end && !errno;
}

static bool parse_nodes(const char *text, enum plan_nodes *ret_nodes)
{
    *ret_nodes = !strcmp(text, "one") ? PLAN_NODES_ONE : PLAN_NODES_SEVERAL;
    return *ret_nodes == PLAN_NODES_ONE || !strcmp(text, "several");
}

static bool parse_log(const char *text, enum plan_log *ret_log)
{
    *ret_log = !strcmp(text, "kafka") ? PLAN_LOG_KAFKA : PLAN_LOG_POSTGRES;
    return *ret_log == PLAN_LOG_KAFKA || !strcmp(text, "postgres");
}

static bool parse_store(const char *text, enum plan_store *ret_store)
{
    *ret_store = !strcmp(text, "wheel") ? PLAN_STORE_WHEEL : PLAN_STORE_MEMORY;
    return *ret_store == PLAN_STORE_WHEEL || !strcmp(text, "memory");
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
        else if (!strcmp(argv[i], "--shrink"))
            ret_arguments->is_shrunk = true;
        else if (!strcmp(argv[i], "--without") && argv[i + 1] &&
                 plan_parse_features(argv[i + 1], &ret_arguments->without))
            i++;
        else if (!strcmp(argv[i], "--nodes") && argv[i + 1] &&
                 parse_nodes(argv[i + 1], &ret_arguments->nodes))
            i++;
        else if (!strcmp(argv[i], "--log") && argv[i + 1] &&
                 parse_log(argv[i + 1], &ret_arguments->log))
            i++;
        else if (!strcmp(argv[i], "--store") && argv[i + 1] &&
                 parse_store(argv[i + 1], &ret_arguments->store))
            i++;
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
    const struct settings settings = {seed,
                                      steps,
                                      arguments->nodes,
                                      arguments->log,
                                      arguments->store,
                                      arguments->without,
                                      arguments->is_verbose};
    const struct itimerval limit = {.it_value.tv_sec = RUN_SECONDS_MAX};

    progress->seed = seed;
    progress->steps = steps;
    setitimer(ITIMER_PROF, &limit, NULL);
    uint64_t hash;
    world_run(&settings, &progress->totals, &hash);
    if (!arguments->is_replayed)
        return;
    uint64_t again;
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

    if (!file) {
        perror(arguments->seeds);
        exit(EXIT_FAILURE);
    }
    char line[512];
    while (fgets(line, sizeof(line), file)) {
        struct arguments one = *arguments;
        char without[128] = "";
        uint64_t seed, steps;

        if (sscanf(line, "%" SCNu64 " %" SCNu64 " %127s", &seed, &steps, without) < 2)
            continue;
        if (*without && !plan_parse_features(without, &one.without)) {
            printf("BROKEN: a seed without an unknown feature: %s\n", without);
            exit(EXIT_FAILURE);
        }
        one.without |= arguments->without;
        progress->without = one.without;
        run_one(&one, progress, seed, steps);
    }
    fclose(file);
}

/* Prints the faults in one line, which can be quoted. */
static void print_faults(const struct totals *totals)
{
    const struct {
        uint64_t count;
        const char *what;
    } faults[] = {
        {totals->crashes, "crashes"},
        {totals->commits_cut, "commits cut off"},
        {totals->commits_failed, "commits failed"},
        {totals->in_doubt, "appends in doubt"},
        {totals->doubts_kept, "read after a crash"},
        {totals->reads_failed, "reads failed"},
        {totals->outages, "outages"},
        {totals->full, "full disks"},
        {totals->damaged, "records damaged"},
        {totals->clock_forward, "clock steps forward"},
        {totals->clock_back, "back"},
        {totals->suspends, "sleeps"},
        {totals->timed_out, "targets that hung"},
        {totals->failed, "that failed"},
        {totals->outcomes_lost, "outcomes lost in a crash"},
    };

    printf("faults:");
    for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++)
        printf("%s %" PRIu64 " %s", i ? "," : "", faults[i].count, faults[i].what);
    printf("\n");
}

static void print_totals(const struct totals *totals)
{
    const double year_ms = 365.25 * 24 * 3600 * 1000;

#define X(name, label) printf("%14" PRIu64 "  %s\n", totals->name, label);
    TOTALS_LIST(X)
#undef X
    printf("world: %" PRIu64 " runs, %" PRIu64 " steps, %.0f years, %" PRIu64 " timers, %" PRIu64
           " deliveries, %" PRIu64 " duplicates (all explained)\n",
           totals->runs, totals->steps, (double)totals->simulated_ms / year_ms, totals->created,
           totals->deliveries, totals->duplicates);
    print_faults(totals);
}

static void print_command(const struct arguments *arguments, uint64_t seed, uint64_t steps,
                          uint64_t without)
{
    static const char *const nodes[] = {"", " --nodes one", " --nodes several"};
    static const char *const logs[] = {"", " --log kafka", " --log postgres"};
    static const char *const stores[] = {"", " --store wheel"};
    const char *separator = " --without ";

    printf("world --seed %" PRIu64 " --runs 1 --steps %" PRIu64 "%s%s%s", seed, steps,
           nodes[arguments->nodes], logs[arguments->log], stores[arguments->store]);
    for (uint32_t i = 0; i < FEATURES; i++) {
        if (!(without & UINT64_C(1) << i))
            continue;
        printf("%s%s", separator, plan_feature_name((enum feature)i));
        separator = ",";
    }
}

static bool report(const struct arguments *arguments, const struct progress *progress, int status)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS) {
        print_totals(&progress->totals);
        return true;
    }
    if (WIFSIGNALED(status))
        printf("BROKEN: the run ended by signal %d (%s)\n", WTERMSIG(status),
               WTERMSIG(status) == SIGALRM ? "it takes too long" : strsignal(WTERMSIG(status)));
    printf("FAILED after %" PRIu64 " runs; replay: ", progress->totals.runs);
    print_command(arguments, progress->seed, progress->steps,
                  arguments->without | progress->without);
    printf(" --verbose\n");
    return false;
}

/* Runs in a child process, which prints nothing if `is_silent`. Returns false if its end cannot be
 * determined. */
static bool run(const struct arguments *arguments, struct progress *progress, bool is_silent,
                int *ret_status)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        if (is_silent && !freopen("/dev/null", "w", stdout))
            exit(2);
        setvbuf(stdout, NULL, _IOLBF, 0);
        if (arguments->seeds)
            run_file(arguments, progress);
        else
            run_range(arguments, progress);
        munmap(progress, sizeof(*progress));
        fflush(stdout);
        exit(EXIT_SUCCESS);
    }
    return child > 0 && waitpid(child, ret_status, 0) == child;
}

struct smaller {
    struct arguments arguments;
    struct progress *progress;
};

static bool fails(void *context, uint64_t steps, uint64_t without)
{
    struct smaller *smaller = context;

    smaller->arguments.steps = steps;
    smaller->arguments.without = without;
    int status = 0;
    return run(&smaller->arguments, smaller->progress, true, &status) && status != 0;
}

/* Finds the first run that fails, and makes it smaller. */
static int shrink_first(const struct arguments *arguments, struct progress *progress)
{
    struct smaller smaller = {*arguments, progress};
    struct arguments *small = &smaller.arguments;
    uint64_t without = arguments->without;

    if (!fails(&smaller, arguments->steps, without)) {
        printf("world: no run fails\n");
        return EXIT_SUCCESS;
    }
    small->seed = progress->seed;
    small->runs = 1;
    small->seeds = NULL;
    uint64_t steps = progress->steps;
    uint64_t runs = shrink(fails, &smaller, &steps, &without);
    printf("world: after %" PRIu64 " smaller runs what is left is\n\n    ", runs);
    print_command(small, small->seed, steps, without);
    printf("\n\n");
    small->steps = steps;
    small->without = without;
    small->is_verbose = true;
    progress->totals.runs = 0;
    int status = 0;
    if (!run(small, progress, false, &status))
        return 2;
    return report(small, progress, status) ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    struct arguments arguments = {.runs = 1000, .steps = 200};

    if (getrandom(&arguments.seed, 4, 0) != 4 || !parse(argc, argv, &arguments)) {
        fprintf(stderr, "usage: world [--seed N] [--runs N] [--steps N] [--seconds N] [--verbose] "
                        "[--replay] [--seeds FILE] [--nodes one|several] "
                        "[--log kafka|postgres] [--store memory|wheel] [--without FEATURE,...] "
                        "[--shrink]\n");
        return 2;
    }
    struct progress *progress =
        mmap(NULL, sizeof(*progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (progress == MAP_FAILED)
        return 2;
    if (arguments.seeds)
        printf("world: the seeds of %s\n", arguments.seeds);
    else
        printf("world: seed %" PRIu64 ", at most %" PRIu64 " runs of %" PRIu64 " steps\n",
               arguments.seed, arguments.runs, arguments.steps);
    if (arguments.is_shrunk)
        return shrink_first(&arguments, progress);
    int status = 0;
    if (!run(&arguments, progress, false, &status))
        return 2;
    return report(&arguments, progress, status) ? EXIT_SUCCESS : EXIT_FAILURE;
}
