/* One libcurl handle: its options, callbacks and limits, used for one webhook after another. */
#include "delivery/webhook_transfer.h"

#include "delivery/lapse.h"
#include "delivery/webhook.h"
#include "delivery/webhook_answer.h"
#include "sys/clock.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_BYTES              4096       /* libcurl's buffer: answers are small */
#define TRANSFER_TIMEOUT_MS_MAX 1000000000 /* about 11 days; libcurl counts in 32 bits */

/* ---- libcurl's questions ---- */

/* True if libcurl is about to repeat a request that the server may have read. Then the attempt has
 * failed. If nothing of the request was sent, the server cannot have read it. */
static bool webhook_transfer_is_cut_off(struct webhook_transfer *transfer)
{
    long sent = 0;

    curl_easy_getinfo(transfer->easy, CURLINFO_REQUEST_SIZE, &sent);
    transfer->is_cut_off_ = transfer->sent_count_ > 0 && sent > 0;
    return transfer->is_cut_off_;
}

/* Opens a connection to the address that was checked. libcurl opens its connections only by this
 * function. */
static curl_socket_t transfer_open_socket(void *context, curlsocktype purpose,
                                          struct curl_sockaddr *address)
{
    struct webhook_transfer *transfer = context;
    const char *kind = guard_refusal(transfer->settings_->guard, &address->addr);

    (void)purpose;
    if (webhook_transfer_is_cut_off(transfer))
        return CURL_SOCKET_BAD;
    if (kind) {
        transfer->attempt_.refused_kind = kind;
        return CURL_SOCKET_BAD;
    }
    int fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
    if (fd < 0) {
        transfer->attempt_.open_errno = errno;
        return CURL_SOCKET_BAD;
    }
    if (!webhook_sockets_add(transfer->settings_->sockets, fd)) {
        transfer->attempt_.open_errno = ENOMEM;
        close(fd);
        return CURL_SOCKET_BAD;
    }
    return fd;
}

/* Closes a socket. `context` is the settings, because a connection outlives the transfer that
 * opened it. */
static int transfer_close_socket(void *context, curl_socket_t fd)
{
    const struct webhook_settings *settings = context;

    return webhook_sockets_close(settings->sockets, fd);
}

/* Counts the requests over the connection, which is closed after the last one. An HTTP/2
 * connection, which requests share, continues until a later webhook has made a new one, and is
 * closed when it has no request in flight. */
static void webhook_transfer_count(struct webhook_transfer *transfer, int own_port)
{
    const struct webhook_settings *settings = transfer->settings_;
    const struct instant now = instant_now();
    struct webhook_connection_use *use = &settings->uses[own_port & UINT16_MAX];
    struct webhook_generation *origin = transfer->origin_;
    long opened = 0;

    curl_easy_getinfo(transfer->easy, CURLINFO_NUM_CONNECTS, &opened);
    if (opened > transfer->opened_count_)
        *use = (struct webhook_connection_use){.opened_at = now};
    transfer->opened_count_ = opened;
    use->requests++;
    if (transfer->is_scout_)
        *origin = (struct webhook_generation){.current = transfer->generation_};
    const bool is_worn = use->requests >= settings->connection_requests_max ||
                         instant_since_ns(use->opened_at, now) >=
                             settings->connection_age_ms_max * UINT64_C(1000000);
    if (transfer->generation_ != origin->current || (is_worn && !use->is_shared))
        curl_easy_setopt(transfer->easy, CURLOPT_FORBID_REUSE, 1L);
    else
        origin->is_over |= is_worn;
    transfer->use_ = use;
}

/* Called when libcurl is about to send the request. If a kept connection turns out to be closed,
 * libcurl would send the request again, even if the server may have read it. */
static int transfer_count_request(void *context, char *peer_ip, char *own_ip, int peer_port,
                                  int own_port)
{
    struct webhook_transfer *transfer = context;

    (void)peer_ip;
    (void)own_ip;
    (void)peer_port;
    if (webhook_transfer_is_cut_off(transfer))
        return CURL_PREREQFUNC_ABORT;
    if (delivery_has_lapsed(transfer->delivery_)) {
        transfer->attempt_.has_lapsed = true;
        return CURL_PREREQFUNC_ABORT;
    }
    transfer->sent_count_++;
    webhook_transfer_count(transfer, own_port);
    return CURL_PREREQFUNC_OK;
}

static bool transfer_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Returns the first digit of the status; NUL if the line is not valid HTTP. libcurl takes lines
 * that begin in small letters or without a version for a 200. */
static char transfer_status_class(struct bytes line)
{
    if (!bytes_has_prefix(line, BYTES("HTTP/")) || line.size < 10 ||
        !transfer_is_digit(line.data[5]))
        return '\0';
    size_t at = 6;
    if (line.data[at] == '.' && transfer_is_digit(line.data[at + 1]))
        at += 2;
    if (line.data[at] != ' ')
        return '\0';
    while (at < line.size && line.data[at] == ' ')
        at++;
    if (line.size - at < 3 || !transfer_is_digit(line.data[at + 1]) ||
        !transfer_is_digit(line.data[at + 2]))
        return '\0';
    return transfer_is_digit(line.data[at]) ? line.data[at] : '\0';
}

#define CODING "transfer-encoding:"

static size_t transfer_read_header(char *line, size_t size, size_t count, void *context)
{
    struct webhook_transfer *transfer = context;
    struct webhook_attempt *attempt = &transfer->attempt_;

    size *= count;
    transfer->head_bytes_ += size;
    if (transfer->head_bytes_ > WEBHOOK_ANSWER_HEAD_MAX)
        return 0;
    /* An empty line ends the headers, unless they belong to an interim answer. */
    if (size > 0 && (line[0] == '\r' || line[0] == '\n')) {
        attempt->has_answer = transfer->status_class_ >= '2';
    } else if (size > 5 && strncasecmp(line, "HTTP/", 5) == 0) {
        transfer->status_class_ = transfer_status_class((struct bytes){line, size});
        attempt->has_odd_status = !transfer->status_class_;
        attempt->has_answer = false;
        transfer->has_chunks_ = false;
        if (attempt->has_odd_status)
            return 0;
    } else if (size > sizeof(CODING) - 1 && strncasecmp(line, CODING, sizeof(CODING) - 1) == 0) {
        struct bytes rest = {line + sizeof(CODING) - 1, size - (sizeof(CODING) - 1)};

        transfer->has_chunks_ |= webhook_answer_is_chunked(bytes_cut(&rest, '\r'));
    }
    return size;
}

static void transfer_keep_body(void *context, struct bytes piece)
{
    const struct webhook_transfer *transfer = context;

    webhook_outcome_keep(transfer->delivery_, piece, transfer->settings_->answer_bytes);
}

static size_t transfer_read_body(char *data, size_t size, size_t count, void *context)
{
    struct webhook_transfer *transfer = context;
    const struct bytes piece = {data, size * count};

    if (transfer->has_chunks_ && transfer->body_bytes_ == 0) {
        webhook_answer_begin_chunks(&transfer->chunks_, UINT64_MAX);
        transfer->chunks_.take_body = transfer_keep_body;
        transfer->chunks_.context = transfer;
        transfer->are_chunks_over_ = false;
    }
    if (!transfer->has_chunks_)
        transfer_keep_body(transfer, piece);
    else if (piece.size && !transfer->are_chunks_over_)
        transfer->are_chunks_over_ =
            webhook_answer_read(&transfer->chunks_, piece) != WEBHOOK_ANSWER_MORE;
    transfer->body_bytes_ += piece.size;
    return transfer->body_bytes_ <= transfer->settings_->response_bytes_max ? size * count : 0;
}

/* ---- the handle ---- */

static long transfer_clamp_ms(uint64_t ms)
{
    return ms == 0                        ? 1
           : ms > TRANSFER_TIMEOUT_MS_MAX ? TRANSFER_TIMEOUT_MS_MAX
                                          : (long)ms; /* 0 would disable the limit */
}

/* Disables whatever the environment, a home directory or libcurl's defaults might add. */
static bool transfer_set_common(struct webhook_transfer *transfer)
{
    const struct webhook_settings *settings = transfer->settings_;
    CURL *easy = transfer->easy;
    CURLcode bad = CURLE_OK;

    transfer->trust_ = settings->trust;
    bad |= curl_easy_setopt(easy, CURLOPT_PRIVATE, transfer);
    bad |= curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    /* cleanup does not wait for a slow name server */
    bad |= curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
    bad |= curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    bad |= curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    bad |= curl_easy_setopt(easy, CURLOPT_PROXY, "");
    bad |= curl_easy_setopt(easy, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    bad |= curl_easy_setopt(easy, CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
    bad |= curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
    bad |= curl_easy_setopt(easy, CURLOPT_USERAGENT, settings->user_agent);
    bad |= curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, (long)READ_BYTES);
    bad |= curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
                            transfer_clamp_ms(settings->connect_timeout_ms));
    bad |= curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    bad |= curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
    bad |= curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
    if (settings->ca_file)
        bad |= curl_easy_setopt(easy, CURLOPT_CAINFO, settings->ca_file);
    bad |= curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, transfer_open_socket);
    bad |= curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, transfer);
    bad |= curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, transfer_close_socket);
    bad |= curl_easy_setopt(easy, CURLOPT_CLOSESOCKETDATA, (void *)(uintptr_t)settings);
    bad |= curl_easy_setopt(easy, CURLOPT_MAXLIFETIME_CONN,
                            (long)((settings->connection_age_ms_max + 999) / 1000));
    bad |= curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, transfer_count_request);
    bad |= curl_easy_setopt(easy, CURLOPT_PREREQDATA, transfer);
    bad |= curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, transfer_read_header);
    bad |= curl_easy_setopt(easy, CURLOPT_HEADERDATA, transfer);
    bad |= curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, transfer_read_body);
    bad |= curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer);
    /* read_body gets chunks with their framing, so that their extensions count towards the limit;
     * libcurl has no limit for them. It still finds the end of the body. */
    bad |= curl_easy_setopt(easy, CURLOPT_HTTP_TRANSFER_DECODING, 0L);
    return bad == CURLE_OK;
}

struct webhook_transfer *webhook_transfer_create(const struct webhook_settings *settings)
{
    struct webhook_transfer *transfer = calloc(1, sizeof(*transfer));

    if (!transfer)
        return NULL;
    list_init(&transfer->link);
    transfer->settings_ = settings;
    webhook_request_init(&transfer->request_);
    webhook_answer_init(&transfer->chunks_);
    buffer_init(&transfer->target_);
    transfer->easy = curl_easy_init();
    if (!transfer->easy || !transfer_set_common(transfer)) {
        webhook_transfer_destroy(transfer);
        return NULL;
    }
    return transfer;
}

void webhook_transfer_destroy(struct webhook_transfer *transfer)
{
    if (!transfer)
        return;
    if (transfer->easy)
        curl_easy_cleanup(transfer->easy);
    webhook_request_deinit(&transfer->request_);
    webhook_answer_deinit(&transfer->chunks_);
    buffer_deinit(&transfer->target_);
    free(transfer);
}

struct webhook_transfer *webhook_transfer_of(CURL *easy)
{
    char *transfer = NULL;

    curl_easy_getinfo(easy, CURLINFO_PRIVATE, &transfer);
    return (struct webhook_transfer *)(void *)transfer;
}

/* True if a handle must be replaced, because of two faults of libcurl: - it counts its repeats
 * over the whole life of a handle and gives up after five, whatever happened to the requests
 * between them (7.88); - before 8.1.1 it keeps a pointer to the last header of a freed answer,
 * and an answer on that handle that begins with a folded header makes it read and write there
 * (https://github.com/curl/curl/pull/11103). Connections belong to the multi handle and stay. */
static bool transfer_is_worn(const struct webhook_transfer *transfer)
{
    const unsigned fixed = 0x080101;

    return transfer->sent_count_ > 1 ||
           (transfer->head_bytes_ > 0 && curl_version_info(CURLVERSION_NOW)->version_num < fixed);
}

static bool webhook_transfer_renew(struct webhook_transfer *transfer)
{
    CURL *easy = curl_easy_init();

    if (!easy)
        return false; /* the handle must still be replaced */
    curl_easy_cleanup(transfer->easy);
    transfer->easy = easy;
    transfer->has_generation_ = false;
    buffer_clear(&transfer->target_);
    transfer->is_worn_ = !transfer_set_common(transfer);
    return !transfer->is_worn_;
}

/* ---- one delivery ---- */

/* Separates the connections of different generations. libcurl shares a connection among requests
 * with equal trust settings, so the number of the generation is put into the path of the folder of
 * authorities. That path is below a file, so the folder is always empty. When a generation is over,
 * a single webhook opens the first connection of the next one. */
static bool webhook_transfer_set_generation(struct webhook_transfer *transfer,
                                            const struct timer *timer)
{
    const struct webhook_settings *settings = transfer->settings_;
    const char *folder = settings->ca_file ? NULL : curl_version_info(CURLVERSION_NOW)->capath;
    const uint64_t index = bytes_hash(0, timer_target_origin(timer)) % WEBHOOK_GENERATIONS;
    struct webhook_generation *origin = &settings->generations[index];
    char path[PATH_MAX];

    transfer->origin_ = origin;
    transfer->is_scout_ = origin->is_over && !origin->has_scout;
    origin->has_scout |= transfer->is_scout_;
    const uint32_t generation = origin->current + transfer->is_scout_;
    if (transfer->has_generation_ && transfer->generation_ == generation)
        return true;
    snprintf(path, sizeof(path), "%s%s/dev/null/%" PRIu32, folder ? folder : "", folder ? ":" : "",
             generation);
    transfer->has_generation_ = curl_easy_setopt(transfer->easy, CURLOPT_CAPATH, path) == CURLE_OK;
    transfer->generation_ = generation;
    return transfer->has_generation_;
}

/* If this transfer was to open the first connection of a generation and failed, another one
 * will. */
static void webhook_transfer_leave_origin(struct webhook_transfer *transfer)
{
    if (transfer->is_scout_ && transfer->origin_->current != transfer->generation_)
        transfer->origin_->has_scout = false;
    transfer->is_scout_ = false;
}

/* Sets the URL of `easy`, which is usually the same as before. Returns false with an outcome if the
 * target is wrong or memory is out. The parser of targets has checked the syntax; libcurl reads
 * host and port in the same way. */
static bool transfer_set_target(struct webhook_transfer *transfer, const struct timer *timer,
                                struct delivery_outcome *outcome)
{
    const struct bytes target = timer->texts.target;
    const bool is_https = timer->target.kind == TARGET_HTTPS;

    if (!is_https && timer->target.kind != TARGET_HTTP) {
        webhook_outcome_fail(outcome, DELIVERY_ENDED, "target is not an http or https URL");
        return false;
    }
    if (!webhook_transfer_set_generation(transfer, timer))
        return false;
    if (bytes_equal(buffer_bytes(&transfer->target_), target))
        return true;
    buffer_clear(&transfer->target_);
    buffer_append_bytes(&transfer->target_, target);
    buffer_append(&transfer->target_, "", 1);
    if (buffer_failed(&transfer->target_)) {
        buffer_clear(&transfer->target_);
        return false;
    }
    transfer->target_.size--; /* removes the NUL */
    CURLcode bad = curl_easy_setopt(transfer->easy, CURLOPT_URL, transfer->target_.data);
    /* HTTP/2 is negotiated only in TLS. A webhook waits there for a connection that is being
     * made, because it may share it. */
    bad |= curl_easy_setopt(transfer->easy, CURLOPT_HTTP_VERSION,
                            is_https ? (long)CURL_HTTP_VERSION_2TLS : (long)CURL_HTTP_VERSION_1_1);
    bad |= curl_easy_setopt(transfer->easy, CURLOPT_PIPEWAIT, is_https ? 1L : 0L);
    if (bad != CURLE_OK)
        buffer_clear(&transfer->target_); /* so that the URL is set again the next time */
    return bad == CURLE_OK;
}

static struct curl_blob transfer_blob(struct bytes text)
{
    return (struct curl_blob){.data = (void *)(uintptr_t)text.data, text.size, CURL_BLOB_COPY};
}

/* Sets the client certificate and the authorities of a named target. libcurl shares a connection
 * only among requests with equal ones. The handle is replaced afterwards, which wipes nothing, but
 * frees its copies. */
static bool transfer_set_identity(struct webhook_transfer *transfer,
                                  const struct delivery *delivery)
{
    const struct named_identity *identity = named_identity_of(delivery);
    CURLcode bad = CURLE_OK;

    if (!identity)
        return true;
    transfer->is_worn_by_identity_ = true;
    if (identity->certificate.size) {
        const struct curl_blob certificate = transfer_blob(identity->certificate);
        const struct curl_blob key = transfer_blob(identity->key);

        bad |= curl_easy_setopt(transfer->easy, CURLOPT_SSLCERTTYPE, "PEM");
        bad |= curl_easy_setopt(transfer->easy, CURLOPT_SSLCERT_BLOB, &certificate);
        bad |= curl_easy_setopt(transfer->easy, CURLOPT_SSLKEYTYPE, "PEM");
        bad |= curl_easy_setopt(transfer->easy, CURLOPT_SSLKEY_BLOB, &key);
    }
    if (identity->ca.size) {
        const struct curl_blob ca = transfer_blob(identity->ca);

        bad |= curl_easy_setopt(transfer->easy, CURLOPT_CAINFO_BLOB, &ca);
        bad |= curl_easy_setopt(transfer->easy, CURLOPT_CAPATH, NULL);
    }
    return bad == CURLE_OK;
}

/* Sets everything about `delivery` except its target. */
static bool transfer_set_request(struct webhook_transfer *transfer, const struct delivery *delivery,
                                 uint64_t timeout_ms)
{
    const struct timer *timer = delivery_sent(delivery);
    struct bytes payload = timer->texts.payload;
    CURL *easy = transfer->easy;
    const struct webhook_envelope envelope = {
        .signature = webhook_signature_of(transfer->settings_, delivery),
        .issuer = transfer->settings_->issuer,
        .bearer = named_bearer_of(delivery),
        .audience = named_audience_of(delivery),
        .event_source = transfer->settings_->event_source,
        .ack_url = *delivery->ack_token ? transfer->settings_->ack_url : NULL,
        .now_s = wall_machine_now_us() / 1000000,
        .trace = webhook_request_trace(delivery, transfer->settings_->trace_high,
                                       transfer->settings_->trace_low),
    };

    if (webhook_request_build(&transfer->request_, delivery, &envelope))
        return false;
    CURLcode bad = CURLE_OK;
    bad |= curl_easy_setopt(easy, CURLOPT_HTTPHEADER, webhook_request_list(&transfer->request_));
    bad |= curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)payload.size);
    bad |= curl_easy_setopt(easy, CURLOPT_POSTFIELDS, payload.size > 0 ? payload.data : "");
    if (!webhook_request_has_body(timer))
        bad |= curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
    bad |= curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, webhook_request_method(timer));
    bad |= curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, transfer_clamp_ms(timeout_ms));
    return bad == CURLE_OK;
}

bool webhook_transfer_begin(struct webhook_transfer *transfer, struct delivery *delivery,
                            uint64_t timeout_ms)
{
    const struct timer *timer = delivery_sent(delivery);

    delivery->started_us = delivery->ended_us = wall_now_us();
    delivery->outcome.error[0] = '\0';
    bool is_ready = false;
    const bool is_fit = !transfer->is_worn_ && transfer->trust_ == transfer->settings_->trust;
    if (is_fit || webhook_transfer_renew(transfer))
        is_ready = transfer_set_target(transfer, timer, &delivery->outcome) &&
                   transfer_set_identity(transfer, delivery) &&
                   transfer_set_request(transfer, delivery, timeout_ms);
    if (!is_ready) {
        webhook_transfer_leave_origin(transfer);
        transfer->is_worn_ |= transfer->is_worn_by_identity_;
        transfer->is_worn_by_identity_ = false;
        if (!delivery->outcome.error[0])
            webhook_outcome_fail(&delivery->outcome, DELIVERY_FAILED, "out of memory");
        return false;
    }
    transfer->delivery_ = delivery;
    transfer->head_bytes_ = transfer->body_bytes_ = transfer->sent_count_ = 0;
    transfer->status_class_ = '\0';
    transfer->is_cut_off_ = false;
    transfer->use_ = NULL;
    transfer->opened_count_ = 0;
    transfer->attempt_ = (struct webhook_attempt){
        .may_wait = *delivery->ack_token,
        .timeout_ms = timer->retry.timeout_ms,
        .connect_timeout_ms = transfer->settings_->connect_timeout_ms,
    };
    return true;
}

static struct delivery *transfer_give_back(struct webhook_transfer *transfer)
{
    struct delivery *delivery = transfer->delivery_;

    delivery->ended_us = wall_now_us();
    webhook_transfer_leave_origin(transfer);
    transfer->delivery_ = NULL;
    transfer->is_worn_ = transfer->is_worn_by_identity_ || transfer_is_worn(transfer);
    transfer->is_worn_by_identity_ = false;
    return delivery;
}

/* True if the transfer ended because a header was too long for libcurl, which then reports nothing
 * of it to read_header. */
static bool transfer_is_long_header(CURL *easy, CURLcode result)
{
    curl_off_t answered_us = 0;

#if LIBCURL_VERSION_NUM >= 0x080600
    if (result == CURLE_TOO_LARGE)
        return true;
#endif
    curl_easy_getinfo(easy, CURLINFO_STARTTRANSFER_TIME_T, &answered_us);
    return result == CURLE_OUT_OF_MEMORY && answered_us > 0;
}

/* Collects what libcurl knows about the ended attempt. `retry_after` is valid as long as the
 * handle. */
static void webhook_transfer_collect(struct webhook_transfer *transfer, CURLcode result)
{
    struct webhook_attempt *attempt = &transfer->attempt_;
    CURL *easy = transfer->easy;

    attempt->result = result;
    attempt->has_long_header = transfer_is_long_header(easy, result);
    long status = 0;
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    attempt->status = (uint16_t)status;
    long version = 0;
    curl_easy_getinfo(easy, CURLINFO_HTTP_VERSION, &version);
    if (transfer->use_ && version == CURL_HTTP_VERSION_2_0)
        transfer->use_->is_shared = true;
    curl_off_t resolved_us = 0;
    curl_easy_getinfo(easy, CURLINFO_NAMELOOKUP_TIME_T, &resolved_us);
    attempt->is_resolved = resolved_us > 0;
    curl_off_t connected_us = 0;
    curl_easy_getinfo(easy, CURLINFO_PRETRANSFER_TIME_T, &connected_us);
    attempt->is_connected = connected_us > 0;
    long connect_errno = 0;
    curl_easy_getinfo(easy, CURLINFO_OS_ERRNO, &connect_errno);
    attempt->connect_errno = (int)connect_errno;
    /* CURLINFO_RETRY_AFTER is not used, because some versions limit it to six hours. */
    struct curl_header *field;
    if (curl_easy_header(easy, "Retry-After", 0, CURLH_HEADER, -1, &field) == CURLHE_OK)
        attempt->retry_after = field->value;
    if (curl_easy_header(easy, WEBHOOK_ACK_HEADER, 0, CURLH_HEADER, -1, &field) == CURLHE_OK)
        attempt->answers_later = webhook_answer_is_later(bytes_of(field->value));
}

struct delivery *webhook_transfer_end(struct webhook_transfer *transfer, CURLcode result,
                                      struct target_verdict *ret_verdict)
{
    if (transfer->is_cut_off_)
        result = CURLE_GOT_NOTHING;
    transfer->attempt_.was_kept = transfer->is_cut_off_;
    webhook_transfer_collect(transfer, result);
    webhook_request_hide(&transfer->request_, transfer->delivery_);
    *ret_verdict = webhook_outcome_verdict(&transfer->attempt_);
    webhook_outcome_set(&transfer->delivery_->outcome, &transfer->attempt_);
    if (transfer->attempt_.has_lapsed)
        delivery_return(transfer->delivery_);
    return transfer_give_back(transfer);
}

struct delivery *webhook_transfer_abort(struct webhook_transfer *transfer, const char *error)
{
    webhook_outcome_fail(&transfer->delivery_->outcome, DELIVERY_FAILED, error);
    return transfer_give_back(transfer);
}
