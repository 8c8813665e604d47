/*
 * config_flags_fuzz - arguments and variables of the environment, a line each: no crash, a refusal
 * says why, and what is accepted is printed as a file that reads as the same. Nothing here names a
 * file.
 */
#include "ops/config_load.h"

#include <stdlib.h>

enum {
    WORDS_MAX = 32,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition) ((condition) ? (void)0 : abort())

/* Cuts the text at its newlines: variables are those with the prefix. */
static void split(char *text, char **ret_arguments, int *ret_argument_count, char **ret_variables)
{
    int arguments = 0;

    ret_arguments[arguments++] = (char *)"tickwheeld";
    int variables = 0;
    for (char *line = text; line && arguments < WORDS_MAX && variables < WORDS_MAX;) {
        char *end = strchr(line, '\n');

        if (end)
            *end++ = '\0';
        if (strncmp(line, "TICKWHEEL_", 10) == 0)
            ret_variables[variables++] = line;
        else
            ret_arguments[arguments++] = line;
        line = end;
    }
    ret_arguments[arguments] = ret_variables[variables] = NULL;
    *ret_argument_count = arguments;
}

static bool has_secret(const struct config *config)
{
    return *config->webhook_secret || *config->broker_connections || *config->secrets_keys ||
           *config->cluster_secret || *config->cluster_log || *config->sources;
}

static void check_printed(const struct config *config)
{
    struct buffer first;

    buffer_init(&first);
    struct buffer second;
    buffer_init(&second);
    struct config again;
    config_init(&again);
    config_format(config, &first);
    struct error error;
    /* A flag may be longer than a line of a file. */
    if (config_read(&again, buffer_bytes(&first), "again", &error)) {
        REQUIRE(strstr(error.text, "the line is too long") || has_secret(config));
    } else if (!has_secret(config)) {
        config_format(&again, &second);
        REQUIRE(bytes_equal(buffer_bytes(&first), buffer_bytes(&second)));
    }
    buffer_deinit(&first);
    buffer_deinit(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);

    REQUIRE(text);
    memcpy(text, data, size);
    text[size] = '\0';
    if (!strcasestr(text, "file") && !strcasestr(text, "config")) {
        char *arguments[WORDS_MAX + 1], *variables[WORDS_MAX + 1];
        int count;
        split(text, arguments, &count, variables);
        struct config_request request;
        struct error error = {0};
        struct config config;
        if (config_load(count, arguments, variables, &config, &request, &error))
            REQUIRE(error.text[0] && strnlen(error.text, sizeof(error.text)) < sizeof(error.text));
        else if (request.action == CONFIG_ACTION_RUN)
            check_printed(&config);
    }
    free(text);
    return 0;
}
