/*
 * Goal: a pause is found by every way to write its target, of its tenant alone, while it is in
 * force; tables keep their limits, and come back from their bytes or are refused. Method: names by
 * hand; random changes beside a plain array; every cut and every changed byte.
 */
#include "timer/target_pauses.h"

#include "base/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define NOW ((struct wall){1800000000000})

static struct target_pauses *pauses_test_put(struct target_pauses *pauses,
                                             const struct target_pause *pause)
{
    struct target_pauses *next = NULL;

    assert_int_equal(target_pauses_put(pauses, NOW, pause, &next), ERROR_NONE);
    target_pauses_leave(pauses);
    return next;
}

static struct target_pauses *pauses_test_remove(struct target_pauses *pauses, const char *tenant,
                                                const char *name)
{
    struct target_pauses *next = NULL;

    assert_int_equal(target_pauses_remove(pauses, NOW, bytes_of(tenant), bytes_of(name), &next),
                     ERROR_NONE);
    target_pauses_leave(pauses);
    return next;
}

/* proves: target-pause-name */
static void names_of_one_target_are_one(void **state)
{
    static const struct {
        const char *text, *name; /* NULL: it is refused */
    } rows[] = {
        {"https://shop.example", "https://shop.example"},
        {"HTTPS://Shop.Example:443/", "https://shop.example"},
        {"http://shop.example:80", "http://shop.example"},
        {"http://shop.example:443", "http://shop.example:443"},
        {"https://[2001:DB8::1]:8443", "https://[2001:db8::1]:8443"},
        {"redis://Main", "redis://Main"},
        {"amqp://main", "amqp://main"},
        {"log:a", "log:a"},
        {"https://shop.example/pay", NULL},
        {"https://shop.example?x", NULL},
        {"https://shop.example//", NULL},
        {"https://", NULL},
        {"redis://main/stream", NULL},
        {"amqp://main/a/b", NULL},
        {"redis://", NULL},
        {"queue:mail", NULL},
        {"shop.example", NULL},
        {"", NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char room[TARGET_PAUSE_NAME_SIZE_MAX];
        struct bytes name = {0};
        struct error error;
        const enum error_code code =
            target_pause_parse_name(bytes_of(rows[i].text), room, &name, &error);

        if (code != (rows[i].name ? ERROR_NONE : ERROR_INVALID) ||
            (!code && !bytes_equal(name, bytes_of(rows[i].name))))
            fail_msg("%s: %d, %.*s", rows[i].text, code, (int)name.size, name.data);
        assert_true(!code || error.text[0]);
    }
    char longest[TARGET_PAUSE_NAME_SIZE_MAX + 2], room[TARGET_PAUSE_NAME_SIZE_MAX];
    struct bytes name;
    memset(longest, 'x', sizeof(longest));
    memcpy(longest, "log:", 4);
    assert_int_equal(
        target_pause_parse_name((struct bytes){longest, sizeof(longest)}, room, &name, NULL),
        ERROR_INVALID);
}

static const struct target_pause *pauses_test_of(const struct target_pauses *pauses,
                                                 const char *tenant, const char *text)
{
    struct target target;

    assert_int_equal(target_parse(bytes_of(text), &target, NULL), ERROR_NONE);
    return target_pauses_of(pauses, bytes_of(tenant), bytes_of(text), &target);
}

/* proves: target-pause, target-pause-name, queue-pause */
static void a_timer_finds_the_pause_of_its_target(void **state)
{
    struct target_pauses *pauses = target_pauses_create();

    (void)state;
    assert_non_null(pauses);
    assert_null(pauses_test_of(pauses, "", "https://a.example/x"));
    pauses = pauses_test_put(pauses, &(struct target_pause){.name = BYTES("https://a.example"),
                                                            .since = NOW,
                                                            .until = WALL_NEVER});
    pauses = pauses_test_put(pauses, &(struct target_pause){.tenant = BYTES("shop"),
                                                            .name = BYTES("queue:mail"),
                                                            .since = NOW,
                                                            .until = {NOW.ms + 5}});
    assert_non_null(pauses_test_of(pauses, "", "https://a.example/x?y"));
    assert_non_null(pauses_test_of(pauses, "", "HTTPS://A.Example:443"));
    assert_null(pauses_test_of(pauses, "", "http://a.example"));
    assert_null(pauses_test_of(pauses, "", "https://a.example:8443"));
    assert_null(pauses_test_of(pauses, "shop", "https://a.example/x"));
    assert_non_null(pauses_test_of(pauses, "shop", "queue:mail?priority=9"));
    assert_null(pauses_test_of(pauses, "shop", "queue:mail2"));
    assert_null(pauses_test_of(pauses, "", "queue:mail"));
    const struct target_pause *pause = pauses_test_of(pauses, "shop", "queue:mail");
    assert_true(target_pause_is_in_force(pause, (struct wall){NOW.ms + 4}));
    assert_false(target_pause_is_in_force(pause, (struct wall){NOW.ms + 5}));
    assert_false(target_pause_is_in_force(NULL, NOW));
    target_pauses_leave(pauses);
}

/* Of a flow and a target that are both paused, the pause that ends later is found. */
/* proves: explain-waiting, target-pause-until */
static void the_pause_that_ends_later_is_found(void **state)
{
    static const struct {
        uint64_t flow_ms, target_ms; /* ends of the pauses; 0: over, UINT64_MAX: none */
        const char *found;           /* NULL: no pause */
    } rows[] = {
        {9, 5, "flow:f"},          {5, 9, "https://a.example"},
        {9, 9, "flow:f"},          {5, UINT64_MAX, "https://a.example"},
        {UINT64_MAX, 5, "flow:f"}, {0, 5, "https://a.example"},
        {5, 0, "flow:f"},          {0, 0, NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct target_pauses *pauses = target_pauses_create();
        struct target_pause flow = {
            .name = BYTES("flow:f"), .since = NOW, .until = wall_add(NOW, rows[i].flow_ms)};
        struct target_pause target = {.name = BYTES("https://a.example"),
                                      .since = NOW,
                                      .until = wall_add(NOW, rows[i].target_ms)};
        const struct bytes text = BYTES("https://a.example/x");
        const struct wall before = {NOW.ms - 10}; /* a put drops what is over */
        struct target_pauses *next;
        struct target parsed;

        assert_int_equal(target_pauses_put(pauses, before, &flow, &next), ERROR_NONE);
        target_pauses_leave(pauses);
        assert_int_equal(target_pauses_put(next, before, &target, &pauses), ERROR_NONE);
        target_pauses_leave(next);
        assert_int_equal(target_parse(text, &parsed, NULL), ERROR_NONE);
        const struct target_pause *found =
            target_pauses_of_both(pauses, (struct bytes){0}, BYTES("f\n9 0 0"), text, &parsed);
        const bool is_in_force = target_pause_is_in_force(found, NOW);
        if (is_in_force != (rows[i].found != NULL) ||
            (is_in_force && !bytes_equal(found->name, bytes_of(rows[i].found))))
            fail_msg("row %zu: %.*s", i, found ? (int)found->name.size : 0,
                     found ? found->name.data : "");
        target_pauses_leave(pauses);
    }
}

/* A second pause replaces the first but for its beginning; what is over is dropped. */
static void changes_make_other_tables(void **state)
{
    struct target_pauses *pauses = target_pauses_create(), *before;
    struct target_pause pause = {.name = BYTES("queue:a"), .since = NOW, .until = WALL_NEVER};

    (void)state;
    pauses = pauses_test_put(pauses, &pause);
    before = target_pauses_hold(pauses);
    pause = (struct target_pause){.name = BYTES("queue:a"),
                                  .note = BYTES("why"),
                                  .since = {NOW.ms + 9},
                                  .until = {NOW.ms + 20}};
    pauses = pauses_test_put(pauses, &pause);
    assert_int_equal(pauses->count, 1);
    assert_true(pauses->rows[0].since.ms == NOW.ms && pauses->rows[0].until.ms == NOW.ms + 20);
    assert_true(bytes_equal(pauses->rows[0].note, BYTES("why")));
    assert_true(before->rows[0].until.ms == WALL_NEVER.ms && before->rows[0].note.size == 0);
    target_pauses_leave(before);
    struct target_pauses *next;
    pause.name = BYTES("queue:b");
    assert_int_equal(target_pauses_put(pauses, (struct wall){NOW.ms + 20}, &pause, &next),
                     ERROR_NONE);
    assert_int_equal(next->count, 1); /* the first is over */
    assert_true(bytes_equal(next->rows[0].name, BYTES("queue:b")));
    target_pauses_leave(next);
    pauses = pauses_test_remove(pauses, "", "queue:x");
    assert_int_equal(pauses->count, 1);
    pauses = pauses_test_remove(pauses, "", "queue:a");
    assert_int_equal(pauses->count, 0);
    target_pauses_leave(pauses);
}

/* proves: pauses-tenant, pauses-all */
static void limits_are_kept(void **state)
{
    struct target_pauses *pauses = target_pauses_create(), *next;
    char tenant[16], name[32];
    struct target_pause pause = {.since = NOW, .until = WALL_NEVER};

    (void)state;
    for (unsigned i = 0; i < TARGET_PAUSES_MAX; i++) {
        snprintf(tenant, sizeof(tenant), "t%u", i / TARGET_PAUSES_TENANT_MAX);
        snprintf(name, sizeof(name), "queue:q%u", i);
        pause.tenant = bytes_of(tenant);
        pause.name = bytes_of(name);
        pauses = pauses_test_put(pauses, &pause);
        pause.name = BYTES("queue:one-more");
        if ((i + 1) % TARGET_PAUSES_TENANT_MAX == 0)
            assert_int_equal(target_pauses_put(pauses, NOW, &pause, &next), ERROR_TOO_MANY);
    }
    assert_int_equal(pauses->count, TARGET_PAUSES_MAX);
    pause.tenant = BYTES("another");
    assert_int_equal(target_pauses_put(pauses, NOW, &pause, &next), ERROR_TOO_MANY);
    pause.tenant = BYTES("t0"); /* one that is there can be changed */
    pause.name = BYTES("queue:q7");
    pauses = pauses_test_put(pauses, &pause);
    struct buffer bytes;
    buffer_init(&bytes);
    target_pauses_encode(pauses, &bytes);
    assert_int_equal(target_pauses_decode(buffer_bytes(&bytes), &next), ERROR_NONE);
    assert_int_equal(next->count, TARGET_PAUSES_MAX);
    target_pauses_leave(next);
    buffer_deinit(&bytes);
    target_pauses_leave(pauses);
}

static struct target_pause pauses_test_draw(struct random *random, char name[32], char note[8])
{
    static const char *const tenants[] = {"", "a", "b-c"};
    static const char *const notes[] = {"", "n", "\xc3\xbc"};
    const unsigned number = (unsigned)random_below(random, 12);

    snprintf(name, 32, number % 2 ? "queue:q%u" : "https://h%u.example", number);
    snprintf(note, 8, "%s", notes[random_below(random, 3)]);
    return (struct target_pause){.tenant = bytes_of(tenants[random_below(random, 3)]),
                                 .name = bytes_of(name),
                                 .note = bytes_of(note),
                                 .since = {NOW.ms + random_below(random, 100)},
                                 .until = random_below(random, 2) ? (struct wall){NOW.ms + 500}
                                                                  : WALL_NEVER};
}

/* Bytes come back as the table that they were written from; fewer or other ones do not. */
static void bytes_come_back(void **state)
{
    struct random random = random_seeded(7);
    struct target_pauses *pauses = target_pauses_create();

    (void)state;
    for (unsigned i = 0; i < 400; i++) {
        char name[32], note[8];
        const struct target_pause pause = pauses_test_draw(&random, name, note);
        struct target_pauses *next;

        if (random_below(&random, 3) == 0)
            assert_int_equal(target_pauses_remove(pauses, NOW, pause.tenant, pause.name, &next),
                             ERROR_NONE);
        else
            assert_int_equal(target_pauses_put(pauses, NOW, &pause, &next), ERROR_NONE);
        target_pauses_leave(pauses);
        pauses = next;
        struct buffer bytes, again;
        buffer_init(&bytes);
        buffer_init(&again);
        target_pauses_encode(pauses, &bytes);
        assert_int_equal(target_pauses_decode(buffer_bytes(&bytes), &next), ERROR_NONE);
        target_pauses_encode(next, &again);
        assert_true(bytes_equal(buffer_bytes(&bytes), buffer_bytes(&again)));
        target_pauses_leave(next);
        struct bytes cut = {bytes.data, random_below(&random, bytes.size)};
        assert_int_equal(target_pauses_decode(cut, &next), ERROR_CORRUPT);
        bytes.data[random_below(&random, bytes.size)] ^= (char)(1u << random_below(&random, 8));
        assert_int_equal(target_pauses_decode(buffer_bytes(&bytes), &next), ERROR_CORRUPT);
        buffer_deinit(&again);
        buffer_deinit(&bytes);
    }
    target_pauses_leave(pauses);
}

/* A reader keeps the table that it took. */
static void the_board_shows_the_latest(void **state)
{
    struct target_pause_board board;
    uint64_t version;

    (void)state;
    target_pause_board_init(&board);
    assert_null(target_pause_board_take(&board, &version));
    assert_true(version == 0);
    target_pause_board_show(&board, target_pauses_create());
    struct target_pauses *first = target_pause_board_take(&board, &version);
    assert_true(version == 1 && first->count == 0);
    struct target_pauses *next;
    const struct target_pause pause = {.name = BYTES("queue:a"), .since = NOW, .until = WALL_NEVER};
    assert_int_equal(target_pauses_put(first, NOW, &pause, &next), ERROR_NONE);
    target_pause_board_show(&board, next);
    assert_int_equal(first->count, 0);
    next = target_pause_board_take(&board, &version);
    assert_true(version == 2 && next->count == 1);
    target_pauses_leave(next);
    target_pauses_leave(first);
    target_pause_board_deinit(&board);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_one_target_are_one),
        cmocka_unit_test(a_timer_finds_the_pause_of_its_target),
        cmocka_unit_test(the_pause_that_ends_later_is_found),
        cmocka_unit_test(changes_make_other_tables),
        cmocka_unit_test(limits_are_kept),
        cmocka_unit_test(bytes_come_back),
        cmocka_unit_test(the_board_shows_the_latest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
