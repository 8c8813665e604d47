/* list.c - asks every partition for rows, and merges them into a page in due order. */
#include "api/timers/list.h"

#include "base/json_write.h"
#include "timer/labels.h"
#include "timer/runs.h"
#include "timer/schedule.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

enum {
    ROWS_MIN = 16,             /* minimum number of rows requested from each partition */
    READ_BYTES_MAX = 4 << 20,  /* memory of the rows read from all partitions together */
    PART_BYTES_MIN = 64 << 10, /* minimum memory for the rows of each partition */
    PAGE_BYTES_MAX = 16 << 20, /* maximum JSON in one answer */
};

/* A row that passed the filter. */
struct list_row {
    struct cursor place;
    struct timer_id id;
    struct timer *timer; /* copy; NULL if only ids are wanted */
};

/* A partition's part of the page. */
struct list_part {
    struct node_request node;
    struct list_job *job;
    struct list_row *rows; /* those that pass first; from the end on, the places of the others */
    size_t row_count, taken, refused_count, read_count;
    struct cursor end; /* first place not read; valid with has_end */
    bool has_end;      /* false if the partition's range is finished */
    enum error_code error;
};

struct list_job {
    struct concurrency_start start;
    struct call *call;
    struct list_query query;
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
    if (query->repeats && !schedule_recurs(timer->texts.schedule))
        return false;
    if (query->last && !(query->last & 1u << runs_summarize(timer->texts.runs).last))
        return false;
    if (query->began.ms && timer->ended.ms > query->began.ms && timer->ended.ms <= query->asked.ms)
        return false;
    if (query->target.data && !bytes_equal(timer->texts.target, query->target))
        return false;
    if (query->origin.data && !bytes_equal(timer_shown_origin(timer), query->origin))
        return false;
    if (query->key_prefix.data && !bytes_has_prefix(timer->texts.key, query->key_prefix))
        return false;
    if (query->has_error && !bytes_equal(timer->texts.last_error, query->error))
        return false;
    for (size_t i = 0; i < query->label_count; i++)
        if (!labels_have(timer->texts.labels, query->labels[i].key, query->labels[i].value))
            return false;
    return true;
}

bool list_has_filter(const struct list_query *query)
{
    return query->target.data || query->origin.data || query->key_prefix.data || query->label_count;
}

static bool list_has_dead(const struct list_query *query)
{
    return query->states & 1u << TIMER_DEAD;
}

static void list_part_read(struct list_part *part, const struct storage_page *page)
{
    const struct command *command = &part->node.command;
    const struct list_query *query = &part->job->query;

    part->rows = page->count ? malloc(page->count * sizeof(*part->rows)) : NULL;
    if (page->count && !part->rows) {
        part->error = ERROR_NO_MEMORY;
        return;
    }
    part->read_count = page->count;
    for (size_t i = 0; i < page->count; i++) {
        const struct timer *timer = page->timers[i];
        const struct cursor place = {timer->at, timer->id.partition, timer->id.serial};
        struct list_row *row = &part->rows[part->row_count];

        if (!list_wants(query, timer)) {
            part->rows[page->count - ++part->refused_count].place = place;
            continue;
        }
        row->place = place;
        row->id = timer->id;
        const bool wants_timer = part->job->want == LIST_WANTS_TIMERS;
        row->timer = wants_timer ? call_copy_timer(timer) : NULL;
        if (wants_timer && !row->timer) {
            part->error = ERROR_NO_MEMORY;
            return;
        }
        part->row_count++;
    }
    part->has_end = storage_position_before(page->next, command->scan.to);
    part->end = (struct cursor){page->next.at, command->partition, page->next.serial};
    if (!part->has_end && list_has_dead(query) &&
        command->scan.to.at.ms < STORAGE_DEAD_FROM.ms) { /* dead letters are last */
        part->has_end = true;
        part->end = (struct cursor){STORAGE_DEAD_FROM, 0, 0};
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
        const struct list_part *part = &job->parts[i];

        if (part->has_end && (!found || cursor_before(&part->end, ret_end))) {
            *ret_end = part->end;
            found = true;
        }
    }
    return found;
}

static void list_merge(struct list_job *job, struct buffer *out)
{
    struct cursor end;
    bool has_end = list_find_end(job, &end);

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
        timer_json_format(row->timer, out);
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
    json_close(out, '}');
}

/* Counts the rows before the end of the page; the next page reads the others again. */
static size_t list_count_passed(const struct list_job *job, const struct list_found *found)
{
    size_t count = 0;

    for (uint16_t i = 0; i < job->part_count; i++) {
        const struct list_part *part = &job->parts[i];

        count += part->taken;
        for (size_t j = part->read_count - part->refused_count; j < part->read_count; j++)
            count += !found->has_next || cursor_before(&part->rows[j].place, &found->next);
    }
    return count;
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
    found->passed_count = list_count_passed(job, found);
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

static void list_part_over(struct list_job *job)
{
    if (atomic_fetch_sub(&job->waiting, 1) == 1)
        call_resume(job->call, job->resume);
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
 * page ends where the first partition stopped; with a filter still more, because most may not
 * pass it. */
static size_t list_rows_max(const struct list_query *query, uint16_t part_count, bool has_filter)
{
    size_t rows = query->limit * 2 / part_count + ROWS_MIN;

    if (has_filter)
        return LIST_LIMIT_MAX;
    return rows < query->limit + 1 ? rows : query->limit + 1;
}

/* Prepares the command of one partition. Returns false if its whole range is listed. */
static bool list_part_init(struct list_job *job, uint16_t partition)
{
    const struct list_query *query = &job->query;
    const uint32_t over = 1u << TIMER_FIRED | 1u << TIMER_CANCELLED | 1u << TIMER_DEAD;
    const uint32_t alive = ~over & ((1u << (TIMER_PAUSED + 1)) - 1);
    struct list_part *part = &job->parts[partition];
    struct storage_scan scan = {
        .partition = partition,
        .from = {query->after, 0},
        .to = {query->before, 0},
        .bytes_max = READ_BYTES_MAX / job->part_count,
    };

    part->job = job;
    if (scan.bytes_max < PART_BYTES_MIN)
        scan.bytes_max = PART_BYTES_MIN;
    scan.rows_max = list_rows_max(
        query, job->part_count, list_has_filter(query) || query->repeats || query->states != alive);
    scan.kind = query->states & over ? STORAGE_SCAN_ALL : STORAGE_SCAN_LIVE;
    if (query->has_cursor) {
        struct storage_position from = cursor_position(&query->cursor, partition);

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

static void list_ask(struct concurrency_start *start)
{
    struct list_job *job = list_item(start, struct list_job, start);

    /* Counts one more than the parts, so that no answer is sent before all are submitted. */
    atomic_init(&job->waiting, 1);
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
    }
    free(job->ids);
    free(job->timers);
    free(job);
}

void list_closed(struct call *call)
{
    list_job_free(call->state);
}
