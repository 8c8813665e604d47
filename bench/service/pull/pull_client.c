/*
 * pull_client.c - workers and producers of a job queue, the same for each system:
 *
 *     pull_client --system tickwheel|beanstalkd|redis --port N [--pid N] [--connections N]
 *                 [--batch N] [--jobs N] [--delay S] [--rate N] [--seconds S] [--poll MS]
 *                 [--queue NAME] [--priorities N] [--phases create,drain,steady]
 *
 * Phases, in this order; each prints a line of JSON:
 *
 *     create   all connections create `jobs` delayed jobs as fast as they can
 *     drain    once all are due, all connections take and finish them as fast as they can
 *     steady   a quarter of the connections create `rate` jobs a second, each due `delay` seconds
 *              later, while the others take and finish them; tells how late a job is in a worker's
 *              hands
 *
 * `batch` is how many jobs one request or one pipeline carries at most; 1 is one at a time. With
 * --pid each line has the server's CPU time and memory. Every job must come exactly once, and not
 * early; the program fails otherwise. One thread for each connection.
 */
#include "system.h"

#include <getopt.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CONNECTIONS_MAX 1024
#define NEVER_CAME      INT64_MIN
#define US_PER_S        UINT64_C(1000000)

struct pull_bench {
    const struct system *system;
    struct options options;
    int port, pid;
    size_t connections, batch, priorities;
    uint64_t job_count, rate;
    unsigned delay_s, seconds;
    const char *phases;

    _Atomic int64_t *late_us;  /* by the job's number; NEVER_CAME */
    _Atomic uint64_t *place;   /* by the job's number: in which order it was taken */
    uint64_t number_end;       /* room of both */
    _Atomic uint64_t next;     /* number of the next job to create */
    _Atomic uint64_t finished; /* jobs, over all phases */
    _Atomic uint64_t taken;
    _Atomic uint64_t last_due_us, last_finish_us;
    _Atomic uint64_t take_us, finish_us; /* spent in calls, over all threads */
    _Atomic size_t producing;
    _Atomic uint64_t phase_end; /* finished when the phase is over */
    uint64_t begun_us, stop_us;
};

struct thread {
    struct pull_bench *bench;
    pthread_t id;
    struct link link;
    bool is_producer;
};

/* ---- what system.h promises ---- */

uint64_t now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * US_PER_S + (uint64_t)now.tv_nsec / 1000;
}

void pause_us(uint64_t us)
{
    struct timespec pause = {.tv_sec = (time_t)(us / US_PER_S),
                             .tv_nsec = (long)(us % US_PER_S * 1000)};

    ppoll(NULL, 0, &pause, NULL);
}

void job_format(const struct pull_job *job, char ret_text[JOB_TEXT_SIZE + 1])
{
    int size = snprintf(ret_text, JOB_TEXT_SIZE + 1, "%010llu %016llu ",
                        (unsigned long long)job->number, (unsigned long long)job->due_us);

    memset(ret_text + size, 'x', (size_t)(JOB_TEXT_SIZE - size));
    ret_text[JOB_TEXT_SIZE] = '\0';
}

bool job_parse(const char *text, struct pull_job *ret_job)
{
    char *end;

    ret_job->number = strtoull(text, &end, 10);
    if (end != text + 10)
        return false;
    ret_job->due_us = strtoull(text + 11, &end, 10);
    return end == text + 27;
}

/* ---- the server's use of the machine ---- */

struct usage {
    double cpu_s;
    long resident_bytes;
};

static struct usage server_usage(const struct pull_bench *bench)
{
    struct usage usage = {0};
    unsigned long user, kernel;
    char path[64], text[1024];
    const char *behind;
    long pages;
    FILE *file;

    if (!bench->pid)
        return usage;
    snprintf(path, sizeof(path), "/proc/%d/stat", bench->pid);
    file = fopen(path, "r");
    if (!file || !fgets(text, sizeof(text), file))
        fail("the server is gone");
    fclose(file);
    behind = strrchr(text, ')');
    if (!behind || sscanf(behind + 1,
                          " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %*d %*d %*d %*d "
                          "%*d %*d %*u %*u %ld",
                          &user, &kernel, &pages) != 3)
        fail("%s: unreadable", path);
    usage.cpu_s = (double)(user + kernel) / (double)sysconf(_SC_CLK_TCK);
    usage.resident_bytes = pages * sysconf(_SC_PAGESIZE);
    return usage;
}

/* ---- one connection's work ---- */

static void raise_to(_Atomic uint64_t *value, uint64_t least)
{
    uint64_t seen = atomic_load(value);

    while (seen < least && !atomic_compare_exchange_weak(value, &seen, least))
        continue;
}

static void create_jobs(struct thread *thread, uint64_t number, size_t count)
{
    struct pull_bench *bench = thread->bench;
    struct pull_job jobs[BATCH_MAX];
    uint64_t step = bench->system->due_step_us;
    uint64_t due_us = (now_us() + bench->delay_s * US_PER_S + step - 1) / step * step;

    for (size_t i = 0; i < count; i++)
        jobs[i] = (struct pull_job){.number = number + i,
                                    .due_us = due_us,
                                    .delay_s = bench->delay_s,
                                    .priority = bench->priorities
                                                    ? (int)((number + i) % bench->priorities)
                                                    : JOB_PRIORITY_ANY};
    bench->system->create(&thread->link, &bench->options, jobs, count);
    raise_to(&bench->last_due_us, due_us);
}

static void create_all(struct thread *thread)
{
    struct pull_bench *bench = thread->bench;
    uint64_t number;

    while ((number = atomic_fetch_add(&bench->next, bench->batch)) < bench->job_count) {
        uint64_t left = bench->job_count - number;

        create_jobs(thread, number, left < bench->batch ? left : bench->batch);
    }
}

static void note(struct pull_bench *bench, const struct taken *taken, uint64_t at_us)
{
    uint64_t number = taken->job.number;

    if (number >= bench->number_end)
        fail("job %llu was never created", (unsigned long long)number);
    if (at_us < taken->job.due_us)
        fail("job %llu came %llu us early", (unsigned long long)number,
             (unsigned long long)(taken->job.due_us - at_us));
    if (atomic_exchange(&bench->late_us[number], (int64_t)(at_us - taken->job.due_us)) !=
        NEVER_CAME)
        fail("job %llu came twice", (unsigned long long)number);
    atomic_store(&bench->place[number], atomic_fetch_add(&bench->taken, 1));
}

static void work(struct thread *thread)
{
    struct pull_bench *bench = thread->bench;
    struct taken *taken = calloc(BATCH_MAX, sizeof(*taken));

    if (!taken)
        fail("out of memory");
    while (atomic_load(&bench->producing) > 0 ||
           atomic_load(&bench->finished) < atomic_load(&bench->phase_end)) {
        uint64_t begun_us = now_us(), at_us, done_us;
        size_t count = bench->system->take(&thread->link, &bench->options, taken, bench->batch);

        if (count == 0)
            continue;
        at_us = now_us();
        for (size_t i = 0; i < count; i++)
            note(bench, &taken[i], at_us);
        bench->system->finish(&thread->link, &bench->options, taken, count);
        done_us = now_us();
        atomic_fetch_add(&bench->take_us, at_us - begun_us);
        atomic_fetch_add(&bench->finish_us, done_us - at_us);
        raise_to(&bench->last_finish_us, done_us);
        atomic_fetch_add(&bench->finished, count);
    }
    free(taken);
}

/* At its pace as long as the system keeps up; behind it, as fast as it can. */
static void produce(struct thread *thread, size_t producers)
{
    struct pull_bench *bench = thread->bench;
    uint64_t rate = bench->rate / producers, made = 0;
    uint64_t interval_us = bench->batch == 1 ? 1000 : 10000;

    while (now_us() < bench->stop_us) {
        uint64_t wanted = (now_us() - bench->begun_us) * rate / US_PER_S;

        if (wanted <= made) {
            pause_us(interval_us);
            continue;
        }
        wanted -= made;
        wanted = wanted < bench->batch ? wanted : bench->batch;
        create_jobs(thread, atomic_fetch_add(&bench->next, wanted), wanted);
        made += wanted;
    }
}

/* ---- phases ---- */

static void open_links(struct pull_bench *bench, struct thread *threads)
{
    for (size_t i = 0; i < bench->connections; i++) {
        threads[i] = (struct thread){.bench = bench};
        link_open(&threads[i].link, bench->port);
        if (bench->system->open)
            bench->system->open(&threads[i].link, &bench->options);
    }
}

static void run(struct pull_bench *bench, struct thread *threads, void *(*body)(void *thread))
{
    bench->begun_us = now_us();
    for (size_t i = 0; i < bench->connections; i++)
        if (pthread_create(&threads[i].id, NULL, body, &threads[i]) != 0)
            fail("no thread left");
    for (size_t i = 0; i < bench->connections; i++)
        pthread_join(threads[i].id, NULL);
}

static void print_line(const struct pull_bench *bench, const char *phase, uint64_t count,
                       double seconds, struct usage before, const char *more)
{
    struct usage after = server_usage(bench);

    printf("{\"phase\":\"%s\",\"jobs\":%llu,\"seconds\":%.6f,\"cpu_s\":%.2f,\"resident\":%ld%s}\n",
           phase, (unsigned long long)count, seconds, after.cpu_s - before.cpu_s,
           after.resident_bytes, more);
    fflush(stdout);
}

static void *create_body(void *argument)
{
    create_all(argument);
    return NULL;
}

static void *work_body(void *argument)
{
    work(argument);
    return NULL;
}

static size_t producers_of(const struct pull_bench *bench)
{
    return bench->connections < 8 ? 1 : bench->connections / 4;
}

static void *steady_body(void *argument)
{
    struct thread *thread = argument;
    struct pull_bench *bench = thread->bench;

    if (!thread->is_producer) {
        work(thread);
        return NULL;
    }
    produce(thread, producers_of(bench));
    atomic_store(&bench->phase_end, atomic_load(&bench->next));
    atomic_fetch_sub(&bench->producing, 1);
    return NULL;
}

static void create_phase(struct pull_bench *bench, struct thread *threads)
{
    struct usage before = server_usage(bench);
    uint64_t refused = 0;
    char more[64];

    run(bench, threads, create_body);
    for (size_t i = 0; i < bench->connections; i++)
        refused += threads[i].link.refused;
    snprintf(more, sizeof(more), ",\"refused\":%llu", (unsigned long long)refused);
    print_line(bench, "create", bench->job_count, (double)(now_us() - bench->begun_us) / 1e6,
               before, more);
}

/* Jobs that were not taken where a strict order, by priority and then by number, would have them:
 * how many are off by more than what all connections hold at a time, and by how much the worst. */
static void order(const struct pull_bench *bench, uint64_t *ret_astray, uint64_t *ret_worst)
{
    uint64_t slack = 2 * bench->batch * bench->connections;
    uint64_t levels = bench->priorities ? bench->priorities : 1;
    uint64_t place = 0;

    *ret_astray = *ret_worst = 0;
    for (uint64_t level = levels; level-- > 0;)
        for (uint64_t number = level; number < bench->job_count; number += levels) {
            uint64_t real = atomic_load(&bench->place[number]);
            uint64_t off = real > place ? real - place : place - real;

            *ret_astray += off > slack;
            *ret_worst = off > *ret_worst ? off : *ret_worst;
            place++;
        }
}

static void drain_phase(struct pull_bench *bench, struct thread *threads)
{
    uint64_t due_us = atomic_load(&bench->last_due_us), astray, worst;
    struct usage before;
    char more[256];

    if (due_us + US_PER_S / 2 > now_us()) /* so that all of them are known to be due */
        pause_us(due_us + US_PER_S / 2 - now_us());
    before = server_usage(bench);
    bench->phase_end = bench->job_count;
    run(bench, threads, work_body);
    order(bench, &astray, &worst);
    snprintf(more, sizeof(more),
             ",\"take_s\":%.6f,\"finish_s\":%.6f,\"astray\":%llu,\"astray_worst\":%llu",
             (double)bench->take_us / 1e6, (double)bench->finish_us / 1e6,
             (unsigned long long)astray, (unsigned long long)worst);
    print_line(bench, "drain", bench->job_count,
               (double)(bench->last_finish_us - bench->begun_us) / 1e6, before, more);
}

static int compare(const void *one, const void *other)
{
    int64_t a = *(const int64_t *)one, b = *(const int64_t *)other;

    return (a > b) - (a < b);
}

static void print_steady(const struct pull_bench *bench, uint64_t first, struct usage before)
{
    static const double shares[] = {0.5, 0.99, 0.999};
    uint64_t count = atomic_load(&bench->next) - first;
    int64_t *late = calloc(count ? count : 1, sizeof(*late));
    char more[256] = "";
    size_t size = 0;

    if (!late || count == 0)
        fail("no job was created");
    for (uint64_t i = 0; i < count; i++) {
        late[i] = atomic_load(&bench->late_us[first + i]);
        if (late[i] == NEVER_CAME)
            fail("job %llu never came", (unsigned long long)first + i);
    }
    qsort(late, count, sizeof(*late), compare);
    for (size_t i = 0; i < sizeof(shares) / sizeof(shares[0]); i++)
        size +=
            (size_t)snprintf(more + size, sizeof(more) - size, ",\"late_p%g_us\":%lld",
                             shares[i] * 100, (long long)late[(size_t)((double)count * shares[i])]);
    snprintf(more + size, sizeof(more) - size, ",\"late_max_us\":%lld", (long long)late[count - 1]);
    print_line(bench, "steady", count, (double)(bench->last_finish_us - bench->begun_us) / 1e6,
               before, more);
    free(late);
}

static void steady_phase(struct pull_bench *bench, struct thread *threads)
{
    struct usage before = server_usage(bench);
    uint64_t first;

    atomic_store(&bench->next, bench->job_count);
    atomic_store(&bench->finished, bench->job_count);
    first = bench->job_count;
    bench->phase_end = UINT64_MAX;
    bench->producing = producers_of(bench);
    for (size_t i = 0; i < bench->connections; i++)
        threads[i].is_producer = i < bench->producing;
    bench->stop_us = now_us() + bench->seconds * US_PER_S;
    run(bench, threads, steady_body);
    print_steady(bench, first, before);
}

/* ---- the command line ---- */

static const struct system *system_of(const char *name)
{
    static const struct system *const all[] = {&system_tickwheel, &system_beanstalkd,
                                               &system_redis};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (strcmp(all[i]->name, name) == 0)
            return all[i];
    fail("no system \"%s\"", name);
}

static uint64_t number_of(const char *text, uint64_t least, uint64_t most)
{
    char *end;
    uint64_t value = strtoull(text, &end, 10);

    if (*end || end == text || value < least || value > most)
        fail("\"%s\" is no number from %llu to %llu", text, (unsigned long long)least,
             (unsigned long long)most);
    return value;
}

static void set(struct pull_bench *bench, int option, const char *text)
{
    switch (option) {
    case 's':
        bench->system = system_of(text);
        break;
    case 'p':
        bench->port = (int)number_of(text, 1, 65535);
        break;
    case 'i':
        bench->pid = (int)number_of(text, 1, INT32_MAX);
        break;
    case 'c':
        bench->connections = number_of(text, 1, CONNECTIONS_MAX);
        break;
    case 'b':
        bench->batch = number_of(text, 1, BATCH_MAX);
        break;
    case 'j':
        bench->job_count = number_of(text, 0, UINT32_MAX);
        break;
    case 'd':
        bench->delay_s = (unsigned)number_of(text, 0, 3600);
        break;
    case 'r':
        bench->rate = number_of(text, 1, UINT32_MAX);
        break;
    case 't':
        bench->seconds = (unsigned)number_of(text, 1, 3600);
        break;
    case 'o':
        bench->options.poll_ms = (unsigned)number_of(text, 1, 60000);
        break;
    case 'q':
        bench->options.queue = text;
        break;
    case 'l':
        bench->priorities = number_of(text, 1, 10);
        break;
    case 'f':
        bench->phases = text;
        break;
    default:
        exit(2);
    }
}

static void parse(struct pull_bench *bench, int count, char **arguments)
{
    static const struct option options[] = {
        {"system", 1, NULL, 's'},      {"port", 1, NULL, 'p'},  {"pid", 1, NULL, 'i'},
        {"connections", 1, NULL, 'c'}, {"batch", 1, NULL, 'b'}, {"jobs", 1, NULL, 'j'},
        {"delay", 1, NULL, 'd'},       {"rate", 1, NULL, 'r'},  {"seconds", 1, NULL, 't'},
        {"poll", 1, NULL, 'o'},        {"queue", 1, NULL, 'q'}, {"priorities", 1, NULL, 'l'},
        {"phases", 1, NULL, 'f'},      {NULL, 0, NULL, 0}};
    int option;

    while ((option = getopt_long(count, arguments, "", options, NULL)) != -1)
        set(bench, option, optarg);
    if (!bench->system || !bench->port || optind < count)
        fail("--system and --port are wanted");
}

int main(int count, char **arguments)
{
    struct pull_bench bench = {.connections = 8,
                               .batch = 1,
                               .job_count = 20000,
                               .delay_s = 2,
                               .rate = 1000,
                               .seconds = 5,
                               .phases = "create,drain,steady",
                               .options = {.queue = "bench", .poll_ms = 100}};
    struct thread threads[CONNECTIONS_MAX];

    parse(&bench, count, arguments);
    if (!strstr(bench.phases, "create"))
        bench.job_count = 0;
    bench.number_end = bench.job_count;
    if (strstr(bench.phases, "steady"))
        bench.number_end += bench.rate * (bench.seconds + 1) + BATCH_MAX * bench.connections;
    bench.late_us = calloc(bench.number_end, sizeof(*bench.late_us));
    bench.place = calloc(bench.number_end, sizeof(*bench.place));
    if (!bench.late_us || !bench.place)
        fail("out of memory");
    for (uint64_t i = 0; i < bench.number_end; i++)
        atomic_init(&bench.late_us[i], NEVER_CAME);
    open_links(&bench, threads);
    if (strstr(bench.phases, "create"))
        create_phase(&bench, threads);
    if (strstr(bench.phases, "drain"))
        drain_phase(&bench, threads);
    if (strstr(bench.phases, "steady"))
        steady_phase(&bench, threads);
    for (size_t i = 0; i < bench.connections; i++)
        link_close(&threads[i].link);
    free(bench.late_us);
    free(bench.place);
    return 0;
}
