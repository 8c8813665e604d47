/*
 * Goal: a setting means the same by flag, environment and file; the stronger source wins; whatever
 * is mistyped or out of its limits is refused with a hint; secrets are never shown; the written
 * docs are the table's. Method: tables of good and bad inputs through the public calls; every row
 * of the table by itself at its limits.
 */
#include "ops/config_load.h"
#include "ops/config_table.h"
#include "ops/docs_testing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

/* An environment and a command line hold texts that may be written to. */
#define TEXT(literal) ((char[]){literal})

static char *const no_environment[] = {NULL};

/* A file of these contents, until free_file. */
static char *make_file(const char *contents)
{
    char *path = strdup("/tmp/tickwheel-config-XXXXXX");
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, contents, strlen(contents)), strlen(contents));
    close(fd);
    return path;
}

static void free_file(char *path)
{
    unlink(path);
    free(path);
}

static void check_hint(const struct error *error, const char *hint)
{
    if (!strstr(error->text, hint))
        fail_msg("\"%s\" should say \"%s\"", error->text, hint);
}

static void defaults_are_those_of_the_contract(void **state)
{
    (void)state;
    struct config config;
    config_init(&config);
    assert_string_equal(config.listen_address, "127.0.0.1");
    assert_int_equal(config.listen_port, 8463);
    assert_string_equal(config.data_folder, "./data");
    assert_int_equal(config.partitions, 4);
    assert_true(config.window_ms == 10000);
    assert_true(config.near_bytes_max == 256 * MIB);
    assert_true(config.pending_max == 0);
    assert_true(config.retain_ms == 3600000);
    assert_int_equal(config.storage_sync, CONFIG_STORAGE_SYNC_ALWAYS);
    assert_true(config.commit_linger_ms == 1);
    assert_true(config.batch_bytes_max == GIB);
    assert_string_equal(config.webhook_allow, "");
    assert_string_equal(config.webhook_secret, "");
    assert_int_equal(config.log_level, CONFIG_LOG_LEVEL_INFO);
}

static void reads_each_type(void **state)
{
    (void)state;
    struct config config;
    config_init(&config);
    struct error error;
    assert_int_equal(config_set(&config, "listen_port", "0", &error), ERROR_NONE);
    assert_int_equal(config.listen_port, 0);
    assert_int_equal(config_set(&config, "pending_max", "18446744073709551615", &error),
                     ERROR_NONE);
    assert_true(config.pending_max == UINT64_MAX);
    assert_int_equal(config_set(&config, "window", "1h30m", &error), ERROR_NONE);
    assert_true(config.window_ms == 5400000);
    assert_int_equal(config_set(&config, "near_bytes_max", "1048577", &error), ERROR_NONE);
    assert_true(config.near_bytes_max == 1048577);
    assert_int_equal(config_set(&config, "near_bytes_max", "3M", &error), ERROR_NONE);
    assert_true(config.near_bytes_max == 3 * MIB);
    assert_int_equal(config_set(&config, "near_bytes_max", "1T", &error), ERROR_NONE);
    assert_true(config.near_bytes_max == 1024 * GIB);
    assert_int_equal(config_set(&config, "header_bytes_max", "4K", &error), ERROR_NONE);
    assert_true(config.header_bytes_max == 4096);
    assert_int_equal(config_set(&config, "data_folder", "/var/lib/x y", &error), ERROR_NONE);
    assert_string_equal(config.data_folder, "/var/lib/x y");
    assert_int_equal(config_set(&config, "storage_sync", "never", &error), ERROR_NONE);
    assert_int_equal(config.storage_sync, CONFIG_STORAGE_SYNC_NEVER);
    assert_int_equal(config_set(&config, "storage_sync", "always", &error), ERROR_NONE);
    assert_int_equal(config.storage_sync, CONFIG_STORAGE_SYNC_ALWAYS);
}

/* proves: partitions (beyond), partitions-max (beyond) */
static void refuses_bad_values_with_the_limits(void **state)
{
    static const struct {
        const char *name, *value, *hint;
    } cases[] = {
        {"listen_port", "65536", "must be 0 to 65535"},
        {"listen_port", "-1", "must be 0 to 65535"},
        {"listen_port", "+1", "must be"},
        {"listen_port", " 1", "must be"},
        {"listen_port", "1 ", "must be"},
        {"listen_port", "", "must be"},
        {"listen_port", "0x10", "must be"},
        {"listen_port", "4294967297", "must be"},
        {"listen_port", "99999999999999999999999999", "must be"},
        {"partitions", "0", "must be 1 to 256"},
        {"partitions", "257", "must be 1 to 256"},
        {"shards", "65", "must be 0 to 64"},
        {"pending_max", "18446744073709551616", "must be from 0"},
        {"window", "10", "must be 100ms to 1d, such as"},
        {"window", "99ms", "must be"},
        {"window", "1d1ms", "must be"},
        {"window", "-1s", "must be"},
        {"near_bytes_max", "1", "must be 1M to 1T, such as 4096"},
        {"near_bytes_max", "64MB", "must be"},
        {"near_bytes_max", "64m", "must be"},
        {"near_bytes_max", "M", "must be"},
        {"near_bytes_max", "18446744073709551615K", "must be"},
        {"near_bytes_max", "16777217T", "must be"},
        {"storage_sync", "Always", "must be always or never"},
        {"storage_sync", "alway", "must be"},
        {"storage_sync", "always|never", "must be"},
        {"storage_sync", "", "must be"},
        {"data_folder", "", "must be 1 to 4000 bytes"},
        {"data_folder", "a\nb", "without blanks at its ends, control characters"},
        {"data_folder", " a", "must be"},
        {"data_folder", "a\t", "must be"},
        {"data_folder", "a ;b", "must be"},
        {"data_folder", ";", "must be"},
        {"listen_address", "0000:0000:0000:0000:0000:0000:0000:0000:0000:0000", "must be"},
    };

    (void)state;
    struct config config;
    config_init(&config);
    struct config before = config;
    struct error error;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(config_set(&config, cases[i].name, cases[i].value, &error), ERROR_INVALID);
        check_hint(&error, cases[i].name);
        check_hint(&error, cases[i].hint);
        assert_memory_equal(&config, &before, sizeof(config));
    }
    assert_int_equal(config_set(&config, "server", "x", &error), ERROR_INVALID);
    assert_int_equal(config_set(&config, "no_such", "x", &error), ERROR_INVALID);
}

static uint64_t stored(const struct config *config, const struct config_row *row)
{
    uint64_t wide;

    memcpy(&wide, (const char *)config + row->offset, sizeof(wide));
    uint32_t narrow;
    memcpy(&narrow, (const char *)config + row->offset, sizeof(narrow));
    return row->type == CONFIG_TYPE_U32 ? narrow : wide;
}

/* The value is refused by a text that names the row and its limits, and nothing changed. */
static void check_beyond(const struct config *config, const struct config_row *row,
                         const char *value)
{
    struct config changed = *config;
    struct buffer limits;

    buffer_init(&limits);
    config_row_format_limits(row, &limits);
    buffer_append(&limits, "", 1);
    struct error error;
    assert_int_equal(config_set(&changed, row->name, value, &error), ERROR_INVALID);
    check_hint(&error, row->name);
    check_hint(&error, limits.data);
    assert_memory_equal(&changed, config, sizeof(changed));
    buffer_deinit(&limits);
}

/* Every number of the table at its limits and one beyond, so that no row is left out. */
/* proves: setting-range */
static void every_row_keeps_its_limits(void **state)
{
    (void)state;
    struct config config;
    config_init(&config);
    for (size_t i = 0; i < config_row_count; i++) {
        const struct config_row *row = &config_rows[i];
        const char *unit = row->type == CONFIG_TYPE_DURATION ? "ms" : "";

        if (row->type < CONFIG_TYPE_U32 || row->type > CONFIG_TYPE_BYTES)
            continue;
        assert_true(row->min < row->max);
        char text[32];
        snprintf(text, sizeof(text), "%llu%s", (unsigned long long)row->min, unit);
        assert_int_equal(config_set(&config, row->name, text, NULL), ERROR_NONE);
        assert_true(stored(&config, row) == row->min);
        snprintf(text, sizeof(text), "%llu%s", (unsigned long long)row->max, unit);
        assert_int_equal(config_set(&config, row->name, text, NULL), ERROR_NONE);
        assert_true(stored(&config, row) == row->max);
        snprintf(text, sizeof(text), "%llu%s", (unsigned long long)row->max + 1, unit);
        if (row->max == UINT64_MAX)
            snprintf(text, sizeof(text), "18446744073709551616");
        check_beyond(&config, row, text);
        snprintf(text, sizeof(text), "%llu%s", (unsigned long long)row->min - 1, unit);
        check_beyond(&config, row, row->min ? text : "-1");
    }
}

/* The same of every text: its bytes. */
/* proves: setting-range */
static void every_text_keeps_its_limits(void **state)
{
    static char text[40000];

    (void)state;
    struct config config;
    config_init(&config);
    for (size_t i = 0; i < config_row_count; i++) {
        const struct config_row *row = &config_rows[i];

        if (row->type < CONFIG_TYPE_TEXT || row->type > CONFIG_TYPE_SECRET)
            continue;
        assert_true(row->max + 1 < sizeof(text));
        memset(text, 'x', row->max + 1);
        text[row->max + 1] = '\0';
        check_beyond(&config, row, text);
        text[row->max] = '\0';
        assert_int_equal(config_set(&config, row->name, text, NULL), ERROR_NONE);
        assert_string_equal((const char *)&config + row->offset, text);
        text[row->min] = '\0';
        assert_int_equal(config_set(&config, row->name, text, NULL), ERROR_NONE);
        if (row->min)
            check_beyond(&config, row, "");
    }
}

/* Loads a file of `start` and newlines, `size` bytes in all, by the flag that names it. */
static enum error_code load_large(const char *flag, const char *start, size_t size,
                                  struct error *ret_error)
{
    char *text = malloc(size + 1), name[64];
    char *const argv[] = {TEXT("tickwheeld"), name, NULL};

    assert_non_null(text);
    memset(text, '\n', size);
    memcpy(text, start, strlen(start));
    text[size] = '\0';
    char *path = make_file(text);
    snprintf(name, sizeof(name), "%s=%s", flag, path);
    struct config_request request;
    struct config config;
    enum error_code code = config_load(2, argv, no_environment, &config, &request, ret_error);
    free_file(path);
    free(text);
    return code;
}

/* proves: config-file, secret-file */
static void files_have_their_sizes(void **state)
{
    static const struct {
        const char *flag, *start;
        size_t size_max;
    } cases[] = {
        {"--config", "listen_port = 1", 1 << 20},
        {"--webhook-secret-file", "whsec_x", 64 << 10},
        {"--broker-connections-file", "a=redis://h", 64 << 10},
    };

    (void)state;
    struct error error;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(load_large(cases[i].flag, cases[i].start, cases[i].size_max, &error),
                         ERROR_NONE);
        assert_int_not_equal(
            load_large(cases[i].flag, cases[i].start, cases[i].size_max + 1, &error), ERROR_NONE);
        check_hint(&error, "more than");
    }
}

static void the_stronger_source_wins(void **state)
{
    char *path = make_file("[server]\nlisten_port = 1\nshards=2\n\n"
                           "[storage]\ndata_folder = from_file ; a comment\n"
                           "[delivery]\nwebhook_allow = 10.0.0.0/8\n  10.1.0.0/16\n");
    char variable[128];
    char *const environment[] = {TEXT("HOME=/"),
                                 variable,
                                 TEXT("TICKWHEEL_LISTEN_PORT=2"),
                                 TEXT("TICKWHEEL_URL=http://a"),
                                 TEXT("TICKWHEEL_TOKEN=tw_a"),
                                 TEXT("TICKWHEEL_DATA_FOLDER=from=env"),
                                 NULL};
    char *const argv[] = {TEXT("tickwheeld"),
                          TEXT("--listen-port"),
                          TEXT("3"),
                          TEXT("--window=1m"),
                          TEXT("--banner"),
                          TEXT("--webhook-allow"),
                          TEXT("172.16.0.0/12"),
                          TEXT("--webhook-allow=::1/128")};

    (void)state;
    snprintf(variable, sizeof(variable), "TICKWHEEL_CONFIG=%s", path);
    struct config_request request;
    struct config config;
    struct error error;
    assert_int_equal(config_load(1, argv, environment, &config, &request, &error), ERROR_NONE);
    assert_int_equal(config.shards, 2);
    assert_int_equal(config.listen_port, 2);
    assert_string_equal(config.data_folder, "from=env");
    assert_string_equal(config.webhook_allow, "10.0.0.0/8,10.1.0.0/16");
    assert_false(request.wants_banner);

    assert_int_equal(config_load(8, argv, environment, &config, &request, &error), ERROR_NONE);
    assert_int_equal(config.listen_port, 3);
    assert_true(config.window_ms == 60000);
    assert_string_equal(config.webhook_allow, "172.16.0.0/12,::1/128");
    assert_true(request.wants_banner);
    assert_int_equal(request.action, CONFIG_ACTION_RUN);
    free_file(path);
}

/* Goal: the variables of OpenTelemetry set our settings as its specification says, and everything
 * of ours wins; what does not fit is ignored. */
/* proves: otlp-spans */
static void opentelemetry_is_understood(void **state)
{
    char *path = make_file("[otlp]\notlp_sample_ratio = 0.5\n");
    char variable[128];
    char *const environment[] = {variable,
                                 TEXT("OTEL_EXPORTER_OTLP_ENDPOINT=http://a:4318/"),
                                 TEXT("OTEL_EXPORTER_OTLP_HEADERS=x=1"),
                                 TEXT("OTEL_EXPORTER_OTLP_TRACES_HEADERS=y=2"),
                                 TEXT("OTEL_EXPORTER_OTLP_TIMEOUT=2500"),
                                 TEXT("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT=soon"),
                                 TEXT("OTEL_SERVICE_NAME=shop"),
                                 TEXT("OTEL_RESOURCE_ATTRIBUTES="),
                                 TEXT("OTEL_TRACES_SAMPLER=traceidratio"),
                                 TEXT("OTEL_TRACES_SAMPLER_ARG=0.1"),
                                 TEXT("OTEL_TRACES_EXPORTER=otlp"),
                                 TEXT("TICKWHEEL_OTLP_SERVICE_NAME=timers"),
                                 NULL};
    char *const off[] = {environment[1], TEXT("OTEL_SDK_DISABLED=TRUE"), NULL};
    char *const argv[] = {TEXT("tickwheeld"), TEXT("--otlp-endpoint=http://b/")};

    (void)state;
    snprintf(variable, sizeof(variable), "TICKWHEEL_CONFIG=%s", path);
    struct config_request request;
    struct config config;
    struct error error;
    assert_int_equal(config_load(1, argv, environment, &config, &request, &error), ERROR_NONE);
    assert_string_equal(config.otlp_endpoint, "http://a:4318/v1/traces");
    assert_string_equal(config.otlp_headers, "y=2");
    assert_true(config.otlp_timeout_ms == 2500);
    assert_string_equal(config.otlp_service_name, "timers");
    assert_string_equal(config.otlp_resource_attributes, "");
    assert_string_equal(config.otlp_sampler, "traceidratio");
    assert_string_equal(config.otlp_sample_ratio, "0.5");
    assert_int_equal(config_load(2, argv, environment, &config, &request, &error), ERROR_NONE);
    assert_string_equal(config.otlp_endpoint, "http://b/");
    assert_int_equal(config_load(1, argv, off, &config, &request, &error), ERROR_NONE);
    assert_string_equal(config.otlp_endpoint, "");
    free_file(path);
}

static enum error_code load_flags(const char *first, const char *second, struct error *ret_error)
{
    char a[128], b[128];
    char *const argv[] = {TEXT("tickwheeld"), a, b};

    snprintf(a, sizeof(a), "%s", first);
    snprintf(b, sizeof(b), "%s", second ? second : "");
    struct config_request request;
    struct config config;
    return config_load(second ? 3 : 2, argv, no_environment, &config, &request, ret_error);
}

static void refuses_flags_that_it_does_not_know(void **state)
{
    static const struct {
        const char *first, *second, *hint;
    } cases[] = {
        {"--listen-prt", "1", "--listen-prt: no such setting; did you mean --listen-port?"},
        {"--port", "1", "did you mean --listen-port?"},
        {"--listen_prt=1", NULL, "did you mean --listen-port?"},
        {"--data-dir", "x", "did you mean --data-folder?"},
        {"--log", "debug", "did you mean --log-level?"},
        {"--http-threads", "2", "--http-threads: no such setting any more: the threads of shards"},
        {"--qqqqqqqqqqqqqqqq", "1", "no such setting; see --help"},
        {"--qqqqqqdrain", "1", "no such setting; see --help"},
        {"--qqdrain", "1", "did you mean --drain?"},
        {"--server", "1", "no such setting"},
        {"--listen-port", NULL, "--listen-port: a value is missing"},
        {"--listen-port=1", "--listen-port=2", "listen_port: given twice"},
        {"--", NULL, "--: not a flag"},
        {"-p", "1", "-p: not a flag"},
        {"start", NULL, "start: not a flag"},
        {"--help=1", NULL, "no such setting"},
        {"--config", "/nonexistent/x", "/nonexistent/x: No such file"},
    };

    (void)state;
    struct error error;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_not_equal(load_flags(cases[i].first, cases[i].second, &error), ERROR_NONE);
        check_hint(&error, cases[i].hint);
    }
    /* However long a name is, it only makes an error. */
    assert_int_equal(load_flags("--aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
                                "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                                "1", &error),
                     ERROR_INVALID);
}

/* Without a name a restore would go into the folder of the shell. */
static void restores_into_a_named_folder(void **state)
{
    char *unnamed[] = {TEXT("tickwheeld"), TEXT("--restore"), TEXT("b"), NULL};
    char *named[] = {TEXT("tickwheeld"),    TEXT("--restore"), TEXT("b"),
                     TEXT("--data-folder"), TEXT("./data"),    NULL};
    char *variable[] = {TEXT("TICKWHEEL_DATA_FOLDER=/srv/data"), NULL}, *none[] = {NULL};
    struct config_request request;
    struct config config;
    struct error error = {.text = ""};

    (void)state;
    assert_int_equal(config_load(3, unnamed, none, &config, &request, &error), ERROR_INVALID);
    assert_non_null(strstr(error.text, "--data-folder"));
    assert_int_equal(config_load(3, unnamed, variable, &config, &request, &error), ERROR_NONE);
    assert_string_equal(config.data_folder, "/srv/data");
    assert_int_equal(config_load(5, named, none, &config, &request, &error), ERROR_NONE);
    assert_string_equal(config.data_folder, "./data");
}

/* Only --cluster-import takes several folders; of others the last one counts. */
static void takes_folders(void **state)
{
    char *const import[] = {TEXT("tickwheeld"), TEXT("--cluster-import"),
                            TEXT("a"),          TEXT("--partitions"),
                            TEXT("4"),          TEXT("--cluster-import=b")};
    char *const check[] = {TEXT("tickwheeld"), TEXT("--cluster-import=a"), TEXT("--check=b"),
                           TEXT("--check=c")};
    char *many[2 + CONFIG_FOLDERS_MAX] = {TEXT("tickwheeld")}, *const folder =
                                                                   TEXT("--cluster-import=a");
    struct config_request request;
    struct config config;
    struct error error;

    (void)state;
    assert_int_equal(config_load(6, import, no_environment, &config, &request, &error), ERROR_NONE);
    assert_int_equal(request.action, CONFIG_ACTION_CLUSTER_IMPORT);
    assert_int_equal(request.folder_count, 2);
    assert_string_equal(request.folders[0], "a");
    assert_string_equal(request.folders[1], "b");
    assert_int_equal(config_load(4, check, no_environment, &config, &request, &error), ERROR_NONE);
    assert_int_equal(request.action, CONFIG_ACTION_CHECK_DATA);
    assert_int_equal(request.folder_count, 1);
    assert_string_equal(request.folders[0], "c");
    for (size_t i = 1; i < sizeof(many) / sizeof(many[0]); i++)
        many[i] = folder;
    assert_int_equal(
        config_load(1 + CONFIG_FOLDERS_MAX, many, no_environment, &config, &request, &error),
        ERROR_NONE);
    assert_int_equal(
        config_load(2 + CONFIG_FOLDERS_MAX, many, no_environment, &config, &request, &error),
        ERROR_INVALID);
}

static void refuses_the_environment_that_it_does_not_know(void **state)
{
    char *const wrong[] = {TEXT("TICKWHEEL_LISTEN_PRT=1"), NULL};
    char *const bad[] = {TEXT("TICKWHEEL_LISTEN_PORT=x"), NULL};
    char *const others[] = {TEXT("TICKWHEELS_X=1"), TEXT("TICKWHEEL"), TEXT("=x"), TEXT(""), NULL};
    char *const argv[] = {TEXT("tickwheeld")};

    (void)state;
    struct config_request request;
    struct config config;
    struct error error;
    assert_int_equal(config_load(1, argv, wrong, &config, &request, &error), ERROR_INVALID);
    check_hint(&error, "TICKWHEEL_LISTEN_PRT: no such setting; did you mean TICKWHEEL_LISTEN_PORT");
    assert_int_equal(config_load(1, argv, bad, &config, &request, &error), ERROR_INVALID);
    assert_int_equal(config_load(1, argv, others, &config, &request, &error), ERROR_NONE);
}

/* proves: config-line */
static void refuses_wrong_files_by_their_line(void **state)
{
    static const struct {
        const char *text, *hint;
    } cases[] = {
        {"\n\nlisten_prt = 1\n", "f:3: listen_prt: no such setting; did you mean listen_port?"},
        {"listen_port = 99999", "f:1: listen_port: \"99999\""},
        {"listen_port = 1\nlisten_port = 2\n", "f:2: listen_port: given twice"},
        {"[server]\n[delivary]\nlisten_port = 1\n", "f:3: [delivary]: no such section"},
        {"# fine\nlisten_port\n", "f:2: this is neither"},
        {"[server\nlisten_port = 1\n", "f:1: this is neither"},
        {"nonsense\nlisten_prt = 1\n", "f:1: this is neither"},
        {"listen_prt = 1\nnonsense\n", "f:1: listen_prt"},
        {"listen_port = 1\n  shards = 2\n", "f:2: listen_port: given twice"},
        {"webhook_secret = a\nwebhook_secret_file = b\n", "f: webhook_secret and webhook_secret_f"},
        {"broker_connections_file = a\nbroker_connections = b\n",
         "f: broker_connections and broker"},
        {"cluster_secret = a\ncluster_secret_file = b\n", "f: cluster_secret and cluster_secret_f"},
    };

    (void)state;
    struct config config;
    struct error error;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        config_init(&config);
        assert_int_equal(config_read(&config, bytes_of(cases[i].text), "f", &error), ERROR_INVALID);
        check_hint(&error, cases[i].hint);
    }
    config_init(&config);
    assert_int_equal(config_read(&config, (struct bytes){"retain=1h\0\n", 11}, "f", &error),
                     ERROR_INVALID);
    check_hint(&error, "f:1: a NUL byte");
    char large[400];
    /* libinih would cut such a line without a word. */
    for (size_t size = 150; size < sizeof(large); size++) {
        config_init(&config);
        memset(large, 'x', size);
        memcpy(large, "log_level = info\ndata_folder = ", 31);
        if (config_read(&config, (struct bytes){large, size}, "f", &error) == ERROR_NONE)
            assert_int_equal(strlen(config.data_folder), size - 31);
        else
            check_hint(&error, "f:2: the line is too long");
        assert_int_equal(strcmp(config.data_folder, "./data") != 0, size - 17 <= 190);
    }
}

static void actions_are_asked_for_by_flags(void **state)
{
    static const struct {
        const char *flag;
        enum config_action action;
    } cases[] = {
        {"--help", CONFIG_ACTION_HELP},
        {"--version", CONFIG_ACTION_VERSION},
        {"--print-config", CONFIG_ACTION_PRINT},
        {"--check-config", CONFIG_ACTION_CHECK},
        {"--cluster-create", CONFIG_ACTION_CLUSTER_CREATE},
        {"--cluster-change-secret", CONFIG_ACTION_CLUSTER_SECRET},
        {"--print-config-docs", CONFIG_ACTION_PRINT_DOCS},
        {"--print-config-example", CONFIG_ACTION_PRINT_EXAMPLE},
        {"--print-openapi", CONFIG_ACTION_PRINT_OPENAPI},
        {"--print-openapi-strict", CONFIG_ACTION_PRINT_OPENAPI_STRICT},
        {"--print-metrics-docs", CONFIG_ACTION_PRINT_METRICS},
        {"--print-routes", CONFIG_ACTION_PRINT_ROUTES},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char flag[64];
        char *const argv[] = {TEXT("tickwheeld"), flag};

        snprintf(flag, sizeof(flag), "%s", cases[i].flag);
        struct config_request request;
        struct config config;
        struct error error;
        assert_int_equal(config_load(2, argv, no_environment, &config, &request, &error),
                         ERROR_NONE);
        assert_int_equal(request.action, cases[i].action);
    }
}

static void help_comes_whatever_is_wrong_elsewhere(void **state)
{
    char *const wrong[] = {TEXT("TICKWHEEL_CONFIG=/nonexistent"), TEXT("TICKWHEEL_X=1"), NULL};
    char *const help[] = {TEXT("tickwheeld"), TEXT("--help")};
    char *const check[] = {TEXT("tickwheeld"), TEXT("--check-config")};

    (void)state;
    struct config_request request;
    struct config config;
    struct error error;
    assert_int_equal(config_load(2, help, wrong, &config, &request, &error), ERROR_NONE);
    assert_int_equal(config_load(2, check, wrong, &config, &request, &error), ERROR_IO);
}

static void secrets_come_from_a_file_and_are_never_shown(void **state)
{
    char *path = make_file("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n");
    char flag[128];
    char *const environment[] = {TEXT("TICKWHEEL_WEBHOOK_SECRET=whsec_weaker"), NULL};
    char *const argv[] = {TEXT("tickwheeld"), flag};

    (void)state;
    snprintf(flag, sizeof(flag), "--webhook-secret-file=%s", path);
    struct config_request request;
    struct config config;
    struct error error;
    assert_int_equal(config_load(2, argv, environment, &config, &request, &error), ERROR_NONE);
    assert_string_equal(config.webhook_secret, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
    struct buffer shown;
    buffer_init(&shown);
    config_format(&config, &shown);
    buffer_append(&shown, "", 1);
    assert_null(strstr(shown.data, "whsec_"));
    assert_non_null(strstr(shown.data, "; webhook_secret = (hidden)\n"));
    buffer_deinit(&shown);

    assert_int_equal(config_set(&config, "webhook_secret", "whsec_a\nb", &error), ERROR_INVALID);
    assert_null(strstr(error.text, "whsec_"));
    free_file(path);
}

/* Whatever the spelling of its flag; and only after it was read. */
/* proves: secret-arguments */
static void secrets_are_wiped_from_the_arguments(void **state)
{
    char secret[] = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
         brokers[] = "a=redis://:word@127.0.0.1";
    char equal[] = "--broker_connections=a=redis://:word@127.0.0.1", port[] = "8463";
    char *const argv[] = {TEXT("tickwheeld"),
                          TEXT("--banner"),
                          TEXT("--listen-port"),
                          port,
                          TEXT("--webhook-secret"),
                          secret,
                          equal};
    char *const refused[] = {TEXT("tickwheeld"), TEXT("-x"), TEXT("--broker-connections"), brokers,
                             TEXT("--webhook-secret")};

    (void)state;
    struct config_request request;
    struct config config;
    struct error error;
    assert_int_equal(config_load(7, argv, no_environment, &config, &request, &error), ERROR_NONE);
    config_hide_secrets(7, argv);
    assert_string_equal(config.webhook_secret, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
    assert_string_equal(config.broker_connections, "a=redis://:word@127.0.0.1");
    assert_int_equal(strspn(secret, "*"), sizeof(secret) - 1);
    assert_string_equal(equal, "--broker_connections=*************************");
    assert_string_equal(port, "8463");
    assert_int_equal(config_load(5, refused, no_environment, &config, &request, &error),
                     ERROR_INVALID);
    config_hide_secrets(5, refused);
    assert_int_equal(strspn(brokers, "*"), sizeof(brokers) - 1);
}

static void refuses_a_secret_file_without_a_secret(void **state)
{
    static const char *const contents[] = {"", "\n", "# whsec_a\n\n"};
    char flag[128];
    char *const argv[] = {TEXT("tickwheeld"), flag};

    (void)state;
    struct config_request request;
    struct config config;
    struct error error;
    for (size_t i = 0; i < 3; i++) {
        char *path = make_file(contents[i]);

        snprintf(flag, sizeof(flag), "--webhook-secret-file=%s", path);
        assert_int_equal(config_load(2, argv, no_environment, &config, &request, &error),
                         ERROR_INVALID);
        check_hint(&error, "webhook_secret");
        free_file(path);
    }
}

/* A file of brokers may have one in each line, and comments; what it says is a secret. */
static void reads_brokers_from_a_file(void **state)
{
    char *path = make_file("# ours\n\norders=redis://:hush@a\r\n  bus=nats://b # kept\n#last");
    char flag[128];
    char *const argv[] = {TEXT("tickwheeld"), flag};

    (void)state;
    snprintf(flag, sizeof(flag), "--broker-connections-file=%s", path);
    struct config_request request;
    struct config config;
    struct error error;
    assert_int_equal(config_load(2, argv, no_environment, &config, &request, &error), ERROR_NONE);
    assert_string_equal(config.broker_connections, "orders=redis://:hush@a    bus=nats://b # kept");
    struct buffer shown;
    buffer_init(&shown);
    config_format(&config, &shown);
    buffer_append(&shown, "", 1);
    assert_null(strstr(shown.data, "hush"));
    buffer_deinit(&shown);
    free_file(path);
}

/* What --print-config prints is a config file that says the same. */
static void printed_settings_read_back(void **state)
{
    (void)state;
    struct config config;
    config_init(&config);
    struct error error;
    assert_int_equal(config_set(&config, "retain", "1h1m1s1ms", &error), ERROR_NONE);
    assert_int_equal(config_set(&config, "storage_sync", "never", &error), ERROR_NONE);
    assert_int_equal(config_set(&config, "near_bytes_max", "1048577", &error), ERROR_NONE);
    assert_int_equal(config_set(&config, "drain", "0s", &error), ERROR_NONE);
    assert_int_equal(config_set(&config, "webhook_allow", "10.0.0.0/8, ::1/128", &error),
                     ERROR_NONE);
    struct config again;
    config_init(&again);
    struct buffer first;
    buffer_init(&first);
    struct buffer second;
    buffer_init(&second);
    config_format(&config, &first);
    if (config_read(&again, buffer_bytes(&first), "printed", &error))
        fail_msg("%s", error.text);
    assert_memory_equal(&again, &config, sizeof(config));
    config_format(&again, &second);
    assert_true(bytes_equal(buffer_bytes(&first), buffer_bytes(&second)));
    buffer_deinit(&first);
    buffer_deinit(&second);
}

static void help_names_every_setting(void **state)
{
    (void)state;
    struct buffer help;
    buffer_init(&help);
    config_format_help(&help);
    buffer_append(&help, "", 1);
    for (size_t i = 0; i < config_row_count; i++) {
        if (config_rows[i].type == CONFIG_TYPE_SECTION)
            continue;
        char flag[CONFIG_NAME_SIZE * 2];
        snprintf(flag, sizeof(flag), "  --%s ", config_rows[i].name);
        for (char *at = flag; *at; at++)
            if (*at == '_')
                *at = '-';
        if (!strstr(help.data, flag) || !strstr(help.data, config_rows[i].help))
            fail_msg("--help does not tell of %s", config_rows[i].name);
    }
    for (const char *line = help.data; *line; line += strcspn(line, "\n") + 1)
        assert_true(strcspn(line, "\n") <= 100);
    buffer_deinit(&help);
}

static void the_written_docs_are_current(void **state)
{
    (void)state;
    assert_docs_current(TW_SOURCE_FOLDER "/docs/configuration.md", config_format_docs);
    assert_docs_current(TW_SOURCE_FOLDER "/packaging/tickwheeld.conf", config_format_example);
}

/* The example says nothing that differs from the defaults, and no line of it is wrong once
 * uncommented. */
static void the_example_is_a_config_file(void **state)
{
    (void)state;
    struct config config;
    config_init(&config);
    struct config defaults;
    config_init(&defaults);
    struct buffer example;
    buffer_init(&example);
    config_format_example(&example);
    struct error error;
    assert_int_equal(config_read(&config, buffer_bytes(&example), "example", &error), ERROR_NONE);
    assert_memory_equal(&config, &defaults, sizeof(config));
    for (size_t i = 0; i < example.size; i++)
        if (example.data[i] == ';' && (i == 0 || example.data[i - 1] == '\n') &&
            strncmp(example.data + i, ";webhook_secret", 15) != 0 &&
            strncmp(example.data + i, ";broker_connections", 19) != 0 &&
            strncmp(example.data + i, ";secrets_keys", 13) != 0 &&
            strncmp(example.data + i, ";sources", 8) != 0 &&
            strncmp(example.data + i, ";otlp_headers", 13) != 0 &&
            strncmp(example.data + i, ";cluster_secret", 15) != 0 &&
            strncmp(example.data + i, ";cluster_log", 12) != 0)
            example.data[i] = ' ';
    for (size_t i = 1; i < example.size; i++) /* a line that begins with a space goes on */
        if (example.data[i] == ' ' && example.data[i - 1] == '\n')
            memmove(example.data + i, example.data + i + 1, --example.size - i);
    if (config_read(&config, buffer_bytes(&example), "example", &error))
        fail_msg("%s", error.text);
    assert_memory_equal(&config, &defaults, sizeof(config));
    buffer_deinit(&example);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_those_of_the_contract),
        cmocka_unit_test(reads_each_type),
        cmocka_unit_test(refuses_bad_values_with_the_limits),
        cmocka_unit_test(every_row_keeps_its_limits),
        cmocka_unit_test(every_text_keeps_its_limits),
        cmocka_unit_test(files_have_their_sizes),
        cmocka_unit_test(opentelemetry_is_understood),
        cmocka_unit_test(the_stronger_source_wins),
        cmocka_unit_test(refuses_flags_that_it_does_not_know),
        cmocka_unit_test(takes_folders),
        cmocka_unit_test(restores_into_a_named_folder),
        cmocka_unit_test(refuses_the_environment_that_it_does_not_know),
        cmocka_unit_test(refuses_wrong_files_by_their_line),
        cmocka_unit_test(actions_are_asked_for_by_flags),
        cmocka_unit_test(help_comes_whatever_is_wrong_elsewhere),
        cmocka_unit_test(secrets_come_from_a_file_and_are_never_shown),
        cmocka_unit_test(secrets_are_wiped_from_the_arguments),
        cmocka_unit_test(refuses_a_secret_file_without_a_secret),
        cmocka_unit_test(reads_brokers_from_a_file),
        cmocka_unit_test(printed_settings_read_back),
        cmocka_unit_test(help_names_every_setting),
        cmocka_unit_test(the_written_docs_are_current),
        cmocka_unit_test(the_example_is_a_config_file),
    };

    return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}
