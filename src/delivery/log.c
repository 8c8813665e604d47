/*
 * log.c - the sender of `log:` targets: a due timer becomes one line of JSON on the standard output
 * of the daemon, for trying things out.
 *
 *     {"id":"…","due":"…","fired":"…","late_ms":3,"attempt":1,"name":"NAME","key":"…",
 *      "labels":{…},"payload":{…}}
 *
 * The lines are read by the operator's tools, and the contents come from clients. So:
 *
 * - A line has at most LINE_SIZE_MAX bytes, in one write, which is atomic in a pipe. Labels or a
 *   payload that do not fit are left out, and their size stands in their place.
 * - A line has no control character: no content can end it, forge another or command a terminal.
 * - Only timers without a tenant may go here: a tenant is not the operator.
 * - How many are on the way, and how many a second, is bounded for each origin as for a webhook's.
 *
 * A thread of its own, which the first line starts, waits for the output. So a reader that stops
 * reading holds up nothing else.
 * No write waits for the reader. A delivery that finds none within the time-out
 * of its timer has failed, and so has one whose write fails.
 */
#include "delivery/sender.h"

#include "base/base64.h"
#include "base/json_write.h"
#include "delivery/lapse.h"
#include "calendar/rfc3339.h"
#include "sys/clock.h"
#include "sys/mailbox.h"
#include "sys/output.h"
#include "sys/process.h"
#include "timer/schedule.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LINE_SIZE_MAX  OUTPUT_ATOMIC_MAX
#define LINE_END_SIZE  80 /* room for the sizes of omitted parts and the end of the line */
#define TURN_LINES_MAX 64 /* maximum of lines between two checks of the mailbox */

struct log_sender {
    struct sender_options options;
    bool has_thread;
    pthread_t thread;
    struct mailbox mailbox; /* deliveries, and the message to stop */
    struct list stop;
    struct output output;
    /* Fields of the log thread. */
    struct list waiting, ended; /* deliveries */
    struct buffer line;
    /* the last line was written incompletely, so the next one begins with a line break */
    bool is_torn;
    bool is_stopping;
};

static struct delivery *log_delivery(struct list *link)
{
    return list_item(link, struct delivery, link);
}

/* ---- a line ---- */

/* Appends JSON that was checked before. White space between tokens becomes a blank, and control
 * characters beyond ASCII, which JSON allows in strings, are escaped. */
static void log_append_json(struct buffer *line, struct bytes json)
{
    for (size_t i = 0; i < json.size; i++) {
        const unsigned char c = (unsigned char)json.data[i];
        const unsigned char next = i + 1 < json.size ? (unsigned char)json.data[i + 1] : 0;

        if (c < ' ') {
            buffer_append(line, " ", 1);
        } else if (c == 0x7f) {
            buffer_append_text(line, "\\u007f");
        } else if (c == 0xc2 && next >= 0x80 && next < 0xa0) {
            buffer_printf(line, "\\u%04x", next);
            i++;
        } else {
            buffer_append(line, json.data + i, 1);
        }
    }
}

static void log_append_string(struct buffer *line, const char *name, struct bytes text)
{
    if (!text.size)
        return;
    struct buffer quoted;
    buffer_init(&quoted);
    json_append_string(&quoted, text);
    json_put_name(line, name);
    log_append_json(line, buffer_bytes(&quoted));
    line->failed |= buffer_failed(&quoted);
    buffer_deinit(&quoted);
}

static bool log_fits(const struct buffer *line, size_t size)
{
    return line->size + size + LINE_END_SIZE <= LINE_SIZE_MAX;
}

/* If the line has become too long, replaces the text appended since `size` by that text's size. */
static void log_keep_or_omit(struct buffer *line, size_t size, const char *name, struct bytes text)
{
    if (!buffer_failed(line) && log_fits(line, 0))
        return;
    line->size = size;
    line->failed = false;
    json_put_number(line, name, text.size);
}

static void log_append_payload(struct buffer *line, const struct timer_texts *texts)
{
    const size_t size = line->size;
    const struct bytes payload = texts->payload;

    if (!payload.size && !texts->content_type.size)
        return;
    if (texts->content_type.size)
        log_append_string(line, "content_type", texts->content_type);
    if (log_fits(line, payload.size)) {
        json_put_name(line, texts->content_type.size ? "body_base64" : "payload");
        if (texts->content_type.size) {
            buffer_append_text(line, "\"");
            base64_append(line, payload);
            buffer_append_text(line, "\"");
        } else {
            log_append_json(line, payload);
        }
    } else {
        line->failed = true;
    }
    log_keep_or_omit(line, size, "payload_bytes", payload);
}

/* Formats a line. It begins with a line break, which is sent only if the last line is incomplete.
 * The limits of keys and names keep the part before the labels far below LINE_SIZE_MAX. */
static void log_format(struct buffer *line, const struct delivery *delivery, uint64_t now_us)
{
    const struct timer *timer = delivery->timer;
    const struct timer_texts *texts = &timer->texts;
    const uint64_t now_ms = now_us / 1000;

    buffer_clear(line);
    buffer_append_text(line, "\n");
    json_open(line, NULL, '{');
    timer_id_put(line, "id", &timer->id);
    rfc3339_put(line, "due", timer->due);
    rfc3339_put(line, "fired", (struct wall){now_ms});
    json_put_number(line, "late_ms", now_ms > timer->due.ms ? now_ms - timer->due.ms : 0);
    json_put_number(line, "attempt", delivery->attempt);
    log_append_string(line, "name", timer_target_name(timer));
    log_append_string(line, "key", texts->key);
    struct backfill backfill;
    if (schedule_backfill(texts->schedule, &backfill))
        json_put_string(line, "backfill", backfill.of);
    if (texts->labels.size) {
        const size_t size = line->size;

        json_put_name(line, "labels");
        log_append_json(line, texts->labels);
        log_keep_or_omit(line, size, "labels_bytes", texts->labels);
    }
    log_append_payload(line, texts);
    buffer_append_text(line, "}\n");
}

/* ---- the thread ---- */

static void log_sender_end(struct log_sender *log, struct delivery *delivery,
                           enum delivery_result result, const char *error)
{
    delivery->outcome = (struct delivery_outcome){.result = result};
    snprintf(delivery->outcome.error, sizeof(delivery->outcome.error), "%s", error);
    delivery->ended_us = wall_now_us();
    list_remove(&delivery->link);
    list_push(&log->ended, &delivery->link);
}

/* Writes one line with one write. After a short write, the rest is dropped. */
static void log_write(struct log_sender *log, struct delivery *delivery)
{
    const uint64_t now_us = wall_now_us();

    if (delivery_has_lapsed(delivery)) {
        delivery_return(delivery);
        list_remove(&delivery->link);
        list_push(&log->ended, &delivery->link);
        return;
    }
    const uint64_t waits_since_us = delivery->started_us;
    delivery->started_us = now_us;
    log_format(&log->line, delivery, now_us);
    if (buffer_failed(&log->line)) {
        log_sender_end(log, delivery, DELIVERY_FAILED, "out of memory");
        return;
    }
    const size_t skipped = log->is_torn ? 0 : 1, size = log->line.size - skipped;
    const ssize_t written = output_write(&log->output, log->line.data + skipped, size);
    /* another process that writes to the same pipe has filled it */
    if (written < 0 && errno == EAGAIN) {
        delivery->started_us = waits_since_us;
        return;
    }
    if (written == (ssize_t)size) {
        log->is_torn = false;
        log_sender_end(log, delivery, DELIVERY_DONE, "");
        return;
    }
    log->is_torn |= written > 0;
    char error[sizeof(delivery->outcome.error)];
    snprintf(error, sizeof(error), "the standard output takes no line: %s",
             written < 0 ? strerrordesc_np(errno) : "it is full");
    log_sender_end(log, delivery, DELIVERY_FAILED, error);
}

/* Fails deliveries that waited as long as an attempt may take. Returns in how many milliseconds the
 * next one will fail; -1 if none waits. */
static int log_expire(struct log_sender *log)
{
    const uint64_t now_us = wall_now_us();
    uint64_t least_ms = UINT64_MAX;

    LIST_FOR_EACH (&log->waiting, link) {
        struct delivery *delivery = log_delivery(link);
        const uint64_t timeout_ms = delivery->timer->retry.timeout_ms;
        const uint64_t waited_ms =
            now_us > delivery->started_us ? (now_us - delivery->started_us) / 1000 : 0;

        if (waited_ms >= timeout_ms)
            log_sender_end(log, delivery, DELIVERY_FAILED,
                           "the standard output takes no line: its reader is behind");
        else if (timeout_ms - waited_ms < least_ms)
            least_ms = timeout_ms - waited_ms;
    }
    if (list_is_empty(&log->waiting))
        return -1;
    return least_ms < 60 * 1000 ? (int)least_ms : 60 * 1000;
}

static void log_take(struct log_sender *log)
{
    const uint64_t now_us = wall_now_us();
    struct list messages;

    list_init(&messages);
    mailbox_take(&log->mailbox, &messages);
    LIST_FOR_EACH (&messages, link) {
        list_remove(link);
        if (link == &log->stop) {
            log->is_stopping = true;
            continue;
        }
        /* until the line is written, the begin of the wait */
        log_delivery(link)->started_us = now_us;
        list_push(&log->waiting, link);
    }
}

static void log_hand_back(struct log_sender *log)
{
    if (!list_is_empty(&log->ended))
        log->options.done(log->options.context, &log->ended);
}

static void *log_run(void *context)
{
    struct log_sender *log = context;

    while (!log->is_stopping) {
        for (int i = 0; i < TURN_LINES_MAX && !list_is_empty(&log->waiting); i++) {
            if (!output_wait(&log->output, 0, -1))
                break;
            log_write(log, log_delivery(log->waiting.next));
        }
        const int timeout_ms = log_expire(log);
        log_hand_back(log);
        if (timeout_ms < 0)
            mailbox_wait(&log->mailbox, UINT64_MAX);
        else
            output_wait(&log->output, timeout_ms, mailbox_fd(&log->mailbox));
        log_take(log);
    }
    return NULL;
}

/* ---- the sender ---- */

static enum error_code log_start(const struct sender_options *options, void **ret_self,
                                 struct error *ret_error)
{
    struct log_sender *log = calloc(1, sizeof(*log));

    if (!log)
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    log->options = *options;
    list_init(&log->stop);
    list_init(&log->waiting);
    list_init(&log->ended);
    buffer_init(&log->line);
    if (mailbox_init(&log->mailbox)) {
        free(log);
        return error_set(ret_error, ERROR_IO, "no descriptor left for log: targets");
    }
    output_open(&log->output, STDOUT_FILENO);
    *ret_self = log;
    return ERROR_NONE;
}

static enum error_code log_begin(void *self, struct error *ret_error)
{
    struct log_sender *log = self;

    log->has_thread = thread_start(&log->thread, log_run, log, "log") == 0;
    return log->has_thread ? ERROR_NONE
                           : error_set(ret_error, ERROR_IO, "no thread left for log: targets");
}

static enum error_code log_check(void *self, struct bytes tenant, struct bytes text,
                                 const struct target *target, struct error *ret_error)
{
    (void)self;
    (void)text;
    (void)target;
    if (!tenant.size)
        return ERROR_NONE;
    return error_set(
        ret_error, ERROR_INVALID,
        "only a timer without a tenant may use log: because it writes to the operator's output");
}

static void log_post(void *self, struct list *deliveries)
{
    struct log_sender *log = self;

    mailbox_post_all(&log->mailbox, deliveries);
}

static void log_stop(void *self)
{
    struct log_sender *log = self;

    mailbox_post(&log->mailbox, &log->stop);
    if (log->has_thread)
        pthread_join(log->thread, NULL);
    do { /* repeated, because `done` may post further deliveries */
        log_take(log);
        LIST_FOR_EACH (&log->waiting, link)
            log_sender_end(log, log_delivery(link), DELIVERY_FAILED, "the service is stopping");
        log_hand_back(log);
        log_take(log);
    } while (!list_is_empty(&log->waiting));
    mailbox_deinit(&log->mailbox);
    buffer_deinit(&log->line);
    output_close(&log->output);
    free(log);
}

const struct sender sender_log = {
    .start = log_start,
    .begin = log_begin,
    .check = log_check,
    .post = log_post,
    .stop = log_stop,
};
