/* log_postgres_state.c - the state that a log and the thread share; see log_postgres_client.h. */
#include "log/postgres/log_postgres_client.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>

/* The log reads its own record from memory, if everything before it was read. */
static void log_postgres_keep_own(struct log_postgres *log)
{
    const struct log_postgres_append *append = &log->append;

    if (!log->is_followed || log->is_lost || !log->is_placed || log->next != append->place)
        return;
    struct log_postgres_record *record = malloc(sizeof(*record) + append->body.size);
    if (!record)
        return; /* it is read from the server */
    record->place = append->place;
    record->chain = append->chain;
    record->size = append->body.size;
    memcpy(record->data, append->body.data, append->body.size);
    list_push(&log->records, &record->link);
    log->next++;
    log->chain = append->chain;
    log->is_anchored = true;
    log->has_end = true;
    log->is_told = false;
}

void log_postgres_finish(struct log_postgres *log, enum log_kind kind, const char *reason)
{
    struct log_postgres_append *append = &log->append;

    snprintf(log->done_reason, sizeof(log->done_reason), "%s", reason);
    append->done.kind = kind;
    append->done.ticket = append->ticket;
    append->done.offset = append->place;
    append->done.code = ERROR_IO;
    append->done.reason = log->done_reason;
    append->step = LOG_POSTGRES_IDLE;
    append->is_sent = false;
    if (kind == LOG_LANDED) {
        log_postgres_keep_own(log);
        if (!log->is_given || log->given == append->place) {
            log->is_given = true;
            log->given = append->place + 1;
            log->given_chain = append->chain;
        }
        append->unlanded_at = (struct instant){0};
    }
    eventfd_write(log->event_fd, 1);
}

void log_postgres_lose(struct log_postgres *log, const char *format, ...)
{
    va_list arguments;

    if (!log->is_followed || log->is_lost)
        return;
    va_start(arguments, format);
    vsnprintf(log->lost_reason, sizeof(log->lost_reason), format, arguments);
    va_end(arguments);
    log->is_lost = true;
    eventfd_write(log->event_fd, 1);
}

void log_postgres_forget(struct log_postgres *log)
{
    for (struct list *link; (link = list_pop(&log->records));)
        free(list_item(link, struct log_postgres_record, link));
}
