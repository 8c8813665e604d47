/* Goal: the tree is an ordered map. Method: random inserts and removals against a flat array, with
 * the invariants checked on the way. */
#include "store/storage_testing.h"
#include "store/testing/tree.h"

enum { KEYS = 200 };

/* Keys that meet at both halves, in order of i. */
static struct record_key tree_key_of(size_t i)
{
    return (struct record_key){i / 7 * UINT64_C(0x0101010101010101), i % 7 * (UINT64_MAX / 6)};
}

static struct tree_node *node_of(size_t i, uint64_t number)
{
    struct tree_node *node =
        tree_node_create(tree_key_of(i), (struct bytes){(char *)&number, sizeof(number)});

    assert_non_null(node);
    return node;
}

static void assert_holds(const struct tree *tree, const uint64_t *numbers, size_t count)
{
    tree_check(tree);
    assert_int_equal(tree_count(tree), count);
    size_t i = KEYS;
    uint64_t number;
    while (i-- > 0) {
        const struct tree_node *node = tree_find(tree, tree_key_of(i));
        const struct tree_node *from = tree_find_from(tree, tree_key_of(i));
        size_t next = i;

        assert_true((node != NULL) == (numbers[i] != 0));
        if (node) {
            assert_int_equal(tree_node_value(node).size, sizeof(number));
            memcpy(&number, tree_node_value(node).data, sizeof(number));
            assert_true(number == numbers[i]);
        }
        while (next < KEYS && !numbers[next])
            next++;
        assert_ptr_equal(from, next < KEYS ? tree_find(tree, tree_key_of(next)) : NULL);
    }
}

static void test_random(void **state)
{
    struct random random = random_seeded(testing_seed());

    (void)state;
    struct tree tree;
    tree_init(&tree);
    uint64_t numbers[KEYS] = {0};
    size_t count = 0;
    for (uint64_t step = 1; step <= 20000; step++) {
        size_t i = (size_t)random_below(&random, KEYS);
        /* Tides: mostly inserts for a while, then mostly removals. */
        bool is_insert = random_below(&random, 10) < (step / 1000 % 2 ? 2u : 8u);
        struct tree_node *old =
            is_insert ? tree_insert(&tree, node_of(i, step)) : tree_remove(&tree, tree_key_of(i));

        assert_true((old != NULL) == (numbers[i] != 0));
        count += is_insert;
        count -= old != NULL;
        numbers[i] = is_insert ? step : 0;
        free(old);
        if (step % 50 == 0)
            assert_holds(&tree, numbers, count);
    }
    tree_deinit(&tree);
    assert_int_equal(tree_count(&tree), 0);
}

/* In order, against order and from both ends the depth stays near the logarithm. */
static size_t depth_of(const struct tree_node *node)
{
    size_t left = node ? depth_of(node->left_) : 0, right = node ? depth_of(node->right_) : 0;

    return node ? 1 + (left > right ? left : right) : 0;
}

static void test_balance(void **state)
{
    enum { COUNT = 100000 };

    (void)state;
    for (int way = 0; way < 3; way++) {
        struct tree tree;

        tree_init(&tree);
        for (uint64_t i = 0; i < COUNT; i++) {
            uint64_t n = way == 0 ? i : way == 1 ? COUNT - i : i % 2 ? i : COUNT - i;

            free(tree_insert(&tree, tree_node_create((struct record_key){n, 1}, BYTES("x"))));
        }
        assert_true(depth_of(tree.root_) < 60); /* 17 at best, about 40 expected */
        tree_check(&tree);
        tree_deinit(&tree);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_balance),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
