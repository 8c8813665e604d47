/* sealed_log.c - counts the named targets whose secrets do not open; see sealed_log.h. */
#include "sealed_log.h"

#include "delivery/named.h"
#include "delivery/token_keys.h"

void sealed_log_write(const struct event_log *log, const struct node *node)
{
    struct named *named = node_named(node);
    struct error reason, reason_of_key;
    struct event_log_line line;
    const size_t count = named ? named_count_closed(named, &reason) : 0;

    if (named && !token_keys_are_open(named_vault(named), &reason_of_key)) {
        event_log_begin(&line, log, EVENT_LOG_WARN, "token_keys_closed");
        event_log_text(&line, "cause", reason_of_key.text);
        event_log_text(&line, "hint", "put the key back into secrets_keys, or rotate token keys");
        event_log_end(&line);
    }
    if (!count)
        return;
    event_log_begin(&line, log, EVENT_LOG_WARN, "secrets_closed");
    event_log_number(&line, "named_targets", count);
    event_log_text(&line, "cause", reason.text);
    event_log_text(&line, "hint",
                   "attempts to them fail and are repeated until secrets_keys has the key");
    event_log_end(&line);
}
