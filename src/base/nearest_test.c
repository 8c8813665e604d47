/* Goal: a misspelt name leads to the one that was meant, and a name like none to none. Method: a
 * table of slips of the keyboard, and names at the limit. */
#include "base/nearest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const char *nearest_test_find(struct bytes wanted)
{
    static const char *const names[] = {"list", "cancel", "cluster", "count", "listen_port", "ack"};
    struct nearest nearest = nearest_to(wanted);

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        nearest_try(&nearest, names[i]);
    return nearest.name;
}

static void slips_lead_to_the_name_that_was_meant(void **state)
{
    (void)state;
    static const struct {
        const char *wanted, *found; /* NULL: none is near. */
    } slips[] = {
        {"lst", "list"},           {"lsit", "list"},   {"lists", "list"}, {"cancle", "cancel"},
        {"clutser", "cluster"},    {"cuont", "count"}, {"akc", "ack"},    {"port", "listen_port"},
        {"frobnicate", NULL},      {"x", NULL},        {"", NULL},        {"list", "list"},
        {"listen", "listen_port"},
    };

    for (size_t i = 0; i < sizeof(slips) / sizeof(*slips); i++) {
        const char *found = nearest_test_find(bytes_of(slips[i].wanted));

        if (!slips[i].found || !found)
            assert_ptr_equal(found, slips[i].found);
        else
            assert_string_equal(found, slips[i].found);
    }
}

static void a_long_name_is_near_to_none(void **state)
{
    (void)state;
    static const char text[] = "a-name-of-sixty-three-characters-is-compared-with-the-others-xx";
    struct nearest nearest = nearest_to((struct bytes){text, NEAREST_ROOM});

    nearest_try(&nearest, text);
    assert_ptr_equal(nearest.name, text);
    nearest = nearest_to(BYTES("a-name-of-sixty-four-characters-is-compared-with-none-of-the-oth"));
    nearest_try(&nearest, text);
    assert_null(nearest.name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slips_lead_to_the_name_that_was_meant),
        cmocka_unit_test(a_long_name_is_near_to_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
