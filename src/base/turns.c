/* Turns of keys: a list of the first thing of each, behind which the others of its key wait. */
#include "base/turns.h"

static struct turn_link *turns_item(struct list *link)
{
    return list_item(link, struct turn_link, link);
}

bool turns_push(struct turns *turns, struct turn_link *turn, uint64_t key)
{
    turn->key = key;
    list_init(&turn->link);
    list_init(&turn->behind);
    LIST_FOR_EACH (&turns->firsts, link)
        if (turns_item(link)->key == key) {
            list_push(&turns_item(link)->behind, &turn->link);
            return false;
        }
    list_push(&turns->firsts, &turn->link);
    return true;
}

void turns_rotate(struct turns *turns, struct turn_link *turn)
{
    list_remove(&turn->link);
    list_push(&turns->firsts, &turn->link);
}

struct turn_link *turns_remove(struct turns *turns, struct turn_link *turn)
{
    struct list *link = list_pop(&turn->behind);

    list_remove(&turn->link);
    if (!link)
        return NULL;
    list_join(&turns_item(link)->behind, &turn->behind);
    list_push(&turns->firsts, link);
    return turns_item(link);
}

struct turn_link *turns_pop(struct turns *turns)
{
    if (turns_is_empty(turns))
        return NULL;
    struct turn_link *turn = turns_item(turns->firsts.next);

    turns_remove(turns, turn);
    return turn;
}
