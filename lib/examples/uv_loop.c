/*
 * uv_loop.c - reminders: a wheel in a libuv loop, with one uv_timer for any number of timers.
 *
 *     uv_loop < a pipe of lines "MILLISECONDS TEXT"
 *
 * Prints each text when it is due, and ends when all are printed and the input is closed.
 */
#include <tickwheel/wheel.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

struct reminders {
    uv_loop_t loop;
    uv_pipe_t input;
    uv_prepare_t before_sleep;
    uv_timer_t alarm;
    struct tw_wheel *wheel; /* a timer's data is its text, on the heap */
    size_t length;
    char line[4096]; /* the unfinished line, `length` bytes */
};

/* [quote: loop] */
static void say_what_is_due(uv_timer_t *alarm)
{
    struct reminders *reminders = alarm->data;
    struct tw_expired due[256];

    do {
        size_t count = tw_wheel_expire(reminders->wheel, uv_now(&reminders->loop), due, 256);
        for (size_t i = 0; i < count; i++) {
            char *text = (char *)(uintptr_t)due[i].data;
            puts(text);
            free(text);
        }
    } while (tw_wheel_is_behind(reminders->wheel));
}

/* Called once per turn of the loop, whatever the number of timers scheduled, moved and cancelled in
 * it. */
static void set_alarm(uv_prepare_t *before_sleep)
{
    struct reminders *reminders = before_sleep->data;
    int timeout_ms = tw_wheel_timeout(reminders->wheel, uv_now(&reminders->loop));

    if (timeout_ms >= 0)
        uv_timer_start(&reminders->alarm, say_what_is_due, (uint64_t)timeout_ms, 0);
    else if (uv_is_closing((uv_handle_t *)&reminders->input))
        uv_prepare_stop(before_sleep); /* then the loop ends */
}
/* [end] */

static void remind(struct reminders *reminders, const char *line)
{
    char *rest;
    uint64_t delay_ms = strtoull(line, &rest, 10);
    char *text = strdup(rest + strspn(rest, " "));

    /* libuv's time stands still during a turn. One millisecond is added because the current one has
     * begun. */
    uv_update_time(&reminders->loop);
    uint64_t now = uv_now(&reminders->loop) + 1;
    uint64_t deadline = delay_ms < TW_NEVER - now ? now + delay_ms : TW_NEVER;
    if (!text || tw_wheel_schedule(reminders->wheel, deadline, (uintptr_t)text) == TW_NONE) {
        fprintf(stderr, "out of memory: %s\n", line);
        free(text);
    }
}

static void offer_room(uv_handle_t *input, size_t wanted, uv_buf_t *ret_room)
{
    struct reminders *reminders = input->data;
    (void)wanted;
    *ret_room = uv_buf_init(reminders->line + reminders->length,
                            (unsigned)(sizeof(reminders->line) - reminders->length));
}

/* A line that does not fit ends the input; libuv reports it as UV_ENOBUFS. */
static void take_lines(uv_stream_t *input, ssize_t count, const uv_buf_t *bytes)
{
    struct reminders *reminders = input->data;
    char *line = reminders->line, *end;
    (void)bytes;

    if (count < 0) {
        uv_close((uv_handle_t *)input, NULL);
        return;
    }
    reminders->length += (size_t)count;
    for (size_t left; (left = reminders->length - (size_t)(line - reminders->line)) > 0 &&
                      (end = memchr(line, '\n', left)) != NULL;
         line = end + 1) {
        *end = '\0';
        remind(reminders, line);
    }
    reminders->length -= (size_t)(line - reminders->line);
    memmove(reminders->line, line, reminders->length);
}

int main(void)
{
    static struct reminders reminders;
    uv_loop_t *loop = &reminders.loop;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (uv_loop_init(loop) != 0)
        return 1;
    reminders.wheel = tw_wheel_create(&(struct tw_wheel_options){.start = uv_now(loop)});
    reminders.alarm.data = reminders.before_sleep.data = reminders.input.data = &reminders;
    if (!reminders.wheel || uv_timer_init(loop, &reminders.alarm) != 0 ||
        uv_prepare_init(loop, &reminders.before_sleep) != 0 ||
        uv_prepare_start(&reminders.before_sleep, set_alarm) != 0 ||
        uv_pipe_init(loop, &reminders.input, 0) != 0 || uv_pipe_open(&reminders.input, 0) != 0 ||
        uv_read_start((uv_stream_t *)&reminders.input, offer_room, take_lines) != 0)
        return 1;
    uv_run(loop, UV_RUN_DEFAULT);

    uv_close((uv_handle_t *)&reminders.before_sleep, NULL);
    uv_close((uv_handle_t *)&reminders.alarm, NULL);
    uv_run(loop, UV_RUN_DEFAULT);
    uv_loop_close(loop);
    tw_wheel_destroy(reminders.wheel);
    return 0;
}
