/*
 * Goal: dead letters are listed, redriven and deleted as docs/queues.md says. Method: real requests
 * over sockets to the API on a real node.
 */
#include "api/timers/timers.h"

#include "api/testing/fixture.h"
#include "sys/clock.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define NOTHING BYTES("")
#define REDRIVE "/v1/dead/redrive"
#define GROUPS  "/v1/dead/groups"

static int dead_test_setup(void **state)
{
    static const char *const settings[] = {"webhook_allow", "127.0.0.0/8", NULL};

    *state = fixture_start(settings);
    return 0;
}

static int dead_test_teardown(void **state)
{
    fixture_stop(*state);
    return 0;
}

/* A timer that is dead, fired, or scheduled in an hour; its id as text. A worker ends those of a
 * queue, with this error (NULL: none). The others die at the API, whose port the target has as %u:
 * there is nothing at their path. */
static void dead_test_create_with(struct api_fixture *fixture, const char *target, const char *team,
                                  enum timer_state timer_state, const char *error,
                                  char ret_id[TIMER_ID_TEXT_SIZE])
{
    char json[256], path[FIXTURE_PATH_SIZE], receipt[FIXTURE_RECEIPT_SIZE], queue[64], more[64];
    char url[128];
    struct timer_id id;

    snprintf(url, sizeof(url), target, api_port(fixture->api));
    snprintf(json, sizeof(json),
             "{\"after\":\"%s\",\"target\":\"%s\",\"labels\":{\"team\":\"%s\"},"
             "\"payload\":{\"n\":1},\"retry\":{\"max_attempts\":1}}",
             timer_state == TIMER_SCHEDULED ? "1h" : "0s", url, team);
    fixture_create(fixture, json, path, &id);
    timer_id_format(&id, ret_id);
    if (timer_state == TIMER_SCHEDULED)
        return;
    if (sscanf(target, "queue:%63[^?]", queue) != 1) {
        do
            client_ask(&fixture->client, "GET", path, "", NOTHING, &fixture->reply);
        while (fixture->reply.status != 410);
        return;
    }
    snprintf(more, sizeof(more), error ? ",\"dead\":true,\"error\":\"%s\"" : ",\"dead\":true",
             error);
    fixture_lease(fixture, queue, receipt);
    fixture_report(fixture, queue, timer_state == TIMER_DEAD ? "nack" : "ack", receipt,
                   timer_state == TIMER_DEAD ? more : "");
}

static void dead_test_create(struct api_fixture *fixture, const char *target, const char *team,
                             enum timer_state timer_state, char ret_id[TIMER_ID_TEXT_SIZE])
{
    dead_test_create_with(fixture, target, team, timer_state, NULL, ret_id);
}

static json_t *dead_test_ask(struct api_fixture *fixture, const char *method, const char *path,
                             const char *body)
{
    fixture_ask(fixture, method, path, body ? FIXTURE_JSON : "", bytes_of(body ? body : ""), 200,
                NULL);
    json_t *json = json_loadb(fixture->reply.body.data, fixture->reply.body.size,
                              JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(json);
    return json;
}

static size_t dead_count(struct api_fixture *fixture, const char *query)
{
    char path[128];

    snprintf(path, sizeof(path), "/v1/dead%s", query);
    json_t *page = dead_test_ask(fixture, "GET", path, NULL);
    size_t count = json_array_size(json_object_get(page, "timers"));
    json_decref(page);
    return count;
}

/* proves: dead-list, dead-filters */
static void lists(void **state)
{
    struct api_fixture *fixture = *state;

    assert_int_equal(dead_count(fixture, ""), 0);
    char id[TIMER_ID_TEXT_SIZE];
    dead_test_create(fixture, "queue:mail", "a", TIMER_DEAD, id);
    dead_test_create(fixture, "queue:mail", "b", TIMER_DEAD, id);
    dead_test_create(fixture, "http://127.0.0.1:%u/", "b", TIMER_DEAD, id);
    dead_test_create(fixture, "queue:mail", "a", TIMER_FIRED, id);
    dead_test_create(fixture, "queue:mail", "a", TIMER_SCHEDULED, id);
    assert_int_equal(dead_count(fixture, ""), 3);
    assert_true(reply_body_contains(&fixture->reply, "\"payload\":{\"n\":1}"));
    assert_int_equal(dead_count(fixture, "?target=queue:mail"), 2);
    assert_int_equal(dead_count(fixture, "?label=team:b"), 2);
    assert_int_equal(dead_count(fixture, "?label=team:b&target=queue:mail"), 1);
    assert_int_equal(dead_count(fixture, "?limit=1"), 1);
    fixture_ask(fixture, "GET", "/v1/dead?state=fired", "", NOTHING, 422, "invalid");
    fixture_ask(fixture, "GET", "/v1/dead?target=", "", NOTHING, 422, "invalid");
    fixture_ask(fixture, "GET", "/v1/dead?target=a&target=b", "", NOTHING, 422, "invalid");
    fixture_ask(fixture, "PUT", "/v1/dead", "", NOTHING, 405, "method-not-allowed");
}

/* Goal: the groups that are counted can be listed, redriven and deleted. Method: letters of two
 * origins, one of them a queue with priorities, and of errors that a worker says, or does not. */
/* proves: dead-filters, dead-groups, redrive-selection, dead-delete-selection */
static void acts_on_a_group(void **state)
{
    static const char *const targets[] = {"http://127.0.0.1:%u/x?y=1", "http://127.0.0.1:%u/z",
                                          "queue:mail?priority=9", "queue:mail"};
    struct api_fixture *fixture = *state;
    char id[TIMER_ID_TEXT_SIZE], query[64];

    for (int i = 0; i < 12; i++)
        dead_test_create_with(fixture, targets[i % 4], i < 8 ? "a" : "b", TIMER_DEAD,
                              i < 4 ? "HTTP 500 & more" : NULL, id);
    snprintf(query, sizeof(query), "?origin=http://127.0.0.1:%u", api_port(fixture->api));
    assert_int_equal(dead_count(fixture, query), 6);
    assert_int_equal(dead_count(fixture, "?origin=queue:mail"), 6);
    assert_int_equal(dead_count(fixture, "?origin=queue:mai"), 0);
    assert_int_equal(dead_count(fixture, "?error=HTTP+500+%26+more"), 2);
    assert_int_equal(dead_count(fixture, "?error=HTTP+500"), 0);
    assert_int_equal(dead_count(fixture, "?error=given+back+by+its+worker"), 4);
    assert_int_equal(dead_count(fixture, "?error="), 0);
    assert_int_equal(
        dead_count(fixture, "?origin=queue:mail&label=team:a&error=given+back+by+its+worker"), 2);
    json_t *answer = dead_test_ask(fixture, "POST", REDRIVE,
                                   "{\"origin\":\"queue:mail\",\"error\":\"HTTP 500 & more\"}");
    assert_int_equal(json_integer_value(json_object_get(answer, "redriven")), 2);
    json_decref(answer);
    answer = dead_test_ask(fixture, "POST", REDRIVE,
                           "{\"error\":\"given back by its "
                           "worker\",\"origin\":\"queue:mail\",\"labels\":{\"team\":\"b\"}}");
    assert_int_equal(json_integer_value(json_object_get(answer, "redriven")), 2);
    json_decref(answer);
    answer = dead_test_ask(fixture, "DELETE",
                           "/v1/dead?origin=queue:mail&error=given+back+by+its+worker", NULL);
    assert_int_equal(json_integer_value(json_object_get(answer, "deleted")), 2);
    json_decref(answer);
    assert_int_equal(dead_count(fixture, ""), 6);
    fixture_ask(fixture, "GET", "/v1/dead?origin=", "", NOTHING, 422, "invalid");
    fixture_ask(fixture, "GET", GROUPS "?origin=a", "", NOTHING, 422, "invalid");
    fixture_ask(fixture, "GET", "/v1/timers?error=a", "", NOTHING, 422, "invalid");
    fixture_ask(fixture, "DELETE", "/v1/dead?all=true&error=", "", NOTHING, 422, "invalid");
    fixture_ask(fixture, "POST", REDRIVE, FIXTURE_JSON, BYTES("{\"origin\":\"\"}"), 422, "invalid");
    fixture_ask(fixture, "POST", REDRIVE, FIXTURE_JSON, BYTES("{\"all\":true,\"error\":\"\"}"), 422,
                "invalid");
}

/* proves: redrive-ids */
static void redrives_by_id(void **state)
{
    struct api_fixture *fixture = *state;
    char dead[TIMER_ID_TEXT_SIZE];

    dead_test_create(fixture, "queue:mail", "a", TIMER_DEAD, dead);
    char fired[TIMER_ID_TEXT_SIZE];
    dead_test_create(fixture, "queue:mail", "a", TIMER_FIRED, fired);
    char body[256];
    snprintf(body, sizeof(body), "{\"ids\":[\"%s\",\"%s\",\"none\",\"%s\"]}", dead, fired, dead);
    json_t *answer = dead_test_ask(fixture, "POST", REDRIVE, body);
    json_t *results = json_object_get(answer, "results");
    assert_int_equal(json_integer_value(json_object_get(answer, "redriven")), 1);
    assert_int_equal(json_integer_value(json_object_get(answer, "failed")), 3);
    assert_string_equal(json_string_value(json_array_get(results, 0)), "ok");
    assert_string_equal(json_string_value(json_array_get(results, 1)), "not-found");
    assert_string_equal(json_string_value(json_array_get(results, 2)), "not-found");
    assert_string_equal(json_string_value(json_array_get(results, 3)), "not-found"); /* no more */
    json_decref(answer);
    assert_int_equal(dead_count(fixture, ""), 0);
}

/* proves: redrive-selection, redrive-limit */
static void redrives_what_is_found(void **state)
{
    struct api_fixture *fixture = *state;
    char id[TIMER_ID_TEXT_SIZE];

    for (int i = 0; i < 30; i++)
        dead_test_create(fixture, i % 3 ? "queue:mail" : "queue:other", i % 2 ? "a" : "b",
                         TIMER_DEAD, id);
    json_t *answer = dead_test_ask(fixture, "POST", REDRIVE,
                                   "{\"target\":\"queue:mail\",\"labels\":{\"te\\u0061m\":\"a\"}}");
    assert_int_equal(json_integer_value(json_object_get(answer, "redriven")), 10);
    json_decref(answer);
    assert_int_equal(dead_count(fixture, ""), 20);
    char body[128];
    size_t calls = 0, redriven = 0;
    for (snprintf(body, sizeof(body), "{\"all\":true,\"limit\":7}");; calls++) {
        answer = dead_test_ask(fixture, "POST", REDRIVE, body);
        redriven += (size_t)json_integer_value(json_object_get(answer, "redriven"));
        const char *next = json_string_value(json_object_get(answer, "next"));
        if (next)
            snprintf(body, sizeof(body), "{\"all\":true,\"limit\":7,\"cursor\":\"%s\"}", next);
        json_decref(answer);
        if (!next)
            break;
    }
    assert_int_equal(redriven, 20);
    assert_in_range(calls, 2, 10);
    assert_int_equal(dead_count(fixture, ""), 0);
}

/* proves: redrive-target */
static void redrives_to_another_target(void **state)
{
    struct api_fixture *fixture = *state;
    char id[TIMER_ID_TEXT_SIZE], body[256], path[64];

    for (int i = 0; i < 10; i++)
        dead_test_create(fixture, "queue:mail", "a", TIMER_DEAD, id);
    snprintf(body, sizeof(body), "{\"ids\":[\"%s\",\"x\"],\"new_target\":\"queue:one\"}", id);
    json_decref(dead_test_ask(fixture, "POST", REDRIVE, body));
    snprintf(path, sizeof(path), "/v1/timers/%s", id);
    json_t *timer = dead_test_ask(fixture, "GET", path, NULL);
    assert_string_equal(json_string_value(json_object_get(timer, "target")), "queue:one");
    json_decref(timer);
    json_t *answer =
        dead_test_ask(fixture, "POST", REDRIVE,
                      "{\"target\":\"queue:mail\",\"new_target\":\"queue:m\\u0061ny\"}");
    assert_int_equal(json_integer_value(json_object_get(answer, "redriven")), 9);
    json_decref(answer);
    json_t *page = dead_test_ask(fixture, "GET", "/v1/timers?target=queue:many", NULL);
    assert_int_equal(json_array_size(json_object_get(page, "timers")), 9);
    json_decref(page);
}

/* How many timers act before this time. */
static size_t dead_test_due_before(struct api_fixture *fixture, uint64_t ms)
{
    char path[128];

    snprintf(path, sizeof(path), "/v1/timers?limit=1000&due_before=%llu", (unsigned long long)ms);
    json_t *page = dead_test_ask(fixture, "GET", path, NULL);
    const size_t count = json_array_size(json_object_get(page, "timers"));
    json_decref(page);
    return count;
}

/* The times are spread over the calls, too. */
/* proves: redrive-rate */
static void redrives_at_a_rate(void **state)
{
    struct api_fixture *fixture = *state;
    char id[TIMER_ID_TEXT_SIZE], body[192];

    for (int i = 0; i < 30; i++)
        dead_test_create(fixture, "queue:mail", "a", TIMER_DEAD, id);
    const uint64_t start = wall_now().ms;
    snprintf(body, sizeof(body), "{\"all\":true,\"rate\":10,\"limit\":7}");
    for (const char *next = ""; next;) {
        json_t *answer = dead_test_ask(fixture, "POST", REDRIVE, body);
        next = json_string_value(json_object_get(answer, "next"));
        if (next)
            snprintf(body, sizeof(body), "{\"all\":true,\"rate\":10,\"limit\":7,\"cursor\":\"%s\"}",
                     next);
        json_decref(answer);
    }
    assert_int_equal(dead_count(fixture, ""), 0);
    for (size_t tenths = 1; tenths < 30; tenths++) /* the n-th is due n tenths after the first */
        assert_in_range(dead_test_due_before(fixture, start + tenths * 100), 0, tenths);
    assert_int_equal(dead_test_due_before(fixture, WALL_MS_MAX), 30);
}

/* proves: redrive-rate */
static void redrives_ids_at_a_rate(void **state)
{
    struct api_fixture *fixture = *state;
    char ids[2][TIMER_ID_TEXT_SIZE], body[192];

    for (int i = 0; i < 2; i++)
        dead_test_create(fixture, "queue:mail", "a", TIMER_DEAD, ids[i]);
    const uint64_t start = wall_now().ms;
    snprintf(body, sizeof(body), "{\"rate\":1,\"ids\":[\"%s\",\"%s\"]}", ids[0], ids[1]);
    json_decref(dead_test_ask(fixture, "POST", REDRIVE, body));
    assert_in_range(dead_test_due_before(fixture, start + 1000), 0, 1);
    assert_int_equal(dead_test_due_before(fixture, WALL_MS_MAX), 2);
}

/* A pace does not reach further ahead than a pause may be. */
/* proves: redrive-ahead */
static void a_pace_ends_within_two_days(void **state)
{
    struct api_fixture *fixture = *state;
    struct dead_cursor cursor = {{STORAGE_DEAD_FROM, 0, 0}, .began = wall_now()};
    char text[DEAD_CURSOR_TEXT_SIZE], body[192];

    for (int hours = 23; hours <= 25; hours += 2) {
        cursor.paced = wall_add(wall_now(), (uint64_t)hours * 3600 * 1000);
        dead_cursor_format(&cursor, text);
        snprintf(body, sizeof(body), "{\"all\":true,\"rate\":1,\"cursor\":\"%s\"}", text);
        fixture_ask(fixture, "POST", REDRIVE, FIXTURE_JSON, bytes_of(body), hours < 24 ? 200 : 422,
                    hours < 24 ? NULL : "invalid");
    }
    assert_true(reply_body_contains(&fixture->reply, "#/cursor"));
}

static void cursors_with_times(void **state)
{
    const struct wall times[] = {{0}, {1}, {1795387000123}, {WALL_MS_MAX}};
    const size_t began_size = CURSOR_TEXT_SIZE - 1 + 13;
    char text[DEAD_CURSOR_TEXT_SIZE + 2];
    struct dead_cursor cursor = {{{12345}, 7, 89}, .began = {1795386000123}}, again;

    (void)state;
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        cursor.paced = times[i];
        dead_cursor_format(&cursor, text);
        assert_int_equal(dead_cursor_parse(bytes_of(text), &again), ERROR_NONE);
        assert_int_equal(again.began.ms, cursor.began.ms);
        assert_int_equal(again.paced.ms, times[i].ms);
        assert_true(!cursor_before(&again.place, &cursor.place) &&
                    !cursor_before(&cursor.place, &again.place));
        for (size_t size = strlen(text); size-- > CURSOR_TEXT_SIZE - 2;)
            assert_int_equal(dead_cursor_parse((struct bytes){text, size}, &again),
                             size == began_size ? ERROR_NONE : ERROR_INVALID);
        memcpy(text + strlen(text), "0", 2);
        assert_int_equal(dead_cursor_parse(bytes_of(text), &again), ERROR_INVALID);
    }
    dead_cursor_format(&cursor, text);
    text[CURSOR_TEXT_SIZE - 1] = '+';
    assert_int_equal(dead_cursor_parse(bytes_of(text), &again), ERROR_INVALID);
    cursor.paced.ms = WALL_MS_MAX + 1;
    dead_cursor_format(&cursor, text);
    assert_int_equal(dead_cursor_parse(bytes_of(text), &again), ERROR_INVALID);
    cursor = (struct dead_cursor){.began = {0}};
    dead_cursor_format(&cursor, text);
    assert_int_equal(dead_cursor_parse(bytes_of(text), &again), ERROR_INVALID);
}

/* The count of the i-th group of an answer, and its origin. */
static int64_t dead_test_group(const json_t *answer, size_t i, const char **ret_origin)
{
    const json_t *group = json_array_get(json_object_get(answer, "groups"), i);

    *ret_origin = json_string_value(json_object_get(group, "origin"));
    return json_integer_value(json_object_get(group, "count"));
}

/* proves: dead-groups */
static void counts_groups(void **state)
{
    struct api_fixture *fixture = *state;
    static const char *const targets[] = {"queue:mail",
                                          "http://127.0.0.1:%u/x",
                                          "http://127.0.0.1:%u/y",
                                          "http://127.0.0.1:%u/y",
                                          "queue:mail?priority=9",
                                          "http://127.0.0.2:%u/"};
    char id[TIMER_ID_TEXT_SIZE], path[96];

    json_t *answer = dead_test_ask(fixture, "GET", GROUPS, NULL);
    assert_int_equal(json_array_size(json_object_get(answer, "groups")), 0);
    assert_true(json_is_true(json_object_get(answer, "complete")));
    json_decref(answer);
    for (size_t i = 0; i < 6; i++)
        dead_test_create(fixture, targets[i], i % 2 ? "a" : "b", TIMER_DEAD, id);
    dead_test_create(fixture, targets[5], "a", TIMER_SCHEDULED, id);
    answer = dead_test_ask(fixture, "GET", GROUPS, NULL);
    const char *origin;
    assert_int_equal(dead_test_group(answer, 0, &origin), 3);
    snprintf(path, sizeof(path), "http://127.0.0.1:%u", api_port(fixture->api));
    assert_string_equal(origin, path);
    assert_int_equal(dead_test_group(answer, 1, &origin), 2);
    assert_string_equal(origin, "queue:mail");
    assert_int_equal(dead_test_group(answer, 2, &origin), 1);
    assert_int_equal(json_array_size(json_object_get(answer, "groups")), 3);
    assert_int_equal(json_integer_value(json_object_get(answer, "others")), 0);
    const json_t *group = json_array_get(json_object_get(answer, "groups"), 0);
    assert_true(strcmp(json_string_value(json_object_get(group, "first")),
                       json_string_value(json_object_get(group, "last"))) <= 0);
    snprintf(path, sizeof(path), "/v1/timers/%s",
             json_string_value(json_object_get(group, "example")));
    fixture_ask(fixture, "GET", path, "", NOTHING, 410, "gone");
    json_decref(answer);
    answer = dead_test_ask(fixture, "GET", GROUPS "?limit=1", NULL);
    assert_int_equal(json_array_size(json_object_get(answer, "groups")), 1);
    assert_int_equal(json_integer_value(json_object_get(answer, "others")), 3);
    json_decref(answer);
    snprintf(path, sizeof(path), GROUPS "?label=team:a&target=http://127.0.0.1:%u/y",
             api_port(fixture->api));
    answer = dead_test_ask(fixture, "GET", path, NULL);
    assert_int_equal(dead_test_group(answer, 0, &origin), 1);
    json_decref(answer);
    fixture_ask(fixture, "GET", GROUPS "?cursor=1", "", NOTHING, 422, "invalid");
    fixture_ask(fixture, "GET", GROUPS "?state=dead", "", NOTHING, 422, "invalid");
}

/* proves: dead-groups-max */
static void counts_no_more_groups_than_it_holds(void **state)
{
    struct api_fixture *fixture = *state;
    char id[TIMER_ID_TEXT_SIZE], target[64];

    for (size_t i = 0; i <= DEAD_GROUPS_MAX; i++) {
        snprintf(target, sizeof(target), "queue:q%zu", i);
        dead_test_create(fixture, target, "a", TIMER_DEAD, id);
        if (i + 1 < DEAD_GROUPS_MAX)
            continue;
        json_t *answer = dead_test_ask(fixture, "GET", GROUPS "?limit=1000", NULL);
        assert_int_equal(json_array_size(json_object_get(answer, "groups")), DEAD_GROUPS_MAX);
        assert_int_equal(json_integer_value(json_object_get(answer, "others")),
                         i + 1 - DEAD_GROUPS_MAX);
        json_decref(answer);
    }
}

/* proves: dead-delete */
static void deletes_one(void **state)
{
    struct api_fixture *fixture = *state;
    char dead[TIMER_ID_TEXT_SIZE], fired[TIMER_ID_TEXT_SIZE], path[64];

    dead_test_create(fixture, "queue:mail", "a", TIMER_DEAD, dead);
    dead_test_create(fixture, "queue:mail", "a", TIMER_FIRED, fired);
    snprintf(path, sizeof(path), "/v1/dead/%s", dead);
    fixture_ask(fixture, "DELETE", path, "If-Match: \"9\"\r\n", NOTHING, 412, "version-mismatch");
    fixture_ask(fixture, "DELETE", path, "If-Match: 9\r\n", NOTHING, 400, "bad-request");
    assert_int_equal(dead_count(fixture, ""), 1);
    fixture_ask(fixture, "DELETE", path, "If-Match: \"2\"\r\n", NOTHING, 200, NULL);
    assert_true(reply_body_contains(&fixture->reply, "\"state\":\"dead\""));
    assert_true(reply_body_contains(&fixture->reply, "\"payload\":{\"n\":1}"));
    assert_int_equal(dead_count(fixture, ""), 0);
    fixture_ask(fixture, "DELETE", path, "", NOTHING, 404, "not-found");
    snprintf(path, sizeof(path), "/v1/dead/%s", fired);
    fixture_ask(fixture, "DELETE", path, "", NOTHING, 404, "not-found");
    fixture_ask(fixture, "DELETE", "/v1/dead/redrive", "", NOTHING, 405, "method-not-allowed");
    fixture_ask(fixture, "DELETE", "/v1/dead/none", "", NOTHING, 404, "not-found");
    fixture_ask(fixture, "GET", path, "", NOTHING, 405, "method-not-allowed");
}

/* proves: dead-delete-selection, dead-delete-limit */
static void deletes_what_is_found(void **state)
{
    struct api_fixture *fixture = *state;
    char id[TIMER_ID_TEXT_SIZE], path[128] = "/v1/dead?all=true&limit=7";
    int64_t deleted = 0, calls = 0;
    json_t *answer;

    for (int i = 0; i < 30; i++)
        dead_test_create(fixture, i % 3 ? "queue:mail" : "queue:other", i % 2 ? "a" : "b",
                         TIMER_DEAD, id);
    dead_test_create(fixture, "queue:mail", "a", TIMER_SCHEDULED, id);
    answer = dead_test_ask(fixture, "DELETE", "/v1/dead?target=queue:mail&label=team:a", NULL);
    assert_int_equal(json_integer_value(json_object_get(answer, "deleted")), 10);
    assert_int_equal(json_integer_value(json_object_get(answer, "failed")), 0);
    assert_true(json_is_null(json_object_get(answer, "next")));
    json_decref(answer);
    assert_int_equal(dead_count(fixture, "?target=queue:mail&label=team:a"), 0);
    assert_int_equal(dead_count(fixture, ""), 20);
    for (const char *next = ""; next; calls++) {
        answer = dead_test_ask(fixture, "DELETE", path, NULL);
        assert_in_range(json_integer_value(json_object_get(answer, "deleted")), 0, 7);
        deleted += json_integer_value(json_object_get(answer, "deleted"));
        next = json_string_value(json_object_get(answer, "next"));
        if (next)
            snprintf(path, sizeof(path), "/v1/dead?all=true&limit=7&cursor=%s", next);
        json_decref(answer);
    }
    assert_int_equal(deleted, 20);
    assert_in_range(calls, 3, 10);
    assert_int_equal(dead_count(fixture, ""), 0);
    fixture_ask(fixture, "GET", "/v1/timers", "", NOTHING, 200, NULL);
    assert_true(reply_body_contains(&fixture->reply, id)); /* what lives stays */
}

/* A query without a filter, or with one and `all`, deletes nothing. */
/* proves: dead-delete-selection, invalid */
static void does_not_delete_by_a_slip(void **state)
{
    static const struct {
        const char *query, *parameter;
    } wrong[] = {
        {"", "all"},
        {"?limit=5", "all"},
        {"?due_after=0", "all"},
        {"?all", "all"},
        {"?all=1", "all"},
        {"?all=True", "all"},
        {"?all=true&all=true", "all"},
        {"?all=true&target=queue:mail", "all"},
        {"?all=true&label=team:a", "all"},
        {"?targets=queue:mail", "targets"},
        {"?target=", "target"},
        {"?label=team", "label"},
        {"?due_before=tomorrow", "due_before"},
        {"?state=dead", "state"},
        {"?all=true&limit=0", "limit"},
        {"?all=true&limit=1001", "limit"},
        {"?all=true&cursor=x", "cursor"},
    };
    struct api_fixture *fixture = *state;
    char id[TIMER_ID_TEXT_SIZE], path[128];

    dead_test_create(fixture, "queue:mail", "a", TIMER_DEAD, id);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        snprintf(path, sizeof(path), "/v1/dead%s", wrong[i].query);
        fixture_ask(fixture, "DELETE", path, "", NOTHING, 422, "invalid");
        snprintf(path, sizeof(path), "\"parameter\":\"%s\"", wrong[i].parameter);
        if (!reply_body_contains(&fixture->reply, path))
            fail_msg("%s does not name %s", wrong[i].query, wrong[i].parameter);
    }
    assert_int_equal(dead_count(fixture, ""), 1);
}

/* proves: redrive-selection, redrive-limit, invalid */
static void dead_test_refuses(void **state)
{
    static const struct {
        const char *body, *pointer;
        int status;
    } wrong[] = {
        {"", NULL, 400},
        {"{\"ids\":[\"a\"]", NULL, 400},
        {"{}", "\"#\"", 422},
        {"[]", "\"#\"", 422},
        {"{\"ids\":[]}", "#/ids", 422},
        {"{\"ids\":\"a\"}", "#/ids", 422},
        {"{\"ids\":[1]}", "#/ids", 422},
        {"{\"ids\":[\"a\"],\"all\":true}", "\"#\"", 422},
        {"{\"ids\":[\"a\"],\"limit\":1}", "\"#\"", 422},
        {"{\"all\":false}", "#/all", 422},
        {"{\"all\":1}", "#/all", 422},
        {"{\"all\":true,\"target\":\"queue:a\"}", "\"#\"", 422},
        {"{\"target\":\"\"}", "#/target", 422},
        {"{\"target\":1}", "#/target", 422},
        {"{\"labels\":{}}", "#/labels", 422},
        {"{\"labels\":{\"a\":1}}", "#/labels", 422},
        {"{\"labels\":[]}", "#/labels", 422},
        {"{\"limit\":5}", "\"#\"", 422},
        {"{\"all\":true,\"limit\":0}", "#/limit", 422},
        {"{\"all\":true,\"limit\":1001}", "#/limit", 422},
        {"{\"all\":true,\"cursor\":\"x\"}", "#/cursor", 422},
        {"{\"all\":true,\"rate\":0}", "#/rate", 422},
        {"{\"all\":true,\"rate\":1000001}", "#/rate", 422},
        {"{\"all\":true,\"rate\":0.5}", "#/rate", 422},
        {"{\"rate\":5}", "\"#\"", 422},
        {"{\"new_target\":\"queue:a\"}", "\"#\"", 422},
        {"{\"all\":true,\"new_target\":\"gopher://a\"}", "#/new_target", 422},
        {"{\"all\":true,\"new_target\":\"\"}", "#/new_target", 422},
        {"{\"all\":null,\"new_target\":\"queue:a\"}", "#", 422},
        {"{\"all\":true,\"all\":true}", "#/all", 422},
        {"{\"everything\":true}", "#/everything", 422},
    };
    struct api_fixture *fixture = *state;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        fixture_ask(fixture, "POST", REDRIVE, FIXTURE_JSON, bytes_of(wrong[i].body),
                    wrong[i].status, wrong[i].status == 400 ? "not-json" : "invalid");
        if (wrong[i].pointer && !reply_body_contains(&fixture->reply, wrong[i].pointer))
            fail_msg("%s does not point to %s", wrong[i].body, wrong[i].pointer);
    }
    char id[TIMER_ID_TEXT_SIZE];
    dead_test_create(fixture, "queue:mail", "a", TIMER_DEAD, id);
    probe_refuse(&fixture->probe, ERROR_OVERLOADED);
    fixture_ask(fixture, "POST", REDRIVE, FIXTURE_JSON, BYTES("{\"all\":true}"), 503, "overloaded");
    fixture_ask(fixture, "GET", "/v1/dead", "", NOTHING, 503, "overloaded");
    json_t *answer = dead_test_ask(fixture, "POST", REDRIVE, "{\"ids\":[\"a\"]}");
    json_decref(answer);
    probe_refuse(&fixture->probe, ERROR_NONE);
    probe_fail(&fixture->probe, ERROR_IO);
    fixture_ask(fixture, "POST", REDRIVE, FIXTURE_JSON, BYTES("{\"all\":true}"), 503, "io");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, dead_test_setup, dead_test_teardown)
    const struct CMUnitTest tests[] = {
        TEST(lists),
        TEST(acts_on_a_group),
        TEST(redrives_by_id),
        TEST(redrives_what_is_found),
        TEST(redrives_to_another_target),
        TEST(redrives_at_a_rate),
        TEST(redrives_ids_at_a_rate),
        TEST(a_pace_ends_within_two_days),
        cmocka_unit_test(cursors_with_times),
        TEST(counts_groups),
        TEST(counts_no_more_groups_than_it_holds),
        TEST(deletes_one),
        TEST(deletes_what_is_found),
        TEST(does_not_delete_by_a_slip),
        TEST(dead_test_refuses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
