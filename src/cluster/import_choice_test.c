/* Goal: an import takes the whole copy that had read furthest, never a part, no copies of different
 * logs, and begins above every epoch. Method: copies by hand; and random copies of one log, of
 * which the best one is known. */
#include "cluster/import_choice.h"
#include "store/storage_model.h"

enum { CHOICE_COPIES = 4, CHOICE_RUNS = 1000 };

/* A copy of a log in which each epoch has 10 records, of node 1 or 2: all records before `next`. */
static struct import_copy choice_copy(uint64_t next)
{
    const uint64_t epoch = 1 + (next - 1) / 10;

    return (struct import_copy){.epoch = epoch,
                                .place = {.next = next,
                                          .epoch = epoch,
                                          .seq = (next - 1) % 10,
                                          .incarnation = 100 + epoch,
                                          .node = 1 + epoch % 2}};
}

static struct import_copy choice_part(uint64_t next)
{
    struct import_copy copy = choice_copy(next);

    copy.place.sweep_end = 1;
    return copy;
}

static struct import_choice choice_of(const struct import_copy *copies, size_t count)
{
    struct import_choice choice;

    import_choose(copies, count, &choice);
    return choice;
}

static void the_furthest_whole_copy(void **state)
{
    struct random random = random_seeded(testing_seed());

    (void)state;
    for (int run = 0; run < CHOICE_RUNS; run++) {
        struct import_copy copies[CHOICE_COPIES];
        size_t best = IMPORT_NO_COPY, part = IMPORT_NO_COPY;
        uint64_t epoch = 1;

        for (size_t i = 0; i < CHOICE_COPIES; i++) {
            const uint64_t kind = random_below(&random, 4), next = 1 + random_below(&random, 50);

            copies[i] = kind == 0   ? (struct import_copy){.epoch = 0}
                        : kind == 1 ? choice_part(next)
                                    : choice_copy(next);
            if (kind > 1 && (best == IMPORT_NO_COPY || next > copies[best].place.next))
                best = i;
            if (copies[i].place.epoch > epoch)
                epoch = copies[i].place.epoch;
        }
        for (size_t i = 0; i < CHOICE_COPIES && best != IMPORT_NO_COPY; i++)
            if (import_copy_kind(&copies[i]) == IMPORT_COPY_PART &&
                copies[i].place.next > copies[best].place.next)
                part = i;
        const struct import_choice choice = choice_of(copies, CHOICE_COPIES);
        assert_true(choice.taken == best && choice.further == part);
        assert_true(choice.stranger == IMPORT_NO_COPY);
        assert_true(choice.epoch > epoch || (epoch == 1 && choice.epoch == 1));
    }
}

static void parts_are_no_copies(void **state)
{
    struct import_copy copies[2] = {choice_part(20), choice_copy(20)};

    (void)state;
    copies[1].place.copy_end = 30;
    assert_int_equal(import_copy_kind(&copies[1]), IMPORT_COPY_PART);
    assert_true(choice_of(copies, 2).taken == IMPORT_NO_COPY);
    copies[1].place.copy_end = STORAGE_COPYING;
    assert_true(choice_of(copies, 2).taken == IMPORT_NO_COPY);
    copies[1] = (struct import_copy){.epoch = 0};
    assert_int_equal(import_copy_kind(&copies[1]), IMPORT_COPY_NONE);
    assert_true(choice_of(copies, 2).taken == IMPORT_NO_COPY);
    assert_true(choice_of(copies, 0).taken == IMPORT_NO_COPY);
}

/* Also one of a part, and one of a claim after which nothing was written. */
static void the_epoch_is_above_all(void **state)
{
    struct import_copy copies[3] = {choice_copy(45), choice_part(12), choice_copy(3)};

    (void)state;
    copies[1].place.epoch = 70;
    copies[2].epoch = 9; /* above that of its place, as in no log */
    assert_true(choice_of(copies, 3).taken == 0);
    assert_true(choice_of(copies, 3).epoch == 70 + IMPORT_EPOCHS_LOST);
    assert_true(choice_of(copies, 1).epoch == 5 + IMPORT_EPOCHS_LOST);
    assert_true(choice_of(&copies[2], 1).epoch == 9 + IMPORT_EPOCHS_LOST);
    copies[0] = (struct import_copy){.epoch = 6};
    assert_true(choice_of(copies, 1).epoch == 6); /* a single node has no others */
}

static void assert_strangers(struct import_copy a, struct import_copy b)
{
    const struct import_copy copies[2] = {a, b}, swapped[2] = {b, a};

    assert_true(choice_of(copies, 2).stranger != IMPORT_NO_COPY);
    assert_true(choice_of(copies, 2).stranger != choice_of(copies, 2).taken);
    assert_true(choice_of(swapped, 2).stranger != IMPORT_NO_COPY);
}

static void copies_of_different_logs(void **state)
{
    const struct import_copy single = {.epoch = 3};
    struct import_copy other = choice_copy(25);

    (void)state;
    other.place.incarnation++; /* another owner of the epoch */
    assert_strangers(choice_copy(28), other);
    assert_strangers(choice_copy(25), other);
    other = choice_copy(25);
    other.place.node++;
    assert_strangers(choice_copy(28), other);
    other = choice_copy(25);
    other.place.next = 31; /* it lies behind, and is of an earlier owner */
    assert_strangers(choice_copy(31), other);
    other.place.next = 45;
    assert_strangers(choice_copy(31), other);
    other = choice_copy(25);
    other.place.seq++; /* another record at one offset */
    assert_strangers(choice_copy(25), other);
    assert_strangers(single, single);
    assert_strangers(single, choice_copy(25));
    assert_strangers(single, choice_part(25));
    /* A folder without timers is of any. */
    const struct import_copy copies[2] = {{.epoch = 0}, single};
    assert_true(choice_of(copies, 2).taken == 1);
    assert_true(choice_of(copies, 2).stranger == IMPORT_NO_COPY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_furthest_whole_copy),
        cmocka_unit_test(parts_are_no_copies),
        cmocka_unit_test(the_epoch_is_above_all),
        cmocka_unit_test(copies_of_different_logs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
