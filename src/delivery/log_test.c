/*
 * Goal: a delivery to `log:` is one line of JSON, no content can make it two or too long, and an
 * output that is stuck or gone is a failed attempt. Method: the sender with a pipe in place of the
 * standard output.
 */
#include "delivery/sender.h"

#include "base/json.h"
#include "sys/clock.h"
#include "sys/mailbox.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

extern const struct sender sender_log;

struct log_fixture {
    void *log;
    struct mailbox back;
    int output; /* the test's own standard output, meanwhile */
    int pipe[2];
};

static void log_fixture_done(void *context, struct list *deliveries)
{
    mailbox_post_all(context, deliveries);
}

static void log_fixture_init(struct log_fixture *fixture)
{
    const struct sender_options options = {.done = log_fixture_done, .context = &fixture->back};

    signal(SIGPIPE, SIG_IGN); /* as the daemon does */
    fflush(stdout);
    assert_int_equal(mailbox_init(&fixture->back), ERROR_NONE);
    assert_int_equal(pipe(fixture->pipe), 0);
    assert_int_equal(fcntl(fixture->pipe[0], F_SETFL, O_NONBLOCK), 0);
    fixture->output = dup(STDOUT_FILENO);
    assert_int_equal(dup2(fixture->pipe[1], STDOUT_FILENO), STDOUT_FILENO);
    close(fixture->pipe[1]);
    assert_int_equal(sender_log.start(&options, &fixture->log, NULL), ERROR_NONE);
    assert_int_equal(sender_log.begin(fixture->log, NULL), ERROR_NONE);
}

static void log_fixture_deinit(struct log_fixture *fixture)
{
    sender_log.stop(fixture->log);
    dup2(fixture->output, STDOUT_FILENO);
    close(fixture->output);
    close(fixture->pipe[0]);
    mailbox_deinit(&fixture->back);
}

/* Gives the sender another standard output. */
static void log_fixture_redirect(struct log_fixture *fixture, int file)
{
    const struct sender_options options = {.done = log_fixture_done, .context = &fixture->back};

    sender_log.stop(fixture->log);
    assert_int_equal(dup2(file, STDOUT_FILENO), STDOUT_FILENO);
    assert_int_equal(sender_log.start(&options, &fixture->log, NULL), ERROR_NONE);
    assert_int_equal(sender_log.begin(fixture->log, NULL), ERROR_NONE);
}

static struct delivery *log_delivery_create(const struct timer_texts *texts)
{
    struct delivery *delivery = calloc(1, sizeof(*delivery));
    struct timer *timer = timer_alloc(texts);

    assert_non_null(delivery);
    assert_non_null(timer);
    timer->due.ms = UINT64_C(1795219199250);
    timer->id = (struct timer_id){timer->due, 7, 42};
    delivery->timer = timer;
    delivery->attempt = 3;
    return delivery;
}

static void log_fixture_post(struct log_fixture *fixture, struct delivery *delivery)
{
    struct list list;

    list_init(&list);
    list_push(&list, &delivery->link);
    sender_log.post(fixture->log, &list);
}

/* Waits for one that is back and frees it. */
static struct delivery_outcome log_fixture_take(struct log_fixture *fixture)
{
    struct list list;

    list_init(&list);
    mailbox_wait(&fixture->back, UINT64_MAX);
    mailbox_take(&fixture->back, &list);
    struct delivery *delivery = list_item(list_pop(&list), struct delivery, link);
    if (!list_is_empty(&list))
        mailbox_post_all(&fixture->back, &list);
    struct delivery_outcome outcome = delivery->outcome;
    timer_free((struct timer *)delivery->timer);
    free(delivery);
    return outcome;
}

/* The output so far. */
static struct bytes log_fixture_read(struct log_fixture *fixture, char room[PIPE_BUF + 1])
{
    ssize_t size = read(fixture->pipe[0], room, PIPE_BUF + 1);

    return (struct bytes){room, size > 0 ? (size_t)size : 0};
}

/* One line, of which all is JSON. */
static void assert_json_line(struct bytes line)
{
    assert_true(line.size > 2 && line.size <= PIPE_BUF);
    assert_int_equal(line.data[line.size - 1], '\n');
    for (size_t i = 0; i + 1 < line.size; i++)
        assert_true((unsigned char)line.data[i] >= ' ' && line.data[i] != 0x7f);
    struct json_reader reader;
    json_reader_init(&reader, (struct bytes){line.data, line.size - 1});
    struct bytes value;
    assert_true(json_skip(&reader, &value));
    assert_int_equal(value.size, line.size - 1);
}

static void log_fixture_check(struct log_fixture *fixture, const struct timer_texts *texts,
                              const char *begin, const char *end)
{
    log_fixture_post(fixture, log_delivery_create(texts));
    assert_int_equal(log_fixture_take(fixture).result, DELIVERY_DONE);
    char room[PIPE_BUF + 1];
    struct bytes line = log_fixture_read(fixture, room);
    assert_json_line(line);
    char text[PIPE_BUF + 2];
    snprintf(text, sizeof(text), "%.*s", (int)line.size, line.data);
    assert_memory_equal(text, begin, strlen(begin));
    if (!strstr(text, end))
        fail_msg("%s", text);
}

#define DUE "\"due\":\"2026-11-20T23:59:59.250Z\",\"fired\":\""

/* proves: target-log */
static void test_log_lines(void **state)
{
    const struct {
        struct timer_texts texts;
        const char *end;
    } cases[] = {
        {{.target = BYTES("log:")}, ",\"attempt\":3}\n"},
        {{.target = BYTES("log:a.b")}, ",\"attempt\":3,\"name\":\"a.b\"}\n"},
        {{.target = BYTES("log:"),
          .key = BYTES("k\"1"),
          .labels = BYTES("{\"team\":\"x\"}"),
          .payload = BYTES("{\"order\": 42}")},
         ",\"key\":\"k\\\"1\",\"labels\":{\"team\":\"x\"},\"payload\":{\"order\": 42}}\n"},
        {{.target = BYTES("log:"), .payload = BYTES("[1,\n\r\t2]")}, ",\"payload\":[1,   2]}\n"},
        {{.target = BYTES("log:"),
          .payload = BYTES("\"\xc2\x9b"
                           "31m\x7f\xc3\xbc\"")},
         ",\"payload\":\"\\u009b31m\\u007f\xc3\xbc\"}\n"},
        {{.target = BYTES("log:"),
          .content_type = BYTES("text/plain"),
          .payload = BYTES("a\nb\x1b\0")},
         ",\"content_type\":\"text/plain\",\"body_base64\":\"YQpiGwA=\"}\n"},
    };

    (void)state;
    struct log_fixture fixture;
    log_fixture_init(&fixture);
    for (size_t i = 0; i < COUNT(cases); i++)
        log_fixture_check(&fixture, &cases[i].texts, "{\"id\":\"", cases[i].end);
    log_fixture_check(&fixture, &cases[0].texts, "{\"id\":\"", "," DUE);
    log_fixture_deinit(&fixture);
}

/* What does not fit is left out and its size is told; one byte less and it is there. */
/* proves: target-log */
static void test_log_line_size(void **state)
{
    struct timer_texts texts = {.target = BYTES("log:")};

    (void)state;
    char payload[PIPE_BUF + 100];
    memset(payload, '1', sizeof(payload));
    char labels[PIPE_BUF + 100];
    memset(labels, 'a', sizeof(labels));
    memcpy(labels, "{\"a\":\"", 6);
    struct log_fixture fixture;
    log_fixture_init(&fixture);
    size_t first_missing = 0;
    for (size_t size = 3500; size < PIPE_BUF; size += 7) {
        texts.payload = (struct bytes){payload, size};
        log_fixture_post(&fixture, log_delivery_create(&texts));
        assert_int_equal(log_fixture_take(&fixture).result, DELIVERY_DONE);
        char room[PIPE_BUF + 1];
        struct bytes line = log_fixture_read(&fixture, room);
        assert_json_line(line);
        if (!first_missing && line.size < size)
            first_missing = size;
        assert_int_equal(line.size<size, first_missing> 0);
    }
    assert_true(first_missing > 3800);
    texts.payload = (struct bytes){payload, sizeof(payload)};
    memcpy(labels + sizeof(labels) - 2, "\"}", 2);
    texts.labels = (struct bytes){labels, sizeof(labels)};
    char end[100];
    snprintf(end, sizeof(end), ",\"labels_bytes\":%zu,\"payload_bytes\":%zu}\n", sizeof(labels),
             sizeof(payload));
    log_fixture_check(&fixture, &texts, "{\"id\":\"", end);
    log_fixture_deinit(&fixture);
}

/* A full pipe holds up nothing and ends with the attempt's time; what follows is in whole lines. */
/* proves: log-output */
static void test_log_reader_is_behind(void **state)
{
    const struct timer_texts texts = {.target = BYTES("log:")};

    (void)state;
    struct log_fixture fixture;
    log_fixture_init(&fixture);
    char filler[PIPE_BUF];
    memset(filler, '-', sizeof(filler));
    assert_int_equal(fcntl(STDOUT_FILENO, F_SETPIPE_SZ, 4 * PIPE_BUF), 4 * PIPE_BUF);
    for (int i = 0; i < 4; i++)
        assert_int_equal(write(STDOUT_FILENO, filler, sizeof(filler)), sizeof(filler));
    struct delivery *late = log_delivery_create(&texts);
    ((struct timer *)late->timer)->retry.timeout_ms = 20;
    struct delivery *in_time = log_delivery_create(&texts);
    log_fixture_post(&fixture, in_time);
    log_fixture_post(&fixture, late);
    struct delivery_outcome outcome = log_fixture_take(&fixture);
    assert_int_equal(outcome.result, DELIVERY_FAILED);
    assert_string_equal(outcome.error, "the standard output takes no line: its reader is behind");
    char room[PIPE_BUF + 1];
    for (int i = 0; i < 4; i++)
        assert_int_equal(read(fixture.pipe[0], room, PIPE_BUF), PIPE_BUF);
    assert_int_equal(log_fixture_take(&fixture).result, DELIVERY_DONE);
    assert_json_line(log_fixture_read(&fixture, room));
    log_fixture_deinit(&fixture);
}

/* proves: log-output */
static void test_log_output_is_gone(void **state)
{
    const struct timer_texts texts = {.target = BYTES("log:")};

    (void)state;
    struct log_fixture fixture;
    log_fixture_init(&fixture);
    close(fixture.pipe[0]); /* the reader */
    log_fixture_post(&fixture, log_delivery_create(&texts));
    struct delivery_outcome outcome = log_fixture_take(&fixture);
    assert_int_equal(outcome.result, DELIVERY_FAILED);
    assert_string_equal(outcome.error, "the standard output takes no line: Broken pipe");
    int file = open("/dev/null", O_RDONLY); /* as of a daemon that was started without an output */
    log_fixture_redirect(&fixture, file);
    close(file);
    log_fixture_post(&fixture, log_delivery_create(&texts));
    outcome = log_fixture_take(&fixture);
    assert_int_equal(outcome.result, DELIVERY_FAILED);
    assert_string_equal(outcome.error, "the standard output takes no line: Bad file descriptor");
    file = open("/dev/full", O_WRONLY);
    log_fixture_redirect(&fixture, file);
    close(file);
    log_fixture_post(&fixture, log_delivery_create(&texts));
    outcome = log_fixture_take(&fixture);
    assert_int_equal(outcome.result, DELIVERY_FAILED);
    assert_string_equal(outcome.error,
                        "the standard output takes no line: No space left on device");
    log_fixture_deinit(&fixture);
}

/* A line of which a file takes a part is ended before the next one. */
static void test_log_torn_line(void **state)
{
    const struct timer_texts texts = {.target = BYTES("log:")};
    char path[] = "/tmp/tickwheel-log-XXXXXX";
    int file = mkstemp(path);

    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    unlink(path);
    struct log_fixture fixture;
    log_fixture_init(&fixture);
    log_fixture_redirect(&fixture, file);
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    struct rlimit limit = before;
    limit.rlim_cur = 10;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    log_fixture_post(&fixture, log_delivery_create(&texts));
    struct delivery_outcome outcome = log_fixture_take(&fixture);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(outcome.result, DELIVERY_FAILED);
    assert_string_equal(outcome.error, "the standard output takes no line: it is full");
    for (int i = 0; i < 2; i++) {
        log_fixture_post(&fixture, log_delivery_create(&texts));
        assert_int_equal(log_fixture_take(&fixture).result, DELIVERY_DONE);
    }
    char text[PIPE_BUF + 1];
    ssize_t size = pread(file, text, PIPE_BUF, 0);
    assert_true(size > 20);
    text[size] = '\0';
    assert_memory_equal(text + 10, "\n{\"id\":\"", 8);
    assert_non_null(strstr(text, "}\n{\"id\":\""));
    close(file);
    log_fixture_deinit(&fixture);
}

/* At a stop all come back, at once. */
static void test_log_stop(void **state)
{
    const struct timer_texts texts = {.target = BYTES("log:")};

    (void)state;
    struct log_fixture fixture;
    log_fixture_init(&fixture);
    char filler[PIPE_BUF];
    memset(filler, '-', sizeof(filler));
    assert_int_equal(fcntl(STDOUT_FILENO, F_SETPIPE_SZ, PIPE_BUF), PIPE_BUF);
    assert_int_equal(write(STDOUT_FILENO, filler, sizeof(filler)), sizeof(filler));
    for (int i = 0; i < 10; i++)
        log_fixture_post(&fixture, log_delivery_create(&texts));
    sender_log.stop(fixture.log);
    dup2(fixture.output, STDOUT_FILENO);
    struct list back;
    list_init(&back);
    mailbox_take(&fixture.back, &back);
    size_t count = 0;
    LIST_FOR_EACH (&back, link) {
        struct delivery *delivery = list_item(link, struct delivery, link);

        assert_int_equal(delivery->outcome.result, DELIVERY_FAILED);
        assert_string_equal(delivery->outcome.error, "the service is stopping");
        timer_free((struct timer *)delivery->timer);
        free(delivery);
        count++;
    }
    assert_int_equal(count, 10);
    close(fixture.output);
    close(fixture.pipe[0]);
    mailbox_deinit(&fixture.back);
}

/* proves: target-log */
static void test_log_is_for_the_operator(void **state)
{
    const struct bytes text = BYTES("log:");

    (void)state;
    struct target target;
    assert_int_equal(target_parse(text, &target, NULL), ERROR_NONE);
    assert_int_equal(target.kind, TARGET_LOG);
    assert_int_equal(target_sharing(&target), TARGET_SHARES_ORIGIN);
    struct error error;
    assert_int_equal(sender_log.check(NULL, BYTES(""), text, &target, &error), ERROR_NONE);
    assert_int_equal(sender_log.check(NULL, BYTES("shop"), text, &target, &error), ERROR_INVALID);
    assert_non_null(strstr(error.text, "without a tenant"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_log_lines),
        cmocka_unit_test(test_log_line_size),
        cmocka_unit_test(test_log_reader_is_behind),
        cmocka_unit_test(test_log_output_is_gone),
        cmocka_unit_test(test_log_torn_line),
        cmocka_unit_test(test_log_stop),
        cmocka_unit_test(test_log_is_for_the_operator),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
