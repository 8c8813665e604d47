/*
 * Goal: the webhooks of each tenant are signed by its own secrets, and only a tenant without any by
 * those that are shared. Method: texts of the setting; each signature is compared with that of
 * signature.h by the secret alone.
 */
#include "delivery/signatures.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define SHARED       "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
#define SHOP         "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"
#define SHOP_OLD     "whsec_GBkaGxwdHh8gISIjJCUmJygpKissLS4v"
#define PADDED       "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGA=="
#define PRIVATE      "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbc="
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct signatures *signatures_test_create(const char *text)
{
    struct signatures *signatures = NULL;
    struct error error = {0};

    if (signatures_create(text, &signatures, &error) != ERROR_NONE)
        fail_msg("%s", error.text);
    return signatures;
}

static void signatures_test_sign(struct signature *signature, struct buffer *ret_text)
{
    buffer_init(ret_text);
    assert_int_equal(signature_append(signature, BYTES("id"), 1614265330, BYTES("{}"), ret_text),
                     ERROR_NONE);
}

/* Checks that the tenant's webhooks are signed by exactly these secrets; NULL: not signed. */
static void assert_signs(const struct signatures *signatures, const char *tenant,
                         const char *secrets)
{
    struct signature *found = signatures_find(signatures, bytes_of(tenant)), *wanted;
    struct buffer text, wanted_text;

    assert_int_equal(found != NULL, secrets != NULL);
    if (!secrets)
        return;
    assert_int_equal(signature_create(secrets, &wanted, NULL), ERROR_NONE);
    signatures_test_sign(found, &text);
    signatures_test_sign(wanted, &wanted_text);
    if (!bytes_equal(buffer_bytes(&text), buffer_bytes(&wanted_text)))
        fail_msg("tenant \"%s\" is not signed by its own secrets", tenant);
    signature_destroy(wanted);
    buffer_deinit(&text);
    buffer_deinit(&wanted_text);
}

/* proves: tenant-signature */
static void test_each_tenant(void **state)
{
    struct signatures *signatures = signatures_test_create(
        " shop=" SHOP " " SHARED "\n-=" PADDED " shop=" SHOP_OLD " Shop=" PRIVATE " a=" PADDED);

    (void)state;
    assert_signs(signatures, "shop", SHOP " " SHOP_OLD);
    assert_signs(signatures, "Shop", PRIVATE);
    assert_signs(signatures, "a", PADDED);
    assert_signs(signatures, "", PADDED);
    assert_signs(signatures, "-", SHARED); /* no tenant has that name */
    assert_signs(signatures, "shopping", SHARED);
    assert_signs(signatures, "sho", SHARED);
    signatures_destroy(signatures);
    signatures = signatures_test_create("shop=" SHOP);
    assert_signs(signatures, "shop", SHOP);
    assert_signs(signatures, "rival", NULL);
    signatures_destroy(signatures);
    signatures = signatures_test_create("");
    assert_signs(signatures, "shop", NULL);
    assert_signs(signatures, "", NULL);
    signatures_destroy(signatures);
}

/* As many tenants as may have secrets, in an order that is not theirs; one more is refused. */
/* proves: signing-tenants (at), signing-tenants (beyond) */
static void test_tenants_max(void **state)
{
    struct signatures *signatures;
    struct error error = {0};
    struct buffer text;

    (void)state;
    buffer_init(&text);
    for (unsigned i = 0; i < SIGNATURES_TENANTS_MAX; i++)
        buffer_printf(&text, "t%u=whsec_%032u ", i * 37 % SIGNATURES_TENANTS_MAX,
                      i * 37 % SIGNATURES_TENANTS_MAX);
    buffer_append(&text, "", 1);
    signatures = signatures_test_create(text.data);
    for (unsigned i = 0; i < SIGNATURES_TENANTS_MAX; i++) {
        char name[20], secret[60];
        snprintf(name, sizeof(name), "t%u", i);
        snprintf(secret, sizeof(secret), "whsec_%032u", i);
        assert_signs(signatures, name, secret);
    }
    signatures_destroy(signatures);
    text.size--;
    buffer_append_text(&text, "more=" SHOP);
    buffer_append(&text, "", 1);
    assert_int_equal(signatures_create(text.data, &signatures, &error), ERROR_INVALID);
    assert_string_equal(error.text, "more than 256 tenants with secrets");
    buffer_deinit(&text);
}

static void test_bad_tenant_secrets(void **state)
{
    static const char *const bad[][2] = {
        {"shop=whsec_!", "tenant shop: secret 1 is not base64"},
        {"shop=" SHOP " shop=whsec_short", "tenant shop: secret 2 is not"},
        {"shop=" SHOP " shop=" SHOP_OLD " shop=" PADDED, "tenant shop: more than 2 secrets"},
        {"shop=whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4=", "tenant shop: secret 1 begins"},
        {"a/b=" SHOP, "not the name of a tenant"},
        {"=" SHOP, "not the name of a tenant"},
        {SHOP "=" SHOP_OLD, "not the name of a tenant"},
        {"shop:" SHOP, "secret 1 begins neither"},
        {"shop= " SHOP, "secret 1 begins neither"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct signatures *signatures = NULL;
        struct error error = {0};

        assert_int_equal(signatures_create(bad[i][0], &signatures, &error), ERROR_INVALID);
        assert_null(signatures);
        if (!strstr(error.text, bad[i][1]))
            fail_msg("\"%s\" is refused as \"%s\"", bad[i][0], error.text);
        assert_null(strstr(error.text, "AAECA"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_tenant),
        cmocka_unit_test(test_tenants_max),
        cmocka_unit_test(test_bad_tenant_secrets),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
