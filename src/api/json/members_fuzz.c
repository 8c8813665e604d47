/*
 * Goal: no body of a few fields makes the reader crash, read past its input, or find a value that
 * is none. Method: any body; each value that is found lies within it and is JSON by itself.
 */
#include "api/json/members.h"

#include "base/json.h"

#include <stdlib.h>

enum { NAMES = 3 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void members_fuzz_check(bool holds)
{
    if (!holds)
        abort();
}

static void check_value(struct bytes json, struct bytes value)
{
    if (!value.data)
        return;
    members_fuzz_check(value.data >= json.data && value.data + value.size <= json.data + json.size);
    struct json_reader reader;
    json_reader_init(&reader, value);
    members_fuzz_check(json_skip(&reader, NULL) && json_finish(&reader));
    struct problem problem;
    size_t count;
    if (!members_count_strings(value, "#", 1, 3, &count, &problem))
        members_fuzz_check(count >= 1 && count <= 3);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[NAMES] = {"ids", "watch", "fire"};
    char *copy = malloc(size + !size); /* so that a look past it is seen */
    const struct bytes json = {copy, size};

    members_fuzz_check(copy != NULL);
    if (size)
        memcpy(copy, data, size);
    struct bytes values[NAMES];
    struct problem problem;
    if (members_read(json, names, NAMES, values, &problem))
        members_fuzz_check(problem.code == ERROR_INVALID || problem.code == ERROR_NOT_JSON);
    else
        for (size_t i = 0; i < NAMES; i++)
            check_value(json, values[i]);
    free(copy);
    return 0;
}
