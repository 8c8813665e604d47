/* batch_chunk.c - divides the timers of a chunk among partitions, and writes their results. */
#include "api/timers/batch_chunk.h"

#include "api/json/names.h"
#include "base/json_write.h"

#include <assert.h>
#include <stdlib.h>

enum { PARTITIONS_MAX = 256 };

struct batch_chunk *batch_chunk_create(struct batch *batch)
{
    /* Not zeroed: the arrays are large and are written before they are read. */
    struct batch_chunk *chunk = malloc(sizeof(*chunk));

    if (!chunk)
        return NULL;
    list_init(&chunk->link);
    chunk->batch = batch;
    chunk->parts = NULL;
    chunk->part_capacity = 0;
    buffer_init(&chunk->problems);
    batch_chunk_clear(chunk);
    return chunk;
}

void batch_chunk_clear(struct batch_chunk *chunk)
{
    chunk->part_count = chunk->parts_sent = chunk->missing = 0;
    chunk->line_count = chunk->timer_count = chunk->footprint = 0;
    chunk->is_prepared = false;
    buffer_clear(&chunk->problems);
}

static void chunk_free_timers(struct timer *const *timers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        timer_free(timers[i]);
}

void batch_chunk_destroy(struct batch_chunk *chunk)
{
    if (!chunk)
        return;
    if (!chunk->is_prepared)
        chunk_free_timers(chunk->timers, chunk->timer_count);
    for (size_t i = chunk->parts_sent; i < chunk->part_count; i++)
        chunk_free_timers(chunk->parts[i].node.command.timers,
                          chunk->parts[i].node.command.timer_count);
    buffer_deinit(&chunk->problems);
    free(chunk->parts);
    free(chunk);
}

static struct batch_line *chunk_add_line(struct batch_chunk *chunk, uint64_t number)
{
    struct batch_line *line = &chunk->lines[chunk->line_count];

    assert(chunk->line_count < BATCH_CHUNK_LINES_MAX);
    chunk->line_count++;
    line->number = number;
    return line;
}

void batch_chunk_add_timer(struct batch_chunk *chunk, uint64_t number, struct timer *timer)
{
    struct batch_line *line = chunk_add_line(chunk, number);

    line->is_timer = true;
    chunk->timers[chunk->timer_count++] = timer;
    chunk->footprint += timer->footprint;
}

void batch_chunk_add_problem(struct batch_chunk *chunk, uint64_t number,
                             const struct problem *problem)
{
    struct batch_line *line = chunk_add_line(chunk, number);

    batch_problem_format(problem, number, &chunk->problems);
    line->is_timer = false;
    line->problem_offset = (uint32_t)chunk->problems.size;
}

/* ---- parts ---- */

static bool chunk_reserve_parts(struct batch_chunk *chunk, size_t count)
{
    if (count <= chunk->part_capacity)
        return true;
    struct batch_part *parts = realloc(chunk->parts, count * sizeof(*parts));
    if (!parts)
        return false;
    chunk->parts = parts;
    chunk->part_capacity = count;
    return true;
}

/* Chooses each timer's partition. Returns the number of parts, and in `ends` the number of
 * timers of each partition. */
static size_t chunk_choose_partitions(struct batch_chunk *chunk, struct node *node, unsigned shard,
                                      size_t part_max, uint16_t ends[PARTITIONS_MAX])
{
    const uint16_t next = node_partition_next(node, shard, chunk->timer_count);
    size_t count = 0;

    for (size_t i = 0; i < chunk->timer_count; i++) {
        const struct timer_texts *texts = &chunk->timers[i]->texts;
        const uint16_t partition =
            texts->key.size       ? name_partition(node, texts->key)
            : texts->order.size   ? name_partition_of_queue(node, chunk->timers[i])
            : texts->request.size ? name_partition(node, name_of_request(texts->request))
            : texts->flow.size    ? name_partition_of_flow(node, chunk->timers[i])
                                  : next;

        chunk->partitions[i] = partition;
        count += ends[partition]++ % part_max == 0;
    }
    return count;
}

static void batch_chunk_add_part(struct batch_chunk *chunk, uint16_t partition, size_t begin,
                                 size_t count)
{
    assert(chunk->part_count < chunk->part_capacity);
    struct batch_part *part = &chunk->parts[chunk->part_count++];
    part->chunk = chunk;
    part->refused = ERROR_NONE;
    part->node.command = (struct command){
        .kind = COMMAND_CREATE,
        .partition = partition,
        .timers = chunk->timers + begin,
        .results = chunk->results + begin,
        .timer_count = count,
    };
}

/* Sorts the timers by partition; `begins` has the begin of each. */
static void chunk_sort_timers(struct batch_chunk *chunk, uint16_t begins[PARTITIONS_MAX])
{
    struct timer *timers[BATCH_CHUNK_LINES_MAX];

    memcpy(timers, chunk->timers, chunk->timer_count * sizeof(timers[0]));
    for (size_t i = 0; i < chunk->timer_count; i++) {
        chunk->places[i] = begins[chunk->partitions[i]]++;
        chunk->timers[chunk->places[i]] = timers[i];
    }
}

void batch_chunk_prepare(struct batch_chunk *chunk, struct node *node, unsigned shard,
                         size_t part_max)
{
    uint16_t ends[PARTITIONS_MAX] = {0};
    size_t count = chunk_choose_partitions(chunk, node, shard, part_max, ends);

    chunk->is_prepared = true;
    if (!chunk_reserve_parts(chunk, count)) {
        chunk_free_timers(chunk->timers, chunk->timer_count);
        for (size_t i = 0; i < chunk->timer_count; i++) {
            chunk->places[i] = (uint16_t)i;
            chunk->results[i].error = ERROR_NO_MEMORY;
        }
        return;
    }
    uint16_t begin = 0;
    for (size_t i = 0; i < PARTITIONS_MAX && begin < chunk->timer_count; i++) {
        const uint16_t size = ends[i];

        for (size_t at = 0; at < size; at += part_max)
            batch_chunk_add_part(chunk, (uint16_t)i, begin + at,
                                 size - at < part_max ? size - at : part_max);
        ends[i] = begin;
        begin = (uint16_t)(begin + size);
    }
    chunk_sort_timers(chunk, ends);
}

struct batch_part *batch_chunk_next_part(struct batch_chunk *chunk)
{
    return chunk->parts_sent < chunk->part_count ? &chunk->parts[chunk->parts_sent] : NULL;
}

void batch_chunk_sent(struct batch_chunk *chunk)
{
    chunk->parts_sent++;
    chunk->missing++;
}

void batch_chunk_refused(struct batch_chunk *chunk, enum error_code error)
{
    struct batch_part *part = &chunk->parts[chunk->parts_sent++];
    struct command *command = &part->node.command;

    chunk_free_timers(command->timers, command->timer_count);
    for (size_t i = 0; i < command->timer_count; i++)
        command->results[i].error = error;
}

/* ---- results ---- */

void batch_problem_format(const struct problem *problem, uint64_t number, struct buffer *out)
{
    json_open(out, NULL, '{');
    json_put_number(out, "line", number);
    problem_put(problem, out);
    json_close(out, '}');
    buffer_append_text(out, "\n");
}

static void chunk_format_created(const struct command_created *created, uint64_t number,
                                 const struct problem *full, enum batch_style style,
                                 struct buffer *out, struct batch_totals *totals)
{
    const enum error_code error = created->error;

    if (error) {
        totals->failed++;
        struct problem problem;
        problem_set(&problem, error, "", "%s", "");
        batch_problem_format(error == ERROR_TOO_MANY ? full : &problem, number, out);
        return;
    }
    totals->created += !created->existed;
    totals->existed += created->existed;
    if (style == BATCH_FULL) {
        json_open(out, NULL, '{');
        timer_id_put(out, "id", &created->id);
        if (created->existed)
            json_put_flag(out, "existed", true);
        json_close(out, '}');
        buffer_append_text(out, "\n");
    }
}

void batch_chunk_format(const struct batch_chunk *chunk, const struct problem *full,
                        enum batch_style style, struct buffer *out, struct batch_totals *totals)
{
    size_t timer = 0, problem = 0;

    for (size_t i = 0; i < chunk->line_count; i++) {
        const struct batch_line *line = &chunk->lines[i];

        if (line->is_timer) {
            chunk_format_created(&chunk->results[chunk->places[timer++]], line->number, full, style,
                                 out, totals);
        } else if (!buffer_failed(&chunk->problems)) {
            buffer_append(out, chunk->problems.data + problem, line->problem_offset - problem);
            problem = line->problem_offset;
            totals->failed++;
        } else {
            out->failed = true;
            return;
        }
    }
}
