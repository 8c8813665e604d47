/* absent.c - names that timers need and that are missing, sorted. */
#include "calendar/absent.h"

#include <stdio.h>

static void absent_remove(struct absent *absent, size_t place)
{
    struct absent_names *list = &absent->list_;
    const size_t left = --list->count - place;

    memmove(&list->names[place], &list->names[place + 1], left * sizeof(list->names[0]));
    memmove(&absent->idle_[place], &absent->idle_[place + 1], left * sizeof(absent->idle_[0]));
}

/* Finds the place of a name; true if it is there. */
static bool absent_find(const struct absent *absent, const char *name, size_t *ret_place)
{
    const struct absent_names *list = &absent->list_;
    size_t place = 0;

    while (place < list->count && strcmp(list->names[place], name) < 0)
        place++;
    *ret_place = place;
    return place < list->count && strcmp(list->names[place], name) == 0;
}

static void absent_text(struct bytes name, char ret_text[ABSENT_NAME_SIZE_MAX + 1])
{
    snprintf(ret_text, ABSENT_NAME_SIZE_MAX + 1, "%.*s", (int)name.size, name.data);
}

void absent_note(struct absent *absent, struct bytes name)
{
    struct absent_names *list = &absent->list_;
    char text[ABSENT_NAME_SIZE_MAX + 1];
    size_t place;

    absent_text(name, text);
    if (absent_find(absent, text, &place)) {
        absent->idle_[place] = 0;
        return;
    }
    if (list->count == ABSENT_KEPT) {
        list->has_more = true;
        absent->more_idle_ = 0;
        return;
    }
    const size_t left = list->count++ - place;
    memmove(&list->names[place + 1], &list->names[place], left * sizeof(list->names[0]));
    memmove(&absent->idle_[place + 1], &absent->idle_[place], left * sizeof(absent->idle_[0]));
    memcpy(list->names[place], text, sizeof(text));
    absent->idle_[place] = 0;
}

bool absent_forget(struct absent *absent, struct bytes name)
{
    char text[ABSENT_NAME_SIZE_MAX + 1];
    size_t place;

    absent_text(name, text);
    if (!absent_find(absent, text, &place))
        return false;
    absent_remove(absent, place);
    return true;
}

void absent_age(struct absent *absent)
{
    struct absent_names *list = &absent->list_;

    for (size_t i = list->count; i-- > 0;)
        if (++absent->idle_[i] >= ABSENT_AGE_MAX)
            absent_remove(absent, i);
    list->has_more = list->has_more && ++absent->more_idle_ < ABSENT_AGE_MAX;
}
