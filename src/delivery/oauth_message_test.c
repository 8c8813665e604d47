/*
 * Goal: requests for tokens as RFC 6749 writes them, and no answer that breaks a header or shows a
 * secret. Method: the examples of the RFC's sections 2.3.1, 4.4 and 5; a table of answers.
 */
#include "delivery/oauth_message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void assert_request(const struct oauth_client *client, const char *body,
                           const char *authorization)
{
    struct buffer out;

    buffer_init(&out);
    oauth_append_body(client, &out);
    buffer_append(&out, "", 1);
    assert_string_equal(out.data, body);
    buffer_clear(&out);
    oauth_append_authorization(client, &out);
    buffer_append(&out, "", 1);
    assert_string_equal(out.data, authorization);
    buffer_deinit(&out);
}

static void test_oauth_requests(void **state)
{
    struct oauth_client client = {.id = BYTES("s6BhdRkqt3"),
                                  .secret = BYTES("7Fjfp0ZBr1KtDRbnfVdmIw")};

    (void)state;
    assert_request(&client, "grant_type=client_credentials",
                   "Basic czZCaGRSa3F0Mzo3RmpmcDBaQnIxS3REUmJuZlZkbUl3");
    client.has_secret_in_body = true;
    client.scope = BYTES("read write");
    client.audience = BYTES("https://a.example/b");
    assert_request(&client,
                   "grant_type=client_credentials&scope=read%20write&audience=https%3A%2F%2Fa."
                   "example%2Fb&client_id=s6BhdRkqt3&client_secret=7Fjfp0ZBr1KtDRbnfVdmIw",
                   "");
    /* both texts are form-encoded before base64 (RFC 6749, 2.3.1); the text is Python's */
    client = (struct oauth_client){.id = BYTES("a:b"), .secret = BYTES("c&d=+\xc3\xa9~")};
    assert_request(&client, "grant_type=client_credentials",
                   "Basic YSUzQWI6YyUyNmQlM0QlMkIlQzMlQTl+");
}

static void test_oauth_answers(void **state)
{
    static const struct {
        int status;
        const char *body, *token; /* NULL if it is refused with the reason */
        uint32_t life_s;
        const char *reason;
    } cases[] = {
        {200,
         "{\"access_token\":\"2YotnFZFEjr1zCsicMWpAA\",\"token_type\":\"example\","
         "\"expires_in\":3600}",
         NULL, 0, "token endpoint gave no token of type bearer"},
        {200,
         "{\"access_token\":\"2YotnFZFEjr1zCsicMWpAA\",\"token_type\":\"Bearer\","
         "\"expires_in\":3600,\"example_parameter\":{\"a\":[1]}}",
         "2YotnFZFEjr1zCsicMWpAA", 3600, NULL},
        {200, "{\"token_type\":\"bearer\",\"access_token\":\"a\\u0062\\/c\"}", "ab/c", 300, NULL},
        {200, "{\"token_type\":\"bearer\",\"access_token\":\"a\",\"expires_in\":\"60\"}", "a", 60,
         NULL},
        {200, "{\"token_type\":\"bearer\",\"access_token\":\"a\",\"expires_in\":0}", "a", 10, NULL},
        {200, "{\"token_type\":\"bearer\",\"access_token\":\"a\",\"expires_in\":1e9}", "a", 300,
         NULL},
        {200, "{\"token_type\":\"bearer\",\"access_token\":\"a\",\"expires_in\":-5}", "a", 300,
         NULL},
        {200, "{\"token_type\":\"bearer\",\"access_token\":\"a\",\"expires_in\":null}", "a", 300,
         NULL},
        {200, "{\"token_type\":\"bearer\",\"access_token\":\"a\",\"expires_in\":99999999999}", "a",
         86400, NULL},
        {200, "{\"token_type\":\"bearer\",\"access_token\":\"a\\r\\nx: y\"}", NULL, 0,
         "token endpoint gave no access_token that fits"},
        {200, "{\"token_type\":\"bearer\",\"access_token\":\"\"}", NULL, 0,
         "token endpoint gave no access_token that fits"},
        {200, "{\"token_type\":\"bearer\",\"access_token\":1}", NULL, 0,
         "token endpoint gave no access_token that fits"},
        {200, "[\"token_type\"]", NULL, 0, "token endpoint answered no JSON object"},
        {200, "{\"access_token\":\"secret\"", NULL, 0, "token endpoint answered no JSON object"},
        {200, "", NULL, 0, "token endpoint answered no JSON object"},
        {401, "{\"error\":\"invalid_client\"}", NULL, 0,
         "token endpoint answered HTTP 401: invalid_client"},
        {400, "{\"error\":\"a b\"}", NULL, 0, "token endpoint answered HTTP 400"},
        {400, "{\"error\":\"a\\nb\"}", NULL, 0, "token endpoint answered HTTP 400"},
        {400, "{\"error\":\"S3cret-of-client\"}", NULL, 0, "token endpoint answered HTTP 400"},
        {503, "<html>", NULL, 0, "token endpoint answered HTTP 503"},
        {302, "", NULL, 0, "token endpoint answered HTTP 302"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct buffer token;
        uint32_t life_s = 0;
        char reason[OAUTH_REASON_SIZE] = "";

        buffer_init(&token);
        const bool is_token =
            oauth_answer_read(cases[i].status, bytes_of(cases[i].body), &token, &life_s, reason);
        if (is_token != (cases[i].token != NULL))
            fail_msg("case %zu: %s", i, reason);
        if (is_token)
            assert_true(bytes_equal(buffer_bytes(&token), bytes_of(cases[i].token)));
        else
            assert_string_equal(reason, cases[i].reason);
        assert_int_equal(life_s, cases[i].life_s);
        assert_true(is_token || token.size == 0);
        buffer_deinit(&token);
    }
}

/* proves: oauth-token (at), oauth-token (beyond) */
static void test_oauth_token_size(void **state)
{
    (void)state;
    for (unsigned more = 0; more < 2; more++) {
        struct buffer body, token;
        uint32_t life_s;
        char reason[OAUTH_REASON_SIZE];

        buffer_init(&body);
        buffer_init(&token);
        buffer_append_text(&body, "{\"token_type\":\"bearer\",\"access_token\":\"");
        for (unsigned i = 0; i < OAUTH_TOKEN_SIZE_MAX + more; i++)
            buffer_append(&body, "t", 1);
        buffer_append_text(&body, "\"}");
        assert_int_equal(oauth_answer_read(200, buffer_bytes(&body), &token, &life_s, reason),
                         !more);
        assert_int_equal(token.size, more ? 0 : OAUTH_TOKEN_SIZE_MAX);
        buffer_deinit(&body);
        buffer_deinit(&token);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_oauth_requests),
        cmocka_unit_test(test_oauth_answers),
        cmocka_unit_test(test_oauth_token_size),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
