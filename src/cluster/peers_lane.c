/*
 * peers_lane.c - a connection to another node: one message at a time, and its answer.
 *
 * libcurl connects, with TLS where that is wanted, and this file speaks HTTP on it: libcurl itself
 * sends a request again when a connection that it had kept turns out to be closed, although the
 * other side may have acted on it.
 */
#include "cluster/peers_private.h"

#include "sys/clock.h"

#include <ctype.h>
#include <curl/curl.h>
#include <openssl/crypto.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

enum {
    /* idle time after which a connection is not used again, far below that of the listener, so
     * that it is not closed at that moment */
    LANE_IDLE_MS = 15000,
    LANE_SLICE_MS = 100, /* interval of checks for a stop */
    LANE_CONNECT_MS = 1000,
    LANE_GREET_MS = 1000,  /* time limit of a greeting; then another connection is tried */
    LANE_HEAD_SIZE = 8192, /* maximum size of the head of an answer */
};

/* ---- the connection ---- */

void peers_lane_close(struct peers_lane *lane)
{
    curl_easy_cleanup(lane->curl);
    lane->curl = NULL;
}

static uint64_t lane_left_ms(struct instant until)
{
    const struct instant now = instant_now();

    return until.ns > now.ns ? (until.ns - now.ns + 999999) / 1000000 : 0;
}

/* Waits until the socket is ready. Returns false at the deadline or a stop. */
static bool lane_wait(struct peers_lane *lane, short events, struct instant until)
{
    curl_socket_t socket = CURL_SOCKET_BAD;

    if (curl_easy_getinfo(lane->curl, CURLINFO_ACTIVESOCKET, &socket) || socket == CURL_SOCKET_BAD)
        return false;
    for (uint64_t left; (left = lane_left_ms(until)) > 0;) {
        struct pollfd ready = {.fd = socket, .events = events};
        const int timeout = left < LANE_SLICE_MS ? (int)left : LANE_SLICE_MS;

        if (atomic_load(&lane->node->peers->is_stopping))
            return false;
        if (poll(&ready, 1, timeout) > 0)
            return true;
    }
    return false;
}

/* Checks whether the other side closed an idle connection. */
static bool lane_is_usable(struct peers_lane *lane)
{
    char byte;
    size_t size;

    return lane->curl && lane->peer == lane->node->id &&
           lane->trust == atomic_load(&lane->node->peers->trust) &&
           instant_since_ns(lane->used, instant_now()) < LANE_IDLE_MS * UINT64_C(1000000) &&
           curl_easy_recv(lane->curl, &byte, 1, &size) == CURLE_AGAIN;
}

static bool lane_connect(struct peers_lane *lane, const char *address, struct instant until)
{
    const struct peers *peers = lane->node->peers;
    const uint64_t left = lane_left_ms(until);
    char url[PEERS_ADDRESS_SIZE + 16];
    CURL *curl = curl_easy_init();

    if (!curl)
        return false;
    lane->curl = curl;
    snprintf(url, sizeof(url), "%s://%s/", peers->ca_file ? "https" : "http", address);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_CONNECT_ONLY, 1L);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_SSL_ENABLE_ALPN, 0L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS,
                     (long)(left < LANE_CONNECT_MS ? left : LANE_CONNECT_MS));
    if (peers->ca_file)
        curl_easy_setopt(curl, CURLOPT_CAINFO, peers->ca_file);
    curl_easy_setopt(curl, CURLOPT_CAPATH, NULL); /* the system's authorities are not trusted */
    lane->trust = atomic_load(&peers->trust);
    lane->peer = lane->node->id;
    if (left > 0 && curl_easy_perform(curl) == CURLE_OK)
        return true;
    peers_lane_close(lane);
    return false;
}

static bool lane_send(struct peers_lane *lane, struct bytes data, struct instant until)
{
    while (data.size > 0) {
        size_t sent = 0;
        const CURLcode code = curl_easy_send(lane->curl, data.data, data.size, &sent);

        if (code == CURLE_AGAIN) {
            if (!lane_wait(lane, POLLOUT, until))
                return false;
        } else if (code != CURLE_OK) {
            return false;
        }
        data.data += sent;
        data.size -= sent;
    }
    return true;
}

/* Appends received bytes. Returns false at the end, on an error, or at the deadline. */
static bool lane_receive(struct peers_lane *lane, struct buffer *in, size_t room,
                         struct instant until)
{
    char *to = buffer_reserve(in, room);

    for (;;) {
        size_t size = 0;
        const CURLcode code =
            to ? curl_easy_recv(lane->curl, to, room, &size) : CURLE_OUT_OF_MEMORY;

        if (code == CURLE_OK && size > 0) {
            in->size += size;
            return true;
        }
        if (code != CURLE_AGAIN || !lane_wait(lane, POLLIN, until))
            return false;
    }
}

/* ---- HTTP ---- */

/* Returns the offset of the answer's body; 0 if the head is incomplete. */
static size_t lane_head_size(struct bytes in)
{
    const char *end = in.size ? memmem(in.data, in.size, "\r\n\r\n", 4) : NULL;

    return end ? (size_t)(end - in.data) + 4 : 0;
}

/* Reads status and length of an answer. Returns false if it is none. */
static bool lane_read_head(struct bytes head, int *ret_status, size_t *ret_length)
{
    static const char name[] = "Content-Length:";
    struct bytes rest = head, line = bytes_cut(&rest, '\n');
    size_t length = 0;
    bool has_length = false;

    if (!bytes_has_prefix(line, BYTES("HTTP/1.1 ")) || line.size < 12)
        return false;
    *ret_status = 0;
    for (size_t i = 9; i < 12; i++) {
        if (line.data[i] < '0' || line.data[i] > '9')
            return false;
        *ret_status = *ret_status * 10 + (line.data[i] - '0');
    }
    while (rest.size > 0) {
        line = bytes_cut(&rest, '\n');
        if (line.size < sizeof(name) || strncasecmp(line.data, name, sizeof(name) - 1) != 0)
            continue;
        line = bytes_trim((struct bytes){line.data + sizeof(name) - 1, line.size - sizeof(name)});
        has_length = line.size > 0 && line.size < 10;
        for (size_t i = 0; has_length && i < line.size; i++) {
            has_length = line.data[i] >= '0' && line.data[i] <= '9';
            length = length * 10 + (size_t)(line.data[i] - '0');
        }
    }
    *ret_length = length;
    return has_length && length <= WIRE_MESSAGE_SIZE_MAX + PEERS_MAC_SIZE;
}

/* Reads an answer into the buffer, and returns the offset of its body. */
static bool lane_read_answer(struct peers_lane *lane, struct buffer *in, struct instant until,
                             int *ret_status, size_t *ret_body)
{
    size_t head, length;

    while ((head = lane_head_size(buffer_bytes(in))) == 0)
        if (in->size > LANE_HEAD_SIZE || !lane_receive(lane, in, LANE_HEAD_SIZE, until))
            return false;
    if (!lane_read_head((struct bytes){in->data, head}, ret_status, &length))
        return false;
    while (in->size < head + length)
        if (!lane_receive(lane, in, head + length - in->size, until))
            return false;
    *ret_body = head;
    return in->size == head + length;
}

/* ---- messages ---- */

/* Checks that another node's address is only a host and a port, because it becomes part of a URL
 * and a header. */
static bool lane_is_address(const char *address)
{
    for (const char *at = address; *at; at++)
        if (!isalnum((unsigned char)*at) && !strchr(".:-_[]", *at))
            return false;
    return *address != '\0';
}

/* True if a node of the cluster made the answer, and to this message. */
static bool lane_is_proven(const struct peers_lane *lane, const uint8_t *asked, struct bytes answer)
{
    uint8_t mac[PEERS_MAC_SIZE];

    if (answer.size < PEERS_MAC_SIZE)
        return false;
    const struct bytes message = {answer.data + PEERS_MAC_SIZE, answer.size - PEERS_MAC_SIZE};
    return peers_mac(lane->node->peers, lane->key, PEERS_ANSWERS, asked, message, mac) &&
           CRYPTO_memcmp(mac, answer.data, PEERS_MAC_SIZE) == 0;
}

/* Sends a body and reads its answer: `ret_answer` points into the buffer. A failure closes the
 * connection. */
static enum peers_outcome lane_talk(struct peers_lane *lane, const char *address, struct bytes body,
                                    struct instant until, struct buffer *in,
                                    struct bytes *ret_answer)
{
    char head[PEERS_ADDRESS_SIZE + 160];
    size_t body_at = 0;
    int status = 0;

    const int head_size = snprintf(head, sizeof(head),
                                   "POST " PEERS_PATH " HTTP/1.1\r\nHost: %s\r\n"
                                   "Content-Type: application/octet-stream\r\n"
                                   "Content-Length: %zu\r\n\r\n",
                                   address, body.size);
    /* A listener does not act on an incomplete body. */
    if (!lane_send(lane, (struct bytes){head, (size_t)head_size}, until) ||
        !lane_send(lane, body, until)) {
        peers_lane_close(lane);
        return PEERS_UNSENT;
    }
    const bool is_read = lane_read_answer(lane, in, until, &status, &body_at);
    const struct bytes answer = {in->data + body_at, in->size - body_at};
    if (is_read && (status == 200 || status == 421) &&
        lane_is_proven(lane, (const uint8_t *)body.data, answer)) {
        lane->used = instant_now();
        *ret_answer = (struct bytes){answer.data + PEERS_MAC_SIZE, answer.size - PEERS_MAC_SIZE};
        return PEERS_ANSWERED;
    }
    peers_lane_close(lane);
    /* These statuses are sent before anything is done; others may follow an effect. */
    if (is_read && status == 400)
        return PEERS_REFUSED;
    const bool is_refusal =
        is_read && (status == 401 || status == 409 || status == 413 || status == 503);
    return is_refusal ? PEERS_UNSENT : PEERS_DOUBTFUL;
}

/* Greets the other node on a new connection, and closes it without an answer. It might stay in
 * the other side's backlog forever, and commands sent on it would be in doubt. */
static bool lane_greet(struct peers_lane *lane, const char *address, struct instant until)
{
    struct peers *peers = lane->node->peers;
    const struct instant soon = instant_add_ms(instant_now(), LANE_GREET_MS);
    struct wire_reader reader;
    struct buffer out, in;
    struct bytes answer;
    bool is_known = false;

    buffer_init(&out);
    buffer_init(&in);
    peers_put_greeting(peers, lane->key, PEERS_ASKS, NULL, &out);
    if (!buffer_failed(&out) &&
        lane_talk(lane, address, buffer_bytes(&out), soon.ns < until.ns ? soon : until, &in,
                  &answer) == PEERS_ANSWERED)
        is_known = wire_open(answer, &reader, NULL) == ERROR_NONE &&
                   reader.head.kind == WIRE_GREETING && reader.head.cluster == peers->cluster &&
                   reader.head.node == lane->node->id;
    if (!is_known)
        peers_lane_close(lane);
    buffer_deinit(&out);
    buffer_deinit(&in);
    return is_known;
}

/* Connects with the newest secret, or with the former one, which the other node may still have. */
static bool lane_begin(struct peers_lane *lane, const char *address, struct instant until)
{
    struct peers *peers = lane->node->peers;

    lane->key = peers_newest_key(peers);
    if (lane_connect(lane, address, until) && lane_greet(lane, address, until))
        return true;
    if (!peers_has_former_key(peers))
        return false;
    lane->key--;
    return lane_connect(lane, address, until) && lane_greet(lane, address, until);
}

enum peers_outcome peers_lane_exchange(struct peers_lane *lane, struct buffer *out,
                                       struct instant until, struct buffer *in,
                                       struct bytes *ret_answer)
{
    struct peers *peers = lane->node->peers;
    const struct bytes message = {out->data + PEERS_MAC_SIZE, out->size - PEERS_MAC_SIZE};
    char address[PEERS_ADDRESS_SIZE];

    if (!peers->host.address(peers->host.context, lane->node->id, address) ||
        !lane_is_address(address))
        return PEERS_UNSENT;
    if (!lane_is_usable(lane)) {
        peers_lane_close(lane);
        if (!lane_begin(lane, address, until))
            return PEERS_UNSENT;
    }
    if (!peers_mac(peers, lane->key, PEERS_ASKS, NULL, message, (uint8_t *)out->data)) {
        peers_lane_close(lane); /* its secret is not valid any more */
        return PEERS_UNSENT;
    }
    atomic_fetch_add(&peers->sent, 1);
    const enum peers_outcome outcome =
        lane_talk(lane, address, buffer_bytes(out), until, in, ret_answer);
    atomic_fetch_add(&peers->answered, outcome == PEERS_ANSWERED);
    return outcome;
}
