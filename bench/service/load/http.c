/*
 * http.c - tickwheeld in the load client, and what speaks HTTP beside it: nginx and log_floor
 * answer `create` with 201, a receiver of webhooks answers `post`.
 */
#include "load.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define RECEIPT_SIZE 32
#define TOUCH_MS     7200000 /* how far ahead a touch or a reschedule moves a timer */
#define JSON_TYPE    "Content-Type: application/json\r\n"
#define NDJSON_TYPE  "Content-Type: application/x-ndjson\r\nPrefer: return=minimal\r\n"

static void request(struct load_connection *connection, const char *method, const char *path,
                    const char *headers, size_t body_size)
{
    load_printf(&connection->out, "%s %s HTTP/1.1\r\nHost: localhost\r\n%s", method, path, headers);
    if (body_size > 0)
        load_printf(&connection->out, "Content-Length: %zu\r\n", body_size);
    load_append(&connection->out, "\r\n", 2);
}

/* The body of a complete answer, whose size goes to `ret_size`; NULL while it is incomplete. */
static const char *response(struct load_connection *connection, int wanted, size_t *ret_size)
{
    struct load_bytes *in = &connection->in;
    const char *head = in->data + in->start;
    size_t have = in->size - in->start;
    const char *end = have ? memmem(head, have, "\r\n\r\n", 4) : NULL;
    if (!end)
        return NULL;
    size_t head_size = (size_t)(end - head) + 4, body_size = 0;
    for (const char *line = head; line < end; line = (const char *)memchr(line, '\n', have) + 1)
        if (strncasecmp(line, "content-length:", 15) == 0)
            body_size = strtoul(line + 15, NULL, 10);
    if (have < head_size + body_size)
        return NULL;
    int status = (int)strtol(head + 9, NULL, 10);
    const char *body = head + head_size;
    if (status != wanted)
        load_fail("%s: %d %.*s", connection->group->operation->name, status,
                  (int)(body_size < 300 ? body_size : 300), body);
    in->start += head_size + body_size;
    *ret_size = body_size;
    return body;
}

static enum load_verdict expect(struct load_connection *connection, int status)
{
    size_t size;

    return response(connection, status, &size) ? LOAD_DONE : LOAD_MORE;
}

static enum load_verdict expect_200(struct load_connection *connection)
{
    return expect(connection, 200);
}

static enum load_verdict expect_201(struct load_connection *connection)
{
    return expect(connection, 201);
}

/* ---- creating ---- */

/* The payload begins with the due time, so that a worker knows how late it is. */
static void fill_lines(struct load_connection *connection, const char *key)
{
    struct load_group *group = connection->group;
    if (!connection->lines.text) {
        char format[512];
        snprintf(format, sizeof(format),
                 "{%s\"at\":@@@@@@@@@@@@@,\"target\":\"%s\",\"payload\":\"@@@@@@@@@@@@@ "
                 "############~\"}\n",
                 key, group->options->target);
        load_lines_make(&connection->lines, format, group->options->bytes, group->batch);
    }
    load_lines_fill(&connection->lines, group);
    connection->units = group->batch;
}

static void ask_create(struct load_connection *connection)
{
    fill_lines(connection, "");
    request(connection, "POST", "/v1/timers", JSON_TYPE, connection->lines.line_size);
    load_append(&connection->out, connection->lines.text, connection->lines.line_size);
}

static void send_batch(struct load_connection *connection)
{
    size_t size = connection->lines.line_size * connection->lines.count;

    request(connection, "POST", "/v1/timers/batch", NDJSON_TYPE, size);
    load_append(&connection->out, connection->lines.text, size);
}

static void ask_batch(struct load_connection *connection)
{
    fill_lines(connection, "");
    send_batch(connection);
}

/* With keys k000000000000, k000000000001, … */
static void ask_batch_keys(struct load_connection *connection)
{
    fill_lines(connection, "\"key\":\"k############\",");
    send_batch(connection);
}

static enum load_verdict answer_batch(struct load_connection *connection)
{
    size_t size;
    const char *body = response(connection, 200, &size);
    if (!body)
        return LOAD_MORE;
    if (!memmem(body, size, "\"failed\":0", 10))
        load_fail("not all were created: %.*s", (int)(size < 300 ? size : 300), body);
    return LOAD_DONE;
}

/* ---- one timer, or many, that exist ---- */

static const char *next_id(struct load_group *group)
{
    if (group->options->id_count == 0)
        load_fail("%s needs --ids", group->operation->name);
    return group->options->ids[group->next_id++ % group->options->id_count];
}

static void ask_by_id(struct load_connection *connection, const char *method, const char *verb,
                      const char *body)
{
    char path[128];

    snprintf(path, sizeof(path), "/v1/timers/%s%s", next_id(connection->group), verb);
    request(connection, method, path, *body ? JSON_TYPE : "", strlen(body));
    load_append(&connection->out, body, strlen(body));
    connection->units = 1;
}

static void ask_get(struct load_connection *connection)
{
    ask_by_id(connection, "GET", "", "");
}

static void ask_cancel(struct load_connection *connection)
{
    ask_by_id(connection, "DELETE", "", "");
}

/* Rises with the clock, as a touch to a time that is not later would write nothing. */
static uint64_t next_due_ms(void)
{
    return load_now_us() / 1000 + TOUCH_MS;
}

static void ask_touch(struct load_connection *connection)
{
    char body[64];

    snprintf(body, sizeof(body), "{\"at\":%" PRIu64 "}", next_due_ms());
    ask_by_id(connection, "POST", "/touch", body);
}

static void ask_many(struct load_connection *connection, const char *path)
{
    struct load_group *group = connection->group;
    struct load_bytes body = {0};
    bool by_key = group->options->id_count > 0 && group->options->ids[0][0] == 'k';

    load_printf(&body, "{\"%s\":[", by_key ? "keys" : "ids");
    for (size_t i = 0; i < group->batch; i++)
        load_printf(&body, "%s\"%s\"", i ? "," : "", next_id(group));
    load_printf(&body, "],\"at\":%" PRIu64 "}", next_due_ms());
    request(connection, "POST", path, JSON_TYPE, body.size);
    load_append(&connection->out, body.data, body.size);
    free(body.data);
    connection->units = group->batch;
}

static void ask_touch_many(struct load_connection *connection)
{
    ask_many(connection, "/v1/timers/touch");
}

static void ask_reschedule_many(struct load_connection *connection)
{
    ask_many(connection, "/v1/timers/reschedule");
}

static enum load_verdict answer_many(struct load_connection *connection)
{
    char all[48];
    size_t size;
    const char *body = response(connection, 200, &size);
    if (!body)
        return LOAD_MORE;
    int all_size = snprintf(all, sizeof(all), "ed\":%zu,\"already_firing\":0", connection->units);
    if (!memmem(body, size, all, (size_t)all_size))
        load_fail("not all were changed: %.*s", (int)(size < 300 ? size : 300), body);
    return LOAD_DONE;
}

/* ---- a worker of a queue: lease, ack ---- */

static void queue_request(struct load_connection *connection, const char *verb, size_t body_size)
{
    char path[128];

    snprintf(path, sizeof(path), "/v1/queues/%s/%s",
             connection->group->options->target + strlen("queue:"), verb);
    request(connection, "POST", path, JSON_TYPE, body_size);
}

static void ask_lease(struct load_connection *connection)
{
    char body[96];
    int size = snprintf(body, sizeof(body), "{\"max\":%zu,\"wait\":\"1s\",\"lease\":\"1m\"}",
                        connection->group->batch);

    queue_request(connection, "lease", (size_t)size);
    load_append(&connection->out, body, (size_t)size);
    connection->units = 0;
}

/* The receipts of a lease's answer, as the body of an ack. Returns how many. */
static size_t read_items(struct load_connection *connection, const char *at, const char *end,
                         struct load_bytes *acks)
{
    static const char receipt_name[] = "{\"receipt\":\"", payload_name[] = "\"payload\":\"";
    size_t count = 0;

    load_printf(acks, "{\"receipts\":[");
    while ((at = memmem(at, (size_t)(end - at), receipt_name, sizeof(receipt_name) - 1))) {
        at += sizeof(receipt_name) - 1;
        load_printf(acks, "%s\"%.*s\"", count ? "," : "", RECEIPT_SIZE, at);
        at = memmem(at, (size_t)(end - at), payload_name, sizeof(payload_name) - 1);
        if (!at)
            load_fail("an item without a payload");
        load_note_late(connection->group, strtoull(at + sizeof(payload_name) - 1, NULL, 10));
        count++;
    }
    load_printf(acks, "]}");
    return count;
}

static enum load_verdict answer_lease(struct load_connection *connection)
{
    size_t size;
    const char *body = response(connection, 200, &size);
    if (!body)
        return LOAD_MORE;
    if (connection->step == 1) {
        char all[48];
        int all_size = snprintf(all, sizeof(all), "{\"ok\":%zu,", connection->units);
        if (!memmem(body, size, all, (size_t)all_size))
            load_fail("not all were acknowledged: %.*s", (int)(size < 300 ? size : 300), body);
        return LOAD_DONE;
    }
    struct load_bytes acks = {0};
    connection->units = read_items(connection, body, body + size, &acks);
    if (connection->units > 0) {
        queue_request(connection, "ack", acks.size);
        load_append(&connection->out, acks.data, acks.size);
    }
    free(acks.data);
    return connection->units > 0 ? LOAD_STEP : LOAD_DONE;
}

/* ---- what others are measured with ---- */

/* A webhook as tickwheeld sends it, to a receiver. */
static void ask_post(struct load_connection *connection)
{
    static const char headers[] =
        "webhook-id: 06gvnv4rh00000000400000000-1795228998536\r\nwebhook-timestamp: 1795228998\r\n"
        "tickwheel-due: 2026-11-21T02:43:18.536Z\r\ntickwheel-attempt: 1\r\n"
        "Content-Type: application/json\r\nUser-Agent: load_client\r\n";

    fill_lines(connection, "");
    request(connection, "POST", "/ok", headers, connection->lines.line_size);
    load_append(&connection->out, connection->lines.text, connection->lines.line_size);
}

static const struct load_operation operations[] = {
    {.name = "create", .ask = ask_create, .answer = expect_201},
    {.name = "batch", .ask = ask_batch, .answer = answer_batch},
    {.name = "batch_keys", .ask = ask_batch_keys, .answer = answer_batch},
    {.name = "get", .ask = ask_get, .answer = expect_200},
    {.name = "cancel", .ask = ask_cancel, .answer = expect_200},
    {.name = "touch", .ask = ask_touch, .answer = expect_200},
    {.name = "touch_many", .ask = ask_touch_many, .answer = answer_many},
    {.name = "reschedule_many", .ask = ask_reschedule_many, .answer = answer_many},
    {.name = "lease", .ask = ask_lease, .answer = answer_lease},
    {.name = "post", .ask = ask_post, .answer = expect_200},
};

const struct load_operation *load_http_find(const char *name)
{
    for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++)
        if (strcmp(operations[i].name, name) == 0)
            return &operations[i];
    return NULL;
}
