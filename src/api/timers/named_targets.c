/*
 * named_targets.c - defines, shows and removes named targets of a tenant (delivery/named_target.h).
 *
 * A change is answered when it is durable. Secrets are sealed before they reach the node, and no
 * answer shows them. A target of the configuration (delivery/named_file.h) is shown, and refuses
 * changes.
 */
#include "api/timers/timers.h"

#include "api/json/timer_json_parse.h"
#include "base/json_write.h"
#include "calendar/rfc3339.h"
#include "delivery/named.h"
#include "delivery/token_keys.h"
#include "sys/clock.h"

#include <stdio.h>
#include <stdlib.h>

struct named_call {
    struct node_hold node;
    struct call *call;
    uint64_t if_version; /* If-Match; NODE_ANY_VERSION for none */
    bool is_new;
    struct buffer value; /* stored form of the definition */
    char key[DEFINITION_KEY_SIZE_MAX];
    /* Of a reseal: */
    size_t next;           /* number of rows that were looked at */
    uint64_t sealed_count; /* number of definitions that were sealed anew */
};

/* ---- answers ---- */

/* Appends the definition to the open object. */
static bool named_targets_put(const struct call *call, const struct definition *row,
                              struct buffer *out)
{
    struct named_target target;
    struct named_fault fault;

    if (named_target_parse(row->value, NAMED_STORED, &target, &fault))
        return false;
    json_put_string(out, "name", definition_name(row));
    target.sensitive_headers = call_view(call).sensitive_headers;
    named_target_put(&target, NAMED_VIEW_SHOWN, out);
    if (definition_is_configured(row))
        json_put_text(out, "defined_by", "configuration");
    json_put_number(out, "version", definition_version(row));
    rfc3339_put(out, "changed", row->since);
    named_target_deinit(&target);
    return true;
}

static const struct definition *named_targets_find(const struct call *call,
                                                   const struct definitions *definitions)
{
    return definitions_find(definitions, caller_tenant(&call->caller), DEFINITION_TARGET,
                            call->parameter);
}

static void named_targets_answer(struct call *call, int status)
{
    struct definitions *definitions = node_definitions(call->api->options.node);
    const struct definition *row = named_targets_find(call, definitions);
    struct http_response response = {.status = status, .content_type = "application/json"};

    if (!row) {
        definitions_leave(definitions);
        call_answer_error(call, ERROR_NOT_FOUND, "There is no named target of this name");
        return;
    }
    json_open(&response.body, NULL, '{');
    const bool is_read = named_targets_put(call, row, &response.body);
    json_close(&response.body, '}');
    if (!definition_is_configured(row))
        http_response_header(&response, "ETag", "\"%llu\"", (unsigned long long)row->version);
    definitions_leave(definitions);
    if (!is_read) {
        buffer_deinit(&response.body);
        call_answer_error(call, ERROR_CORRUPT, "This definition cannot be read");
        return;
    }
    call_answer(call, &response);
}

void named_targets_get(struct call *call)
{
    named_targets_answer(call, 200);
}

void named_targets_list(struct call *call)
{
    struct definitions *definitions = node_definitions(call->api->options.node);
    struct buffer body;
    size_t count;
    const struct definition *rows =
        definitions_of(definitions, caller_tenant(&call->caller), DEFINITION_TARGET, &count);

    buffer_init(&body);
    json_open(&body, NULL, '{');
    json_open(&body, "targets", '[');
    for (size_t i = 0; i < count; i++) {
        json_open(&body, NULL, '{');
        if (!named_targets_put(call, &rows[i], &body))
            json_put_string(&body, "name", definition_name(&rows[i]));
        json_close(&body, '}');
    }
    json_close(&body, ']');
    json_close(&body, '}');
    definitions_leave(definitions);
    call_answer_json(call, 200, &body);
}

/* ---- changes ---- */

static void named_targets_answer_removed(struct call *call)
{
    struct buffer body;

    buffer_init(&body);
    json_open(&body, NULL, '{');
    json_put_string(&body, "name", call->parameter);
    json_close(&body, '}');
    call_answer_json(call, 200, &body);
}

static void named_targets_changed(struct call *call)
{
    struct named_call *named = call->state;

    if (named->node.result)
        call_answer_error(call, named->node.result, named->node.error.text);
    else if (named->node.kind == NODE_HOLD_UNDEFINE)
        named_targets_answer_removed(call);
    else
        named_targets_answer(call, named->is_new ? 201 : 200);
}

static void named_targets_done(struct node_hold *hold)
{
    call_resume(list_item(hold, struct named_call, node)->call, named_targets_changed);
}

/* Prepares a change. NULL if answered. */
static struct named_call *named_targets_prepare(struct call *call)
{
    struct named_call *named = calloc(1, sizeof(*named));

    if (!named) {
        call_answer_error(call, ERROR_NO_MEMORY, "");
        return NULL;
    }
    named->call = call;
    named->if_version = NODE_ANY_VERSION;
    call->state = named;
    return named;
}

/* Reads If-Match, which the head has. NULL if answered. */
static struct named_call *named_targets_begin(struct call *call)
{
    struct named_call *named = named_targets_prepare(call);
    struct error error;
    char room[DEFINITION_KEY_SIZE_MAX];

    if (!named)
        return NULL;
    if (!target_name_is_valid(call->parameter)) {
        error_set(&error, ERROR_INVALID,
                  "A name is a letter and up to %d of A-Z a-z 0-9 . _ -, and not a scheme",
                  DEFINITION_NAME_SIZE_MAX - 1);
        call_answer_error(call, ERROR_INVALID, error.text);
        return NULL;
    }
    if (!timers_read_if_match(call))
        return NULL;
    if (call->node.command.if_version)
        named->if_version = call->node.command.if_version;
    const struct bytes key = definition_key(DEFINITION_TARGET, call->parameter, room);
    memcpy(named->key, key.data, key.size);
    named->node = (struct node_hold){
        .at = wall_now(),
        .definition = {.tenant = caller_tenant(&call->caller),
                       .key = {named->key, key.size},
                       .version = named->if_version},
        .done = named_targets_done,
    };
    return named;
}

void named_targets_closed(struct call *call)
{
    struct named_call *named = call->state;

    seal_wipe(&call->body); /* it has secrets */
    if (!named)
        return;
    buffer_deinit(&named->value);
    free(named);
}

void named_targets_set_begin(struct call *call)
{
    if (named_targets_begin(call))
        call_begin_json(call);
}

static void named_targets_refuse_configured(struct call *call)
{
    struct error error;

    error_set(&error, ERROR_CONFIGURED,
              "It is defined in the daemon's named_targets_file, %.120s: change it there, and send "
              "SIGHUP",
              call->api->options.config->named_targets_file);
    call_answer_error(call, ERROR_CONFIGURED, error.text);
}

static void named_targets_refuse(struct call *call, enum error_code code,
                                 const struct named_fault *fault)
{
    struct problem problem;
    char pointer[sizeof(problem.faults[0].pointer)], name[TIMER_NAME_TEXT_SIZE];

    if (code == ERROR_CONFIGURED) {
        named_targets_refuse_configured(call);
        return;
    }
    if (code != ERROR_INVALID && code != ERROR_NOT_JSON) {
        call_answer_error(call, code, "");
        return;
    }
    if (fault->member[0]) {
        timer_pointer(fault->place, bytes_of(fault->member), pointer, sizeof(pointer));
        timer_name_text(bytes_of(fault->member), name);
        problem_set(&problem, code, pointer, "There is no field `%s`", name);
    } else {
        problem_set(&problem, code, fault->place, "%s", fault->reason);
    }
    call_answer_problem(call, &problem);
}

/* Makes the stored form of the body. The version that it was made from is that of the row: a secret
 * that another request has just set is not lost. */
static enum error_code named_targets_store(struct call *call, struct named_call *named,
                                           struct named_fault *ret_fault)
{
    struct definitions *definitions = node_definitions(call->api->options.node);
    const struct definition *row = named_targets_find(call, definitions);
    struct named_target target;
    enum error_code code =
        row && definition_is_configured(row)
            ? ERROR_CONFIGURED
            : named_target_parse(buffer_bytes(&call->body), NAMED_SENT, &target, ret_fault);

    named->is_new = !row;
    if (!code) {
        code = named_store(node_named(call->api->options.node), caller_tenant(&call->caller),
                           call->parameter, named->node.at, &target,
                           row ? row->value : (struct bytes){0}, &named->value, ret_fault);
        named_target_deinit(&target);
    }
    if (named->if_version == NODE_ANY_VERSION)
        named->node.definition.version = row ? row->version : 0;
    definitions_leave(definitions);
    return code;
}

void named_targets_set(struct call *call)
{
    struct named_call *named = call->state;
    struct named_fault fault = {.reason = ""};
    const enum error_code code = named_targets_store(call, named, &fault);

    if (code) {
        named_targets_refuse(call, code, &fault);
        return;
    }
    named->node.kind = NODE_HOLD_DEFINE;
    named->node.definition.value = buffer_bytes(&named->value);
    node_hold(call->api->options.node, &named->node);
}

/* Makes the stored form with the secrets of the body. ERROR_NOT_FOUND if there is no target. */
static enum error_code named_targets_turn(struct call *call, struct named_call *named,
                                          struct named_fault *ret_fault)
{
    struct definitions *definitions = node_definitions(call->api->options.node);
    const struct definition *row = named_targets_find(call, definitions);
    struct named_target rotation;
    uint64_t overlap_ms;
    enum error_code code =
        row && definition_is_configured(row)
            ? ERROR_CONFIGURED
            : named_rotation_parse(buffer_bytes(&call->body), &rotation, &overlap_ms, ret_fault);

    if (!code) {
        code = row ? named_rotate(node_named(call->api->options.node), row, named->node.at,
                                  &rotation, overlap_ms, &named->value, ret_fault)
                   : ERROR_NOT_FOUND;
        named_target_deinit(&rotation);
    }
    if (row && named->if_version == NODE_ANY_VERSION)
        named->node.definition.version = row->version;
    definitions_leave(definitions);
    return code;
}

void named_targets_rotate(struct call *call)
{
    struct named_call *named = call->state;
    struct named_fault fault = {.reason = ""};
    const enum error_code code = named_targets_turn(call, named, &fault);

    if (code == ERROR_NOT_FOUND) {
        call_answer_error(call, code, "There is no named target of this name");
        return;
    }
    if (code) {
        named_targets_refuse(call, code, &fault);
        return;
    }
    named->node.kind = NODE_HOLD_DEFINE;
    named->node.definition.value = buffer_bytes(&named->value);
    node_hold(call->api->options.node, &named->node);
}

void named_targets_remove_begin(struct call *call)
{
    named_targets_begin(call);
}

void named_targets_remove(struct call *call)
{
    struct named_call *named = call->state;
    struct definitions *definitions = node_definitions(call->api->options.node);
    const struct definition *row = named_targets_find(call, definitions);
    const bool is_configured = row && definition_is_configured(row);

    definitions_leave(definitions);
    if (is_configured) {
        named_targets_refuse_configured(call);
        return;
    }
    named->node.kind = NODE_HOLD_UNDEFINE;
    node_hold(call->api->options.node, &named->node);
}

/* ---- sealing anew ---- */

static void named_targets_reseal_next(struct call *call);

static void named_targets_resealed(struct call *call)
{
    struct named_call *named = call->state;

    if (named->node.result && named->node.result != ERROR_VERSION_MISMATCH &&
        named->node.result != ERROR_NOT_FOUND) {
        call_answer_error(call, named->node.result, named->node.error.text);
        return;
    }
    named->sealed_count += !named->node.result;
    named->next -= named->node.result == ERROR_VERSION_MISMATCH; /* it was changed: again */
    named_targets_reseal_next(call);
}

static void named_targets_reseal_done(struct node_hold *hold)
{
    call_resume(list_item(hold, struct named_call, node)->call, named_targets_resealed);
}

static void named_targets_answer_reseal(struct call *call)
{
    const struct named_call *named = call->state;
    struct buffer body;

    buffer_init(&body);
    json_open(&body, NULL, '{');
    json_put_number(&body, "sealed", named->sealed_count);
    json_close(&body, '}');
    call_answer_json(call, 200, &body);
}

/* Finds the next definition with a secret by another key, and its form with the first one. The
 * tenant's targets come first, then the keys of tokens, which are no tenant's. NULL after the last,
 * or with an error. */
static const struct definition *named_targets_find_old(struct call *call,
                                                       const struct definitions *definitions,
                                                       enum error_code *ret_code,
                                                       struct error *ret_error)
{
    struct named_call *named = call->state;
    struct named *targets = node_named(call->api->options.node);
    const struct definition *keys = token_keys_row(definitions), *row;
    bool has_changed = false;
    size_t count;
    const struct definition *rows =
        definitions_of(definitions, caller_tenant(&call->caller), DEFINITION_TARGET, &count);

    *ret_code = ERROR_NONE;
    while (named->next < count + (keys != NULL)) {
        row = named->next < count ? &rows[named->next] : keys;
        named->next++;
        buffer_clear(&named->value);
        *ret_code = row == keys
                        ? token_keys_reseal(named_vault(targets), row->value, &named->value,
                                            &has_changed, ret_error)
                        : named_reseal(targets, row, &named->value, &has_changed, ret_error);
        if (*ret_code || has_changed)
            return row;
    }
    return NULL;
}

/* Seals the next definition anew that has another key. */
static void named_targets_reseal_next(struct call *call)
{
    struct named_call *named = call->state;
    struct definitions *definitions = node_stored_definitions(call->api->options.node);
    struct error error = {.text = ""};
    enum error_code code;
    const struct definition *row = named_targets_find_old(call, definitions, &code, &error);

    if (row && !code) {
        memcpy(named->key, row->key.data, row->key.size);
        named->node = (struct node_hold){
            .kind = NODE_HOLD_DEFINE,
            .at = wall_now(),
            .definition = {row == token_keys_row(definitions) ? (struct bytes){0}
                                                              : caller_tenant(&call->caller),
                           {named->key, row->key.size},
                           buffer_bytes(&named->value),
                           {0},
                           row->version},
            .done = named_targets_reseal_done,
        };
    } else if (code) {
        char text[sizeof(error.text) + DEFINITION_NAME_SIZE_MAX + 16];

        snprintf(text, sizeof(text), "%.*s: %s", (int)definition_name(row).size,
                 definition_name(row).data, error.text);
        call_answer_error(call, code, text);
    }
    const bool is_over = !row;
    definitions_leave(definitions);
    if (is_over)
        named_targets_answer_reseal(call);
    else if (!code)
        node_hold(call->api->options.node, &named->node);
}

void named_targets_reseal(struct call *call)
{
    if (named_targets_prepare(call))
        named_targets_reseal_next(call);
}
