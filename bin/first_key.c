/* first_key.c - see first_key.h. */
#include "first_key.h"

#include "delivery/named.h"
#include "delivery/token_keys.h"
#include "sys/clock.h"

static void first_key_done(struct node_hold *hold)
{
    atomic_store(&list_item(hold, struct first_key, node)->is_asked, false);
}

/* Logs each cause of a failure once. VERSION_MISMATCH is none: another node made the key. */
static void first_key_log(struct first_key *first_key, enum error_code code, const char *cause,
                          const struct event_log *log)
{
    struct event_log_line line;

    if (code == first_key->logged)
        return;
    first_key->logged = code;
    if (!code || code == ERROR_VERSION_MISMATCH)
        return;
    event_log_begin(&line, log, EVENT_LOG_ERROR, "token_key_failed");
    event_log_text(&line, "cause", *cause ? cause : error_title(code));
    event_log_end(&line);
}

/* Asks the node for a definition with one key, unless there is a definition. */
static void first_key_make(struct first_key *first_key, const struct config *config,
                           struct node *node, const struct event_log *log)
{
    const struct token_keys_rotation rotation = {.algorithm = JWT_ES256,
                                                 .now = wall_machine_now(),
                                                 .life_ms = config->webhook_token_life_ms};
    struct error error = {.text = ""};

    buffer_clear(&first_key->value);
    const enum error_code code = token_keys_rotate(named_vault(node_named(node)), (struct bytes){0},
                                                   &rotation, &first_key->value, &error);
    first_key->node = (struct node_hold){
        .kind = NODE_HOLD_DEFINE,
        .at = wall_now(),
        .definition = {.key = token_keys_row_key(first_key->key),
                       .value = buffer_bytes(&first_key->value)},
        .done = first_key_done,
    };
    if (code) {
        first_key_log(first_key, code, error.text, log);
        return;
    }
    atomic_store(&first_key->is_asked, true);
    node_hold(node, &first_key->node);
}

bool first_key_look(struct first_key *first_key, const struct config *config, struct node *node,
                    const struct event_log *log)
{
    if (!*config->webhook_token_issuer || *config->webhook_token_keys_file)
        return false;
    if (atomic_load(&first_key->is_asked))
        return true;
    struct definitions *definitions = node_definitions(node);
    const bool has_key = token_keys_row(definitions) != NULL;
    definitions_leave(definitions);
    if (has_key) {
        buffer_deinit(&first_key->value);
        return false;
    }
    first_key_log(first_key, first_key->node.result, first_key->node.error.text, log);
    first_key_make(first_key, config, node, log);
    return true;
}

void first_key_deinit(struct first_key *first_key)
{
    buffer_deinit(&first_key->value);
}
