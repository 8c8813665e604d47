/* fixture.c - starts the API on a fake node and talks to it, for tests. */
#include "api/testing/fixture.h"

#include "sys/clock.h"

#include <assert.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

struct api_fixture *fixture_start(const char *const *settings)
{
    struct api_fixture *fixture = calloc(1, sizeof(*fixture));

    assert(fixture);
    config_init(&fixture->config);
    fixture->config.listen_port = 0;
    struct error error;
    if (config_set(&fixture->config, "allowed_hosts", FIXTURE_HOSTS, &error))
        abort();
    for (; settings && *settings; settings += 2)
        if (config_set(&fixture->config, settings[0], settings[1], &error))
            abort();
    fixture->metrics = metrics_create("test", wall_now());
    fixture->node = node_fake_start(FIXTURE_PARTITIONS, 2);
    struct api_options options = {
        .config = &fixture->config, .metrics = fixture->metrics, .node = fixture->node};
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
    node_fake_release(fixture->node); /* a test that failed may have left answers held */
    fixture_stop_api(fixture);
    node_fake_stop(fixture->node);
    metrics_destroy(fixture->metrics);
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
