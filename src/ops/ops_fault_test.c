/* Goal: settings and tokens that cannot be taken up for want of memory are refused as such, whole,
 * and what was in force stays. Method: a file of each kind with the N-th allocation refused, for
 * every N (scarce.h). */
#include "ops/config_load.h"
#include "ops/tokens.h"

#include <scarce.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define HASH "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

static void test_tokens(void **state)
{
    (void)state;
    for (struct scarce scarce = scarce_sweep("tokens"); scarce_next(&scarce);) {
        scarce_begin(&scarce);
        struct tokens *tokens = NULL;
        struct error error;
        enum error_code code = tokens_parse(BYTES("token shop schedule,read sha256:" HASH "\n"
                                                  "token ops admin sha256:" HASH "\n"
                                                  "token bank read sha256:" HASH "\n"
                                                  "limit shop pending_max=7\n"),
                                            "file", &tokens, &error);
        if (scarce_end(&scarce)) {
            assert_int_not_equal(code, ERROR_NONE);
            assert_non_null(strstr(error.text, "out of memory"));
            assert_null(tokens);
        }
        tokens_free(tokens);
    }
}

static void test_ops_settings(void **state)
{
    char path[] = "/tmp/tickwheel-settings-XXXXXX";
    const char *const arguments[] = {"tickwheeld", "--config", path, "--listen-port", "7", NULL};
    const char *const environment[] = {"TICKWHEEL_WINDOW=3s", NULL};
    static const char text[] = "listen_port = 5\nretain = 2h\nbroker_connections = a=redis://b\n";
    int fd = mkstemp(path);

    (void)state;
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    for (struct scarce scarce = scarce_sweep("settings"); scarce_next(&scarce);) {
        static struct config config;

        scarce_begin(&scarce);
        struct config_request request;
        struct error error;
        enum error_code code = config_load(5, (char *const *)arguments, (char *const *)environment,
                                           &config, &request, &error);
        if (scarce_end(&scarce))
            assert_int_equal(code, ERROR_NO_MEMORY);
        else
            assert_int_equal(config.listen_port, 7);
    }
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_ops_settings),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
