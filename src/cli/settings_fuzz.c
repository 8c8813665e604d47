/*
 * Goal: no config file and no answer can crash the command line, accepted settings can stand in a
 * request, and nothing of a file reaches the terminal as a control character. Method: any bytes as
 * a config file, and as text and JSON for the screen.
 */
#include "cli/screen.h"
#include "cli/settings.h"
#include "cli/value.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void settings_fuzz_check(struct bytes text)
{
    for (size_t i = 0; i < text.size; i++)
        if ((uint8_t)text.data[i] < ' ' || text.data[i] == 0x7f)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes text = {(const char *)data, size}, value;
    struct cli_settings settings = {0};
    struct cli_list members;
    struct buffer out;
    struct error error;
    char name[64];

    if (cli_settings_read(&settings, text, "fuzz", &error) == ERROR_NONE) {
        settings_fuzz_check(bytes_of(settings.url));
        settings_fuzz_check(bytes_of(settings.token));
        if (*settings.url && memcmp(settings.url, "http", 4) != 0)
            abort();
    } else {
        settings_fuzz_check(bytes_of(error.text));
    }
    buffer_init(&out);
    screen_append(&out, text);
    settings_fuzz_check(buffer_bytes(&out));
    if (cli_is_json(text, NULL, NULL)) {
        cli_members_init(&members, text);
        while (cli_members_next(&members, name, &value))
            cli_append_value(&out, value);
        buffer_clear(&out);
        screen_append_json(&out, text);
        settings_fuzz_check(buffer_bytes(&out));
        /* The printed text is JSON as well. */
        if (!buffer_failed(&out) && !cli_is_json(buffer_bytes(&out), NULL, NULL))
            abort();
    }
    buffer_deinit(&out);
    return 0;
}
