#include "delivery/webhook_request.h"

#include "base/rfc3339.h"
#include "delivery/webhook.h"

#include <assert.h>
#include <stdlib.h>
#include <strings.h>

/* The headers that are always there: counted with the "Expect:" that switches libcurl's own off. */
#define HEADERS_FIXED 9

/* Their names, numbers and signatures together; with room to spare. */
#define TEXT_FIXED_SIZE 768

void webhook_request_deinit(struct webhook_request *request)
{
    buffer_deinit(&request->text_);
    buffer_deinit(&request->url_);
    free(request->headers_);
}

/* ---- names and values ---- */

void webhook_id_format(const struct timer *timer, char ret_text[WEBHOOK_ID_SIZE])
{
    char digits[20], *at = ret_text + TIMER_ID_TEXT_SIZE - 1;
    size_t count = 0;

    timer_id_format(&timer->id, ret_text);
    *at++ = '-';
    for (uint64_t ms = timer->due.ms; count == 0 || ms > 0; ms /= 10)
        digits[count++] = (char)('0' + ms % 10);
    while (count > 0)
        *at++ = digits[--count];
    *at = '\0';
}

static bool has_name(struct bytes name, const char *other)
{
    return name.size == strlen(other) && strncasecmp(name.data, other, name.size) == 0;
}

bool webhook_header_is_reserved(struct bytes name)
{
    static const char *const prefixes[] = {"webhook-", "tickwheel-", "proxy-"};
    static const char *const names[] = {
        "host",       "content-length", "content-type", "transfer-encoding",
        "connection", "keep-alive",     "expect",       "te",
        "trailer",    "upgrade",        "traceparent",
    };

    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
        size_t size = strlen(prefixes[i]);

        if (name.size >= size && strncasecmp(name.data, prefixes[i], size) == 0)
            return true;
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (has_name(name, names[i]))
            return true;
    return false;
}

/* A token of RFC 9110: what a header's name may consist of. */
static bool is_token(struct bytes text)
{
    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i];
        bool is_alphanumeric = ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || (c >= '0' && c <= '9');

        if (!is_alphanumeric && (c == '\0' || !strchr("!#$%&'*+-.^_`|~", c)))
            return false;
    }
    return text.size > 0;
}

/* No control character: nothing that could end the header and begin another. */
static bool is_value(struct bytes text)
{
    for (size_t i = 0; i < text.size; i++)
        if (((uint8_t)text.data[i] < ' ' && text.data[i] != '\t') || text.data[i] == 0x7f)
            return false;
    return true;
}

static struct bytes trim(struct bytes text)
{
    while (text.size > 0 && (text.data[0] == ' ' || text.data[0] == '\t')) {
        text.data++;
        text.size--;
    }
    while (text.size > 0 && (text.data[text.size - 1] == ' ' || text.data[text.size - 1] == '\t'))
        text.size--;
    return text;
}

/* ---- the list ---- */

/* Room for all lines beforehand, so that none moves while the list points to it. */
static bool reserve(struct webhook_request *request, const struct timer_texts *texts)
{
    size_t count = HEADERS_FIXED + 1;
    struct curl_slist *headers;

    for (size_t i = 0; i < texts->headers.size; i++)
        count += texts->headers.data[i] == '\n';
    if (count > request->headers_capacity_) {
        headers = realloc(request->headers_, count * sizeof(*headers));
        if (!headers)
            return false;
        request->headers_ = headers;
        request->headers_capacity_ = count;
    }
    request->headers_count_ = 0;
    buffer_clear(&request->text_);
    return buffer_reserve(&request->text_, TEXT_FIXED_SIZE + texts->content_type.size +
                                               texts->headers.size + count) != NULL;
}

/* Begins a line with `start`; end() ends it. */
static struct buffer *begin(struct webhook_request *request, struct bytes start)
{
    struct curl_slist *header = &request->headers_[request->headers_count_++];

    assert(request->headers_count_ <= request->headers_capacity_);
    header->data = request->text_.data + request->text_.size;
    header->next = header + 1;
    buffer_append_bytes(&request->text_, start);
    return &request->text_;
}

static void end(struct webhook_request *request)
{
    buffer_append(&request->text_, "", 1);
}

static void add(struct webhook_request *request, struct bytes start, struct bytes value)
{
    buffer_append_bytes(begin(request, start), value);
    end(request);
}

static void add_number(struct webhook_request *request, struct bytes start, uint64_t value)
{
    buffer_append_u64(begin(request, start), value);
    end(request);
}

/* One line "Name: value" of the timer's own. */
static void add_own(struct webhook_request *request, struct bytes line)
{
    const char *colon = line.size ? memchr(line.data, ':', line.size) : NULL;
    struct bytes name, value;

    if (!colon)
        return;
    name = (struct bytes){line.data, (size_t)(colon - line.data)};
    value = trim((struct bytes){colon + 1, line.size - name.size - 1});
    if (!is_token(name) || !is_value(value) || webhook_header_is_reserved(name))
        return;
    begin(request, name);
    /* libcurl sends an empty header only when it is written with a semicolon. */
    buffer_append_text(&request->text_, value.size > 0 ? ": " : ";");
    buffer_append_bytes(&request->text_, value);
    end(request);
}

static void add_all_own(struct webhook_request *request, struct bytes lines)
{
    while (lines.size > 0) {
        const char *newline = memchr(lines.data, '\n', lines.size);
        size_t size = newline ? (size_t)(newline - lines.data) : lines.size;

        add_own(request, (struct bytes){lines.data, size});
        size += newline != NULL;
        lines.data += size;
        lines.size -= size;
    }
}

enum error_code webhook_request_build(struct webhook_request *request,
                                      const struct delivery *delivery, struct signature *signature,
                                      uint64_t now_s, struct curl_slist **ret_headers)
{
    const struct timer *timer = delivery->timer;
    const struct timer_texts *texts = &timer->texts;
    char id[WEBHOOK_ID_SIZE], due[RFC3339_TEXT_SIZE];
    bool has_type = texts->content_type.size > 0 && is_value(texts->content_type);

    if (!reserve(request, texts))
        return ERROR_NO_MEMORY;
    webhook_id_format(timer, id);
    rfc3339_format(timer->due, due);
    add(request, BYTES("content-type: "),
        has_type ? texts->content_type : BYTES("application/json"));
    add(request, BYTES("webhook-id: "), bytes_of(id));
    add_number(request, BYTES("webhook-timestamp: "), now_s);
    if (signature) {
        if (signature_append(signature, bytes_of(id), now_s, texts->payload,
                             begin(request, BYTES("webhook-signature: "))))
            return ERROR_NO_MEMORY;
        end(request);
    }
    add(request, BYTES("tickwheel-due: "), bytes_of(due));
    add_number(request, BYTES("tickwheel-attempt: "), delivery->attempt);
    add_number(request, BYTES("tickwheel-epoch: "), delivery->epoch);
    add(request, BYTES("expect:"), BYTES("")); /* no round trip before a large body */
    assert(request->text_.size <= TEXT_FIXED_SIZE + texts->content_type.size);
    add_all_own(request, texts->headers);
    if (buffer_failed(&request->text_))
        return ERROR_NO_MEMORY;
    request->headers_[request->headers_count_ - 1].next = NULL;
    *ret_headers = request->headers_;
    return ERROR_NONE;
}

/* ---- the URL ---- */

static bool has_scheme(struct bytes target, const char *scheme)
{
    size_t size = strlen(scheme);

    return target.size > size && strncasecmp(target.data, scheme, size) == 0;
}

const char *webhook_request_url(struct webhook_request *request, struct bytes target,
                                enum webhook_scheme *ret_scheme)
{
    struct buffer *url = &request->url_;
    size_t at, authority_end;

    *ret_scheme = has_scheme(target, "http://")    ? WEBHOOK_SCHEME_HTTP
                  : has_scheme(target, "https://") ? WEBHOOK_SCHEME_HTTPS
                                                   : WEBHOOK_SCHEME_OTHER;
    if (*ret_scheme == WEBHOOK_SCHEME_OTHER || memchr(target.data, '\0', target.size)) {
        *ret_scheme = WEBHOOK_SCHEME_OTHER;
        return NULL;
    }
    at = *ret_scheme == WEBHOOK_SCHEME_HTTP ? 7 : 8;
    buffer_clear(url);
    buffer_append(url, target.data, at);
    for (authority_end = at; authority_end < target.size; authority_end++)
        if (strchr("/?#", target.data[authority_end]))
            break;
    for (size_t i = at; i < authority_end; i++)
        if (target.data[i] == '@')
            at = i + 1;
    buffer_append(url, target.data + at, target.size - at);
    buffer_append(url, "", 1);
    return buffer_failed(url) ? NULL : url->data;
}
