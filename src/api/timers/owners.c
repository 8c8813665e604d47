/*
 * owners.c - who keeps a named target, a calendar, a flow or the pause of a queue in files, as
 * `tickwheel apply` says it. A timer has a label in its place.
 *
 * A row is a definition of its own beside what is owned, because the two change apart: what was
 * changed by another hand has a version that its owner has not noted, and is applied again.
 */
#include "api/timers/timers.h"

#include "api/json/members.h"
#include "base/json.h"
#include "base/json_write.h"
#include "calendar/rfc3339.h"
#include "sys/clock.h"
#include "timer/definitions.h"

#include <stdlib.h>

#define OWNERS_FINGERPRINT_SIZE_MAX 128

/* Kinds of what is owned: the kind of its rows here, and of its definition; 0 if it has none. */
static const struct owners_kind {
    const char *name;
    enum definition_kind row;
    int definition;
} owners_kinds[] = {
    {"calendar", DEFINITION_OWNED_CALENDAR, DEFINITION_CALENDAR},
    {"flow", DEFINITION_OWNED_FLOW, DEFINITION_FLOW},
    {"queue", DEFINITION_OWNED_QUEUE, 0},
    {"named_target", DEFINITION_OWNED_TARGET, DEFINITION_TARGET},
};

enum { OWNERS_KINDS = sizeof(owners_kinds) / sizeof(owners_kinds[0]) };

/* Members of a row and of the body of a PUT. A row has no `take_over`. */
enum { OWNERS_OWNER, OWNERS_FINGERPRINT, OWNERS_APPLIED, OWNERS_TAKE_OVER, OWNERS_MEMBERS };

static const char *const owners_members[] = {"owner", "fingerprint", "applied", "take_over"};

struct owners_call {
    struct node_hold node;
    struct call *call;
    const struct owners_kind *kind;
    struct bytes name;
    char key[DEFINITION_KEY_SIZE_MAX];
    struct buffer value;
};

/* ---- answers ---- */

/* Returns the text of a string without escapes; without data if it is something else. */
static struct bytes owners_text(struct bytes json)
{
    if (json.size < 2 || json.data[0] != '"' || memchr(json.data, '\\', json.size))
        return (struct bytes){0};
    return (struct bytes){json.data + 1, json.size - 2};
}

/* Appends the row as members of the open object. */
static void owners_put(const struct definitions *definitions, const struct owners_kind *kind,
                       const struct definition *row, struct buffer *out)
{
    struct bytes values[OWNERS_MEMBERS];
    struct problem problem;

    json_put_text(out, "kind", kind->name);
    json_put_string(out, "name", definition_name(row));
    if (!members_read(row->value, owners_members, OWNERS_MEMBERS, values, &problem)) {
        json_put_some_raw(out, "owner", values[OWNERS_OWNER]);
        json_put_some_raw(out, "fingerprint", values[OWNERS_FINGERPRINT]);
        json_put_some_raw(out, "applied", values[OWNERS_APPLIED]);
    }
    const struct definition *owned =
        kind->definition
            ? definitions_find(definitions, row->tenant, (enum definition_kind)kind->definition,
                               definition_name(row))
            : NULL;
    if (owned)
        json_put_number(out, "version", definition_version(owned));
    rfc3339_put(out, "since", row->since);
}

void owners_list(struct call *call)
{
    struct definitions *definitions = node_definitions(call->api->options.node);
    struct buffer body;

    buffer_init(&body);
    json_open(&body, NULL, '{');
    json_open(&body, "owners", '[');
    for (size_t i = 0; i < OWNERS_KINDS; i++) {
        size_t count;
        const struct definition *rows =
            definitions_of(definitions, caller_tenant(&call->caller), owners_kinds[i].row, &count);

        for (size_t j = 0; j < count; j++) {
            json_open(&body, NULL, '{');
            owners_put(definitions, &owners_kinds[i], &rows[j], &body);
            json_close(&body, '}');
        }
    }
    json_close(&body, ']');
    json_close(&body, '}');
    definitions_leave(definitions);
    call_answer_json(call, 200, &body);
}

static void owners_changed(struct call *call)
{
    const struct owners_call *owners = call->state;
    const bool is_removed = owners->node.kind == NODE_HOLD_UNDEFINE;
    struct buffer body;

    if (owners->node.result) {
        call_answer_error(call, owners->node.result, owners->node.error.text);
        return;
    }
    struct definition row = owners->node.definition;
    row.value = buffer_bytes(&owners->value);
    buffer_init(&body);
    json_open(&body, NULL, '{');
    if (is_removed) {
        json_put_text(&body, "kind", owners->kind->name);
        json_put_string(&body, "name", owners->name);
    } else {
        struct definitions *definitions = node_definitions(call->api->options.node);

        owners_put(definitions, owners->kind, &row, &body);
        definitions_leave(definitions);
    }
    json_close(&body, '}');
    call_answer_json(call, 200, &body);
}

static void owners_done(struct node_hold *hold)
{
    call_resume(list_item(hold, struct owners_call, node)->call, owners_changed);
}

/* ---- changes ---- */

void owners_closed(struct call *call)
{
    struct owners_call *owners = call->state;

    if (owners)
        buffer_deinit(&owners->value);
    free(owners);
}

/* Reads KIND:NAME of the path, and prepares a change. NULL if answered. */
static struct owners_call *owners_prepare(struct call *call)
{
    struct bytes name = call->parameter;
    const struct bytes word = bytes_cut(&name, ':');
    const struct owners_kind *kind = NULL;

    for (size_t i = 0; i < OWNERS_KINDS && !kind; i++)
        if (bytes_equal(word, bytes_of(owners_kinds[i].name)))
            kind = &owners_kinds[i];
    if (!kind || !definition_name_is_valid(name)) {
        call_answer_error(call, ERROR_INVALID,
                          "The path ends with calendar:NAME, flow:NAME, named_target:NAME or "
                          "queue:NAME, and NAME has up to 64 of A-Z a-z 0-9 . _ -");
        return NULL;
    }
    struct owners_call *owners = calloc(1, sizeof(*owners));
    if (!owners) {
        call_answer_error(call, ERROR_NO_MEMORY, "");
        return NULL;
    }
    buffer_init(&owners->value);
    owners->call = call;
    owners->kind = kind;
    owners->name = name;
    owners->node =
        (struct node_hold){.at = wall_now(),
                           .definition = {.tenant = caller_tenant(&call->caller),
                                          .key = definition_key(kind->row, name, owners->key),
                                          .since = wall_now(),
                                          .version = NODE_ANY_VERSION},
                           .done = owners_done};
    call->state = owners;
    return owners;
}

void owners_set_begin(struct call *call)
{
    if (owners_prepare(call))
        call_begin_json(call);
}

static bool owners_is_fingerprint(struct bytes text)
{
    for (size_t i = 0; i < text.size; i++)
        if (text.data[i] <= ' ' || text.data[i] > '~')
            return false;
    return text.data && text.size <= OWNERS_FINGERPRINT_SIZE_MAX;
}

/* Returns false if answered. The owner of a named target may delete it, so a note needs the scope
 * of its definition. */
static bool owners_may(struct call *call, const struct owners_call *owners)
{
    if (owners->kind->definition != DEFINITION_TARGET ||
        caller_may(&call->caller, TOKEN_SCOPE_ADMIN))
        return true;
    call_answer_error(call, ERROR_FORBIDDEN,
                      "Changing the owner of a named target needs the scope admin too");
    return false;
}

/* Checks the members of the body: first what is there, then what is missing. */
static enum error_code owners_check(const struct bytes values[OWNERS_MEMBERS],
                                    struct problem *ret_problem)
{
    const bool has_owner = values[OWNERS_OWNER].data;
    uint64_t applied;

    if (has_owner && !definition_name_is_valid(owners_text(values[OWNERS_OWNER])))
        return problem_set(ret_problem, ERROR_INVALID, "#/owner",
                           "It must be a string of 1 to 64 of A-Z a-z 0-9 . _ -");
    if (values[OWNERS_FINGERPRINT].data &&
        !owners_is_fingerprint(owners_text(values[OWNERS_FINGERPRINT])))
        return problem_set(ret_problem, ERROR_INVALID, "#/fingerprint",
                           "It must be a string of up to %d visible characters",
                           OWNERS_FINGERPRINT_SIZE_MAX);
    const struct bytes number = values[OWNERS_APPLIED];
    if (number.data && (number.data[0] < '0' || number.data[0] > '9' ||
                        json_number_u64(number, &applied) != JSON_U64_OK))
        return problem_set(ret_problem, ERROR_INVALID, "#/applied", "It must be a whole number");
    if (values[OWNERS_TAKE_OVER].data && !bytes_equal(values[OWNERS_TAKE_OVER], BYTES("true")) &&
        !bytes_equal(values[OWNERS_TAKE_OVER], BYTES("false")))
        return problem_set(ret_problem, ERROR_INVALID, "#/take_over", "It must be true or false");
    return has_owner ? ERROR_NONE
                     : problem_set(ret_problem, ERROR_INVALID, "#/owner", "It is needed");
}

/* Refuses to take from another owner, and names it. Sets the version from which it is taken. */
static enum error_code owners_take(struct call *call, struct owners_call *owners,
                                   const struct bytes values[OWNERS_MEMBERS],
                                   struct problem *ret_problem)
{
    struct definitions *definitions = node_definitions(call->api->options.node);
    const struct definition *row =
        definitions_at(definitions, owners->node.definition.tenant, owners->node.definition.key);
    const struct bytes asked = owners_text(values[OWNERS_OWNER]);
    struct bytes has[OWNERS_MEMBERS] = {{0}};
    struct problem unused;
    enum error_code code = ERROR_NONE;

    if (row && members_read(row->value, owners_members, OWNERS_MEMBERS, has, &unused))
        has[OWNERS_OWNER] = (struct bytes){0};
    const struct bytes owner = owners_text(has[OWNERS_OWNER]);
    if (owner.size && !bytes_equal(owner, asked) &&
        !bytes_equal(values[OWNERS_TAKE_OVER], BYTES("true")))
        code = problem_set(ret_problem, ERROR_INVALID, "#/owner",
                           "It belongs to %.*s; `take_over` takes it", (int)owner.size, owner.data);
    owners->node.definition.version = row ? row->version : 0;
    definitions_leave(definitions);
    return code;
}

void owners_set(struct call *call)
{
    struct owners_call *owners = call->state;
    struct bytes values[OWNERS_MEMBERS];
    struct problem problem;

    if (!owners_may(call, owners))
        return;
    enum error_code code =
        members_read(buffer_bytes(&call->body), owners_members, OWNERS_MEMBERS, values, &problem);

    if (!code)
        code = owners_check(values, &problem);
    if (!code)
        code = owners_take(call, owners, values, &problem);
    if (code) {
        call_answer_problem(call, &problem);
        return;
    }
    json_open(&owners->value, NULL, '{');
    for (size_t i = 0; i < OWNERS_TAKE_OVER; i++)
        json_put_some_raw(&owners->value, owners_members[i], values[i]);
    json_close(&owners->value, '}');
    if (buffer_failed(&owners->value)) {
        call_answer_error(call, ERROR_NO_MEMORY, "");
        return;
    }
    owners->node.kind = NODE_HOLD_DEFINE;
    owners->node.definition.value = buffer_bytes(&owners->value);
    node_hold(call->api->options.node, &owners->node);
}

void owners_remove(struct call *call)
{
    struct owners_call *owners = owners_prepare(call);

    if (!owners || !owners_may(call, owners))
        return;
    owners->node.kind = NODE_HOLD_UNDEFINE;
    node_hold(call->api->options.node, &owners->node);
}
