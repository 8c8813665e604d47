/* handler.c - the handler of the server's tests: answers, delays or pauses as the path demands. */
#include "http/testing/handler.h"

#include "base/list.h"
#include "sys/clock.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

enum { HANDLER_THREADS_MAX = 8 };

struct handler {
    struct http_server *server;
    uint16_t port;
    pthread_t helper;
    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t changed;
    struct list parked, resumable; /* of struct visit */
    struct list gathered[HANDLER_THREADS_MAX];
    size_t parked_count, begun, ended, left, closed, flooded;
    enum http_refusal refusal;
    bool is_stopping;
};

/* One request. */
struct visit {
    struct list link;
    struct handler *handler;
    struct http_request *request;
    struct buffer body;
};

static bool is_path(const struct http_request *request, const char *path)
{
    return bytes_equal(http_request_target(request), bytes_of(path));
}

static void say(struct http_request *request, int status, struct bytes text)
{
    struct http_response response = {.status = status, .content_type = "text/plain"};

    buffer_append_bytes(&response.body, text);
    http_response_header(&response, "X-Test", "%d", status);
    http_request_answer(request, &response);
}

static void handler_post(struct visit *visit, struct list *list)
{
    struct handler *handler = visit->handler;

    pthread_mutex_lock(&handler->lock);
    list_push(list, &visit->link);
    handler->parked_count += list == &handler->parked;
    pthread_cond_broadcast(&handler->changed);
    pthread_mutex_unlock(&handler->lock);
}

/* ---- the handler ---- */

static struct visit *handler_enter(struct handler *handler, struct http_request *request)
{
    struct visit *visit = calloc(1, sizeof(*visit));

    assert(visit && !http_request_user(request));
    visit->handler = handler;
    visit->request = request;
    http_request_set_user(request, visit);
    pthread_mutex_lock(&handler->lock);
    handler->begun++;
    pthread_mutex_unlock(&handler->lock);
    return visit;
}

static void on_begin(void *context, struct http_request *request)
{
    handler_enter(context, request);
    if (is_path(request, "/early"))
        say(request, 404, BYTES("early"));
}

static size_t on_body(struct http_request *request, struct bytes chunk)
{
    struct visit *visit = http_request_user(request);

    if (is_path(request, "/bites") && chunk.size > 3)
        chunk.size = 3;
    buffer_append_bytes(&visit->body, chunk);
    if (is_path(request, "/limit") && visit->body.size > 10)
        say(request, 413, BYTES("limit"));
    if (is_path(request, "/hangup"))
        http_request_hang_up(request);
    if (is_path(request, "/bites")) {
        http_request_pause(request);
        handler_post(visit, &visit->handler->resumable);
    }
    if (is_path(request, "/held")) {
        http_request_pause(request);
        handler_post(visit, &visit->handler->parked);
    }
    return chunk.size;
}

static void on_end(struct http_request *request)
{
    struct visit *visit = http_request_user(request);
    struct http_response response = {.status = 200, .content_type = "text/plain"};

    pthread_mutex_lock(&visit->handler->lock);
    visit->handler->ended++;
    pthread_mutex_unlock(&visit->handler->lock);
    if (is_path(request, "/park")) {
        handler_post(visit, &visit->handler->parked);
    } else if (is_path(request, "/twice")) {
        handler_post(visit, &visit->handler->resumable);
    } else if (is_path(request, "/thread")) {
        buffer_printf(&visit->body, "%u", http_request_thread(request));
        say(request, 200, buffer_bytes(&visit->body));
    } else if (is_path(request, "/slow")) {
        const struct instant begun = instant_now();

        while (instant_since_ns(begun, instant_now()) < HANDLER_SLOW_NS)
            continue;
        say(request, 200, BYTES("slow"));
    } else if (is_path(request, "/turned")) {
        handler_post(visit, &visit->handler->gathered[http_request_thread(request)]);
    } else if (is_path(request, "/big")) {
        char *room = buffer_reserve(&response.body, HANDLER_BIG_SIZE);

        assert(room);
        memset(room, 'b', HANDLER_BIG_SIZE);
        response.body.size = HANDLER_BIG_SIZE;
        http_request_answer(request, &response);
    } else if (is_path(request, "/lent")) {
        response.lent = BYTES("lent");
        http_request_answer(request, &response);
    } else if (is_path(request, "/stream") || is_path(request, "/flood")) {
        handler_post(visit, &visit->handler->parked);
        buffer_append_text(&response.body, "begins\n");
        http_request_stream(request, &response);
    } else if (is_path(request, "/failed")) {
        buffer_append_text(&response.body, "half of it");
        response.body.failed = true;
        http_request_answer(request, &response);
    } else if (is_path(request, "/vouch")) {
        say(request, http_request_vouch(request, NULL) ? 200 : 503, BYTES("vouch"));
    } else if (is_path(request, "/hello")) {
        say(request, 200, BYTES("hello"));
    } else {
        say(request, 200, buffer_bytes(&visit->body));
    }
}

static void on_resumed(struct http_request *request)
{
    say(request, 200, BYTES("twice"));
}

static bool on_streamed(struct http_request *request, bool is_idle, struct buffer *out)
{
    struct visit *visit = http_request_user(request);
    struct handler *handler = visit->handler;
    bool goes_on = true;

    (void)is_idle;
    pthread_mutex_lock(&handler->lock);
    if (is_path(request, "/flood")) {
        for (int i = 0; i < 1024; i++)
            buffer_append_text(out, "0123456789abcde\n");
        handler->flooded += 1024 * 16;
    } else {
        goes_on = !bytes_equal(buffer_bytes(&visit->body), BYTES("end"));
        buffer_append_bytes(out, buffer_bytes(&visit->body));
        buffer_clear(&visit->body);
    }
    pthread_mutex_unlock(&handler->lock);
    return goes_on;
}

static void handler_on_left(struct http_request *request)
{
    const struct visit *visit = http_request_user(request);
    struct handler *handler = visit->handler;

    pthread_mutex_lock(&handler->lock);
    handler->left++;
    pthread_cond_broadcast(&handler->changed);
    pthread_mutex_unlock(&handler->lock);
}

static void handler_on_closed(struct http_request *request)
{
    struct visit *visit = http_request_user(request);
    struct handler *handler = visit->handler;

    pthread_mutex_lock(&handler->lock);
    if (is_path(request, "/stream") || is_path(request, "/flood"))
        list_remove(&visit->link);
    buffer_deinit(&visit->body);
    free(visit);
    handler->closed++;
    pthread_cond_broadcast(&handler->changed);
    pthread_mutex_unlock(&handler->lock);
}

static void on_refuse(void *context, struct http_request *request, enum http_refusal refusal)
{
    struct handler *handler = handler_enter(context, request)->handler;

    pthread_mutex_lock(&handler->lock);
    handler->refusal = refusal;
    pthread_mutex_unlock(&handler->lock);
    say(request,
        refusal == HTTP_REFUSED_HEADERS     ? 431
        : refusal == HTTP_REFUSED_MALFORMED ? 400
                                            : 503,
        BYTES("refused"));
}

static void handler_on_turned(void *context, unsigned thread)
{
    struct handler *handler = context;
    struct list gathered;

    list_init(&gathered);
    pthread_mutex_lock(&handler->lock);
    list_join(&gathered, &handler->gathered[thread]);
    pthread_mutex_unlock(&handler->lock);
    for (struct list *link; (link = list_pop(&gathered));) {
        struct http_request *request = list_item(link, struct visit, link)->request;

        assert(http_request_thread(request) == thread);
        say(request, 200, BYTES("turned"));
    }
}

static void *help(void *argument)
{
    struct handler *handler = argument;

    pthread_mutex_lock(&handler->lock);
    while (!handler->is_stopping) {
        struct list *link = list_pop(&handler->resumable);

        if (!link) {
            pthread_cond_wait(&handler->changed, &handler->lock);
            continue;
        }
        pthread_mutex_unlock(&handler->lock);
        http_request_resume(list_item(link, struct visit, link)->request);
        pthread_mutex_lock(&handler->lock);
    }
    pthread_mutex_unlock(&handler->lock);
    return NULL;
}

/* ---- the test's side ---- */

struct handler *handler_start(const struct http_options *wanted)
{
    static const struct http_handler calls = {.begin = on_begin,
                                              .body = on_body,
                                              .end = on_end,
                                              .resumed = on_resumed,
                                              .streamed = on_streamed,
                                              .left = handler_on_left,
                                              .closed = handler_on_closed,
                                              .refuse = on_refuse,
                                              .turned = handler_on_turned};
    struct http_options options = *wanted;
    struct handler *handler = calloc(1, sizeof(*handler));

    assert(handler);
    pthread_mutex_init(&handler->lock, NULL);
    pthread_cond_init(&handler->changed, NULL);
    list_init(&handler->parked);
    list_init(&handler->resumable);
    for (int i = 0; i < HANDLER_THREADS_MAX; i++)
        list_init(&handler->gathered[i]);
    options.address = options.address ? options.address : "127.0.0.1";
    options.threads = options.threads ? options.threads : 2;
    assert(options.threads <= HANDLER_THREADS_MAX);
    options.connections_max = options.connections_max ? options.connections_max : 64;
    options.header_bytes_max = options.header_bytes_max ? options.header_bytes_max : 8192;
    options.idle_ms = options.idle_ms ? options.idle_ms : 60000;
    options.drain_ms = options.drain_ms ? options.drain_ms : 60000;
    options.handler = &calls;
    options.context = handler;
    struct error error;
    if (http_server_start(&options, &handler->server, &error))
        abort();
    handler->port = http_server_port(handler->server);
    if (pthread_create(&handler->helper, NULL, help, handler) != 0)
        abort();
    return handler;
}

void handler_stop(struct handler *handler)
{
    http_server_stop(handler->server);
    handler->server = NULL;
}

void handler_destroy(struct handler *handler)
{
    handler_stop(handler);
    pthread_mutex_lock(&handler->lock);
    handler->is_stopping = true;
    pthread_cond_broadcast(&handler->changed);
    pthread_mutex_unlock(&handler->lock);
    pthread_join(handler->helper, NULL);
    assert(handler->begun == handler->closed);
    assert(list_is_empty(&handler->parked) && list_is_empty(&handler->resumable));
    pthread_cond_destroy(&handler->changed);
    pthread_mutex_destroy(&handler->lock);
    free(handler);
}

struct http_server *handler_server(struct handler *handler)
{
    return handler->server;
}

uint16_t handler_port(struct handler *handler)
{
    return handler->port;
}

/* `count` is one of the handler's. */
static void await(struct handler *handler, const size_t *count, size_t wanted)
{
    pthread_mutex_lock(&handler->lock);
    while (*count < wanted)
        pthread_cond_wait(&handler->changed, &handler->lock);
    pthread_mutex_unlock(&handler->lock);
}

void handler_await_parked(struct handler *handler, size_t count)
{
    await(handler, &handler->parked_count, count);
}

void handler_await_left(struct handler *handler, size_t count)
{
    await(handler, &handler->left, count);
}

size_t handler_left(struct handler *handler)
{
    pthread_mutex_lock(&handler->lock);
    const size_t left = handler->left;
    pthread_mutex_unlock(&handler->lock);
    return left;
}

void handler_await_closed(struct handler *handler, size_t count)
{
    await(handler, &handler->closed, count);
}

static struct http_request *unpark(struct handler *handler)
{
    pthread_mutex_lock(&handler->lock);
    struct list *link;
    while (!(link = list_pop(&handler->parked)))
        pthread_cond_wait(&handler->changed, &handler->lock);
    pthread_mutex_unlock(&handler->lock);
    return list_item(link, struct visit, link)->request;
}

void handler_answer(struct handler *handler)
{
    say(unpark(handler), 200, BYTES("parked"));
}

void handler_say(struct handler *handler, const char *text)
{
    pthread_mutex_lock(&handler->lock);
    struct visit *visit = list_item(handler->parked.next, struct visit, link);
    assert(!list_is_empty(&handler->parked));
    buffer_append_text(&visit->body, text);
    http_request_wake(visit->request);
    pthread_mutex_unlock(&handler->lock);
}

size_t handler_flooded(struct handler *handler)
{
    pthread_mutex_lock(&handler->lock);
    size_t flooded = handler->flooded;
    pthread_mutex_unlock(&handler->lock);
    return flooded;
}

void handler_resume(struct handler *handler)
{
    http_request_resume(unpark(handler));
}

void handler_answer_or_resume(struct handler *handler)
{
    struct http_request *request = unpark(handler);

    if (is_path(request, "/held"))
        http_request_resume(request);
    else
        say(request, 200, BYTES("parked"));
}

size_t handler_ended(struct handler *handler)
{
    pthread_mutex_lock(&handler->lock);
    size_t ended = handler->ended;
    pthread_mutex_unlock(&handler->lock);
    return ended;
}

enum http_refusal handler_refusal(struct handler *handler)
{
    pthread_mutex_lock(&handler->lock);
    enum http_refusal refusal = handler->refusal;
    pthread_mutex_unlock(&handler->lock);
    return refusal;
}
