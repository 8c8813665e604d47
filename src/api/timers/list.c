#include "api/timers/list.h"

#include "timer/labels.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

enum {
    ROWS_MIN = 16,             /* asked of each partition */
    READ_BYTES_MAX = 4 << 20,  /* of footprint, read from all partitions together */
    PART_BYTES_MIN = 64 << 10, /* but from each at least */
    PAGE_BYTES_MAX = 16 << 20, /* of JSON in one answer */
};

/* One row that passed the filter: its place, and its JSON in its part's text. */
struct row {
    struct cursor place;
    struct timer_id id;
    size_t offset, size;
};

/* One partition's share of the page. */
struct part {
    struct node_request node;
    struct list_job *job;
    struct buffer text;
    struct row *rows;
    size_t row_count, taken;
    struct cursor end; /* the first place not read; with has_end */
    bool has_end;      /* false: the partition's range is finished */
    enum error_code error;
};

struct list_job {
    struct turn turn; /* to be asked for */
    struct call *call;
    struct list_query query;
    atomic_size_t waiting;   /* parts without an answer, and one for whoever hands them out */
    enum error_code refused; /* why not all parts could be asked */
    uint16_t part_count;
    char *room;                                                       /* of the query */
    void (*found)(struct call *call, const struct list_found *found); /* NULL: answer with it */
    struct timer_id *ids;                                             /* what is found */
    struct part parts[];
};

/* ---- filtering; on the node's thread, while the rows are valid ---- */

static bool is_wanted(const struct list_query *query, const struct timer *timer)
{
    if (!(query->states & 1u << timer->state))
        return false;
    if (query->target.data && !bytes_equal(timer->texts.target, query->target))
        return false;
    for (size_t i = 0; i < query->label_count; i++)
        if (!labels_have(timer->texts.labels, query->labels[i].key, query->labels[i].value))
            return false;
    return true;
}

static void part_read(struct part *part, const struct storage_page *page)
{
    const struct command *command = &part->node.command;
    const struct list_query *query = &part->job->query;

    part->rows = page->count ? malloc(page->count * sizeof(*part->rows)) : NULL;
    if (page->count && !part->rows) {
        part->error = ERROR_NO_MEMORY;
        return;
    }
    for (size_t i = 0; i < page->count; i++) {
        const struct timer *timer = page->timers[i];
        struct row *row = &part->rows[part->row_count];

        if (!is_wanted(query, timer))
            continue;
        row->place = (struct cursor){timer->at, timer->id.partition, timer->id.serial};
        row->id = timer->id;
        row->offset = part->text.size;
        if (!part->job->found)
            timer_json_format(timer, &part->text);
        row->size = part->text.size - row->offset;
        part->row_count++;
    }
    part->has_end = storage_position_before(page->next, command->scan.to);
    part->end = (struct cursor){page->next.at, command->partition, page->next.serial};
    if (buffer_failed(&part->text))
        part->error = ERROR_NO_MEMORY;
}

/* ---- merging ---- */

/* The part whose next row comes first; NULL when no row is left. */
static struct part *first_part(struct list_job *job)
{
    struct part *first = NULL;

    for (uint16_t i = 0; i < job->part_count; i++) {
        struct part *part = &job->parts[i];

        if (part->taken < part->row_count &&
            (!first ||
             cursor_before(&part->rows[part->taken].place, &first->rows[first->taken].place)))
            first = part;
    }
    return first;
}

/* Where the first unfinished part stopped reading; false when all are finished. Rows behind it are
 * not for this page: others may belong between them. */
static bool find_end(const struct list_job *job, struct cursor *ret_end)
{
    bool found = false;

    for (uint16_t i = 0; i < job->part_count; i++) {
        const struct part *part = &job->parts[i];

        if (part->has_end && (!found || cursor_before(&part->end, ret_end))) {
            *ret_end = part->end;
            found = true;
        }
    }
    return found;
}

static void merge(struct list_job *job, struct buffer *out)
{
    char text[CURSOR_TEXT_SIZE];
    struct cursor end;
    bool has_end = find_end(job, &end);
    struct part *part;

    buffer_append_text(out, "{\"timers\":[");
    for (size_t count = 0; (part = first_part(job)); count++) {
        const struct row *row = &part->rows[part->taken];

        if (has_end && !cursor_before(&row->place, &end))
            break;
        if (count == job->query.limit || (count > 0 && out->size > PAGE_BYTES_MAX)) {
            has_end = true;
            end = row->place;
            break;
        }
        if (count > 0)
            buffer_append_text(out, ",");
        buffer_append(out, part->text.data + row->offset, row->size);
        part->taken++;
    }
    buffer_append_text(out, "],\"next\":");
    if (has_end) {
        cursor_format(&end, text);
        buffer_printf(out, "\"%s\"}", text);
    } else {
        buffer_append_text(out, "null}");
    }
}

/* The same for ids. */
static void tell_found(struct list_job *job)
{
    struct list_found found = {.ids = job->ids};
    struct part *part;

    found.has_next = find_end(job, &found.next);
    while ((part = first_part(job))) {
        const struct row *row = &part->rows[part->taken];

        if (found.has_next && !cursor_before(&row->place, &found.next))
            break;
        if (found.count == job->query.limit) {
            found.has_next = true;
            found.next = row->place;
            break;
        }
        job->ids[found.count++] = row->id;
        part->taken++;
    }
    job->found(job->call, &found);
}

/* ---- asking and answering ---- */

static void answer(struct list_job *job)
{
    enum error_code error = job->refused;
    struct call *call = job->call;
    struct buffer body;

    concurrency_leave(&call->api->lists);
    for (uint16_t i = 0; i < job->part_count && !error; i++)
        error = job->parts[i].error;
    if (job->found) {
        if (error)
            job->found(call, &(struct list_found){.error = error});
        else
            tell_found(job);
        return;
    }
    if (error) {
        call_answer_error(call, error, "");
        return;
    }
    if (call_refuses_large_answer(call))
        return;
    buffer_init(&body);
    merge(job, &body);
    call->state = NULL; /* what the answer was made of does not wait for its reader */
    list_job_free(job);
    call_answer_json(call, 200, &body);
}

static void part_over(struct list_job *job)
{
    if (atomic_fetch_sub(&job->waiting, 1) == 1)
        answer(job);
}

static void part_done(struct node_request *request)
{
    struct part *part = list_item(request, struct part, node);

    part->error = request->command.error;
    if (!part->error)
        part_read(part, &request->command.page);
    part_over(part->job);
}

/* How many rows to read of each partition: more than its fair share, since the page ends where the
 * first partition does; with a filter, more, since most rows may not pass. */
static size_t rows_max(const struct list_query *query, uint16_t part_count, bool has_filter)
{
    size_t rows = query->limit * 2 / part_count + ROWS_MIN;

    if (has_filter)
        return LIST_LIMIT_MAX;
    return rows < query->limit + 1 ? rows : query->limit + 1;
}

/* The command for one partition. False: its whole range is already listed. */
static bool part_init(struct list_job *job, uint16_t partition)
{
    const struct list_query *query = &job->query;
    const uint32_t over = 1u << TIMER_FIRED | 1u << TIMER_CANCELLED | 1u << TIMER_DEAD;
    const uint32_t alive = 1u << TIMER_SCHEDULED | 1u << TIMER_DELIVERING | 1u << TIMER_RETRYING;
    struct part *part = &job->parts[partition];
    struct storage_scan scan = {
        .partition = partition,
        .from = {query->after, 0},
        .to = {query->before, 0},
        .bytes_max = READ_BYTES_MAX / job->part_count,
    };

    part->job = job;
    if (scan.bytes_max < PART_BYTES_MIN)
        scan.bytes_max = PART_BYTES_MIN;
    /* What other tenants have is filtered out too. */
    scan.rows_max = rows_max(query, job->part_count,
                             query->label_count > 0 || query->target.data ||
                                 query->states != alive || job->call->caller.tenant_size);
    scan.kind = query->states & over ? STORAGE_SCAN_ALL : STORAGE_SCAN_LIVE;
    if (query->has_cursor) {
        struct storage_position from = cursor_position(&query->cursor, partition);

        if (storage_position_before(scan.from, from))
            scan.from = from;
    }
    part->node.done = part_done;
    part->node.command =
        (struct command){.kind = COMMAND_LIST, .partition = partition, .scan = scan};
    return storage_position_before(scan.from, scan.to);
}

static void ask(struct turn *turn)
{
    struct list_job *job = list_item(turn, struct list_job, turn);

    /* One more than the parts, so that no answer is given before all have been asked. */
    atomic_init(&job->waiting, 1);
    for (uint16_t i = 0; i < job->part_count && !job->refused; i++) {
        if (!part_init(job, i))
            continue;
        atomic_fetch_add(&job->waiting, 1);
        job->refused = call_ask(job->call, &job->parts[i].node);
        if (job->refused)
            atomic_fetch_sub(&job->waiting, 1);
    }
    part_over(job);
}

static struct list_job *job_create(struct call *call)
{
    uint16_t part_count = node_partition_count(call->api->options.node);
    struct list_job *job = calloc(1, sizeof(*job) + part_count * sizeof(job->parts[0]));

    if (!job)
        return NULL;
    job->room = malloc(call->query.size + 1);
    job->ids = calloc(LIST_LIMIT_MAX, sizeof(*job->ids));
    job->turn.begin = ask;
    job->call = call;
    job->part_count = part_count;
    if (!job->room || !job->ids) {
        list_job_free(job);
        return NULL;
    }
    return job;
}

void list_end_of(struct call *call, uint32_t states)
{
    struct list_job *job = job_create(call);
    struct problem problem;

    if (!job) {
        call_answer_error(call, ERROR_NO_MEMORY, "");
        return;
    }
    call->state = job;
    if (list_query_parse(call->query, states, job->room, &job->query, &problem))
        call_answer_problem(call, &problem);
    else
        concurrency_enter(&call->api->lists, &job->turn);
}

void list_end(struct call *call)
{
    list_end_of(call, 0);
}

struct list_job *list_find(struct call *call, const struct list_query *query,
                           void (*found)(struct call *call, const struct list_found *found))
{
    struct list_job *job = job_create(call);

    if (!job)
        return NULL;
    job->query = *query;
    job->found = found;
    concurrency_enter(&call->api->lists, &job->turn);
    return job;
}

void list_job_free(struct list_job *job)
{
    if (!job)
        return;
    for (uint16_t i = 0; i < job->part_count; i++) {
        buffer_deinit(&job->parts[i].text);
        free(job->parts[i].rows);
    }
    free(job->ids);
    free(job->room);
    free(job);
}

void list_closed(struct call *call)
{
    list_job_free(call->state);
}
