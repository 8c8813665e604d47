/* Goal: the number of runs is bounded, what is rewritten together is too, and rewriting ends.
 * Method: runs without files, of random sizes and times, are chosen and replaced by what copies
 * would be. */
#include "store/storage_testing.h"
#include "store/wheel/diskwheel_choose.h"

enum { CHOICE_RUNS = 4000, CHOICE_MEMORY = 1 << 20 };

#define CHOICE_NOW  UINT64_C(1800000000000)
#define CHOICE_HOUR (UINT64_C(3600) * 1000)

static const struct diskwheel_choice choice_usual = {
    .now = {CHOICE_NOW}, .retain_ms = 0, .memory = CHOICE_MEMORY, .runs_max = 512};

/* Makes a run without a file, with a row for each ten bytes. */
static struct diskwheel_run *choice_make_run(uint64_t bytes, uint64_t at_max)
{
    struct diskwheel_run *run = calloc(1, sizeof(*run) + 1);

    assert_non_null(run);
    run->file = -1;
    run->bytes = bytes;
    run->partition_count = 1;
    run->slices = calloc(1, sizeof(*run->slices));
    run->cuts = calloc(1, sizeof(*run->cuts));
    run->kept_cuts = calloc(1, sizeof(*run->kept_cuts));
    assert_true(run->slices && run->cuts && run->kept_cuts);
    run->slices[0] = (struct diskwheel_run_slice){.at_min = at_max, .at_max = at_max};
    run->slice_count = 1;
    run->tables[DISKWHEEL_TIMERS].record_count = (uint32_t)(bytes / 10);
    atomic_init(&run->references, 1);
    return run;
}

static void choice_mark(struct diskwheel_run *run, unsigned percent)
{
    struct diskwheel_run_table *rows = &run->tables[DISKWHEEL_TIMERS];

    atomic_store(&rows->marked_count, (uint32_t)((uint64_t)rows->record_count * percent / 100));
}

static struct diskwheel_view *choice_make_view(void)
{
    struct diskwheel_view *view = diskwheel_view_create(CHOICE_RUNS);

    assert_non_null(view);
    return view;
}

static void choice_add(struct diskwheel_view *view, struct diskwheel_run *run)
{
    assert_true(view->count < CHOICE_RUNS);
    view->runs[view->count++] = run;
}

static size_t choice_count(const struct diskwheel_view *view)
{
    struct diskwheel_view *chosen = diskwheel_choose(&choice_usual, view);
    const size_t count = chosen ? chosen->count : 0;

    diskwheel_view_release(chosen);
    return count;
}

static void test_classes_and_tiers(void **state)
{
    const struct wall now = {CHOICE_NOW};

    (void)state;
    assert_int_equal(diskwheel_choose_class(now, 0), 0);
    assert_int_equal(diskwheel_choose_class(now, CHOICE_NOW + CHOICE_HOUR), 0);
    assert_int_equal(diskwheel_choose_class(now, CHOICE_NOW + CHOICE_HOUR + 1), 1);
    assert_int_equal(diskwheel_choose_class(now, CHOICE_NOW + 96 * CHOICE_HOUR + 1), 2);
    assert_int_equal(diskwheel_choose_class(now, CHOICE_NOW + 2400 * CHOICE_HOUR + 1), 3);
    assert_int_equal(diskwheel_choose_class(now, UINT64_MAX), 3);
    assert_int_equal(diskwheel_choose_tier(&choice_usual, 2 * CHOICE_MEMORY), 0);
    assert_int_equal(diskwheel_choose_tier(&choice_usual, 2 * CHOICE_MEMORY - 1), 1);
    assert_int_equal(diskwheel_choose_tier(&choice_usual, CHOICE_MEMORY / 8), 1);
    assert_int_equal(diskwheel_choose_tier(&choice_usual, CHOICE_MEMORY / 8 - 1), 2);
    assert_int_equal(diskwheel_choose_tier(&choice_usual, 0), DISKWHEEL_TIERS - 1);
}

static void test_what_is_chosen(void **state)
{
    const uint64_t far = CHOICE_NOW + 10 * 24 * CHOICE_HOUR, near = CHOICE_NOW + 1;
    struct diskwheel_view *view = choice_make_view();

    (void)state;
    for (int i = 0; i < 15; i++)
        choice_add(view, choice_make_run(CHOICE_MEMORY / 4, far));
    for (int i = 0; i < 63; i++)
        choice_add(view, choice_make_run(CHOICE_MEMORY / 4, near));
    for (int i = 0; i < 200; i++) /* of the top: they stay */
        choice_add(view, choice_make_run(4 * CHOICE_MEMORY, far));
    assert_int_equal(choice_count(view), 0);
    choice_add(view, choice_make_run(CHOICE_MEMORY / 4, far));
    assert_int_equal(choice_count(view), 16);
    choice_mark(view->runs[0], 75);
    assert_int_equal(choice_count(view), 16);
    choice_mark(view->runs[0], 76);
    choice_mark(view->runs[3], 100);
    assert_int_equal(choice_count(view), 2); /* the sparse ones go first */
    choice_mark(view->runs[3], 0);
    view->runs[0]->damaged_blocks = view->runs[0]->damaged_records = 1;
    assert_int_equal(choice_count(view), 0); /* one lost a record, fifteen are left */
    view->runs[1]->stale_at = CHOICE_NOW - 1;
    assert_int_equal(choice_count(view), 1);
    diskwheel_view_release(view);
}

/* Too many runs of the top: the smallest, as far as they are eight. */
static void test_the_greatest_number(void **state)
{
    const uint64_t far = CHOICE_NOW + 10 * 24 * CHOICE_HOUR;
    struct diskwheel_view *view = choice_make_view();

    (void)state;
    for (int i = 0; i < 600; i++)
        choice_add(view, choice_make_run(4 * CHOICE_MEMORY, far));
    assert_int_equal(choice_count(view), 0); /* two fill what is rewritten at once */
    for (int i = 0; i < 8; i++)
        choice_add(view, choice_make_run(CHOICE_MEMORY / 2, far + (uint64_t)i));
    assert_int_equal(choice_count(view), 9);
    diskwheel_view_release(view);
}

/* Replaces the chosen runs by copies: one for each class, with some of the bytes. Returns false if
 * none were chosen. */
static bool choice_rewrite(struct diskwheel_view **view, struct random *random)
{
    struct diskwheel_view *chosen = diskwheel_choose(&choice_usual, *view), *next;
    uint64_t bytes[DISKWHEEL_CLASSES] = {0}, last[DISKWHEEL_CLASSES] = {0}, all = 0;

    if (!chosen)
        return false;
    assert_in_range(chosen->count, 1, 64);
    next = choice_make_view();
    for (size_t i = 0; i < chosen->count; i++) {
        struct diskwheel_run *run = chosen->runs[i];
        const uint64_t at = run->slices[0].at_max;
        const unsigned class = diskwheel_choose_class(choice_usual.now, at);
        const uint64_t live = 10 * diskwheel_choose_live(run);
        const unsigned near = (unsigned)random_below(random, class + 1);

        all += run->bytes;
        last[class] = at > last[class] ? at : last[class];
        bytes[class] += live / 2 + 10;
        if (!last[near])
            last[near] = near ? at / 2 + CHOICE_NOW / 2 : CHOICE_NOW + 1;
        bytes[near] += live / 2;
        run->is_copied = true;
    }
    assert_true(chosen->count == 1 || all <= 8 * CHOICE_MEMORY);
    for (size_t i = 0; i < (*view)->count; i++)
        if (!(*view)->runs[i]->is_copied)
            choice_add(next, diskwheel_run_hold((*view)->runs[i]));
    for (unsigned i = 0; i < DISKWHEEL_CLASSES; i++)
        if (bytes[i])
            choice_add(next, choice_make_run(bytes[i], last[i]));
    diskwheel_view_release(chosen);
    diskwheel_view_release(*view);
    *view = next;
    return true;
}

static void test_rewriting_ends_with_few_runs(void **state)
{
    struct random random = random_seeded(testing_seed());
    struct diskwheel_view *view = choice_make_view();
    size_t most = 0;

    (void)state;
    for (int turn = 0; turn < 2000; turn++) {
        size_t small = 0, rewrites = 0;

        for (uint64_t i = 1 + random_below(&random, 4); i > 0; i--)
            choice_add(view, choice_make_run(
                                 10 + random_below(&random, 1 + (CHOICE_MEMORY / 2 >>
                                                                 random_below(&random, 16))),
                                 CHOICE_NOW + 1 +
                                     (random_next(&random) >> (28 + random_below(&random, 20)))));
        choice_mark(view->runs[random_below(&random, view->count)],
                    (unsigned)random_below(&random, 101));
        while (choice_rewrite(&view, &random))
            assert_true(++rewrites < 100);
        for (size_t i = 0; i < view->count; i++)
            small += diskwheel_choose_tier(&choice_usual, view->runs[i]->bytes) > 0;
        most = small > most ? small : most;
    }
    print_message("%zu runs at the end, at most %zu below the top\n", view->count, most);
    assert_true(most <= (3 * 15 + 63) * (DISKWHEEL_TIERS - 1));
    diskwheel_view_release(view);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_classes_and_tiers),
        cmocka_unit_test(test_what_is_chosen),
        cmocka_unit_test(test_the_greatest_number),
        cmocka_unit_test(test_rewriting_ends_with_few_runs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
