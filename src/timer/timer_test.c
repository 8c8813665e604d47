/* Goal: an id is one text and a text at most one id; a copy is whole and in one piece. Method:
 * edges and random ids, every single change of a valid text, and texts held against their sources.
 */
#include "timer/timer_testing.h"

static void assert_round_trip(struct timer_id id)
{
    char text[TIMER_ID_TEXT_SIZE];

    memset(text, 'x', sizeof(text));
    timer_id_format(&id, text);
    assert_int_equal(strlen(text), 26);
    assert_int_equal(strspn(text, "0123456789abcdefghijklmnopqrstuv"), 26);
    struct timer_id parsed;
    assert_int_equal(timer_id_parse(bytes_of(text), &parsed), ERROR_NONE);
    assert_true(timer_id_equal(&id, &parsed));
}

static struct timer_id random_id(struct random *random)
{
    uint64_t at = random_next(random) >> 16, serial = random_next(random);

    return (struct timer_id){{at >> random_below(random, 48)},
                             (uint16_t)random_next(random),
                             serial >> random_below(random, 64)};
}

static void test_id_vectors(void **state)
{
    static const struct {
        struct timer_id id;
        const char *text;
    } vectors[] = {
        {{{0}, 0, 0}, "00000000000000000000000000"},
        {{{UINT64_C(0xffffffffffff)}, 0xffff, UINT64_MAX}, "vvvvvvvvvvvvvvvvvvvvvvvvvs"},
        {{{1}, 0, 0}, "00000000040000000000000000"},
        {{{0}, 1, 0}, "00000000000020000000000000"},
        {{{0}, 0, 1}, "00000000000000000000000004"},
        {{{0}, 0, UINT64_C(1) << 63}, "00000000000010000000000000"},
        {{{1700000000000}, 5, TIMER_SERIAL(3, 7)}, "065svpb80000a0000c0000000s"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
        char text[TIMER_ID_TEXT_SIZE];
        timer_id_format(&vectors[i].id, text);
        assert_string_equal(text, vectors[i].text);
        assert_round_trip(vectors[i].id);
    }
}

static void test_id_random(void **state)
{
    struct random random = random_seeded(testing_seed());

    (void)state;
    for (int i = 0; i < 100000; i++)
        assert_round_trip(random_id(&random));
}

static int compare_ids(const struct timer_id *a, const struct timer_id *b)
{
    if (a->first.ms != b->first.ms)
        return a->first.ms < b->first.ms ? -1 : 1;
    if (a->partition != b->partition)
        return a->partition < b->partition ? -1 : 1;
    return a->serial < b->serial ? -1 : a->serial > b->serial;
}

/* proves: timer-id */
static void test_id_order(void **state)
{
    struct random random = random_seeded(testing_seed());

    (void)state;
    for (int i = 0; i < 100000; i++) {
        struct timer_id a = random_id(&random), b = random_id(&random);

        if (i % 2)
            b.first = a.first;
        if (i % 4 == 3)
            b.partition = a.partition;
        char left[TIMER_ID_TEXT_SIZE];
        timer_id_format(&a, left);
        char right[TIMER_ID_TEXT_SIZE];
        timer_id_format(&b, right);
        int order = strcmp(left, right);
        assert_int_equal((order > 0) - (order < 0), compare_ids(&a, &b));
    }
}

/* A text with one character changed is another id, or none: never the same and never a crash. */
/* proves: timer-id */
static void test_id_strict(void **state)
{
    const struct timer_id id = {{1700000000000}, 513, UINT64_C(0x0123456789abcdef)};
    struct timer_id parsed = {{1}, 2, 3};

    (void)state;
    char text[TIMER_ID_TEXT_SIZE];
    timer_id_format(&id, text);
    char changed[30];
    for (size_t size = 0; size < 30; size++) {
        memset(changed, '0', sizeof(changed));
        if (size != 26)
            assert_int_equal(timer_id_parse((struct bytes){changed, size}, &parsed),
                             ERROR_NOT_FOUND);
    }
    assert_int_equal(timer_id_parse((struct bytes){0}, &parsed), ERROR_NOT_FOUND);
    assert_true(parsed.serial == 3); /* untouched */
    size_t valid = 0;
    for (size_t i = 0; i < 26; i++)
        for (int c = 0; c < 256; c++) {
            memcpy(changed, text, 26);
            changed[i] = (char)c;
            if (changed[i] == text[i])
                continue;
            if (timer_id_parse((struct bytes){changed, 26}, &parsed) == ERROR_NONE) {
                char again[TIMER_ID_TEXT_SIZE];

                timer_id_format(&parsed, again);
                assert_memory_equal(again, changed, 26);
                valid++;
            }
        }
    assert_int_equal(valid, 25 * 31 + 7); /* of the last one only three bits may differ */
}

/* proves: timer-state */
static void test_states(void **state)
{
    (void)state;
    assert_string_equal(timer_state_text(TIMER_SCHEDULED), "scheduled");
    assert_string_equal(timer_state_text(TIMER_DELIVERING), "delivering");
    assert_string_equal(timer_state_text(TIMER_RETRYING), "retrying");
    assert_string_equal(timer_state_text(TIMER_FIRED), "fired");
    assert_string_equal(timer_state_text(TIMER_CANCELLED), "cancelled");
    assert_string_equal(timer_state_text(TIMER_DEAD), "dead");
    assert_false(timer_is_final(TIMER_SCHEDULED) || timer_is_final(TIMER_DELIVERING) ||
                 timer_is_final(TIMER_RETRYING));
    assert_true(timer_is_final(TIMER_FIRED) && timer_is_final(TIMER_CANCELLED) &&
                timer_is_final(TIMER_DEAD));
}

static void test_alloc(void **state)
{
    const struct timer_texts none = {0};
    const struct timer_texts some = {.target = BYTES("http://x/"), .headers = BYTES("a: b\n")};
    struct timer *timer = timer_alloc(&none), *larger = timer_alloc(&some);

    (void)state;
    assert_non_null(timer);
    assert_non_null(larger);
    assert_int_equal(timer->version, 1);
    assert_int_equal(timer->retry.attempts_max, 10);
    assert_true(timer->retry.cap_ms == 3600000 && timer->retry.timeout_ms == 15000);
    assert_int_equal(timer->state, TIMER_SCHEDULED);
    assert_true(timer->id.serial == 0 && timer->at.ms == 0 && !timer->next);
    assert_true(timer->texts.target.data == NULL && timer->texts.target.size == 0);
    assert_true(timer->footprint >= sizeof(*timer) && timer->footprint <= sizeof(*timer) + 32);
    assert_true(larger->footprint >= sizeof(*timer) + 14 &&
                larger->footprint <= sizeof(*timer) + 48);
    assert_true(bytes_equal(larger->texts.target, some.target));
    assert_true(bytes_equal(larger->texts.headers, some.headers));
    assert_ptr_not_equal(larger->texts.target.data, some.target.data);
    timer_free(timer);
    timer_free(larger);
    timer_free(NULL);
}

static void test_copy(void **state)
{
    struct timer *timer = testing_timer(3, 9, 1000);
    struct timer_texts texts = timer->texts;

    (void)state;
    timer->version = 8;
    timer->attempts = 2;
    timer->state = TIMER_RETRYING;
    timer->retry.base_ms = 5;
    timer->next = timer;
    struct timer *same = timer_copy(timer, &timer->texts);
    texts.payload = BYTES("{}");
    texts.last_error = BYTES("503");
    struct timer *other = timer_copy(timer, &texts);
    assert_non_null(same);
    assert_non_null(other);
    assert_true(other->footprint <= same->footprint);
    timer_free(timer); /* neither borrows from it */
    assert_true(bytes_equal(same->texts.payload, BYTES("{\"n\":9}")));
    assert_true(bytes_equal(other->texts.payload, BYTES("{}")));
    assert_true(bytes_equal(other->texts.last_error, BYTES("503")));
    assert_true(bytes_equal(other->texts.labels, same->texts.labels));
    assert_true(same->version == 8 && same->attempts == 2 && same->state == TIMER_RETRYING);
    assert_true(same->retry.base_ms == 5 && same->id.partition == 3);
    assert_true(!same->next);
    timer_free(same);
    timer_free(other);
}

/* A timer carries its target parsed; a text that is none is a timer still, which says so. */
static void test_target_of_timer(void **state)
{
    struct timer_texts texts = {.target = BYTES("https://a:1/b")};
    struct timer *timer = timer_alloc(&texts);

    (void)state;
    assert_int_equal(timer->target.kind, TARGET_HTTPS);
    assert_true(bytes_equal(timer_target_name(timer), BYTES("a")));
    assert_true(bytes_equal(timer_target_origin(timer), BYTES("https://a:1")));
    assert_false(timer_is_pulled(timer));
    texts = timer->texts;
    texts.last_error = BYTES("500");
    struct timer *copy = timer_copy(timer, &texts);
    assert_int_equal(copy->target.kind, TARGET_HTTPS);
    assert_ptr_equal(timer_target_name(copy).data, copy->texts.target.data + 8);
    timer_free(copy);
    texts.target = BYTES("queue:mail?priority=7");
    copy = timer_copy(timer, &texts);
    assert_true(timer_is_pulled(copy));
    assert_int_equal(copy->target.priority, 7);
    timer_free(copy);
    texts.target = BYTES("gopher://a/b");
    copy = timer_copy(timer, &texts);
    assert_int_equal(copy->target.kind, TARGET_UNKNOWN);
    assert_true(bytes_equal(timer_target_origin(copy), BYTES("gopher://a/b")));
    assert_false(timer_is_pulled(copy));
    timer_free(copy);
    timer_free(timer);
}

/* A view of a record has its text only: the copy has it parsed. */
static void test_target_of_view(void **state)
{
    const struct timer view = {.texts.target = BYTES("redis://c/s")};
    struct timer *timer = timer_copy(&view, &view.texts);

    (void)state;
    assert_int_equal(timer->target.kind, TARGET_REDIS);
    assert_true(bytes_equal(timer_target_origin(timer), BYTES("redis://c")));
    timer_free(timer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_id_vectors),     cmocka_unit_test(test_id_random),
        cmocka_unit_test(test_id_order),       cmocka_unit_test(test_id_strict),
        cmocka_unit_test(test_states),         cmocka_unit_test(test_alloc),
        cmocka_unit_test(test_copy),           cmocka_unit_test(test_target_of_timer),
        cmocka_unit_test(test_target_of_view),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
