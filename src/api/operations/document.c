/* document.c - prints the OpenAPI document and the overview of the API. */
#include "api/operations/document.h"

#include "api/json/problem.h"
#include "base/json.h"
#include "base/json_write.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define BIT(name) (UINT64_C(1) << ERROR_##name)
/* ---- what the parts say ---- */

/* Appends the member of this name if the object has it. */
static void document_copy(struct bytes object, const char *name, struct buffer *out)
{
    json_put_some_raw(out, name, document_member(object, bytes_of(name)));
}

/* Appends the members of an object, if there are any. */
static void document_copy_members(struct bytes object, struct buffer *out)
{
    if (object.size > 2)
        json_put_raw(out, NULL, bytes_trim((struct bytes){object.data + 1, object.size - 2}));
}

/* Appends {"$ref":"#/components/KIND/NAME"}. */
static void document_put_reference(struct buffer *out, const char *name, const char *kind,
                                   const char *to)
{
    json_open(out, name, '{');
    json_put_name(out, "$ref");
    buffer_printf(out, "\"#/components/%s/%s\"", kind, to);
    json_close(out, '}');
}

static void document_put_content(struct buffer *out, const char *type, const char *schema)
{
    json_open(out, "content", '{');
    json_open(out, type, '{');
    document_put_reference(out, "schema", "schemas", schema);
    json_close(out, '}');
    json_close(out, '}');
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

/* Appends the name of an error in components/responses: that of its type, in the form of a
 * program's type. */
static void document_response_name(enum error_code error, char *ret_name, size_t capacity)
{
    bool is_start = true;
    size_t size = 0;

    /* Unavailable stands for every error with its status. */
    for (const char *at = error == ERROR_OVERLOADED ? "unavailable" : error_slug(error);
         *at && size + 1 < capacity; at++) {
        const char letter = (char)(is_start ? toupper(*at) : *at);

        is_start = *at == '-';
        if (!is_start)
            ret_name[size++] = letter;
    }
    ret_name[size] = '\0';
}
/* True if the call's body may have `after`, which can be a number that looks like seconds. */
static bool document_takes_after(const struct route *route)
{
    const struct bytes path = bytes_of(route->path), touch = BYTES("/touch");

    return strcmp(route->method, "PUT") == 0 || strcmp(route->method, "PATCH") == 0 ||
           bytes_equal(path, BYTES("/v1/timers")) ||
           (path.size > touch.size &&
            memcmp(path.data + path.size - touch.size, touch.data, touch.size) == 0);
}

/* Appends the headers that core/call.c adds to such an answer. */
static void document_append_headers(const struct route *route, int status, struct buffer *out)
{
    const bool is_timer =
        status < 400 && route->docs.response && strcmp(route->docs.response, "Timer") == 0;
    const bool is_named_target =
        status < 400 && route->docs.response && strcmp(route->docs.response, "NamedTarget") == 0;
    const struct {
        const char *name;
        bool is_sent;
    } headers[] = {
        {"ETag", is_timer || is_named_target},
        {"Location", is_timer && status == 201},
        {"Idempotent-Replayed", is_timer && status == 201},
        {"Tickwheel-Warning", is_timer && document_takes_after(route)},
        {"Retry-After", status == 503},
    };

    if (!is_timer && !is_named_target && status != 503)
        return;
    json_open(out, "headers", '{');
    for (size_t i = 0; i < sizeof(headers) / sizeof(*headers); i++)
        if (headers[i].is_sent)
            document_put_reference(out, headers[i].name, "headers", headers[i].name);
    json_close(out, '}');
}

static void document_append_answer(const struct route *route, const struct route_answer *answer,
                                   struct bytes parts, struct buffer *out)
{
    char status[12];

    snprintf(status, sizeof(status), "%d", answer->status);
    json_open(out, status, '{');
    json_put_text(out, "description", answer->words);
    if (answer->status >= 400)
        document_put_content(out, "application/problem+json", "Problem");
    else if (route->docs.response)
        document_put_content(out, "application/json", route->docs.response);
    document_append_headers(route, answer->status, out);
    document_copy_members(
        document_member(document_member(parts, BYTES("responses")), bytes_of(status)), out);
    json_close(out, '}');
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
    json_open(out, "responses", '{');
    for (size_t i = 0; i < ROUTE_ANSWERS && route->docs.answers[i].status; i++)
        document_append_answer(route, &route->docs.answers[i], parts, out);
    for (unsigned error = 0; error < ERROR_COUNT; error++) {
        int status = problem_status((enum error_code)error);

        if (!(refusals >> error & 1) || document_describes(route, status))
            continue;
        char text[12], name[64];
        snprintf(text, sizeof(text), "%d", status);
        document_response_name((enum error_code)error, name, sizeof(name));
        document_put_reference(out, text, "responses", name);
    }
    json_close(out, '}');
}

/* ---- paths ---- */

/* Appends an operation. A row with a key in its path appears twice in the document: with the key
 * in the path, and in the query. */
static void document_append_operation(const struct route *route, bool is_key_in_query,
                                      struct bytes operations, struct buffer *out)
{
    const struct route_docs *docs = &route->docs;
    const uint64_t refusals =
        document_refusals(route) | (is_key_in_query ? BIT(BAD_REQUEST) | BIT(INVALID) : 0);
    struct bytes parts = document_member(operations, bytes_of(docs->operation));

    char method[8] = "", operation[64];
    for (size_t i = 0; i + 1 < sizeof(method) && route->method[i]; i++)
        method[i] = (char)tolower(route->method[i]);
    snprintf(operation, sizeof(operation), "%s%s", docs->operation,
             is_key_in_query ? "InQuery" : "");
    json_open(out, method, '{');
    json_put_text(out, "operationId", operation);
    json_open(out, "tags", '[');
    json_put_text(out, NULL, docs->tag);
    json_close(out, ']');
    json_put_text(out, "summary", docs->summary);
    document_copy(parts, "description", out);
    json_open(out, "security", '[');
    if (route->need != ACCESS_OPEN)
        buffer_printf(out, "{\"bearer\":[\"%s\"]}", access_need_word(route->need));
    json_close(out, ']');
    document_copy(parts, "parameters", out);
    document_copy(parts, "requestBody", out);
    if (docs->request) {
        json_open(out, "requestBody", '{');
        json_put_flag(out, "required", true);
        document_put_content(out, "application/json", docs->request);
        json_close(out, '}');
    }
    document_append_answers(route, refusals, parts, out);
    json_close(out, '}');
}

static bool document_has_path_before(const struct route *routes, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (strcmp(routes[i].path, routes[index].path) == 0)
            return true;
    return false;
}

/* Appends all operations of the path of a row, which is the first with this path. */
static void document_append_path(const struct route *routes, size_t count, size_t first,
                                 bool is_key_in_query, struct bytes operations, struct buffer *out)
{
    const char *path = routes[first].path, *parameter = routes[first].docs.parameter;
    char key_path[ROUTE_PARAMETER_SIZE];

    if (is_key_in_query && !route_key_path(path, key_path))
        return;
    json_open(out, is_key_in_query ? key_path : path, '{');
    if (parameter) {
        char name[64];

        snprintf(name, sizeof(name), "%s%s", parameter, is_key_in_query ? "InQuery" : "");
        json_open(out, "parameters", '[');
        document_put_reference(out, NULL, "parameters", name);
        json_close(out, ']');
    }
    for (size_t i = first; i < count; i++)
        if (strcmp(routes[i].path, path) == 0)
            document_append_operation(&routes[i], is_key_in_query, operations, out);
    json_close(out, '}');
}

/* ---- components ---- */

/* Appends the schemas. Those of a timer get the fields of their kind. */
static void document_append_schemas(struct bytes schemas, struct buffer *out)
{
    struct json_reader reader;
    struct json_string name;
    struct bytes schema;

    json_open(out, "schemas", '{');
    json_reader_init(&reader, schemas);
    json_enter_object(&reader);
    while (json_next_member(&reader, &name) && json_skip(&reader, &schema)) {
        json_put_string(out, NULL, name.raw);
        buffer_append_text(out, ":{");
        document_copy_members(schema, out);
        document_append_fields(name.raw, schemas, out);
        json_close(out, '}');
    }
    json_close(out, '}');
}

static void document_append_components(struct bytes parts, struct buffer *out)
{
    static const char *const others[] = {"parameters", "headers", "responses", "securitySchemes"};
    struct bytes components = document_member(parts, BYTES("components"));

    json_open(out, "components", '{');
    document_append_schemas(document_member(components, BYTES("schemas")), out);
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
        document_copy(components, others[i], out);
    json_close(out, '}');
}

void document_format(const struct route *routes, size_t count, struct buffer *out)
{
    struct bytes parts = {openapi_parts, openapi_parts_size};
    struct bytes operations = document_member(parts, BYTES("operations"));

    json_open(out, NULL, '{');
    document_copy(parts, "openapi", out);
    document_copy(parts, "info", out);
    document_copy(parts, "servers", out);
    document_copy(parts, "tags", out);
    json_open(out, "paths", '{');
    for (size_t i = 0; i < count; i++)
        if (!document_has_path_before(routes, i)) {
            document_append_path(routes, count, i, false, operations, out);
            document_append_path(routes, count, i, true, operations, out);
        }
    json_close(out, '}');
    document_copy(parts, "webhooks", out);
    document_append_components(parts, out);
    json_close(out, '}');
    buffer_append_text(out, "\n");
}

/* ---- the overview ---- */

/* True if two rows name the same section of the documents. */
static bool document_share_section(const struct route *a, const struct route *b)
{
    return a->docs.section && b->docs.section && strcmp(a->docs.section, b->docs.section) == 0;
}

/* Appends a link whose text is the section's own name, or else that of its page. */
static void document_append_section(const char *section, struct buffer *out)
{
    const char *name = strrchr(section, '#');

    name = name ? name + 1 : section;
    buffer_append_text(out, "[");
    for (const char *c = name; *c && *c != '.'; c++)
        buffer_append(out, *c == '-' ? " " : c, 1);
    buffer_printf(out, "](%s): ", section);
}

/* Appends the calls of the section of `routes[first]`. The scope follows the last of neighbours
 * that need the same one. */
static void document_append_calls(const struct route *routes, size_t count, size_t first,
                                  struct buffer *out)
{
    const char *scope = access_need_word(routes[first].need);

    buffer_printf(out, "`%s %s`", routes[first].method, routes[first].path);
    for (size_t i = first + 1; i < count; i++) {
        if (!document_share_section(&routes[i], &routes[first]))
            continue;
        const char *next = access_need_word(routes[i].need);
        if (*scope && strcmp(next, scope) != 0)
            buffer_printf(out, " (%s)", scope);
        buffer_printf(out, ", `%s %s`", routes[i].method, routes[i].path);
        scope = next;
    }
    if (*scope)
        buffer_printf(out, " (%s)", scope);
}

void document_format_overview(const struct route *routes, size_t count, struct buffer *out)
{
    for (size_t i = 0; i < count; i++) {
        const char *section = routes[i].docs.section;
        size_t first = 0;

        while (first < i && !document_share_section(&routes[first], &routes[i]))
            first++;
        if (first < i)
            continue;
        buffer_append_text(out, "- ");
        if (section)
            document_append_section(section, out);
        document_append_calls(routes, count, i, out);
        buffer_printf(out, section ? "\n" : ": %s\n", routes[i].docs.summary);
    }
}
