/* config_otel.c - which variable of OpenTelemetry sets which setting. */
#include "ops/config_otel.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#define VALUE_SIZE 4096 /* size of the longest value that is read, with what is added to it */

/* In this order, so that a variable for traces wins over that for all signals. */
static const struct {
    const char *variable, *setting;
    const char *suffix; /* what is appended to the value */
} config_otel_variables[] = {
    {"OTEL_EXPORTER_OTLP_ENDPOINT", "otlp_endpoint", "/v1/traces"},
    {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "otlp_endpoint", ""},
    {"OTEL_EXPORTER_OTLP_HEADERS", "otlp_headers", ""},
    {"OTEL_EXPORTER_OTLP_TRACES_HEADERS", "otlp_headers", ""},
    {"OTEL_EXPORTER_OTLP_TIMEOUT", "otlp_timeout", "ms"},
    {"OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "otlp_timeout", "ms"},
    {"OTEL_SERVICE_NAME", "otlp_service_name", ""},
    {"OTEL_RESOURCE_ATTRIBUTES", "otlp_resource_attributes", ""},
    {"OTEL_TRACES_SAMPLER", "otlp_sampler", ""},
    {"OTEL_TRACES_SAMPLER_ARG", "otlp_sample_ratio", ""},
};

bool config_otel_sampler(const char *name, enum otel_sampler *ret_sampler, bool *ret_obeys_parent)
{
    static const char *const names[] = {
#define X(id, text) [OTEL_SAMPLER_##id] = text,
        OTEL_SAMPLER_LIST(X)
#undef X
    };
    static const char prefix[] = "parentbased_";
    const bool obeys = strncmp(name, prefix, sizeof(prefix) - 1) == 0;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(name + (obeys ? sizeof(prefix) - 1 : 0), names[i]) == 0) {
            *ret_sampler = (enum otel_sampler)i;
            *ret_obeys_parent = obeys;
            return true;
        }
    return false;
}

bool config_otel_ratio(const char *text, double *ret_ratio)
{
    char *end;

    /* strtod takes more, such as blanks, "inf" and hexadecimal digits */
    if (!*text || text[strspn(text, "0123456789.eE-")])
        return false;
    const double ratio = strtod(text, &end);
    if (*end || !(ratio >= 0 && ratio <= 1))
        return false;
    *ret_ratio = ratio;
    return true;
}

/* Returns the value of a variable; NULL if it is not set or empty. */
static const char *config_otel_find(char *const environment[], const char *name)
{
    const size_t size = strlen(name);

    for (; *environment; environment++)
        if (strncmp(*environment, name, size) == 0 && (*environment)[size] == '=')
            return (*environment)[size + 1] ? *environment + size + 1 : NULL;
    return NULL;
}

/* True if the variables turn traces off. */
static bool config_otel_is_off(char *const environment[])
{
    const char *disabled = config_otel_find(environment, "OTEL_SDK_DISABLED");
    const char *exporter = config_otel_find(environment, "OTEL_TRACES_EXPORTER");

    return (disabled && strcasecmp(disabled, "true") == 0) ||
           (exporter && strcmp(exporter, "none") == 0);
}

/* True if the setting, a text, can have the value. Other types are checked where they are set. */
static bool config_otel_fits(const char *setting, const char *value)
{
    enum otel_sampler sampler;
    bool obeys_parent;
    double ratio;

    if (strcmp(setting, "otlp_sampler") == 0)
        return config_otel_sampler(value, &sampler, &obeys_parent);
    return strcmp(setting, "otlp_sample_ratio") != 0 || config_otel_ratio(value, &ratio);
}

void config_otel_read(struct config *config, char *const environment[])
{
    const size_t count = sizeof(config_otel_variables) / sizeof(config_otel_variables[0]);

    if (config_otel_is_off(environment))
        return;
    for (size_t i = 0; i < count; i++) {
        const char *value = config_otel_find(environment, config_otel_variables[i].variable);
        const char *suffix = config_otel_variables[i].suffix;
        char text[VALUE_SIZE];
        struct error ignored;

        if (!value || strlen(value) + strlen(suffix) >= sizeof(text))
            continue;
        size_t size = strlen(value);
        while (*suffix == '/' && size > 0 && value[size - 1] == '/')
            size--;
        snprintf(text, sizeof(text), "%.*s%s", (int)size, value, suffix);
        if (config_otel_fits(config_otel_variables[i].setting, text))
            config_set(config, config_otel_variables[i].setting, text, &ignored);
    }
}
