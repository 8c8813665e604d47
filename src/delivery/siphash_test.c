/*
 * Goal: the hash is SipHash-2-4, for each call anew. Method: vectors of the authors' reference,
 * whose key is 00 01 .. 0f and whose text of n bytes is 00 01 .. n-1; each is computed twice.
 */
#include "delivery/siphash.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void test_siphash_vectors(void **state)
{
    static const struct {
        size_t size;
        uint64_t hash;
    } vectors[] = {{0, 0x726fdb47dd0e0e31},
                   {1, 0x74f839c593dc67fd},
                   {8, 0x93f5f5799a932462},
                   {15, 0xa129ca6149be45e5}};

    (void)state;
    uint8_t key[SIPHASH_KEY_SIZE];
    for (size_t i = 0; i < sizeof(key); i++)
        key[i] = (uint8_t)i;
    struct siphash *siphash = siphash_create(key);
    assert_non_null(siphash);
    for (size_t i = 0; i < sizeof(vectors) / sizeof(*vectors); i++) {
        struct bytes text = {(const char *)key, vectors[i].size};

        for (int time = 0; time < 2; time++) {
            uint64_t hash;

            assert_true(siphash_compute(siphash, text, &hash));
            assert_int_equal(hash, vectors[i].hash);
        }
    }
    siphash_destroy(siphash);
    siphash_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_siphash_vectors)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
