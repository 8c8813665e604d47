/*
 * Goal: no request target, query, cursor or header value makes the parsers crash, read past their
 * input or accept what they must not. Method: the input's first line is a target, each further one
 * a header value; what is accepted must hold its own rules.
 */
#include "api/timers/list.h"
#include "api/api.h"
#include "api/timers/timers.h"
#include "http/field.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void request_fuzz_check(bool holds)
{
    if (!holds)
        abort();
}

static void use_cursor(struct bytes text)
{
    struct cursor cursor;

    if (cursor_parse(text, &cursor))
        return;
    char again[CURSOR_TEXT_SIZE];
    cursor_format(&cursor, again);
    request_fuzz_check(bytes_equal(text, bytes_of(again)));
}

static void use_query(struct bytes query, enum list_form form)
{
    char *room = malloc(query.size + !query.size);

    request_fuzz_check(room != NULL);
    struct list_query list;
    struct problem problem;
    if (list_query_parse(query, form, room, &list, &problem)) {
        request_fuzz_check(problem.code == ERROR_INVALID || problem.code == ERROR_BAD_REQUEST);
    } else {
        request_fuzz_check(list.limit >= 1 && list.limit <= LIST_LIMIT_MAX);
        request_fuzz_check(list.states != 0 && list.states < 1u << (TIMER_PAUSED + 1));
        request_fuzz_check(list.after.ms <= WALL_MS_MAX);
        request_fuzz_check(list.filter.label_count <= LIST_LABELS_MAX);
        request_fuzz_check(form == LIST_TIMERS || list.filter.repeats ||
                           list.states == 1u << TIMER_DEAD);
        request_fuzz_check(form != LIST_DEAD_TO_DELETE || list.is_of_all ||
                           timer_filter_has_text(&list.filter) || list.filter.error.data ||
                           list.after.ms || list.before.ms != WALL_NEVER.ms);
        for (size_t i = 0; i < list.filter.label_count; i++)
            request_fuzz_check(
                list.filter.labels[i].key.size > 0 &&
                !memchr(list.filter.labels[i].key.data, ':', list.filter.labels[i].key.size));
    }
    free(room);
}

static void use_target(struct bytes text)
{
    static const char *const methods[] = {"GET", "HEAD", "POST", "PATCH", "DELETE", "PUT"};
    struct http_target target;

    if (http_target_parse(text, &target))
        return;
    request_fuzz_check(target.path.size > 0 && target.path.data[0] == '/');
    bool is_path = false;
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        char room[ROUTE_PARAMETER_SIZE];
        struct route_match match;
        route_find(routes, routes_count, bytes_of(methods[i]), target.path, room, &match);
        request_fuzz_check(!match.route || !match.allow[0]);
        request_fuzz_check(i == 0 || is_path == (match.route || match.allow[0]));
        is_path = match.route || match.allow[0];
        request_fuzz_check(match.parameter.size <= sizeof(room));
    }
    use_query(target.query, LIST_TIMERS);
    use_query(target.query, LIST_SCHEDULES);
    use_query(target.query, LIST_DEAD_GROUPS);
    use_query(target.query, LIST_DEAD_TO_DELETE);
}

static void use_field(struct bytes field)
{
    uint32_t version;

    if (!timers_if_match(field, &version) && field.data) {
        struct bytes opaque;
        enum http_tag_kind kind = http_tag_parse(field, &opaque);

        request_fuzz_check(kind == HTTP_TAG_STRONG || kind == HTTP_TAG_WEAK ||
                           kind == HTTP_TAG_ANY);
        request_fuzz_check((version == 0) == (kind == HTTP_TAG_ANY));
    }
    http_media_type_is(field, "application/json");
    http_prefers(field, "return", "minimal");
    request_fuzz_check(http_accept_weight(field, "text/plain", "0.0.4") <= 1000);
    use_cursor(field);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bool is_target = true;

    for (size_t begin = 0; begin < size;) {
        const uint8_t *end = memchr(data + begin, '\n', size - begin);
        size_t length = end ? (size_t)(end - data) - begin : size - begin;
        /* Allocated by itself, so that a read past its end is found. */
        char *copy = malloc(length + !length);

        request_fuzz_check(copy != NULL);
        memcpy(copy, data + begin, length);
        (is_target ? use_target : use_field)((struct bytes){copy, length});
        is_target = false;
        free(copy);
        begin += length + 1;
    }
    return 0;
}
