/* Goal: no bytes make the readers of notes and plans leave their bounds, and what is accepted is
 * the only encoding of its contents. Method: the first byte chooses the reader; what is accepted is
 * written again and gives equal bytes, and is within the bounds of the headers. */
#include "cluster/planner.h"

#include <assert.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool fuzz_note(struct bytes body, struct buffer *to)
{
    static struct roster_note note;

    if (roster_note_decode(body, &note, NULL))
        return false;
    assert(note.weight <= 1000 && note.place_count <= 1024);
    assert(note.tenant_count <= 64 && note.zone.size <= 64);
    for (size_t i = 0; i < note.place_count; i++)
        assert(note.places[i].partition < 1024 && note.places[i].role != ROSTER_ABSENT);
    roster_note_encode(&note, to);
    return true;
}

static bool fuzz_plan(struct bytes body, struct buffer *to)
{
    static struct plan plan;

    if (plan_decode(body, &plan, NULL))
        return false;
    assert(plan.partition_count >= 1 && plan.partition_count <= 1024);
    for (uint16_t p = 0; p < plan.partition_count; p++)
        assert(plan.entries[p].owner != 0 || plan.entries[p].standbys[0] == 0);
    plan_encode(&plan, to);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    char *copy = malloc(size);
    assert(copy);
    memcpy(copy, data + 1, size - 1);
    const struct bytes body = {copy, size - 1};
    struct buffer buffer;
    buffer_init(&buffer);
    if (data[0] & 1 ? fuzz_note(body, &buffer) : fuzz_plan(body, &buffer))
        assert(bytes_equal(buffer_bytes(&buffer), body));
    buffer_deinit(&buffer);
    free(copy);
    return 0;
}
