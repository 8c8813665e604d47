/* Goal: the library, its headers and the build name one version. Method: the build gives its own as
 * a macro. */
#include <tickwheel/version.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static void all_name_one_version(void **state)
{
    (void)state;
    assert_string_equal(tw_version(), TW_VERSION);
    assert_string_equal(tw_version(), TICKWHEEL_VERSION);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_name_one_version)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
