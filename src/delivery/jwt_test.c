/*
 * Goal: tokens and public keys as the RFCs write them, and no key that cannot sign. Method: the key
 * of RFC 7515; OpenSSL verifies signatures; malformed files. tests/e2e/token_test.py has libraries
 * of three languages verify tokens.
 */
#include "delivery/jwt.h"

#include "base/base64.h"

#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static EVP_PKEY *jwt_test_key(unsigned bits)
{
    EVP_PKEY *pair = bits ? EVP_RSA_gen(bits) : EVP_EC_gen("P-256");

    assert_non_null(pair);
    return pair;
}

static void jwt_test_append_pem(struct buffer *out, EVP_PKEY *pair, const char *phrase)
{
    BIO *memory = BIO_new(BIO_s_mem());
    char *text;

    assert_int_equal(PEM_write_bio_PrivateKey(memory, pair, phrase ? EVP_aes_128_cbc() : NULL,
                                              (const unsigned char *)phrase,
                                              phrase ? (int)strlen(phrase) : 0, NULL, NULL),
                     1);
    const long size = BIO_get_mem_data(memory, &text);
    buffer_append(out, text, (size_t)size);
    BIO_free(memory);
}

static struct bytes jwt_test_decode(struct bytes text, char *ret_bytes)
{
    char padded[2000];
    size_t size = text.size;

    assert_true(text.size + 4 < sizeof(padded));
    for (size_t i = 0; i < text.size; i++)
        padded[i] = text.data[i] == '-' ? '+' : text.data[i] == '_' ? '/' : text.data[i];
    while (size % 4)
        padded[size++] = '=';
    assert_true(base64_decode((struct bytes){padded, size}, ret_bytes, &size));
    return (struct bytes){ret_bytes, size};
}

/* Verifies by OpenSSL, which wants the halves of an ECDSA signature in DER. */
static bool jwt_test_verify(EVP_PKEY *pair, struct bytes text, struct bytes signature)
{
    unsigned char der[200], *at = der;
    EVP_MD_CTX *context = EVP_MD_CTX_new();

    if (EVP_PKEY_get_base_id(pair) == EVP_PKEY_EC) {
        ECDSA_SIG *halves = ECDSA_SIG_new();

        assert_int_equal(signature.size, 64);
        ECDSA_SIG_set0(halves, BN_bin2bn((const unsigned char *)signature.data, 32, NULL),
                       BN_bin2bn((const unsigned char *)signature.data + 32, 32, NULL));
        i2d_ECDSA_SIG(halves, &at);
        ECDSA_SIG_free(halves);
        signature = (struct bytes){(const char *)der, (size_t)(at - der)};
    }
    assert_int_equal(EVP_DigestVerifyInit(context, NULL, EVP_sha256(), NULL, pair), 1);
    const bool is_valid =
        EVP_DigestVerify(context, (const unsigned char *)signature.data, signature.size,
                         (const unsigned char *)text.data, text.size) == 1;
    EVP_MD_CTX_free(context);
    ERR_clear_error();
    return is_valid;
}

/* The first key signs; so many claims that a half of an ECDSA signature begins with zeros too. */
static void test_jwt_signs(void **state)
{
    static const unsigned kinds[] = {0, 2048};

    (void)state;
    for (size_t i = 0; i < COUNT(kinds); i++) {
        EVP_PKEY *pair = jwt_test_key(kinds[i]), *second = jwt_test_key(kinds[!i]);
        struct jwt_keys *keys;
        struct buffer pem, token, claims;

        buffer_init(&pem);
        buffer_init(&token);
        buffer_init(&claims);
        buffer_append_text(&pem, "a comment\n");
        jwt_test_append_pem(&pem, pair, NULL);
        jwt_test_append_pem(&pem, second, NULL);
        assert_int_equal(jwt_keys_parse(buffer_bytes(&pem), &keys, NULL), ERROR_NONE);
        for (unsigned n = 0; n < (kinds[i] ? 3 : 600); n++) {
            char bytes[1000];
            buffer_clear(&token);
            buffer_clear(&claims);
            buffer_printf(&claims, "{\"n\":%u}", n);
            assert_int_equal(jwt_append(keys, buffer_bytes(&claims), &token), ERROR_NONE);
            struct bytes rest = buffer_bytes(&token), header = bytes_cut(&rest, '.');
            const struct bytes body = bytes_cut(&rest, '.');
            const struct bytes text = {token.data, header.size + 1 + body.size};
            header = jwt_test_decode(header, bytes);
            assert_true(bytes_has_prefix(header, kinds[i]
                                                     ? BYTES("{\"alg\":\"RS256\",\"kid\":\"")
                                                     : BYTES("{\"alg\":\"ES256\",\"kid\":\"")));
            assert_true(bytes_equal(jwt_test_decode(body, bytes), buffer_bytes(&claims)));
            const struct bytes signature = jwt_test_decode(rest, bytes);
            assert_true(jwt_test_verify(pair, text, signature));
            bytes[signature.size / 2] ^= 1;
            assert_false(jwt_test_verify(pair, text, signature));
        }
        jwt_keys_destroy(keys);
        EVP_PKEY_free(pair);
        EVP_PKEY_free(second);
        buffer_deinit(&pem);
        buffer_deinit(&token);
        buffer_deinit(&claims);
    }
}

/* The private key of RFC 7515, appendix A.3, and its public key as a JWK. The thumbprint is that of
 * Python's hashlib over the members that RFC 7638 names, in their order. */
static void test_jwt_key_set(void **state)
{
    static const char pem[] = "-----BEGIN PRIVATE KEY-----\n"
                              "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgjpsQnnGQmL+YBIff\n"
                              "H1136cspYG6+0iY7X1fCE9+E9LKhRANCAAR/zc4ncPbEXUGDy+5v20t7WAczNXvp\n"
                              "7xO6z248e9FURcfxRM0bvZt+hyzf7bnuufSzaV1uqQskrYpGIyiFiOWt\n"
                              "-----END PRIVATE KEY-----\n";
    struct jwt_keys *keys;
    struct buffer set;

    (void)state;
    buffer_init(&set);
    assert_int_equal(jwt_keys_parse(bytes_of(pem), &keys, NULL), ERROR_NONE);
    jwt_keys_append_set(keys, &set);
    buffer_append(&set, "", 1);
    assert_string_equal(set.data, "{\"keys\":[{\"crv\":\"P-256\",\"kty\":\"EC\","
                                  "\"x\":\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\","
                                  "\"y\":\"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0\","
                                  "\"kid\":\"oKIywvGUpTVTyxMQ3bwIIeQUudfr_CkLMjCE19ECD-U\",\"alg\":"
                                  "\"ES256\",\"use\":\"sig\"}]}");
    jwt_keys_destroy(keys);
    buffer_deinit(&set);
}

/* proves: token-keys (at), token-keys (beyond), token-key-bits (at), token-key-bits (beyond) */
static void test_jwt_bad_keys(void **state)
{
    static const struct {
        unsigned bits, count;
        const char *phrase, *wanted; /* NULL if the file is valid */
    } cases[] = {
        {0, 8, NULL, NULL},
        {0, 9, NULL, "more than 8 keys"},
        {2048, 1, NULL, NULL},
        {2040, 1, NULL, "key 1 has 2040 bits"},
        {4096, 1, NULL, NULL},
        {4104, 1, NULL, "key 1 has 4104 bits"},
        {0, 1, "secret", "key 1 is not a private key in PEM without a pass phrase"},
        {0, 0, NULL, "key 1 is not a private key"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        EVP_PKEY *pair = jwt_test_key(cases[i].bits);
        struct jwt_keys *keys = NULL;
        struct error error = {.text = ""};
        struct buffer pem;

        buffer_init(&pem);
        for (unsigned n = 0; n < cases[i].count; n++)
            jwt_test_append_pem(&pem, pair, cases[i].phrase);
        assert_int_equal(jwt_keys_parse(buffer_bytes(&pem), &keys, &error),
                         cases[i].wanted ? ERROR_INVALID : ERROR_NONE);
        if (cases[i].wanted && !strstr(error.text, cases[i].wanted))
            fail_msg("case %zu: %s", i, error.text);
        jwt_keys_destroy(keys);
        if (pem.size > 0 && !cases[i].wanted && cases[i].count == 1) {
            pem.size -= pem.size / 3; /* a file that was cut off */
            assert_int_equal(jwt_keys_parse(buffer_bytes(&pem), &keys, NULL), ERROR_INVALID);
        }
        buffer_deinit(&pem);
        EVP_PKEY_free(pair);
    }
    static const char *const others[] = {"P-384", "secp256k1"};
    for (size_t i = 0; i < COUNT(others); i++) {
        EVP_PKEY *pair = EVP_EC_gen(others[i]);
        struct jwt_keys *keys;
        struct error error = {.text = ""};
        struct buffer pem;

        buffer_init(&pem);
        jwt_test_append_pem(&pem, pair, NULL);
        assert_int_equal(jwt_keys_parse(buffer_bytes(&pem), &keys, &error), ERROR_INVALID);
        assert_string_equal(error.text, "key 1 is neither RSA nor of curve P-256");
        buffer_deinit(&pem);
        EVP_PKEY_free(pair);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_jwt_signs),
        cmocka_unit_test(test_jwt_key_set),
        cmocka_unit_test(test_jwt_bad_keys),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
