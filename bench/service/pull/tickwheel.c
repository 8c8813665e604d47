/* tickwheel.c - tickwheeld in the pull benchmark: timers of a queue, leased and acked. */
#include "system.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define RECEIPT_SIZE   32
#define TIMER_SIZE_MAX 400
#define FULL_PAUSE_US  10000 /* before what was refused is sent again */
#define OVERLOADED     "/problems/overloaded"

static void request(struct link *link, const char *path, const char *headers, size_t body_size)
{
    link_printf(link, "POST %s HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %zu\r\n\r\n", path,
                headers, body_size);
}

/* The body of the answer; not ended by a NUL. NULL for a refusal because the server was full. */
static char *try_answer(struct link *link, int wanted, size_t *ret_size)
{
    const char *line = link_read_line(link);
    int status = strlen(line) > 9 ? (int)strtol(line + 9, NULL, 10) : 0;
    size_t size = 0;
    char *body;

    while (*(line = link_read_line(link)))
        if (strncasecmp(line, "content-length:", 15) == 0)
            size = strtoul(line + 15, NULL, 10);
    body = link_read(link, size);
    if (status == 503 && memmem(body, size, OVERLOADED, strlen(OVERLOADED)))
        return NULL;
    if (status != wanted)
        fail("tickwheeld answered %d: %.*s", status, (int)(size < 300 ? size : 300), body);
    *ret_size = size;
    return body;
}

static char *answer(struct link *link, int wanted, size_t *ret_size)
{
    char *body = try_answer(link, wanted, ret_size);

    if (!body)
        fail("tickwheeld was full");
    return body;
}

static size_t format_timer(const struct options *options, const struct pull_job *job, char *text,
                           size_t size)
{
    char payload[JOB_TEXT_SIZE + 1], priority[24] = "";

    job_format(job, payload);
    if (job->priority != JOB_PRIORITY_ANY)
        snprintf(priority, sizeof(priority), "?priority=%d", job->priority);
    return (size_t)snprintf(
        text, size, "{\"at\":%llu,\"target\":\"queue:%s%s\",\"payload\":\"%s\"}\n",
        (unsigned long long)job->due_us / 1000, options->queue, priority, payload);
}

/* How many were refused because the server was full: none or the one. */
static size_t create_one(struct link *link, const struct options *options,
                         const struct pull_job *job)
{
    char text[TIMER_SIZE_MAX];
    size_t size = format_timer(options, job, text, sizeof(text));

    request(link, "/v1/timers", "Content-Type: application/json\r\n", size);
    link_append(link, text, size);
    link_flush(link);
    return try_answer(link, 201, &size) ? 0 : 1;
}

static void send_batch(struct link *link, const struct options *options,
                       const struct pull_job *jobs, size_t count)
{
    size_t size = 0, capacity = count * TIMER_SIZE_MAX;
    char *body = malloc(capacity);

    if (!body)
        fail("out of memory");
    for (size_t i = 0; i < count; i++)
        size += format_timer(options, &jobs[i], body + size, capacity - size);
    request(link, "/v1/timers/batch",
            "Content-Type: application/x-ndjson\r\nPrefer: return=minimal\r\n", size);
    link_append(link, body, size);
    link_flush(link);
    free(body);
}

/* Moves the jobs that were refused because the server was full to the front; how many they are. */
static size_t refused(const char *answer_text, size_t size, struct pull_job *jobs, size_t count)
{
    const char *at = answer_text, *end = answer_text + size;
    size_t kept = 0;

    while ((at = memmem(at, (size_t)(end - at), "{\"line\":", 8))) {
        size_t line = strtoul(at + 8, NULL, 10);

        if (!memmem(at, (size_t)(end - at), OVERLOADED, strlen(OVERLOADED)) || line < 1 ||
            line > count)
            fail("not all were taken: %.*s", (int)(size < 300 ? size : 300), answer_text);
        jobs[kept++] = jobs[line - 1];
        at += 8;
    }
    return kept;
}

/* How many were refused because the server was full, which are now at the front of `jobs`. */
static size_t create_batch(struct link *link, const struct options *options, struct pull_job *jobs,
                           size_t count)
{
    const char *body;
    size_t size;

    send_batch(link, options, jobs, count);
    body = answer(link, 200, &size);
    return memmem(body, size, "\"failed\":0", 10) ? 0 : refused(body, size, jobs, count);
}

static void create(struct link *link, const struct options *options, const struct pull_job *jobs,
                   size_t count)
{
    struct pull_job left[BATCH_MAX];

    memcpy(left, jobs, count * sizeof(*jobs));
    while (count > 0) {
        count =
            count == 1 ? create_one(link, options, left) : create_batch(link, options, left, count);
        link->refused += count;
        if (count > 0)
            pause_us(FULL_PAUSE_US);
    }
}

static size_t take(struct link *link, const struct options *options, struct taken *ret_taken,
                   size_t max)
{
    char path[128], body[96];
    size_t size =
        (size_t)snprintf(body, sizeof(body), "{\"max\":%zu,\"wait\":\"1s\",\"lease\":\"1m\"}", max);
    const char *text, *end;
    size_t count = 0;

    snprintf(path, sizeof(path), "/v1/queues/%s/lease", options->queue);
    request(link, path, "Content-Type: application/json\r\n", size);
    link_append(link, body, size);
    link_flush(link);
    text = answer(link, 200, &size);
    for (end = text + size; count < max; count++) {
        const char *receipt = memmem(text, (size_t)(end - text), "{\"receipt\":\"", 12);
        const char *payload =
            receipt ? memmem(receipt, (size_t)(end - receipt), "\"payload\":\"", 11) : NULL;

        if (!payload)
            break;
        memcpy(ret_taken[count].handle, receipt + 12, RECEIPT_SIZE);
        if (!job_parse(payload + 11, &ret_taken[count].job))
            fail("a payload that is not ours");
        text = payload + 11 + JOB_TEXT_SIZE;
    }
    return count;
}

static void finish(struct link *link, const struct options *options, const struct taken *taken,
                   size_t count)
{
    char path[128];
    const char *body;
    size_t size;

    snprintf(path, sizeof(path), "/v1/queues/%s/ack", options->queue);
    request(link, path, "Content-Type: application/json\r\n", 14 + count * (RECEIPT_SIZE + 3) + 1);
    link_append(link, "{\"receipts\": [", 14);
    for (size_t i = 0; i < count; i++) {
        link_append(link, i ? ",\"" : "\"", i ? 2 : 1);
        link_append(link, taken[i].handle, RECEIPT_SIZE);
        link_append(link, "\"", 1);
    }
    link_append(link, "]}", 2);
    link_flush(link);
    body = answer(link, 200, &size);
    if (!memmem(body, size, "\"stale\":0,\"unknown\":0", 21))
        fail("not all were acknowledged: %.*s", (int)(size < 300 ? size : 300), body);
}

const struct system system_tickwheel = {
    .name = "tickwheel",
    .due_step_us = 1000,
    .create = create,
    .take = take,
    .finish = finish,
};
