#include "api/batch_chunk.h"

#include <assert.h>
#include <stdlib.h>

struct batch_chunk *batch_chunk_create(struct batch *batch)
{
    /* Not zeroed as a whole: the arrays are large and written before they are read. */
    struct batch_chunk *chunk = malloc(sizeof(*chunk));

    if (!chunk)
        return NULL;
    list_init(&chunk->link);
    chunk->batch = batch;
    buffer_init(&chunk->problems);
    batch_chunk_clear(chunk);
    return chunk;
}

void batch_chunk_clear(struct batch_chunk *chunk)
{
    chunk->is_answered = false;
    chunk->refused = ERROR_NONE;
    chunk->line_count = chunk->timer_count = chunk->footprint = 0;
    buffer_clear(&chunk->problems);
}

static void free_timers(struct batch_chunk *chunk)
{
    for (size_t i = 0; i < chunk->timer_count; i++)
        timer_free(chunk->timers[i]);
}

void batch_chunk_destroy(struct batch_chunk *chunk)
{
    if (!chunk)
        return;
    if (!chunk->is_answered)
        free_timers(chunk);
    buffer_deinit(&chunk->problems);
    free(chunk);
}

static struct batch_line *add_line(struct batch_chunk *chunk, uint64_t number)
{
    struct batch_line *line = &chunk->lines[chunk->line_count];

    assert(chunk->line_count < BATCH_CHUNK_LINES_MAX);
    chunk->line_count++;
    line->number = number;
    return line;
}

void batch_chunk_add_timer(struct batch_chunk *chunk, uint64_t number, struct timer *timer)
{
    struct batch_line *line = add_line(chunk, number);

    line->is_timer = true;
    chunk->timers[chunk->timer_count++] = timer;
    chunk->footprint += timer->footprint;
}

void batch_chunk_add_problem(struct batch_chunk *chunk, uint64_t number,
                             const struct problem *problem)
{
    struct batch_line *line = add_line(chunk, number);

    batch_problem_format(problem, number, &chunk->problems);
    line->is_timer = false;
    line->problem_offset = (uint32_t)chunk->problems.size;
}

void batch_chunk_prepare(struct batch_chunk *chunk, uint16_t partition)
{
    chunk->node.command = (struct command){
        .kind = COMMAND_CREATE,
        .partition = partition,
        .timers = chunk->timers,
        .results = chunk->results,
        .timer_count = chunk->timer_count,
    };
}

void batch_chunk_refuse(struct batch_chunk *chunk, enum error_code error)
{
    free_timers(chunk);
    chunk->refused = error;
}

void batch_problem_format(const struct problem *problem, uint64_t number, struct buffer *out)
{
    size_t begin;

    buffer_append_text(out, "{\"line\":");
    buffer_append_u64(out, number);
    begin = out->size;
    problem_format(problem, out);
    if (!buffer_failed(out))
        out->data[begin] = ','; /* in place of the problem's opening brace */
    buffer_append_text(out, "\n");
}

static void format_created(const struct command_created *created, const struct batch_chunk *chunk,
                           uint64_t number, enum batch_style style, struct buffer *out,
                           struct batch_totals *totals)
{
    enum error_code error = chunk->refused ? chunk->refused : created->error;
    struct problem problem;

    if (error) {
        totals->failed++;
        problem_set(&problem, error, "", "%s", "");
        batch_problem_format(&problem, number, out);
        return;
    }
    totals->created++;
    if (style == BATCH_FULL) {
        char *to = buffer_reserve(out, sizeof("{\"id\":\"\"}\n") + TIMER_ID_TEXT_SIZE);

        if (!to)
            return;
        memcpy(to, "{\"id\":\"", 7);
        timer_id_format(&created->id, to + 7);
        memcpy(to + 7 + TIMER_ID_TEXT_SIZE - 1, "\"}\n", 3);
        out->size += 7 + TIMER_ID_TEXT_SIZE - 1 + 3;
    }
}

void batch_chunk_format(const struct batch_chunk *chunk, enum batch_style style, struct buffer *out,
                        struct batch_totals *totals)
{
    size_t timer = 0, problem = 0;

    for (size_t i = 0; i < chunk->line_count; i++) {
        const struct batch_line *line = &chunk->lines[i];

        if (line->is_timer) {
            format_created(&chunk->results[timer++], chunk, line->number, style, out, totals);
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
