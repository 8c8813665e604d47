/*
 * Goal: a file of named targets becomes definitions that are used as they stand, and a wrong one is
 * refused whole, with the place and without its secrets. Method: files by hand, each with what must
 * come of it; every cut of a valid file.
 */
#include "delivery/named_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#define VERSION (DEFINITION_CONFIGURED | 7)

struct file_rig {
    struct guard guard;
    struct definition_board board;
    struct named *named;
};

static int file_setup(void **state)
{
    struct file_rig *rig = calloc(1, sizeof(*rig));

    assert_non_null(rig);
    assert_int_equal(guard_init(&rig->guard, "", NULL), ERROR_NONE);
    definition_board_init(&rig->board);
    const struct named_options options = {.board = &rig->board,
                                          .keys = "",
                                          .secrets_folder = "",
                                          .sensitive_headers = "x-more",
                                          .guard = &rig->guard};
    assert_int_equal(named_create(&options, &rig->named, NULL), ERROR_NONE);
    *state = rig;
    return 0;
}

static int file_teardown(void **state)
{
    struct file_rig *rig = *state;

    named_destroy(rig->named);
    definition_board_deinit(&rig->board);
    free(rig);
    return 0;
}

static struct definitions *file_read(struct file_rig *rig, const char *text)
{
    struct definitions *definitions = NULL;
    struct error error = {.text = ""};
    const enum error_code code = named_file_parse(rig->named, bytes_of(text), (struct wall){5},
                                                  VERSION, &definitions, &error);

    if (code)
        fail_msg("%s", error.text);
    return definitions;
}

static const struct definition *file_find(const struct definitions *definitions, const char *tenant,
                                          const char *name)
{
    return definitions_find(definitions, bytes_of(tenant), DEFINITION_TARGET, bytes_of(name));
}

/* Resolves a timer of the tenant to billing:/x. The caller releases the delivery. */
static enum error_code file_resolve(struct file_rig *rig, struct timer *timer, const char *tenant,
                                    struct delivery *delivery, struct error *ret_error)
{
    *timer = (struct timer){.texts = {.tenant = bytes_of(tenant), .target = BYTES("billing:/x")}};
    assert_int_equal(target_parse(timer->texts.target, &timer->target, NULL), ERROR_NONE);
    *delivery = (struct delivery){.timer = timer};
    return named_resolve(rig->named, delivery, ret_error);
}

/* Every tenant and name has its row. */
static void file_has_rows(void **state)
{
    struct definitions *definitions =
        file_read(*state, " {\"-\": {\"billing\": {\"url\": \"http://a.example\" }},\n"
                          "\"shop\": {\"crm\": {\"url\": \"http://b.example\"}, \"billing\": "
                          "{\"url\":\"http://c.example\"}}, \"bank\": {}} ");
    const struct definition *row = file_find(definitions, "", "billing");

    assert_int_equal(definitions->count, 3);
    assert_true(bytes_equal(row->value, BYTES("{\"url\": \"http://a.example\" }")));
    assert_true(row->since.ms == 5 && row->version == VERSION && definition_is_configured(row));
    assert_int_equal(definition_version(row), 0);
    assert_non_null(file_find(definitions, "shop", "crm"));
    assert_non_null(file_find(definitions, "shop", "billing"));
    definitions_leave(definitions);
    definitions = file_read(*state, "{}");
    assert_int_equal(definitions->count, 0);
    definitions_leave(definitions);
}

/* Secrets in the file, and of the environment for every tenant, are sent without secrets_keys. */
static void file_secrets_are_sent(void **state)
{
    struct file_rig *rig = *state;
    struct definitions *definitions = file_read(
        rig, "{\"-\":{\"billing\":{\"url\":\"https://a.example/v1\",\"auth\":{\"kind\":\"bearer\","
             "\"token\":\"t0ken\"},\"signing\":\"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw "
             "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\"}},\"shop\":{\"billing\":{\"url\":"
             "\"https://a.example\",\"auth\":{\"kind\":\"bearer\",\"token\":{\"secret_ref\":"
             "\"env:TICKWHEEL_SECRET_A\"}}}}}");
    struct delivery delivery;
    struct timer timer;
    struct error error;

    setenv("TICKWHEEL_SECRET_A", "of-the-environment", 1);
    definition_board_show(&rig->board, definitions);
    assert_int_equal(file_resolve(rig, &timer, "", &delivery, &error), ERROR_NONE);
    assert_true(
        bytes_equal(delivery_sent(&delivery)->texts.target, BYTES("https://a.example/v1/x")));
    assert_true(bytes_equal(delivery_sent(&delivery)->texts.headers,
                            BYTES("authorization: Bearer t0ken\n")));
    assert_non_null(named_signature_of(&delivery));
    named_release(&delivery);
    assert_int_equal(file_resolve(rig, &timer, "shop", &delivery, &error), ERROR_NONE);
    assert_true(bytes_equal(delivery_sent(&delivery)->texts.headers,
                            BYTES("authorization: Bearer of-the-environment\n")));
    named_release(&delivery);
    assert_int_equal(file_resolve(rig, &timer, "bank", &delivery, &error), ERROR_INVALID);
    assert_int_equal(named_count_closed(rig->named, &error), 0);
}

/* proves: named-target-file */
static void file_is_refused_with_the_place(void **state)
{
    static const struct {
        const char *text, *begins;
    } cases[] = {
        {"", "byte 0: "},
        {"{} {}", "byte 3: "},
        {"null", "#: It must be an object"},
        {"{\"-\": 1}", "#/-: It must be an object"},
        {"{\"a/b\": {}}", "#/a/b: A tenant"},
        {"{\"\\u0061\": {}}", "#/\\u0061: A tenant"},
        {"{\"a\": {\"\\u0061\": {\"url\": \"http://a.example\"}}}", "#/a/\\u0061: A name"},
        {"{\"a\": {\"kafka\": {\"url\": \"http://a.example\"}}}", "#/a/kafka: A name"},
        {"{\"a\": {\"b\": {\"url\": \"http://10.0.0.1\"}}}", "#/a/b/url: This host"},
        {"{\"a\": {\"b\": {\"url\": \"http://a.example\", \"headers\": {\"X-More\": \"s3cret\"}}}}",
         "#/a/b/headers: A secret belongs"},
        {"{\"a\": {\"b\": {\"url\": \"http://a.example\", \"auth\": {\"kind\": \"bearer\", "
         "\"token\": {}}}}}",
         "#/a/b/auth/token: It must be"},
        {"{\"a\": {\"b\": {\"url\": \"http://a.example\", \"signing\": {\"since\": 1}}}}",
         "#/a/b/signing: It must be"},
        {"{\"a\": {\"b\": {\"url\": \"http://a.example\", \"auth\": {\"kind\": \"bearer\", "
         "\"token\": \"x\", \"s3cre\": 1}}}}",
         "#/a/b/auth/s3cre: There is no"},
        {"{\"a\": {\"b\": {\"url\": \"http://a.example\"}, \"b\": {\"url\": "
         "\"http://a.example\"}}}",
         "#/a/b: It is given twice"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct file_rig *rig = *state;
        struct definitions *definitions = NULL;
        struct error error = {.text = ""};

        assert_int_equal(named_file_parse(rig->named, bytes_of(cases[i].text), (struct wall){5},
                                          VERSION, &definitions, &error),
                         ERROR_INVALID);
        assert_null(definitions);
        if (strncmp(error.text, cases[i].begins, strlen(cases[i].begins)) != 0)
            fail_msg("%s: %s", cases[i].text, error.text);
        assert_null(strstr(error.text, "s3cret"));
    }
}

static void file_cuts_are_refused(void **state)
{
    static const char text[] = "{\"shop\": {\"crm\": {\"url\": \"http://b.example\"}}}";
    struct file_rig *rig = *state;
    struct definitions *definitions = NULL;
    struct error error;

    for (size_t size = 0; size < sizeof(text) - 1; size++)
        assert_int_equal(named_file_parse(rig->named, (struct bytes){text, size}, (struct wall){5},
                                          VERSION, &definitions, &error),
                         ERROR_INVALID);
    assert_null(definitions);
}

/* proves: named-targets-file */
static void file_has_a_largest_size(void **state)
{
    struct file_rig *rig = *state;
    char path[] = "/tmp/tickwheel-named-XXXXXX";
    const int fd = mkstemp(path);
    char *text = malloc(NAMED_FILE_SIZE_MAX);
    struct definitions *definitions = NULL;
    struct error error;

    assert_true(fd >= 0 && text);
    memset(text, ' ', NAMED_FILE_SIZE_MAX);
    memcpy(text, "{}", 2);
    assert_int_equal(write(fd, text, NAMED_FILE_SIZE_MAX), NAMED_FILE_SIZE_MAX);
    assert_int_equal(
        named_file_load(rig->named, path, (struct wall){5}, VERSION, &definitions, &error),
        ERROR_NONE);
    definitions_leave(definitions);
    assert_int_equal(write(fd, " ", 1), 1);
    assert_int_equal(
        named_file_load(rig->named, path, (struct wall){5}, VERSION, &definitions, &error),
        ERROR_TOO_LARGE);
    assert_non_null(strstr(error.text, path));
    unlink(path);
    close(fd);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(file_has_rows, file_setup, file_teardown),
        cmocka_unit_test_setup_teardown(file_secrets_are_sent, file_setup, file_teardown),
        cmocka_unit_test_setup_teardown(file_is_refused_with_the_place, file_setup, file_teardown),
        cmocka_unit_test_setup_teardown(file_cuts_are_refused, file_setup, file_teardown),
        cmocka_unit_test_setup_teardown(file_has_a_largest_size, file_setup, file_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
