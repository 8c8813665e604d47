/*
 * list.c - asks every partition for rows, and merges them into a page in due order.
 *
 * The partitions are asked in rounds, until the page is full or LIST_SEARCH_MS have passed. A round
 * reads a bounded number of rows of each, so that reads of others come between.
 */
#include "api/timers/list.h"

#include "base/json_write.h"
#include "sys/clock.h"
#include "timer/runs.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

enum {
    ROWS_MIN = 16,             /* minimum number of rows requested from each partition */
    READ_BYTES_MAX = 4 << 20,  /* rows that a round reads from all partitions together */
    PART_BYTES_MIN = 64 << 10, /* minimum of the rows of each partition */
    PAGE_BYTES_MAX = 16 << 20, /* maximum JSON in one answer */
};

/* A row that passed the filter. */
struct list_row {
    struct cursor place;
    struct timer_id id;
    struct timer *timer; /* copy; NULL if only ids are wanted */
};

/* What a partition read in one round. */
struct list_step {
    struct cursor end;    /* first place not read; valid with has_end */
    bool has_end;         /* false if the partition's range is finished */
    size_t refused_count; /* the caller's timers that did not pass the filter */
};

/* A partition's part of the page. */
struct list_part {
    struct node_request node;
    struct list_job *job;
    struct list_row *rows; /* rows that passed, of all rounds */
    size_t row_count, taken;
    size_t bytes;    /* memory of their timers */
    bool is_unaware; /* its node returns all timers, because its version knows no filter */
    struct list_step *steps;
    size_t step_count;
    enum error_code error;
};

struct list_job {
    struct concurrency_start start;
    struct call *call;
    struct list_query query;
    struct timer_filter filter; /* for the storage, which does not know what is being delivered */
    bool has_filter;
    struct instant until;    /* no round begins after it */
    atomic_size_t waiting;   /* parts without a reply, plus one for the submission */
    enum error_code refused; /* why a part could not be submitted */
    uint16_t part_count;
    void (*resume)(struct call *call); /* list_answer, or that of list_find */
    enum list_want want;
    struct timer_id *ids;  /* ids found */
    struct timer **timers; /* timers of these ids, which belong to the parts */
    struct list_part parts[];
};

/* ---- filtering; on the shard's thread, while the rows are valid ---- */

/* Dead letters are ordered by their deaths, so their due time is compared here. */
bool list_wants(const struct list_query *query, const struct timer *timer)
{
    if (!(query->states & 1u << timer->state))
        return false;
    if (storage_is_dead_letter(timer) &&
        (timer->due.ms < query->after.ms || timer->due.ms >= query->before.ms))
        return false;
    if (query->last && !(query->last & 1u << runs_summarize(timer->texts.runs).last))
        return false;
    if (query->began.ms && timer->ended.ms > query->began.ms && timer->ended.ms <= query->asked.ms)
        return false;
    return timer_filter_fits(&query->filter, timer);
}

static bool list_has_dead(const struct list_query *query)
{
    return query->states & 1u << TIMER_DEAD;
}

/* Makes the filter of the storage: a timer that is being delivered has another state there. */
static void list_make_filter(struct list_job *job)
{
    const uint32_t over = 1u << TIMER_FIRED | 1u << TIMER_CANCELLED | 1u << TIMER_DEAD;
    const uint32_t alive = ~over & ((1u << (TIMER_PAUSED + 1)) - 1);
    const uint32_t waiting = 1u << TIMER_SCHEDULED | 1u << TIMER_RETRYING;
    const struct list_query *query = &job->query;

    job->filter = query->filter;
    job->filter.states = query->states;
    if (query->states & 1u << TIMER_DELIVERING)
        job->filter.states |= waiting;
    if (query->states & waiting)
        job->filter.states |= 1u << TIMER_DELIVERING;
    job->has_filter = query->states != alive || query->filter.repeats || query->filter.error.data ||
                      timer_filter_has_text(&query->filter);
}

/* Returns the last step of a part, whose end is where it continues; NULL before the first. */
static const struct list_step *list_last_step(const struct list_part *part)
{
    return part->step_count ? &part->steps[part->step_count - 1] : NULL;
}

/* Adds a step, and room for the rows of a page. Returns NULL if out of memory. */
static struct list_step *list_part_reserve(struct list_part *part, size_t row_count)
{
    struct list_step *steps = realloc(part->steps, (part->step_count + 1) * sizeof(*part->steps));

    if (!steps)
        return NULL;
    part->steps = steps;
    if (row_count) {
        struct list_row *rows =
            realloc(part->rows, (part->row_count + row_count) * sizeof(*part->rows));

        if (!rows)
            return NULL;
        part->rows = rows;
    }
    steps[part->step_count] = (struct list_step){0};
    return &steps[part->step_count++];
}

static bool list_part_keep(struct list_part *part, const struct timer *timer)
{
    struct list_row *row = &part->rows[part->row_count];

    row->place = (struct cursor){timer->at, timer->id.partition, timer->id.serial};
    row->id = timer->id;
    row->timer = NULL;
    if (part->job->want == LIST_WANTS_TIMERS && !(row->timer = call_copy_timer(timer)))
        return false;
    part->bytes += row->timer ? row->timer->footprint : sizeof(*row);
    part->row_count++;
    return true;
}

static void list_part_read(struct list_part *part, const struct storage_page *page)
{
    const struct command *command = &part->node.command;
    const struct list_query *query = &part->job->query;
    struct list_step *step = list_part_reserve(part, page->count);
    const size_t before = part->row_count;

    if (!step)
        part->error = ERROR_NO_MEMORY;
    for (size_t i = 0; i < page->count && !part->error; i++)
        if (list_wants(query, page->timers[i]) && !list_part_keep(part, page->timers[i]))
            part->error = ERROR_NO_MEMORY;
    if (part->error)
        return;
    part->is_unaware = part->job->has_filter && !command->scan.filter;
    const size_t kept = part->row_count - before;
    const size_t own = page->own > page->count ? page->own : page->count;
    step->refused_count = own - kept;
    step->has_end = storage_position_before(page->next, command->scan.to);
    step->end = (struct cursor){page->next.at, command->partition, page->next.serial};
    if (!step->has_end && list_has_dead(query) &&
        command->scan.to.at.ms < STORAGE_DEAD_FROM.ms) { /* dead letters are last */
        step->has_end = true;
        step->end = (struct cursor){STORAGE_DEAD_FROM, 0, 0};
    }
}

/* ---- merging ---- */

/* Returns the part whose next row is first in the list; NULL if no row is left. */
static struct list_part *list_first_part(struct list_job *job)
{
    struct list_part *first = NULL;

    for (uint16_t i = 0; i < job->part_count; i++) {
        struct list_part *part = &job->parts[i];

        if (part->taken < part->row_count &&
            (!first ||
             cursor_before(&part->rows[part->taken].place, &first->rows[first->taken].place)))
            first = part;
    }
    return first;
}

/* Returns the first place that an unfinished part did not read; false if all are finished. Rows
 * from there on are left for the next page, because rows of that part may belong between them. */
static bool list_find_end(const struct list_job *job, struct cursor *ret_end)
{
    bool found = false;

    for (uint16_t i = 0; i < job->part_count; i++) {
        const struct list_step *last = list_last_step(&job->parts[i]);

        if (last && last->has_end && (!found || cursor_before(&last->end, ret_end))) {
            *ret_end = last->end;
            found = true;
        }
    }
    return found;
}

/* Counts the timers before `end`, NULL for all: those of the page, and those that did not pass in
 * steps before it. The next page reads the others again. */
static size_t list_count_searched(const struct list_job *job, const struct cursor *end)
{
    size_t count = 0;

    for (uint16_t i = 0; i < job->part_count; i++) {
        const struct list_part *part = &job->parts[i];

        count += part->taken;
        for (size_t j = 0; j < part->step_count; j++) {
            const struct list_step *step = &part->steps[j];

            if (!end || (step->has_end && !cursor_before(end, &step->end)))
                count += step->refused_count;
        }
    }
    return count;
}

static void list_merge(struct list_job *job, struct buffer *out)
{
    struct cursor end;
    bool has_end = list_find_end(job, &end);
    const struct timer_json_view view = call_view(job->call);

    json_open(out, NULL, '{');
    json_open(out, "timers", '[');
    struct list_part *part;
    for (size_t count = 0; (part = list_first_part(job)); count++) {
        const struct list_row *row = &part->rows[part->taken];

        if (has_end && !cursor_before(&row->place, &end))
            break;
        if (count == job->query.limit || (count > 0 && out->size > PAGE_BYTES_MAX)) {
            has_end = true;
            end = row->place;
            break;
        }
        timer_json_format(row->timer, &view, out);
        part->taken++;
    }
    json_close(out, ']');
    if (has_end) {
        char text[CURSOR_TEXT_SIZE];
        cursor_format(&end, text);
        json_put_text(out, "next", text);
    } else {
        json_put_raw(out, "next", BYTES("null"));
    }
    json_put_number(out, "searched", list_count_searched(job, has_end ? &end : NULL));
    json_close(out, '}');
}

static void list_merge_ids(struct list_job *job, struct list_found *found)
{
    found->ids = job->ids;
    found->timers = job->timers;
    found->has_next = list_find_end(job, &found->next);
    struct list_part *part;
    while ((part = list_first_part(job))) {
        const struct list_row *row = &part->rows[part->taken];

        if (found->has_next && !cursor_before(&row->place, &found->next))
            break;
        if (found->count == job->query.limit) {
            found->has_next = true;
            found->next = row->place;
            break;
        }
        job->timers[found->count] = row->timer;
        job->ids[found->count++] = row->id;
        part->taken++;
    }
    found->passed_count = list_count_searched(job, found->has_next ? &found->next : NULL);
}

/* ---- asking and answering ---- */

static enum error_code list_finish(struct list_job *job)
{
    enum error_code error = job->refused;

    concurrency_leave(&job->call->api->lists, caller_key(&job->call->caller));
    for (uint16_t i = 0; i < job->part_count && !error; i++)
        error = job->parts[i].error;
    return error;
}

void list_take_found(struct list_job *job, struct list_found *ret_found)
{
    *ret_found = (struct list_found){.error = list_finish(job)};
    if (!ret_found->error)
        list_merge_ids(job, ret_found);
}

static void list_answer(struct call *call)
{
    struct list_job *job = call->state;
    enum error_code error = list_finish(job);

    if (error) {
        call_answer_error(call, error, "");
        return;
    }
    if (call_refuses_large_answer(call))
        return;
    struct buffer body;
    buffer_init(&body);
    list_merge(job, &body);
    call->state = NULL; /* frees the rows before the client reads the answer */
    list_job_free(job);
    call_answer_json(call, 200, &body);
}

static void list_round_over(struct call *call);

static void list_part_over(struct list_job *job)
{
    if (atomic_fetch_sub(&job->waiting, 1) == 1)
        call_resume(job->call, list_round_over);
}

static void list_part_done(struct node_request *request)
{
    struct list_part *part = list_item(request, struct list_part, node);

    part->error = request->command.error;
    if (!part->error)
        list_part_read(part, &request->command.page);
    list_part_over(part->job);
}

/* Returns the number of rows to read from each partition: more than its fair share, because the
 * page ends where the first partition stopped. With a filter the storage returns only rows that
 * may pass. */
static size_t list_rows_max(const struct list_job *job)
{
    const size_t limit = job->query.limit;
    const size_t rows = limit * 2 / job->part_count + ROWS_MIN;

    return rows < limit + 1 && !job->has_filter ? rows : limit + 1;
}

static size_t list_part_bytes_max(const struct list_job *job)
{
    const size_t bytes = READ_BYTES_MAX / job->part_count;

    return bytes < PART_BYTES_MIN ? PART_BYTES_MIN : bytes;
}

/* True if the part needs no more rows for the page, or has no more. */
static bool list_part_is_full(const struct list_part *part)
{
    const struct list_step *last = list_last_step(part);

    return (last && !last->has_end) || part->row_count > part->job->query.limit ||
           part->bytes >= list_part_bytes_max(part->job);
}

/* Prepares the command of one partition. Returns false if it needs to read nothing. */
static bool list_part_init(struct list_job *job, uint16_t partition)
{
    const struct list_query *query = &job->query;
    struct list_part *part = &job->parts[partition];
    const struct list_step *last = list_last_step(part);
    const struct cursor *cursor = last ? &last->end : query->has_cursor ? &query->cursor : NULL;
    struct storage_scan scan = {
        .partition = partition,
        .from = {query->after, 0},
        .to = {query->before, 0},
        .rows_max = list_rows_max(job),
        .bytes_max = list_part_bytes_max(job),
        .kind = job->filter.states & (1u << TIMER_FIRED | 1u << TIMER_CANCELLED | 1u << TIMER_DEAD)
                    ? STORAGE_SCAN_ALL
                    : STORAGE_SCAN_LIVE,
        .filter = job->has_filter && !part->is_unaware ? &job->filter : NULL,
    };

    part->job = job;
    if (list_part_is_full(part))
        return false;
    if (cursor) {
        struct storage_position from = cursor_position(cursor, partition);

        if (storage_position_before(scan.from, from))
            scan.from = from;
    }
    if (list_has_dead(query) &&
        (query->states == 1u << TIMER_DEAD || !storage_position_before(scan.from, scan.to))) {
        scan.to = (struct storage_position){WALL_NEVER, 0};
        if (scan.from.at.ms < STORAGE_DEAD_FROM.ms)
            scan.from = (struct storage_position){STORAGE_DEAD_FROM, 0};
    }
    part->node.done = list_part_done;
    part->node.command =
        (struct command){.kind = COMMAND_LIST, .partition = partition, .scan = scan};
    return storage_position_before(scan.from, scan.to);
}

static void list_begin_round(struct list_job *job)
{
    /* Counts one more than the parts, so that no answer is sent before all are submitted. */
    atomic_store(&job->waiting, 1);
    for (uint16_t i = 0; i < job->part_count && !job->refused; i++) {
        if (!list_part_init(job, i))
            continue;
        atomic_fetch_add(&job->waiting, 1);
        job->refused = call_ask(job->call, &job->parts[i].node);
        if (job->refused)
            atomic_fetch_sub(&job->waiting, 1);
    }
    list_part_over(job);
}

/* True if another round can add rows to the page: it is not full, and the part that ends first is
 * not full either. */
static bool list_wants_more(const struct list_job *job)
{
    struct cursor end;
    size_t count = 0;

    if (job->refused || !list_find_end(job, &end))
        return false;
    for (uint16_t i = 0; i < job->part_count; i++) {
        const struct list_part *part = &job->parts[i];
        const struct list_step *last = list_last_step(part);

        if (part->error)
            return false;
        if (last && last->has_end && !cursor_before(&end, &last->end) && list_part_is_full(part))
            return false;
        size_t j = 0;
        while (j < part->row_count && cursor_before(&part->rows[j].place, &end))
            j++;
        count += j;
    }
    return count < job->query.limit;
}

/* Begins the next round, or ends the search. */
static void list_round_over(struct call *call)
{
    struct list_job *job = call->list;

    if (list_wants_more(job) && instant_now().ns < job->until.ns)
        list_begin_round(job);
    else
        job->resume(call);
}

static void list_ask(struct concurrency_start *start)
{
    struct list_job *job = list_item(start, struct list_job, start);

    job->until = instant_add_ms(instant_now(), LIST_SEARCH_MS);
    list_make_filter(job);
    job->call->list = job;
    list_begin_round(job);
}

static struct list_job *list_job_create(struct call *call, enum list_want want,
                                        void (*resume)(struct call *call))
{
    uint16_t part_count = node_partition_count(call->api->options.node);
    struct list_job *job = calloc(1, sizeof(*job) + part_count * sizeof(job->parts[0]));

    if (!job)
        return NULL;
    job->want = want;
    job->ids = calloc(LIST_LIMIT_MAX, sizeof(*job->ids));
    job->timers = calloc(LIST_LIMIT_MAX, sizeof(struct timer *));
    job->start.begin = list_ask;
    job->call = call;
    job->resume = resume;
    job->part_count = part_count;
    if (!job->ids || !job->timers) {
        list_job_free(job);
        return NULL;
    }
    return job;
}

static void list_end_of(struct call *call, enum list_form form)
{
    struct list_job *job = list_job_create(call, LIST_WANTS_TIMERS, list_answer);

    if (!job) {
        call_answer_error(call, ERROR_NO_MEMORY, "");
        return;
    }
    call->state = job;
    struct problem problem;
    if (list_query_parse(call->query, form, call->query_room, &job->query, &problem))
        call_answer_problem(call, &problem);
    else
        concurrency_enter(&call->api->lists, &job->start, caller_key(&call->caller));
}

void list_end(struct call *call)
{
    list_end_of(call, LIST_TIMERS);
}

void list_end_dead(struct call *call)
{
    list_end_of(call, LIST_DEAD);
}

struct list_job *list_find(struct call *call, const struct list_query *query, enum list_want want,
                           void (*resume)(struct call *call))
{
    struct list_job *job = list_job_create(call, want, resume);

    if (!job)
        return NULL;
    job->query = *query;
    concurrency_enter(&call->api->lists, &job->start, caller_key(&call->caller));
    return job;
}

void list_job_free(struct list_job *job)
{
    if (!job)
        return;
    for (uint16_t i = 0; i < job->part_count; i++) {
        for (size_t j = 0; j < job->parts[i].row_count; j++)
            timer_free(job->parts[i].rows[j].timer);
        free(job->parts[i].rows);
        free(job->parts[i].steps);
    }
    free(job->ids);
    free(job->timers);
    free(job);
}

void list_closed(struct call *call)
{
    list_job_free(call->state);
}
