/*
 * token_keys.c - shows and rotates the keys of tokens that the daemon makes itself
 * (delivery/token_keys.h).
 *
 * A key is made on a thread of its own, because one for RS256 takes a tenth of a second, in which
 * timers of this thread would be late. A rotation is answered when it is durable.
 */
#include "api/core/call.h"

#include "api/json/members.h"
#include "base/json.h"
#include "base/json_write.h"
#include "calendar/duration.h"
#include "calendar/rfc3339.h"
#include "delivery/named.h"
#include "delivery/token_keys.h"
#include "sys/clock.h"
#include "sys/process.h"

#include <stdlib.h>

struct token_keys_call {
    struct node_hold node;
    struct call *call;
    pthread_t thread;
    bool has_thread;
    struct token_keys_rotation rotation;
    struct buffer value; /* the definition with the new key */
    char key[DEFINITION_KEY_SIZE_MAX];
};

/* ---- showing ---- */

static const char *token_keys_state(const struct token_key *key, const struct token_key *signer,
                                    struct wall now)
{
    if (bytes_equal(key->name, signer->name))
        return "signs";
    return key->signs.ms > now.ms ? "next" : "ends";
}

void token_keys_list(struct call *call)
{
    struct definitions *definitions = node_definitions(call->api->options.node);
    const struct definition *row = token_keys_row(definitions);
    struct bytes value = row ? row->value : (struct bytes){0};
    const struct wall now = wall_machine_now();
    struct token_key key, signer = {.signs = {0}};
    struct buffer body;

    token_keys_signer(value, now, &signer);
    buffer_init(&body);
    json_open(&body, NULL, '{');
    json_open(&body, "keys", '[');
    while (token_keys_next(&value, &key)) {
        if (!token_key_is_shown(&key, now))
            continue;
        json_open(&body, NULL, '{');
        json_put_string(&body, "kid", key.name);
        json_put_string(&body, "alg", key.algorithm);
        json_put_text(&body, "state", token_keys_state(&key, &signer, now));
        rfc3339_put(&body, "made", key.made);
        rfc3339_put(&body, "signs", key.signs);
        if (key.ends.ms)
            rfc3339_put(&body, "ends", key.ends);
        json_close(&body, '}');
    }
    json_close(&body, ']');
    json_close(&body, '}');
    definitions_leave(definitions);
    call_answer_json(call, 200, &body);
}

/* ---- a rotation ---- */

void token_keys_closed(struct call *call)
{
    struct token_keys_call *keys = call->state;

    if (!keys)
        return;
    if (keys->has_thread)
        pthread_join(keys->thread, NULL);
    buffer_deinit(&keys->value);
    free(keys);
}

static void token_keys_answer(struct call *call)
{
    const struct token_keys_call *keys = call->state;

    if (keys->node.result)
        call_answer_error(call, keys->node.result, keys->node.error.text);
    else
        token_keys_list(call);
}

static void token_keys_rotated(struct node_hold *hold)
{
    call_resume(list_item(hold, struct token_keys_call, node)->call, token_keys_answer);
}

static void token_keys_submit(struct call *call)
{
    struct token_keys_call *keys = call->state;

    if (keys->node.result)
        token_keys_answer(call);
    else
        node_hold(call->api->options.node, &keys->node);
}

/* Makes the definition with the new key; on the call's thread. */
static void *token_keys_make(void *context)
{
    struct token_keys_call *keys = context;
    struct node *node = keys->call->api->options.node;
    struct definitions *definitions = node_definitions(node);
    const struct definition *row = token_keys_row(definitions);

    keys->node.result =
        token_keys_rotate(named_vault(node_named(node)), row ? row->value : (struct bytes){0},
                          &keys->rotation, &keys->value, &keys->node.error);
    keys->node.definition.value = buffer_bytes(&keys->value);
    keys->node.definition.version = row ? row->version : 0;
    definitions_leave(definitions);
    call_resume(keys->call, token_keys_submit);
    return NULL;
}

static enum error_code token_keys_read_overlap(struct bytes value, uint64_t *ret_ms,
                                               struct problem *ret_problem)
{
    char room[DURATION_TEXT_SIZE];
    struct json_reader reader;
    struct json_string string;
    struct error error;
    size_t size = 0;

    json_reader_init(&reader, value);
    if (json_peek(&reader) != JSON_STRING || !json_read_string(&reader, &string) ||
        !json_string_decode(&string, room, sizeof(room), &size) ||
        duration_parse((struct bytes){room, size}, ret_ms, &error))
        return problem_set(ret_problem, ERROR_INVALID, "#/overlap",
                           "It must be a duration, such as \"1d\"");
    return *ret_ms <= TOKEN_KEYS_OVERLAP_MS_MAX
               ? ERROR_NONE
               : problem_set(ret_problem, ERROR_INVALID, "#/overlap", "It may be 30d at most");
}

/* Reads {"overlap": "1d", "alg": "ES256"}; both may be left out, and so may the body. */
static enum error_code token_keys_read(struct bytes body, struct token_keys_rotation *rotation,
                                       struct problem *ret_problem)
{
    static const char *const names[] = {"overlap", "alg"};
    struct bytes values[2] = {{0}};
    enum error_code code = ERROR_NONE;

    rotation->overlap_ms = TOKEN_KEYS_OVERLAP_MS;
    if (body.size)
        code = members_read(body, names, 2, values, ret_problem);
    if (!code && values[0].data)
        code = token_keys_read_overlap(values[0], &rotation->overlap_ms, ret_problem);
    rotation->algorithm = bytes_equal(values[1], BYTES("\"RS256\"")) ? JWT_RS256 : JWT_ES256;
    if (!code && values[1].data && rotation->algorithm == JWT_ES256 &&
        !bytes_equal(values[1], BYTES("\"ES256\"")))
        code = problem_set(ret_problem, ERROR_INVALID, "#/alg", "It must be ES256 or RS256");
    return code;
}

void token_keys_rotate_begin(struct call *call)
{
    if (http_request_content_length(call->http) != 0)
        call_begin_json(call);
}

/* Refuses a rotation by a daemon that does not sign with keys of its own. True if answered. */
static bool token_keys_refuses(struct call *call)
{
    const struct config *config = call->api->options.config;
    const char *reason = NULL;

    if (*config->webhook_token_keys_file)
        reason = "webhook_token_keys_file has the keys: add one there, and send SIGHUP";
    else if (!*config->webhook_token_issuer)
        reason = "The daemon issues no tokens: set webhook_token_issuer";
    if (reason)
        call_answer_error(call, ERROR_INVALID, reason);
    return reason != NULL;
}

void token_keys_rotate_end(struct call *call)
{
    const struct config *config = call->api->options.config;
    struct token_keys_rotation rotation = {.now = wall_machine_now(),
                                           .life_ms = config->webhook_token_life_ms};
    struct problem problem;

    if (token_keys_read(buffer_bytes(&call->body), &rotation, &problem)) {
        call_answer_problem(call, &problem);
        return;
    }
    if (token_keys_refuses(call))
        return;
    struct token_keys_call *keys = calloc(1, sizeof(*keys));
    if (!keys) {
        call_answer_error(call, ERROR_NO_MEMORY, "");
        return;
    }
    call->state = keys;
    keys->call = call;
    keys->rotation = rotation;
    keys->node = (struct node_hold){.kind = NODE_HOLD_DEFINE,
                                    .at = wall_now(),
                                    .definition = {.key = token_keys_row_key(keys->key)},
                                    .done = token_keys_rotated};
    keys->has_thread = true;
    if (thread_start(&keys->thread, token_keys_make, keys, "tw-token-key")) {
        keys->has_thread = false;
        call_answer_error(call, ERROR_NO_MEMORY, "");
    }
}
