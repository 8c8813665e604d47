/*
 * doctor.c - the verb doctor: checks what a daemon on this machine needs, a line for each check.
 *
 * A check that could not be made is a warning, for what it would have found is unknown. Only a
 * failure makes the exit code 1.
 */
#include "base/json_write.h"
#include "calendar/zones.h"
#include "cli/broker_list.h"
#include "cli/client.h"
#include "cli/value.h"
#include "cli/verbs.h"
#include "ops/config_load.h"
#include "sys/clock.h"
#include "sys/files.h"
#include "sys/process.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define DOCTOR_FILE_BYTES_MAX (UINT64_C(1) << 20) /* Maximum size of tzdata.zi that is read. */
#define DOCTOR_FOLDER_PACKAGE "/var/lib/tickwheel/data"
#define DOCTOR_CONNECT_MS     3000
#define DOCTOR_KAFKA_PORT     9092
#define DOCTOR_SYNCS          64
#define DOCTOR_SYNC_MS_SLOW   20.0 /* median from which users notice the delay of each create */
#define DOCTOR_OTHER_FILES    2048 /* files that the daemon reserves for its storage */

enum doctor_result {
    DOCTOR_OK,
    DOCTOR_WARN,
    DOCTOR_FAIL,
};

struct doctor {
    struct cli *cli;
    struct config config; /* Settings with which a daemon on this machine would start. */
    struct buffer folder; /* the data folder, with a NUL */
    bool is_folder_named; /* a flag or a setting names the folder */
    bool has_failed;
};

static void doctor_tell(struct doctor *doctor, enum doctor_result result, const char *check,
                        const char *format, ...) __attribute__((format(printf, 4, 5)));

static void doctor_tell(struct doctor *doctor, enum doctor_result result, const char *check,
                        const char *format, ...)
{
    static const char *const words[] = {"ok", "warn", "fail"};
    static const enum screen_colour colours[] = {SCREEN_GREEN, SCREEN_YELLOW, SCREEN_RED};
    struct cli *cli = doctor->cli;
    char detail[1024], name[96];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(detail, sizeof(detail), format, arguments);
    va_end(arguments);
    doctor->has_failed = doctor->has_failed || result == DOCTOR_FAIL;
    if (cli->settings.form == CLI_FORM_TABLE) {
        screen_append_coloured(&cli->out, cli_style(cli), colours[result], bytes_of(words[result]));
        snprintf(name, sizeof(name), "%*s%-10s ", result == DOCTOR_OK ? 4 : 2, "", check);
        screen_append(&cli->out, bytes_of(name));
        screen_append(&cli->out, bytes_of(detail));
        buffer_append_text(&cli->out, "\n");
    } else {
        struct buffer line;

        buffer_init(&line);
        json_open(&line, NULL, '{');
        json_put_text(&line, "check", check);
        json_put_text(&line, "result", words[result]);
        json_put_text(&line, "detail", detail);
        json_close(&line, '}');
        screen_append_json(&cli->out, buffer_bytes(&line));
        buffer_append_text(&cli->out, "\n");
        buffer_deinit(&line);
    }
    cli_flush(cli);
}

/* ---- settings ---- */

/* Reads the settings as the daemon does. If the daemon would refuse them, uses the defaults. */
static void doctor_read_settings(struct doctor *doctor)
{
    const char *path = cli_flag(doctor->cli, CLI_FLAG_CONFIG);
    const char *data = cli_flag(doctor->cli, CLI_FLAG_DATA);
    struct config *config = &doctor->config, defaults;
    struct config_request request;
    struct buffer flag;
    struct error error;

    buffer_init(&flag);
    buffer_printf(&flag, "--config=%s", path ? path : "");
    cli_text(&flag);
    char program[] = "tickwheeld", *arguments[] = {program, flag.data};
    config_init(&defaults);
    if (config_load(path ? 2 : 1, arguments, environ, config, &request, &error)) {
        doctor_tell(doctor, DOCTOR_FAIL, "config", "%s", error.text);
        *config = defaults;
    } else {
        path = path ? path : getenv("TICKWHEEL_CONFIG");
        doctor_tell(doctor, DOCTOR_OK, "config", "%s",
                    path && *path ? path : "no --config: the daemon's defaults");
    }
    buffer_deinit(&flag);
    const bool is_set = strcmp(config->data_folder, defaults.data_folder) != 0;
    doctor->is_folder_named = data || is_set;
    /* The systemd unit of the packages sets the folder in its environment, which a shell does not
     * have. */
    const bool is_package = files_look_for(defaults.data_folder) == FILES_ABSENT &&
                            files_look_for(DOCTOR_FOLDER_PACKAGE) != FILES_ABSENT;
    buffer_append_text(&doctor->folder, data                    ? data
                                        : is_package && !is_set ? DOCTOR_FOLDER_PACKAGE
                                                                : config->data_folder);
    cli_text(&doctor->folder);
}

/* ---- the machine ---- */

static void doctor_check_clock(struct doctor *doctor)
{
    struct clock_sync sync = wall_sync();

    if (sync.is_synchronised)
        doctor_tell(doctor, DOCTOR_OK, "clock", "synchronised, with an estimated error of %.1f ms",
                    (double)sync.error_us / 1000);
    else
        doctor_tell(doctor, DOCTOR_WARN, "clock",
                    "no time service keeps it right, so timers fire by a clock that drifts: "
                    "install chrony or systemd-timesyncd");
}

static void doctor_check_tzdata(struct doctor *doctor)
{
    static const char prefix[] = "# version ";
    struct zones *zones = NULL;
    struct buffer text;
    struct error error;

    buffer_init(&text);
    if (zones_create(ZONES_FOLDER, &zones, &error)) {
        doctor_tell(doctor, DOCTOR_FAIL, "tzdata", "%s", error.text);
    } else if (files_read(ZONES_FOLDER "/tzdata.zi", DOCTOR_FILE_BYTES_MAX, &text, NULL) ||
               !bytes_has_prefix(buffer_bytes(&text), bytes_of(prefix))) {
        doctor_tell(doctor, DOCTOR_WARN, "tzdata",
                    "of an unknown version: " ZONES_FOLDER " has no tzdata.zi");
    } else {
        struct bytes rest = buffer_bytes(&text), line = bytes_cut(&rest, '\n');

        doctor_tell(doctor, DOCTOR_OK, "tzdata", "version %.*s",
                    (int)(line.size - sizeof(prefix) + 1), line.data + sizeof(prefix) - 1);
    }
    zones_destroy(zones);
    buffer_deinit(&text);
}

static void doctor_check_limits(struct doctor *doctor)
{
    uint64_t wanted = (uint64_t)DOCTOR_OTHER_FILES + doctor->config.connections_max +
                      doctor->config.webhook_connections_max;
    uint64_t limit = process_file_limit_max();

    doctor_tell(doctor, limit < wanted ? DOCTOR_WARN : DOCTOR_OK, "limits",
                "this user may open %llu files, the daemon wants %llu%s", (unsigned long long)limit,
                (unsigned long long)wanted,
                limit < wanted ? ": it takes fewer connections (ulimit -Hn, LimitNOFILE=)" : "");
}

/* ---- the data folder ---- */

struct doctor_files {
    const char *folder;
    uint32_t owner;
    uint64_t count, bytes, foreign;
    bool is_restoring;
};

static bool doctor_see_file(void *context, const struct files_entry *entry)
{
    struct doctor_files *files = context;
    char path[PATH_MAX];
    uint32_t owner = files->owner;

    files->count++;
    files->bytes += entry->bytes;
    files->is_restoring = files->is_restoring || strcmp(entry->name, "RESTORING") == 0;
    if ((size_t)snprintf(path, sizeof(path), "%s/%s", files->folder, entry->name) < sizeof(path))
        files_owner(path, &owner, NULL); /* a file that was removed meanwhile has no owner */
    files->foreign += owner != files->owner;
    return true;
}

/* Checks the files of the data folder. Returns false if there is no data folder. */
static bool doctor_check_files(struct doctor *doctor)
{
    struct doctor_files files = {.folder = doctor->folder.data};
    struct error error;

    switch (files_look_for(files.folder)) {
    case FILES_THERE:
        break;
    case FILES_HIDDEN:
        doctor_tell(doctor, DOCTOR_FAIL, "files",
                    "this user may not see %s: run doctor as root, or as the user of the daemon",
                    files.folder);
        return false;
    case FILES_ABSENT:
        if (doctor->is_folder_named)
            doctor_tell(doctor, DOCTOR_WARN, "files",
                        "there is no %s yet: the daemon makes it at its start", files.folder);
        else
            doctor_tell(doctor, DOCTOR_FAIL, "files",
                        "there is neither %s nor " DOCTOR_FOLDER_PACKAGE
                        ": name the data folder by --data or --config",
                        files.folder);
        return false;
    }
    if (files_owner(files.folder, &files.owner, &error) ||
        files_list(files.folder, doctor_see_file, &files, &error))
        doctor_tell(doctor, DOCTOR_WARN, "files",
                    "%s: run doctor as root, or as the user of the daemon", error.text);
    else if (files.foreign)
        doctor_tell(doctor, DOCTOR_FAIL, "files",
                    "%s is of user id %u, but %llu of its %llu files are not: chown -R it",
                    files.folder, (unsigned)files.owner, (unsigned long long)files.foreign,
                    (unsigned long long)files.count);
    else if (files.is_restoring)
        doctor_tell(doctor, DOCTOR_FAIL, "files",
                    "a restore into %s did not end; repeat it: tickwheeld --restore BACKUP",
                    files.folder);
    else if (!files_is_private(files.folder))
        doctor_tell(doctor, DOCTOR_WARN, "files",
                    "other users may read payloads in %s: chmod 700 it", files.folder);
    else
        doctor_tell(doctor, DOCTOR_OK, "files", "%s: %llu files, %.1f MiB, of user id %u",
                    files.folder, (unsigned long long)files.count, (double)files.bytes / 1048576,
                    (unsigned)files.owner);
    return true;
}

static int doctor_compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static void doctor_check_disk(struct doctor *doctor)
{
    const char *folder = doctor->folder.data;
    uint64_t ns[DOCTOR_SYNCS], bytes_free;
    struct error error;

    if (files_free_bytes(folder, &bytes_free, &error) ||
        files_measure_syncs(folder, ns, DOCTOR_SYNCS, &error)) {
        doctor_tell(doctor, DOCTOR_WARN, "disk",
                    "not measured: %s: run doctor as root, or as the user of the daemon",
                    error.text);
        return;
    }
    qsort(ns, DOCTOR_SYNCS, sizeof(*ns), doctor_compare);
    const size_t middle = DOCTOR_SYNCS / 2;
    double median_ms = (double)ns[middle] / 1e6;
    double free_mib = (double)bytes_free / 1048576;
    bool is_full = free_mib < (double)doctor->config.disk_reserve_bytes / MIB;
    doctor_tell(
        doctor, is_full || median_ms > DOCTOR_SYNC_MS_SLOW ? DOCTOR_WARN : DOCTOR_OK, "disk",
        "%.1f GiB free%s; fdatasync of 4 KiB takes %.1f ms, the longest of %d took %.1f ms%s",
        free_mib / 1024, is_full ? ", too little for creates (disk_reserve_bytes)" : "", median_ms,
        DOCTOR_SYNCS, (double)ns[DOCTOR_SYNCS - 1] / 1e6,
        median_ms > DOCTOR_SYNC_MS_SLOW ? ": a create waits for one" : "");
}

/* ---- the network ---- */

/* Returns false if nothing answers. */
static bool doctor_check_daemon(struct doctor *doctor)
{
    struct cli *cli = doctor->cli;
    struct cli_request request = {.method = "GET", .path = "/readyz", .is_quiet = true};
    struct cli_answer answer;
    struct instant began = instant_now();
    enum cli_exit code = cli_send(cli, &request, &answer);
    double ms = (double)instant_since_ns(began, instant_now()) / 1e6;
    struct bytes body = buffer_bytes(&answer.body), detail = cli_member(body, "detail");

    if (code)
        doctor_tell(doctor, DOCTOR_FAIL, "daemon",
                    "none answers at %s: start tickwheeld, or name it by --url", cli->settings.url);
    else if (answer.status == 200 && detail.size)
        doctor_tell(doctor, DOCTOR_WARN, "daemon", "%s is ready, but %.*s", cli->settings.url,
                    (int)(detail.size < 500 ? detail.size : 500), detail.data);
    else if (answer.status == 200 && cli_is_text(cli_member(body, "status"), "ready"))
        doctor_tell(doctor, DOCTOR_OK, "daemon", "%s is ready and answers in %.1f ms",
                    cli->settings.url, ms);
    else if (answer.status == 503 && detail.size)
        doctor_tell(doctor, DOCTOR_FAIL, "daemon", "%s is not ready: %.*s", cli->settings.url,
                    (int)(detail.size < 500 ? detail.size : 500), detail.data);
    else
        doctor_tell(doctor, DOCTOR_FAIL, "daemon", "what answers at %s is not tickwheeld",
                    cli->settings.url);
    cli_answer_deinit(&answer);
    return !code;
}

/* Warns of what timers wait for, if the token may see it. */
static void doctor_check_waiting(struct doctor *doctor)
{
    struct cli_request request = {.method = "GET", .path = "/v1/verdict", .is_quiet = true};
    struct cli_answer answer;
    struct cli_list lines;
    struct bytes line;

    if (!cli_send(doctor->cli, &request, &answer) && answer.status == 200) {
        cli_list_init(&lines, cli_member(buffer_bytes(&answer.body), "waiting"));
        while (cli_list_next(&lines, &line)) {
            struct buffer text;

            buffer_init(&text);
            cli_append_value(&text, cli_member(line, "text"));
            doctor_tell(doctor, DOCTOR_WARN, "waiting", "%s", cli_text(&text));
            buffer_deinit(&text);
        }
    }
    cli_answer_deinit(&answer);
}

/* True if a host accepts connections. It is written as "host", "host:port", "[address]" or
 * "[address]:port". */
static bool doctor_connects(struct bytes host, uint16_t port)
{
    const char *behind = memchr(host.data, ']', host.size);
    const char *from = behind ? behind : host.data;
    bool has_port = memchr(from, ':', (size_t)(host.data + host.size - from)) != NULL;
    struct buffer address;

    buffer_init(&address);
    buffer_append_bytes(&address, host);
    if (!has_port)
        buffer_printf(&address, ":%u", port);
    bool is_reached = cli_connects(cli_text(&address), DOCTOR_CONNECT_MS);
    buffer_deinit(&address);
    return is_reached;
}

static void doctor_check_broker(struct doctor *doctor, const struct listed_broker *broker)
{
    struct bytes hosts = broker->hosts;
    struct buffer silent;
    size_t reached = 0;

    buffer_init(&silent);
    while (hosts.size) {
        struct bytes host = bytes_cut(&hosts, ',');
        bool is_reached = host.size && doctor_connects(host, broker->port);

        reached += is_reached;
        if (is_reached)
            continue;
        buffer_append_text(&silent, silent.size ? " " : "");
        buffer_append_bytes(&silent, host);
    }
    const char *names = cli_text(&silent);
    doctor_tell(doctor,
                !reached      ? DOCTOR_FAIL
                : silent.size ? DOCTOR_WARN
                              : DOCTOR_OK,
                "broker", "%.*s: %s%s", (int)broker->name.size, broker->name.data,
                silent.size ? "no connection to " : "accepts connections", names);
    buffer_deinit(&silent);
}

enum cli_exit doctor_run(struct cli *cli)
{
    struct doctor doctor = {.cli = cli};
    struct listed_broker broker;
    struct buffer log;

    buffer_init(&log);
    doctor_read_settings(&doctor);
    doctor_check_clock(&doctor);
    doctor_check_tzdata(&doctor);
    doctor_check_limits(&doctor);
    if (doctor_check_files(&doctor))
        doctor_check_disk(&doctor);
    if (doctor_check_daemon(&doctor))
        doctor_check_waiting(&doctor);
    struct bytes list = bytes_of(doctor.config.broker_connections);
    while (broker_list_next(&list, &broker))
        doctor_check_broker(&doctor, &broker);
    broker = (struct listed_broker){.name = BYTES("cluster_brokers"),
                                    .hosts = bytes_of(doctor.config.cluster_brokers),
                                    .port = DOCTOR_KAFKA_PORT};
    if (broker.hosts.size)
        doctor_check_broker(&doctor, &broker);
    buffer_printf(&log, "cluster_log=%s", doctor.config.cluster_log);
    list = buffer_bytes(&log);
    if (broker_list_next(&list, &broker))
        doctor_check_broker(&doctor, &broker);
    buffer_deinit(&log);
    buffer_deinit(&doctor.folder);
    return doctor.has_failed ? CLI_EXIT_FAILED : CLI_EXIT_DONE;
}
