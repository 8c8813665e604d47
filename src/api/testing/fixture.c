/* fixture.c - starts the API on a real node and talks to it, for tests. */
#include "api/testing/fixture.h"

#include <assert.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

struct api_fixture *fixture_start(const char *const *settings)
{
    struct api_fixture *fixture = calloc(1, sizeof(*fixture));

    assert(fixture);
    struct node_probe *probe = &fixture->probe;
    config_init(&probe->config);
    probe->config.listen_port = 0;
    struct error error;
    if (config_set(&probe->config, "allowed_hosts", FIXTURE_HOSTS, &error))
        abort();
    for (; settings && *settings; settings += 2)
        if (config_set(&probe->config, settings[0], settings[1], &error))
            abort();
    probe_start(probe);
    struct api_options options = {
        .config = &probe->config, .metrics = probe->metrics, .node = probe->node};
    if (api_start(&options, &fixture->api, &error))
        abort();
    client_open(&fixture->client, api_port(fixture->api));
    return fixture;
}

void fixture_stop_api(struct api_fixture *fixture)
{
    api_stop(fixture->api);
    fixture->api = NULL;
}

void fixture_stop(struct api_fixture *fixture)
{
    if (!fixture)
        return;
    client_close(&fixture->client);
    probe_release(&fixture->probe); /* a test that failed may have left commands held */
    fixture_stop_api(fixture);
    probe_stop(&fixture->probe);
    free(fixture);
}

void fixture_check_problem(const struct reply *reply, int status, const char *slug)
{
    json_t *problem = json_loadb(reply->body.data, reply->body.size, JSON_REJECT_DUPLICATES, NULL);

    assert(reply->status == status);
    assert(reply_has_header(reply, "Content-Type", "application/problem+json"));
    assert(problem);
    assert(json_integer_value(json_object_get(problem, "status")) == status);
    assert(json_is_string(json_object_get(problem, "title")));
    const char *type = json_string_value(json_object_get(problem, "type"));
    assert(type);
    if (slug) {
        const char *last = strrchr(type, '/');

        assert(strcmp(last ? last + 1 : type, slug) == 0);
    }
    json_decref(problem);
}

void fixture_ask(struct api_fixture *fixture, const char *method, const char *target,
                 const char *headers, struct bytes body, int status, const char *slug)
{
    client_ask(&fixture->client, method, target, headers, body, &fixture->reply);
    if (fixture->reply.status != status) {
        fprintf(stderr, "%s %s: %d instead of %d: %.*s\n", method, target, fixture->reply.status,
                status, (int)fixture->reply.body.size, fixture->reply.body.data);
        abort();
    }
    if (status >= 400 && strcmp(method, "HEAD") != 0)
        fixture_check_problem(&fixture->reply, status, slug);
}

void fixture_member(const struct api_fixture *fixture, const char *name, char *ret_value,
                    size_t size)
{
    json_t *object = json_loadb(fixture->reply.body.data, fixture->reply.body.size, 0, NULL);
    const char *value = json_string_value(json_object_get(object, name));

    assert(value);
    snprintf(ret_value, size, "%s", value);
    json_decref(object);
}

void fixture_create(struct api_fixture *fixture, const char *json, char ret_path[FIXTURE_PATH_SIZE],
                    struct timer_id *ret_id)
{
    fixture_ask(fixture, "POST", "/v1/timers", FIXTURE_JSON, bytes_of(json), 201, NULL);
    struct bytes location = reply_header(&fixture->reply, "Location");
    snprintf(ret_path, FIXTURE_PATH_SIZE, "%.*s", (int)location.size, location.data);
    if (ret_id && timer_id_parse(bytes_of(ret_path + strlen("/v1/timers/")), ret_id))
        abort();
}

void fixture_lease(struct api_fixture *fixture, const char *queue,
                   char ret_receipt[FIXTURE_RECEIPT_SIZE])
{
    char path[128];

    snprintf(path, sizeof(path), "/v1/queues/%s/lease", queue);
    fixture_ask(fixture, "POST", path, FIXTURE_JSON, BYTES("{\"wait\":\"20s\"}"), 200, NULL);
    json_t *answer = json_loadb(fixture->reply.body.data, fixture->reply.body.size, 0, NULL);
    const json_t *item = json_array_get(json_object_get(answer, "items"), 0);
    const char *receipt = json_string_value(json_object_get(item, "receipt"));
    assert(receipt);
    snprintf(ret_receipt, FIXTURE_RECEIPT_SIZE, "%s", receipt);
    json_decref(answer);
}

void fixture_report(struct api_fixture *fixture, const char *queue, const char *call,
                    const char *receipt, const char *more)
{
    char path[128], body[256];

    snprintf(path, sizeof(path), "/v1/queues/%s/%s", queue, call);
    snprintf(body, sizeof(body), "{\"receipts\":[\"%s\"]%s}", receipt, more);
    fixture_ask(fixture, "POST", path, FIXTURE_JSON, bytes_of(body), 200, NULL);
    assert(reply_body_contains(&fixture->reply, "\"ok\":1"));
}

void fixture_create_ended(struct api_fixture *fixture, enum timer_state state,
                          char ret_path[FIXTURE_PATH_SIZE])
{
    char receipt[FIXTURE_RECEIPT_SIZE];

    fixture_create(fixture, "{\"after\":0,\"target\":\"queue:end\"}", ret_path, NULL);
    if (state == TIMER_CANCELLED) {
        fixture_ask(fixture, "DELETE", ret_path, "", BYTES(""), 200, NULL);
        return;
    }
    fixture_lease(fixture, "end", receipt);
    fixture_report(fixture, "end", state == TIMER_DEAD ? "nack" : "ack", receipt,
                   state == TIMER_DEAD ? ",\"dead\":true" : "");
}
