#include "delivery/webhook_outcome.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

void webhook_outcome_fail(struct delivery_outcome *ret_outcome, enum delivery_result result,
                          const char *error)
{
    ret_outcome->result = result;
    ret_outcome->retry_after_ms = 0;
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

static void set_by_status(struct delivery_outcome *ret_outcome, CURL *easy, long status)
{
    curl_off_t retry_after_s = 0;
    char error[64];

    if (status >= 200 && status < 300) {
        *ret_outcome = (struct delivery_outcome){.result = DELIVERY_DONE};
        return;
    }
    snprintf(error, sizeof(error), "HTTP %ld%s", status,
             status >= 300 && status < 400 ? ": redirects are not followed" : "");
    webhook_outcome_fail(ret_outcome, status == 410 ? DELIVERY_ENDED : DELIVERY_FAILED, error);
    if (status != 429 && status != 503)
        return;
    /* libcurl reads both forms, seconds and a date; a date that has passed comes out negative. */
    curl_easy_getinfo(easy, CURLINFO_RETRY_AFTER, &retry_after_s);
    if (retry_after_s > 0)
        ret_outcome->retry_after_ms = (uint64_t)retry_after_s > UINT64_MAX / 1000
                                          ? UINT64_MAX
                                          : (uint64_t)retry_after_s * 1000;
}

static void set_timed_out(struct delivery_outcome *ret_outcome, CURL *easy,
                          const struct webhook_attempt *attempt)
{
    uint64_t connect_ms = attempt->connect_timeout_ms < attempt->timeout_ms
                              ? attempt->connect_timeout_ms
                              : attempt->timeout_ms;
    curl_off_t resolved_us = 0, connected_us = 0;
    char time[32], error[80];

    curl_easy_getinfo(easy, CURLINFO_NAMELOOKUP_TIME_T, &resolved_us);
    curl_easy_getinfo(easy, CURLINFO_PRETRANSFER_TIME_T, &connected_us);
    format_ms(connected_us > 0 ? attempt->timeout_ms : connect_ms, time);
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

void webhook_outcome_set(struct delivery_outcome *ret_outcome, CURL *easy, CURLcode result,
                         const struct webhook_attempt *attempt)
{
    char error[sizeof(ret_outcome->error)];
    long status = 0;

    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    if (attempt->has_answer && status >= 200) {
        set_by_status(ret_outcome, easy, status);
        return;
    }
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
        webhook_outcome_fail(ret_outcome, DELIVERY_FAILED, "answer with too many headers");
        return;
    case CURLE_UNSUPPORTED_PROTOCOL: /* of the answer; the target's was looked at before */
    case CURLE_WEIRD_SERVER_REPLY:
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
