/* Goal: nodes change their secret while they run, and no request fails. Method: peers of one
 * process, each combination of secrets on two of them, and a node with a secret that has ended. */
#include "cluster/peers_testing.h"

/* One node takes a wrong secret, and then the new one twice; the other node takes it; the cluster
 * is founded with it, and the former one ends: each request comes to its owner throughout. */
/* proves: cluster-secret */
static void test_nodes_change_their_secret(void **state)
{
    static const struct {
        const char *of_one, *of_two; /* NULL: as it is */
        bool is_founded;             /* the cluster, with the secret before */
    } steps[] = {
        {"a secret of nobody", NULL, true}, {"another secret", NULL, false},
        {"another secret", NULL, false},    {NULL, "another secret", true},
        {"another secret", NULL, true},     {NULL, "another secret", true},
        {"a third one", NULL, true},        {NULL, "a third one", true},
    };
    struct seat one, two, three;
    struct peers_world world;
    struct peers_stats stats;

    (void)state;
    world_init(&world, 2);
    seat_open(&one, &world, 1, 5000);
    seat_open(&two, &world, 2, 5000);
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        const char *const secrets[] = {steps[i].of_one, steps[i].of_two};

        for (size_t of = 0; of < 2; of++)
            if (secrets[of])
                assert_int_equal(peers_set_secret(of ? two.peers : one.peers, bytes_of(secrets[of]),
                                                  steps[i].is_founded),
                                 ERROR_NONE);
        for (uint32_t owner = 1; owner <= 2; owner++) {
            world_set_owner(&world, 1, owner);
            assert_int_equal(ask_kind(owner == 1 ? &two : &one, COMMAND_CREATE), ERROR_NONE);
        }
    }
    seat_open_as(&three, &world, 3, 100, CLUSTER, SECRET);
    world_set_owner(&world, 1, 2);
    peers_stats(two.peers, &stats);
    const uint64_t refused = stats.refused;
    do {
        assert_int_equal(ask_kind(&three, COMMAND_CREATE), ERROR_OVERLOADED);
        peers_stats(two.peers, &stats);
    } while (stats.refused == refused);
    peers_stop(one.peers);
    peers_stop(two.peers);
    peers_stop(three.peers);
    world_deinit(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_nodes_change_their_secret)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
