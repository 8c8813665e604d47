/* Goal: every operation leaves a list that reads the same from both ends. Method: each verb on
 * small lists, then random operations on three lists against arrays. */
#include "base/list.h"
#include "base/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

struct list_test_item {
    int number;
    struct list link;
};

/* The items of `list` are exactly these, from either end. */
static void assert_items(struct list *list, const int *numbers, size_t count)
{
    struct list *at = list;
    size_t i = 0;

    LIST_FOR_EACH (list, link) {
        assert_true(i < count);
        assert_int_equal(list_item(link, struct list_test_item, link)->number, numbers[i]);
        i++;
    }
    assert_int_equal(i, count);
    while (i-- > 0) {
        at = at->prev;
        assert_int_equal(list_item(at, struct list_test_item, link)->number, numbers[i]);
    }
    assert_ptr_equal(at->prev, list);
    assert_int_equal(list_is_empty(list), count == 0);
}

static void test_verbs(void **state)
{
    struct list_test_item items[4] = {{.number = 0}, {.number = 1}, {.number = 2}, {.number = 3}};

    (void)state;
    struct list list;
    list_init(&list);
    struct list other;
    list_init(&other);
    assert_items(&list, NULL, 0);
    assert_null(list_pop(&list));
    list_push(&list, &items[1].link);
    list_push(&list, &items[2].link);
    list_push_front(&list, &items[0].link);
    assert_items(&list, (const int[]){0, 1, 2}, 3);
    list_remove(&items[1].link);
    list_remove(&items[1].link); /* on none: harmless */
    assert_items(&list, (const int[]){0, 2}, 2);
    list_push(&other, &items[1].link);
    list_push(&other, &items[3].link);
    list_join(&list, &other);
    assert_items(&list, (const int[]){0, 2, 1, 3}, 4);
    assert_items(&other, NULL, 0);
    list_join(&list, &other);
    assert_items(&list, (const int[]){0, 2, 1, 3}, 4);
    list_join(&other, &list);
    assert_items(&other, (const int[]){0, 2, 1, 3}, 4);
    assert_ptr_equal(list_pop(&other), &items[0].link);
    assert_items(&other, (const int[]){2, 1, 3}, 3);
}

static void test_remove_while_walking(void **state)
{
    (void)state;
    struct list list;
    list_init(&list);
    struct list_test_item items[10];
    for (int i = 0; i < 10; i++) {
        items[i].number = i;
        list_push(&list, &items[i].link);
    }
    LIST_FOR_EACH (&list, link) {
        struct list_test_item *item = list_item(link, struct list_test_item, link);

        if (item->number % 2 == 0) {
            list_remove(link);
            memset(item, 0xff, sizeof(*item)); /* as if it were freed */
        }
    }
    assert_items(&list, (const int[]){1, 3, 5, 7, 9}, 5);
}

enum { LISTS = 3, ITEMS = 20 };

static void model_remove(int model[LISTS][ITEMS], size_t counts[LISTS], int number)
{
    for (size_t l = 0; l < LISTS; l++)
        for (size_t i = 0; i < counts[l]; i++)
            if (model[l][i] == number) {
                memmove(&model[l][i], &model[l][i + 1], (counts[l] - i - 1) * sizeof(int));
                counts[l]--;
                return;
            }
}

static void test_list_random(void **state)
{
    struct random random = random_seeded(4);

    (void)state;
    struct list lists[LISTS];
    for (size_t l = 0; l < LISTS; l++)
        list_init(&lists[l]);
    struct list_test_item items[ITEMS];
    for (int i = 0; i < ITEMS; i++) {
        items[i].number = i;
        list_init(&items[i].link);
    }
    int model[LISTS][ITEMS];
    size_t counts[LISTS] = {0};
    for (int step = 0; step < 20000; step++) {
        size_t l = (size_t)random_below(&random, LISTS), m = (l + 1) % LISTS;
        int i = (int)random_below(&random, ITEMS);

        switch (random_below(&random, 5)) {
        case 0:
        case 1:
            list_remove(&items[i].link);
            list_push(&lists[l], &items[i].link);
            model_remove(model, counts, i);
            model[l][counts[l]++] = i;
            break;
        case 2:
            list_remove(&items[i].link);
            list_push_front(&lists[l], &items[i].link);
            model_remove(model, counts, i);
            memmove(&model[l][1], &model[l][0], counts[l]++ * sizeof(int));
            model[l][0] = i;
            break;
        case 3:
            if (list_pop(&lists[l]))
                model_remove(model, counts, model[l][0]);
            break;
        case 4:
            list_join(&lists[l], &lists[m]);
            memcpy(&model[l][counts[l]], model[m], counts[m] * sizeof(int));
            counts[l] += counts[m];
            counts[m] = 0;
            break;
        }
        for (l = 0; l < LISTS; l++)
            assert_items(&lists[l], model[l], counts[l]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_verbs),
        cmocka_unit_test(test_remove_while_walking),
        cmocka_unit_test(test_list_random),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
