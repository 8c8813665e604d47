#include "base/log.h"

#include "base/rfc3339.h"

#include <inttypes.h>
#include <string.h>

static const char *const level_names[] = {
    [LOG_LEVEL_ERROR] = "error",
    [LOG_LEVEL_WARN] = "warn",
    [LOG_LEVEL_INFO] = "info",
    [LOG_LEVEL_DEBUG] = "debug",
};

/* Every line keeps this much free for its end. */
static const char cut_mark[] = " cut=1\n";

void log_init(struct log *log, FILE *file, enum log_level level_max, struct wall (*now)(void))
{
    *log = (struct log){file, level_max, now};
}

static void append(struct log_line *line, const char *text, size_t size)
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

void log_begin(struct log_line *line, const struct log *log, enum log_level level,
               const char *event)
{
    char time[RFC3339_TEXT_SIZE];

    line->log_ = level <= log->level_max_ ? log : NULL;
    line->size_ = 0;
    line->is_cut_ = false;
    if (!line->log_)
        return;
    rfc3339_format(log->now_(), time);
    append(line, "time=", 5);
    append(line, time, strlen(time));
    log_text(line, "level", level_names[level]);
    log_text(line, "event", event);
}

static bool needs_quotes(const char *value)
{
    if (!*value)
        return true;
    for (; *value; value++)
        if ((unsigned char)*value <= ' ' || *value == 0x7f || strchr("\"=\\", *value))
            return true;
    return false;
}

/* `value` within quotes, so that it stays on its line. */
static size_t escape(char c, char to[8])
{
    if (c == '"' || c == '\\') {
        to[0] = '\\';
        to[1] = c;
        return 2;
    }
    if (c == '\n') {
        memcpy(to, "\\n", 2);
        return 2;
    }
    if ((unsigned char)c < ' ' || c == 0x7f)
        return (size_t)snprintf(to, 8, "\\x%02x", (unsigned)(unsigned char)c);
    to[0] = c;
    return 1;
}

void log_text(struct log_line *line, const char *key, const char *value)
{
    size_t size_before = line->size_;

    if (!line->log_)
        return;
    append(line, " ", 1);
    append(line, key, strlen(key));
    append(line, "=", 1);
    if (!needs_quotes(value)) {
        append(line, value, strlen(value));
    } else {
        append(line, "\"", 1);
        for (; *value; value++) {
            char escaped[8];

            append(line, escaped, escape(*value, escaped));
        }
        append(line, "\"", 1);
    }
    /* A pair goes in whole or not at all: a half one could be misread. */
    if (line->is_cut_)
        line->size_ = size_before;
}

void log_number(struct log_line *line, const char *key, uint64_t value)
{
    char digits[24];

    snprintf(digits, sizeof(digits), "%" PRIu64, value);
    log_text(line, key, digits);
}

void log_end(struct log_line *line)
{
    const char *end = line->is_cut_ ? cut_mark : "\n";

    if (!line->log_)
        return;
    memcpy(line->text_ + line->size_, end, strlen(end));
    line->size_ += strlen(end);
    /* One call: stdio's lock keeps lines of different threads apart. */
    if (fwrite(line->text_, 1, line->size_, line->log_->file_) == line->size_)
        fflush(line->log_->file_);
    line->log_ = NULL;
}
