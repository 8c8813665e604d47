/* roster.c - see roster.h, which has the layout of a note. */
#include "cluster/roster.h"

#include "base/check.h"

#include <assert.h>
#include <stdlib.h>

struct roster {
    uint16_t partition_count;
    uint64_t notes; /* of planners */
    size_t count;
    struct roster_member members[ROSTER_MAX]; /* sorted by node */
    struct roster_owned owned[ROSTER_PARTITIONS_MAX];
};

/* ---- the bytes ---- */

enum { ROSTER_NOTE_FORM = 4 };

static void roster_put_text(struct buffer *to, struct bytes text)
{
    buffer_append_le(to, text.size, 1);
    buffer_append_bytes(to, text);
}

static void roster_put_counts(struct buffer *to, const struct roster_tally *counts, size_t count)
{
    assert(count <= ROSTER_COUNTS_MAX);
    buffer_append_le(to, count, 1);
    for (size_t i = 0; i < count; i++) {
        roster_put_text(to, counts[i].name);
        buffer_append_le(to, counts[i].count, 8);
    }
}

void roster_note_encode(const struct roster_note *note, struct buffer *to)
{
    assert(note->place_count <= ROSTER_PARTITIONS_MAX);
    buffer_append_le(to, ROSTER_NOTE_FORM, 1);
    roster_put_text(to, note->address);
    roster_put_text(to, note->internal_address);
    roster_put_text(to, note->zone);
    buffer_append_le(to, (uint32_t)note->clock_offset_ms, 4);
    buffer_append_le(to, note->weight, 2);
    buffer_append_le(to, note->load, 2);
    buffer_append_le(to, note->place_count, 2);
    for (size_t i = 0; i < note->place_count; i++) {
        buffer_append_le(to, note->places[i].partition, 2);
        buffer_append_le(to, note->places[i].role, 1);
        buffer_append_le(to, note->places[i].next, 8);
        if (note->places[i].role == ROSTER_OWNER)
            buffer_append_le(to, note->places[i].pending, 8);
    }
    buffer_append_le(to, 0, 1); /* queues, whose items no version reports */
    roster_put_counts(to, note->tenants, note->tenant_count);
}

static bool roster_get(struct bytes *from, size_t width, uint64_t *ret_value)
{
    if (from->size < width)
        return false;
    *ret_value = get_le(from->data, width);
    from->data += width;
    from->size -= width;
    return true;
}

/* Reads a text within its bound and without control characters. */
static bool roster_get_text(struct bytes *from, size_t size_max, struct bytes *ret_text)
{
    uint64_t size;

    if (!roster_get(from, 1, &size) || size > size_max || size > from->size)
        return false;
    *ret_text = (struct bytes){from->data, size};
    from->data += size;
    from->size -= size;
    return !bytes_has_control(*ret_text) && (size == 0 || !memchr(ret_text->data, '\t', size));
}

static bool roster_get_counts(struct bytes *from, struct roster_tally *ret_counts,
                              size_t *ret_count)
{
    uint64_t count;

    if (!roster_get(from, 1, &count) || count > ROSTER_COUNTS_MAX)
        return false;
    for (size_t i = 0; i < count; i++) {
        if (!roster_get_text(from, ROSTER_NAME_SIZE_MAX, &ret_counts[i].name) ||
            !roster_get(from, 8, &ret_counts[i].count) ||
            (i > 0 && bytes_compare(ret_counts[i - 1].name, ret_counts[i].name) >= 0))
            return false;
    }
    *ret_count = count;
    return true;
}

static bool roster_get_places(struct bytes *from, struct roster_note *ret_note)
{
    uint64_t count, partition, role;

    if (!roster_get(from, 2, &count) || count > ROSTER_PARTITIONS_MAX)
        return false;
    for (size_t i = 0; i < count; i++) {
        struct roster_place *place = &ret_note->places[i];

        if (!roster_get(from, 2, &partition) || !roster_get(from, 1, &role) ||
            !roster_get(from, 8, &place->next))
            return false;
        place->partition = (uint16_t)partition;
        place->role = (enum roster_role)role;
        place->pending = 0;
        if (role == ROSTER_OWNER && !roster_get(from, 8, &place->pending))
            return false;
        if (partition >= ROSTER_PARTITIONS_MAX || role == ROSTER_ABSENT || role > ROSTER_BROKEN ||
            place->next == UINT64_MAX || (i > 0 && place[-1].partition >= place->partition))
            return false;
    }
    ret_note->place_count = count;
    return true;
}

enum error_code roster_note_decode(struct bytes body, struct roster_note *ret_note,
                                   struct error *ret_error)
{
    uint64_t form, offset, weight, load, queues;

    if (!roster_get(&body, 1, &form) || form != ROSTER_NOTE_FORM)
        return error_set(ret_error, ERROR_CORRUPT,
                         "a note of a node has a form that this version cannot read");
    if (!roster_get_text(&body, ROSTER_ADDRESS_SIZE_MAX, &ret_note->address) ||
        !roster_get_text(&body, ROSTER_ADDRESS_SIZE_MAX, &ret_note->internal_address) ||
        !roster_get_text(&body, ROSTER_ZONE_SIZE_MAX, &ret_note->zone) ||
        !roster_get(&body, 4, &offset) || !roster_get(&body, 2, &weight) ||
        weight > ROSTER_WEIGHT_MAX || !roster_get(&body, 2, &load) ||
        !roster_get_places(&body, ret_note) || !roster_get(&body, 1, &queues) || queues > 0 ||
        !roster_get_counts(&body, ret_note->tenants, &ret_note->tenant_count) || body.size > 0)
        return error_set(ret_error, ERROR_CORRUPT, "a note of a node is damaged");
    ret_note->clock_offset_ms = (int32_t)(uint32_t)offset;
    ret_note->weight = (uint16_t)weight;
    ret_note->load = (uint16_t)load;
    return ERROR_NONE;
}

/* ---- the table ---- */

static void roster_deinit_member(struct roster_member *member)
{
    free(member->standings);
    free(member->tenants);
}

struct roster *roster_create(uint16_t partition_count)
{
    assert(partition_count > 0 && partition_count <= ROSTER_PARTITIONS_MAX);
    struct roster *roster = calloc(1, sizeof(*roster));
    if (roster)
        roster->partition_count = partition_count;
    return roster;
}

void roster_destroy(struct roster *roster)
{
    for (size_t i = 0; roster && i < roster->count; i++)
        roster_deinit_member(&roster->members[i]);
    free(roster);
}

uint16_t roster_partition_count(const struct roster *roster)
{
    return roster->partition_count;
}

size_t roster_count(const struct roster *roster)
{
    return roster->count;
}

const struct roster_member *roster_at(const struct roster *roster, size_t index)
{
    assert(index < roster->count);
    return &roster->members[index];
}

const struct roster_member *roster_find(const struct roster *roster, uint32_t node)
{
    for (size_t i = 0; i < roster->count; i++)
        if (roster->members[i].node == node)
            return &roster->members[i];
    return NULL;
}

uint64_t roster_missed(const struct roster *roster, const struct roster_member *member)
{
    return roster->notes - member->heard;
}

const struct roster_owned *roster_owned(const struct roster *roster, uint16_t partition)
{
    assert(partition < roster->partition_count);
    return &roster->owned[partition];
}

bool roster_is_alive(const struct roster *roster, const struct roster_member *member)
{
    return roster_missed(roster, member) < ROSTER_NOTES_MISSED_MAX;
}

static struct roster_member *roster_at_node(struct roster *roster, uint32_t node)
{
    const struct roster_member *found = roster_find(roster, node);

    return found ? &roster->members[found - roster->members] : NULL;
}

static void roster_remove(struct roster *roster, size_t index)
{
    roster_deinit_member(&roster->members[index]);
    roster->count--;
    memmove(&roster->members[index], &roster->members[index + 1],
            (roster->count - index) * sizeof(roster->members[0]));
}

static void roster_forget_old(struct roster *roster)
{
    for (size_t i = roster->count; i-- > 0;)
        if (roster->notes - roster->members[i].heard >= ROSTER_NOTES_FORGOTTEN)
            roster_remove(roster, i);
}

/* Makes room in a full table by removing the dead member that was silent for longest. */
static bool roster_make_room(struct roster *roster)
{
    size_t oldest = 0;

    if (roster->count < ROSTER_MAX)
        return true;
    for (size_t i = 1; i < roster->count; i++)
        if (roster->members[i].heard < roster->members[oldest].heard)
            oldest = i;
    if (roster_is_alive(roster, &roster->members[oldest]))
        return false;
    roster_remove(roster, oldest);
    return true;
}

static enum error_code roster_add(struct roster *roster, uint32_t node,
                                  struct roster_member **ret_member, struct error *ret_error)
{
    struct roster_member member = {.node = node};
    enum error_code code = ERROR_NONE;

    member.standings = calloc(roster->partition_count, sizeof(*member.standings));
    member.tenants = calloc(ROSTER_COUNTS_MAX, sizeof(*member.tenants));
    if (!member.standings || !member.tenants)
        code = error_set(ret_error, ERROR_NO_MEMORY, "a member of the cluster");
    else if (!roster_make_room(roster))
        code = error_set(ret_error, ERROR_TOO_MANY, "the cluster has %d nodes already", ROSTER_MAX);
    if (code) {
        roster_deinit_member(&member);
        return code;
    }
    size_t at = roster->count;
    while (at > 0 && roster->members[at - 1].node > node)
        at--;
    memmove(&roster->members[at + 1], &roster->members[at],
            (roster->count - at) * sizeof(roster->members[0]));
    roster->count++;
    roster->members[at] = member;
    *ret_member = &roster->members[at];
    return ERROR_NONE;
}

static void roster_copy_text(char *to, struct bytes text)
{
    memcpy(to, text.data, text.size);
    to[text.size] = '\0';
}

/* Stores the member's role in each partition, as its note says. In partitions that the note does
 * not name it has none. */
static void roster_take_places(struct roster_member *member, const struct roster_note *note,
                               uint16_t partition_count)
{
    size_t at = 0;

    for (uint16_t i = 0; i < partition_count; i++) {
        struct roster_standing *standing = &member->standings[i];
        const struct roster_standing last = *standing;

        *standing = (struct roster_standing){.before = UINT64_MAX};
        if (at == note->place_count || note->places[at].partition != i)
            continue;
        standing->role = note->places[at].role;
        standing->next = note->places[at++].next;
        if (standing->role == ROSTER_OWNER && last.role == ROSTER_OWNER)
            standing->before = last.next;
    }
}

/* Takes the counts of a note. The last counts of a node that owns no partition, because it
 * restarted or leaves, stay until other nodes own its partitions. */
static void roster_take_counts(struct roster *roster, struct roster_member *member,
                               const struct roster_note *note)
{
    uint64_t pending = 0;
    bool is_owner = false;

    for (size_t i = 0; i < note->place_count; i++) {
        const struct roster_place *place = &note->places[i];

        if (place->role != ROSTER_OWNER)
            continue;
        roster->owned[place->partition] = (struct roster_owned){member->node, place->pending};
        pending += place->pending;
        is_owner = true;
    }
    if (!is_owner)
        return;
    member->pending = pending;
    member->tenant_count = note->tenant_count;
    for (size_t i = 0; i < note->tenant_count; i++) {
        struct roster_count *copy = &member->tenants[i];

        copy->count = note->tenants[i].count;
        copy->name_size = (uint8_t)note->tenants[i].name.size;
        memcpy(copy->name, note->tenants[i].name.data, copy->name_size);
    }
}

enum error_code roster_read(struct roster *roster, const struct frame *frame, uint32_t planner,
                            struct error *ret_error)
{
    struct roster_member *member = roster_at_node(roster, frame->node);
    struct roster_note *note;

    assert(frame->kind == FRAME_NOTE);
    if (frame->node == 0)
        return error_set(ret_error, ERROR_CORRUPT, "a note of no node");
    if (member && member->incarnation_before == frame->incarnation)
        return ERROR_NONE;
    note = malloc(sizeof(*note));
    enum error_code code = note ? roster_note_decode(frame->body, note, ret_error)
                                : error_set(ret_error, ERROR_NO_MEMORY, "a note");
    if (!code && note->place_count > 0 &&
        note->places[note->place_count - 1].partition >= roster->partition_count)
        code = error_set(ret_error, ERROR_CORRUPT, "a note names a partition that is not there");
    if (!code && !member)
        code = roster_add(roster, frame->node, &member, ret_error);
    if (!code) {
        if (member->incarnation != frame->incarnation) {
            member->incarnation_before = member->incarnation;
            member->incarnation = frame->incarnation;
            memset(member->standings, 0, roster->partition_count * sizeof(*member->standings));
        }
        roster_copy_text(member->address, note->address);
        roster_copy_text(member->internal_address, note->internal_address);
        roster_copy_text(member->zone, note->zone);
        member->clock_offset_ms = note->clock_offset_ms;
        member->weight = note->weight;
        member->load = note->load;
        roster_take_places(member, note, roster->partition_count);
        roster_take_counts(roster, member, note);
        roster->notes += frame->node == planner;
        member->heard = roster->notes;
        roster_forget_old(roster);
    }
    free(note);
    return code;
}

void roster_supersede(struct roster *roster, uint32_t planner)
{
    struct roster_member *member = roster_at_node(roster, planner);

    if (member)
        member->heard -=
            member->heard < ROSTER_NOTES_OF_CLAIM ? member->heard : ROSTER_NOTES_OF_CLAIM;
}
