/*
 * http_fuzz - the bytes of a connection, to the real server with the real routes.
 *
 * Whatever comes in, what goes out is HTTP, answer by answer, whole, with the service's own headers
 * only; an error is a problem; nothing is a 500. The same bytes cut elsewhere get the same answers
 * of another server, which was asked the same before. With an Authorization in it the input
 * goes to a server that wants a token, and without the token no command reaches the node.
 */
#include "api/testing/wire.h"
#include "base/random.h"

#include <jansson.h>
#include <stdlib.h>
#include <strings.h>

/* Its SHA-256 stands in `tokens_text`. */
#define TOKEN "tw_fuzz_0123456789abcdef"

enum {
    PIECES_MAX = 8,
    REPLIES_MAX = 64,
    RUNS_MAX = 512, /* then the node has so many timers that listing them takes long */
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition) ((condition) ? (void)0 : abort())

static const char tokens_text[] =
    "token shop schedule,read,admin sha256:"
    "734d93cb162c4263fad5f8c52a8f7ef5fce71fd6101d9d6758962cad41483617\n";

static bool contains(struct bytes text, const char *part)
{
    return text.size > 0 && memmem(text.data, text.size, part, strlen(part));
}

static void check_json(const struct wire_reply *reply)
{
    json_t *json = json_loadb(reply->body.data, reply->body.size, JSON_REJECT_DUPLICATES, NULL);

    REQUIRE(json_is_object(json));
    if (bytes_equal(reply->type, BYTES("application/problem+json"))) {
        REQUIRE(json_integer_value(json_object_get(json, "status")) == reply->status);
        REQUIRE(json_is_string(json_object_get(json, "title")));
    }
    json_decref(json);
}

static void check_reply(const struct wire_reply *reply)
{
    bool is_problem = bytes_equal(reply->type, BYTES("application/problem+json"));
    bool is_json = is_problem || bytes_equal(reply->type, BYTES("application/json"));

    REQUIRE(reply->status != 500);
    REQUIRE(is_json || reply->status < 400);
    REQUIRE(!is_problem || reply->status >= 400);
    if (is_json && reply->body.size > 0)
        check_json(reply);
}

/* What of the service's answers does not depend on when they were given. */
static size_t read_replies(struct bytes sent, struct bytes answers, int *ret_statuses)
{
    enum wire_body body = contains(sent, "HEAD") ? WIRE_BODY_OR_NOT : WIRE_BODY;
    struct wire_reply reply;
    size_t count = 0;

    while (wire_take_reply(&answers, body, &reply)) {
        check_reply(&reply);
        if (count < REPLIES_MAX)
            ret_statuses[count++] = reply.status;
    }
    return count;
}

static size_t exchange(struct wire *wire, struct bytes sent, const struct bytes *pieces,
                       size_t count, int *ret_statuses)
{
    size_t submitted = probe_submitted(&wire->probe);
    struct buffer answers;

    buffer_init(&answers);
    wire_exchange(wire, pieces, count, &answers);
    size_t replies = read_replies(sent, buffer_bytes(&answers), ret_statuses);
    buffer_deinit(&answers);
    if (contains(sent, "Authorization") && !contains(sent, TOKEN))
        REQUIRE(probe_submitted(&wire->probe) == submitted);
    return replies;
}

/* Cuts it at places that follow from its bytes. */
static size_t cut(struct bytes text, struct bytes *ret_pieces)
{
    struct random random = random_seeded(text.size);

    for (size_t i = 0; i < text.size; i++)
        random.state_ = random_mix(random.state_ + (uint8_t)text.data[i]);
    size_t wanted = 1 + random_below(&random, PIECES_MAX);
    size_t count = 0;
    while (count + 1 < wanted && text.size > 1) {
        size_t size = 1 + random_below(&random, random_below(&random, 2) ? text.size - 1 : 4);

        if (size >= text.size)
            break;
        ret_pieces[count++] = (struct bytes){text.data, size};
        text = (struct bytes){text.data + size, text.size - size};
    }
    ret_pieces[count++] = text;
    return count;
}

static struct wire *http_fuzz_start(uint16_t port, bool wants_token)
{
    struct config config;

    config_init(&config);
    config.listen_port = port;
    config.header_bytes_max = 2048;
    config.body_bytes_max = 4096;
    config.batch_lines_max = 64;
    config.batch_bytes_max = 8192;
    struct tokens *tokens = NULL;
    if (wants_token)
        REQUIRE(tokens_parse(bytes_of(tokens_text), "fuzz", &tokens, NULL) == ERROR_NONE);
    return wire_start(&config, tokens);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct wire *wires[4]; /* two open ones, and two with tokens */
    static unsigned runs;
    const struct bytes sent = {(const char *)data, size};
    struct wire **pair = &wires[contains(sent, "Authorization") ? 2 : 0];

    if (runs++ % RUNS_MAX == 0)
        for (uint16_t i = 0; i < 4; i++) {
            wire_stop(wires[i]);
            wires[i] = http_fuzz_start(i, i >= 2);
        }
    int whole[REPLIES_MAX];
    size_t counts[2];
    counts[0] = exchange(pair[0], sent, &sent, 1, whole);
    struct bytes pieces[PIECES_MAX];
    int in_pieces[REPLIES_MAX];
    counts[1] = exchange(pair[1], sent, pieces, cut(sent, pieces), in_pieces);
    REQUIRE(counts[0] == counts[1]);
    REQUIRE(memcmp(whole, in_pieces, counts[0] * sizeof(whole[0])) == 0);
    return 0;
}
