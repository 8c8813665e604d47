/* import_choice.c - which copy an import takes; see import_choice.h. */
#include "cluster/import_choice.h"

#include "cluster/copy.h"

enum import_copy_kind import_copy_kind(const struct import_copy *copy)
{
    if (copy_is_whole(&copy->place))
        return IMPORT_COPY_WHOLE;
    if (copy->place.next)
        return IMPORT_COPY_PART;
    return copy->epoch ? IMPORT_COPY_SINGLE : IMPORT_COPY_NONE;
}

/* Compares the last records of two places by epoch and seq. */
static int import_choice_compare(const struct storage_place *a, const struct storage_place *b)
{
    if (a->epoch != b->epoch)
        return a->epoch < b->epoch ? -1 : 1;
    return a->seq == b->seq ? 0 : a->seq < b->seq ? -1 : 1;
}

/* True if both places can be of one log, in which owners and records follow each other by offset
 * and an epoch has one owner. */
static bool import_choice_is_one_log(const struct storage_place *a, const struct storage_place *b)
{
    const int offsets = a->next == b->next ? 0 : a->next < b->next ? -1 : 1;
    const bool is_one_owner = a->node == b->node && a->incarnation == b->incarnation;

    return offsets == import_choice_compare(a, b) && (a->epoch != b->epoch || is_one_owner);
}

/* True if the copy is not an earlier state of the chosen copy. Incomplete copies are not
 * compared. */
static bool import_choice_is_strange(const struct import_copy *taken,
                                     const struct import_copy *copy)
{
    const enum import_copy_kind kind = import_copy_kind(copy);

    if (kind == IMPORT_COPY_NONE)
        return false;
    if (kind == IMPORT_COPY_SINGLE || import_copy_kind(taken) == IMPORT_COPY_SINGLE)
        return true;
    return kind == IMPORT_COPY_WHOLE && !import_choice_is_one_log(&taken->place, &copy->place);
}

/* True if the copy is complete and has more. The timers of a single node have no place, and come
 * last. */
static bool import_choice_is_better(const struct import_copy *copies, size_t taken,
                                    const struct import_copy *copy)
{
    const enum import_copy_kind kind = import_copy_kind(copy);

    if (kind != IMPORT_COPY_WHOLE && kind != IMPORT_COPY_SINGLE)
        return false;
    return taken == IMPORT_NO_COPY || copy->place.next > copies[taken].place.next;
}

void import_choose(const struct import_copy *copies, size_t count, struct import_choice *ret_choice)
{
    struct import_choice choice = {IMPORT_NO_COPY, IMPORT_NO_COPY, IMPORT_NO_COPY, 1};
    bool is_cluster = false;

    for (size_t i = 0; i < count; i++) {
        const struct import_copy *copy = &copies[i];

        if (import_choice_is_better(copies, choice.taken, copy))
            choice.taken = i;
        if (copy->epoch > choice.epoch)
            choice.epoch = copy->epoch;
        if (copy->place.epoch > choice.epoch)
            choice.epoch = copy->place.epoch;
        is_cluster |= copy->place.next > 0;
    }
    if (is_cluster)
        choice.epoch += IMPORT_EPOCHS_LOST;
    for (size_t i = 0; i < count && choice.taken != IMPORT_NO_COPY; i++) {
        const struct import_copy *taken = &copies[choice.taken];

        if (i != choice.taken && import_choice_is_strange(taken, &copies[i]))
            choice.stranger = i;
        if (copies[i].place.next > taken->place.next)
            choice.further = i;
    }
    *ret_choice = choice;
}
