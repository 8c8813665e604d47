/*
 * list.h - an intrusive, doubly linked list; the link lies in the item, so nothing is allocated.
 *
 *     struct job { struct list link; int n; };
 *     struct list jobs;
 *     list_init(&jobs);
 *     list_push(&jobs, &job->link);
 *     LIST_FOR_EACH (&jobs, link) use(list_item(link, struct job, link));
 *
 * Threads    None: the owner of the list is the only one to touch it and its items.
 */
#ifndef TICKWHEEL_BASE_LIST_H
#define TICKWHEEL_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
    struct list *next, *prev;
};

#define list_item(link, type, member) ((type *)((char *)(link)-offsetof(type, member)))

/* Walks from front to back. The current item may be removed or freed, but no other. */
#define LIST_FOR_EACH(head, it)                                               \
    for (struct list *it = (head)->next, *it##_next = it->next; it != (head); \
         it = it##_next, it##_next = it->next)

/* Initializes an empty list, or a link that is on no list. */
static inline void list_init(struct list *list)
{
    list->next = list->prev = list;
}

static inline bool list_is_empty(const struct list *list)
{
    return list->next == list;
}

static inline void list_push(struct list *list, struct list *link)
{
    link->next = list;
    link->prev = list->prev;
    list->prev->next = link;
    list->prev = link;
}

static inline void list_push_front(struct list *list, struct list *link)
{
    list_push(list->next, link);
}

/* Removes the link from its list, if it is on one. */
static inline void list_remove(struct list *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    list_init(link);
}

/* Removes and returns the first link; NULL if the list is empty. */
static inline struct list *list_pop(struct list *list)
{
    struct list *link = list->next;

    if (link == list)
        return NULL;
    list_remove(link);
    return link;
}

/* Moves all of `from` to the end of `list`, and empties `from`. */
static inline void list_join(struct list *list, struct list *from)
{
    if (list_is_empty(from))
        return;
    from->next->prev = list->prev;
    list->prev->next = from->next;
    from->prev->next = list;
    list->prev = from->prev;
    list_init(from);
}

#endif
