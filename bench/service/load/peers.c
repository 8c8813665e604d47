/*
 * peers.c - the peers in the load client, each in the form that suits it best.
 *
 * Redis: ZADD of the due time as score. beanstalkd: `put`, many pipelined. NATS: a message
 * published to a stream of JetStream, acknowledged in the client's inbox. PostgreSQL: a prepared
 * INSERT, or COPY, each a transaction.
 */
#include "load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void refuse(struct load_connection *connection, const char *answer)
{
    load_fail("%s: %.200s", connection->group->operation->name, answer);
}

static const char *fill(struct load_connection *connection, const char *format)
{
    struct load_group *group = connection->group;

    if (!connection->lines.text)
        load_lines_make(&connection->lines, format, group->options->bytes, group->batch);
    load_lines_fill(&connection->lines, group);
    connection->units = group->batch;
    return connection->lines.text;
}

/* ---- Redis ---- */

/* Score and member; the size of the member is that of the line without score and frames. */
static void redis_ask(struct load_connection *connection)
{
    struct load_group *group = connection->group;
    char format[128];

    snprintf(format, sizeof(format), "$13\r\n@@@@@@@@@@@@@\r\n$%u\r\n############~\r\n",
             group->options->bytes - 28);
    fill(connection, format);
    load_printf(&connection->out, "*%zu\r\n$4\r\nZADD\r\n$6\r\ntimers\r\n", 2 + 2 * group->batch);
    load_append(&connection->out, connection->lines.text,
                connection->lines.line_size * group->batch);
}

static enum load_verdict redis_answer(struct load_connection *connection)
{
    const char *line = load_line(connection);
    if (!line)
        return LOAD_MORE;
    if (line[0] != ':' || strtoul(line + 1, NULL, 10) != connection->units)
        refuse(connection, line);
    return LOAD_DONE;
}

/* ---- beanstalkd ---- */

static void beanstalkd_ask(struct load_connection *connection)
{
    struct load_group *group = connection->group;
    char format[64];

    snprintf(format, sizeof(format), "put 0 1800 60 %u\r\n############~\r\n",
             group->options->bytes - 21);
    fill(connection, format);
    load_append(&connection->out, connection->lines.text,
                connection->lines.line_size * group->batch);
}

static enum load_verdict beanstalkd_answer(struct load_connection *connection)
{
    const char *line;

    while ((line = load_line(connection))) {
        if (strncmp(line, "INSERTED", 8) != 0)
            refuse(connection, line);
        if (++connection->step == connection->units)
            return LOAD_DONE;
    }
    return LOAD_MORE;
}

/* ---- NATS JetStream ---- */

static void nats_greet(struct load_connection *connection)
{
    load_printf(&connection->out, "CONNECT {\"verbose\":false}\r\nSUB _INBOX.%d 1\r\nPING\r\n",
                connection->fd);
}

static enum load_verdict nats_greeted(struct load_connection *connection)
{
    const char *line;

    while ((line = load_line(connection)))
        if (strcmp(line, "PONG") == 0)
            return LOAD_DONE;
    return LOAD_MORE;
}

static void nats_ask(struct load_connection *connection)
{
    struct load_group *group = connection->group;
    char format[64];

    snprintf(format, sizeof(format), "PUB timers.due _INBOX.%d %u\r\n############~\r\n",
             connection->fd, group->options->bytes);
    if (!connection->lines.text)
        load_lines_make(&connection->lines, format,
                        group->options->bytes + strcspn(format, "#") + 2, 1);
    fill(connection, format);
    load_append(&connection->out, connection->lines.text, connection->lines.line_size);
}

static enum load_verdict nats_answer(struct load_connection *connection)
{
    const char *line;

    while ((line = load_line(connection))) {
        if (strcmp(line, "PING") == 0)
            load_printf(&connection->out, "PONG\r\n");
        else if (strstr(line, "\"error\"") || line[0] == '-')
            refuse(connection, line);
        else if (strstr(line, "\"seq\""))
            return LOAD_DONE;
    }
    return LOAD_MORE;
}

/* ---- PostgreSQL, protocol 3 ---- */

static void big_endian(unsigned char *to, size_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (unsigned char)(value >> (24 - 8 * i));
}

static void postgres_message(struct load_connection *connection, char kind, const void *data,
                             size_t size)
{
    unsigned char head[5] = {(unsigned char)kind};

    big_endian(head + 1, size + 4);
    load_append(&connection->out, head, 5);
    load_append(&connection->out, data, size);
}

static void postgres_greet(struct load_connection *connection)
{
    static const char user[] = "\0\3\0\0user\0postgres\0database\0postgres\0";
    static const char insert[] =
        "insert\0INSERT INTO timers (due, target, payload) VALUES ($1, $2, $3)\0\0";
    unsigned char size[4];

    big_endian(size, sizeof(user) + 4);
    load_append(&connection->out, size, 4);
    load_append(&connection->out, user, sizeof(user));
    postgres_message(connection, 'P', insert, sizeof(insert));
    postgres_message(connection, 'S', "", 0);
}

/* Takes one message. Returns its kind, or 0 while it is incomplete; its body is not looked at. */
static char postgres_take(struct load_connection *connection)
{
    struct load_bytes *in = &connection->in;
    const unsigned char *head = (const unsigned char *)in->data + in->start;
    if (in->size - in->start < 5)
        return 0;
    size_t size = (size_t)head[1] << 24 | (size_t)head[2] << 16 | (size_t)head[3] << 8 | head[4];
    if (!load_take(connection, size + 1))
        return 0;
    if (head[0] == 'E')
        load_fail("PostgreSQL: %.*s", (int)size - 4, (const char *)head + 5);
    return (char)head[0];
}

/* Ready twice: after the start, and after the statement was prepared. */
static enum load_verdict postgres_greeted(struct load_connection *connection)
{
    char kind;

    while ((kind = postgres_take(connection)))
        if (kind == 'Z' && ++connection->step == 2)
            return LOAD_DONE;
    return LOAD_MORE;
}

/* Binds texts to the three parameters and executes. */
static void postgres_insert(struct load_connection *connection)
{
    const struct load_options *options = connection->group->options;
    struct load_bytes body = {0};
    const char *line = fill(connection, "@@@@@@@@@@@@@############~");
    const struct {
        const char *text;
        size_t size;
    } values[] = {{line, 13},
                  {options->target, strlen(options->target)},
                  {line + 13, connection->lines.line_size - 13 - strlen(options->target)}};

    load_append(&body, "\0insert\0\0\0\0\3", 12);
    for (int i = 0; i < 3; i++) {
        unsigned char size[4];
        big_endian(size, values[i].size);
        load_append(&body, size, 4);
        load_append(&body, values[i].text, values[i].size);
    }
    load_append(&body, "\0\0", 2);
    postgres_message(connection, 'B', body.data, body.size);
    postgres_message(connection, 'E', "\0\0\0\0\0", 5);
    postgres_message(connection, 'S', "", 0);
    free(body.data);
}

static enum load_verdict postgres_inserted(struct load_connection *connection)
{
    char kind;

    while ((kind = postgres_take(connection)))
        if (kind == 'Z')
            return LOAD_DONE;
    return LOAD_MORE;
}

static void postgres_copy(struct load_connection *connection)
{
    static const char query[] = "COPY timers (due, target, payload) FROM STDIN";

    postgres_message(connection, 'Q', query, sizeof(query));
}

/* The rows are sent once the server asks for them. */
static enum load_verdict postgres_copied(struct load_connection *connection)
{
    char kind;

    while ((kind = postgres_take(connection))) {
        if (kind == 'Z')
            return LOAD_DONE;
        if (kind == 'G') {
            char format[256];
            snprintf(format, sizeof(format), "@@@@@@@@@@@@@\t%s\t############~\n",
                     connection->group->options->target);
            fill(connection, format);
            postgres_message(connection, 'd', connection->lines.text,
                             connection->lines.line_size * connection->lines.count);
            postgres_message(connection, 'c', "", 0);
            return LOAD_STEP;
        }
    }
    return LOAD_MORE;
}

static const struct load_operation operations[] = {
    {.name = "redis", .ask = redis_ask, .answer = redis_answer},
    {.name = "beanstalkd", .ask = beanstalkd_ask, .answer = beanstalkd_answer},
    {.name = "nats",
     .greet = nats_greet,
     .greeted = nats_greeted,
     .ask = nats_ask,
     .answer = nats_answer},
    {.name = "insert",
     .greet = postgres_greet,
     .greeted = postgres_greeted,
     .ask = postgres_insert,
     .answer = postgres_inserted},
    {.name = "copy",
     .greet = postgres_greet,
     .greeted = postgres_greeted,
     .ask = postgres_copy,
     .answer = postgres_copied},
};

const struct load_operation *load_peer_find(const char *name)
{
    for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++)
        if (strcmp(operations[i].name, name) == 0)
            return &operations[i];
    return NULL;
}
