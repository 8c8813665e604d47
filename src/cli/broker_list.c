/* broker_list.c - reads names and hosts out of the daemon's list of message brokers. */
#include "cli/broker_list.h"

static uint16_t broker_list_port(struct bytes scheme)
{
    static const struct {
        const char *scheme;
        uint16_t port;
    } ports[] = {{"redis", 6379}, {"nats", 4222},  {"tls", 4222},      {"kafka", 9092},
                 {"amqp", 5672},  {"amqps", 5671}, {"postgres", 5432}, {"postgresql", 5432}};

    for (size_t i = 0; i < sizeof(ports) / sizeof(*ports); i++)
        if (bytes_equal(scheme, bytes_of(ports[i].scheme)))
            return ports[i].port;
    return 0;
}

/* Returns the text before the first character that is one of `marks`. */
static struct bytes broker_list_until(struct bytes text, const char *marks)
{
    size_t size = 0;

    while (size < text.size && !strchr(marks, text.data[size]))
        size++;
    return (struct bytes){text.data, size};
}

static bool broker_list_read(struct bytes word, struct listed_broker *ret_broker)
{
    struct listed_broker broker = {.name = bytes_cut(&word, '=')};

    broker.port = broker_list_port(bytes_cut(&word, ':'));
    if (!bytes_has_prefix(word, BYTES("//")))
        return false;
    word = (struct bytes){word.data + 2, word.size - 2};
    broker.hosts = broker_list_until(word, "/?");
    /* User and password are before the last @. */
    for (size_t at = broker.hosts.size; at > 0; at--)
        if (broker.hosts.data[at - 1] == '@') {
            broker.hosts.data += at;
            broker.hosts.size -= at;
            break;
        }
    *ret_broker = broker;
    return broker.name.size && broker.hosts.size;
}

bool broker_list_next(struct bytes *list, struct listed_broker *ret_broker)
{
    while (list->size) {
        struct bytes word = broker_list_until(*list, " \t\r\n");
        struct bytes rest = *list;

        if (word.size && *word.data == '#') /* a comment up to the end of the line */
            bytes_cut(list, '\n');
        else
            *list = (struct bytes){rest.data + word.size, rest.size - word.size};
        if (!word.size)
            *list = (struct bytes){rest.data + 1, rest.size - 1};
        else if (*word.data != '#' && broker_list_read(word, ret_broker))
            return true;
    }
    return false;
}
