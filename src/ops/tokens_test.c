/*
 * Goal: a tokens file says exactly what it seems to say, whatever is wrong in it is named by its
 * line, and never by what stands there. Method: files as texts, limits at their ends and one
 * beyond.
 */
#include "ops/tokens.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#define HASH  "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
#define OTHER "60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752"
#define TOKEN "token shop read sha256:" HASH "\n"

static struct tokens *tokens_test_parsed(const char *text)
{
    struct tokens *tokens = NULL;
    struct error error;

    if (tokens_parse(bytes_of(text), "file", &tokens, &error))
        fail_msg("%s", error.text);
    return tokens;
}

static void assert_wrong(const char *text, const char *hint)
{
    struct tokens *const untouched = (struct tokens *)1, *tokens = untouched;
    struct error error;

    assert_int_equal(tokens_parse(bytes_of(text), "file", &tokens, &error), ERROR_INVALID);
    assert_ptr_equal(tokens, untouched);
    if (!strstr(error.text, hint))
        fail_msg("%s: %s", text, error.text);
    assert_null(strstr(error.text, "tw_"));
    assert_null(strstr(error.text, HASH));
}

static void test_what_a_file_says(void **state)
{
    struct tokens *tokens = tokens_test_parsed(
        "# tenants\r\n\n  token shop schedule,read  sha256:" HASH "  \r\n"
        "\ttoken\tops\tadmin\tsha256:" OTHER "\n"
        "hide ops payload\n"
        "limit shop pending_max=7 rate=3 burst=9 body_bytes_max=2K batch_bytes_max=1G");

    (void)state;
    assert_int_equal(tokens->count, 2);
    assert_int_equal(tokens->tenant_count, 2);
    assert_int_equal(tokens->tokens[0].scopes, TOKEN_SCOPE_SCHEDULE | TOKEN_SCOPE_READ);
    assert_int_equal(tokens->tokens[1].scopes, TOKEN_SCOPE_ADMIN);
    assert_int_equal(tokens->tokens[0].hash[0], 0x9f);
    assert_int_equal(tokens->tokens[0].hash[31], 0x08);
    assert_true(bytes_equal(token_tenant_name(&tokens->tenants[1]), BYTES("ops")));
    assert_int_equal(tokens->tenants[0].limits.pending_max, 7);
    assert_int_equal(tokens->tenants[0].limits.rate, 3);
    assert_int_equal(tokens->tenants[0].limits.burst, 9);
    assert_int_equal(tokens->tenants[0].limits.body_bytes_max, 2048);
    assert_int_equal(tokens->tenants[0].limits.batch_bytes_max, 1 << 30);
    assert_int_equal(tokens->tenants[1].limits.pending_max, 0);
    assert_true(tokens->tenants[1].hides_payload && !tokens->tenants[0].hides_payload);
    tokens_free(tokens);
}

static void test_what_is_wrong(void **state)
{
    (void)state;
    assert_wrong("", "file: there is no token");
    assert_wrong("# token shop read sha256:" HASH, "no token");
    assert_wrong(TOKEN "\nfoo", "file:3: a line begins with");
    assert_wrong("token", "file:1: a tenant has");
    assert_wrong("token sh/op read sha256:" HASH, "a tenant has");
    assert_wrong("token shop", "the scopes are");
    assert_wrong("token shop , sha256:" HASH, "the scopes are");
    assert_wrong("token shop read,read sha256:" HASH, "the scopes are");
    assert_wrong("token shop read, sha256:" HASH, "the scopes are");
    assert_wrong("token shop READ sha256:" HASH, "the scopes are");
    assert_wrong("token shop read, sha256:" HASH, "the scopes are");
    assert_wrong("token shop ,read sha256:" HASH, "the scopes are");
    assert_wrong("token shop read", "the token is given as");
    assert_wrong("token shop read tw_0123456789012345678901234567890123456789012",
                 "the token is given as");
    assert_wrong("token shop read " HASH, "the token is given as");
    assert_wrong("token shop read sha256:" HASH "0", "the token is given as");
    assert_wrong("token shop read sha256:9F86", "the token is given as");
    assert_wrong("token shop read sha256:" HASH " x", "file:1: there is something behind");
    assert_wrong(TOKEN "token other read sha256:" HASH, "file:2: the token was given before");
    assert_wrong(TOKEN "limit other rate=1", "tenant other has a limit and no token");
    assert_wrong(TOKEN "limit shop", "a limit is missing");
    assert_wrong(TOKEN "limit shop rate", "the limits are");
    assert_wrong(TOKEN "limit shop speed=1", "the limits are");
    assert_wrong(TOKEN "limit shop =1", "the limits are");
    assert_wrong(TOKEN "limit shop burst=1", "burst needs a rate");
    assert_wrong(TOKEN "limit - rate=1", "tenant - has a limit and no token");
    assert_wrong("token - read sha256:" HASH "\nlimit - pending_max=1", "file:2: the unnamed");
    assert_wrong(TOKEN "limit shop rate=1 rate=2", "given twice");
    assert_wrong(TOKEN "limit shop rate=1\nlimit shop burst=2", "file:3: the tenant's limits");
}

static void test_the_unnamed_tenant(void **state)
{
    struct tokens *tokens =
        tokens_test_parsed(TOKEN "token - read sha256:" OTHER "\nlimit - rate=5");

    (void)state;
    assert_int_equal(tokens->tenants[1].name_size, 0);
    assert_int_equal(tokens->tenants[1].limits.rate, 5);
    assert_int_equal(tokens->tokens[1].tenant, 1);
    tokens_free(tokens);
}

/* proves: tenant-bodies, tenant-limit-range */
static void test_limits_at_their_ends(void **state)
{
    static const char *const good[] = {"rate=1", "rate=1000000", "pending_max=9223372036854775807",
                                       "body_bytes_max=1T", "batch_bytes_max=1024T"};
    static const char *const bad[] = {"rate=0",
                                      "rate=1000001",
                                      "rate=-1",
                                      "rate=",
                                      "rate=1K",
                                      "rate=1.5",
                                      "pending_max=9223372036854775808",
                                      "pending_max=18446744073709551617",
                                      "pending_max=1M",
                                      "body_bytes_max=1025G",
                                      "body_bytes_max=1k",
                                      "body_bytes_max=1KB",
                                      "batch_bytes_max=16777217T"};

    (void)state;
    char text[200];
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        snprintf(text, sizeof(text), TOKEN "limit shop %s", good[i]);
        tokens_free(tokens_test_parsed(text));
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        snprintf(text, sizeof(text), TOKEN "limit shop %s", bad[i]);
        assert_wrong(text, "file:2: a limit is no number");
    }
}

/* A file, and a tenant's name, of the largest size, and one byte more. */
/* proves: tokens-file, tenant-name */
static void test_tokens_sizes(void **state)
{
    static char lines[TOKENS_FILE_SIZE_MAX + 1];
    char path[] = "/tmp/tickwheel-tokens-XXXXXX";
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    memset(lines, '\n', sizeof(lines));
    memcpy(lines, TOKEN, strlen(TOKEN));
    assert_int_equal(write(fd, lines, TOKENS_FILE_SIZE_MAX), TOKENS_FILE_SIZE_MAX);
    struct tokens *tokens;
    struct error error;
    assert_int_equal(tokens_load(path, &tokens, &error), ERROR_NONE);
    tokens_free(tokens);
    assert_int_equal(write(fd, "\n", 1), 1);
    assert_int_not_equal(tokens_load(path, &tokens, &error), ERROR_NONE);
    assert_non_null(strstr(error.text, "more than"));
    close(fd);
    unlink(path);
    char text[200];
    snprintf(text, sizeof(text), "token %0*d read sha256:" HASH, TENANT_SIZE_MAX, 0);
    tokens_free(tokens_test_parsed(text));
    snprintf(text, sizeof(text), "token %0*d read sha256:" HASH, TENANT_SIZE_MAX + 1, 0);
    assert_wrong(text, "a tenant has");
}

/* proves: tokens */
static void test_as_many_as_may_be(void **state)
{
    (void)state;
    struct buffer text;
    buffer_init(&text);
    for (int i = 0; i < TOKENS_MAX; i++)
        buffer_printf(&text, "token t%d read sha256:%064x\n", i, i);
    buffer_append(&text, "", 1);
    struct tokens *tokens = tokens_test_parsed(text.data);
    assert_int_equal(tokens->count, TOKENS_MAX);
    tokens_free(tokens);
    text.size--;
    buffer_printf(&text, "token t0 read sha256:%064x\n", TOKENS_MAX);
    buffer_append(&text, "", 1);
    assert_wrong(text.data, "too many tokens");
    buffer_deinit(&text);
}

/* What is made is let in, and nothing near it. */
static void test_make_and_find(void **state)
{
    (void)state;
    struct buffer text;
    buffer_init(&text);
    char token[2][TOKEN_TEXT_SIZE];
    struct error error;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(token_make(i ? BYTES("b") : BYTES("a"), i ? 7 : TOKEN_SCOPE_READ, token[i],
                                    &text, &error),
                         ERROR_NONE);
        buffer_append_text(&text, "\n");
        assert_int_equal(strlen(token[i]), TOKEN_TEXT_SIZE - 1);
    }
    buffer_append(&text, "", 1);
    struct tokens *tokens = tokens_test_parsed(text.data);
    for (size_t i = 0; i < 2; i++) {
        const struct token *found = tokens_find(tokens, bytes_of(token[i]));

        assert_ptr_equal(found, &tokens->tokens[i]);
        assert_int_equal(found->scopes, i ? 7 : TOKEN_SCOPE_READ);
        for (size_t at = 0; at < TOKEN_TEXT_SIZE - 1; at++) {
            token[i][at] ^= 1;
            assert_null(tokens_find(tokens, bytes_of(token[i])));
            token[i][at] ^= 1;
        }
        assert_null(tokens_find(tokens, (struct bytes){token[i], TOKEN_TEXT_SIZE - 2}));
    }
    assert_null(tokens_find(tokens, BYTES("")));
    assert_int_equal(token_make(BYTES("a b"), 1, token[0], &text, &error), ERROR_INVALID);
    tokens_free(tokens);
    buffer_deinit(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_a_file_says),     cmocka_unit_test(test_what_is_wrong),
        cmocka_unit_test(test_limits_at_their_ends), cmocka_unit_test(test_tokens_sizes),
        cmocka_unit_test(test_as_many_as_may_be),    cmocka_unit_test(test_make_and_find),
        cmocka_unit_test(test_the_unnamed_tenant),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
