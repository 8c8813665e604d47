/* replica_copy.c - a replica that begins with a copy of another node; see replica_copy.h.
 *
 * The pages (copy.h) have rows of several places of the log. The place of the first one is that of
 * the replica, which reads the log from there: so each change behind any page is applied, and in
 * order. No page is of an earlier place than the one before, for a trim takes names and pointers by
 * the rows that it finds. Rows that are newer for a while are put right by the changes that made
 * them so. Until the highest place of all pages is read the replica is not whole, and begins anew
 * after a crash.
 *
 * A giver may know records that the log has lost, and not have noticed. So all pages are of one
 * owner, whose records are in one order, and the log must have the last record of the last page. If
 * it does not, the copy is dropped. */
#include "cluster/replica_copy.h"

#include "cluster/replica_private.h"

bool replica_wants_copy(const struct replica *replica, uint64_t next)
{
    return !replica->has_copied && !replica->is_failing && replica->reading == REPLICA_FOLLOWS &&
           !replica->log.missing_end && replica_state(replica) == OWNERSHIP_RESTORING &&
           replica_next(replica) == 0 && replica->options.copy_records_min &&
           next >= replica->options.copy_records_min;
}

bool replica_is_copying(const struct replica *replica)
{
    return replica->reading == REPLICA_COPIES;
}

/* True if the page continues the copy: at no earlier place, and of the same owner. */
static bool replica_continues_copy(const struct replica *replica, const struct storage_place *place)
{
    return place->next >= replica->copy_end && place->epoch == replica->first.epoch &&
           place->incarnation == replica->first.incarnation;
}

/* Begins a copy. Its first page empties the partition, which may have rows of an earlier copy. */
static enum error_code replica_begin_copy(struct replica *replica, const struct copy_page *page,
                                          struct error *ret_error)
{
    const struct replica_options *options = &replica->options;

    replica->reading = REPLICA_COPIES;
    replica->first = page->at.place;
    replica->first.copy_end = STORAGE_COPYING;
    replica->copy_end = 0;
    return storage_partition_clear(options->storage, options->partition, &replica->first,
                                   ret_error);
}

/* Finishes a copy: the rows of all pages are there, and become valid with the records before the
 * last page's place. */
static enum error_code replica_finish_copy(struct replica *replica, struct instant now,
                                           struct error *ret_error)
{
    const struct replica_options *options = &replica->options;
    struct storage_place place = replica->first;

    place.copy_end = replica->copy_end > place.next ? replica->copy_end : 0;
    const enum error_code code =
        storage_apply(options->storage, options->partition, (struct bytes){0}, &place, ret_error);
    if (code)
        return code;
    replica_begin_ownership(replica, &place, now);
    if (replica->is_planned)
        ownership_plan(&replica->own, replica->planned, now);
    replica->is_rewound = replica->has_copied = true;
    replica->stats.copies++;
    return ERROR_NONE;
}

bool replica_take_page(struct replica *replica, const struct copy_page *page, struct instant now)
{
    const struct replica_options *options = &replica->options;
    struct error error = {.text = ""};
    enum error_code code = ERROR_NONE;

    if (replica->is_failing || page->at.partition != options->partition ||
        !copy_is_whole(&page->at.place) ||
        (replica_is_copying(replica) ? !replica_continues_copy(replica, &page->at.place)
                                     : !replica_wants_copy(replica, page->at.place.next))) {
        replica_end_copy(replica);
        return false;
    }
    if (!replica_is_copying(replica))
        code = replica_begin_copy(replica, page, &error);
    replica->copy_last = page->at.place;
    replica->copy_end = page->at.place.next;
    if (!code && page->rows.size)
        code = storage_apply(options->storage, options->partition, page->rows, &replica->first,
                             &error);
    replica->stats.copy_rows += page->row_count;
    if (!code && page->at.is_done)
        code = replica_finish_copy(replica, now, &error);
    if (code) {
        replica->error = error;
        replica_end_copy(replica);
    }
    return !code;
}

void replica_end_copy(struct replica *replica)
{
    if (replica->has_copied)
        return;
    replica->has_copied = true;
    replica->stats.copy_failures++;
    if (!replica_is_copying(replica)) {
        replica->is_rewound = true;
        return;
    }
    replica_start_over(replica);
}
