/*
 * Goal: the OpenAPI documents are whole: every route has an operation, every reference leads
 * somewhere, no part of openapi_parts.json is left over, and the plain document has every call and
 * every field of the strict one without the rules. docs/api.md has the rows of the fields. Method:
 * the documents of the real table of routes, read by jansson, which refuses repeated members.
 */
#include "api/operations/document.h"

#include "api/api.h"
#include "api/json/timer_fields.h"
#include "sys/files.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static json_t *document_parsed(void (*format)(struct buffer *out))
{
    struct buffer text;

    buffer_init(&text);
    format(&text);
    json_error_t error;
    json_t *document = json_loadb(text.data, text.size, JSON_REJECT_DUPLICATES, &error);
    if (!document)
        fail_msg("%s at %.80s", error.text, text.data + error.position);
    buffer_deinit(&text);
    return document;
}

static const json_t *document_operation(const json_t *document, const struct route *route)
{
    const json_t *path = json_object_get(json_object_get(document, "paths"), route->path);
    char method[16] = "";

    for (size_t i = 0; route->method[i]; i++)
        method[i] = (char)(route->method[i] | 0x20);
    return json_object_get(path, method);
}

/* What "#/components/schemas/Timer" leads to; NULL: nothing. */
static const json_t *document_resolved(const json_t *document, const char *reference)
{
    struct bytes rest = bytes_of(reference + 2);

    assert_int_equal(strncmp(reference, "#/", 2), 0);
    while (rest.size > 0) {
        const char *slash = memchr(rest.data, '/', rest.size);
        size_t size = slash ? (size_t)(slash - rest.data) : rest.size;

        document = json_object_getn(document, rest.data, size);
        rest =
            (struct bytes){rest.data + size + (slash != NULL), rest.size - size - (slash != NULL)};
    }
    return document;
}

static void document_check_references(const json_t *document, json_t *value)
{
    const char *name;
    json_t *part;

    json_object_foreach(value, name, part)
    {
        if (strcmp(name, "$ref") == 0 && !document_resolved(document, json_string_value(part)))
            fail_msg("%s leads nowhere", json_string_value(part));
        document_check_references(document, part);
    }
    size_t i;
    json_array_foreach(value, i, part) document_check_references(document, part);
}

/* proves: openapi */
static void references_lead_somewhere(void **state)
{
    static void (*const formats[])(struct buffer *) = {api_format_openapi,
                                                       api_format_openapi_strict};

    (void)state;
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
        json_t *document = document_parsed(formats[i]);

        document_check_references(document, document);
        json_decref(document);
    }
}

/* proves: key-query */
static void calls_by_key_stand_there_with_the_key_in_the_query(void **state)
{
    json_t *document = document_parsed(api_format_openapi_strict);
    size_t count = 0;

    (void)state;
    for (size_t i = 0; i < routes_count; i++) {
        struct route in_query = routes[i];
        char path[ROUTE_PARAMETER_SIZE], operation[80];

        if (!route_key_path(routes[i].path, path))
            continue;
        in_query.path = path;
        const json_t *found = document_operation(document, &in_query);
        const json_t *parameters = json_object_get(
            json_object_get(json_object_get(document, "paths"), path), "parameters");
        snprintf(operation, sizeof(operation), "%sInQuery", routes[i].docs.operation);
        assert_string_equal(json_string_value(json_object_get(found, "operationId")), operation);
        assert_non_null(json_object_get(json_object_get(found, "responses"), "422"));
        assert_string_equal(
            json_string_value(json_object_get(json_array_get(parameters, 0), "$ref")),
            "#/components/parameters/KeyInQuery");
        count++;
    }
    assert_int_equal(count, 10);
    json_decref(document);
}

/* Fails where a schema has a keyword that generators stumble over. `are_names`: the members are
 * fields, and may be called anything. */
static void document_check_plain(const json_t *value, bool are_names)
{
    static const char *const refused[] = {"anyOf", "oneOf", "not", "pattern", "default"};
    json_t *part;
    const char *name;

    json_object_foreach((json_t *)value, name, part)
    {
        for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]) && !are_names; i++)
            assert_string_not_equal(name, refused[i]);
        if (strcmp(name, "$ref") == 0)
            assert_null(strstr(json_string_value(part), "/properties/"));
        document_check_plain(part, strcmp(name, "properties") == 0);
    }
    size_t i;
    json_array_foreach(value, i, part) document_check_plain(part, false);
}

/* proves: openapi-generators */
static void plain_document_has_the_fields_without_the_rules(void **state)
{
    json_t *strict = document_parsed(api_format_openapi_strict);
    json_t *plain = document_parsed(api_format_openapi);

    (void)state;
    document_check_plain(plain, false);
    for (size_t i = 0; i < routes_count; i++)
        assert_non_null(document_operation(plain, &routes[i]));
    assert_int_equal(json_object_size(json_object_get(strict, "webhooks")),
                     json_object_size(json_object_get(plain, "webhooks")));
    const char *name, *field;
    json_t *schema, *described;
    json_object_foreach(json_object_get(json_object_get(strict, "components"), "schemas"), name,
                        schema)
    {
        const json_t *fields = json_object_get(schema, "properties");
        char path[128];

        snprintf(path, sizeof(path), "#/components/schemas/%s", name);
        const json_t *bare = document_resolved(plain, path);
        assert_int_equal(json_object_size(json_object_get(bare, "properties")),
                         json_object_size(fields));
        json_object_foreach((json_t *)fields, field, described)
        {
            const json_t *kept = json_object_get(json_object_get(bare, "properties"), field);

            /* A field of any type has neither. */
            if (strcmp(field, "payload") != 0 && !json_object_get(kept, "type") &&
                !json_object_get(kept, "$ref"))
                fail_msg("%s.%s has no type", name, field);
        }
    }
    const json_t *key = document_resolved(plain, "#/components/parameters/IfMatch/schema");
    assert_int_equal(json_object_size(key), 1);
    assert_string_equal(json_string_value(json_object_get(key, "type")), "string");
    json_decref(strict);
    json_decref(plain);
}

static bool document_has_tag(const json_t *document, const char *name)
{
    json_t *tag;
    size_t i;

    json_array_foreach(json_object_get(document, "tags"), i,
                       tag) if (strcmp(json_string_value(json_object_get(tag, "name")), name) ==
                                0) return true;
    return false;
}

/* proves: openapi */
static void every_route_is_documented(void **state)
{
    json_t *document = document_parsed(api_format_openapi_strict);

    (void)state;
    for (size_t i = 0; i < routes_count; i++) {
        const struct route_docs *docs = &routes[i].docs;
        const json_t *operation = document_operation(document, &routes[i]);
        const json_t *body = json_object_get(operation, "requestBody");

        if (!operation || !document_has_tag(document, docs->tag) || !*docs->summary ||
            !docs->answers[0].status)
            fail_msg("%s %s has no complete documentation", routes[i].method, routes[i].path);
        if ((routes[i].body != NULL) != (body != NULL))
            fail_msg("%s %s: a body is read, or is documented", routes[i].method, routes[i].path);
        for (size_t j = 0; j < i; j++) {
            assert_string_not_equal(docs->operation, routes[j].docs.operation);
            assert_string_not_equal(routes[i].label, routes[j].label);
        }
    }
    json_decref(document);
}

/* proves: openapi */
static void every_part_belongs_to_a_route(void **state)
{
    json_t *parts = json_loadb(openapi_parts, openapi_parts_size, JSON_REJECT_DUPLICATES, NULL);

    (void)state;
    assert_non_null(parts);
    const char *name;
    json_t *part;
    json_object_foreach(json_object_get(parts, "operations"), name, part)
    {
        bool is_used = false;

        for (size_t i = 0; i < routes_count; i++)
            is_used |= strcmp(routes[i].docs.operation, name) == 0;
        if (!is_used)
            fail_msg("openapi_parts.json: no route has the operation %s", name);
    }
    json_decref(parts);
}

static void refusals_follow_from_scope_and_body(void **state)
{
    static const struct route open = {.need = ACCESS_OPEN}, read = {.need = ACCESS_READ};
    const uint64_t forbidden = UINT64_C(1) << ERROR_FORBIDDEN;

    (void)state;
    assert_true(document_refusals(&open) & UINT64_C(1) << ERROR_OVERLOADED);
    assert_false(document_refusals(&open) & forbidden);
    assert_true(document_refusals(&read) & forbidden);
    assert_false(document_refusals(&read) & UINT64_C(1) << ERROR_TOO_LARGE);
}

static void overview_has_a_row_for_each_section(void **state)
{
    static const struct route rows[] = {
        {"PUT", "/a/{id}", ACCESS_READ, "a",
         .docs = {"putA", "a", "Put it", .section = "#a-b", .answers = {{200, ""}, {201, ""}},
                  .refusals = UINT64_C(1) << ERROR_GONE | UINT64_C(1) << ERROR_INVALID}},
        {"GET", "/b", ACCESS_OPEN, "b", .docs = {"getB", "b", "Get it", .answers = {{200, ""}}}},
        {"GET", "/c", ACCESS_READ, "c", .docs = {"getC", "c", "Get C", .section = "#a-b"}},
        {"POST", "/c", ACCESS_ADMIN, "d", .docs = {"postC", "c", "Post C", .section = "#a-b"}},
        {"GET", "/d", ACCESS_OPEN, "e", .docs = {"getD", "d", "Get D", .section = "#a-b"}},
        {"GET", "/e", ACCESS_OPEN, "f", .docs = {"getE", "e", "Get E", .section = "page.md"}},
    };

    (void)state;
    struct buffer text;
    buffer_init(&text);
    document_format_overview(rows, sizeof rows / sizeof *rows, &text);
    buffer_append(&text, "", 1);
    assert_string_equal(
        text.data, "- [a b](#a-b): `PUT /a/{id}`, `GET /c` (read), `POST /c` (admin), `GET /d`\n"
                   "- `GET /b`: Get it\n"
                   "- [page](page.md): `GET /e`\n");
    buffer_deinit(&text);
}

/* proves: openapi */
static void docs_have_a_row_for_each_field_of_a_request(void **state)
{
    struct buffer rows, page;
    struct error error;

    (void)state;
    buffer_init(&rows);
    buffer_init(&page);
    timer_fields_format_docs(&rows);
    if (files_read(TW_SOURCE_FOLDER "/docs/api.md", 1 << 20, &page, &error))
        fail_msg("%s", error.text);
    if (!memmem(page.data, page.size, rows.data, rows.size))
        fail_msg("docs/api.md lacks these rows of src/api/json/timer_fields.def:\n%.*s",
                 (int)rows.size, rows.data);
    buffer_deinit(&page);
    buffer_deinit(&rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(references_lead_somewhere),
        cmocka_unit_test(calls_by_key_stand_there_with_the_key_in_the_query),
        cmocka_unit_test(plain_document_has_the_fields_without_the_rules),
        cmocka_unit_test(every_route_is_documented),
        cmocka_unit_test(every_part_belongs_to_a_route),
        cmocka_unit_test(refusals_follow_from_scope_and_body),
        cmocka_unit_test(overview_has_a_row_for_each_section),
        cmocka_unit_test(docs_have_a_row_for_each_field_of_a_request),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
