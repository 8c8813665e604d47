/*
 * named_file_fuzz - each definition of a file that is accepted is read as stored, and has no sealed
 * secret and none that is missing; a file that is refused has a reason.
 */
#include "delivery/named_file.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition) ((condition) ? (void)0 : abort())

static void named_file_fuzz_check(const struct definition *row)
{
    struct named_target target;
    struct named_fault fault;

    REQUIRE(definition_is_configured(row) && definition_kind(row) == DEFINITION_TARGET);
    REQUIRE(!named_target_parse(row->value, NAMED_STORED, &target, &fault));
    for (int i = 0; i < NAMED_VALUES_MAX; i++) {
        const struct named_auth_field *field = named_target_field(&target, i);

        REQUIRE(!target.values[i].sealed.size);
        REQUIRE(!field || field->is_optional || named_value_is_set(&target.values[i]));
    }
    named_target_deinit(&target);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct bytes text = {(const char *)data, size};
    static const struct guard guard; /* allows public addresses alone */
    const struct named_options options = {
        .keys = "", .secrets_folder = "", .sensitive_headers = "", .guard = &guard};
    struct definitions *definitions;
    struct named *named;
    struct error error = {.text = ""};

    REQUIRE(!named_create(&options, &named, &error));
    if (named_file_parse(named, text, (struct wall){1}, DEFINITION_CONFIGURED, &definitions,
                         &error)) {
        REQUIRE(error.text[0]);
    } else {
        for (size_t i = 0; i < definitions->count; i++)
            named_file_fuzz_check(&definitions->rows[i]);
        definitions_leave(definitions);
    }
    named_destroy(named);
    return 0;
}
