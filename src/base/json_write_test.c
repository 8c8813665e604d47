/* Goal: values are separated by exactly one comma, whatever the buffer ends with. Method: a text of
 * every kind of value against a literal, and random nested texts read back by the reader. */
#include "base/json.h"
#include "base/json_write.h"
#include "base/random.h"
#include "seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

static void test_every_kind(void **state)
{
    struct buffer out;

    (void)state;
    buffer_init(&out);
    buffer_append_text(&out, "data: ");
    json_open(&out, NULL, '{');
    json_put_some(&out, "none", BYTES(""));
    json_open(&out, "empty", '[');
    json_close(&out, ']');
    json_put_string(&out, "colon", BYTES("a:"));
    json_put_string(&out, "bracket", BYTES("{"));
    json_put_raw(&out, "raw", BYTES("[1, 2]\n"));
    json_put_flag(&out, "on", true);
    json_put_pair(&out, BYTES("a\"b"), BYTES("c"));
    json_open(&out, "list", '[');
    json_put_number(&out, NULL, 8);
    json_put_text(&out, NULL, "x");
    json_open(&out, NULL, '{');
    json_close(&out, '}');
    json_close(&out, ']');
    json_put_name(&out, "nested");
    json_open(&out, NULL, '{');
    json_put_flag(&out, "on", false);
    json_close(&out, '}');
    json_close(&out, '}');
    buffer_append_text(&out, "\n");
    json_put_raw(&out, NULL, BYTES("null"));
    buffer_append(&out, "", 1);
    assert_string_equal(out.data,
                        "data: {\"empty\":[],\"colon\":\"a:\",\"bracket\":\"{\",\"raw\":[1, 2],"
                        "\"on\":true,\"a\\\"b\":\"c\",\"list\":[8,\"x\",{}],"
                        "\"nested\":{\"on\":false}}\nnull");
    buffer_deinit(&out);
}

static void json_write_test_put_random(struct random *rng, struct buffer *out, const char *name,
                                       unsigned depth)
{
    const unsigned kind = (unsigned)random_below(rng, depth > 5 ? 4 : 6);

    switch (kind) {
    case 0:
        json_put_number(out, name, random_below(rng, 1000));
        break;
    case 1:
        json_put_text(out, name, &"\\\":[{,"[random_below(rng, 7)]);
        break;
    case 2:
        json_put_flag(out, name, random_below(rng, 2) == 0);
        break;
    case 3:
        json_put_raw(out, name, BYTES("{\"a\":[]} \n"));
        break;
    default:
        json_open(out, name, kind == 4 ? '{' : '[');
        for (size_t i = random_below(rng, 4); i > 0; i--)
            json_write_test_put_random(rng, out, kind == 4 ? "m" : NULL, depth + 1);
        json_close(out, kind == 4 ? '}' : ']');
    }
}

static void test_random_texts_are_json(void **state)
{
    struct random rng = random_seeded(testing_seed());
    struct buffer out;

    (void)state;
    buffer_init(&out);
    for (int run = 0; run < 2000; run++) {
        struct json_reader reader;

        buffer_clear(&out);
        json_write_test_put_random(&rng, &out, NULL, 0);
        json_reader_init(&reader, buffer_bytes(&out));
        if (!json_skip(&reader, NULL) || !json_finish(&reader))
            fail_msg("run %d: %.*s", run, (int)out.size, out.data);
    }
    buffer_deinit(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_kind),
        cmocka_unit_test(test_random_texts_are_json),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
