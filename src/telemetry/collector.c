/* collector.c - requests of OTLP by libcurl, and what the collector answers. */
#include "telemetry/collector.h"

#include "base/hex.h"
#include "base/json.h"
#include "base/json_write.h"
#include "base/number.h"
#include "base/percent.h"
#include "sys/entropy.h"

#include <stdio.h>
#include <stdlib.h>

#define SCHEMA_URL "https://opentelemetry.io/schemas/1.27.0"

/* ---- settings ---- */

/* Takes the next "name=value" off a list with commas. The value is decoded into `room`, which is as
 * large as the list. False if there is none left, or one that is malformed: then `list` is not
 * empty. */
static bool collector_next_pair(struct bytes *list, char *room, struct bytes *ret_name,
                                struct bytes *ret_value)
{
    while (list->size > 0) {
        struct bytes rest = *list;
        const struct bytes pair = bytes_trim(bytes_cut(&rest, ','));

        if (pair.size == 0) {
            *list = rest;
            continue;
        }
        const char *equals = memchr(pair.data, '=', pair.size);
        if (!equals || equals == pair.data)
            return false;
        const size_t name_size = (size_t)(equals - pair.data);
        const struct bytes value =
            bytes_trim((struct bytes){equals + 1, pair.size - name_size - 1});
        const size_t size = percent_decoded_size(value);
        if (size == SIZE_MAX) /* is taken as it is */
            memcpy(room, value.data, value.size);
        else
            percent_decode(value, room);
        *ret_name = bytes_trim((struct bytes){pair.data, name_size});
        *ret_value = (struct bytes){room, size == SIZE_MAX ? value.size : size};
        *list = rest;
        return true;
    }
    return false;
}

static bool collector_add_header(struct collector *collector, const char *line)
{
    struct curl_slist *headers = curl_slist_append(collector->headers_, line);

    if (headers)
        collector->headers_ = headers;
    return headers != NULL;
}

static enum error_code collector_read_headers(struct collector *collector,
                                              const struct config *config, struct error *ret_error)
{
    struct bytes list = bytes_of(config->otlp_headers), name, value;
    char room[sizeof(config->otlp_headers)], line[2 * sizeof(config->otlp_headers)];

    bool is_done = collector_add_header(collector, "Content-Type: application/json") &&
                   collector_add_header(collector, "Expect:");
    while (is_done && collector_next_pair(&list, room, &name, &value)) {
        if (bytes_has_control(name) || bytes_has_control(value))
            return error_set(ret_error, ERROR_INVALID, "otlp_headers: a control character");
        snprintf(line, sizeof(line), "%.*s: %.*s", (int)name.size, name.data, (int)value.size,
                 value.data);
        is_done = collector_add_header(collector, line);
    }
    explicit_bzero(room, sizeof(room));
    explicit_bzero(line, sizeof(line));
    if (!is_done)
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    return list.size ? error_set(ret_error, ERROR_INVALID,
                                 "otlp_headers: it must be name=value, with commas between")
                     : ERROR_NONE;
}

/* Writes a random UUID of version 4. */
static enum error_code collector_make_uuid(char ret_text[37])
{
    uint64_t halves[2];

    if (entropy_fill(halves, sizeof(halves)))
        return ERROR_IO;
    const uint64_t high = (halves[0] & ~UINT64_C(0xf000)) | 0x4000;
    const uint64_t low = (halves[1] & ~(UINT64_C(3) << 62)) | UINT64_C(1) << 63;
    hex_write(ret_text, 8, high >> 32);
    hex_write(ret_text + 9, 4, high >> 16);
    hex_write(ret_text + 14, 4, high);
    hex_write(ret_text + 19, 4, low >> 48);
    hex_write(ret_text + 24, 12, low);
    ret_text[8] = ret_text[13] = ret_text[18] = ret_text[23] = '-';
    ret_text[36] = '\0';
    return ERROR_NONE;
}

/* Attributes of the resource that the daemon sets unless otlp_resource_attributes do. */
struct collector_own {
    const char *name;
    const char *value;
    bool wins;    /* it is set in any case */
    bool is_told; /* it was among the attributes of the setting */
};

static bool collector_is_own(struct collector_own *own, size_t count, struct bytes name)
{
    for (size_t i = 0; i < count; i++)
        if (bytes_equal(name, bytes_of(own[i].name))) {
            own[i].is_told = true;
            return own[i].wins;
        }
    return false;
}

static enum error_code collector_make_resource(struct collector *collector,
                                               const struct config *config, struct error *ret_error)
{
    struct bytes list = bytes_of(config->otlp_resource_attributes), name, value;
    char room[sizeof(config->otlp_resource_attributes)], uuid[37];
    struct buffer *out = &collector->resource_;

    if (collector_make_uuid(uuid))
        return error_set(ret_error, ERROR_IO, "the system gives no entropy");
    const bool has_name = *config->otlp_service_name;
    struct collector_own own[] = {
        {"service.name", has_name ? config->otlp_service_name : "tickwheeld", has_name, false},
        {"service.version", TICKWHEEL_VERSION, false, false},
        {"service.instance.id", uuid, false, false},
    };
    const size_t count = sizeof(own) / sizeof(own[0]);
    json_open(out, NULL, '{');
    json_open(out, "resourceSpans", '[');
    json_open(out, NULL, '{');
    json_open(out, "resource", '{');
    json_open(out, "attributes", '[');
    while (collector_next_pair(&list, room, &name, &value))
        if (!collector_is_own(own, count, name))
            span_append_attribute(out, name, value);
    for (size_t i = 0; i < count; i++)
        if (own[i].wins || !own[i].is_told)
            span_append_attribute(out, bytes_of(own[i].name), bytes_of(own[i].value));
    json_close(out, ']');
    json_close(out, '}');
    json_put_text(out, "schemaUrl", SCHEMA_URL);
    json_open(out, "scopeSpans", '[');
    json_open(out, NULL, '{');
    json_open(out, "scope", '{');
    json_put_text(out, "name", "tickwheel");
    json_put_text(out, "version", TICKWHEEL_VERSION);
    json_close(out, '}');
    json_open(out, "spans", '[');
    if (buffer_failed(out))
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    return list.size ? error_set(ret_error, ERROR_INVALID,
                                 "otlp_resource_attributes: it must be name=value, with commas")
                     : ERROR_NONE;
}

/* ---- libcurl ---- */

/* What collector_send asks while it waits. */
struct collector_wait {
    bool (*is_over)(void *context);
    void *context;
};

static int collector_on_progress(void *context, curl_off_t a, curl_off_t b, curl_off_t c,
                                 curl_off_t d)
{
    const struct collector_wait *wait = context;

    (void)a, (void)b, (void)c, (void)d;
    return wait->is_over(wait->context);
}

static size_t collector_on_answer(char *data, size_t one, size_t size, void *context)
{
    struct buffer *answer = context;

    (void)one;
    if (answer->size < COLLECTOR_ANSWER_BYTES)
        buffer_append(answer, data,
                      size < COLLECTOR_ANSWER_BYTES - answer->size
                          ? size
                          : COLLECTOR_ANSWER_BYTES - answer->size);
    return size;
}

static enum error_code collector_set_up(struct collector *collector, const struct config *config,
                                        struct error *ret_error)
{
    CURL *easy = collector->easy_ = curl_easy_init();
    CURLcode bad = CURLE_OK;

    if (!easy)
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    bad |= curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    bad |= curl_easy_setopt(easy, CURLOPT_URL, config->otlp_endpoint);
    bad |= curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    bad |= curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    bad |= curl_easy_setopt(easy, CURLOPT_PROXY, "");
    bad |= curl_easy_setopt(easy, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    bad |= curl_easy_setopt(easy, CURLOPT_USERAGENT, "tickwheel/" TICKWHEEL_VERSION);
    bad |= curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    bad |= curl_easy_setopt(easy, CURLOPT_HTTPHEADER, collector->headers_);
    bad |= curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, collector_on_answer);
    bad |= curl_easy_setopt(easy, CURLOPT_WRITEDATA, &collector->answer_);
    bad |= curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, collector_on_progress);
    bad |= curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
    return bad == CURLE_OK ? ERROR_NONE
                           : error_set(ret_error, ERROR_NO_MEMORY, "libcurl refuses an option");
}

/* True if the text is "http://HOST..." or "https://HOST...", as libcurl reads it. */
static bool collector_is_url(const char *text)
{
    CURLU *url = curl_url();
    char *scheme = NULL;

    const bool is_url = url && curl_url_set(url, CURLUPART_URL, text, 0) == CURLUE_OK &&
                        curl_url_get(url, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
                        (strcmp(scheme, "http") == 0 || strcmp(scheme, "https") == 0);
    curl_free(scheme);
    curl_url_cleanup(url);
    return is_url;
}

enum error_code collector_init(struct collector *collector, const struct config *config,
                               struct error *ret_error)
{
    *collector = (struct collector){0};
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return error_set(ret_error, ERROR_NO_MEMORY, "libcurl does not start");
    enum error_code code = ERROR_NONE;
    if (!collector_is_url(config->otlp_endpoint))
        code = error_set(ret_error, ERROR_INVALID,
                         "otlp_endpoint: it must be a URL, http:// or https://");
    if (!code)
        code = collector_read_headers(collector, config, ret_error);
    if (!code)
        code = collector_make_resource(collector, config, ret_error);
    if (!code)
        code = collector_set_up(collector, config, ret_error);
    if (code)
        collector_deinit(collector);
    return code;
}

void collector_deinit(struct collector *collector)
{
    curl_easy_cleanup(collector->easy_);
    curl_slist_free_all(collector->headers_);
    buffer_deinit(&collector->resource_);
    buffer_deinit(&collector->body_);
    buffer_deinit(&collector->answer_);
    curl_global_cleanup();
}

/* ---- requests ---- */

void collector_begin(struct collector *collector)
{
    buffer_clear(&collector->body_);
    buffer_append_bytes(&collector->body_, buffer_bytes(&collector->resource_));
    collector->count_ = 0;
}

void collector_add(struct collector *collector, const struct span *span)
{
    span_append_json(span, &collector->body_);
    collector->count_++;
}

/* Reads a number that JSON has as such or, as OTLP does, as a text. Returns 0 for anything else. */
static uint64_t collector_read_count(struct json_reader *reader)
{
    struct json_string text;
    struct bytes number;
    uint64_t count = 0;

    switch (json_peek(reader)) {
    case JSON_NUMBER:
        if (json_read_number(reader, &number) && json_number_u64(number, &count) != JSON_U64_OK)
            count = 0;
        return count;
    case JSON_STRING:
        if (json_read_string(reader, &text) && !number_parse(text.raw, 10, &count))
            count = 0;
        return count;
    default:
        json_skip(reader, NULL);
        return 0;
    }
}

uint64_t collector_rejected(struct bytes answer)
{
    struct json_reader reader;
    struct json_string name;
    uint64_t rejected = 0;

    json_reader_init(&reader, answer);
    if (json_peek(&reader) != JSON_OBJECT || !json_enter_object(&reader))
        return 0;
    while (json_next_member(&reader, &name)) {
        if (!bytes_equal(name.raw, BYTES("partialSuccess")) || json_peek(&reader) != JSON_OBJECT ||
            !json_enter_object(&reader)) {
            json_skip(&reader, NULL);
            continue;
        }
        while (json_next_member(&reader, &name))
            if (bytes_equal(name.raw, BYTES("rejectedSpans")))
                rejected = collector_read_count(&reader);
            else
                json_skip(&reader, NULL);
    }
    return json_finish(&reader) ? rejected : 0;
}

/* Judges the answer, or the lack of one, as OTLP says. */
static enum collector_verdict collector_judge(struct collector *collector, CURLcode result,
                                              struct collector_reply *reply)
{
    long status = 0;
    curl_off_t retry_after_s = 0;

    if (result != CURLE_OK) {
        error_set(&reply->cause, ERROR_IO, "no answer of the collector: %s",
                  curl_easy_strerror(result));
        return COLLECTOR_RETRY;
    }
    curl_easy_getinfo(collector->easy_, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(collector->easy_, CURLINFO_RETRY_AFTER, &retry_after_s);
    if (status >= 200 && status < 300) {
        const uint64_t rejected = collector_rejected(buffer_bytes(&collector->answer_));

        reply->rejected = rejected < collector->count_ ? rejected : collector->count_;
        if (rejected)
            error_set(&reply->cause, ERROR_INVALID, "the collector rejected spans");
        return COLLECTOR_TAKEN;
    }
    error_set(&reply->cause, ERROR_IO, "the collector answered %ld", status);
    reply->retry_after_ms = retry_after_s > 0 ? (uint64_t)retry_after_s * 1000 : 0;
    return status == 429 || status == 502 || status == 503 || status == 504 ? COLLECTOR_RETRY
                                                                            : COLLECTOR_REFUSED;
}

enum collector_verdict collector_send(struct collector *collector, uint64_t timeout_ms,
                                      bool (*is_over)(void *context), void *context,
                                      struct collector_reply *ret_reply)
{
    static const char end[] = "]}]}]}";
    struct collector_wait wait = {is_over, context};
    struct buffer *body = &collector->body_;
    const size_t size = body->size;
    CURL *easy = collector->easy_;

    *ret_reply = (struct collector_reply){0};
    buffer_append_text(body, end);
    if (buffer_failed(body)) {
        error_set(&ret_reply->cause, ERROR_NO_MEMORY, "out of memory");
        return COLLECTOR_REFUSED;
    }
    buffer_clear(&collector->answer_);
    CURLcode bad = CURLE_OK;
    bad |= curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body->size);
    bad |= curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body->data);
    bad |= curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)timeout_ms);
    bad |= curl_easy_setopt(easy, CURLOPT_XFERINFODATA, &wait);
    const CURLcode result = bad == CURLE_OK ? curl_easy_perform(easy) : bad;
    body->size = size; /* the end is appended again if the request is repeated */
    return collector_judge(collector, result, ret_reply);
}
