/*
 * dead.c - lists dead letters, and redrives or deletes them, by id or by filter.
 *
 * A redrive or a delete of many takes each letter that was there at its first call once. Its cursor
 * carries the time of that call, and letters that died later do not pass. A letter whose death is
 * in the future was written while the clock was ahead, and passes. In a cluster a letter has the
 * time of its node, which may differ by CLOCKS_MS: the bound is that much later, and a letter that
 * is redriven is due at the bound, so that it cannot die before it.
 */

#include "api/core/scatter.h"
#include "api/timers/timers.h"
#include "base/json_write.h"
#include "sys/clock.h"

#include <stdlib.h>

void dead_list(struct call *call)
{
    list_end_dead(call);
}

/* ---- many letters ---- */

enum { CLOCKS_MS = 1000 }; /* largest assumed difference of two nodes' clocks */

struct dead_job {
    struct call *call;
    enum command_kind kind; /* REDRIVE or FORGET */
    struct dead_ask ask;
    struct list_job *search; /* the search for letters, or NULL */
    struct scatter *letters; /* commands, a part for each; or NULL */
    struct wall from;        /* of a redrive: due time of the first letter; 0 for now */
    bool has_next;
    struct cursor next;
};

void dead_job_closed(struct call *call)
{
    struct dead_job *job = call->state;

    if (!job)
        return;
    dead_ask_free(&job->ask);
    list_job_free(job->search);
    free(job->letters);
    free(job);
}

static void dead_append_results(const struct dead_job *job, struct buffer *out)
{
    json_open(out, "results", '[');
    for (size_t i = 0; i < job->letters->count; i++) {
        enum error_code error = job->letters->parts[i].error;

        json_put_text(out, NULL, error ? error_slug(error) : "ok");
    }
    json_close(out, ']');
}

/* Returns when the letter with this index may be delivered. */
static struct wall dead_job_due(const struct dead_job *job, size_t index)
{
    if (!job->ask.rate)
        return job->from;
    return wall_add(job->from, (index * 1000 + job->ask.rate - 1) / job->ask.rate);
}

static void dead_job_answer(struct call *call)
{
    const struct dead_job *job = call->state;
    const size_t count = job->letters->count;
    size_t done = 0;

    for (size_t i = 0; i < count; i++)
        done += job->letters->parts[i].error == ERROR_NONE;
    struct buffer body;
    buffer_init(&body);
    json_open(&body, NULL, '{');
    json_put_number(&body, job->kind == COMMAND_REDRIVE ? "redriven" : "deleted", done);
    json_put_number(&body, "failed", count - done);
    if (job->ask.ids) {
        dead_append_results(job, &body);
    } else if (job->has_next) {
        const struct dead_cursor next = {job->next, job->ask.query.began,
                                         job->ask.rate ? dead_job_due(job, count)
                                                       : (struct wall){0}};
        char text[DEAD_CURSOR_TEXT_SIZE];
        dead_cursor_format(&next, text);
        json_put_text(&body, "next", text);
    } else {
        json_put_raw(&body, "next", BYTES("null"));
    }
    json_close(&body, '}');
    call_answer_json(job->call, 200, &body);
}

static void dead_job_submit(struct dead_job *job, const struct timer_id *ids, size_t count)
{
    const uint16_t partitions = node_partition_count(job->call->api->options.node);

    job->letters = scatter_alloc(job->call, count);
    if (!job->letters) {
        call_answer_error(job->call, ERROR_NO_MEMORY, "");
        return;
    }
    job->letters->resume = dead_job_answer;
    if (job->ask.patch && !scatter_give_patch(job->letters, job->ask.patch, PATCH_TARGET)) {
        call_answer_error(job->call, ERROR_NO_MEMORY, "");
        return;
    }
    for (size_t i = 0; i < count; i++) {
        struct command *command = &job->letters->parts[i].node.command;

        command->kind = job->kind;
        command->not_before = dead_job_due(job, i);
        if (ids[i].partition >= partitions)
            continue; /* an id that no timer has, of the first partition */
        command->id = ids[i];
        command->partition = ids[i].partition;
    }
    scatter_submit(job->letters);
}

static void dead_job_found(struct call *call)
{
    struct dead_job *job = call->state;
    struct list_found found;

    list_take_found(job->search, &found);
    if (found.error) {
        call_answer_error(call, found.error, "");
        return;
    }
    job->has_next = found.has_next;
    job->next = found.next;
    dead_job_submit(job, found.ids, found.count);
}

/* Returns the largest difference of a letter's time to this node's clock. */
static uint64_t dead_job_clocks_ms(const struct dead_job *job)
{
    return node_cluster_id(job->call->api->options.node) ? CLOCKS_MS : 0;
}

/* Finds the letters of the query, and submits them. */
static void dead_job_find(struct dead_job *job)
{
    struct list_query *query = &job->ask.query;

    query->asked = wall_add(wall_now(), dead_job_clocks_ms(job));
    if (!query->has_cursor)
        query->began = query->asked;
    /* So a letter that dies again dies after `began`, and is not taken again. */
    job->from = wall_max(job->from, wall_add(query->began, 1));
    job->search = list_find(job->call, &job->ask.query, LIST_WANTS_IDS, dead_job_found);
    if (!job->search)
        call_answer_error(job->call, ERROR_NO_MEMORY, "");
}

/* NULL: answered. */
static struct dead_job *dead_job_create(struct call *call, enum command_kind kind)
{
    struct dead_job *job = calloc(1, sizeof(*job));

    if (!job) {
        call_answer_error(call, ERROR_NO_MEMORY, "");
        return NULL;
    }
    job->call = call;
    job->kind = kind;
    call->state = job;
    return job;
}

/* ---- redrive ---- */

/* Finds where the pace of the redrive continues. Returns false if answered, because that is too
 * far ahead. */
static bool dead_redrive_pace(struct dead_job *job)
{
    if (!job->ask.rate)
        return true;
    job->from = wall_max(wall_coming(), job->ask.paced);
    if (wall_since(wall_now(), job->from) <= DEAD_AHEAD_MS_MAX)
        return true;
    struct problem problem;
    problem_set(&problem, ERROR_INVALID, "#/cursor", "%s",
                "Its pace goes on in more than a day: repeat the call later");
    call_answer_problem(job->call, &problem);
    return false;
}

void dead_redrive(struct call *call)
{
    struct dead_job *job = dead_job_create(call, COMMAND_REDRIVE);

    if (!job)
        return;
    const struct timer_json_limits limits = call_timer_limits(call);
    struct problem problem;
    if (dead_json_parse(buffer_bytes(&call->body), &limits, &job->ask, &problem))
        call_answer_problem(call, &problem);
    else if (job->ask.patch && call_view(call).hides_headers)
        call_answer_error(call, ERROR_FORBIDDEN,
                          "new_target would get headers that the token may not see: it needs scope "
                          "payload");
    else if (!dead_redrive_pace(job))
        return;
    else if (job->ask.ids)
        dead_job_submit(job, job->ask.ids, job->ask.id_count);
    else
        dead_job_find(job);
}

/* ---- delete ---- */

void dead_delete(struct call *call)
{
    if (timers_address(call, COMMAND_FORGET))
        call_submit(call, timers_done);
}

void dead_delete_many(struct call *call)
{
    struct dead_job *job = dead_job_create(call, COMMAND_FORGET);

    if (!job)
        return;
    struct problem problem;
    if (list_query_parse(call->query, LIST_DEAD_TO_DELETE, call->query_room, &job->ask.query,
                         &problem))
        call_answer_problem(call, &problem);
    else
        dead_job_find(job);
}
