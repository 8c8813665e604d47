/*
 * config_load.c - reads settings from the file, the environment and the command line.
 *
 * Each source is applied whole, the weakest first, so that precedence needs no bookkeeping; a
 * source only remembers the rows that it has set, to refuse a second value.
 */
#include "ops/config_load.h"

#include "ops/config_otel.h"
#include "ops/config_table.h"
#include "sys/files.h"

#include <ctype.h>
#include <ini.h>
#include <stdio.h>

#define ENVIRONMENT_PREFIX "TICKWHEEL_"

enum {
    SHOWN = 60, /* number of bytes of a wrong name that an error text repeats */
    FILE_BYTES_MAX = 1 << 20,
    SECRET_FILE_BYTES_MAX = 64 * 1024,
};

enum spelling {
    SPELLING_FILE,        /* listen_port */
    SPELLING_ENVIRONMENT, /* TICKWHEEL_LISTEN_PORT */
    SPELLING_FLAG,        /* --listen-port */
};

struct source {
    struct config *config;
    enum spelling spelling;
    bool has_set[CONFIG_ROWS_MAX]; /* indexed by row */
};

static const char *config_load_spell(enum spelling spelling, const char *name,
                                     char ret_text[CONFIG_NAME_SIZE * 2])
{
    static const char *const prefixes[] = {"", ENVIRONMENT_PREFIX, "--"};
    size_t size = (size_t)snprintf(ret_text, CONFIG_NAME_SIZE * 2, "%s", prefixes[spelling]);

    for (; *name && size < CONFIG_NAME_SIZE * 2 - 1; name++) {
        char c = *name;

        if (spelling == SPELLING_FLAG && c == '_')
            c = '-';
        ret_text[size++] = spelling == SPELLING_ENVIRONMENT ? (char)toupper((unsigned char)c) : c;
    }
    ret_text[size] = '\0';
    return ret_text;
}

/* Returns what replaces a setting of an earlier version; NULL if no version had a setting of this
 * name. */
static const char *config_load_gone(const char *name)
{
    return strcmp(name, "http_threads") == 0 ? "the threads of shards serve clients" : NULL;
}

static enum error_code config_load_refuse_unknown(enum spelling spelling, const char *name,
                                                  struct error *ret_error)
{
    const struct config_row *nearest = config_row_nearest(name);
    char wrong[CONFIG_NAME_SIZE * 2];

    config_load_spell(spelling, name, wrong);
    if (config_load_gone(name))
        return error_set(ret_error, ERROR_INVALID, "%.*s: no such setting any more: %s", SHOWN,
                         wrong, config_load_gone(name));
    if (!nearest)
        return error_set(ret_error, ERROR_INVALID, "%.*s: no such setting; see --help", SHOWN,
                         wrong);
    char right[CONFIG_NAME_SIZE * 2];
    return error_set(ret_error, ERROR_INVALID, "%.*s: no such setting; did you mean %s?", SHOWN,
                     wrong, config_load_spell(spelling, nearest->name, right));
}

/* Adds a value to a list. Values of one source are joined; the list of a stronger source
 * replaces that of a weaker one. */
static enum error_code config_load_add_to_list(struct source *source, const struct config_row *row,
                                               const char *value, struct error *ret_error)
{
    const char *before = (const char *)source->config + row->offset;
    struct buffer joined;

    buffer_init(&joined);
    buffer_append_text(&joined, before);
    if (*before && *value)
        buffer_append_text(&joined, ",");
    buffer_append(&joined, value, strlen(value) + 1);
    enum error_code code;
    if (buffer_failed(&joined))
        code = error_set(ret_error, ERROR_NO_MEMORY, "%s: out of memory", row->name);
    else
        code = config_set(source->config, row->name, joined.data, ret_error);
    buffer_deinit(&joined);
    return code;
}

static enum error_code config_load_apply(struct source *source, const char *name, const char *value,
                                         struct error *ret_error)
{
    const struct config_row *row = config_row_find(name);

    if (!row)
        return config_load_refuse_unknown(source->spelling, name, ret_error);
    bool *has_set = &source->has_set[row - config_rows];
    if (*has_set && row->type == CONFIG_TYPE_LIST)
        return config_load_add_to_list(source, row, value, ret_error);
    if (*has_set)
        return error_set(ret_error, ERROR_INVALID, "%s: given twice", name);
    *has_set = true;
    return config_set(source->config, name, value, ret_error);
}

/* A secret can be given as a value or as a file. One source may set only one of the two, and a
 * stronger source replaces both. */
static const struct {
    const char *name, *file_name;
    bool may_have_lines; /* the file may have several lines; those that begin with # are comments */
} secrets[] = {
    {"webhook_secret", "webhook_secret_file", true},
    {"secrets_keys", "secrets_keys_file", true},
    {"broker_connections", "broker_connections_file", true},
    {"sources", "sources_file", true},
    {"cluster_secret", "cluster_secret_file", false},
    {"cluster_log", "cluster_log_file", false},
    {"otlp_headers", "otlp_headers_file", false},
};

#define SECRETS_COUNT (sizeof(secrets) / sizeof(secrets[0]))

static enum error_code config_load_settle_secrets(struct source *source, struct error *ret_error)
{
    for (size_t i = 0; i < SECRETS_COUNT; i++) {
        const struct config_row *secret = config_row_find(secrets[i].name);
        const struct config_row *file = config_row_find(secrets[i].file_name);

        if (!source->has_set[secret - config_rows])
            continue;
        if (source->has_set[file - config_rows])
            return error_set(ret_error, ERROR_INVALID, "%s and %s: give one of them", secret->name,
                             file->name);
        ((char *)source->config)[file->offset] = '\0';
    }
    return ERROR_NONE;
}

/* ---- the file ---- */

struct config_reader {
    struct source source;
    struct bytes rest;    /* text that libinih has not read yet */
    unsigned line;        /* number of the line that libinih reads */
    unsigned failed_line; /* number of the first line whose setting was refused; 0 if none was */
    struct error error;   /* cause of the first failure */
};

static void config_load_refuse_line(struct config_reader *reader, enum error_code code,
                                    const char *text)
{
    if (reader->failed_line)
        return;
    reader->failed_line = reader->line;
    error_set(&reader->error, code, "%s", text);
}

/* Copies the next line to libinih, like fgets. */
static char *config_load_next_line(char *to, int size, void *stream)
{
    struct config_reader *reader = stream;

    if (reader->rest.size == 0 || reader->failed_line)
        return NULL;
    reader->line++;
    const char *end = memchr(reader->rest.data, '\n', reader->rest.size);
    size_t taken = end ? (size_t)(end - reader->rest.data) + 1 : reader->rest.size;
    if (taken > CONFIG_LINE_BYTES_MAX || taken >= (size_t)size) {
        config_load_refuse_line(reader, ERROR_INVALID, "the line is too long");
        return NULL;
    }
    if (memchr(reader->rest.data, '\0', taken)) {
        config_load_refuse_line(reader, ERROR_INVALID, "a NUL byte");
        return NULL;
    }
    memcpy(to, reader->rest.data, taken);
    to[taken] = '\0';
    reader->rest.data += taken;
    reader->rest.size -= taken;
    return to;
}

static bool config_load_is_section(const char *name)
{
    for (size_t i = 0; i < config_row_count; i++)
        if (config_rows[i].type == CONFIG_TYPE_SECTION && strcmp(config_rows[i].name, name) == 0)
            return true;
    return *name == '\0';
}

/* Called by libinih for each setting. Returns 0 if the line is wrong. */
static int config_load_on_setting(void *context, const char *section, const char *name,
                                  const char *value)
{
    struct config_reader *reader = context;

    if (reader->failed_line)
        return 0;
    struct error error;
    enum error_code code;
    if (!config_load_is_section(section))
        code = error_set(&error, ERROR_INVALID, "[%.*s]: no such section", SHOWN, section);
    else
        code = config_load_apply(&reader->source, name, value, &error);
    if (code)
        config_load_refuse_line(reader, code, error.text);
    return code == ERROR_NONE;
}

enum error_code config_read(struct config *config, struct bytes text, const char *origin,
                            struct error *ret_error)
{
    struct config_reader reader = {.source = {config, SPELLING_FILE, {false}}, .rest = text};
    int wrong_line =
        ini_parse_stream(config_load_next_line, &reader, config_load_on_setting, &reader);

    if (wrong_line < 0)
        return error_set(ret_error, ERROR_NO_MEMORY, "%s: out of memory", origin);
    if (wrong_line && (!reader.failed_line || (unsigned)wrong_line < reader.failed_line))
        return error_set(ret_error, ERROR_INVALID,
                         "%s:%d: this is neither [section] nor name = value", origin, wrong_line);
    if (reader.failed_line)
        return error_set(ret_error, reader.error.code, "%s:%u: %s", origin, reader.failed_line,
                         reader.error.text);
    if (config_load_settle_secrets(&reader.source, &reader.error))
        return error_set(ret_error, ERROR_INVALID, "%s: %s", origin, reader.error.text);
    return ERROR_NONE;
}

static enum error_code config_load_file(struct config *config, const char *path,
                                        struct error *ret_error)
{
    struct buffer text;

    buffer_init(&text);
    enum error_code code = files_read_regular(path, FILE_BYTES_MAX, &text, ret_error);
    if (!code)
        code = config_read(config, buffer_bytes(&text), path, ret_error);
    buffer_deinit(&text);
    return code;
}

/* ---- the environment ---- */

/* True for variables with the prefix that are no settings of the daemon: TICKWHEEL_CONFIG, those of
 * the command line, and the secrets that named targets refer to. */
static bool config_load_is_foreign(const char *name)
{
    return strcmp(name, "config") == 0 || strcmp(name, "url") == 0 || strcmp(name, "token") == 0 ||
           strncmp(name, "secret_", 7) == 0;
}

static enum error_code config_load_environment(struct config *config, char *const environment[],
                                               struct error *ret_error)
{
    struct source source = {config, SPELLING_ENVIRONMENT, {false}};
    size_t prefix_size = strlen(ENVIRONMENT_PREFIX);

    for (; *environment; environment++) {
        const char *at = *environment, *equals = strchr(at, '=');

        if (strncmp(at, ENVIRONMENT_PREFIX, prefix_size) != 0 || !equals)
            continue;
        char name[CONFIG_NAME_SIZE * 2];
        size_t size = 0;
        for (at += prefix_size; at < equals && size < sizeof(name) - 1; at++)
            name[size++] = (char)tolower((unsigned char)*at);
        name[size] = '\0';
        if (config_load_is_foreign(name))
            continue;
        enum error_code code = config_load_apply(&source, name, equals + 1, ret_error);
        if (code)
            return code;
    }
    return config_load_settle_secrets(&source, ret_error);
}

static const char *config_load_environment_config(char *const environment[])
{
    static const char name[] = ENVIRONMENT_PREFIX "CONFIG=";

    for (; *environment; environment++)
        if (strncmp(*environment, name, sizeof(name) - 1) == 0)
            return *environment + sizeof(name) - 1;
    return NULL;
}

/* ---- the command line ---- */

static const struct {
    const char *name;
    enum config_action action;
} action_flags[] = {
    {"help", CONFIG_ACTION_HELP},
    {"version", CONFIG_ACTION_VERSION},
    {"print-config", CONFIG_ACTION_PRINT},
    {"check-config", CONFIG_ACTION_CHECK},
    {"cluster-create", CONFIG_ACTION_CLUSTER_CREATE},
    {"cluster-change-secret", CONFIG_ACTION_CLUSTER_SECRET},
    {"print-config-docs", CONFIG_ACTION_PRINT_DOCS},
    {"print-config-example", CONFIG_ACTION_PRINT_EXAMPLE},
    {"print-metrics-docs", CONFIG_ACTION_PRINT_METRICS},
    {"print-openapi", CONFIG_ACTION_PRINT_OPENAPI},
    {"print-openapi-strict", CONFIG_ACTION_PRINT_OPENAPI_STRICT},
    {"print-routes", CONFIG_ACTION_PRINT_ROUTES},
};

/* True for a flag that takes no value. */
static bool config_load_take_bare_flag(const char *name, struct config_request *request)
{
    if (strcmp(name, "banner") == 0) {
        request->wants_banner = true;
        return true;
    }
    for (size_t i = 0; i < sizeof(action_flags) / sizeof(action_flags[0]); i++)
        if (strcmp(name, action_flags[i].name) == 0) {
            request->action = action_flags[i].action;
            return true;
        }
    return false;
}

/* Returns the action of a flag that takes a folder; RUN if it is another flag. */
static enum config_action config_load_folder_action(const char *name)
{
    if (strcmp(name, "check") == 0)
        return CONFIG_ACTION_CHECK_DATA;
    if (strcmp(name, "check_json") == 0)
        return CONFIG_ACTION_CHECK_JSON;
    if (strcmp(name, "cluster_import") == 0)
        return CONFIG_ACTION_CLUSTER_IMPORT;
    return strcmp(name, "restore") == 0 ? CONFIG_ACTION_RESTORE : CONFIG_ACTION_RUN;
}

/* Handles a flag with a folder. The last such flag decides the action. Only --cluster-import
 * accepts several folders. */
static enum error_code config_load_take_folder(struct config_request *request,
                                               enum config_action action, const char *folder,
                                               struct error *ret_error)
{
    if (action != request->action || action != CONFIG_ACTION_CLUSTER_IMPORT)
        request->folder_count = 0;
    if (request->folder_count == CONFIG_FOLDERS_MAX)
        return error_set(ret_error, ERROR_INVALID, "--cluster-import: more than %d folders",
                         CONFIG_FOLDERS_MAX);
    request->action = action;
    request->folders[request->folder_count++] = folder;
    return ERROR_NONE;
}

/* Reads the name of a setting from a flag, "--listen-port" or "--listen-port=80". Returns the value
 * after the "="; NULL if there is none. */
static char *config_load_flag_name(char *flag, char ret_name[CONFIG_NAME_SIZE * 2])
{
    char *equals = strchr(flag, '=');
    size_t size = equals ? (size_t)(equals - flag) - 2 : strlen(flag) - 2;

    if (size >= CONFIG_NAME_SIZE * 2)
        size = CONFIG_NAME_SIZE * 2 - 1;
    for (size_t i = 0; i < size; i++)
        ret_name[i] = flag[2 + i] == '-' ? '_' : flag[2 + i];
    ret_name[size] = '\0';
    return equals ? equals + 1 : NULL;
}

/* Walks the flags. If there is a `source`, applies them to it; otherwise only looks for
 * --config. */
static enum error_code config_load_walk_flags(int argc, char *const argv[], struct source *source,
                                              struct config_request *request, const char **ret_path,
                                              struct error *ret_error)
{
    request->folder_count = 0;
    for (int i = 1; i < argc; i++) {
        char *flag = argv[i];

        if (strncmp(flag, "--", 2) != 0 || !flag[2])
            return error_set(ret_error, ERROR_INVALID, "%.*s: not a flag; see --help", SHOWN, flag);
        if (config_load_take_bare_flag(flag + 2, request))
            continue;
        char name[CONFIG_NAME_SIZE * 2];
        const char *value = config_load_flag_name(flag, name);
        enum config_action folder_action = config_load_folder_action(name);
        if (strcmp(name, "config") != 0 && !folder_action && !config_row_find(name))
            return config_load_refuse_unknown(SPELLING_FLAG, name, ret_error);
        if (!value && ++i < argc)
            value = argv[i];
        if (!value)
            return error_set(ret_error, ERROR_INVALID, "%s: a value is missing", flag);
        enum error_code code = ERROR_NONE;
        if (strcmp(name, "config") == 0) {
            *ret_path = value;
        } else if (folder_action) {
            code = config_load_take_folder(request, folder_action, value, ret_error);
        } else if (source) {
            code = config_load_apply(source, name, value, ret_error);
        }
        if (code)
            return code;
    }
    return ERROR_NONE;
}

void config_hide_secrets(int argc, char *const argv[])
{
    for (int i = 1; i < argc; i++) {
        struct config_request unused;
        if (strncmp(argv[i], "--", 2) != 0 || config_load_take_bare_flag(argv[i] + 2, &unused))
            continue;
        char name[CONFIG_NAME_SIZE * 2];
        char *value = config_load_flag_name(argv[i], name);
        if (!value && ++i < argc)
            value = argv[i];
        const struct config_row *row = config_row_find(name);
        if (value && row && row->type == CONFIG_TYPE_SECRET)
            memset(value, '*', strlen(value));
    }
}

/* ---- all of them ---- */

/* Joins the lines of a list to one line, because a list of brokers may be written on several lines.
 * Comments become blanks. */
static void config_load_join_lines(struct buffer *text)
{
    bool begins_line = true, is_comment = false;

    for (size_t i = 0; i < text->size; i++) {
        char c = text->data[i];

        if (begins_line)
            is_comment = c == '#';
        begins_line = c == '\n';
        if (is_comment || isspace((unsigned char)c))
            text->data[i] = ' ';
    }
}

static enum error_code config_load_secret(struct config *config, size_t index, const char *path,
                                          struct error *ret_error)
{
    const char *file_name = secrets[index].file_name;
    struct buffer text;

    buffer_init(&text);
    enum error_code code = files_read_regular(path, SECRET_FILE_BYTES_MAX, &text, ret_error);
    if (!code && secrets[index].may_have_lines)
        config_load_join_lines(&text);
    while (!code && text.size && isspace((unsigned char)text.data[text.size - 1]))
        text.size--;
    size_t start = 0;
    while (secrets[index].may_have_lines && start < text.size && text.data[start] == ' ')
        start++;
    buffer_append(&text, "", 1);
    if (!code && buffer_failed(&text))
        code = error_set(ret_error, ERROR_NO_MEMORY, "%s: out of memory", file_name);
    else if (!code && (strlen(text.data) + 1 != text.size || text.size == start + 1))
        code = error_set(ret_error, ERROR_INVALID, "%s: there is no secret in it", file_name);
    else if (!code)
        code = config_set(config, secrets[index].name, text.data + start, ret_error);
    buffer_deinit(&text);
    return code;
}

static enum error_code config_load_secrets(struct config *config, struct error *ret_error)
{
    enum error_code code = ERROR_NONE;

    for (size_t i = 0; i < SECRETS_COUNT && !code; i++) {
        const char *path = (const char *)config + config_row_find(secrets[i].file_name)->offset;

        if (*path)
            code = config_load_secret(config, i, path, ret_error);
    }
    return code;
}

enum error_code config_reload_secrets(const struct config *config, struct config *ret_fresh,
                                      struct error *ret_error)
{
    *ret_fresh = *config;
    return config_load_secrets(ret_fresh, ret_error);
}

/* True if the action uses the settings. --help does not, because it must work even if settings are
 * invalid. */
static bool config_load_needs_settings(enum config_action action)
{
    return action == CONFIG_ACTION_RUN || action == CONFIG_ACTION_PRINT ||
           action == CONFIG_ACTION_CHECK || action == CONFIG_ACTION_RESTORE ||
           action == CONFIG_ACTION_CLUSTER_CREATE || action == CONFIG_ACTION_CLUSTER_SECRET ||
           action == CONFIG_ACTION_CLUSTER_IMPORT;
}

enum error_code config_load(int argc, char *const argv[], char *const environment[],
                            struct config *ret_config, struct config_request *ret_request,
                            struct error *ret_error)
{
    const char *path = config_load_environment_config(environment);
    struct source flags = {ret_config, SPELLING_FLAG, {false}};

    *ret_request = (struct config_request){.action = CONFIG_ACTION_RUN};
    config_init(ret_config);
    enum error_code code = config_load_walk_flags(argc, argv, NULL, ret_request, &path, ret_error);
    if (!code && !config_load_needs_settings(ret_request->action))
        return ERROR_NONE;
    /* The path of a restore must be given: the default folder would depend on the current folder of
     * the shell. */
    const bool must_name_folder = ret_request->action == CONFIG_ACTION_RESTORE;
    if (must_name_folder)
        ret_config->data_folder[0] = '\0';
    config_otel_read(ret_config, environment);
    if (!code && path)
        code = config_load_file(ret_config, path, ret_error);
    if (!code)
        code = config_load_environment(ret_config, environment, ret_error);
    if (!code)
        code = config_load_walk_flags(argc, argv, &flags, ret_request, &path, ret_error);
    if (!code)
        code = config_load_settle_secrets(&flags, ret_error);
    if (!code)
        code = config_load_secrets(ret_config, ret_error);
    if (!code && must_name_folder && !*ret_config->data_folder)
        code =
            error_set(ret_error, ERROR_INVALID,
                      "--restore: name the folder to restore into: --data-folder FOLDER (with the "
                      "package /var/lib/tickwheel/data)");
    return code;
}
