/* ndjson.c - makes and checks batches, for tests. */
#include "api/testing/fixture.h"

#include "api/timers/timers.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

/* Lines "begin .. end - 1", each with its number as payload. */
void lines_append(struct buffer *body, unsigned begin, unsigned end)
{
    for (unsigned i = begin; i < end; i++)
        buffer_printf(body, "{\"after\":\"1h\",\"target\":\"http://a.example/\",\"payload\":%u}\n",
                      i);
}

struct bytes lines_at(struct bytes text, size_t index)
{
    for (; index > 0; index--) {
        const char *end = memchr(text.data, '\n', text.size);

        assert(end);
        text.size -= (size_t)(end + 1 - text.data);
        text.data = end + 1;
    }
    if (text.size)
        text.size = (size_t)((const char *)memchr(text.data, '\n', text.size) - text.data);
    return text;
}

size_t lines_count(struct bytes text)
{
    size_t count = 0;

    for (size_t i = 0; i < text.size; i++)
        count += text.data[i] == '\n';
    return count;
}

/* Whether a line of the answer is the id of a timer with this payload. */
void lines_check_created(struct api_fixture *fixture, struct bytes line, unsigned payload)
{
    assert(bytes_has_prefix(line, BYTES("{\"id\":\"")));
    assert(line.size == NDJSON_ID_LINE - 1);
    char path[64];
    snprintf(path, sizeof(path), "/v1/timers/%.26s", line.data + 7);
    char text[64];
    snprintf(text, sizeof(text), "\"payload\":%u,", payload);
    struct client client;
    client_open(&client, api_port(fixture->api));
    struct reply reply;
    client_ask(&client, "GET", path, "", BYTES(""), &reply);
    assert(reply.status == 200);
    assert(reply_body_contains(&reply, text));
    client_close(&client);
}

bool bytes_contain(struct bytes text, const char *part)
{
    return text.size && memmem(text.data, text.size, part, strlen(part)) != NULL;
}

/* Sends until the node holds as many commands as it may get of one batch. Returns what is left. */
struct bytes batch_send_until_held(struct api_fixture *fixture, struct bytes body)
{
    while (probe_submitted(&fixture->probe) < BATCH_CHUNKS_MAX) {
        if (body.size == 0)
            probe_await_submitted(&fixture->probe, BATCH_CHUNKS_MAX);
        body = client_send_some(&fixture->client, body, 5);
    }
    return body;
}
