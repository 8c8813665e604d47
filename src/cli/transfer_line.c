/* transfer_line.c - a timer as the request that creates it. */
#include "calendar/duration.h"
#include "calendar/rfc3339.h"
#include "cli/cli.h"
#include "cli/transfer.h"
#include "cli/value.h"

#include <stdio.h>

#define TRANSFER_DAY_MS (UINT64_C(24) * 3600 * 1000) /* the API takes no longer window */

/* The fields that a timer has as its create had them. */
static const char *const transfer_fields[] = {
    "key",    "target", "payload", "body_base64", "content_type", "headers",
    "labels", "retry",  "watch",   "on_dead",     "on_success",
};

/* The members of a timer's schedule that are fields of a create as they are. */
static const char *const transfer_schedule[] = {"every", "cron",  "timezone",
                                                "dst",   "until", "late"};

static void transfer_append_members(struct bytes object, const char *const *names, size_t count,
                                    struct buffer *out)
{
    for (size_t i = 0; i < count; i++) {
        struct bytes value = cli_member(object, names[i]);

        if (value.size)
            cli_append_raw(out, names[i], value);
    }
}

static uint64_t transfer_duration(struct bytes object, const char *name)
{
    struct buffer text;
    struct error error;
    uint64_t ms;

    buffer_init(&text);
    cli_append_value(&text, cli_member(object, name));
    if (duration_parse(buffer_bytes(&text), &ms, &error))
        ms = 0;
    buffer_deinit(&text);
    return ms;
}

static uint64_t transfer_wall(struct bytes object, const char *name)
{
    struct buffer text;
    struct error error;
    struct wall wall;

    buffer_init(&text);
    cli_append_value(&text, cli_member(object, name));
    if (rfc3339_parse(buffer_bytes(&text), &wall, &error))
        wall.ms = 0;
    buffer_deinit(&text);
    return wall.ms;
}

/* The time of a line is the planned one: a create adds the spread again. */
static void transfer_append_at(struct bytes timer, uint64_t spread_ms, struct buffer *out)
{
    char text[RFC3339_TEXT_SIZE];
    uint64_t due_ms = transfer_wall(timer, "due");

    if (!spread_ms || due_ms <= spread_ms) {
        cli_append_raw(out, "at", cli_member(timer, "due"));
        return;
    }
    rfc3339_format((struct wall){due_ms - spread_ms}, text);
    cli_append_member(out, "at", bytes_of(text));
}

/* A count is of all firings from the first on: those before the time of the line are behind it. */
static void transfer_append_count(struct bytes timer, struct bytes schedule, uint64_t spread_ms,
                                  struct buffer *out)
{
    uint64_t count = cli_number(cli_member(schedule, "count"), 0);
    uint64_t every_ms = transfer_duration(schedule, "every");
    uint64_t due_ms = transfer_wall(timer, "due");
    uint64_t first_ms = cli_member(schedule, "from").size
                            ? transfer_wall(schedule, "from")
                            : transfer_wall(timer, "created") + every_ms;
    uint64_t over = 0;
    char text[24];

    if (!count)
        return;
    if (every_ms && first_ms && due_ms > first_ms + spread_ms)
        over = (due_ms - spread_ms - first_ms) / every_ms;
    snprintf(text, sizeof(text), "%llu", (unsigned long long)(over < count ? count - over : 1));
    cli_append_raw(out, "count", bytes_of(text));
}

/* A window of which the timer gets this part, a hash of its key modulo the window; 0 when none is
 * found. The timer does not show the window that it was given, and any with the part serves. In
 * whole milliseconds up to ten minutes are tried, longer ones in whole seconds. */
static uint64_t transfer_find_window(struct bytes timer, uint64_t part_ms)
{
    static const uint64_t units_ms[] = {3600 * 1000, 60 * 1000, 1000, 1};
    struct buffer key;

    buffer_init(&key);
    cli_append_value(&key, cli_member(timer, "key"));
    const bool has_key = key.size > 0;
    const uint64_t hash = bytes_hash(0, buffer_bytes(&key));
    buffer_deinit(&key);
    for (size_t i = 0; has_key && i < sizeof(units_ms) / sizeof(*units_ms); i++) {
        const uint64_t unit = units_ms[i], max = unit > 1 ? TRANSFER_DAY_MS : 600 * 1000;

        if (part_ms < max)
            for (uint64_t window = (part_ms / unit + 1) * unit; window <= max; window += unit)
                if (hash % window == part_ms)
                    return window;
    }
    return 0;
}

static void transfer_append_spread(uint64_t window_ms, struct buffer *out)
{
    char text[DURATION_TEXT_SIZE], object[DURATION_TEXT_SIZE + 16];

    duration_format(window_ms, text);
    snprintf(object, sizeof(object), "{\"window\":\"%s\"}", text);
    cli_append_raw(out, "spread", bytes_of(object));
}

bool transfer_append_create(struct bytes timer, struct buffer *out, struct transfer_losses *losses)
{
    struct bytes schedule = cli_member(timer, "schedule");
    uint64_t spread_ms = transfer_duration(schedule, "spread"), window_ms = 0;

    if (!cli_member(timer, "due").size || !cli_member(timer, "target").size ||
        cli_member(timer, "ended").size)
        return false;
    if (spread_ms) {
        window_ms = transfer_find_window(timer, spread_ms);
        losses->spread += !window_ms;
    }
    losses->paused += cli_member(timer, "paused").size > 0;
    buffer_append_text(out, "{");
    if (!cli_member(schedule, "cron").size)
        transfer_append_at(timer, window_ms ? spread_ms : 0, out);
    transfer_append_members(timer, transfer_fields,
                            sizeof(transfer_fields) / sizeof(*transfer_fields), out);
    transfer_append_members(schedule, transfer_schedule,
                            sizeof(transfer_schedule) / sizeof(*transfer_schedule), out);
    transfer_append_count(timer, schedule, spread_ms, out);
    if (window_ms)
        transfer_append_spread(window_ms, out);
    buffer_append_text(out, "}");
    return true;
}
