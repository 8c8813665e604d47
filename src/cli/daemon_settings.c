/* daemon_settings.c - the daemon's settings, read by their names. */
#include "cli/daemon_settings.h"

#include "base/number.h"

#include <ini.h>
#include <stdlib.h>

static const struct {
    const char *name, *variable;
} daemon_settings_names[DAEMON_SETTING_COUNT] = {
    [DAEMON_SETTING_DATA] = {"data_folder", "TICKWHEEL_DATA_FOLDER"},
    [DAEMON_SETTING_CONNECTIONS] = {"connections_max", "TICKWHEEL_CONNECTIONS_MAX"},
    [DAEMON_SETTING_WEBHOOK_CONNECTIONS] = {"webhook_connections_max",
                                            "TICKWHEEL_WEBHOOK_CONNECTIONS_MAX"},
    [DAEMON_SETTING_BROKERS] = {"broker_connections", "TICKWHEEL_BROKER_CONNECTIONS"},
    [DAEMON_SETTING_BROKERS_FILE] = {"broker_connections_file",
                                     "TICKWHEEL_BROKER_CONNECTIONS_FILE"},
};

static int daemon_settings_on_line(void *context, const char *section, const char *name,
                                   const char *value)
{
    struct daemon_settings *settings = context;

    (void)section;
    for (size_t i = 0; i < DAEMON_SETTING_COUNT; i++)
        if (strcmp(name, daemon_settings_names[i].name) == 0) {
            buffer_clear(&settings->values[i]);
            buffer_append_text(&settings->values[i], value);
        }
    return 1;
}

enum error_code daemon_settings_read(struct daemon_settings *settings, struct bytes file,
                                     struct error *ret_error)
{
    struct buffer text;

    *settings = (struct daemon_settings){0};
    buffer_init(&text);
    buffer_append_bytes(&text, file);
    buffer_append(&text, "", 1);
    int line =
        buffer_failed(&text) ? -1 : ini_parse_string(text.data, daemon_settings_on_line, settings);
    buffer_deinit(&text);
    for (size_t i = 0; i < DAEMON_SETTING_COUNT; i++) {
        const char *value = getenv(daemon_settings_names[i].variable);

        if (!value || !*value)
            continue;
        buffer_clear(&settings->values[i]);
        buffer_append_text(&settings->values[i], value);
    }
    if (line < 0)
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    return line ? error_set(ret_error, ERROR_INVALID, "line %d is no setting", line) : ERROR_NONE;
}

void daemon_settings_deinit(struct daemon_settings *settings)
{
    for (size_t i = 0; i < DAEMON_SETTING_COUNT; i++)
        buffer_deinit(&settings->values[i]);
}

struct bytes daemon_settings_get(const struct daemon_settings *settings,
                                 enum daemon_setting setting)
{
    return buffer_bytes(&settings->values[setting]);
}

uint64_t daemon_settings_number(const struct daemon_settings *settings, enum daemon_setting setting,
                                uint64_t otherwise)
{
    uint64_t number;

    return number_parse(daemon_settings_get(settings, setting), 10, &number) ? number : otherwise;
}

/* ---- brokers ---- */

static uint16_t daemon_settings_port(struct bytes scheme)
{
    static const struct {
        const char *scheme;
        uint16_t port;
    } ports[] = {{"redis", 6379}, {"nats", 4222}, {"tls", 4222},
                 {"kafka", 9092}, {"amqp", 5672}, {"amqps", 5671}};

    for (size_t i = 0; i < sizeof(ports) / sizeof(*ports); i++)
        if (bytes_equal(scheme, bytes_of(ports[i].scheme)))
            return ports[i].port;
    return 0;
}

/* The text up to the first of the marks. */
static struct bytes daemon_settings_until(struct bytes text, const char *marks)
{
    size_t size = 0;

    while (size < text.size && !strchr(marks, text.data[size]))
        size++;
    return (struct bytes){text.data, size};
}

static bool daemon_settings_read_broker(struct bytes word, struct daemon_broker *ret_broker)
{
    struct daemon_broker broker = {.name = bytes_cut(&word, '=')};

    broker.port = daemon_settings_port(bytes_cut(&word, ':'));
    if (!bytes_has_prefix(word, BYTES("//")))
        return false;
    word = (struct bytes){word.data + 2, word.size - 2};
    broker.hosts = daemon_settings_until(word, "/?");
    /* Before the last @ are user and password. */
    for (size_t at = broker.hosts.size; at > 0; at--)
        if (broker.hosts.data[at - 1] == '@') {
            broker.hosts.data += at;
            broker.hosts.size -= at;
            break;
        }
    *ret_broker = broker;
    return broker.name.size && broker.hosts.size;
}

bool daemon_settings_next_broker(struct bytes *list, struct daemon_broker *ret_broker)
{
    while (list->size) {
        struct bytes word = daemon_settings_until(*list, " \t\r\n");
        struct bytes rest = *list;

        if (word.size && *word.data == '#') /* a line of comment */
            bytes_cut(list, '\n');
        else
            *list = (struct bytes){rest.data + word.size, rest.size - word.size};
        if (!word.size)
            *list = (struct bytes){rest.data + 1, rest.size - 1};
        else if (*word.data != '#' && daemon_settings_read_broker(word, ret_broker))
            return true;
    }
    return false;
}
