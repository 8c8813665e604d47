/* given_up.c - copies of what the log shows of a firing that was given up. */
#include "engine/given_up.h"

#include <stdio.h>
#include <stdlib.h>

static void given_up_copy(char to[GIVEN_UP_TEXT_SIZE], struct bytes text)
{
    const size_t size = text.size < GIVEN_UP_TEXT_SIZE ? text.size : GIVEN_UP_TEXT_SIZE - 1;

    snprintf(to, GIVEN_UP_TEXT_SIZE, "%.*s", (int)size, size ? text.data : "");
}

struct given_up *given_up_create(const struct timer *timer, struct wall next)
{
    struct given_up *given_up = calloc(1, sizeof(*given_up));

    if (!given_up)
        return NULL;
    list_init(&given_up->link);
    given_up->id = timer->id;
    given_up->due = timer->due;
    given_up->next = next;
    given_up->attempts = timer->attempts;
    given_up_copy(given_up->tenant, timer->texts.tenant);
    given_up_copy(given_up->key, timer->texts.key);
    given_up_copy(given_up->origin, timer_target_origin(timer));
    given_up_copy(given_up->error, timer->texts.last_error);
    return given_up;
}
