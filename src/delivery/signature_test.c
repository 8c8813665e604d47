/*
 * Goal: a receiver that follows Standard Webhooks verifies what we sign, and nothing else passes as
 * a secret. Method: the specification's published vector; OpenSSL's one-call HMAC as a second
 * opinion on random messages; a table of bad secrets.
 */
#include "delivery/signature.h"

#include "base/base64.h"
#include "base/random.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include <cmocka.h>

#define SECRET "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
#define ID     "msg_p5jXN8AQM9LWM0D4loKWxJek"
#define TIME_S 1614265330
#define BODY   "{\"test\": 2432232314}"
#define WANTED "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
/* The same message under a private key; key and signature are those of the tests of Svix's server,
 * from which the standard has its example. */
#define PRIVATE                                                                        \
    "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9" \
    "lMicMFs6Kvg=="
#define SEED "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbc="
#define PRIVATE_WANTED                                                                    \
    "v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM" \
    "+m7TBAg=="
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct signature *signature_test_create(const char *secrets)
{
    struct signature *signature = NULL;
    struct error error = {0};

    if (signature_create(secrets, &signature, &error) != ERROR_NONE)
        fail_msg("%s", error.text);
    return signature;
}

static void sign(struct signature *signature, const char *id, uint64_t timestamp_s,
                 struct bytes body, char *ret_text, size_t size)
{
    struct buffer out;

    buffer_init(&out);
    assert_int_equal(signature_append(signature, bytes_of(id), timestamp_s, body, &out),
                     ERROR_NONE);
    assert_false(buffer_failed(&out));
    assert_true(out.size <= SIGNATURE_TEXT_SIZE_MAX && out.size < size);
    snprintf(ret_text, size, "%.*s", (int)out.size, out.data);
    buffer_deinit(&out);
}

/* proves: webhook-signature */
static void test_published_vector(void **state)
{
    struct signature *signature = signature_test_create(SECRET);

    (void)state;
    for (int i = 0; i < 3; i++) { /* the context is used again */
        char text[200];
        sign(signature, ID, TIME_S, BYTES(BODY), text, sizeof(text));
        assert_string_equal(text, WANTED);
        sign(signature, ID, TIME_S + 1, BYTES(BODY), text, sizeof(text));
        assert_string_not_equal(text, WANTED);
    }
    signature_destroy(signature);
}

/* Two secrets give both signatures, in the order of the secrets. The second one is of the same
 * example under the other secret; made by Python's hmac and base64. */
/* proves: webhook-signature, secret-count (at) */
static void test_two_secrets(void **state)
{
    const char *other = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX";
    const char *alone = "v1,/485aUtxlie+TIScVpHggMfqOB4so2KWb7+Gf727B44=";

    (void)state;
    char both[120];
    snprintf(both, sizeof(both), "  %s\n%s ", SECRET, other);
    struct signature *signature = signature_test_create(both);
    char text[200];
    sign(signature, ID, TIME_S, BYTES(BODY), text, sizeof(text));
    signature_destroy(signature);
    char wanted[250];
    snprintf(wanted, sizeof(wanted), "%s %s", WANTED, alone);
    assert_string_equal(text, wanted);
}

/* A private key of 64 bytes and its seed alone give the published signature, alone and after those
 * of secrets, whatever the order of the setting. */
/* proves: webhook-signature, secret-count (at) */
static void test_private_key(void **state)
{
    static const char *const secrets[] = {PRIVATE, SEED, PRIVATE " " SEED,
                                          PRIVATE " " SECRET " " SEED " " SECRET};
    static const char *const wanted[] = {PRIVATE_WANTED, PRIVATE_WANTED,
                                         PRIVATE_WANTED " " PRIVATE_WANTED,
                                         WANTED " " WANTED " " PRIVATE_WANTED " " PRIVATE_WANTED};

    (void)state;
    for (size_t i = 0; i < COUNT(secrets); i++) {
        struct signature *signature = signature_test_create(secrets[i]);
        char text[SIGNATURE_TEXT_SIZE_MAX + 1];
        for (int j = 0; j < 2; j++) { /* the contexts are used again */
            sign(signature, ID, TIME_S, BYTES(BODY), text, sizeof(text));
            assert_string_equal(text, wanted[i]);
        }
        signature_destroy(signature);
    }
}

/* The public key of a new pair verifies what its private key signs, and nothing else. */
/* proves: webhook-signature */
static void test_new_key(void **state)
{
    struct buffer keys;
    uint8_t public[100], bytes[100];
    size_t size;

    (void)state;
    buffer_init(&keys);
    assert_int_equal(signature_make_key(&keys), ERROR_NONE);
    struct bytes rest = buffer_bytes(&keys), line = bytes_cut(&rest, '\n');
    char secret[200], text[SIGNATURE_TEXT_SIZE_MAX + 1];
    snprintf(secret, sizeof(secret), "%.*s", (int)line.size, line.data);
    line = bytes_cut(&rest, '\n');
    assert_true(bytes_has_prefix(line, BYTES("whpk_")) && rest.size == 0);
    assert_true(base64_decode((struct bytes){line.data + 5, line.size - 5}, public, &size));
    assert_int_equal(size, 32);
    EVP_PKEY *key = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, public, 32);
    assert_non_null(key);

    struct signature *signature = signature_test_create(secret);
    sign(signature, ID, TIME_S, BYTES(BODY), text, sizeof(text));
    assert_memory_equal(text, "v1a,", 4);
    assert_true(base64_decode(bytes_of(text + 4), bytes, &size) && size == 64);
    for (int is_other = 0; is_other < 2; is_other++) {
        const char *message = is_other ? ID ".1614265331." BODY : ID ".1614265330." BODY;
        EVP_MD_CTX *context = EVP_MD_CTX_new();

        assert_int_equal(EVP_DigestVerifyInit(context, NULL, NULL, NULL, key), 1);
        assert_int_equal(
            EVP_DigestVerify(context, bytes, size, (const uint8_t *)message, strlen(message)) == 1,
            !is_other);
        EVP_MD_CTX_free(context);
    }
    EVP_PKEY_free(key);
    signature_destroy(signature);
    buffer_deinit(&keys);
}

/* Any body, binary and empty ones too, against another way to compute the same. */
/* proves: webhook-signature, secret-bytes (at) */
static void test_like_openssl(void **state)
{
    static char body[70000], message[70200];
    uint64_t seed = (uint64_t)time(NULL);
    struct random random = random_seeded(seed);

    (void)state;
    print_message("seed %llu\n", (unsigned long long)seed);
    for (size_t i = 0; i < sizeof(body); i++)
        body[i] = (char)random_next(&random);
    for (size_t key_size = SIGNATURE_SECRET_BYTES_MIN; key_size <= SIGNATURE_SECRET_BYTES_MAX;
         key_size++) {
        struct bytes key = {body + random_below(&random, 1000), key_size};
        size_t body_size = key_size == 24 ? 0 : random_below(&random, sizeof(body));
        uint64_t timestamp_s = random_below(&random, UINT64_C(253402300799));
        struct buffer secret;

        buffer_init(&secret);
        struct buffer wanted;
        buffer_init(&wanted);
        buffer_append_text(&secret, "whsec_");
        base64_append(&secret, key);
        buffer_append(&secret, "", 1);
        struct signature *signature = signature_test_create(secret.data);
        char text[200];
        sign(signature, "an id", timestamp_s, (struct bytes){body, body_size}, text, sizeof(text));
        int size =
            snprintf(message, sizeof(message), "an id.%llu.", (unsigned long long)timestamp_s);
        memcpy(message + size, body, body_size);
        uint8_t digest[EVP_MAX_MD_SIZE];
        unsigned digest_size;
        HMAC(EVP_sha256(), key.data, (int)key.size, (uint8_t *)message, (size_t)size + body_size,
             digest, &digest_size);
        buffer_append_text(&wanted, "v1,");
        base64_append(&wanted, (struct bytes){(char *)digest, digest_size});
        buffer_append(&wanted, "", 1);
        assert_string_equal(text, wanted.data);
        signature_destroy(signature);
        buffer_deinit(&secret);
        buffer_deinit(&wanted);
    }
}

/* proves: webhook-signature, secret-count (beyond), secret-bytes (beyond) */
static void test_bad_secrets(void **state)
{
    static const char *const bad[] = {
        "",
        "   ",
        "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "whsec_",
        "WHSEC_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS",
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa==",
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa_-",
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2La",
        "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0"
        "+P0A=",
        SECRET " " SECRET " " SECRET,
        SECRET ",MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        SECRET " whsec_!",
        "whsk_",
        "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4=",
        /* a public key that is not that of the seed, a byte less than a seed, and 33 bytes */
        "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlaaaaaaaaaaAJ6p9lMicMFs6K"
        "vg==",
        "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMQ==",
        "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfV",
        SEED " " SEED " " SEED,
        SECRET " " SEED " " SECRET " " SECRET,
    };

    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct signature *signature = NULL;
        struct error error = {0};

        if (signature_create(bad[i], &signature, &error) != ERROR_INVALID || !error.text[0])
            fail_msg("\"%s\" must be refused", bad[i]);
        assert_null(signature);
        assert_null(strstr(error.text, "MfKQ"));
        assert_null(strstr(error.text, "6Xb"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published_vector), cmocka_unit_test(test_two_secrets),
        cmocka_unit_test(test_private_key),      cmocka_unit_test(test_new_key),
        cmocka_unit_test(test_like_openssl),     cmocka_unit_test(test_bad_secrets),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
