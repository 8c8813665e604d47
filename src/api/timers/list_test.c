/*
 * Goal: pages put together are exactly the timers that fit the query, each once, in due order
 * across partitions, whatever the size of the pages; and a wrong query is refused in words. Method:
 * a few hundred timers in a real node, listed with every limit, filter and range, and compared
 * with what the test itself knows; then every parameter in every wrong form.
 */
#include "api/timers/list.h"

#include "api/testing/fixture.h"
#include "base/random.h"
#include "sys/clock.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define FOUR_LABELS      "&label=a:b&label=a:b&label=a:b&label=a:b"
#define SEVENTEEN_LABELS FOUR_LABELS FOUR_LABELS FOUR_LABELS FOUR_LABELS "&label=a:b"

enum {
    TIMER_COUNT = 300,
    FIRST_MS = 1893456000, /* in thousands: 2030 */
};

struct known {
    char id[TIMER_ID_TEXT_SIZE];
    uint64_t at_ms;
    uint16_t partition;
    uint64_t serial;
    unsigned team; /* its label, 0..2 */
    bool is_over;
};

struct list_test_listing {
    struct api_fixture *fixture;
    struct known known[TIMER_COUNT];
};

/* Timers due at one of 40 instants, so that many share one; each partition has a quarter of them to
 * itself, so that a page comes from one partition mostly. */
static int list_test_setup(void **state)
{
    struct list_test_listing *listing = calloc(1, sizeof(*listing));
    struct random random = random_seeded(11);

    assert_non_null(listing);
    listing->fixture = fixture_start(NULL);
    for (int i = 0; i < TIMER_COUNT; i++) {
        struct known *known = &listing->known[i];

        known->at_ms =
            FIRST_MS * UINT64_C(1000) + (uint64_t)(i % 4 * 10) + random_below(&random, 10);
        known->team = (unsigned)i % 3;
        char json[200];
        snprintf(json, sizeof(json),
                 "{\"at\":%llu,\"target\":\"http://a.example/"
                 "\",\"labels\":{\"x\":\"y\",\"te\\u0061m\":\"t%u\"}}",
                 (unsigned long long)known->at_ms, known->team);
        char path[FIXTURE_PATH_SIZE];
        struct timer_id id;
        fixture_create(listing->fixture, json, path, &id);
        memcpy(known->id, path + strlen("/v1/timers/"), TIMER_ID_TEXT_SIZE);
        known->partition = id.partition;
        known->serial = id.serial;
        known->is_over = i % 10 == 0;
        if (known->is_over)
            fixture_ask(listing->fixture, "DELETE", path, "", BYTES(""), 200, NULL);
    }
    *state = listing;
    return 0;
}

static int list_test_teardown(void **state)
{
    struct list_test_listing *listing = *state;

    fixture_stop(listing->fixture);
    free(listing);
    return 0;
}

static int list_test_compare(const void *left, const void *right)
{
    const struct known *a = left, *b = right;
    struct cursor first = {{a->at_ms}, a->partition, a->serial};
    struct cursor second = {{b->at_ms}, b->partition, b->serial};

    return cursor_before(&first, &second) ? -1 : cursor_before(&second, &first);
}

/* What a query should list. */
struct wanted {
    const char *query;
    int team; /* -1: any */
    bool is_over, is_alive;
    uint64_t from_ms, to_ms; /* after FIRST_MS; to 0: no end */
};

static size_t choose(const struct list_test_listing *listing, const struct wanted *wanted,
                     struct known *chosen)
{
    uint64_t first_ms = FIRST_MS * UINT64_C(1000);
    size_t count = 0;

    for (int i = 0; i < TIMER_COUNT; i++) {
        const struct known *known = &listing->known[i];

        if ((wanted->team < 0 || known->team == (unsigned)wanted->team) &&
            (known->is_over ? wanted->is_over : wanted->is_alive) &&
            known->at_ms >= first_ms + wanted->from_ms &&
            (!wanted->to_ms || known->at_ms < first_ms + wanted->to_ms))
            chosen[count++] = *known;
    }
    qsort(chosen, count, sizeof(*chosen), list_test_compare);
    return count;
}

/* Follows the cursors to the end. */
static void check_pages(struct list_test_listing *listing, const struct wanted *wanted,
                        unsigned limit)
{
    struct known *chosen = calloc(TIMER_COUNT, sizeof(*chosen));
    size_t count = choose(listing, wanted, chosen), seen = 0;
    char cursor[CURSOR_TEXT_SIZE + 8] = "";

    for (int pages = 0; pages < 2000; pages++) {
        char target[512];
        snprintf(target, sizeof(target), "/v1/timers?limit=%u%s%s%s", limit, wanted->query,
                 cursor[0] ? "&cursor=" : "", cursor);
        fixture_ask(listing->fixture, "GET", target, "", BYTES(""), 200, NULL);
        json_t *page = json_loadb(listing->fixture->reply.body.data,
                                  listing->fixture->reply.body.size, 0, NULL);
        json_t *timers = json_object_get(page, "timers");
        assert_true(json_is_array(timers) && json_array_size(timers) <= limit);
        for (size_t i = 0; i < json_array_size(timers); i++) {
            assert_true(seen < count);
            assert_string_equal(json_string_value(json_object_get(json_array_get(timers, i), "id")),
                                chosen[seen++].id);
        }
        const char *next = json_string_value(json_object_get(page, "next"));
        snprintf(cursor, sizeof(cursor), "%s", next ? next : "");
        assert_true(next || json_is_null(json_object_get(page, "next")));
        json_decref(page);
        if (!cursor[0])
            break;
    }
    assert_string_equal(cursor, "");
    assert_int_equal(seen, count);
    free(chosen);
}

/* proves: list, list-due, list-state, list-label, list-cursor */
static void lists_each_timer_once_in_due_order(void **state)
{
    static const struct wanted queries[] = {
        {"", -1, false, true, 0, 0},
        {"&label=team:t1", 1, false, true, 0, 0},
        {"&label=team%3At2&label=x:y", 2, false, true, 0, 0},
        {"&label=team:t1&label=team:t2", 3, false, true, 0, 0},
        {"&state=cancelled", -1, true, false, 0, 0},
        {"&state=cancelled&state=scheduled&state=dead", -1, true, true, 0, 0},
        {"&state=fired", -1, false, false, 0, 0},
        {"&due_after=1893456000010", -1, false, true, 10, 0},
        {"&due_before=1893456000010", -1, false, true, 0, 10},
        {"&due_after=2030-01-01T00:00:00.003Z&due_before=2030-01-01T00:00:00.021Z", -1, false, true,
         3, 21},
        {"&due_after=2030-01-01T01:00:00.003%2B01:00&due_before=1893456000004&label=team:t0", 0,
         false, true, 3, 4},
        {"&due_after=1893456000010&due_before=1893456000010", -1, false, false, 0, 0},
    };
    static const unsigned limits[] = {1, 2, 7, 100, 299, 300, 1000};

    for (size_t i = 0; i < sizeof(queries) / sizeof(queries[0]); i++)
        for (size_t j = i % 2; j<sizeof(limits) / sizeof(limits[0]); j += i> 3 ? 2 : 1)
            check_pages(*state, &queries[i], limits[j]);
}

/* proves: list-limit */
static void has_defaults(void **state)
{
    struct list_test_listing *listing = *state;

    fixture_ask(listing->fixture, "GET", "/v1/timers", "", BYTES(""), 200, NULL);
    json_t *page =
        json_loadb(listing->fixture->reply.body.data, listing->fixture->reply.body.size, 0, NULL);
    assert_int_equal(json_array_size(json_object_get(page, "timers")), LIST_LIMIT_DEFAULT);
    assert_true(json_is_string(json_object_get(page, "next")));
    json_decref(page);
    fixture_ask(listing->fixture, "HEAD", "/v1/timers?limit=3", "", BYTES(""), 200, NULL);
    fixture_ask(listing->fixture, "GET", "/v1/timers?&", "", BYTES(""), 200, NULL);
}

/* proves: list-limit, query-wrong, bad-request, list-states (beyond) */
static void refuses_wrong_queries(void **state)
{
    static const char *const wrong[] = {
        "limit=0",
        "limit=1001",
        "limit=",
        "limit=-1",
        "limit=+1",
        "limit=1.0",
        "limit=99999999999999999999",
        "limit=1&limit=1",
        "state=",
        "state=Scheduled",
        "state=scheduled,fired",
        "state=fired&state=dead&state=fired&state=dead&state=fired&state=dead&state=fired"
        "&state=dead",
        "due_after=",
        "due_after=now",
        "due_after=2030-01-01",
        "due_before=2030-02-30T00:00:00Z",
        "due_before=9999999999999999",
        "due_after=1&due_after=1",
        "due_before=-1",
        "label=",
        "label=team",
        "label=:x",
        "cursor=",
        "cursor=0",
        "key_contains=",
        "key_contains=a&key_contains=b",
        "flow=",
        "flow=a&flow=b",
        "colour=red",
        "Limit=1",
        "=",
        "limit",
        SEVENTEEN_LABELS,
    };
    struct list_test_listing *listing = *state;
    char target[512];

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        snprintf(target, sizeof(target), "/v1/timers?%s", wrong[i]);
        if (strcmp(wrong[i], "=") == 0)
            fixture_ask(listing->fixture, "GET", target, "", BYTES(""), 200, NULL);
        else
            fixture_ask(listing->fixture, "GET", target, "", BYTES(""), 422, "invalid");
    }
    fixture_ask(listing->fixture, "GET", "/v1/timers?limit=%zz", "", BYTES(""), 400, "bad-request");
    snprintf(target, sizeof(target), "/v1/timers?%s",
             "state=dead&state=dead&state=dead&state=dead&state=dead&state=dead&state=dead&"
             "state=dead&state=dead&state=dead&state=dead&state=dead&state=dead&state=dead&"
             "state=dead&state=dead&state=dead&state=dead&state=dead&state=dead&state=dead&"
             "state=dead&state=dead&state=dead&state=dead&state=dead&state=dead&state=dead&"
             "state=dead&state=dead&state=dead&state=dead&state=dead");
    fixture_ask(listing->fixture, "GET", target, "", BYTES(""), 400, "bad-request");
}

/* So many pages are read at a time; who comes then waits for a turn and is answered too. */
/* proves: overload */
static void lists_take_turns(void **state)
{
    enum { CLIENTS = 9, AT_A_TIME = 4 };
    struct list_test_listing *listing = *state;
    struct api_fixture *fixture = listing->fixture;
    size_t before = probe_submitted(&fixture->probe);

    probe_hold(&fixture->probe);
    struct client clients[CLIENTS];
    for (int i = 0; i < CLIENTS; i++) {
        client_open(&clients[i], api_port(fixture->api));
        client_printf(&clients[i], "GET /v1/timers?limit=1000 HTTP/1.1\r\nHost: t\r\n\r\n");
    }
    probe_await_submitted(&fixture->probe, before + AT_A_TIME * PROBE_PARTITIONS);
    /* All that came in have been looked at when one who asks for nothing was answered twice. */
    for (int i = 0; i < 20; i++)
        fixture_ask(fixture, "GET", "/healthz", "", BYTES(""), 200, NULL);
    assert_int_equal(probe_submitted(&fixture->probe), before + AT_A_TIME * PROBE_PARTITIONS);
    probe_release(&fixture->probe);
    for (int i = 0; i < CLIENTS; i++) {
        assert_true(client_receive(&clients[i], "GET", &fixture->reply));
        assert_int_equal(fixture->reply.status, 200);
        client_close(&clients[i]);
    }
    assert_int_equal(probe_submitted(&fixture->probe), before + CLIENTS * PROBE_PARTITIONS);
}

/* What is not read takes memory: beyond the limit no page is made, until there is room again. */
/* proves: overload, answers_bytes_max */
static void list_test_shares_memory_for_answers(void **state)
{
    struct list_test_listing *listing = *state;
    struct api_fixture *fixture = listing->fixture;
    struct api *api = fixture->api;

    fixture_ask(fixture, "GET", "/v1/timers?limit=1000", "", BYTES(""), 200, NULL);
    while (atomic_load(&api->answers.held) > 0) /* what was sent is not counted any more */
        assert_true(http_server_connections(api->server) > 0);
    api->answers.max = 1000;
    struct tenant_pot_share *share = /* somebody does not read */
        tenant_pot_force(&api->answers, 7, 1001);
    fixture_ask(fixture, "GET", "/v1/timers", "", BYTES(""), 503, "overloaded");
    assert_true(reply_has_header(&fixture->reply, "Retry-After", "1"));
    fixture_ask(fixture, "POST", "/v1/queues/mail/lease", FIXTURE_JSON, BYTES("{}"), 503,
                "overloaded");
    fixture_ask(fixture, "POST", "/v1/timers", FIXTURE_JSON, BYTES(FIXTURE_TIMER), 201, NULL);
    tenant_pot_give(&api->answers, share, 1001);
    fixture_ask(fixture, "GET", "/v1/timers", "", BYTES(""), 200, NULL);
    fixture_ask(fixture, "POST", "/v1/queues/mail/lease", FIXTURE_JSON, BYTES("{}"), 200, NULL);
}

/* ---- searches that take several rounds ---- */

/* More than a round reads of each partition. */
enum { HAY = 24000, HAY_LINES = 8000 };

static int list_test_setup_hay(void **state)
{
    struct api_fixture *fixture = fixture_start(NULL);

    for (unsigned i = 0; i < HAY;) {
        struct buffer body;

        buffer_init(&body);
        for (unsigned end = i + HAY_LINES; i < end; i++)
            buffer_printf(&body, "{\"at\":%llu,\"target\":\"queue:hay\",\"key\":\"%s-%u\"%s}\n",
                          FIRST_MS * 1000ULL + i, i + 1 < HAY ? "hay" : "needle", i,
                          i + 1 < HAY ? "" : ",\"labels\":{\"rare\":\"yes\"}");
        fixture_ask(fixture, "POST", NDJSON_PATH, NDJSON_MINIMAL, buffer_bytes(&body), 200, NULL);
        buffer_deinit(&body);
    }
    *state = fixture;
    return 0;
}

static int list_test_teardown_hay(void **state)
{
    fixture_stop(*state);
    return 0;
}

/* A page that was read. */
struct list_test_page {
    size_t count;
    uint64_t searched;
    char cursor[CURSOR_TEXT_SIZE + 8]; /* empty on the last page */
};

static struct list_test_page list_test_read(const struct reply *reply)
{
    struct list_test_page page = {0};
    json_t *json = json_loadb(reply->body.data, reply->body.size, 0, NULL);
    const char *next = json_string_value(json_object_get(json, "next"));

    page.count = json_array_size(json_object_get(json, "timers"));
    page.searched = (uint64_t)json_integer_value(json_object_get(json, "searched"));
    snprintf(page.cursor, sizeof(page.cursor), "%s", next ? next : "");
    json_decref(json);
    return page;
}

static struct list_test_page list_test_ask(struct api_fixture *fixture, const char *query,
                                           const char *cursor)
{
    char target[512];

    snprintf(target, sizeof(target), "/v1/timers?%s%s%s", query, *cursor ? "&cursor=" : "", cursor);
    fixture_ask(fixture, "GET", target, "", BYTES(""), 200, NULL);
    return list_test_read(&fixture->reply);
}

/* The one timer that fits is due last: a page goes on until it has it, and says how many it looked
 * at. A page that is cut short in time on a slow machine is followed by others. */
/* proves: list-search, list-search-ms */
static void list_test_searches_on(void **state)
{
    static const char *const queries[] = {"label=rare:yes", "key_prefix=needle",
                                          "key_contains=eedl",
                                          "key_contains=needle-23999&target=queue:hay",
                                          "state=scheduled&label=rare:yes&origin=queue:hay"};
    struct api_fixture *fixture = *state;
    const size_t before = probe_submitted(&fixture->probe);
    size_t all_pages = 0;

    for (size_t i = 0; i < sizeof(queries) / sizeof(queries[0]); i++) {
        struct list_test_page page = {0};
        size_t found = 0, pages = 0;
        uint64_t searched = 0;

        do {
            page = list_test_ask(fixture, queries[i], page.cursor);
            found += page.count;
            searched += page.searched;
            pages++;
        } while (page.cursor[0]);
        assert_int_equal(found, 1);
        assert_in_range(searched, 1, HAY);
        assert_true(pages > 1 || searched == HAY);
        all_pages += pages;
    }
    assert_true(probe_submitted(&fixture->probe) - before > all_pages * PROBE_PARTITIONS);
    assert_int_equal(list_test_ask(fixture, "key_contains=nothing", "").count, 0);
}

/* When 200 ms are over the page ends after the round, with what it has: here a slow node takes them
 * for the first one. The next pages go on where it ended. */
/* proves: list-search-ms */
static void list_test_ends_in_time(void **state)
{
    struct api_fixture *fixture = *state;
    const size_t before = probe_submitted(&fixture->probe);
    const struct instant began = instant_now();
    struct client client;

    probe_hold(&fixture->probe);
    client_open(&client, api_port(fixture->api));
    client_printf(&client, "GET /v1/timers?key_contains=needle HTTP/1.1\r\nHost: t\r\n\r\n");
    probe_await_submitted(&fixture->probe, before + PROBE_PARTITIONS);
    while (instant_since_ns(began, instant_now()) < 2 * LIST_SEARCH_MS * UINT64_C(1000000))
        fixture_ask(fixture, "GET", "/healthz", "", BYTES(""), 200, NULL);
    probe_release(&fixture->probe);
    assert_true(client_receive(&client, "GET", &fixture->reply));
    assert_int_equal(fixture->reply.status, 200);
    client_close(&client);
    struct list_test_page page = list_test_read(&fixture->reply);
    assert_int_equal(page.count, 0);
    assert_true(page.cursor[0]);
    assert_in_range(page.searched, 1, HAY - 1);
    assert_int_equal(probe_submitted(&fixture->probe), before + PROBE_PARTITIONS);
    size_t found = 0;
    while (page.cursor[0]) {
        page = list_test_ask(fixture, "key_contains=needle", page.cursor);
        found += page.count;
    }
    assert_int_equal(found, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lists_each_timer_once_in_due_order, list_test_setup,
                                        list_test_teardown),
        cmocka_unit_test_setup_teardown(has_defaults, list_test_setup, list_test_teardown),
        cmocka_unit_test_setup_teardown(refuses_wrong_queries, list_test_setup, list_test_teardown),
        cmocka_unit_test_setup_teardown(lists_take_turns, list_test_setup, list_test_teardown),
        cmocka_unit_test_setup_teardown(list_test_shares_memory_for_answers, list_test_setup,
                                        list_test_teardown),
        cmocka_unit_test_setup_teardown(list_test_searches_on, list_test_setup_hay,
                                        list_test_teardown_hay),
        cmocka_unit_test_setup_teardown(list_test_ends_in_time, list_test_setup_hay,
                                        list_test_teardown_hay),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
