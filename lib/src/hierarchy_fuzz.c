/*
 * Goal: no sequence of calls and times breaks the hierarchy wheel. Method: the fuzzer's bytes are
 * the choices of the model run, the first of them the wheel's tick and size.
 */
#include "conformance_oracle.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct conformance_kind *kinds[64];
    size_t count = 0;

    for (size_t i = 0; i < conformance_kind_count && count < 64; i++)
        if (strncmp(conformance_kinds[i].name, "hierarchy-", strlen("hierarchy-")) == 0)
            kinds[count++] = &conformance_kinds[i];
    if (size < 2)
        return 0;
    struct conformance_source source = {.bytes = data + 1, .byte_count = size - 1};
    conformance_model_run(kinds[data[0] % count], &source, 10000);
    return 0;
}
