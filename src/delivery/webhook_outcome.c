/* Turns the result of a transfer into the outcome of its delivery and a verdict for the breaker. */
#include "delivery/webhook_outcome.h"

#include "base/number.h"
#include "sys/clock.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
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

/* "15 s" or "250 ms". */
static void format_ms(uint64_t ms, char ret_text[32])
{
    if (ms % 1000 == 0)
        snprintf(ret_text, 32, "%" PRIu64 " s", ms / 1000);
    else
        snprintf(ret_text, 32, "%" PRIu64 " ms", ms);
}

/* Seconds, or a date; seconds that do not fit mean a long time. Not by CURLINFO_RETRY_AFTER: some
 * versions of libcurl make six hours of anything longer. */
static uint64_t retry_after_ms(CURL *easy)
{
    struct curl_header *field;
    if (curl_easy_header(easy, "Retry-After", 0, CURLH_HEADER, -1, &field) != CURLHE_OK)
        return 0;
    struct bytes value = bytes_trim(bytes_of(field->value));
    uint64_t seconds = UINT64_MAX;
    if (!number_parse(value, 10, &seconds) &&
        (!value.size || strspn(value.data, "0123456789") < value.size)) {
        time_t date = curl_getdate(field->value, NULL);
        uint64_t now = wall_now().ms / 1000;
        seconds = date > 0 && (uint64_t)date > now ? (uint64_t)date - now : 0;
    }
    if (seconds == 0)
        return 0;
    return seconds > UINT64_MAX / 1001 ? UINT64_MAX : seconds * 1000 + 1; /* see wall_coming() */
}

static void set_by_status(struct delivery_outcome *ret_outcome, CURL *easy, long status)
{
    if (status >= 200 && status < 300) {
        *ret_outcome =
            (struct delivery_outcome){.result = DELIVERY_DONE, .status = (uint16_t)status};
        return;
    }
    char error[64];
    snprintf(error, sizeof(error), "HTTP %ld%s", status,
             status >= 300 && status < 400 ? ": redirects are not followed" : "");
    webhook_outcome_fail(ret_outcome, status == 410 ? DELIVERY_ENDED : DELIVERY_FAILED, error);
    ret_outcome->is_answer = true;
    ret_outcome->status = (uint16_t)status;
    if (status != 429 && status != 503)
        return;
    ret_outcome->retry_after_ms = retry_after_ms(easy);
}

static void set_timed_out(struct delivery_outcome *ret_outcome, CURL *easy,
                          const struct webhook_attempt *attempt)
{
    uint64_t connect_ms = attempt->connect_timeout_ms < attempt->timeout_ms
                              ? attempt->connect_timeout_ms
                              : attempt->timeout_ms;
    curl_off_t resolved_us = 0;

    curl_easy_getinfo(easy, CURLINFO_NAMELOOKUP_TIME_T, &resolved_us);
    curl_off_t connected_us = 0;
    curl_easy_getinfo(easy, CURLINFO_PRETRANSFER_TIME_T, &connected_us);
    char time[32];
    format_ms(connected_us > 0 ? attempt->timeout_ms : connect_ms, time);
    char error[80];
    snprintf(error, sizeof(error), "%s %s",
             connected_us > 0  ? "timed out after"
             : resolved_us > 0 ? "no connection within"
                               : "host name not resolved within",
             time);
    webhook_outcome_fail(ret_outcome, DELIVERY_FAILED, error);
}

static void set_not_connected(struct delivery_outcome *ret_outcome, CURL *easy,
                              const struct webhook_attempt *attempt)
{
    long number = attempt->open_errno;
    char error[sizeof(ret_outcome->error)];

    if (attempt->refused_kind) {
        snprintf(error, sizeof(error), "address refused: %s; webhook_allow can allow its network",
                 attempt->refused_kind);
        webhook_outcome_fail(ret_outcome, DELIVERY_FAILED, error);
        return;
    }
    if (number == 0)
        curl_easy_getinfo(easy, CURLINFO_OS_ERRNO, &number);
    if (number == ECONNREFUSED)
        snprintf(error, sizeof(error), "connection refused");
    else
        snprintf(error, sizeof(error), "no connection: %s",
                 number && strerrordesc_np((int)number) ? strerrordesc_np((int)number)
                                                        : "unknown reason");
    webhook_outcome_fail(ret_outcome, DELIVERY_FAILED, error);
}

/* So libcurl says of a header that is longer than it reads, before read_header sees any of it. */
static bool is_long_header(CURL *easy, CURLcode result)
{
    curl_off_t answered_us = 0;

#if LIBCURL_VERSION_NUM >= 0x080600
    if (result == CURLE_TOO_LARGE)
        return true;
#endif
    curl_easy_getinfo(easy, CURLINFO_STARTTRANSFER_TIME_T, &answered_us);
    return result == CURLE_OUT_OF_MEMORY && answered_us > 0;
}

void webhook_outcome_set(struct delivery_outcome *ret_outcome, CURL *easy, CURLcode result,
                         const struct webhook_attempt *attempt)
{
    long status = 0;

    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    if (attempt->has_answer && status >= 200) {
        set_by_status(ret_outcome, easy, status);
        return;
    }
    if (is_long_header(easy, result))
        result = CURLE_WRITE_ERROR;
    char error[sizeof(ret_outcome->error)];
    switch (result) {
    case CURLE_OPERATION_TIMEDOUT:
        set_timed_out(ret_outcome, easy, attempt);
        return;
    case CURLE_COULDNT_CONNECT:
        set_not_connected(ret_outcome, easy, attempt);
        return;
    case CURLE_COULDNT_RESOLVE_HOST:
        webhook_outcome_fail(ret_outcome, DELIVERY_FAILED, "host name not found");
        return;
    case CURLE_OK: /* an end without a status: not HTTP */
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
    case CURLE_UNSUPPORTED_PROTOCOL: /* of the answer; the target's was looked at before */
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_BAD_FUNCTION_ARGUMENT: /* a header that goes on with none */
        webhook_outcome_fail(ret_outcome, DELIVERY_FAILED, "answer is not HTTP");
        return;
    case CURLE_URL_MALFORMAT: /* the target itself is wrong: no attempt will ever do */
        webhook_outcome_fail(ret_outcome, DELIVERY_ENDED, "target is not a URL that can be called");
        return;
    case CURLE_PEER_FAILED_VERIFICATION:
        webhook_outcome_fail(ret_outcome, DELIVERY_FAILED, "certificate of the target not trusted");
        return;
    case CURLE_SSL_CONNECT_ERROR:
        webhook_outcome_fail(ret_outcome, DELIVERY_FAILED, "TLS handshake failed");
        return;
    default: /* rare ones, which libcurl has words for; it never quotes the request in them */
        snprintf(error, sizeof(error), "%s", curl_easy_strerror(result));
        webhook_outcome_fail(ret_outcome, DELIVERY_FAILED, error);
    }
}

struct target_verdict webhook_outcome_verdict(CURL *easy, CURLcode result,
                                              const struct webhook_attempt *attempt)
{
    long status = 0;

    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    if (attempt->has_answer && status >= 200)
        return (struct target_verdict){
            {BREAKER_ALIVE, status < 500 ? BREAKER_ALIVE : BREAKER_FAILED}};
    if (attempt->refused_kind || attempt->open_errno || result == CURLE_URL_MALFORMAT ||
        (result == CURLE_OUT_OF_MEMORY && !is_long_header(easy, result)))
        return TARGET_VERDICT_UNKNOWN;
    if (result == CURLE_OPERATION_TIMEDOUT && attempt->timeout_ms < TARGETS_TIMEOUT_MS_MIN)
        return TARGET_VERDICT_UNKNOWN;
    return (struct target_verdict){{BREAKER_FAILED, BREAKER_UNKNOWN}};
}
