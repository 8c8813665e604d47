/* Builds the headers of a webhook: the service's own and those of the timer. */
#include "delivery/webhook_request.h"

#include "base/hex.h"
#include "calendar/rfc3339.h"
#include "delivery/hide.h"
#include "delivery/webhook.h"
#include "timer/schedule.h"
#include "sys/entropy.h"

#include <assert.h>
#include <stdlib.h>
#include <strings.h>

/* Number of the service's own headers, plus one entry that disables libcurl's "Expect". */
#define HEADERS_FIXED 17

/* Room for the names of these headers, their numbers, signatures and traces. */
#define TEXT_FIXED_SIZE (1248 + SIGNATURE_TEXT_SIZE_MAX)

/* Type of a CloudEvent unless the timer sets it. */
#define EVENT_TYPE "tickwheel.timer.due"

void webhook_request_deinit(struct webhook_request *request)
{
    buffer_deinit(&request->text_);
    free(request->headers_);
}

void webhook_request_hide(const struct webhook_request *request, struct delivery *delivery)
{
    for (size_t i = 0; i < 2 && delivery->answer_size > 0; i++)
        hide_secret(request->secrets_[i], delivery->answer, &delivery->answer_size);
}

/* ---- names and values ---- */

void webhook_id_format(const struct timer *timer, char ret_text[WEBHOOK_ID_SIZE])
{
    char *at = ret_text + TIMER_ID_TEXT_SIZE - 1;

    /* A firing that is a timer of its own has the name that it would have without. */
    if (timer->texts.firing_of.size == TIMER_ID_TEXT_SIZE - 1)
        memcpy(ret_text, timer->texts.firing_of.data, TIMER_ID_TEXT_SIZE - 1);
    else
        timer_id_format(&timer->id, ret_text);
    *at++ = '-';
    char digits[20];
    size_t count = 0;
    for (uint64_t ms = timer->due.ms; count == 0 || ms > 0; ms /= 10)
        digits[count++] = (char)('0' + ms % 10);
    while (count > 0)
        *at++ = digits[--count];
    *at = '\0';
}

static bool webhook_request_has_name(struct bytes name, const char *other)
{
    return name.size == strlen(other) && strncasecmp(name.data, other, name.size) == 0;
}

bool webhook_header_is_reserved(struct bytes name)
{
    static const char *const prefixes[] = {"webhook-", "tickwheel-", "proxy-"};
    static const char *const names[] = {
        "host",       "content-length", "content-type", "transfer-encoding",
        "connection", "keep-alive",     "expect",       "te",
        "trailer",    "upgrade",        "traceparent",  "tracestate",
    };

    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
        size_t size = strlen(prefixes[i]);

        if (name.size >= size && strncasecmp(name.data, prefixes[i], size) == 0)
            return true;
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (webhook_request_has_name(name, names[i]))
            return true;
    return false;
}

bool webhook_header_is_name(struct bytes text)
{
    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i];
        bool is_alphanumeric = ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || (c >= '0' && c <= '9');

        if (!is_alphanumeric && (c == '\0' || !strchr("!#$%&'*+-.^_`|~", c)))
            return false;
    }
    return text.size > 0;
}

const char *webhook_request_method(const struct timer *timer)
{
    static const char *const methods[] = {"PUT", "PATCH", "GET", "DELETE"};

    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
        if (bytes_equal(timer->texts.method, bytes_of(methods[i])))
            return methods[i];
    return "POST";
}

/* ---- the list ---- */

/* Reserves memory for all lines first, so that pointers to them stay valid. */
static bool webhook_request_reserve(struct webhook_request *request,
                                    const struct timer_texts *texts,
                                    const struct webhook_envelope *envelope, size_t token_size)
{
    size_t source_size = (envelope->event_source ? strlen(envelope->event_source) : 0) +
                         (envelope->ack_url ? strlen(envelope->ack_url) : 0);
    size_t count = HEADERS_FIXED + 1;

    for (size_t i = 0; i < texts->headers.size; i++)
        count += texts->headers.data[i] == '\n';
    if (count > request->headers_capacity_) {
        struct curl_slist *headers = realloc(request->headers_, count * sizeof(*headers));
        if (!headers)
            return false;
        request->headers_ = headers;
        request->headers_capacity_ = count;
    }
    request->headers_count_ = 0;
    request->secrets_[0] = request->secrets_[1] = (struct bytes){0};
    buffer_clear(&request->text_);
    return buffer_reserve(&request->text_, TEXT_FIXED_SIZE + source_size + token_size +
                                               3 * texts->key.size + texts->content_type.size +
                                               texts->headers.size + 3 * count) != NULL;
}

/* Begins a line with `start`; webhook_request_end() ends it. */
static struct buffer *request_begin(struct webhook_request *request, struct bytes start)
{
    struct curl_slist *header = &request->headers_[request->headers_count_++];

    assert(request->headers_count_ <= request->headers_capacity_);
    header->data = request->text_.data + request->text_.size;
    buffer_append_bytes(&request->text_, start);
    return &request->text_;
}

static void webhook_request_end(struct webhook_request *request)
{
    buffer_append(&request->text_, "\r\n", 2);
}

static void webhook_request_add(struct webhook_request *request, struct bytes start,
                                struct bytes value)
{
    buffer_append_bytes(request_begin(request, start), value);
    webhook_request_end(request);
}

static void request_add_number(struct webhook_request *request, struct bytes start, uint64_t value)
{
    buffer_append_u64(request_begin(request, start), value);
    webhook_request_end(request);
}

struct own_header {
    struct bytes name, value;
};

/* Returns the timer's next header "Name: value" that may be sent. False if there is none left. */
static bool request_next_own(struct bytes *lines, struct own_header *ret_own)
{
    while (lines->size > 0) {
        const char *newline = memchr(lines->data, '\n', lines->size);
        struct bytes line = {lines->data, newline ? (size_t)(newline - lines->data) : lines->size};
        const char *colon = line.size ? memchr(line.data, ':', line.size) : NULL;

        lines->data += line.size + (newline != NULL);
        lines->size -= line.size + (newline != NULL);
        if (!colon)
            continue;
        ret_own->name = (struct bytes){line.data, (size_t)(colon - line.data)};
        ret_own->value = bytes_trim((struct bytes){colon + 1, line.size - ret_own->name.size - 1});
        if (webhook_header_is_name(ret_own->name) && !bytes_has_control(ret_own->value) &&
            !webhook_header_is_reserved(ret_own->name))
            return true;
    }
    return false;
}

bool webhook_request_has_own(const struct timer *timer, const char *name)
{
    struct bytes lines = timer->texts.headers;
    struct own_header own;

    while (request_next_own(&lines, &own))
        if (webhook_request_has_name(own.name, name))
            return true;
    return false;
}

/* True for attributes that identify the CloudEvent, which the timer must not set. */
static bool request_is_of_event(struct bytes name)
{
    return webhook_request_has_name(name, "ce-specversion") ||
           webhook_request_has_name(name, "ce-id") || webhook_request_has_name(name, "ce-source") ||
           webhook_request_has_name(name, "ce-time");
}

static void request_add_all_own(struct webhook_request *request, struct bytes lines, bool is_event)
{
    struct own_header own;

    while (request_next_own(&lines, &own)) {
        if (is_event && request_is_of_event(own.name))
            continue;
        request_begin(request, own.name);
        buffer_append_text(&request->text_, own.value.size > 0 ? ": " : ":");
        buffer_append_bytes(&request->text_, own.value);
        webhook_request_end(request);
    }
}

/* ---- CloudEvents 1.0, binary mode ---- */

/* Encodes an attribute of a CloudEvent for an HTTP header: everything except visible ASCII, and
 * also quotes and percent signs, becomes %XX. */
static void request_append_attribute(struct buffer *out, struct bytes text)
{
    static const char digits[] = "0123456789ABCDEF";

    for (size_t i = 0; i < text.size; i++) {
        unsigned char c = (unsigned char)text.data[i];
        const char escaped[3] = {'%', digits[c >> 4], digits[c & 15]};

        if (c > ' ' && c < 0x7f && c != '"' && c != '%')
            buffer_append(out, &text.data[i], 1);
        else
            buffer_append(out, escaped, sizeof(escaped));
    }
}

static void request_add_event(struct webhook_request *request, const struct timer *timer,
                              const char *source, struct bytes id, struct bytes due)
{
    const struct timer_texts *texts = &timer->texts;

    webhook_request_add(request, BYTES("ce-specversion: "), BYTES("1.0"));
    webhook_request_add(request, BYTES("ce-id: "), id);
    webhook_request_add(request, BYTES("ce-source: "), bytes_of(source));
    webhook_request_add(request, BYTES("ce-time: "), due);
    if (!webhook_request_has_own(timer, "ce-type"))
        webhook_request_add(request, BYTES("ce-type: "), BYTES(EVENT_TYPE));
    if (texts->key.size && !webhook_request_has_own(timer, "ce-subject")) {
        request_append_attribute(request_begin(request, BYTES("ce-subject: ")), texts->key);
        webhook_request_end(request);
    }
}

/* ---- traces ---- */

struct trace_parent webhook_request_trace(const struct delivery *delivery, struct random *high,
                                          struct random *low)
{
    const struct bytes created_by = delivery_sent(delivery)->texts.trace;
    struct trace_parent link = {.is_sampled = !bytes_equal(created_by, BYTES(TRACE_UNSAMPLED))};

    if (delivery->trace.span)
        return delivery->trace;
    /* if the text is no trace, `link` stays as it is */
    trace_parent_parse(created_by, &link);
    return trace_parent_new(high, low, link.is_sampled);
}

static void request_add_trace(struct webhook_request *request, const struct trace_parent *trace,
                              struct bytes link)
{
    char text[TRACE_PARENT_SIZE + 1];

    trace_parent_format(trace, text);
    webhook_request_add(request, BYTES("traceparent: "), bytes_of(text));
    if (link.size == TRACE_PARENT_SIZE && !bytes_has_control(link))
        webhook_request_add(request, BYTES("tickwheel-linked-traceparent: "), link);
}

/* ---- later answers ---- */

enum error_code webhook_request_make_token(struct delivery *delivery)
{
    uint64_t halves[2];

    if (entropy_fill(halves, sizeof(halves)))
        return ERROR_IO;
    hex_write(delivery->ack_token, 16, halves[0]);
    hex_write(delivery->ack_token + 16, 16, halves[1]);
    delivery->ack_token[AWAITS_TOKEN_SIZE] = '\0';
    return ERROR_NONE;
}

/* Adds the URL that ends this attempt, with /ack, /nack or /extend after it. */
static void request_add_ack_url(struct webhook_request *request, const char *url,
                                const struct delivery *delivery)
{
    const size_t size = strlen(url);
    char id[TIMER_ID_TEXT_SIZE];

    timer_id_format(&delivery->timer->id, id);
    buffer_append_bytes(request_begin(request, BYTES("tickwheel-ack-url: ")),
                        (struct bytes){url, url[size - 1] == '/' ? size - 1 : size});
    buffer_append_text(&request->text_, "/answers/");
    buffer_append_text(&request->text_, id);
    buffer_append_text(&request->text_, "-");
    buffer_append_text(&request->text_, delivery->ack_token);
    request->secrets_[1] = (struct bytes){
        request->text_.data + request->text_.size - AWAITS_TOKEN_SIZE, AWAITS_TOKEN_SIZE};
    webhook_request_end(request);
}

/* ---- all of it ---- */

enum error_code webhook_request_build(struct webhook_request *request,
                                      const struct delivery *delivery,
                                      const struct webhook_envelope *envelope)
{
    const struct timer *timer = delivery_sent(delivery);
    const struct timer_texts *texts = &timer->texts;
    bool has_type = texts->content_type.size > 0 && !bytes_has_control(texts->content_type);

    struct bytes token = envelope->bearer;
    /* an "authorization" of the timer's own takes the place of the issuer's token */
    const bool has_token =
        token.size > 0 || (envelope->issuer && !webhook_request_has_own(timer, "authorization"));
    if (has_token && !token.size)
        token = token_issuer_find(envelope->issuer, texts->tenant,
                                  envelope->audience.size ? envelope->audience
                                                          : timer_target_origin(timer),
                                  envelope->now_s);
    if ((has_token && !token.size) ||
        !webhook_request_reserve(request, texts, envelope, token.size))
        return ERROR_NO_MEMORY;
    char id[WEBHOOK_ID_SIZE];
    webhook_id_format(timer, id);
    char due[RFC3339_TEXT_SIZE];
    rfc3339_format(timer->due, due);
    webhook_request_add(request, BYTES("content-type: "),
                        has_type ? texts->content_type : BYTES("application/json"));
    webhook_request_add(request, BYTES("webhook-id: "), bytes_of(id));
    request_add_number(request, BYTES("webhook-timestamp: "), envelope->now_s);
    if (envelope->signature) {
        if (signature_append(envelope->signature, bytes_of(id), envelope->now_s, texts->payload,
                             request_begin(request, BYTES("webhook-signature: "))))
            return ERROR_NO_MEMORY;
        webhook_request_end(request);
    }
    if (has_token) {
        webhook_request_add(request, BYTES("authorization: Bearer "), token);
        request->secrets_[0] =
            (struct bytes){request->text_.data + request->text_.size - 2 - token.size, token.size};
    }
    webhook_request_add(request, BYTES("tickwheel-due: "), bytes_of(due));
    struct backfill backfill;
    if (schedule_backfill(texts->schedule, &backfill))
        webhook_request_add(request, BYTES("tickwheel-backfill: "), backfill.of);
    request_add_number(request, BYTES("tickwheel-attempt: "), delivery->attempt);
    request_add_number(request, BYTES("tickwheel-epoch: "), delivery->epoch);
    request_add_trace(request, &envelope->trace, texts->trace);
    if (envelope->ack_url)
        request_add_ack_url(request, envelope->ack_url, delivery);
    if (envelope->event_source)
        request_add_event(request, timer, envelope->event_source, bytes_of(id), bytes_of(due));
    request_add_all_own(request, texts->headers, envelope->event_source != NULL);
    return buffer_failed(&request->text_) ? ERROR_NO_MEMORY : ERROR_NONE;
}

struct curl_slist *webhook_request_list(struct webhook_request *request)
{
    static const char no_expect[] = "expect:"; /* saves a round trip before a large body */

    for (size_t i = 0; i < request->headers_count_; i++) {
        struct curl_slist *header = &request->headers_[i];
        const char *text_end = request->text_.data + request->text_.size;
        char *end = memchr(header->data, '\r', (size_t)(text_end - header->data));

        *end = '\0';
        /* an empty header, which libcurl sends only if it ends with a semicolon */
        if (end[-1] == ':')
            end[-1] = ';';
        header->next = header + 1;
    }
    request->headers_[request->headers_count_] =
        (struct curl_slist){.data = (char *)(uintptr_t)no_expect};
    return request->headers_;
}
