/* fanout.c - the texts of a timer with several targets, and of its parts. */
#include "timer/fanout.h"

#include "base/number.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

static const struct fanout_row {
    char letter;
    const char *text;
} fanout_rows[FANOUT_STATE_COUNT] = {
#define X(name, letter, text) [FANOUT_##name] = {letter, text},
    FANOUT_STATE_LIST(X)
#undef X
};

#define FANOUT_OF BYTES("of ")

const char *fanout_state_text(enum fanout_state state)
{
    assert(state < FANOUT_STATE_COUNT);
    return fanout_rows[state].text;
}

bool fanout_state_find(struct bytes text, enum fanout_state *ret_state)
{
    for (unsigned state = 0; state < FANOUT_STATE_COUNT; state++)
        if (bytes_equal(text, bytes_of(fanout_rows[state].text))) {
            *ret_state = (enum fanout_state)state;
            return true;
        }
    return false;
}

bool fanout_is_part(const struct timer *timer, struct timer_id *ret_parent)
{
    struct bytes text = timer->texts.parts;
    struct timer_id unwanted;

    if (!bytes_has_prefix(text, FANOUT_OF))
        return false;
    text.data += FANOUT_OF.size;
    text.size -= FANOUT_OF.size;
    return timer_id_parse(text, ret_parent ? ret_parent : &unwanted) == ERROR_NONE;
}

bool fanout_next_target(struct bytes *targets, struct bytes *ret_target)
{
    return timer_watch_next(targets, ret_target);
}

/* Reads the first line: "DUE STARTED KNOWN". */
static bool fanout_read_head(struct bytes line, struct fanout *fanout)
{
    const struct bytes due = bytes_cut(&line, ' ');
    const struct bytes started = bytes_cut(&line, ' ');

    return number_parse(due, 10, &fanout->due.ms) &&
           number_parse(started, 10, &fanout->started.ms) && number_parse(line, 10, &fanout->known);
}

/* Reads the line of a part: "STATE ATTEMPTS ID ERROR", with - for no id. */
static bool fanout_read_part(struct bytes line, struct fanout_part *part)
{
    const struct bytes letter = bytes_cut(&line, ' ');
    const struct bytes attempts = bytes_cut(&line, ' ');
    const struct bytes id = bytes_cut(&line, ' ');
    uint64_t number;
    unsigned state = 0;

    while (state < FANOUT_STATE_COUNT &&
           !(letter.size == 1 && letter.data[0] == fanout_rows[state].letter))
        state++;
    if (state == FANOUT_STATE_COUNT || !number_parse(attempts, 10, &number) || number > UINT32_MAX)
        return false;
    part->has_id = !bytes_equal(id, BYTES("-"));
    if (part->has_id && timer_id_parse(id, &part->id))
        return false;
    part->state = (enum fanout_state)state;
    part->attempts = (uint32_t)number;
    part->last_error = line;
    return true;
}

static bool fanout_read_parts(struct bytes text, struct fanout *fanout)
{
    struct bytes line;

    if (!timer_watch_next(&text, &line) || !fanout_read_head(line, fanout))
        return false;
    for (size_t i = 0; i < fanout->count; i++)
        if (!timer_watch_next(&text, &line) || !fanout_read_part(line, &fanout->parts[i]))
            return false;
    return true;
}

static void fanout_read_targets(struct bytes targets, struct fanout *fanout)
{
    struct bytes target;

    *fanout = (struct fanout){0};
    while (fanout->count < FANOUT_PARTS_MAX && fanout_next_target(&targets, &target))
        fanout->parts[fanout->count++].target = target;
}

bool fanout_read(const struct timer *timer, struct fanout *ret_fanout)
{
    if (!fanout_is_parent(timer))
        return false;
    fanout_read_targets(timer->texts.targets, ret_fanout);
    if (timer->texts.parts.size && !fanout_read_parts(timer->texts.parts, ret_fanout))
        fanout_read_targets(timer->texts.targets, ret_fanout);
    return ret_fanout->count > 0;
}

/* Appends an error as a part of a line. */
static size_t fanout_append_error(char *at, struct bytes error)
{
    const size_t size = error.size < FANOUT_ERROR_SIZE_MAX ? error.size : FANOUT_ERROR_SIZE_MAX;
    size_t end = size;

    /* does not cut within a character of UTF-8 */
    while (end > 0 && size < error.size && ((unsigned char)error.data[end] & 0xc0) == 0x80)
        end--;
    for (size_t i = 0; i < end; i++)
        at[i] = error.data[i] == '\n' ? ' ' : error.data[i];
    return end;
}

struct bytes fanout_write(const struct fanout *fanout, char room[FANOUT_TEXT_SIZE_MAX])
{
    size_t size =
        (size_t)snprintf(room, FANOUT_TEXT_SIZE_MAX, "%" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
                         fanout->due.ms, fanout->started.ms, fanout->known);

    assert(fanout->count <= FANOUT_PARTS_MAX);
    for (size_t i = 0; i < fanout->count; i++) {
        const struct fanout_part *part = &fanout->parts[i];
        char id[TIMER_ID_TEXT_SIZE] = "-";

        if (part->has_id)
            timer_id_format(&part->id, id);
        size += (size_t)snprintf(room + size, FANOUT_TEXT_SIZE_MAX - size, "%c %" PRIu32 " %s ",
                                 fanout_rows[part->state].letter, part->attempts, id);
        size += fanout_append_error(room + size, part->last_error);
        room[size++] = '\n';
    }
    assert(size <= FANOUT_TEXT_SIZE_MAX);
    return (struct bytes){room, size};
}

struct bytes fanout_write_of(const struct timer_id *parent, char room[FANOUT_OF_SIZE])
{
    memcpy(room, FANOUT_OF.data, FANOUT_OF.size);
    timer_id_format(parent, room + FANOUT_OF.size);
    return (struct bytes){room, FANOUT_OF_SIZE - 1};
}

size_t fanout_count(const struct fanout *fanout, enum fanout_state state)
{
    size_t count = 0;

    for (size_t i = 0; i < fanout->count; i++)
        count += fanout->parts[i].state == state;
    return count;
}

bool fanout_is_waiting(const struct timer *timer)
{
    struct fanout fanout;

    return timer->state == TIMER_RETRYING && fanout_read(timer, &fanout) &&
           fanout.due.ms == timer->due.ms && fanout_count(&fanout, FANOUT_OPEN) > 0;
}

bool fanout_is_open(const struct timer *timer)
{
    struct fanout fanout;

    return fanout_read(timer, &fanout) && fanout_count(&fanout, FANOUT_OPEN) > 0;
}
