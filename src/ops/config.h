/*
 * config.h - every setting of the daemon in one table: its name, type, default, limits and meaning.
 *
 * The table makes the fields of `struct config`, the flags (--listen-address), the environment
 * (TICKWHEEL_LISTEN_ADDRESS), the keys of the config file (listen_address), --help,
 * docs/configuration.md and the example file. Flags win over the environment, the environment over
 * the file, the file over the default.
 *
 *     struct config config;
 *     struct config_request request;
 *     struct error error;
 *     if (config_load(argc, argv, environ, &config, &request, &error))
 *         return fprintf(stderr, "tickwheeld: %s\n", error.text), 2;
 *
 * Errors     ERROR_INVALID for an unknown name (the text offers the nearest one) and for a value
 *            out of its limits (the text names them); ERROR_IO for a file that cannot be read.
 * Ownership  A config holds its texts itself: it can be copied, and there is nothing to free.
 * Threads    Immutable once loaded: any.
 */
#ifndef TICKWHEEL_OPS_CONFIG_H
#define TICKWHEEL_OPS_CONFIG_H

#include "base/bytes.h"
#include "base/error.h"

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

#define SECOND_MS UINT64_C(1000)
#define MINUTE_MS (60 * SECOND_MS)
#define HOUR_MS   (60 * MINUTE_MS)
#define DAY_MS    (24 * HOUR_MS)

enum config_storage_sync {
    CONFIG_STORAGE_SYNC_ALWAYS,
    CONFIG_STORAGE_SYNC_NEVER,
};

enum config_storage_damage {
    CONFIG_STORAGE_DAMAGE_REFUSE,
    CONFIG_STORAGE_DAMAGE_SKIP,
};

enum config_metrics_access {
    CONFIG_METRICS_ACCESS_ADMIN,
    CONFIG_METRICS_ACCESS_OPEN,
};

enum config_listen_unprotected {
    CONFIG_LISTEN_UNPROTECTED_NO,
    CONFIG_LISTEN_UNPROTECTED_YES,
};

enum config_webhook_cloudevents {
    CONFIG_WEBHOOK_CLOUDEVENTS_OFF,
    CONFIG_WEBHOOK_CLOUDEVENTS_BINARY,
};

enum config_log_level {
    CONFIG_LOG_LEVEL_INFO,
    CONFIG_LOG_LEVEL_DEBUG,
};

/* SECTION(name, sentence) opens a section of the file and of the docs.
 * FIELD(type, name, default, min, max, help) is one setting:
 *
 *     U32       a number                                      uint32_t name
 *     U64       a number                                      uint64_t name
 *     DURATION  "500ms", "10s", "1h30m"; limits in ms         uint64_t name_ms
 *     BYTES     "4096", "64K", "256M", "1G"                   uint64_t name
 *     TEXT      limits are its length in bytes                char name[max + 1]
 *     LIST      the same, parts separated by commas           char name[max + 1]
 *     SECRET    the same, never shown                         char name[max + 1]
 *     CHOICE    the words, the first one is the default       enum config_<name> name */
#define CONFIG_TABLE(SECTION, FIELD)                                                               \
    SECTION("server", "Where clients connect and what one of them may take.")                      \
    FIELD(TEXT, listen_address, "127.0.0.1", 1, 45, "IPv4 or IPv6 address to listen on")           \
    FIELD(U32, listen_port, "8463", 0, 65535, "port to listen on; 0 takes any free one")           \
    FIELD(U32, http_threads, "1", 1, 64, "threads that read requests and write answers")           \
    FIELD(U32, connections_max, "4096", 1, 1000000, "client connections at a time")                \
    FIELD(DURATION, http_idle, "60s", SECOND_MS, DAY_MS,                                           \
          "a connection that is silent for so long is closed")                                     \
    FIELD(BYTES, header_bytes_max, "32K", 4 * KIB, MIB, "request line and headers of one request") \
    FIELD(BYTES, body_bytes_max, "2M", KIB, GIB, "body of one request; batches have their own")    \
    FIELD(BYTES, batch_bytes_max, "1G", KIB, 1024 * GIB, "body of one batch request")              \
    FIELD(U32, batch_lines_max, "1000000", 1, 100000000, "timers in one batch request")            \
    FIELD(U32, batches_max, "256", 1, 65536, "batch requests at a time")                           \
    FIELD(U32, inflight_max, "200000", 1, 100000000,                                               \
          "timers in requests that are not answered yet; beyond it requests are refused with 503") \
    FIELD(BYTES, bodies_bytes_max, "256M", MIB, 1024 * GIB,                                        \
          "bodies of requests under way, together; beyond it they are refused with 503")           \
    FIELD(BYTES, answers_bytes_max, "512M", MIB, 1024 * GIB,                                       \
          "answers not read yet, together; beyond it lists and leases are refused with 503")       \
    FIELD(DURATION, drain, "10s", 0, HOUR_MS,                                                      \
          "at a stop, how long requests and deliveries that are out may take to end")              \
    SECTION("access", "Who may call, and how what is said is kept secret; see security.md.")       \
    FIELD(TEXT, tokens_file, "", 0, 4000,                                                          \
          "file of tokens; without one everybody may do everything. Read again at SIGHUP")         \
    FIELD(TEXT, tls_certificate, "", 0, 4000,                                                      \
          "file of the certificate, in PEM; with it only TLS is spoken. Read again at SIGHUP")     \
    FIELD(TEXT, tls_key, "", 0, 4000, "file of the certificate's key, in PEM. The same")           \
    FIELD(CHOICE, metrics_access, "admin|open", 0, 0,                                              \
          "where there are tokens: /metrics needs one with the scope admin, or none")              \
    FIELD(CHOICE, listen_unprotected, "no|yes", 0, 0,                                              \
          "whether to listen beyond loopback without tokens")                                      \
    SECTION("timers", "What one timer may hold and how many there may be.")                        \
    FIELD(BYTES, payload_bytes_max, "1M", 1, 64 * MIB, "payload of one timer")                     \
    FIELD(U32, target_bytes_max, "2048", 16, 65536, "target of one timer")                         \
    FIELD(U32, labels_max, "64", 0, 1024, "labels of one timer")                                   \
    FIELD(BYTES, headers_bytes_max, "16K", 0, MIB, "headers of one timer's webhook in all")        \
    FIELD(U64, pending_max, "0", 0, UINT64_MAX,                                                    \
          "live timers in all; beyond it a create is refused with 429; 0 is no limit")             \
    FIELD(DURATION, retain, "1h", 0, 3650 * DAY_MS,                                                \
          "how long the final state of a timer is answered with 410, before 404")                  \
    FIELD(U32, partitions, "4", 1, 256,                                                            \
          "partitions the timers are spread over; fixed when the data folder is made")             \
    FIELD(DURATION, window, "10s", 100, DAY_MS,                                                    \
          "timers due within it are in memory, later ones on disk only")                           \
    FIELD(BYTES, near_bytes_max, "256M", MIB, 1024 * GIB,                                          \
          "memory for the timers within the window; beyond it they wait on disk")                  \
    SECTION("storage", "Where timers survive.")                                                    \
    FIELD(TEXT, data_folder, "./data", 1, 4000, "folder of the embedded storage; made if missing") \
    FIELD(CHOICE, storage_sync, "always|never", 0, 0,                                              \
          "when a commit is synced to disk; never loses seconds at a power cut, but is fast")      \
    FIELD(DURATION, commit_linger, "1ms", 0, SECOND_MS,                                            \
          "how long a commit may wait for company while many requests are coming")                 \
    FIELD(DURATION, watermark_interval, "1s", 10, HOUR_MS,                                         \
          "how often the rows of fired timers are dropped from the storage")                       \
    FIELD(BYTES, storage_cache_bytes, "64M", MIB, 1024 * GIB, "cache of storage blocks")           \
    FIELD(BYTES, storage_memtable_bytes, "32M", MIB, 4 * GIB,                                      \
          "one write buffer of the storage; there are up to four")                                 \
    FIELD(BYTES, disk_reserve_bytes, "256M", 0, 1024 * GIB,                                        \
          "with less free disk than this, creates are refused with 503")                           \
    FIELD(CHOICE, storage_damage, "refuse|skip", 0, 0,                                             \
          "a log damaged where it was acknowledged: do not start, or start without what it cost")  \
    FIELD(TEXT, backup_folder, "", 0, 4000,                                                        \
          "where POST /v1/admin/backup puts its copies; empty: it is refused")                     \
    SECTION("delivery", "How due timers reach their targets.")                                     \
    FIELD(U32, deliveries_max, "4096", 1, 1000000, "webhooks at a time; at least 1 a partition")   \
    FIELD(U32, target_deliveries_max, "128", 1, 1000000,                                           \
          "webhooks at a time to one origin (scheme, host, port)")                                 \
    FIELD(U32, target_rate_max, "0", 0, 1000000, "webhooks a second to one origin; 0 is no limit") \
    FIELD(U32, target_breaker_failures, "20", 0, 1000000,                                          \
          "webhooks to one origin that fail in a row until it is left alone; 0 is never")          \
    FIELD(DURATION, target_breaker_pause, "10s", 100, HOUR_MS,                                     \
          "how long it is left alone until one is tried; doubled each time that one fails")        \
    FIELD(DURATION, target_breaker_pause_max, "5m", 100, DAY_MS, "the longest such pause")         \
    FIELD(U32, catch_up_rate_max, "0", 0, 10000000,                                                \
          "overdue timers a second that are delivered after an outage; 0 is no limit")             \
    FIELD(U32, queue_leases_max, "100000", 1, 100000000, "leases of the built-in queue at a time") \
    FIELD(DURATION, queue_wait_max, "20s", 0, HOUR_MS,                                             \
          "how long a worker may wait for work in one request")                                    \
    FIELD(BYTES, queue_bytes_max, "4M", 1, GIB, "items of one lease, in memory")                   \
    FIELD(LIST, webhook_allow, "", 0, 4000,                                                        \
          "private networks that webhooks may call, such as 10.0.0.0/8,::1/128")                   \
    FIELD(SECRET, webhook_secret, "", 0, 1000,                                                     \
          "signs webhooks: one whsec_... or, while rotating, two parted by a space")               \
    FIELD(TEXT, webhook_secret_file, "", 0, 4000, "file to read webhook_secret from")              \
    FIELD(CHOICE, webhook_cloudevents, "off|binary", 0, 0,                                         \
          "whether webhooks are CloudEvents 1.0 too, by ce- headers")                              \
    FIELD(TEXT, webhook_cloudevents_source, "/tickwheel", 1, 256,                                  \
          "their ce-source: a URI reference that names this service")                              \
    FIELD(TEXT, webhook_ca_file, "", 0, 4000,                                                      \
          "certificates to trust for https targets; empty takes the system's")                     \
    FIELD(U32, webhook_connections_max, "4096", 1, 1000000, "open connections to targets")         \
    FIELD(DURATION, webhook_connect_timeout, "10s", 10, HOUR_MS,                                   \
          "how long connecting to a target may take")                                              \
    FIELD(BYTES, webhook_response_bytes_max, "64K", 0, GIB,                                        \
          "read at most so much of a target's answer")                                             \
    FIELD(SECRET, broker_connections, "", 0, 8000,                                                 \
          "brokers that timers may go to, NAME=URL parted by spaces; see brokers.md")              \
    FIELD(TEXT, broker_connections_file, "", 0, 4000, "file to read broker_connections from")      \
    FIELD(U32, broker_inflight_max, "1024", 1, 1000000,                                            \
          "messages that one broker connection has not confirmed yet")                             \
    FIELD(BYTES, broker_inflight_bytes_max, "64M", KIB, 64 * GIB, "payload of those messages")     \
    FIELD(DURATION, broker_connect_timeout, "5s", 10, MINUTE_MS,                                   \
          "how long connecting to a broker may take")                                              \
    SECTION("log", "What is written to standard error.")                                           \
    FIELD(CHOICE, log_level, "info|debug", 0, 0, "how much is logged")

#define CONFIG_FIELD_U32(name, max)      uint32_t name;
#define CONFIG_FIELD_U64(name, max)      uint64_t name;
#define CONFIG_FIELD_DURATION(name, max) uint64_t name##_ms;
#define CONFIG_FIELD_BYTES(name, max)    uint64_t name;
#define CONFIG_FIELD_TEXT(name, max)     char name[(max) + 1];
#define CONFIG_FIELD_LIST(name, max)     char name[(max) + 1];
#define CONFIG_FIELD_SECRET(name, max)   char name[(max) + 1];
#define CONFIG_FIELD_CHOICE(name, max)   enum config_##name name;

struct config {
#define SECTION(name, sentence)
#define FIELD(type, name, preset, min, max, help) CONFIG_FIELD_##type(name, max)
    CONFIG_TABLE(SECTION, FIELD)
#undef SECTION
#undef FIELD
};

/* What the command line asks for besides settings. */
enum config_action {
    CONFIG_ACTION_RUN,
    CONFIG_ACTION_HELP,          /* --help */
    CONFIG_ACTION_VERSION,       /* --version */
    CONFIG_ACTION_PRINT,         /* --print-config: the settings in effect, as a config file */
    CONFIG_ACTION_CHECK,         /* --check-config: say whether they are valid */
    CONFIG_ACTION_CHECK_DATA,    /* --check FOLDER: look through a data folder */
    CONFIG_ACTION_PRINT_DOCS,    /* --print-config-docs: docs/configuration.md */
    CONFIG_ACTION_PRINT_EXAMPLE, /* --print-config-example: packaging/tickwheeld.conf */
};

struct config_request {
    enum config_action action;
    bool wants_banner;        /* --banner: greet a person at the start */
    const char *check_folder; /* of --check; an argument */
};

/* All defaults. */
void config_init(struct config *ret_config);

/* The defaults, then the file named by --config or TICKWHEEL_CONFIG, then the environment
 * ("NAME=value" up to NULL), then the flags. On failure the outputs are unspecified. */
enum error_code config_load(int argc, char *const argv[], char *const environment[],
                            struct config *ret_config, struct config_request *ret_request,
                            struct error *ret_error);

/* Sets one field by its name in the table (listen_address) from text. On failure nothing changed.
 */
enum error_code config_set(struct config *config, const char *name, const char *value,
                           struct error *ret_error);

/* Sets every field that the text of a config file names; `origin` stands in error texts. */
enum error_code config_read(struct config *config, struct bytes text, const char *origin,
                            struct error *ret_error);

/* The texts made from the table. */
void config_format(const struct config *config, struct buffer *buffer); /* secrets hidden */
void config_format_help(struct buffer *buffer);
void config_format_docs(struct buffer *buffer);
void config_format_example(struct buffer *buffer);

#endif
