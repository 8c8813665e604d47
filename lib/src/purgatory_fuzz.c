/*
 * Goal: no sequence of calls breaks the purgatory. Method: the fuzzer's bytes are the choices of
 * the model run.
 */
#include "oracles.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct conformance_source source = {.bytes = data, .byte_count = size};

    purgatory_model_run(&source, 10000);
    return 0;
}
