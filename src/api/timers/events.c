/*
 * events.c - GET /v1/events: changes of the caller's timers, and of what holds them back, as
 * server-sent events.
 *
 * A stream reads the feed (node/feed.h) whenever its client has taken everything before, so a slow
 * client costs no memory: it falls behind the feed's buffer, is told so, and the stream ends.
 */
#include "api/core/call.h"
#include "api/timers/list.h"
#include "api/timers/timers.h"

#include "base/json_write.h"
#include "calendar/rfc3339.h"

#include <stdlib.h>

/* Approximate size of the output of one call. */
enum { EVENTS_CHUNK_BYTES = 32 << 10 };

struct event_stream {
    struct feed_listener listener;
    struct call *call;
    struct list_query query;
    bool is_listening;
    bool has_read;
};

/* Context of events_take. */
struct events_reading {
    const struct event_stream *events;
    struct buffer *out;
    size_t size; /* size of `out` before */
};

static void events_wake(struct feed_listener *listener)
{
    http_request_wake(list_item(listener, struct event_stream, listener)->call->http);
}

/* Appends the members of an event that is about no timer. */
static void events_append_hold(const struct feed_event *event, struct buffer *out)
{
    const struct bytes queue = BYTES("queue:");
    struct bytes name = event->hold.name;

    if (bytes_has_prefix(name, queue))
        name = (struct bytes){name.data + queue.size, name.size - queue.size};
    json_put_some(out, "name", name);
    if (event->kind == FEED_QUEUE_PAUSED || event->kind == FEED_TARGET_PAUSED)
        timer_json_put_pause(&event->hold, event->at, out);
    if (event->kind == FEED_TARGET_RESET)
        json_put_number(out, "reset", event->reset_count);
}

static void events_recheck(struct call *call)
{
    http_request_wake(call->http);
}

static bool events_take(void *context, const struct feed_event *event, const char *name)
{
    struct events_reading *reading = context;
    const struct list_query *query = &reading->events->query;
    const struct timer_json_view view = call_view(reading->events->call);
    struct buffer *out = reading->out;

    if (!(query->kinds & 1u << event->kind) ||
        !(event->timer ? list_wants(query, event->timer) : !timer_filter_has_text(&query->filter)))
        return true;
    if (out->size - reading->size > EVENTS_CHUNK_BYTES)
        return false;
    buffer_printf(out, "id: %s\nevent: %s\ndata: ", name, feed_kind_text(event->kind));
    json_open(out, NULL, '{');
    json_put_text(out, "type", feed_kind_text(event->kind));
    rfc3339_put(out, "at", event->at);
    if (event->timer) {
        json_put_name(out, "timer");
        timer_json_format(event->timer, &view, out);
    } else {
        events_append_hold(event, out);
    }
    buffer_append_text(out, "}\n\n");
    return true;
}

bool events_streamed(struct call *call, bool is_idle, struct buffer *out)
{
    struct event_stream *events = call->state;
    struct events_reading reading = {.events = events, .out = out, .size = out->size};
    enum feed_result result;

    if (access_recheck(call->api->access, &call->caller))
        return false;
    do {
        result =
            feed_read(node_feed(call->api->options.node), &events->listener, events_take, &reading);
        if (result == FEED_LOST)
            buffer_append_text(
                out, "event: lost\ndata: {\"detail\":\"Events are missing here: list the timers\"}"
                     "\n\n");
        if (result == FEED_ENDED || (result == FEED_LOST && events->has_read))
            return false;
        events->has_read |= result != FEED_LOST;
    } while (result == FEED_MORE && out->size == reading.size);
    if (is_idle && out->size == reading.size)
        buffer_append_text(out, ":\n\n");
    return true;
}

/* Parses the query and begins to listen. */
static enum error_code events_listen(struct call *call, struct event_stream *events,
                                     struct problem *ret_problem)
{
    struct bytes last = http_request_header(call->http, "Last-Event-ID");
    enum error_code error =
        list_query_parse(call->query, LIST_EVENTS, call->query_room, &events->query, ret_problem);

    if (error)
        return error;
    if (!last.size)
        last = events->query.last_event;
    events->listener.tenant = caller_tenant(&call->caller);
    events->listener.wake = events_wake;
    error = feed_listen(node_feed(call->api->options.node), &events->listener, last);
    events->is_listening = !error;
    if (error)
        problem_set(ret_problem, error, "",
                    "At most %d of a tenant listen at a time, and %d in all",
                    FEED_TENANT_LISTENERS_MAX, FEED_LISTENERS_MAX);
    return error;
}

void events_end(struct call *call)
{
    struct event_stream *events = calloc(1, sizeof(*events));

    call->state = events;
    if (!events) {
        call_answer_error(call, ERROR_NO_MEMORY, "");
        return;
    }
    events->call = call;
    struct problem problem;
    if (events_listen(call, events, &problem)) {
        call_answer_problem(call, &problem);
        return;
    }
    const enum error_code error = call_hold(call, events_recheck);
    if (error) {
        call_answer_no_access(call, error);
        return;
    }
    struct http_response response = {.status = 200, .content_type = "text/event-stream"};
    http_response_header(&response, "Cache-Control", "no-store, no-transform");
    /* otherwise nginx would buffer events */
    http_response_header(&response, "X-Accel-Buffering", "no");
    buffer_append_text(&response.body, "retry: 1000\n\n");
    call_stream(call, &response);
}

void events_closed(struct call *call)
{
    struct event_stream *events = call->state;

    if (!events)
        return;
    if (events->is_listening)
        feed_leave(node_feed(call->api->options.node), &events->listener);
    free(events);
}
