/* transfer_line.c - a timer as the request that creates it. */
#include "cli/cli.h"
#include "cli/transfer.h"
#include "cli/value.h"

/* The fields that a timer has as its create had them. */
static const char *const transfer_fields[] = {
    "key",    "target", "payload", "body_base64", "content_type", "headers",
    "labels", "retry",  "watch",   "on_dead",     "on_success",
};

/* The members of a timer's schedule that are fields of a create. `spread` is not: it shows the part
 * of the window that this timer was given, and its times contain it. */
static const char *const transfer_schedule[] = {"every", "cron",  "timezone", "dst",
                                                "count", "until", "late"};

static void transfer_append_members(struct bytes object, const char *const *names, size_t count,
                                    struct buffer *out)
{
    for (size_t i = 0; i < count; i++) {
        struct bytes value = cli_member(object, names[i]);

        if (value.size)
            cli_append_raw(out, names[i], value);
    }
}

bool transfer_append_create(struct bytes timer, struct buffer *out)
{
    struct bytes due = cli_member(timer, "due"), schedule = cli_member(timer, "schedule");

    if (!due.size || !cli_member(timer, "target").size || cli_member(timer, "ended").size)
        return false;
    buffer_append_text(out, "{");
    if (!cli_member(schedule, "cron").size)
        cli_append_raw(out, "at", due);
    transfer_append_members(timer, transfer_fields,
                            sizeof(transfer_fields) / sizeof(*transfer_fields), out);
    transfer_append_members(schedule, transfer_schedule,
                            sizeof(transfer_schedule) / sizeof(*transfer_schedule), out);
    buffer_append_text(out, "}");
    return true;
}
