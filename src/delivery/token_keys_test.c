/* Goal: at each instant of a rotation one key signs, which receivers could read before, and each
 * key is shown while a token by it may be valid. Method: rotations at chosen times. A random run is
 * compared with a model that remembers who signed when. */
#include "delivery/token_keys.h"

#include "base/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#define K1   "k1=AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
#define K2   "k2=AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA="
#define NOW  UINT64_C(1795977463000)
#define LIFE UINT64_C(300000)
#define HOUR UINT64_C(3600000)

struct rig {
    struct definition_board board;
    struct vault *vault;
    struct buffer value; /* definition as it is now */
};

static void rig_show(struct rig *rig)
{
    struct definitions *none = definitions_create(), *with;
    char room[DEFINITION_KEY_SIZE_MAX];
    const struct definition row = {
        .key = token_keys_row_key(room), .value = buffer_bytes(&rig->value), .version = 1};

    assert_int_equal(definitions_put(none, &row, &with), ERROR_NONE);
    definitions_leave(none);
    definition_board_show(&rig->board, with);
}

static void rig_init(struct rig *rig, const char *keys)
{
    *rig = (struct rig){.vault = NULL};
    definition_board_init(&rig->board);
    assert_int_equal(vault_create(keys, &rig->board, &rig->vault, NULL), ERROR_NONE);
}

static void rig_deinit(struct rig *rig)
{
    vault_destroy(rig->vault);
    definition_board_deinit(&rig->board);
    buffer_deinit(&rig->value);
}

static enum error_code rig_rotate(struct rig *rig, uint64_t now, uint64_t overlap_ms)
{
    const struct token_keys_rotation rotation = {
        .algorithm = JWT_ES256, .now = {now}, .overlap_ms = overlap_ms, .life_ms = LIFE};
    struct buffer next;
    struct error error;

    buffer_init(&next);
    const enum error_code code =
        token_keys_rotate(rig->vault, buffer_bytes(&rig->value), &rotation, &next, &error);
    if (code) {
        buffer_deinit(&next);
        return code;
    }
    buffer_deinit(&rig->value);
    rig->value = next;
    rig_show(rig);
    return ERROR_NONE;
}

/* Writes the name of the key that signs. */
static const char *rig_signer(const struct rig *rig, uint64_t now, char ret_name[64])
{
    struct token_key key;

    assert_true(token_keys_signer(buffer_bytes(&rig->value), (struct wall){now}, &key));
    snprintf(ret_name, 64, "%.*s", (int)key.name.size, key.name.data);
    return ret_name;
}

static bool rig_shows(const struct rig *rig, uint64_t now, const char *name)
{
    struct buffer set;

    buffer_init(&set);
    token_keys_append_set(rig->vault, (struct wall){now}, &set);
    const bool is_shown = memmem(set.data, set.size, name, strlen(name)) != NULL;
    buffer_deinit(&set);
    return is_shown;
}

/* proves: token-keys-rotate */
static void test_one_key_follows_the_other(void **state)
{
    char first[64], second[64], third[64], now[64];
    struct rig rig;

    (void)state;
    rig_init(&rig, K1);
    assert_int_equal(rig_rotate(&rig, NOW, HOUR), ERROR_NONE); /* the first one need not wait */
    rig_signer(&rig, NOW, first);
    assert_int_equal(rig_rotate(&rig, NOW + 1000, HOUR), ERROR_NONE);
    rig_signer(&rig, NOW + 1000 + HOUR, second);
    assert_string_not_equal(first, second);
    assert_string_equal(rig_signer(&rig, NOW + 1000 + HOUR - 1, now), first);
    assert_true(rig_shows(&rig, NOW + 1000, second));
    const uint64_t over = NOW + 1000 + HOUR + LIFE + TOKEN_KEYS_MARGIN_MS;
    assert_true(rig_shows(&rig, over - 1, first));
    assert_false(rig_shows(&rig, over, first));
    assert_string_equal(rig_signer(&rig, 0, now), first); /* a clock that was set back */

    /* one that waits is replaced, unless it would sign before the new one */
    assert_int_equal(rig_rotate(&rig, NOW + 2000, 2 * HOUR), ERROR_NONE);
    assert_string_equal(rig_signer(&rig, NOW + 2000 + HOUR, now), second);
    rig_signer(&rig, NOW + 2000 + 2 * HOUR, third);
    assert_true(rig_shows(&rig, NOW, third));
    assert_int_equal(rig_rotate(&rig, NOW + 3000, 0), ERROR_NONE);
    assert_false(rig_shows(&rig, NOW + 3000, second));
    assert_false(rig_shows(&rig, NOW + 3000, third));
    assert_true(rig_shows(&rig, NOW + 3000, first));
    assert_string_equal(rig_signer(&rig, over + HOUR, now), rig_signer(&rig, NOW + 3000, third));
    rig_deinit(&rig);
}

/* proves: token-keys-rotate, token-keys (at), token-keys (beyond) */
static void test_no_token_without_its_key(void **state)
{
    enum { SIGNED_MAX = 4000 };
    static struct {
        char name[64];
        uint64_t until;
    } made[SIGNED_MAX];
    const uint64_t seed = (uint64_t)time(NULL);
    struct random random = random_seeded(seed);
    uint64_t now = NOW;
    struct rig rig;

    (void)state;
    print_message("seed %llu\n", (unsigned long long)seed);
    rig_init(&rig, K1);
    assert_int_equal(rig_rotate(&rig, now, 0), ERROR_NONE);
    for (size_t i = 0; i < SIGNED_MAX; i++) {
        now += random_below(&random, LIFE / 4);
        rig_signer(&rig, now, made[i].name);
        made[i].until = now + LIFE;
        for (size_t k = 0; k <= i; k++)
            if (now < made[k].until)
                assert_true(rig_shows(&rig, now, made[k].name));
        if (random_below(&random, 20) == 0) {
            const enum error_code code = rig_rotate(&rig, now, random_below(&random, HOUR));
            assert_true(!code || code == ERROR_TOO_MANY);
        }
    }
    rig_deinit(&rig);
}

/* proves: token-keys-own, secrets-reseal */
static void test_private_parts_are_sealed(void **state)
{
    struct jwt_keys *keys;
    struct buffer next;
    struct error error;
    bool has_changed;
    struct rig rig;

    (void)state;
    rig_init(&rig, "");
    assert_int_equal(token_keys_open(rig.vault, (struct wall){NOW}, BYTES(""), &keys, &error),
                     ERROR_INVALID);
    assert_int_equal(rig_rotate(&rig, NOW, 0), ERROR_INVALID);
    assert_int_equal(vault_reload(rig.vault, K1, NULL), ERROR_NONE);
    assert_int_equal(rig_rotate(&rig, NOW, 0), ERROR_NONE);
    assert_null(memmem(rig.value.data, rig.value.size, "PRIVATE", 7));
    assert_int_equal(token_keys_open(rig.vault, (struct wall){NOW}, BYTES(""), &keys, &error),
                     ERROR_NONE);
    const struct bytes name = jwt_keys_name(keys);
    struct jwt_keys *again = keys;
    assert_int_equal(token_keys_open(rig.vault, (struct wall){NOW}, name, &again, &error),
                     ERROR_NONE);
    assert_null(again);
    char text[64];
    assert_true(rig_shows(&rig, NOW, rig_signer(&rig, NOW, text)));
    jwt_keys_destroy(keys);

    assert_int_equal(vault_reload(rig.vault, K2, NULL), ERROR_NONE);
    assert_false(token_keys_are_open(rig.vault, &error));
    assert_non_null(strstr(error.text, "k1"));
    assert_int_equal(vault_reload(rig.vault, K2 " " K1, NULL), ERROR_NONE);
    buffer_init(&next);
    for (int round = 0; round < 2; round++) {
        buffer_clear(&next);
        assert_int_equal(
            token_keys_reseal(rig.vault, buffer_bytes(&rig.value), &next, &has_changed, &error),
            ERROR_NONE);
        assert_int_equal(has_changed, round == 0);
        buffer_clear(&rig.value);
        buffer_append_bytes(&rig.value, buffer_bytes(&next));
    }
    rig_show(&rig);
    assert_int_equal(vault_reload(rig.vault, K2, NULL), ERROR_NONE);
    assert_true(token_keys_are_open(rig.vault, &error));

    /* a private part under the name of another key does not open */
    rig.value.data[0] = rig.value.data[0] == 'x' ? 'y' : 'x';
    rig_show(&rig);
    assert_false(token_keys_are_open(rig.vault, &error));
    buffer_deinit(&next);
    rig_deinit(&rig);
}

/* No text makes the reader go wrong. */
static void test_damaged_definitions(void **state)
{
    const uint64_t seed = (uint64_t)time(NULL);
    struct random random = random_seeded(seed);
    struct rig rig;

    (void)state;
    print_message("seed %llu\n", (unsigned long long)seed);
    rig_init(&rig, K1);
    assert_int_equal(rig_rotate(&rig, NOW, 0), ERROR_NONE);
    assert_int_equal(rig_rotate(&rig, NOW, HOUR), ERROR_NONE);
    for (int i = 0; i < 3000; i++) {
        const struct bytes whole = buffer_bytes(&rig.value);
        char *copy = malloc(whole.size);
        struct bytes rest = {copy, random_below(&random, whole.size + 1)};
        struct token_key key;

        memcpy(copy, whole.data, whole.size);
        copy[random_below(&random, whole.size)] = (char)random_below(&random, 256);
        for (size_t count = 0; token_keys_next(&rest, &key); count++)
            assert_true(count < 3);
        free(copy);
    }
    rig_deinit(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_key_follows_the_other),
        cmocka_unit_test(test_no_token_without_its_key),
        cmocka_unit_test(test_private_parts_are_sealed),
        cmocka_unit_test(test_damaged_definitions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
