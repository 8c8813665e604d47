/*
 * load_client.c - one thread that loads a server through many connections, the same for each
 * system:
 *
 *     load_client --port N --run OPERATION:CONNECTIONS[:BATCH] [--run …] [--pid N] [--seconds S]
 *                 [--warm S] [--units N] [--mark N] [--bytes N] [--target T] [--due-from S]
 *                 [--due-to S] [--number N] [--ids FILE]
 *
 * Every connection sends its next request when the one before is answered. `run` may be given
 * several times: all run beside each other. It ends after `seconds`, before which `warm` ones do
 * not count, or when the first run has done `units`. The operations are in http.c and peers.c.
 *
 * Prints a line of JSON: for each run the rate, and the latency at some shares of the requests;
 * with --pid the CPU time of the server, with the children that it has, and what it has resident.
 * `marks` has the seconds that each `mark` units took.
 */
#include "load.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define GROUPS_MAX  4
#define MARKS_MAX   1000
#define EVENTS_MAX  1024
#define READ_BYTES  65536
#define US_PER_S    UINT64_C(1000000)
#define NUMBERS_END UINT64_C(1000000000000)

struct load_run {
    struct load_options options;
    struct load_group groups[GROUPS_MAX];
    size_t group_count;
    struct load_connection *connections;
    size_t connection_count, greeting;
    double seconds, warm_s;
    uint64_t units_wanted, mark_units, number;
    double marks[MARKS_MAX];
    size_t mark_count;
    int epoll_fd, pid;
    uint64_t begun_us; /* since 1970: due times count from it */
    uint64_t mark_us;  /* monotonic */
    bool is_warm;
};

struct load_usage {
    double cpu_s, client_cpu_s;
    uint64_t resident_bytes;
};

static const double shares[QUANTILES] = {0,   0.01, 0.05, 0.1,  0.2,  0.3,   0.4,    0.5, 0.6,
                                         0.7, 0.8,  0.9,  0.95, 0.99, 0.999, 0.9999, 1};

/* ---- what load.h promises ---- */

void load_fail(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    fputs("load_client: ", stderr);
    vfprintf(stderr, format, arguments);
    fputs("\n", stderr);
    va_end(arguments);
    exit(1);
}

static uint64_t clock_us(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * US_PER_S + (uint64_t)now.tv_nsec / 1000;
}

uint64_t load_now_us(void)
{
    return clock_us(CLOCK_REALTIME);
}

static void make_room(struct load_bytes *bytes, size_t size)
{
    size_t capacity = bytes->capacity ? bytes->capacity : 4096;

    while (capacity - bytes->size < size)
        capacity *= 2;
    if (capacity == bytes->capacity)
        return;
    bytes->data = realloc(bytes->data, capacity);
    if (!bytes->data)
        load_fail("out of memory");
    bytes->capacity = capacity;
}

void load_append(struct load_bytes *bytes, const void *data, size_t size)
{
    make_room(bytes, size);
    memcpy(bytes->data + bytes->size, data, size);
    bytes->size += size;
}

void load_printf(struct load_bytes *bytes, const char *format, ...)
{
    char text[1024];
    va_list arguments;

    va_start(arguments, format);
    int size = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (size < 0 || (size_t)size >= sizeof(text))
        load_fail("a text of %d bytes", size);
    load_append(bytes, text, (size_t)size);
}

char *load_take(struct load_connection *connection, size_t size)
{
    struct load_bytes *in = &connection->in;
    if (in->size - in->start < size)
        return NULL;
    char *data = in->data + in->start;
    in->start += size;
    return data;
}

char *load_line(struct load_connection *connection)
{
    struct load_bytes *in = &connection->in;
    char *end =
        in->size > in->start ? memchr(in->data + in->start, '\n', in->size - in->start) : NULL;
    if (!end)
        return NULL;
    char *line = load_take(connection, (size_t)(end - in->data) + 1 - in->start);
    *end = '\0';
    if (end > line && end[-1] == '\r')
        end[-1] = '\0';
    return line;
}

/* ---- lines ---- */

static void find_fields(const char *line, char mark, size_t *ret_places, size_t *ret_count)
{
    const char *at = line;

    while ((at = strchr(at, mark)) && *ret_count < FIELDS_MAX) {
        ret_places[(*ret_count)++] = (size_t)(at - line);
        at += strspn(at, (const char[]){mark, '\0'});
    }
}

void load_lines_make(struct load_lines *lines, const char *format, size_t size, size_t count)
{
    size_t filling = strcspn(format, "~"), around = strlen(format) - 1;
    if (size < around)
        load_fail("%zu bytes are too few for %s", size, format);
    char *line = malloc(size + 1);
    lines->text = malloc(size * count);
    if (!line || !lines->text)
        load_fail("out of memory");
    memcpy(line, format, filling);
    memset(line + filling, 'x', size - around);
    memcpy(line + filling + size - around, format + filling + 1, around - filling + 1);
    find_fields(line, '@', lines->due_at, &lines->due_fields);
    find_fields(line, '#', lines->number_at, &lines->number_fields);
    lines->line_size = size;
    lines->count = count;
    for (size_t i = 0; i < count; i++)
        memcpy(lines->text + i * size, line, size);
    free(line);
}

static void digits(char *to, size_t count, uint64_t number)
{
    while (count-- > 0) {
        to[count] = (char)('0' + number % 10);
        number /= 10;
    }
}

void load_lines_fill(struct load_lines *lines, struct load_group *group)
{
    const struct load_options *options = group->options;
    double from_ms = (double)group->load->begun_us / 1000 + options->due_from_s * 1000;
    uint64_t first_ms = (uint64_t)from_ms;
    uint64_t span_ms = (uint64_t)((options->due_to_s - options->due_from_s) * 1000) + 1;

    for (size_t i = 0; i < lines->count; i++) {
        char *line = lines->text + i * lines->line_size;
        group->chance = group->chance * UINT64_C(6364136223846793005) + 1442695040888963407;
        uint64_t due_ms = first_ms + (group->chance >> 20) % span_ms;
        for (size_t k = 0; k < lines->due_fields; k++)
            digits(line + lines->due_at[k], 13, due_ms);
        for (size_t k = 0; k < lines->number_fields; k++)
            digits(line + lines->number_at[k], 12, group->next_number % NUMBERS_END);
        group->next_number++;
    }
}

/* ---- how long it took ---- */

static size_t slot_of(uint64_t us)
{
    if (us < SLOTS_OCTAVE)
        return us;
    unsigned octave = 63U - (unsigned)__builtin_clzll(us) - 5;
    size_t slot = (size_t)(octave + 1) * SLOTS_OCTAVE + (us >> octave) - SLOTS_OCTAVE;
    return slot < SLOTS_MAX ? slot : SLOTS_MAX - 1;
}

/* The middle of a slot. */
static double slot_us(size_t slot)
{
    if (slot < SLOTS_OCTAVE)
        return (double)slot;
    unsigned octave = (unsigned)(slot / SLOTS_OCTAVE) - 1;
    return (double)((slot % SLOTS_OCTAVE + SLOTS_OCTAVE) << octave) + (double)(1ULL << octave) / 2;
}

static void note(struct load_histogram *histogram, uint64_t us)
{
    histogram->slots[slot_of(us)]++;
    histogram->count++;
    if (us > histogram->max_us)
        histogram->max_us = us;
}

void load_note_late(struct load_group *group, uint64_t due_ms)
{
    uint64_t now_us = load_now_us();
    if (now_us < due_ms * 1000)
        load_fail("%" PRIu64 " us early", due_ms * 1000 - now_us);
    note(&group->lateness, now_us - due_ms * 1000);
}

static double quantile_us(const struct load_histogram *histogram, double share)
{
    uint64_t wanted = (uint64_t)(share * (double)histogram->count), seen = 0;

    if (wanted >= histogram->count)
        return (double)histogram->max_us;
    for (size_t i = 0; i < SLOTS_MAX; i++)
        if ((seen += histogram->slots[i]) > wanted)
            return slot_us(i);
    return (double)histogram->max_us;
}

/* ---- the machine's use ---- */

/* The first number of a file of /proc; 0 for that of a child that has ended. */
static uint64_t first_number(const char *path)
{
    uint64_t number = 0;
    FILE *file = fopen(path, "r");
    if (file) {
        if (fscanf(file, "%" SCNu64, &number) != 1)
            number = 0;
        fclose(file);
    }
    return number;
}

/* The server itself: its threads, and its children that have ended. */
static void add_server(int pid, struct load_usage *usage)
{
    unsigned long user, kernel;
    long user_ended, kernel_ended, pages;
    char path[64], text[1024];

    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    if (!file)
        load_fail("the server is gone");
    const char *behind = fgets(text, sizeof(text), file) ? strrchr(text, ')') : NULL;
    fclose(file);
    if (!behind || sscanf(behind + 1,
                          " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %ld %ld %*d %*d "
                          "%*d %*d %*u %*u %ld",
                          &user, &kernel, &user_ended, &kernel_ended, &pages) != 5)
        load_fail("%s: unreadable", path);
    usage->cpu_s += ((double)(user + kernel) + (double)(user_ended + kernel_ended)) /
                    (double)sysconf(_SC_CLK_TCK);
    usage->resident_bytes += (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* In nanoseconds, as many children with a little each would vanish in stat's hundredths. */
static void add_children(int pid, struct load_usage *usage)
{
    char path[64];
    int child;

    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, pid);
    FILE *file = fopen(path, "r");
    if (!file)
        return;
    while (fscanf(file, "%d", &child) == 1) {
        snprintf(path, sizeof(path), "/proc/%d/schedstat", child);
        usage->cpu_s += (double)first_number(path) / 1e9;
    }
    fclose(file);
}

static struct load_usage usage_now(const struct load_run *load)
{
    struct load_usage usage = {0};
    struct rusage own;

    getrusage(RUSAGE_SELF, &own);
    usage.client_cpu_s = (double)(own.ru_utime.tv_sec + own.ru_stime.tv_sec) +
                         (double)(own.ru_utime.tv_usec + own.ru_stime.tv_usec) / 1e6;
    if (load->pid) {
        add_server(load->pid, &usage);
        add_children(load->pid, &usage);
    }
    return usage;
}

/* ---- connections ---- */

static void open_connection(struct load_connection *connection, struct load_group *group)
{
    struct load_run *load = group->load;
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)load->options.port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    connection->group = group;
    connection->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connection->fd < 0 ||
        connect(connection->fd, (struct sockaddr *)&address, sizeof(address)) != 0)
        load_fail("connect to port %d: %s", load->options.port, strerror(errno));
    setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
    epoll_ctl(load->epoll_fd, EPOLL_CTL_ADD, connection->fd, &event);
}

static void send_out(struct load_connection *connection)
{
    struct load_bytes *out = &connection->out;

    while (out->start < out->size) {
        ssize_t sent = send(connection->fd, out->data + out->start, out->size - out->start,
                            MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EAGAIN)
            break;
        if (sent < 0)
            load_fail("send: %s", strerror(errno));
        out->start += (size_t)sent;
    }
    bool waits = out->start < out->size;
    if (!waits)
        out->start = out->size = 0;
    if (waits != connection->waits_to_send) {
        struct epoll_event event = {.events = waits ? EPOLLIN | EPOLLOUT : EPOLLIN,
                                    .data.ptr = connection};
        connection->waits_to_send = waits;
        epoll_ctl(connection->group->load->epoll_fd, EPOLL_CTL_MOD, connection->fd, &event);
    }
}

/* False: nothing is there. */
static bool receive(struct load_connection *connection)
{
    struct load_bytes *in = &connection->in;

    if (in->start == in->size) {
        in->start = in->size = 0;
    } else if (in->start > READ_BYTES) {
        in->size -= in->start;
        memmove(in->data, in->data + in->start, in->size);
        in->start = 0;
    }
    make_room(in, READ_BYTES + 1);
    ssize_t size = recv(connection->fd, in->data + in->size, READ_BYTES, MSG_DONTWAIT);
    if (size < 0 && errno == EAGAIN)
        return false;
    if (size <= 0)
        load_fail("receive: %s", size == 0 ? "the server hung up" : strerror(errno));
    in->size += (size_t)size;
    return true;
}

static void ask(struct load_connection *connection)
{
    connection->step = 0;
    connection->asked_at_us = clock_us(CLOCK_MONOTONIC);
    connection->group->operation->ask(connection);
    send_out(connection);
}

static void mark(struct load_run *load, uint64_t units, uint64_t now_us)
{
    while (load->mark_count < MARKS_MAX && units >= (load->mark_count + 1) * load->mark_units) {
        load->marks[load->mark_count++] = (double)(now_us - load->mark_us) / 1e6;
        load->mark_us = now_us;
    }
}

static void note_done(struct load_connection *connection)
{
    struct load_group *group = connection->group;
    uint64_t now_us = clock_us(CLOCK_MONOTONIC);

    note(&group->latency, now_us - connection->asked_at_us);
    group->requests++;
    group->units += connection->units;
    if (group == &group->load->groups[0])
        mark(group->load, group->units, now_us);
}

static void proceed(struct load_connection *connection, uint32_t events)
{
    struct load_run *load = connection->group->load;
    const struct load_operation *operation = connection->group->operation;

    if (events & EPOLLOUT)
        send_out(connection);
    if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR)) || !receive(connection))
        return;
    if (load->greeting > 0) {
        if (operation->greeted(connection) == LOAD_DONE)
            load->greeting--;
        return;
    }
    switch (operation->answer(connection)) {
    case LOAD_MORE:
        break;
    case LOAD_STEP:
        connection->step++;
        send_out(connection);
        break;
    case LOAD_DONE:
        note_done(connection);
        ask(connection);
        break;
    }
}

static void turn(struct load_run *load)
{
    struct epoll_event events[EVENTS_MAX];
    int count = epoll_wait(load->epoll_fd, events, EVENTS_MAX, 100);

    for (int i = 0; i < count; i++)
        proceed(events[i].data.ptr, events[i].events);
}

/* ---- the run ---- */

static void open_all(struct load_run *load)
{
    size_t opened = 0;

    load->epoll_fd = epoll_create1(0);
    for (size_t i = 0; i < load->group_count; i++)
        load->connection_count += load->groups[i].connections;
    load->connections = calloc(load->connection_count, sizeof(*load->connections));
    if (!load->connections)
        load_fail("out of memory");
    for (size_t i = 0; i < load->group_count; i++)
        for (size_t n = 0; n < load->groups[i].connections; n++)
            open_connection(&load->connections[opened++], &load->groups[i]);
    for (size_t i = 0; i < opened; i++)
        if (load->connections[i].group->operation->greet) {
            load->greeting++;
            load->connections[i].group->operation->greet(&load->connections[i]);
            send_out(&load->connections[i]);
        }
    while (load->greeting > 0)
        turn(load);
}

static void restart_counts(struct load_run *load)
{
    for (size_t i = 0; i < load->group_count; i++) {
        struct load_group *group = &load->groups[i];
        group->requests = group->units = 0;
        memset(&group->latency, 0, sizeof(group->latency));
        memset(&group->lateness, 0, sizeof(group->lateness));
    }
    load->mark_count = 0;
    load->mark_us = clock_us(CLOCK_MONOTONIC);
}

static void print_quantiles(const char *name, const struct load_histogram *histogram)
{
    printf(", \"%s\": [", name);
    for (size_t i = 0; i < QUANTILES; i++)
        printf("%s[%g, %.1f]", i ? ", " : "", shares[i], quantile_us(histogram, shares[i]));
    printf("]");
}

static void print_result(const struct load_run *load, double seconds,
                         const struct load_usage *before, const struct load_usage *after)
{
    printf("{\"seconds\": %.6f, \"cpu_s\": %.2f, \"client_cpu_s\": %.4f, \"resident\": %" PRIu64
           ", \"marks\": [",
           seconds, after->cpu_s - before->cpu_s, after->client_cpu_s - before->client_cpu_s,
           after->resident_bytes);
    for (size_t i = 0; i < load->mark_count; i++)
        printf("%s%.3f", i ? ", " : "", load->marks[i]);
    printf("], \"runs\": [");
    for (size_t i = 0; i < load->group_count; i++) {
        const struct load_group *group = &load->groups[i];
        printf(
            "%s{\"operation\": \"%s\", \"connections\": %zu, \"batch\": %zu, \"requests\": %" PRIu64
            ", \"units\": %" PRIu64,
            i ? ", " : "", group->operation->name, group->connections, group->batch,
            group->requests, group->units);
        print_quantiles("latency_us", &group->latency);
        if (group->lateness.count > 0)
            print_quantiles("lateness_us", &group->lateness);
        printf("}");
    }
    printf("]}\n");
}

static void run(struct load_run *load)
{
    struct load_usage before = usage_now(load);
    uint64_t began_us = clock_us(CLOCK_MONOTONIC), now_us;
    uint64_t warm_end_us = began_us + (uint64_t)(load->warm_s * 1e6);
    uint64_t end_us = warm_end_us + (uint64_t)(load->seconds * 1e6);

    load->mark_us = began_us;
    for (size_t i = 0; i < load->connection_count; i++)
        ask(&load->connections[i]);
    do {
        turn(load);
        now_us = clock_us(CLOCK_MONOTONIC);
        if (!load->is_warm && now_us >= warm_end_us) {
            load->is_warm = true;
            restart_counts(load);
            before = usage_now(load);
            began_us = now_us;
            end_us = now_us + (uint64_t)(load->seconds * 1e6);
        }
    } while (now_us < end_us &&
             !(load->units_wanted && load->groups[0].units >= load->units_wanted));
    struct load_usage after = usage_now(load);
    print_result(load, (double)(now_us - began_us) / 1e6, &before, &after);
}

/* ---- the command line ---- */

static void add_run(struct load_run *load, const char *text)
{
    struct load_group *group = &load->groups[load->group_count];
    char name[32];

    if (load->group_count == GROUPS_MAX)
        load_fail("more than %d runs", GROUPS_MAX);
    group->load = load;
    group->options = &load->options;
    group->batch = group->connections = 1;
    if (sscanf(text, "%31[^:]:%zu:%zu", name, &group->connections, &group->batch) < 1)
        load_fail("--run %s", text);
    group->operation = load_http_find(name) ? load_http_find(name) : load_peer_find(name);
    if (!group->operation)
        load_fail("there is no operation %s", name);
    load->group_count++;
}

static void read_ids(struct load_options *options, const char *path)
{
    char line[256];
    FILE *file = fopen(path, "r");
    if (!file)
        load_fail("%s: %s", path, strerror(errno));
    while (fgets(line, sizeof(line), file)) {
        line[strcspn(line, "\r\n")] = '\0';
        if (options->id_count % 1024 == 0)
            options->ids = realloc(options->ids, (options->id_count + 1024) * sizeof(char *));
        if (!options->ids || !(options->ids[options->id_count++] = strdup(line)))
            load_fail("out of memory");
    }
    fclose(file);
}

static void set(struct load_run *load, int option, const char *value)
{
    switch (option) {
    case 'p':
        load->options.port = (int)strtol(value, NULL, 10);
        break;
    case 'P':
        load->pid = (int)strtol(value, NULL, 10);
        break;
    case 'r':
        add_run(load, value);
        break;
    case 's':
        load->seconds = strtod(value, NULL);
        break;
    case 'w':
        load->warm_s = strtod(value, NULL);
        break;
    case 'u':
        load->units_wanted = strtoull(value, NULL, 10);
        break;
    case 'm':
        load->mark_units = strtoull(value, NULL, 10);
        break;
    case 'b':
        load->options.bytes = (unsigned)strtoul(value, NULL, 10);
        break;
    case 't':
        load->options.target = value;
        break;
    case 'f':
        load->options.due_from_s = strtod(value, NULL);
        break;
    case 'T':
        load->options.due_to_s = strtod(value, NULL);
        break;
    case 'n':
        load->number = strtoull(value, NULL, 10);
        break;
    case 'i':
        read_ids(&load->options, value);
        break;
    default:
        load_fail("see the top of load_client.c");
    }
}

static void parse(struct load_run *load, int count, char **arguments)
{
    static const struct option options[] = {
        {"port", 1, NULL, 'p'},     {"pid", 1, NULL, 'P'},    {"run", 1, NULL, 'r'},
        {"seconds", 1, NULL, 's'},  {"warm", 1, NULL, 'w'},   {"units", 1, NULL, 'u'},
        {"mark", 1, NULL, 'm'},     {"bytes", 1, NULL, 'b'},  {"target", 1, NULL, 't'},
        {"due-from", 1, NULL, 'f'}, {"due-to", 1, NULL, 'T'}, {"number", 1, NULL, 'n'},
        {"ids", 1, NULL, 'i'},      {NULL, 0, NULL, 0}};
    int option;

    while ((option = getopt_long(count, arguments, "", options, NULL)) != -1)
        set(load, option, optarg);
    if (!load->options.port || load->group_count == 0 || optind < count)
        load_fail("--port and --run are wanted");
}

int main(int count, char **arguments)
{
    static struct load_run load = {.seconds = 1e6,
                                   .mark_units = 1000000,
                                   .options = {.bytes = 300,
                                               .target = "http://127.0.0.1:9/recheck",
                                               .due_from_s = 1800,
                                               .due_to_s = 5400}};

    load.number = load_now_us() % NUMBERS_END;
    load.begun_us = load_now_us();
    parse(&load, count, arguments);
    for (size_t i = 0; i < load.group_count; i++) {
        load.groups[i].next_number = load.number + i * (NUMBERS_END / 10);
        load.groups[i].chance = load.number + i;
    }
    open_all(&load);
    run(&load);
    return 0;
}
