/*
 * beanstalkd counts delays in whole seconds from when it has the job. Many at a time are pipelined:
 * the first `reserve` waits, those behind it take what else is ready, and the next time as many
 * are asked for as there may be.
 */
#include "system.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void open_tube(struct link *link, const struct options *options)
{
    link_printf(link, "use %s\r\nwatch %s\r\nignore default\r\n", options->queue, options->queue);
    link_flush(link);
    if (strncmp(link_read_line(link), "USING", 5) != 0 ||
        strncmp(link_read_line(link), "WATCHING", 8) != 0 ||
        strncmp(link_read_line(link), "WATCHING", 8) != 0)
        fail("beanstalkd refused the tube");
}

static void create(struct link *link, const struct options *options, const struct pull_job *jobs,
                   size_t count)
{
    char text[JOB_TEXT_SIZE + 1];

    (void)options;
    for (size_t i = 0; i < count; i++) {
        job_format(&jobs[i], text);
        link_printf(link, "put 0 %u 60 %d\r\n%s\r\n", jobs[i].delay_s, JOB_TEXT_SIZE, text);
    }
    link_flush(link);
    for (size_t i = 0; i < count; i++) {
        const char *line = link_read_line(link);

        if (strncmp(line, "INSERTED", 8) != 0)
            fail("beanstalkd refused a job: %s", line);
    }
}

/* The answer to one `reserve`; false when there was no job. */
static bool read_job(struct link *link, struct taken *ret_taken)
{
    const char *line = link_read_line(link);
    unsigned long long id, size;

    if (strncmp(line, "RESERVED ", 9) != 0) {
        if (strcmp(line, "TIMED_OUT") != 0 && strcmp(line, "DEADLINE_SOON") != 0)
            fail("beanstalkd answered a reserve with %s", line);
        return false;
    }
    if (sscanf(line + 9, "%llu %llu", &id, &size) != 2 || size != JOB_TEXT_SIZE)
        fail("a job that is not ours: %s", line);
    snprintf(ret_taken->handle, sizeof(ret_taken->handle), "%llu", id);
    if (!job_parse(link_read(link, size + 2), &ret_taken->job))
        fail("a job that is not ours");
    return true;
}

static size_t take(struct link *link, const struct options *options, struct taken *ret_taken,
                   size_t max)
{
    size_t window = link->window < 1 ? 1 : link->window < max ? link->window : max;
    size_t count = 0;

    (void)options;
    for (size_t i = 0; i < window; i++)
        link_printf(link, "reserve-with-timeout %d\r\n", i == 0);
    link_flush(link);
    for (size_t i = 0; i < window; i++)
        count += read_job(link, &ret_taken[count]);
    link->window = count * 2 + 1;
    return count;
}

static void finish(struct link *link, const struct options *options, const struct taken *taken,
                   size_t count)
{
    (void)options;
    for (size_t i = 0; i < count; i++)
        link_printf(link, "delete %s\r\n", taken[i].handle);
    link_flush(link);
    for (size_t i = 0; i < count; i++)
        if (strcmp(link_read_line(link), "DELETED") != 0)
            fail("beanstalkd did not delete a job");
}

const struct system system_beanstalkd = {
    .name = "beanstalkd",
    .due_step_us = 1,
    .open = open_tube,
    .create = create,
    .take = take,
    .finish = finish,
};
