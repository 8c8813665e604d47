#include "api/list.h"

#include "base/json.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

enum {
    ROWS_MIN = 16,             /* asked of each partition */
    READ_BYTES_MAX = 4 << 20,  /* of footprint, read from all partitions together */
    PART_BYTES_MIN = 64 << 10, /* but from each at least */
    LABEL_TEXT_SIZE = 256,     /* the longest label there is */
    PAGE_BYTES_MAX = 16 << 20, /* of JSON in one answer */
};

/* One row that passed the filter: its place, and its JSON in its part's text. */
struct row {
    struct cursor place;
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
    struct call *call;
    struct list_query query;
    atomic_size_t waiting;   /* parts without an answer, and one for whoever hands them out */
    enum error_code refused; /* why not all parts could be asked */
    uint16_t part_count;
    char *room; /* of the query */
    struct part parts[];
};

/* ---- filtering; on the node's thread, while the rows are valid ---- */

bool list_labels_have(struct bytes labels, struct bytes key, struct bytes value)
{
    struct json_reader reader;
    struct json_string name, text;
    char decoded[LABEL_TEXT_SIZE];
    size_t size;

    if (labels.size == 0)
        return false;
    json_reader_init(&reader, labels);
    if (json_peek(&reader) != JSON_OBJECT || !json_enter_object(&reader))
        return false;
    while (json_next_member(&reader, &name)) {
        bool is_key = json_string_decode(&name, decoded, sizeof(decoded), &size) &&
                      bytes_equal((struct bytes){decoded, size}, key);

        if (json_peek(&reader) != JSON_STRING || !json_read_string(&reader, &text))
            return false;
        if (is_key)
            return json_string_decode(&text, decoded, sizeof(decoded), &size) &&
                   bytes_equal((struct bytes){decoded, size}, value);
    }
    return false;
}

static bool is_wanted(const struct list_query *query, const struct timer *timer)
{
    if (!(query->states & 1u << timer->state))
        return false;
    for (size_t i = 0; i < query->label_count; i++)
        if (!list_labels_have(timer->texts.labels, query->labels[i].key, query->labels[i].value))
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
        row->offset = part->text.size;
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

/* ---- asking and answering ---- */

static void answer(struct list_job *job)
{
    enum error_code error = job->refused;
    struct buffer body;

    for (uint16_t i = 0; i < job->part_count && !error; i++)
        error = job->parts[i].error;
    if (error) {
        call_answer_error(job->call, error, "");
        return;
    }
    buffer_init(&body);
    merge(job, &body);
    call_answer_json(job->call, 200, &body);
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

static struct list_job *job_create(struct call *call)
{
    uint16_t part_count = node_partition_count(call->api->options.node);
    struct list_job *job = calloc(1, sizeof(*job) + part_count * sizeof(job->parts[0]));

    if (!job)
        return NULL;
    job->room = malloc(call->query.size + 1);
    if (!job->room) {
        free(job);
        return NULL;
    }
    job->call = call;
    job->part_count = part_count;
    call->state = job;
    return job;
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
    scan.rows_max =
        rows_max(query, job->part_count, query->label_count > 0 || query->states != alive);
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

void list_end(struct call *call)
{
    struct list_job *job = job_create(call);
    struct problem problem;

    if (!job) {
        call_answer_error(call, ERROR_NO_MEMORY, "");
        return;
    }
    if (list_query_parse(call->query, job->room, &job->query, &problem)) {
        call_answer_problem(call, &problem);
        return;
    }
    /* One more than the parts, so that no answer is given before all have been asked. */
    atomic_init(&job->waiting, 1);
    for (uint16_t i = 0; i < job->part_count && !job->refused; i++) {
        if (!part_init(job, i))
            continue;
        atomic_fetch_add(&job->waiting, 1);
        job->refused = node_submit(call->api->options.node, &job->parts[i].node);
        if (job->refused)
            atomic_fetch_sub(&job->waiting, 1);
    }
    part_over(job);
}

void list_closed(struct call *call)
{
    struct list_job *job = call->state;

    if (!job)
        return;
    for (uint16_t i = 0; i < job->part_count; i++) {
        buffer_deinit(&job->parts[i].text);
        free(job->parts[i].rows);
    }
    free(job->room);
    free(job);
}
