/*
 * batch_fuzz - the body of a batch, wherever it is cut: each line is answered as if it had come
 * alone, in order, what lies beyond the limits is not read, and as many timers are made as the
 * answer says. The first byte picks the limits and the kind of answer, the second seeds the cuts.
 */
#include "api/timers/batch_chunk.h"
#include "api/testing/wire.h"
#include "base/random.h"

#include <stdlib.h>

enum {
    CUTS_MAX = 6,
    RUNS_MAX = 512, /* then the node is begun anew, since it keeps what was made */
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition) ((condition) ? (void)0 : abort())

/* ---- what is expected ---- */

struct expected {
    const struct config *config;
    bool is_minimal;
    struct buffer out; /* with the ids left out */
    uint64_t number, lines, created, failed;
    bool is_over;
    bool has_names; /* a key or the like: a line may find the timer of another */
};

static void expect_problem(struct expected *expected, const struct problem *problem)
{
    batch_problem_format(problem, expected->number, &expected->out);
    expected->failed++;
}

static void expect_end(struct expected *expected, const char *detail)
{
    struct problem problem;

    problem_set(&problem, ERROR_TOO_LARGE, "", "%s; this line and all behind it are not read",
                detail);
    expect_problem(expected, &problem);
    expected->is_over = true;
}

static void expect_line(struct expected *expected, struct bytes line)
{
    const struct config *config = expected->config;
    const struct timer_json_limits limits = {.payload_bytes_max = config->payload_bytes_max,
                                             .target_bytes_max = config->target_bytes_max,
                                             .labels_max = config->labels_max,
                                             .headers_bytes_max = config->headers_bytes_max,
                                             .bare_after = TIMER_JSON_BARE_REFUSED};

    expected->number++;
    line.size -= line.size > 0 && line.data[line.size - 1] == '\r';
    if (line.size <= config->body_bytes_max) {
        size_t blank = 0;

        if (expected->number == 1 && line.size >= 3 && memcmp(line.data, "\xef\xbb\xbf", 3) == 0)
            line = (struct bytes){line.data + 3, line.size - 3}; /* a byte order mark */

        while (blank < line.size && line.data[blank] && strchr(" \t\r", line.data[blank]))
            blank++;
        if (blank == line.size)
            return;
    }
    struct problem problem;
    struct timer *timer;
    if (expected->lines++ == config->batch_lines_max) {
        expect_end(expected, "The batch has more lines than are allowed");
    } else if (line.size > config->body_bytes_max) {
        problem_set(&problem, ERROR_TOO_LARGE, "", "The line is too long");
        expect_problem(expected, &problem);
    } else if (timer_json_parse_create(line, &limits, (struct wall){UINT64_C(1795132800000)},
                                       &timer, &problem)) {
        expect_problem(expected, &problem);
    } else {
        expected->has_names =
            expected->has_names || timer->texts.key.size || timer->texts.request.size;
        timer_free(timer);
        expected->created++;
        if (!expected->is_minimal)
            buffer_append_text(&expected->out, "{\"id\":\"\"}\n");
    }
}

static void expect(struct expected *expected, struct bytes body)
{
    const size_t bytes_max = expected->config->batch_bytes_max;
    bool is_excess = body.size > bytes_max;

    body.size = is_excess ? bytes_max : body.size;
    while (body.size > 0 && !expected->is_over) {
        const char *end = memchr(body.data, '\n', body.size);
        struct bytes line = {body.data, end ? (size_t)(end - body.data) : body.size};

        body = (struct bytes){body.data + line.size + !!end, body.size - line.size - !!end};
        if (end || !is_excess)
            expect_line(expected, line);
    }
    expected->number++;
    if (is_excess && !expected->is_over)
        expect_end(expected, "The batch has more bytes than are allowed");
}

/* ---- what is answered ---- */

/* Without its ids, each of which is one. */
static void append_without_ids(struct buffer *out, struct bytes text)
{
    const size_t id_size = TIMER_ID_TEXT_SIZE - 1;
    struct timer_id id;

    for (size_t i = 0; i < text.size; i++) {
        buffer_append(out, text.data + i, 1);
        if (out->size >= 7 && memcmp(out->data + out->size - 7, "{\"id\":\"", 7) == 0) {
            REQUIRE(i + id_size < text.size);
            REQUIRE(timer_id_parse((struct bytes){text.data + i + 1, id_size}, &id) == ERROR_NONE);
            i += id_size;
        }
    }
}

/* As an upload in chunks, each sent when the one before was read. */
static void batch_fuzz_ask(struct wire *wire, struct bytes body, bool is_minimal, uint8_t seed,
                           struct buffer *ret_answers)
{
    struct random random = random_seeded(seed);
    struct buffer sent;

    buffer_init(&sent);
    size_t begins[CUTS_MAX + 2], count = 0;
    begins[count++] = 0;
    buffer_printf(&sent,
                  "POST /v1/timers/batch HTTP/1.1\r\nHost: a\r\n"
                  "Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n%s\r\n",
                  is_minimal ? "Prefer: return=minimal\r\n" : "");
    while (body.size > 0) {
        size_t cut = 1 + random_below(&random, random_below(&random, 2) ? 16 : body.size);

        cut = cut < body.size && count <= CUTS_MAX ? cut : body.size;
        begins[count++] = sent.size;
        buffer_printf(&sent, "%zx\r\n", cut);
        buffer_append(&sent, body.data, cut);
        buffer_append_text(&sent, "\r\n");
        body = (struct bytes){body.data + cut, body.size - cut};
    }
    buffer_append_text(&sent, "0\r\n\r\n");
    REQUIRE(!buffer_failed(&sent));
    struct bytes pieces[CUTS_MAX + 2];
    for (size_t i = 0; i < count; i++)
        pieces[i] = (struct bytes){sent.data + begins[i],
                                   (i + 1 < count ? begins[i + 1] : sent.size) - begins[i]};
    wire_exchange(wire, pieces, count, ret_answers);
    buffer_deinit(&sent);
}

static void try(struct wire *wire, struct bytes body, bool is_minimal, uint8_t seed)
{
    struct expected expected = {.config = &wire->probe.config, .is_minimal = is_minimal};
    size_t created = probe_live(&wire->probe);

    buffer_init(&expected.out);
    struct buffer answers;
    buffer_init(&answers);
    struct buffer shown;
    buffer_init(&shown);
    expect(&expected, body);
    if (is_minimal)
        buffer_printf(&shown, "{\"created\":%llu,\"existed\":0,\"failed\":%llu}\n",
                      (unsigned long long)expected.created, (unsigned long long)expected.failed);
    buffer_append_bytes(&shown, buffer_bytes(&expected.out));
    batch_fuzz_ask(wire, body, is_minimal, seed, &answers);
    struct bytes rest = buffer_bytes(&answers);
    struct wire_reply reply;
    REQUIRE(wire_take_reply(&rest, WIRE_BODY, &reply) && rest.size == 0 && reply.status == 200);
    buffer_clear(&expected.out);
    append_without_ids(&expected.out, reply.body);
    REQUIRE(expected.has_names || bytes_equal(buffer_bytes(&expected.out), buffer_bytes(&shown)));
    REQUIRE(expected.has_names || probe_live(&wire->probe) - created == expected.created);
    buffer_deinit(&expected.out);
    buffer_deinit(&answers);
    buffer_deinit(&shown);
}

static struct wire *batch_fuzz_start(bool is_small)
{
    struct config config;

    config_init(&config);
    config.listen_port = is_small;
    config.body_bytes_max = is_small ? 64 : 4096;
    config.batch_lines_max = is_small ? 5 : 1000000;
    config.batch_bytes_max = is_small ? 300 : 1000000;
    return wire_start(&config, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct wire *wires[2]; /* with large and with small limits */
    static unsigned runs;

    if (runs++ % RUNS_MAX == 0)
        for (size_t i = 0; i < 2; i++) {
            wire_stop(wires[i]);
            wires[i] = batch_fuzz_start(i == 1);
        }
    if (size > 2)
        try(wires[data[0] & 1], (struct bytes){(const char *)data + 2, size - 2}, data[0] & 2,
            data[1]);
    return 0;
}
