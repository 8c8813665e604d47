/*
 * Goal: a token is for its tenant and audience alone, and no token is handed out in the second half
 * of its life. Method: calls at chosen times; the claims are read back from the token.
 */
#include "delivery/token_issuer.h"

#include "base/base64.h"
#include "base/random.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define NOW    UINT64_C(1795977463)
#define LIFE_S 300

static struct token_issuer *issuer_test_create(void)
{
    char path[] = "/tmp/token_issuer_test.XXXXXX";
    EVP_PKEY *pair = EVP_EC_gen("P-256");
    FILE *file = fdopen(mkstemp(path), "w");
    struct token_issuer *issuer = NULL;

    assert_int_equal(PEM_write_PrivateKey(file, pair, NULL, NULL, 0, NULL, NULL), 1);
    fclose(file);
    const struct token_issuer_options options = {
        .issuer = "https://a.example", .keys_file = path, .life_s = LIFE_S};
    assert_int_equal(token_issuer_create(&options, &issuer, NULL), ERROR_NONE);
    unlink(path);
    EVP_PKEY_free(pair);
    return issuer;
}

/* Writes the claims of the token, without its id, as JSON. */
static void issuer_test_claims(struct bytes token, char *ret_text, size_t size)
{
    char padded[1000];
    uint8_t decoded[1000];
    size_t count = 0;

    bytes_cut(&token, '.');
    const struct bytes body = bytes_cut(&token, '.');
    for (; count < body.size; count++)
        padded[count] = body.data[count] == '-'   ? '+'
                        : body.data[count] == '_' ? '/'
                                                  : body.data[count];
    while (count % 4)
        padded[count++] = '=';
    assert_true(base64_decode((struct bytes){padded, count}, decoded, &count));
    decoded[count] = '\0';
    char *id = strstr((char *)decoded, ",\"jti\":\"");
    assert_non_null(id);
    *id = '\0';
    snprintf(ret_text, size, "%s", (char *)decoded);
}

static void assert_token(struct token_issuer *issuer, const char *tenant, const char *audience,
                         uint64_t now_s, uint64_t made_s)
{
    char claims[500], wanted[500];

    issuer_test_claims(token_issuer_find(issuer, bytes_of(tenant), bytes_of(audience), now_s),
                       claims, sizeof(claims));
    snprintf(wanted, sizeof(wanted),
             "{\"iss\":\"https://a.example\",\"sub\":\"%s\",\"aud\":\"%s\",\"iat\":%llu,"
             "\"exp\":%llu",
             *tenant ? tenant : "-", audience, (unsigned long long)made_s,
             (unsigned long long)made_s + LIFE_S);
    assert_string_equal(claims, wanted);
}

/* Also when the clock is set back, so that a receiver whose clock is right refuses no token. */
/* proves: webhook-token, webhook_token_life (at), webhook_token_life (beyond) */
static void test_half_a_life(void **state)
{
    struct token_issuer *issuer = issuer_test_create();

    (void)state;
    assert_token(issuer, "shop", "https://b.example", NOW, NOW);
    assert_token(issuer, "shop", "https://b.example", NOW + LIFE_S / 2, NOW);
    assert_token(issuer, "shop", "https://b.example", NOW + LIFE_S / 2 + 1, NOW + LIFE_S / 2 + 1);
    assert_token(issuer, "shop", "https://b.example", NOW, NOW);
    assert_token(issuer, "shop", "https://b.example", NOW - 1, NOW - 1);
    token_issuer_destroy(issuer);
}

/* Tenants and audiences in any order, more of them than tokens are kept. */
/* proves: webhook-token */
static void test_nobody_gets_the_token_of_another(void **state)
{
    struct token_issuer *issuer = issuer_test_create();
    const uint64_t seed = (uint64_t)time(NULL);
    struct random random = random_seeded(seed);

    (void)state;
    print_message("seed %llu\n", (unsigned long long)seed);
    assert_token(issuer, "", "https://b.example", NOW, NOW);
    assert_token(issuer, "a", "b", NOW, NOW);
    for (int i = 0; i < 4 * TOKEN_ISSUER_KEPT_MAX; i++) {
        char tenant[20], audience[40];
        const uint64_t which = random_below(&random, 40);

        snprintf(tenant, sizeof(tenant), "t%u", (unsigned)which);
        snprintf(audience, sizeof(audience), "https://h%u.example",
                 (unsigned)random_below(&random, 50));
        assert_token(issuer, tenant, audience, NOW, NOW);
    }
    token_issuer_destroy(issuer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_half_a_life),
        cmocka_unit_test(test_nobody_gets_the_token_of_another),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
