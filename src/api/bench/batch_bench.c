/*
 * How many lines a second one core reads and answers, without sockets and without the node: the
 * batch is called as the server would call it, and a stand-in for the node answers between the
 * calls, unmeasured. Arguments: lines (10000), rounds (50).
 */
#include "api/timers/timers.h"
#include "sys/clock.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    PIECE_BYTES = 20480, /* what the server reads at a time */
};

/* ---- stand-ins for the server and the node ---- */

struct http_request {
    bool is_paused, is_answered;
    size_t answer_size;
};

struct node {
    struct list waiting;
    uint64_t counter;
};

size_t http_request_header_count(const struct http_request *request, const char *name)
{
    (void)request;
    (void)name;
    return 0;
}

struct bytes http_request_header(const struct http_request *request, const char *name)
{
    (void)request;
    return strcmp(name, "Content-Type") == 0 ? BYTES("application/x-ndjson") : (struct bytes){0};
}

uint64_t http_request_content_length(const struct http_request *request)
{
    (void)request;
    return HTTP_LENGTH_UNKNOWN;
}

unsigned http_request_thread(const struct http_request *request)
{
    (void)request;
    return 0;
}

struct instant http_request_begun_at(const struct http_request *request)
{
    (void)request;
    return (struct instant){0};
}

void http_request_answer(struct http_request *request, struct http_response *response)
{
    request->is_answered = true;
    request->answer_size = response->body.size;
    buffer_deinit(&response->body);
}

void http_request_pause(struct http_request *request)
{
    request->is_paused = true;
}

void http_request_resume(struct http_request *request)
{
    request->is_paused = false;
}

void http_request_stream(struct http_request *request, struct http_response *response)
{
    http_request_answer(request, response);
}

void http_request_wake(struct http_request *request)
{
    (void)request;
}

void http_request_hang_up(struct http_request *request)
{
    (void)request;
}

void http_response_header(struct http_response *response, const char *name, const char *format, ...)
{
    (void)response, (void)name, (void)format;
}

enum error_code node_submit(struct node *node, struct node_request *request)
{
    list_push(&node->waiting, &request->link_);
    return ERROR_NONE;
}

enum error_code node_submit_later(struct node *node, struct node_request *request,
                                  struct list *outbox)
{
    (void)outbox;
    return node_submit(node, request);
}

struct feed *node_feed(struct node *node)
{
    (void)node;
    return NULL;
}

uint16_t node_partition_count(const struct node *node)
{
    (void)node;
    return 4;
}

unsigned node_shard_count(const struct node *node)
{
    (void)node;
    return 1;
}

struct event_loop *const *node_loops(struct node *node)
{
    (void)node;
    return NULL;
}

uint16_t node_partition_next(struct node *node, unsigned shard, size_t count)
{
    (void)shard, (void)count;
    return node->counter % 4;
}

bool node_brokers_trouble(struct node *node, char *ret_reason, size_t size)
{
    (void)node, (void)ret_reason, (void)size;
    return false;
}

struct wall node_wall_coming(struct node *node)
{
    (void)node;
    return wall_coming();
}

void node_set_refusals(struct node *node, const struct node_refusals *refusals)
{
    (void)node, (void)refusals;
}

struct zone_source node_zones(struct node *node)
{
    (void)node;
    return (struct zone_source){0};
}

static void node_answer(struct node *node)
{
    struct list *link;

    while ((link = list_pop(&node->waiting))) {
        struct node_request *request = list_item(link, struct node_request, link_);
        struct command *command = &request->command;

        for (size_t i = 0; i < command->timer_count; i++) {
            struct timer_id id = {command->timers[i]->due, command->partition, ++node->counter};

            command->results[i] = (struct command_created){.id = id};
            timer_free(command->timers[i]);
        }
        request->done(request);
    }
}

/* ---- the measurement ---- */

struct batch_bench {
    struct api api;
    struct http_request http;
    struct node node;
    uint64_t ns;
};

static void batch_bench_fail(const char *what)
{
    fprintf(stderr, "batch_bench: %s\n", what);
    exit(1);
}

static void run_once(struct batch_bench *bench, struct bytes body, size_t lines)
{
    struct call call = {.api = &bench->api,
                        .http = &bench->http,
                        .body_bytes_max = bench->api.options.config->body_bytes_max};
    struct instant begun = instant_now();

    bench->http = (struct http_request){0};
    batch_begin(&call);
    while (body.size > 0) {
        size_t size = body.size < PIECE_BYTES ? body.size : PIECE_BYTES;
        size_t used = batch_body(&call, (struct bytes){body.data, size});

        body = (struct bytes){body.data + used, body.size - used};
        bench->ns += instant_since_ns(begun, instant_now());
        node_answer(&bench->node);
        begun = instant_now();
    }
    batch_end(&call);
    bench->ns += instant_since_ns(begun, instant_now());
    node_answer(&bench->node);
    begun = instant_now();
    if (!bench->http.is_answered)
        batch_resumed(&call);
    bench->ns += instant_since_ns(begun, instant_now());
    if (!bench->http.is_answered || bench->http.answer_size != lines * 36)
        batch_bench_fail("the answer is not one id per line");
    batch_closed(&call);
}

int main(int argc, char **argv)
{
    size_t lines = argc > 1 ? strtoull(argv[1], NULL, 10) : 10000;
    size_t rounds = argc > 2 ? strtoull(argv[2], NULL, 10) : 50;
    struct config config;
    struct batch_bench bench = {.ns = 0};

    config_init(&config);
    bench.api.options.config = &config;
    tenant_pot_init(&bench.api.answers, config.answers_bytes_max, TENANT_POT_WHOLE);
    tenant_pot_init(&bench.api.batches, config.batches_max, TENANT_POT_WHOLE);
    bench.api.options.node = &bench.node;
    bench.api.options.metrics = metrics_create("bench", wall_now());
    bench.api.limits = (struct timer_json_limits){.payload_bytes_max = config.payload_bytes_max,
                                                  .target_bytes_max = config.target_bytes_max,
                                                  .labels_max = config.labels_max,
                                                  .headers_bytes_max = config.headers_bytes_max};
    pthread_mutex_init(&bench.api.lock, NULL);
    pthread_cond_init(&bench.api.batch_ended, NULL);
    list_init(&bench.node.waiting);
    struct buffer body;
    buffer_init(&body);
    for (size_t i = 0; i < lines; i++)
        buffer_printf(
            &body,
            "{\"after\":\"45m\",\"target\":\"http://shop.example/recheck\",\"payload\":{\"order\":"
            "%zu,\"customer\":\"c-8899\",\"items\":[{\"sku\":\"A-1\",\"count\":2}],\"note\":"
            "\"reserved in the shop\"},\"labels\":{\"team\":\"checkout\"}}\n",
            i);
    for (size_t i = 0; i < rounds; i++)
        run_once(&bench, buffer_bytes(&body), lines);
    printf("%zu bytes a line, %.2f M lines/s, %.0f ns a line\n", body.size / lines,
           (double)(lines * rounds) * 1e3 / (double)bench.ns,
           (double)bench.ns / (double)(lines * rounds));
    metrics_destroy(bench.api.options.metrics);
    buffer_deinit(&body);
    return 0;
}
