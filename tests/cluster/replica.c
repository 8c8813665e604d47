/* replica.c - applies records to the timers of a simulated node; see replica.h. */
#include "replica.h"

#include "base/check.h"
#include "base/random.h"

enum { CHANGE_SIZE = 9 };

void changes_encode(const struct replica_change *changes, size_t count, struct buffer *to)
{
    for (size_t i = 0; i < count; i++) {
        char bytes[CHANGE_SIZE];

        put_le(bytes, changes[i].kind, 1);
        put_le(bytes + 1, changes[i].timer, 4);
        put_le(bytes + 5, changes[i].id, 4);
        buffer_append(to, bytes, sizeof(bytes));
    }
}

static void change_cell(struct replica *replica, uint64_t offset,
                        const struct replica_change *change)
{
    struct cell *cell = &replica->cells[change->timer];

    if (change->kind != CHANGE_CREATE && (cell->kind != CHANGE_CREATE || cell->id != change->id))
        return;
    *cell = (struct cell){change->kind, change->id, offset};
}

void replica_apply(struct replica *replica, uint64_t offset, const struct frame *frame)
{
    if (offset < replica->next)
        return;
    replica->next = offset + 1;
    if (frame->kind == FRAME_CLAIM)
        replica->pending_count = 0;
    if (frame->kind != FRAME_COMMIT)
        return;
    CHECK(frame->body.size % CHANGE_SIZE == 0);
    for (size_t at = 0; at < frame->body.size; at += CHANGE_SIZE) {
        const char *bytes = frame->body.data + at;

        CHECK(replica->pending_count < sizeof(replica->pending) / sizeof(*replica->pending));
        replica->pending[replica->pending_count++] =
            (struct replica_change){(enum change_kind)get_le(bytes, 1),
                                    (uint32_t)get_le(bytes + 1, 4), (uint32_t)get_le(bytes + 5, 4)};
    }
    if (frame->has_more)
        return;
    for (size_t i = 0; i < replica->pending_count; i++)
        change_cell(replica, offset, &replica->pending[i]);
    replica->pending_count = 0;
}

uint64_t replica_hash(const struct replica *replica)
{
    uint64_t hash = replica->pending_count;

    for (size_t i = 0; i < REPLICA_TIMERS; i++)
        hash = random_mix(hash ^ (uint64_t)replica->cells[i].kind << 32 ^ replica->cells[i].id);
    for (size_t i = 0; i < replica->pending_count; i++)
        hash = random_mix(hash ^ replica->pending[i].id);
    return hash;
}
