/* event_log.c - writes the log of events, a line of key=value for each. */
#include "ops/event_log.h"

#include "base/utf8.h"
#include "calendar/rfc3339.h"
#include "ops/event_log_queue.h"

#include <inttypes.h>
#include <string.h>

static const char *const level_names[] = {
    [EVENT_LOG_ERROR] = "error",
    [EVENT_LOG_WARN] = "warn",
    [EVENT_LOG_INFO] = "info",
    [EVENT_LOG_DEBUG] = "debug",
};

/* end of a line that was cut; each line reserves room for it */
static const char cut_mark[] = " cut=1\n";

void event_log_init(struct event_log *log, FILE *file, enum event_log_level level_max,
                    struct wall (*now)(void))
{
    *log = (struct event_log){.file_ = file, .level_max_ = level_max, .now_ = now};
}

static void event_log_append(struct event_log_line *line, const char *text, size_t size)
{
    if (line->is_cut_)
        return;
    if (size > sizeof(line->text_) - sizeof(cut_mark) - line->size_) {
        line->is_cut_ = true;
        return;
    }
    memcpy(line->text_ + line->size_, text, size);
    line->size_ += size;
}

void event_log_begin(struct event_log_line *line, const struct event_log *log,
                     enum event_log_level level, const char *event)
{
    line->log_ = level <= log->level_max_ ? log : NULL;
    line->size_ = 0;
    line->is_cut_ = false;
    if (!line->log_)
        return;
    char time[RFC3339_TEXT_SIZE];
    rfc3339_format(log->now_(), time);
    event_log_append(line, "time=", 5);
    event_log_append(line, time, strlen(time));
    event_log_text(line, "level", level_names[level]);
    event_log_text(line, "event", event);
}

/* Returns the size of the character at `at`, 1 for a byte that is none; and whether it is written
 * as numbers, because a terminal could obey it. */
static size_t event_log_next(const char *at, const char *end, bool *ret_is_control)
{
    const size_t size = utf8_size(at, end);

    *ret_is_control = !size || utf8_is_control(utf8_code(at, size));
    return size ? size : 1;
}

static bool event_log_needs_quotes(const char *at, const char *end)
{
    bool needs_quotes = at == end;

    while (!needs_quotes && at < end) {
        bool is_control;
        const size_t size = event_log_next(at, end, &is_control);

        needs_quotes = is_control || strchr(" \"=\\", *at);
        at += size;
    }
    return needs_quotes;
}

static void event_log_append_quoted(struct event_log_line *line, const char *at, const char *end)
{
    event_log_append(line, "\"", 1);
    while (at < end) {
        bool is_control;
        const size_t size = event_log_next(at, end, &is_control);
        char escaped[8];

        if (*at == '\n') {
            event_log_append(line, "\\n", 2);
        } else if (is_control) {
            for (size_t i = 0; i < size; i++)
                event_log_append(line, escaped,
                                 (size_t)snprintf(escaped, sizeof(escaped), "\\x%02x",
                                                  (unsigned)(unsigned char)at[i]));
        } else {
            if (*at == '"' || *at == '\\')
                event_log_append(line, "\\", 1);
            event_log_append(line, at, size);
        }
        at += size;
    }
    event_log_append(line, "\"", 1);
}

void event_log_text(struct event_log_line *line, const char *key, const char *value)
{
    size_t size_before = line->size_;

    if (!line->log_)
        return;
    event_log_append(line, " ", 1);
    event_log_append(line, key, strlen(key));
    event_log_append(line, "=", 1);
    const char *end = value + strlen(value);
    if (event_log_needs_quotes(value, end))
        event_log_append_quoted(line, value, end);
    else
        event_log_append(line, value, (size_t)(end - value));
    /* A pair that does not fit is left out, because a part of one could be misread. */
    if (line->is_cut_)
        line->size_ = size_before;
}

void event_log_number(struct event_log_line *line, const char *key, uint64_t value)
{
    char digits[24];

    snprintf(digits, sizeof(digits), "%" PRIu64, value);
    event_log_text(line, key, digits);
}

void event_log_end(struct event_log_line *line)
{
    const char *end = line->is_cut_ ? cut_mark : "\n";

    if (!line->log_)
        return;
    memcpy(line->text_ + line->size_, end, strlen(end));
    line->size_ += strlen(end);
    if (line->log_->queue_)
        event_log_queue_add(line->log_->queue_, line->text_, line->size_);
    /* With one call for a line, stdio's lock keeps the lines of different threads apart. */
    else if (fwrite(line->text_, 1, line->size_, line->log_->file_) == line->size_)
        fflush(line->log_->file_);
    line->log_ = NULL;
}

/* Formats the line that counts dropped lines. */
static size_t event_log_format_dropped(void *context, uint64_t count, char ret_text[])
{
    const struct event_log *log = context;
    struct event_log_line line;

    event_log_begin(&line, log, EVENT_LOG_WARN, "log_lines_dropped");
    event_log_number(&line, "count", count);
    event_log_append(&line, "\n", 1);
    memcpy(ret_text, line.text_, line.size_);
    return line.size_;
}

enum error_code event_log_start(struct event_log *log, struct metrics *metrics,
                                struct error *ret_error)
{
    const struct event_log_queue_options options = {.fd = fileno(log->file_),
                                                    .metrics = metrics,
                                                    .format_dropped = event_log_format_dropped,
                                                    .context = log};

    fflush(log->file_);
    return event_log_queue_start(&options, &log->queue_, ret_error);
}

void event_log_stop(struct event_log *log)
{
    struct event_log_queue *queue = log->queue_;

    log->queue_ = NULL;
    event_log_queue_stop(queue);
}
