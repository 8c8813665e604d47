/* document.c - prints the OpenAPI document and the overview of the API. */
#include "api/operations/document.h"

#include "api/json/problem.h"
#include "base/json.h"

#include <ctype.h>
#include <stdio.h>

#define BIT(name) (UINT64_C(1) << ERROR_##name)
#define SCHEMA_TYPE \
    "\"content\":{\"application/json\":{\"schema\":{\"$ref\":\"#/components/schemas/"
#define PROBLEM_TYPE                                                                          \
    "\"content\":{\"application/problem+json\":{\"schema\":{\"$ref\":\"#/components/schemas/" \
    "Problem\"}}}"

/* ---- what the parts say ---- */

struct bytes document_member(struct bytes object, struct bytes name)
{
    struct json_reader reader;

    json_reader_init(&reader, object);
    if (object.size == 0 || !json_enter_object(&reader))
        return (struct bytes){0};
    struct json_string member;
    while (json_next_member(&reader, &member)) {
        bool is_found = bytes_equal(member.raw, name);

        struct bytes value;
        if (!json_skip(&reader, &value))
            break;
        if (is_found)
            return value;
    }
    return (struct bytes){0};
}

/* Appends ,"name":value when the object has a member of this name. */
static void document_copy(struct bytes object, const char *name, struct buffer *out)
{
    struct bytes value = document_member(object, bytes_of(name));

    if (value.size) {
        buffer_printf(out, ",\"%s\":", name);
        buffer_append_bytes(out, value);
    }
}

/* Appends a comma and the members of an object, when there are any. */
static void document_copy_members(struct bytes object, struct buffer *out)
{
    if (object.size > 2) {
        buffer_append_text(out, ",");
        buffer_append(out, object.data + 1, object.size - 2);
    }
}

/* ---- answers ---- */

uint64_t document_refusals(const struct route *route)
{
    uint64_t refusals = route->docs.refusals | BIT(HEADERS_TOO_LARGE) | BIT(OVERLOADED);

    if (route->need != ACCESS_OPEN)
        refusals |= BIT(UNAUTHENTICATED) | BIT(FORBIDDEN) | BIT(TOO_MANY);
    else
        refusals |= BIT(FOREIGN_SITE); /* the answer 403 of the others describes it too */
    if (route->need == ACCESS_SCHEDULE || route->need == ACCESS_READ)
        refusals |= BIT(INTERNAL);
    if (route->body)
        refusals |= BIT(TOO_LARGE) | BIT(MEDIA_TYPE);
    return refusals;
}

/* The name of an error in components/responses: that of its type, as a type of a program has it. */
static void document_append_response(enum error_code error, struct buffer *out)
{
    if (error == ERROR_OVERLOADED) { /* for every error with its status */
        buffer_append_text(out, "Unavailable");
        return;
    }
    bool is_start = true;
    for (const char *at = error_slug(error); *at; at++) {
        char letter = (char)(is_start ? toupper(*at) : *at);

        is_start = *at == '-';
        if (!is_start)
            buffer_append(out, &letter, 1);
    }
}

/* Whether the body of the call may have `after`, which can be a number that looks like seconds. */
static bool document_takes_after(const struct route *route)
{
    const struct bytes path = bytes_of(route->path), touch = BYTES("/touch");

    return strcmp(route->method, "PUT") == 0 || strcmp(route->method, "PATCH") == 0 ||
           bytes_equal(path, BYTES("/v1/timers")) ||
           (path.size > touch.size &&
            memcmp(path.data + path.size - touch.size, touch.data, touch.size) == 0);
}

/* The headers that core/call.c adds to an answer of this kind. */
static void document_append_headers(const struct route *route, int status, struct buffer *out)
{
    bool is_timer =
        status < 400 && route->docs.response && strcmp(route->docs.response, "Timer") == 0;

    if (is_timer)
        buffer_printf(out, ",\"headers\":{\"ETag\":{\"$ref\":\"#/components/headers/ETag\"}%s%s}",
                      status == 201 ? ",\"Location\":{\"$ref\":\"#/components/headers/Location\"},"
                                      "\"Idempotent-Replayed\":"
                                      "{\"$ref\":\"#/components/headers/Idempotent-Replayed\"}"
                                    : "",
                      document_takes_after(route)
                          ? ",\"Tickwheel-Warning\":"
                            "{\"$ref\":\"#/components/headers/Tickwheel-Warning\"}"
                          : "");
    else if (status == 503)
        buffer_append_text(
            out, ",\"headers\":{\"Retry-After\":{\"$ref\":\"#/components/headers/Retry-After\"}}");
}

static void document_append_answer(const struct route *route, const struct route_answer *answer,
                                   struct bytes parts, struct buffer *out)
{
    char status[12];

    snprintf(status, sizeof(status), "%d", answer->status);
    buffer_printf(out, "\"%s\":{\"description\":", status);
    json_append_string(out, bytes_of(answer->words));
    if (answer->status >= 400)
        buffer_append_text(out, "," PROBLEM_TYPE);
    else if (route->docs.response)
        buffer_printf(out, "," SCHEMA_TYPE "%s\"}}}", route->docs.response);
    document_append_headers(route, answer->status, out);
    document_copy_members(
        document_member(document_member(parts, BYTES("responses")), bytes_of(status)), out);
    buffer_append_text(out, "}");
}

static bool document_describes(const struct route *route, int status)
{
    for (size_t i = 0; i < ROUTE_ANSWERS; i++)
        if (route->docs.answers[i].status == status)
            return true;
    return false;
}

static void document_append_answers(const struct route *route, uint64_t refusals,
                                    struct bytes parts, struct buffer *out)
{
    buffer_append_text(out, ",\"responses\":{");
    for (size_t i = 0; i < ROUTE_ANSWERS && route->docs.answers[i].status; i++) {
        if (i > 0)
            buffer_append_text(out, ",");
        document_append_answer(route, &route->docs.answers[i], parts, out);
    }
    for (unsigned error = 0; error < ERROR_COUNT; error++) {
        int status = problem_status((enum error_code)error);

        if (!(refusals >> error & 1) || document_describes(route, status))
            continue;
        buffer_printf(out, ",\"%d\":{\"$ref\":\"#/components/responses/", status);
        document_append_response((enum error_code)error, out);
        buffer_append_text(out, "\"}");
    }
    buffer_append_text(out, "}");
}

/* ---- paths ---- */

/* A row that names its timer by the key stands in the document twice: with the key in the path, and
 * with the key in the query. */
static void document_append_operation(const struct route *route, bool is_key_in_query,
                                      struct bytes operations, struct buffer *out)
{
    const struct route_docs *docs = &route->docs;
    const uint64_t refusals =
        document_refusals(route) | (is_key_in_query ? BIT(BAD_REQUEST) | BIT(INVALID) : 0);
    struct bytes parts = document_member(operations, bytes_of(docs->operation));

    buffer_append_text(out, "\"");
    for (const char *at = route->method; *at; at++)
        buffer_append(out, &(char){(char)tolower(*at)}, 1);
    buffer_printf(out,
                  "\":{\"operationId\":\"%s%s\",\"tags\":[\"%s\"],\"summary\":", docs->operation,
                  is_key_in_query ? "InQuery" : "", docs->tag);
    json_append_string(out, bytes_of(docs->summary));
    document_copy(parts, "description", out);
    if (route->need == ACCESS_OPEN)
        buffer_append_text(out, ",\"security\":[]");
    else
        buffer_printf(out, ",\"security\":[{\"bearer\":[\"%s\"]}]", access_need_word(route->need));
    document_copy(parts, "parameters", out);
    document_copy(parts, "requestBody", out);
    if (docs->request)
        buffer_printf(out, ",\"requestBody\":{\"required\":true," SCHEMA_TYPE "%s\"}}}}",
                      docs->request);
    document_append_answers(route, refusals, parts, out);
    buffer_append_text(out, "}");
}

static bool document_has_path_before(const struct route *routes, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (strcmp(routes[i].path, routes[index].path) == 0)
            return true;
    return false;
}

/* All operations of the path of a row, which is the first with this path. */
static void document_append_path(const struct route *routes, size_t count, size_t first,
                                 bool is_key_in_query, struct bytes operations, struct buffer *out)
{
    const char *path = routes[first].path, *parameter = routes[first].docs.parameter;
    char key_path[ROUTE_PARAMETER_SIZE];

    if (is_key_in_query && !route_key_path(path, key_path))
        return;
    buffer_printf(out, "%s\"%s\":{", first > 0 ? "," : "", is_key_in_query ? key_path : path);
    if (parameter)
        buffer_printf(out, "\"parameters\":[{\"$ref\":\"#/components/parameters/%s%s\"}],",
                      parameter, is_key_in_query ? "InQuery" : "");
    for (size_t i = first; i < count; i++)
        if (strcmp(routes[i].path, path) == 0) {
            if (i > first)
                buffer_append_text(out, ",");
            document_append_operation(&routes[i], is_key_in_query, operations, out);
        }
    buffer_append_text(out, "}");
}

void document_format(const struct route *routes, size_t count, struct buffer *out)
{
    struct bytes parts = {openapi_parts, openapi_parts_size};
    struct bytes operations = document_member(parts, BYTES("operations"));

    buffer_append_text(out, "{\"openapi\":");
    buffer_append_bytes(out, document_member(parts, BYTES("openapi")));
    document_copy(parts, "info", out);
    document_copy(parts, "servers", out);
    document_copy(parts, "tags", out);
    buffer_append_text(out, ",\"paths\":{");
    for (size_t i = 0; i < count; i++)
        if (!document_has_path_before(routes, i)) {
            document_append_path(routes, count, i, false, operations, out);
            document_append_path(routes, count, i, true, operations, out);
        }
    buffer_append_text(out, "}");
    document_copy(parts, "webhooks", out);
    document_copy(parts, "components", out);
    buffer_append_text(out, "}\n");
}

/* ---- the overview ---- */

void document_format_overview(const struct route *routes, size_t count, struct buffer *out)
{
    for (size_t i = 0; i < count; i++) {
        const struct route *route = &routes[i];
        const char *section = route->docs.section;

        buffer_printf(out, "- %s`%s %s`", section ? "[" : "", route->method, route->path);
        if (section)
            buffer_printf(out, "](%s)", section);
        const char *scope = access_need_word(route->need);
        buffer_printf(out, *scope ? ": %s (%s)\n" : ": %s\n", route->docs.summary, scope);
    }
}
