/* given_up_log.c - a bounded list between the shards and the thread that writes the log. */
#include "given_up_log.h"

#include "calendar/rfc3339.h"

#include <stdlib.h>

#define LOOK_NS UINT64_C(1000000000)

static struct given_up *given_up_log_item(struct list *link)
{
    return list_item(link, struct given_up, link);
}

void given_up_log_init(struct given_up_log *self, const struct event_log *log)
{
    *self = (struct given_up_log){.log = log};
    pthread_mutex_init(&self->lock, NULL);
    list_init(&self->waiting);
}

void given_up_log_deinit(struct given_up_log *self)
{
    for (struct list *link; (link = list_pop(&self->waiting));)
        free(given_up_log_item(link));
    pthread_mutex_destroy(&self->lock);
}

void given_up_log_add(struct given_up_log *self, struct given_up *given_up)
{
    pthread_mutex_lock(&self->lock);
    if (self->count < GIVEN_UP_LINES_MAX) {
        list_push(&self->waiting, &given_up->link);
        self->count++;
        given_up = NULL;
    } else {
        given_up_log_item(self->waiting.prev)->more += 1 + given_up->more;
    }
    pthread_mutex_unlock(&self->lock);
    free(given_up);
}

/* The key is the last pair: it can be the longest, and a pair that does not fit is left out. */
static void given_up_log_line(const struct given_up_log *self, const struct given_up *given_up)
{
    const bool is_dead = given_up->next.ms == WALL_NEVER.ms;
    char id[TIMER_ID_TEXT_SIZE];

    timer_id_format(&given_up->id, id);
    struct event_log_line line;
    event_log_begin(&line, self->log, EVENT_LOG_WARN, is_dead ? "timer_dead" : "firing_given_up");
    event_log_text(&line, "id", id);
    char time[RFC3339_TEXT_SIZE];
    rfc3339_format(given_up->due, time);
    event_log_text(&line, "due", time);
    if (!is_dead) {
        rfc3339_format(given_up->next, time);
        event_log_text(&line, "next", time);
    }
    event_log_number(&line, "attempts", given_up->attempts);
    if (given_up->more)
        event_log_number(&line, "more", given_up->more);
    if (*given_up->tenant)
        event_log_text(&line, "tenant", given_up->tenant);
    event_log_text(&line, "origin", given_up->origin);
    event_log_text(&line, "error", given_up->error);
    if (*given_up->key)
        event_log_text(&line, "key", given_up->key);
    event_log_end(&line);
}

void given_up_log_write_rest(struct given_up_log *self)
{
    struct list waiting;

    list_init(&waiting);
    pthread_mutex_lock(&self->lock);
    list_join(&waiting, &self->waiting);
    self->count = 0;
    pthread_mutex_unlock(&self->lock);
    for (struct list *link; (link = list_pop(&waiting));) {
        given_up_log_line(self, given_up_log_item(link));
        free(given_up_log_item(link));
    }
}

void given_up_log_write(struct given_up_log *self, struct instant now)
{
    if (instant_since_ns(self->written, now) < LOOK_NS)
        return;
    self->written = now;
    given_up_log_write_rest(self);
}
