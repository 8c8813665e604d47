/* virtual_clock.c - starts the daemon with a clock that stands until a client moves it. */
#include "steps.h"

#include "http/server.h"
#include "node/clock_mark.h"
#include "sys/clock.h"

#include <stdio.h>
#include <string.h>

#define CLOCK_ALLOW "127.0.0.0/8,::1/128" /* where the receivers of tests are */

enum error_code clock_check(const struct config *config, struct error *ret_error)
{
    struct clock_choice choice;
    const enum error_code code = clock_choice_parse(config->clock, &choice, ret_error);

    if (code || !choice.is_virtual)
        return code;
    if (config_is_cluster(config))
        return error_set(
            ret_error, ERROR_INVALID,
            "clock: a cluster has a real clock; do not set cluster_log or cluster_brokers");
    if (!http_address_is_loopback(config->listen_address))
        return error_set(ret_error, ERROR_INVALID,
                         "clock: a virtual clock is for tests: set listen_address to 127.0.0.1");
    return ERROR_NONE;
}

enum error_code clock_allow_loopback(struct config *config, struct error *ret_error)
{
    struct clock_choice choice;
    const enum error_code code = clock_choice_parse(config->clock, &choice, ret_error);

    if (code || !choice.is_virtual)
        return code;
    const bool is_allowed = strstr(config->webhook_allow, CLOCK_ALLOW) != NULL;
    const size_t used = strlen(config->webhook_allow);
    if (!is_allowed && used + sizeof("," CLOCK_ALLOW) > sizeof(config->webhook_allow))
        return error_set(ret_error, ERROR_INVALID, "webhook_allow: no room for " CLOCK_ALLOW);
    if (!is_allowed)
        snprintf(config->webhook_allow + used, sizeof(config->webhook_allow) - used, "%s%s",
                 used ? "," : "", CLOCK_ALLOW);
    return ERROR_NONE;
}

enum error_code clock_start(const struct config *config, struct error *ret_error)
{
    struct clock_choice choice;
    struct wall at;
    enum error_code code = clock_choice_parse(config->clock, &choice, ret_error);

    if (!code)
        code = clock_mark_begin(config->data_folder, &choice, wall_machine_now(), &at, ret_error);
    if (!code && choice.is_virtual)
        clock_start_virtual(at);
    return code;
}
