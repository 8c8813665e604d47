/*
 * named_target_fuzz - a definition that is accepted, written in its stored form and read again is
 * the same one; one that is refused has a place and a reason. Secrets are read as stored, so that
 * what is written has all of it.
 */
#include "delivery/named_target.h"

#include "base/json_write.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition) ((condition) ? (void)0 : abort())

static void named_target_fuzz_write(const struct named_target *target, struct buffer *out)
{
    buffer_init(out);
    json_open(out, NULL, '{');
    named_target_put(target, NAMED_VIEW_STORED, out);
    json_close(out, '}');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct bytes json = {(const char *)data, size};
    struct named_target target, again;
    struct named_fault fault;
    struct buffer first, second;

    if (named_target_parse(json, NAMED_SENT, &target, &fault))
        REQUIRE(fault.reason[0]);
    else
        named_target_deinit(&target);
    if (named_target_parse(json, NAMED_STORED, &target, &fault))
        return 0;
    named_target_fuzz_write(&target, &first);
    for (int i = 0; target.auth && target.auth->fields[i].name; i++)
        if (target.auth->fields[i].is_secret && !target.values[i].sealed.size &&
            !target.values[i].ref.size) {
            buffer_deinit(&first);
            named_target_deinit(&target);
            return 0; /* a secret that is missing, or not sealed, is not stored so */
        }
    REQUIRE(!named_target_parse(buffer_bytes(&first), NAMED_STORED, &again, &fault));
    named_target_fuzz_write(&again, &second);
    REQUIRE(bytes_equal(buffer_bytes(&first), buffer_bytes(&second)));
    buffer_deinit(&first);
    buffer_deinit(&second);
    named_target_deinit(&again);
    named_target_deinit(&target);
    return 0;
}
