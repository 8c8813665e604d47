/* watch.c - a stream of events, of which only the arrival counts. */
#include "cli/watch.h"

#include "sys/clock.h"

#define WATCH_STALE_MS 30000 /* time after which the printed distances from now are out of date */

static bool watch_on_events(void *context, struct bytes chunk)
{
    struct watch *watch = context;

    (void)chunk;
    return watch->has_changed = true;
}

static void watch_begin(struct watch *watch)
{
    struct cli_request request = {.method = "GET",
                                  .path = "/v1/events",
                                  .sink = watch_on_events,
                                  .context = watch,
                                  .is_quiet = true};

    watch->is_open = cli_call_start(watch->cli, watch->call, &request, &watch->answer);
}

static void watch_end(struct watch *watch)
{
    if (!watch->is_open)
        return;
    (void)cli_call_end(watch->cli, watch->call); /* the next list will report a failure */
    cli_answer_deinit(&watch->answer);
    watch->is_open = false;
}

/* Waits for a change or the end of the stream. Returns false after a signal. */
static bool watch_wait_change(struct watch *watch, uint64_t ms)
{
    struct pollfd source = {.fd = signals_fd(&watch->cli->signals), .events = POLLIN};
    struct instant now = instant_now(), end = instant_add_ms(now, ms);

    while (watch->is_open && !watch->has_changed && now.ns < end.ns) {
        cli_calls_wait(watch->calls, &source, 1, (instant_since_ns(now, end) + 999999) / 1000000);
        if (!cli_wait(watch->cli, 0))
            return false;
        if (cli_call_is_over(watch->call))
            watch_end(watch);
        now = instant_now();
    }
    watch->has_changed = false;
    return true;
}

enum cli_exit watch_open(struct watch *watch, struct cli *cli, uint64_t ms)
{
    *watch = (struct watch){.cli = cli, .calls = cli_calls_create()};
    if (!watch->calls || !(watch->call = cli_call_create(watch->calls)))
        return cli_complain(CLI_EXIT_FAILED, "out of memory");
    watch_begin(watch);
    return watch_wait_change(watch, ms) ? CLI_EXIT_DONE : CLI_EXIT_STOPPED;
}

void watch_close(struct watch *watch)
{
    watch_end(watch);
    cli_call_destroy(watch->call);
    cli_calls_destroy(watch->calls);
}

bool watch_wait(struct watch *watch, uint64_t pause_ms)
{
    if (!cli_wait(watch->cli, pause_ms))
        return false;
    if (!watch->is_open)
        watch_begin(watch);
    return watch_wait_change(watch, WATCH_STALE_MS);
}
