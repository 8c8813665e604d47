/* fifo_fuzz.c - verbs made of bytes, to a FIFO and to a model, which must agree. */
#include "oracles.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fifo_oracle_run(data, size);
    return 0;
}
