/* event_log_queue.c - a ring of bytes, and the thread that writes its lines one by one. The thread
 * ends when there was no line for a while, and the next line starts it again. */
#include "ops/event_log_queue.h"

#include "ops/metrics.h"
#include "sys/clock.h"
#include "sys/output.h"
#include "sys/process.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define STUCK_MS 100  /* pause before a write is tried again to an output that had no room */
#define IDLE_MS  2000 /* time in milliseconds without a line after which the thread ends */

_Static_assert(EVENT_LOG_LINE_SIZE <= OUTPUT_ATOMIC_MAX, "a line is written whole");

struct event_log_queue {
    struct event_log_queue_options options;
    struct output output; /* used by the thread alone */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* waits with deadlines of the monotonic clock */
    /* The following fields are guarded by lock. */
    char text[EVENT_LOG_QUEUE_BYTES];
    size_t begin, size; /* position of the waiting lines in `text`, which is a ring */
    uint64_t dropped;   /* dropped lines that were not reported by a line yet */
    pthread_t thread;
    bool has_thread; /* the thread was started and was not joined yet */
    bool is_running; /* the thread takes lines; cleared when it is about to end */
    bool is_stopping;
    struct instant give_up_at; /* during a stop: time at which waiting lines are given up */
};

/* ---- the ring ---- */

static bool event_log_queue_has_room(const struct event_log_queue *queue, size_t size)
{
    return queue->size + size <= sizeof(queue->text);
}

static void event_log_queue_put(struct event_log_queue *queue, const char *line, size_t size)
{
    for (size_t i = 0; i < size; i++)
        queue->text[(queue->begin + queue->size + i) % sizeof(queue->text)] = line[i];
    queue->size += size;
}

/* Removes the first line. Returns its size; 0 if there is none. */
static size_t event_log_queue_pop(struct event_log_queue *queue, char ret_line[EVENT_LOG_LINE_SIZE])
{
    size_t size = 0;

    while (size < queue->size && size < EVENT_LOG_LINE_SIZE) {
        ret_line[size] = queue->text[(queue->begin + size) % sizeof(queue->text)];
        if (ret_line[size++] == '\n')
            break;
    }
    queue->begin = (queue->begin + size) % sizeof(queue->text);
    queue->size -= size;
    return size;
}

/* If lines were dropped, adds a line with their number, provided that there is room. */
static void event_log_queue_tell_dropped(struct event_log_queue *queue)
{
    char line[EVENT_LOG_LINE_SIZE];

    if (!queue->dropped || !event_log_queue_has_room(queue, 2 * sizeof(line)))
        return;
    const size_t size = queue->options.format_dropped(queue->options.context, queue->dropped, line);
    event_log_queue_put(queue, line, size);
    queue->dropped = 0;
}

/* ---- the thread ---- */

/* Marks the thread as ended, which is the last thing that it does. The caller holds the lock. */
static void event_log_queue_leave(struct event_log_queue *queue)
{
    queue->is_running = false;
    pthread_cond_broadcast(&queue->changed);
}

/* Waits for the next line. Returns its size. 0 means that no line came for IDLE_MS or the queue is
 * stopping, so the thread must end. */
static size_t event_log_queue_next(struct event_log_queue *queue,
                                   char ret_line[EVENT_LOG_LINE_SIZE])
{
    const struct timespec until = instant_timespec(instant_add_ms(instant_now(), IDLE_MS));
    int timed_out = 0;

    pthread_mutex_lock(&queue->lock);
    for (;;) {
        if (queue->size == 0)
            event_log_queue_tell_dropped(queue);
        if (queue->size > 0 || queue->is_stopping || timed_out)
            break;
        timed_out = pthread_cond_timedwait(&queue->changed, &queue->lock, &until);
    }
    const size_t size = event_log_queue_pop(queue, ret_line);
    if (size == 0)
        event_log_queue_leave(queue);
    pthread_mutex_unlock(&queue->lock);
    return size;
}

static bool event_log_queue_gives_up(struct event_log_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    const bool gives_up = queue->is_stopping && instant_now().ns >= queue->give_up_at.ns;
    pthread_mutex_unlock(&queue->lock);
    return gives_up;
}

/* Writes a line, which is lost if the output is broken. Returns false if it was given up because
 * the queue is stopping. */
static bool event_log_queue_write(struct event_log_queue *queue, const char *line, size_t size)
{
    for (size_t sent = 0; sent < size;) {
        const ssize_t written = output_write(&queue->output, line + sent, size - sent);

        if (written >= 0)
            sent += (size_t)written;
        else if (errno != EAGAIN && errno != EINTR)
            return true;
        else if (event_log_queue_gives_up(queue))
            return false;
        else
            output_wait(&queue->output, STUCK_MS, -1);
    }
    return true;
}

static void *event_log_queue_run(void *context)
{
    struct event_log_queue *queue = context;
    char line[EVENT_LOG_LINE_SIZE];

    for (size_t size; (size = event_log_queue_next(queue, line)) > 0;)
        if (!event_log_queue_write(queue, line, size)) {
            pthread_mutex_lock(&queue->lock);
            event_log_queue_leave(queue);
            pthread_mutex_unlock(&queue->lock);
            break;
        }
    return NULL;
}

/* Starts the thread unless it takes lines. The caller holds the lock; a thread that has stopped
 * taking lines no longer needs it. If the system has no thread, lines wait until the next one is
 * added. */
static void event_log_queue_begin(struct event_log_queue *queue)
{
    if (queue->is_running)
        return;
    if (queue->has_thread)
        pthread_join(queue->thread, NULL);
    queue->has_thread = thread_start(&queue->thread, event_log_queue_run, queue, "event_log") == 0;
    queue->is_running = queue->has_thread;
}

void event_log_queue_add(struct event_log_queue *queue, const char *line, size_t size)
{
    assert(size <= EVENT_LOG_LINE_SIZE);
    pthread_mutex_lock(&queue->lock);
    event_log_queue_tell_dropped(queue);
    if (!queue->dropped && event_log_queue_has_room(queue, size)) {
        event_log_queue_put(queue, line, size);
        event_log_queue_begin(queue);
        pthread_cond_broadcast(&queue->changed);
    } else {
        queue->dropped++;
        metrics_add(queue->options.metrics, METRIC_LOG_LINES_DROPPED, 1);
    }
    pthread_mutex_unlock(&queue->lock);
}

/* ---- start and stop ---- */

static void event_log_queue_free(struct event_log_queue *queue)
{
    output_close(&queue->output);
    pthread_cond_destroy(&queue->changed);
    pthread_mutex_destroy(&queue->lock);
    free(queue);
}

enum error_code event_log_queue_start(const struct event_log_queue_options *options,
                                      struct event_log_queue **ret_queue, struct error *ret_error)
{
    struct event_log_queue *queue = calloc(1, sizeof(*queue));

    if (!queue)
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    queue->options = *options;
    output_open(&queue->output, options->fd);
    instant_condition_init(&queue->changed);
    pthread_mutex_init(&queue->lock, NULL);
    pthread_mutex_lock(&queue->lock);
    event_log_queue_begin(queue);
    const bool is_running = queue->is_running;
    pthread_mutex_unlock(&queue->lock);
    if (!is_running) {
        event_log_queue_free(queue);
        return error_set(ret_error, ERROR_IO, "no thread left for the log");
    }
    *ret_queue = queue;
    return ERROR_NONE;
}

/* If a write to a file hangs in the system, the thread and the queue are abandoned. */
void event_log_queue_stop(struct event_log_queue *queue)
{
    if (!queue)
        return;
    const struct instant now = instant_now();
    const uint64_t until_ns = instant_add_ms(now, 2 * EVENT_LOG_STOP_MS).ns;
    const struct timespec until = {(time_t)(until_ns / 1000000000), (long)(until_ns % 1000000000)};
    pthread_mutex_lock(&queue->lock);
    queue->is_stopping = true;
    queue->give_up_at = instant_add_ms(now, EVENT_LOG_STOP_MS);
    if (queue->size > 0)
        event_log_queue_begin(queue);
    pthread_cond_broadcast(&queue->changed);
    while (queue->is_running && pthread_cond_timedwait(&queue->changed, &queue->lock, &until) == 0)
        ;
    const bool is_running = queue->is_running;
    pthread_mutex_unlock(&queue->lock);
    if (is_running) {
        pthread_detach(queue->thread);
        return;
    }
    if (queue->has_thread)
        pthread_join(queue->thread, NULL);
    event_log_queue_free(queue);
}
