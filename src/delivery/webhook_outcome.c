/* Turns the end of an attempt into the outcome of its delivery and a verdict for the breaker. */
#include "delivery/webhook_outcome.h"

#include "base/number.h"
#include "sys/clock.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void webhook_outcome_fail(struct delivery_outcome *ret_outcome, enum delivery_result result,
                          const char *error)
{
    ret_outcome->result = result;
    ret_outcome->retry_after_ms = 0;
    ret_outcome->holds = DELIVERY_HOLDS_QUEUE;
    ret_outcome->is_answer = false;
    ret_outcome->status = 0;
    snprintf(ret_outcome->error, sizeof(ret_outcome->error), "%s", error);
}

/* Formats a time such as "15 s" or "250 ms". */
static void outcome_format_ms(uint64_t ms, char ret_text[32])
{
    if (ms % 1000 == 0)
        snprintf(ret_text, 32, "%" PRIu64 " s", ms / 1000);
    else
        snprintf(ret_text, 32, "%" PRIu64 " ms", ms);
}

static bool webhook_outcome_is_digits(struct bytes text)
{
    return text.size > 0 && strspn(text.data, "0123456789") >= text.size;
}

/* Reads seconds with an optional fraction; UINT64_MAX if they are too many. Returns false for any
 * other text. */
static bool webhook_outcome_read_seconds(struct bytes text, uint64_t *ret_ms)
{
    const char *point = text.size ? memchr(text.data, '.', text.size) : NULL;
    const struct bytes whole = {text.data, point ? (size_t)(point - text.data) : text.size};
    const struct bytes fraction = {point ? point + 1 : NULL,
                                   point ? text.size - whole.size - 1 : 0};
    uint64_t seconds = 0, ms = 0;

    if (!webhook_outcome_is_digits(whole) || (point && !webhook_outcome_is_digits(fraction)))
        return false;
    for (size_t i = 0; i < 3; i++)
        ms = ms * 10 + (i < fraction.size ? (uint64_t)(fraction.data[i] - '0') : 0);
    /* any rest is rounded up, so that the retry is not early */
    for (size_t i = 3; i < fraction.size; i++)
        if (fraction.data[i] != '0') {
            ms++;
            break;
        }
    *ret_ms = number_parse(whole, 10, &seconds) && seconds <= UINT64_MAX / 1001
                  ? seconds * 1000 + ms
                  : UINT64_MAX;
    return true;
}

/* Returns the text without the white space at its ends, of which libcurl removes some: 7.88 leaves
 * a \r before a value that begins on the line after the name. */
static struct bytes webhook_outcome_trim(const char *text)
{
    static const char white[] = " \t\r\n\v\f";
    struct bytes trimmed = bytes_of(text + strspn(text, white));

    while (trimmed.size > 0 && strchr(white, trimmed.data[trimmed.size - 1]))
        trimmed.size--;
    return trimmed;
}

/* Reads the seconds or the date of Retry-After (RFC 9110, 10.2.3). Fractions are not standard, but
 * some services send them. */
static uint64_t outcome_retry_after_ms(const char *text)
{
    uint64_t ms = 0;

    if (!text)
        return 0;
    if (!webhook_outcome_read_seconds(webhook_outcome_trim(text), &ms)) {
        const time_t date = curl_getdate(text, NULL);
        const uint64_t now = wall_machine_now().ms / 1000;

        ms = date > 0 && (uint64_t)date > now ? ((uint64_t)date - now) * 1000 : 0;
    }
    return ms == 0 || ms == UINT64_MAX ? ms : ms + 1; /* one more, as explained at wall_coming() */
}

static void outcome_set_by_status(struct delivery_outcome *ret_outcome,
                                  const struct webhook_attempt *attempt)
{
    const uint16_t status = attempt->status;

    if (status == 202 && attempt->answers_later) {
        webhook_outcome_fail(ret_outcome, attempt->may_wait ? DELIVERY_AWAITED : DELIVERY_FAILED,
                             attempt->may_wait ? "" : "it answers later, which needs public_url");
        ret_outcome->is_answer = true;
        ret_outcome->status = status;
        return;
    }
    if (status >= 200 && status < 300) {
        *ret_outcome = (struct delivery_outcome){.result = DELIVERY_DONE, .status = status};
        return;
    }
    char error[64];
    snprintf(error, sizeof(error), "HTTP %u%s", status,
             status >= 300 && status < 400 ? ": redirects are not followed" : "");
    webhook_outcome_fail(ret_outcome, status == 410 ? DELIVERY_ENDED : DELIVERY_FAILED, error);
    ret_outcome->is_answer = true;
    ret_outcome->status = status;
    if (status != 410)
        ret_outcome->retry_after_ms = outcome_retry_after_ms(attempt->retry_after);
}

static void outcome_set_timed_out(struct delivery_outcome *ret_outcome,
                                  const struct webhook_attempt *attempt)
{
    uint64_t connect_ms = attempt->connect_timeout_ms < attempt->timeout_ms
                              ? attempt->connect_timeout_ms
                              : attempt->timeout_ms;
    char time[32];
    outcome_format_ms(attempt->is_connected ? attempt->timeout_ms : connect_ms, time);
    char error[80];
    snprintf(error, sizeof(error), "%s %s",
             attempt->is_connected  ? "timed out after"
             : attempt->is_resolved ? "no connection within"
                                    : "host name not resolved within",
             time);
    webhook_outcome_fail(ret_outcome, DELIVERY_FAILED, error);
}

static void outcome_set_not_connected(struct delivery_outcome *ret_outcome,
                                      const struct webhook_attempt *attempt)
{
    const int number = attempt->open_errno ? attempt->open_errno : attempt->connect_errno;
    char error[sizeof(ret_outcome->error)];

    if (attempt->refused_kind) {
        snprintf(error, sizeof(error), "address refused: %s; webhook_allow can allow its network",
                 attempt->refused_kind);
        webhook_outcome_fail(ret_outcome, DELIVERY_FAILED, error);
        return;
    }
    if (number == ECONNREFUSED)
        snprintf(error, sizeof(error), "connection refused");
    else
        snprintf(error, sizeof(error), "no connection: %s",
                 number && strerrordesc_np(number) ? strerrordesc_np(number) : "unknown reason");
    webhook_outcome_fail(ret_outcome, DELIVERY_FAILED, error);
}

void webhook_outcome_set(struct delivery_outcome *ret_outcome,
                         const struct webhook_attempt *attempt)
{
    if (attempt->has_answer && attempt->status >= 200) {
        outcome_set_by_status(ret_outcome, attempt);
        return;
    }
    const CURLcode result = attempt->has_long_header ? CURLE_WRITE_ERROR : attempt->result;
    char error[sizeof(ret_outcome->error)];
    switch (result) {
    case CURLE_OPERATION_TIMEDOUT:
        outcome_set_timed_out(ret_outcome, attempt);
        return;
    case CURLE_COULDNT_CONNECT:
        outcome_set_not_connected(ret_outcome, attempt);
        return;
    case CURLE_COULDNT_RESOLVE_HOST:
        webhook_outcome_fail(ret_outcome, DELIVERY_FAILED, "host name not found");
        return;
    case CURLE_OK: /* the connection ended without a status: not HTTP */
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
        webhook_outcome_fail(ret_outcome, DELIVERY_FAILED, "connection closed without an answer");
        return;
    case CURLE_WRITE_ERROR:
        webhook_outcome_fail(ret_outcome, DELIVERY_FAILED,
                             attempt->has_odd_status ? "answer is not HTTP"
                                                     : "answer with too many headers");
        return;
    /* protocol of the answer; that of the target was checked before */
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_BAD_FUNCTION_ARGUMENT: /* a continuation line without a header before it */
        webhook_outcome_fail(ret_outcome, DELIVERY_FAILED, "answer is not HTTP");
        return;
    case CURLE_URL_MALFORMAT: /* the target itself is wrong, so no attempt can succeed */
        webhook_outcome_fail(ret_outcome, DELIVERY_ENDED, "target is not a URL that can be called");
        return;
    case CURLE_OUT_OF_MEMORY:
        webhook_outcome_fail(ret_outcome, DELIVERY_FAILED, "out of memory");
        return;
    case CURLE_PEER_FAILED_VERIFICATION:
        webhook_outcome_fail(ret_outcome, DELIVERY_FAILED, "certificate of the target not trusted");
        return;
    case CURLE_SSL_CONNECT_ERROR:
        webhook_outcome_fail(ret_outcome, DELIVERY_FAILED, "TLS handshake failed");
        return;
    default: /* For rare codes libcurl has texts, which never quote the request. */
        snprintf(error, sizeof(error), "%s", curl_easy_strerror(result));
        webhook_outcome_fail(ret_outcome, DELIVERY_FAILED, error);
    }
}

void webhook_outcome_keep(struct delivery *delivery, struct bytes body, uint32_t max)
{
    const size_t left = max - delivery->answer_size;
    const size_t size = body.size < left ? body.size : left;
    char *answer = size ? realloc(delivery->answer, delivery->answer_size + size) : NULL;

    if (!answer)
        return;
    memcpy(answer + delivery->answer_size, body.data, size);
    delivery->answer = answer;
    delivery->answer_size += (uint32_t)size;
}

struct target_verdict webhook_outcome_verdict(const struct webhook_attempt *attempt)
{
    const CURLcode result = attempt->result;

    if (attempt->has_lapsed)
        return TARGET_VERDICT_UNKNOWN;
    if (attempt->has_answer && attempt->status >= 200)
        return (struct target_verdict){
            {BREAKER_ALIVE, attempt->status < 500 ? BREAKER_ALIVE : BREAKER_FAILED}};
    if (attempt->refused_kind || attempt->open_errno || result == CURLE_URL_MALFORMAT ||
        (result == CURLE_OUT_OF_MEMORY && !attempt->has_long_header))
        return TARGET_VERDICT_UNKNOWN;
    if (result == CURLE_OPERATION_TIMEDOUT && attempt->timeout_ms < TARGETS_TIMEOUT_MS_MIN)
        return TARGET_VERDICT_UNKNOWN;
    /* servers may close kept connections at any time */
    if (result == CURLE_GOT_NOTHING && attempt->was_kept)
        return TARGET_VERDICT_UNKNOWN;
    return (struct target_verdict){{BREAKER_FAILED, BREAKER_UNKNOWN}};
}
