/*
 * feed.c - a main for a fuzz target where there is no fuzzer: random bytes, as many times as told.
 *
 * Goal: the wheels keep their promises with every compiler, word size and C library. Method:
 * portable_test.py builds the fuzz targets with this main, which needs nothing but the C library.
 */
#include "conformance_oracle.h"
#include "seed.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int main(int argc, char **argv)
{
    static uint8_t bytes[4096];
    unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 100;
    struct conformance_source source = {.state = testing_seed()};

    for (unsigned long round = 0; round < rounds; round++) {
        size_t size = (size_t)conformance_below(&source, sizeof(bytes) + 1);
        for (size_t i = 0; i < size; i++)
            bytes[i] = (uint8_t)conformance_choose(&source);
        LLVMFuzzerTestOneInput(bytes, size);
    }
    printf("%lu inputs\n", rounds);
    return 0;
}
