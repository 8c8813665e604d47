/*
 * The usual queue on Redis: a sorted set with the due time as score, looked at every so often. What
 * is due is claimed by a script, in one step, into a second set with the end of its lease as score,
 * from where a worker that died could be made up for; it is done when it is taken out of there.
 */
#include "system.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEASE_MS 60000
#define DIGEST   40

static const char script[] =
    "local jobs = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, ARGV[2])\n"
    "if #jobs == 0 then return jobs end\n"
    "local leased = {}\n"
    "for i, job in ipairs(jobs) do leased[2 * i - 1] = ARGV[3]; leased[2 * i] = job end\n"
    "redis.call('ZREM', KEYS[1], unpack(jobs))\n"
    "redis.call('ZADD', KEYS[2], unpack(leased))\n"
    "return jobs\n";

static void add(struct link *link, const char *text)
{
    link_printf(link, "$%zu\r\n%s\r\n", strlen(text), text);
}

static void add_number(struct link *link, uint64_t number)
{
    char text[24];

    snprintf(text, sizeof(text), "%llu", (unsigned long long)number);
    add(link, text);
}

/* The number behind the letter that tells what the reply is. */
static long read_reply(struct link *link, char kind)
{
    const char *line = link_read_line(link);

    if (line[0] != kind)
        fail("Redis answered %s", line);
    return strtol(line + 1, NULL, 10);
}

static void add_key(struct link *link, const struct options *options, const char *what)
{
    char key[128];

    snprintf(key, sizeof(key), "%s:%s", options->queue, what);
    add(link, key);
}

/* The server keeps the script; every connection loads it. */
static void load(struct link *link, const struct options *options)
{
    (void)options;
    link_printf(link, "*3\r\n");
    add(link, "SCRIPT");
    add(link, "LOAD");
    link_printf(link, "$%zu\r\n", strlen(script));
    link_append(link, script, strlen(script));
    link_append(link, "\r\n", 2);
    link_flush(link);
    if (read_reply(link, '$') != DIGEST)
        fail("Redis did not take the script");
    memcpy(link->text, link_read(link, DIGEST + 2), DIGEST);
}

static void create(struct link *link, const struct options *options, const struct pull_job *jobs,
                   size_t count)
{
    char text[JOB_TEXT_SIZE + 1];

    link_printf(link, "*%zu\r\n", 2 + 2 * count);
    add(link, "ZADD");
    add_key(link, options, "due");
    for (size_t i = 0; i < count; i++) {
        job_format(&jobs[i], text);
        add_number(link, jobs[i].due_us / 1000);
        add(link, text);
    }
    link_flush(link);
    if (read_reply(link, ':') != (long)count)
        fail("Redis had a job already");
}

static size_t take(struct link *link, const struct options *options, struct taken *ret_taken,
                   size_t max)
{
    uint64_t now_ms = now_us() / 1000;
    size_t count;

    link_printf(link, "*8\r\n");
    add(link, "EVALSHA");
    add(link, link->text);
    add(link, "2");
    add_key(link, options, "due");
    add_key(link, options, "leased");
    add_number(link, now_ms);
    add_number(link, max);
    add_number(link, now_ms + LEASE_MS);
    link_flush(link);
    count = (size_t)read_reply(link, '*');
    for (size_t i = 0; i < count; i++)
        if (read_reply(link, '$') != JOB_TEXT_SIZE ||
            !job_parse(link_read(link, JOB_TEXT_SIZE + 2), &ret_taken[i].job))
            fail("a job that is not ours");
    if (count == 0)
        pause_us(options->poll_ms * UINT64_C(1000));
    return count;
}

static void finish(struct link *link, const struct options *options, const struct taken *taken,
                   size_t count)
{
    char text[JOB_TEXT_SIZE + 1];

    link_printf(link, "*%zu\r\n", 2 + count);
    add(link, "ZREM");
    add_key(link, options, "leased");
    for (size_t i = 0; i < count; i++) {
        job_format(&taken[i].job, text);
        add(link, text);
    }
    link_flush(link);
    if (read_reply(link, ':') != (long)count)
        fail("Redis did not have a job that was leased");
}

const struct system system_redis = {
    .name = "redis",
    .due_step_us = 1000,
    .open = load,
    .create = create,
    .take = take,
    .finish = finish,
};
