/* target_log.c - bounds the lines about targets: a thousand can fail at once. */
#include "target_log.h"

#include <stdio.h>

void target_log_init(struct target_log *self, const struct event_log *log, uint32_t failures_max)
{
    *self = (struct target_log){.log = log, .failures_max = failures_max};
    pthread_mutex_init(&self->lock, NULL);
}

void target_log_deinit(struct target_log *self)
{
    pthread_mutex_destroy(&self->lock);
}

static bool target_log_is_over(const struct target_log *self, struct instant now)
{
    return instant_since_ns(self->window_at, now) >= TARGET_LOG_WINDOW_MS * UINT64_C(1000000);
}

/* True if a line may be written now. Otherwise counts the line as left out. */
static bool target_log_takes(struct target_log *self, struct instant now)
{
    pthread_mutex_lock(&self->lock);
    if (self->window_at.ns == 0 || target_log_is_over(self, now)) {
        self->window_at = now;
        self->lines = 0;
    }
    const bool takes = self->lines < TARGET_LOG_LINES_MAX;
    self->lines += takes;
    self->omitted += !takes;
    pthread_mutex_unlock(&self->lock);
    return takes;
}

/* Adds the sentence that explain shows for each timer of the target. */
static void target_log_say_cause(struct event_log_line *line, const struct target_status *status)
{
    struct buffer cause;

    buffer_init(&cause);
    target_status_say(status, &cause);
    buffer_append(&cause, "", 1);
    if (!buffer_failed(&cause))
        event_log_text(line, "cause", cause.data);
    buffer_deinit(&cause);
}

void target_log_write(struct target_log *self, const struct target_status *status,
                      struct instant now)
{
    const bool is_back = status->state == BREAKER_CLOSED;
    struct event_log_line line;

    if ((!is_back && status->failures != self->failures_max) || !target_log_takes(self, now))
        return;
    event_log_begin(&line, self->log, is_back ? EVENT_LOG_INFO : EVENT_LOG_WARN,
                    is_back ? "target_back" : "target_failing");
    if (!is_back) {
        event_log_number(&line, "failures", status->failures);
        event_log_number(&line, "pause_ms", status->wait_ms);
        target_log_say_cause(&line, status);
    }
    char origin[256];
    snprintf(origin, sizeof(origin), "%.*s", (int)status->origin.size, status->origin.data);
    event_log_text(&line, "origin", origin);
    event_log_text(&line, "scope", status->scope == TARGET_ORIGIN ? "origin" : "path");
    if (status->scope == TARGET_PATH) {
        char path[TARGETS_PATH_SIZE];
        const int size = (int)(status->path.size - status->origin.size);

        snprintf(path, sizeof(path), "%.*s", size, status->path.data + status->origin.size);
        event_log_text(&line, "path", path);
    }
    event_log_end(&line);
}

bool target_log_write_omitted(struct target_log *self, struct instant now)
{
    uint64_t omitted = 0;

    pthread_mutex_lock(&self->lock);
    if (target_log_is_over(self, now)) {
        omitted = self->omitted;
        self->omitted = 0;
    }
    const bool waits = self->omitted > 0;
    pthread_mutex_unlock(&self->lock);
    if (omitted > 0) {
        struct event_log_line line;
        event_log_begin(&line, self->log, EVENT_LOG_WARN, "targets_changed");
        event_log_number(&line, "count", omitted);
        event_log_text(&line, "hint", "`tickwheel targets` lists those that fail");
        event_log_end(&line);
    }
    return waits;
}
