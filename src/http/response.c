/* response.c - the head of an answer. */
#include "http/server_private.h"

#include "sys/clock.h"

#include <stdio.h>
#include <time.h>

static const char *response_reason(int status)
{
    static const struct {
        int status;
        const char *reason;
    } reasons[] = {
        {200, "OK"},
        {201, "Created"},
        {202, "Accepted"},
        {204, "No Content"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {409, "Conflict"},
        {410, "Gone"},
        {412, "Precondition Failed"},
        {413, "Content Too Large"},
        {415, "Unsupported Media Type"},
        {422, "Unprocessable Content"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {503, "Service Unavailable"},
        {507, "Insufficient Storage"},
    };

    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
        if (reasons[i].status == status)
            return reasons[i].reason;
    return ""; /* HTTP allows an empty reason phrase */
}

/* Returns the Date line, which changes once a second. */
static const char *response_date(struct http_loop *loop)
{
    static const char days[][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char months[][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    const uint64_t now_s = wall_machine_now().ms / 1000;

    if (loop->date_s == now_s)
        return loop->date;
    const time_t time = (time_t)now_s;
    struct tm utc;
    loop->date[0] = '\0';
    if (gmtime_r(&time, &utc))
        snprintf(loop->date, sizeof(loop->date), "Date: %s, %02u %s %04u %02u:%02u:%02u GMT\r\n",
                 days[utc.tm_wday], (unsigned)utc.tm_mday % 100, months[utc.tm_mon],
                 (unsigned)(utc.tm_year + 1900) % 10000, (unsigned)utc.tm_hour % 100,
                 (unsigned)utc.tm_min % 100, (unsigned)utc.tm_sec % 100);
    loop->date_s = now_s;
    return loop->date;
}

static void response_format_field(struct buffer *out, const char *name, const char *value)
{
    buffer_append_text(out, name);
    buffer_append_bytes(out, BYTES(": "));
    buffer_append_text(out, value);
    buffer_append_bytes(out, BYTES("\r\n"));
}

static struct bytes response_content(const struct http_response *response)
{
    return response->lent.data ? response->lent : buffer_bytes(&response->body);
}

struct bytes response_body(const struct http_request *request)
{
    if (request->response.status == 204 || bytes_equal(http_request_method(request), BYTES("HEAD")))
        return BYTES("");
    return response_content(&request->response);
}

void response_format_head(struct http_loop *loop, const struct http_request *request,
                          struct buffer *out)
{
    const struct http_response *response = &request->response;

    buffer_append_bytes(out, BYTES("HTTP/1.1 "));
    buffer_append_u64(out, (uint64_t)response->status);
    buffer_append_bytes(out, BYTES(" "));
    buffer_append_text(out, response_reason(response->status));
    buffer_append_bytes(out, BYTES("\r\n"));
    buffer_append_text(out, response_date(loop));
    if (response->content_type)
        response_format_field(out, "Content-Type", response->content_type);
    if (response->status != 204 && !request->is_stream) {
        buffer_append_bytes(out, BYTES("Content-Length: "));
        buffer_append_u64(out, response_content(response).size);
        buffer_append_bytes(out, BYTES("\r\n"));
    }
    for (size_t i = 0; i < response->header_count; i++)
        response_format_field(out, response->headers[i].name, response->headers[i].value);
    if (request->ends_connection)
        buffer_append_bytes(out, BYTES("Connection: close\r\n"));
    else if (request->is_http_1_0)
        buffer_append_bytes(out, BYTES("Connection: keep-alive\r\n"));
    buffer_append_bytes(out, BYTES("\r\n"));
}
