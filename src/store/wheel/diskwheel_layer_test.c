/* Goal: a layer is an ordered map in which the newest change of a key counts. Method: random and
 * rising keys, against the treap of tree.h. */
#include "store/storage_testing.h"
#include "store/testing/tree.h"
#include "store/wheel/diskwheel_layer.h"

static struct record_key layer_random_key(struct random *random, unsigned kind, uint64_t count)
{
    if (kind == 0) /* rising */
        return (struct record_key){1, count};
    if (kind == 1) /* falling */
        return (struct record_key){1, UINT64_MAX - count};
    return (struct record_key){random_below(random, 40), random_below(random, 300)};
}

static void layer_assert_same(const struct diskwheel_layer *layer, const struct tree *tree,
                              struct record_key from)
{
    struct diskwheel_walk walk = diskwheel_layer_from(layer, DISKWHEEL_NAMES, from);
    struct tree_node *node;
    struct record_key key;
    struct diskwheel_entry *entry;

    while ((node = tree_find_from(tree, from))) {
        assert_true(diskwheel_walk_next(&walk, &key, &entry));
        assert_true(record_key_equal(key, node->key));
        assert_true(bytes_equal(diskwheel_entry_value(entry), tree_node_value(node)));
        from = record_key_after(node->key);
    }
    assert_false(diskwheel_walk_next(&walk, &key, &entry));
}

static void test_against_a_treap(void **state)
{
    struct random random = random_seeded(testing_seed());

    (void)state;
    for (unsigned kind = 0; kind < 3; kind++) {
        struct diskwheel_layer layer;
        struct tree tree;

        diskwheel_layer_init(&layer);
        tree_init(&tree);
        for (uint64_t i = 0; i < 20000; i++) {
            const struct record_key key = layer_random_key(&random, kind, i);
            char room[40] = {0};
            const struct bytes value = {room, 1 + (size_t)random_below(&random, sizeof(room))};

            put_le(room, i, sizeof(i));
            assert_true(
                diskwheel_layer_put(&layer, DISKWHEEL_NAMES, key, DISKWHEEL_PUT, false, value));
            free(tree_insert(&tree, tree_node_create(key, value)));
            assert_int_equal(layer.trees[DISKWHEEL_NAMES].count, tree_count(&tree));
            assert_true(bytes_equal(
                diskwheel_entry_value(diskwheel_layer_find(&layer, DISKWHEEL_NAMES, key)), value));
            if (i % 1000 == 0)
                layer_assert_same(&layer, &tree,
                                  layer_random_key(&random, kind, random_below(&random, i + 1)));
        }
        layer_assert_same(&layer, &tree, (struct record_key){0, 0});
        assert_null(
            diskwheel_layer_find(&layer, DISKWHEEL_NAMES, (struct record_key){7, UINT64_MAX / 2}));
        assert_null(diskwheel_layer_find(&layer, DISKWHEEL_TIMERS, (struct record_key){1, 1}));
        diskwheel_layer_deinit(&layer);
        tree_deinit(&tree);
    }
}

/* A record that no run has stays new, whatever follows, and its end needs no search. */
static void test_what_is_new_stays_new(void **state)
{
    const struct record_key key = {1, 1};
    struct diskwheel_layer layer;

    (void)state;
    diskwheel_layer_init(&layer);
    assert_true(
        diskwheel_layer_put(&layer, DISKWHEEL_TIMERS, key, DISKWHEEL_PUT, true, BYTES("a")));
    assert_true(
        diskwheel_layer_put(&layer, DISKWHEEL_TIMERS, key, DISKWHEEL_PUT, false, BYTES("b")));
    assert_true(diskwheel_layer_find(&layer, DISKWHEEL_TIMERS, key)->is_new);
    assert_true(diskwheel_layer_put(&layer, DISKWHEEL_TIMERS, key, DISKWHEEL_GONE, false,
                                    (struct bytes){0}));
    assert_int_equal(diskwheel_layer_find(&layer, DISKWHEEL_TIMERS, key)->change, DISKWHEEL_NONE);
    assert_true(diskwheel_layer_put(&layer, DISKWHEEL_TIMERS, (struct record_key){1, 2},
                                    DISKWHEEL_GONE, false, (struct bytes){0}));
    assert_int_equal(
        diskwheel_layer_find(&layer, DISKWHEEL_TIMERS, (struct record_key){1, 2})->change,
        DISKWHEEL_GONE);
    diskwheel_layer_deinit(&layer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_a_treap),
        cmocka_unit_test(test_what_is_new_stays_new),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
