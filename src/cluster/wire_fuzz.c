/* Goal: no bytes make the reader of messages leave its bounds, and what is accepted is the only
 * encoding of its contents. Method: the input is a message of commands and, behind it, one of
 * answers to them, whose checksums are made to fit; what is accepted is written again and gives
 * equal bytes. The first two bytes are the size of the first message. */
#include "base/checksum.h"
#include "cluster/wire.h"

#include <assert.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { COMMANDS_MAX = 64 };

/* The bytes, in memory of exactly their size, under a checksum that fits. */
static struct bytes sealed(const uint8_t *data, size_t size)
{
    char *copy = malloc(size + 4);

    assert(copy);
    memcpy(copy, data, size);
    put_le(copy + size, checksum_crc32c(0, copy, size), 4);
    return (struct bytes){copy, size + 4};
}

static void assert_wire_same(struct buffer *again, struct bytes message)
{
    assert(!buffer_failed(again));
    assert(bytes_equal(buffer_bytes(again), message));
    buffer_deinit(again);
}

static size_t try_commands(struct bytes message, struct command commands[COMMANDS_MAX])
{
    struct wire_reader reader;
    size_t count = 0;

    if (wire_open(message, &reader, NULL) || reader.head.kind != WIRE_COMMANDS)
        return 0;
    const size_t wanted = reader.head.count < COMMANDS_MAX ? reader.head.count : COMMANDS_MAX;
    while (count < wanted && wire_take_command(&reader, &commands[count]))
        count++;
    if (count < reader.head.count || !wire_is_over(&reader))
        return count;
    struct buffer again;
    buffer_init(&again);
    const size_t begin = wire_begin(&again, &reader.head);
    for (size_t i = 0; i < count; i++)
        assert(wire_put_command(&again, begin, &commands[i]) == ERROR_NONE);
    wire_end(&again, begin);
    assert_wire_same(&again, message);
    return count;
}

static void try_answers(struct bytes message, struct command commands[], size_t count)
{
    struct wire_answer answers[COMMANDS_MAX];
    struct wire_held held[COMMANDS_MAX];
    struct wire_reader reader;
    size_t taken = 0;

    if (wire_open(message, &reader, NULL) || reader.head.kind != WIRE_ANSWERS)
        return;
    while (taken < count && taken < reader.head.count &&
           wire_take_answer(&reader, &commands[taken], &answers[taken], &held[taken]))
        taken++;
    if (taken == reader.head.count && wire_is_over(&reader)) {
        struct buffer again;

        buffer_init(&again);
        const size_t begin = wire_begin(&again, &reader.head);
        for (size_t i = 0; i < taken; i++)
            wire_put_answer(&again, begin, &answers[i], &commands[i]);
        wire_end(&again, begin);
        assert_wire_same(&again, message);
    }
    for (size_t i = 0; i < taken; i++)
        wire_held_deinit(&held[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct command commands[COMMANDS_MAX];

    if (size < 2)
        return 0;
    const size_t most = size - 2, wanted = get_le(data, 2);
    const size_t first = wanted < most ? wanted : most;
    const struct bytes message = sealed(data + 2, first);
    const struct bytes answers = sealed(data + 2 + first, most - first);
    const size_t count = try_commands(message, commands);
    try_answers(answers, commands, count);
    for (size_t i = 0; i < count; i++)
        wire_command_deinit(&commands[i]);
    free((char *)message.data);
    free((char *)answers.data);
    return 0;
}
