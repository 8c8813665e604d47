/* wire_part.c - numbers, texts and timers of a message as bytes; see wire_private.h. */
#include "cluster/wire_private.h"

#include "store/record.h"

#include <stdlib.h>

uint64_t wire_take(struct wire_reader *reader, size_t width)
{
    if ((size_t)(reader->end_ - reader->at_) < width) {
        reader->failed_ = true;
        reader->at_ = reader->end_;
        return 0;
    }
    const uint64_t value = get_le(reader->at_, width);
    reader->at_ += width;
    return value;
}

uint64_t wire_take_below(struct wire_reader *reader, size_t width, uint64_t limit)
{
    const uint64_t value = wire_take(reader, width);

    if (value >= limit)
        reader->failed_ = true;
    return value < limit ? value : 0;
}

void wire_put_text(struct buffer *to, struct bytes text)
{
    buffer_append_le(to, text.size, 4);
    buffer_append_bytes(to, text);
}

struct bytes wire_take_text(struct wire_reader *reader, size_t size_max)
{
    const size_t size = (size_t)wire_take(reader, 4);

    if (reader->failed_ || size > size_max || size > (size_t)(reader->end_ - reader->at_)) {
        reader->failed_ = true;
        return (struct bytes){0};
    }
    const struct bytes text = {reader->at_, size};
    reader->at_ += size;
    return text;
}

void *wire_take_room(struct wire_reader *reader, size_t count, size_t size)
{
    if (reader->failed_ || !count || count > reader->room_ / size) {
        reader->failed_ |= count > 0;
        return NULL;
    }
    void *room = calloc(count, size);
    reader->room_ -= count * size;
    reader->failed_ |= !room;
    return room;
}

/* Encodes a timer as the size and key of its row, and the row. */
void wire_put_timer(struct buffer *to, const struct timer *timer)
{
    const struct record_key key =
        record_row_key(timer->id.partition, (struct storage_position){timer->at, timer->id.serial});
    const size_t size_at = to->size;

    buffer_append_le(to, 0, 4);
    buffer_append_le(to, key.high, 8);
    buffer_append_le(to, key.low, 8);
    const size_t begin = to->size;
    record_row_encode(to, key, timer);
    if (!buffer_failed(to))
        put_le(to->data + size_at, to->size - begin, 4);
}

/* Decodes a timer; NULL for a row without bytes. */
struct timer *wire_take_timer(struct wire_reader *reader)
{
    const size_t size = (size_t)wire_take(reader, 4);
    const struct record_key key = {wire_take(reader, 8), wire_take(reader, 8)};
    struct timer view, *timer = NULL;

    if (!reader->failed_ && size <= (size_t)(reader->end_ - reader->at_) &&
        record_row_decode(key, (struct bytes){reader->at_, size}, &view, NULL) == ERROR_NONE)
        timer = timer_copy(&view, &view.texts);
    if (timer)
        reader->at_ += size;
    else
        reader->failed_ = true;
    return timer;
}

uint64_t wire_walk_same(struct wire_walk *walk, uint64_t value, size_t width)
{
    uint64_t same = value;

    WIRE(walk, same, width);
    if (walk->from)
        walk->from->failed_ |= same != value;
    return wire_has_failed(walk) ? 0 : value;
}

void wire_walk_text(struct wire_walk *walk, struct bytes *text, size_t size_max)
{
    if (walk->to)
        wire_put_text(walk->to, *text);
    else
        *text = wire_take_text(walk->from, size_max);
}

void wire_walk_id(struct wire_walk *walk, struct timer_id *id)
{
    WIRE(walk, id->first.ms, 8);
    WIRE(walk, id->partition, 2);
    WIRE(walk, id->serial, 8);
}

const struct timer *wire_walk_timer(struct wire_walk *walk, const struct timer *timer)
{
    if (walk->to) {
        wire_put_timer(walk->to, timer);
        return timer;
    }
    struct timer *taken = wire_take_timer(walk->from);

    if (taken) {
        taken->next = walk->held->timers_;
        walk->held->timers_ = taken;
    }
    return taken;
}
