/*
 * Goal: no config file can crash the reader, and what it accepts is valid and reads back the same.
 * Method: any bytes as a file; an accepted one is printed and read again.
 */
#include "ops/config_load.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct config config;

    config_init(&config);
    struct config again;
    config_init(&again);
    struct error error;
    if (config_read(&config, (struct bytes){(const char *)data, size}, "fuzz", &error))
        return 0;
    struct buffer first;
    buffer_init(&first);
    struct buffer second;
    buffer_init(&second);
    config_format(&config, &first);
    /* A text joined from several lines can print as a line that is too long to be read. */
    if (config_read(&again, buffer_bytes(&first), "again", &error) == ERROR_NONE) {
        config_format(&again, &second);
        if (!config.webhook_secret[0] && !config.broker_connections[0] && !config.secrets_keys[0] &&
            !config.cluster_secret[0] && !config.cluster_log[0] && !config.sources[0] &&
            !bytes_equal(buffer_bytes(&first), buffer_bytes(&second)))
            abort();
    } else if (!strstr(error.text, "the line is too long")) {
        abort();
    }
    buffer_deinit(&first);
    buffer_deinit(&second);
    return 0;
}
