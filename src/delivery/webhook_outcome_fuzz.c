/*
 * webhook_outcome_fuzz - any bytes as the answer of a webhook's target, read by libcurl as the
 * daemon has it read: the outcome is one of the three, says why in words that are shown to people,
 * and asks for a pause only where Retry-After may, as long as it said. Our own reader of answers
 * (webhook_answer.h) reads them too, in pieces: a status that it finds is the one that libcurl
 * found, with an equal outcome. It may be stricter, so what libcurl takes for an answer may be none
 * to it.
 */
#include "delivery/webhook_answer.h"
#include "delivery/webhook_transfer.h"

#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
const char *__lsan_default_suppressions(void);

#define REQUIRE(condition) ((condition) ? (void)0 : abort())

enum {
    ANSWER_BYTES_MAX = 65536, /* fits into the socket's buffer */
    BODY_BYTES_MAX = 4096,
};

/* libcurl 7.88 loses the name of a socket without a port when nothing is answered on it. */
const char *__lsan_default_suppressions(void)
{
    return "leak:libcurl.so\n";
}

/* In place of a target: a socket without a port that whoever connects to finds the answer in. */
struct outcome_fuzz_peer {
    struct bytes answer;
    int listener, accepted;
};

static curl_socket_t open_any(void *context, curlsocktype purpose, struct curl_sockaddr *address)
{
    (void)context, (void)purpose;
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

/* libcurl is connected and about to send. */
static int give_answer(void *context, char *peer_ip, char *own_ip, int peer_port, int own_port)
{
    struct outcome_fuzz_peer *peer = context;

    (void)peer_ip, (void)own_ip, (void)peer_port, (void)own_port;
    REQUIRE(peer->accepted < 0);
    peer->accepted = accept4(peer->listener, NULL, NULL, SOCK_CLOEXEC);
    REQUIRE(peer->accepted >= 0);
    REQUIRE(send(peer->accepted, peer->answer.data, peer->answer.size, MSG_DONTWAIT) ==
            (ssize_t)peer->answer.size);
    shutdown(peer->accepted, SHUT_WR);
    return CURL_PREREQFUNC_OK;
}

/* Returns the socket; its name lies in the abstract space. */
static int webhook_outcome_fuzz_listen_at(char ret_name[64])
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int size = snprintf(ret_name, 64, "tickwheel-outcome-%d", getpid());

    memcpy(name.sun_path + 1, ret_name, (size_t)size);
    REQUIRE(bind(listener, (struct sockaddr *)&name,
                 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)size)) == 0);
    REQUIRE(listen(listener, 1) == 0);
    return listener;
}

static void webhook_outcome_fuzz_check(const struct delivery_outcome *outcome,
                                       struct target_verdict verdict, struct bytes answer)
{
    size_t length = strnlen(outcome->error, sizeof(outcome->error));

    REQUIRE(length < sizeof(outcome->error));
    for (size_t i = 0; i < length; i++)
        REQUIRE((uint8_t)outcome->error[i] >= ' ' && outcome->error[i] != 0x7f);
    for (size_t i = 0; i < TARGET_SCOPES; i++)
        REQUIRE(verdict.of[i] <= BREAKER_UNKNOWN);
    if (outcome->result == DELIVERY_DONE) {
        REQUIRE(length == 0 && verdict.of[TARGET_ORIGIN] == BREAKER_ALIVE &&
                verdict.of[TARGET_PATH] == BREAKER_ALIVE);
        /* Some line of it was a status of success. */
        REQUIRE(memmem(answer.data, answer.size, "HTTP/", 5) &&
                memmem(answer.data, answer.size, " 2", 2));
    } else {
        REQUIRE(length > 0);
        REQUIRE(outcome->result == DELIVERY_FAILED || outcome->result == DELIVERY_ENDED);
    }
    if (outcome->result == DELIVERY_ENDED)
        REQUIRE(!strcmp(outcome->error, "HTTP 410"));
    if (outcome->retry_after_ms) /* of any status that is a failure */
        REQUIRE(outcome->result == DELIVERY_FAILED && !strncmp(outcome->error, "HTTP ", 5));
}

/* The number in digits, as far as 64 bits go; 0 when it is none. */
static uint64_t seconds_of(struct bytes value)
{
    uint64_t seconds = 0;
    bool is_huge = false;

    for (size_t i = 0; i < value.size; i++) {
        if (!isdigit((unsigned char)value.data[i]))
            return 0;
        is_huge |= __builtin_mul_overflow(seconds, 10, &seconds) ||
                   __builtin_add_overflow(seconds, value.data[i] - '0', &seconds);
    }
    return is_huge ? UINT64_MAX : seconds;
}

struct outcome_fuzz_fixture {
    CURLM *multi;
    struct webhook_settings settings;
    struct webhook_transfer *transfer;
    struct guard guard;
    struct signatures *signatures; /* without secrets */
    struct webhook_sockets sockets;
    struct random random;
    int listener;
    char name[64];
    struct webhook_connection_use uses[UINT16_MAX + 1];
    struct webhook_generation generations[WEBHOOK_GENERATIONS];
};

static void webhook_outcome_fuzz_start(struct outcome_fuzz_fixture *fixture)
{
    REQUIRE(guard_init(&fixture->guard, "", NULL) == ERROR_NONE);
    REQUIRE(signatures_create("", &fixture->signatures, NULL) == ERROR_NONE);
    fixture->settings = (struct webhook_settings){.guard = &fixture->guard,
                                                  .signatures = fixture->signatures,
                                                  .sockets = &fixture->sockets,
                                                  .user_agent = (char *)"fuzz",
                                                  .trace_high = &fixture->random,
                                                  .trace_low = &fixture->random,
                                                  .connect_timeout_ms = 60000,
                                                  .connection_age_ms_max = 300000,
                                                  .connection_requests_max = 500,
                                                  .uses = fixture->uses,
                                                  .generations = fixture->generations,
                                                  .response_bytes_max = BODY_BYTES_MAX};
    fixture->multi = curl_multi_init();
    REQUIRE(fixture->multi);
    fixture->transfer = webhook_transfer_create(&fixture->settings);
    REQUIRE(fixture->transfer);
    fixture->listener = webhook_outcome_fuzz_listen_at(fixture->name);
}

static CURLcode perform(CURLM *multi, CURL *easy)
{
    REQUIRE(curl_multi_add_handle(multi, easy) == CURLM_OK);
    int running;
    while (curl_multi_perform(multi, &running) == CURLM_OK && running > 0)
        curl_multi_poll(multi, NULL, 0, 1000, NULL);
    int left;
    CURLcode result = curl_multi_info_read(multi, &left)->data.result;
    curl_multi_remove_handle(multi, easy);
    return result;
}

static void webhook_outcome_fuzz_run(struct outcome_fuzz_fixture *fixture, struct bytes answer,
                                     struct delivery_outcome *ret_outcome)
{
    struct webhook_transfer *transfer = fixture->transfer;
    struct timer timer = {.retry = {.timeout_ms = 60000},
                          .texts = {.target = BYTES("http://127.0.0.1/"), .payload = BYTES("{}")},
                          .target.kind = TARGET_HTTP};
    struct delivery delivery = {.timer = &timer, .attempt = 1};
    struct outcome_fuzz_peer peer = {answer, fixture->listener, -1};
    int old;

    /* Connections that came to nothing. */
    while ((old = accept4(fixture->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0)
        close(old);
    REQUIRE(webhook_transfer_begin(transfer, &delivery, timer.retry.timeout_ms));
    CURL *easy = transfer->easy;
    REQUIRE(!curl_easy_setopt(easy, CURLOPT_ABSTRACT_UNIX_SOCKET, fixture->name));
    REQUIRE(!curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_any));
    REQUIRE(!curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, give_answer));
    REQUIRE(!curl_easy_setopt(easy, CURLOPT_PREREQDATA, &peer));
    REQUIRE(!curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, 1L));
    CURLcode result = perform(fixture->multi, easy);
    struct target_verdict verdict;
    REQUIRE(webhook_transfer_end(transfer, result, &verdict) == &delivery);
    if (peer.accepted >= 0)
        close(peer.accepted);
    webhook_outcome_fuzz_check(&delivery.outcome, verdict, answer);
    *ret_outcome = delivery.outcome;
}

/* Reads the answer, all of it at once or in pieces, the last of which may be shorter. */
static void read_in_pieces(struct webhook_answer *answer, struct bytes text, size_t size)
{
    enum webhook_answer_state state = WEBHOOK_ANSWER_MORE;

    webhook_answer_begin(answer, BODY_BYTES_MAX);
    while (text.size > 0 && state == WEBHOOK_ANSWER_MORE) {
        const struct bytes piece = {text.data, size < text.size ? size : text.size};

        state = webhook_answer_read(answer, piece);
        text.data += piece.size;
        text.size -= piece.size;
    }
    REQUIRE(!answer->keeps || (answer->has_status && state == WEBHOOK_ANSWER_OVER));
    REQUIRE(answer->status < 1000 && (!answer->has_status || answer->status >= 200));
}

/* Our own reader, against libcurl's outcome, and against itself in other pieces. */
static void compare(struct bytes text, const struct delivery_outcome *outcome)
{
    struct webhook_answer answers[2];

    for (size_t i = 0; i < 2; i++) {
        webhook_answer_init(&answers[i]);
        read_in_pieces(&answers[i], text, i == 0 ? text.size : 1 + text.size % 7);
    }
    const char *pauses[] = {webhook_answer_retry_after(&answers[0]),
                            webhook_answer_retry_after(&answers[1])};
    REQUIRE(answers[0].has_status == answers[1].has_status && !pauses[0] == !pauses[1]);
    REQUIRE(!pauses[0] || strcmp(pauses[0], pauses[1]) == 0);
    REQUIRE(!answers[0].keeps || answers[1].keeps);
    /* Only libcurl counts encodings, of which it decodes none. Later versions of it refuse other
     * odd answers than 7.88. */
    if (answers[0].has_status && !strstr(outcome->error, "Transfer-Encoding") &&
        curl_version_info(CURLVERSION_NOW)->version_num < 0x080000) {
        const struct webhook_attempt attempt = {.has_answer = true,
                                                .status = answers[0].status,
                                                .retry_after = pauses[0],
                                                .timeout_ms = 60000};
        struct delivery_outcome own;
        webhook_outcome_set(&own, &attempt);
        REQUIRE(own.status == outcome->status && own.result == outcome->result);
        REQUIRE(strcmp(own.error, outcome->error) == 0);
        /* A date is a pause from now, which goes on meanwhile. */
        REQUIRE(own.retry_after_ms <= outcome->retry_after_ms &&
                outcome->retry_after_ms - own.retry_after_ms < 60000);
    }
    webhook_answer_deinit(&answers[0]);
    webhook_answer_deinit(&answers[1]);
}

/* The input as the value of a Retry-After. */
static void run_retry_after(struct outcome_fuzz_fixture *fixture, struct bytes value)
{
    struct buffer answer;

    buffer_init(&answer);
    buffer_append_text(&answer, "HTTP/1.1 503 No\r\nContent-Length: 0\r\nRetry-After: ");
    buffer_append_bytes(&answer, value);
    buffer_append_text(&answer, "\r\n\r\n");
    struct delivery_outcome outcome;
    webhook_outcome_fuzz_run(fixture, buffer_bytes(&answer), &outcome);
    compare(buffer_bytes(&answer), &outcome);
    uint64_t seconds = seconds_of(value);
    REQUIRE(!strcmp(outcome.error, "HTTP 503"));
    /* As long, or a millisecond longer: never early. */
    if (seconds > UINT64_MAX / 1001)
        REQUIRE(outcome.retry_after_ms == UINT64_MAX);
    else if (seconds)
        REQUIRE(outcome.retry_after_ms - seconds * 1000 <= 1);
    buffer_deinit(&answer);
}

static bool webhook_outcome_fuzz_is_value(struct bytes text)
{
    for (size_t i = 0; i < text.size; i++)
        if ((uint8_t)text.data[i] < ' ' || text.data[i] == 0x7f)
            return false;
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct outcome_fuzz_fixture fixture;
    const struct bytes text = {(const char *)data, size};

    if (!fixture.transfer)
        webhook_outcome_fuzz_start(&fixture);
    if (size > ANSWER_BYTES_MAX)
        return 0;
    if (size > 0 && webhook_outcome_fuzz_is_value(text))
        run_retry_after(&fixture, text);
    struct delivery_outcome outcome;
    webhook_outcome_fuzz_run(&fixture, text, &outcome);
    compare(text, &outcome);
    return 0;
}
