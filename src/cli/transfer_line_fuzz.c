/*
 * Goal: whatever a server shows as a timer, export writes a line that is one JSON object with a
 * time, a target, and no field that a create refuses. Method: any JSON as a timer; the line is read
 * again.
 */
#include "cli/screen.h"
#include "cli/transfer.h"
#include "cli/value.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes text = {(const char *)data, size};
    struct transfer_losses losses = {0};
    struct buffer made, line;

    buffer_init(&made);
    buffer_init(&line);
    if (cli_is_json(text, NULL, NULL) && transfer_append_create(text, &made, &losses)) {
        screen_append_json(&line, buffer_bytes(&made));
        struct bytes create = buffer_bytes(&line);

        if (!cli_is_json(create, NULL, NULL) || memchr(create.data, '\n', create.size) != NULL)
            abort();
        if (!cli_member(create, "target").size || cli_member(create, "id").size ||
            cli_member(create, "due").size)
            abort();
        if (!cli_member(create, "at").size == !cli_member(create, "cron").size)
            abort();
        if (cli_member(create, "spread").size && losses.spread)
            abort();
    }
    buffer_deinit(&line);
    buffer_deinit(&made);
    return 0;
}
