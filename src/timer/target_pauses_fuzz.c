/*
 * target_pauses_fuzz - behind a mark and before a checksum that are made to fit, bytes are a table
 * exactly if encoding what they say gives these bytes; its rows are in order, and each is found by
 * its name. A text is the name of a target if, and only if, it names itself.
 */
#include "timer/target_pauses.h"

#include "base/checksum.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition) ((condition) ? (void)0 : abort())

static void target_pauses_fuzz_name(struct bytes text)
{
    char room[TARGET_PAUSE_NAME_SIZE_MAX], other[TARGET_PAUSE_NAME_SIZE_MAX];
    struct bytes name, again;
    struct error error = {.text = ""};

    if (target_pause_parse_name(text, room, &name, &error)) {
        REQUIRE(error.text[0]);
        return;
    }
    REQUIRE(name.size > 0 && name.size <= TARGET_PAUSE_NAME_SIZE_MAX);
    REQUIRE(!target_pause_parse_name(name, other, &again, &error) && bytes_equal(name, again));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buffer bytes, again;
    struct target_pauses *pauses;
    char number[4];

    target_pauses_fuzz_name((struct bytes){(const char *)data, size});
    buffer_init(&bytes);
    buffer_append_text(&bytes, "TWPAUSE1");
    buffer_append(&bytes, data, size);
    put_le(number, checksum_crc32c(0, bytes.data, bytes.size), 4);
    buffer_append(&bytes, number, 4);
    const enum error_code code = target_pauses_decode(buffer_bytes(&bytes), &pauses);
    REQUIRE(code == ERROR_NONE || code == ERROR_CORRUPT || code == ERROR_NO_MEMORY);
    if (!code) {
        buffer_init(&again);
        target_pauses_encode(pauses, &again);
        REQUIRE(bytes_equal(buffer_bytes(&bytes), buffer_bytes(&again)));
        buffer_deinit(&again);
        for (size_t i = 0; i < pauses->count; i++)
            REQUIRE(target_pauses_find(pauses, pauses->rows[i].tenant, pauses->rows[i].name) ==
                    &pauses->rows[i]);
        target_pauses_leave(pauses);
    }
    buffer_deinit(&bytes);
    return 0;
}
