/* apply_definitions.c - compares and changes what a plan has besides schedules. */
#include "cli/apply_definitions.h"

#include "base/json_write.h"
#include "cli/apply_fingerprint.h"
#include "cli/apply_send.h"
#include "cli/canonical.h"
#include "cli/value.h"

#include <stdio.h>
#include <string.h>

/* ---- requests ---- */

/* Sends a request, and reads the JSON of an answer 200. */
static enum cli_exit apply_get(struct apply_plan *plan, const char *path,
                               struct cli_answer *ret_answer)
{
    struct apply_request request = {.method = "GET"};

    buffer_append_text(&request.path, path);
    enum cli_exit code = apply_send(plan->cli, &request, ret_answer);
    if (!code && (ret_answer->status != 200 || !ret_answer->is_json))
        code = cli_complain_of(ret_answer);
    return code;
}

static void apply_append_owner_path(struct buffer *path, const struct apply_item *item)
{
    buffer_append_text(path, "/v1/owners/");
    buffer_append_text(path, apply_kind_word(item->kind));
    buffer_append_text(path, "%3A");
    cli_append_path(path, item->name);
}

/* Appends the path of what the item is, without the call that pauses a queue. */
static void apply_append_item_path(struct buffer *path, const struct apply_item *item)
{
    static const char *const roots[] = {"/v1/calendars/", "/v1/named-targets/", "/v1/flows/",
                                        "/v1/queues/"};

    buffer_append_text(path, roots[item->kind]);
    cli_append_path(path, item->name);
}

/* Sends a request about an item. Returns false if it was refused, which is complained about or to
 * be tried again. */
static bool apply_change(struct apply_plan *plan, struct apply_item *item,
                         struct apply_request *request, uint64_t *ret_version,
                         enum cli_exit *ret_code)
{
    struct cli_answer answer;

    *ret_code = apply_send(plan->cli, request, &answer);
    const struct bytes body = answer.is_json ? buffer_bytes(&answer.body) : BYTES("{}");
    const bool is_done = !*ret_code && answer.status / 100 == 2;
    if (is_done)
        *ret_version = cli_number(cli_member(body, "version"), 0);
    else if (!*ret_code && answer.status == 412)
        plan->must_retry = true;
    else if (!*ret_code && (answer.status == 401 || answer.status == 403))
        *ret_code = cli_complain_of(&answer);
    else if (!*ret_code)
        apply_fail(plan, item, body);
    cli_answer_deinit(&answer);
    return is_done;
}

/* ---- documents ---- */

/* True if a queue is to be paused by its document. */
static bool apply_is_pause(const struct apply_item *item)
{
    return cli_is_true(cli_member(item->fields, "paused"));
}

static bool apply_wrong_field(struct apply_plan *plan, const struct apply_item *item,
                              const char *pointer, const char *why)
{
    apply_complain(item, bytes_of(pointer), why);
    plan->failed_count++;
    return false;
}

/* Checks the fields of a kind that the daemon does not read as they are. */
static void apply_check_fields(struct apply_plan *plan, const struct apply_item *item,
                               const char *first, const char *second)
{
    struct cli_list members;
    struct bytes value;
    char name[64], pointer[80];

    cli_members_init(&members, item->fields);
    while (cli_members_next(&members, name, &value))
        if (strcmp(name, first) != 0 && strcmp(name, second) != 0) {
            snprintf(pointer, sizeof(pointer), "#/%s", name);
            apply_wrong_field(plan, item, pointer, "there is no such field");
            return;
        }
}

static void apply_check_item(struct apply_plan *plan, const struct apply_item *item)
{
    const struct bytes paused = cli_member(item->fields, "paused");
    const struct bytes dates = cli_member(item->fields, "dates");
    const struct bytes ical = cli_member(item->fields, "ical");

    if (item->kind == APPLY_QUEUE) {
        apply_check_fields(plan, item, "paused", "note");
        if (!cli_is_true(paused) && !bytes_equal(paused, BYTES("false")))
            apply_wrong_field(plan, item, "#/paused", "it must be true or false");
    } else if (item->kind == APPLY_CALENDAR) {
        apply_check_fields(plan, item, "dates", "ical");
        if (!dates.size == !ical.size)
            apply_wrong_field(plan, item, "", "give either `dates`, a list, or `ical`, a text");
        else if (dates.size && dates.data[0] != '[')
            apply_wrong_field(plan, item, "#/dates", "it must be a list");
        else if (ical.size && ical.data[0] != '"')
            apply_wrong_field(plan, item, "#/ical", "it must be a text");
    }
}

static enum apply_secrecy apply_secrecy_of(const struct apply_item *item)
{
    return item->kind == APPLY_NAMED_TARGET ? APPLY_SECRET : APPLY_OPEN;
}

static struct bytes apply_canonical(struct apply_plan *plan, struct bytes json)
{
    struct buffer form;

    buffer_init(&form);
    canonical_append(&form, json);
    const struct bytes kept =
        buffer_failed(&form) ? (struct bytes){NULL, 0} : apply_keep(plan, buffer_bytes(&form));
    buffer_deinit(&form);
    return kept;
}

/* ---- what the daemon has ---- */

/* Rows of the daemon, while a plan is made. */
struct apply_rows {
    struct cli_answer owners, lists[APPLY_KINDS];
    bool is_read[APPLY_KINDS];
};

static const struct {
    const char *path, *rows, *name;
} apply_lists[] = {
    {"/v1/calendars", "calendars", "name"},
    {"/v1/named-targets", "targets", "name"},
    {"/v1/flows", "flows", "key"},
    {"/v1/queues", "queues", "name"},
};

/* Returns the row of the item in a list of the daemon; empty if there is none. */
static struct bytes apply_row_of(const struct apply_rows *rows, const struct apply_item *item)
{
    struct cli_list list;
    struct bytes row;

    cli_list_init(&list, cli_member(buffer_bytes(&rows->lists[item->kind].body),
                                    apply_lists[item->kind].rows));
    while (cli_list_next(&list, &row)) {
        struct buffer name;

        buffer_init(&name);
        cli_append_value(&name, cli_member(row, apply_lists[item->kind].name));
        const bool is_it = bytes_equal(buffer_bytes(&name), item->name);
        buffer_deinit(&name);
        if (is_it)
            return row;
    }
    return (struct bytes){NULL, 0};
}

/* True if the row is of something that a definition of the tenant, or a pause, made. */
static bool apply_is_defined(enum apply_kind kind, struct bytes row)
{
    switch (kind) {
    case APPLY_CALENDAR:
        return cli_is_text(cli_member(row, "scope"), "tenant");
    case APPLY_FLOW:
        return cli_is_true(cli_member(row, "defined"));
    case APPLY_QUEUE:
        return cli_member(row, "paused").size > 0;
    default:
        return row.size > 0;
    }
}

/* Returns what the daemon shows of an item, with the members that a document has. */
static struct bytes apply_shown_form(struct apply_plan *plan, enum apply_kind kind,
                                     struct bytes row)
{
    static const char *const unasked[] = {"name",         "key",    "version", "changed",   "since",
                                          "running",      "until",  "waiting", "defined",   "scope",
                                          "more_on_disk", "oldest", "paused",  "defined_by"};
    const struct bytes pause = cli_member(row, "paused");
    struct cli_list members;
    struct bytes value;
    struct buffer form;
    char name[64];

    buffer_init(&form);
    json_open(&form, NULL, '{');
    if (kind == APPLY_QUEUE) {
        json_put_flag(&form, "paused", pause.size);
        json_put_some_raw(&form, "note", cli_member(pause, "note"));
    }
    cli_members_init(&members, row);
    while (kind != APPLY_QUEUE && cli_members_next(&members, name, &value)) {
        bool is_asked = true;

        for (size_t i = 0; i < sizeof(unasked) / sizeof(unasked[0]); i++)
            is_asked = is_asked && strcmp(name, unasked[i]) != 0;
        if (is_asked && !(strcmp(name, "method") == 0 && cli_is_text(value, "POST")))
            json_put_raw(&form, name, value);
    }
    json_close(&form, '}');
    const struct bytes kept =
        buffer_failed(&form) ? (struct bytes){NULL, 0} : apply_canonical(plan, buffer_bytes(&form));
    buffer_deinit(&form);
    return kept;
}

static void apply_decide_definition(struct apply_plan *plan, struct apply_item *item,
                                    struct bytes row, struct bytes owned)
{
    const bool is_there = apply_is_defined(item->kind, row);
    const bool is_own = owned.size && bytes_equal(item->owner, plan->owner);
    struct buffer fingerprint;
    bool is_equal;

    item->new = apply_canonical(plan, item->fields);
    item->old = is_there ? apply_shown_form(plan, item->kind, row) : (struct bytes){NULL, 0};
    item->version =
        cli_number(cli_member(owned, "version"), cli_number(cli_member(row, "version"), is_there));
    buffer_init(&fingerprint);
    cli_append_value(&fingerprint, cli_member(owned, "fingerprint"));
    if (item->kind == APPLY_QUEUE)
        is_equal = apply_is_pause(item) ? is_own && is_there && bytes_equal(item->old, item->new)
                                        : !is_there && !is_own;
    else
        is_equal =
            is_own && is_there &&
            cli_number(cli_member(owned, "applied"), 0) ==
                cli_number(cli_member(owned, "version"), UINT64_MAX) &&
            apply_fingerprint_is(buffer_bytes(&fingerprint), item->new, apply_secrecy_of(item));
    buffer_deinit(&fingerprint);
    if (is_equal)
        item->act = APPLY_EQUAL;
    else if ((owned.size || is_there) && !is_own && !plan->takes_over)
        item->act = APPLY_TAKEN;
    else
        item->act = is_there ? APPLY_CHANGE : APPLY_CREATE;
}

/* Returns the owner's row of an item; empty if it has no owner. Sets the owner. */
static struct bytes apply_owned_of(struct apply_plan *plan, struct bytes owners,
                                   struct apply_item *item)
{
    struct cli_list list;
    struct bytes row;

    cli_list_init(&list, cli_member(owners, "owners"));
    while (cli_list_next(&list, &row)) {
        struct buffer text;

        if (!cli_is_text(cli_member(row, "kind"), apply_kind_word(item->kind)))
            continue;
        buffer_init(&text);
        cli_append_value(&text, cli_member(row, "name"));
        const bool is_it = bytes_equal(buffer_bytes(&text), item->name);
        buffer_clear(&text);
        cli_append_value(&text, cli_member(row, "owner"));
        if (is_it)
            item->owner = apply_keep(plan, buffer_bytes(&text));
        buffer_deinit(&text);
        if (is_it)
            return row;
    }
    return (struct bytes){NULL, 0};
}

/* Adds what the owner has and no file names. */
static bool apply_add_left(struct apply_plan *plan, struct bytes owners)
{
    struct cli_list list;
    struct bytes row;
    bool is_good = true;

    cli_list_init(&list, cli_member(owners, "owners"));
    while (is_good && cli_list_next(&list, &row)) {
        struct buffer owner, name;

        buffer_init(&owner);
        buffer_init(&name);
        cli_append_value(&owner, cli_member(row, "owner"));
        cli_append_value(&name, cli_member(row, "name"));
        for (int kind = 0; kind < APPLY_SCHEDULE; kind++) {
            if (!cli_is_text(cli_member(row, "kind"), apply_kind_word((enum apply_kind)kind)) ||
                !bytes_equal(buffer_bytes(&owner), plan->owner) ||
                apply_find(plan, (enum apply_kind)kind, buffer_bytes(&name)))
                continue;
            struct apply_item *item = apply_add(plan, (enum apply_kind)kind, buffer_bytes(&name));
            is_good = item;
            if (item) {
                item->act = APPLY_DELETE;
                item->version = cli_number(cli_member(row, "version"), 0);
                item->owner = plan->owner;
            }
        }
        buffer_deinit(&owner);
        buffer_deinit(&name);
    }
    return is_good;
}

static enum cli_exit apply_decide_all(struct apply_plan *plan, struct apply_rows *rows)
{
    const struct bytes owners = buffer_bytes(&rows->owners.body);
    enum cli_exit code = CLI_EXIT_DONE;

    for (size_t i = 0; i < plan->file_count && !code; i++) {
        struct apply_item *item = &plan->items[i];

        if (item->kind == APPLY_SCHEDULE)
            continue;
        if (!rows->is_read[item->kind])
            code = apply_get(plan, apply_lists[item->kind].path, &rows->lists[item->kind]);
        rows->is_read[item->kind] = true;
        if (!code) {
            const struct bytes owned = apply_owned_of(plan, owners, item);

            apply_decide_definition(plan, item, apply_row_of(rows, item), owned);
        }
    }
    if (!code && !apply_add_left(plan, owners))
        code = cli_complain(CLI_EXIT_FAILED, "out of memory");
    return code;
}

enum cli_exit apply_definitions_plan(struct apply_plan *plan)
{
    struct apply_rows rows = {.is_read = {false}};

    for (size_t i = 0; i < plan->file_count; i++)
        apply_check_item(plan, &plan->items[i]);
    enum cli_exit code = plan->failed_count ? CLI_EXIT_FAILED : CLI_EXIT_DONE;
    if (!code)
        code = apply_get(plan, "/v1/owners", &rows.owners);
    if (!code)
        code = apply_decide_all(plan, &rows);
    cli_answer_deinit(&rows.owners);
    for (int i = 0; i < APPLY_KINDS; i++)
        cli_answer_deinit(&rows.lists[i]);
    return code;
}

/* ---- changes ---- */

/* Notes the owner; after the change with the fingerprint and the version. */
static bool apply_own(struct apply_plan *plan, struct apply_item *item, const char *fingerprint,
                      uint64_t version, enum cli_exit *ret_code)
{
    struct apply_request request = {.method = "PUT"};
    struct buffer body;
    uint64_t unused;

    apply_append_owner_path(&request.path, item);
    buffer_init(&body);
    json_open(&body, NULL, '{');
    json_put_string(&body, "owner", plan->owner);
    if (fingerprint) {
        json_put_text(&body, "fingerprint", fingerprint);
        json_put_number(&body, "applied", version);
    }
    if (plan->takes_over && !fingerprint)
        json_put_flag(&body, "take_over", true);
    json_close(&body, '}');
    request.body = buffer_bytes(&body);
    const bool is_done = apply_change(plan, item, &request, &unused, ret_code);
    buffer_deinit(&body);
    return is_done;
}

/* Makes what the document says. */
static bool apply_put(struct apply_plan *plan, struct apply_item *item, uint64_t *ret_version,
                      enum cli_exit *ret_code)
{
    struct apply_request request = {.method = "PUT", .body = item->fields};
    const struct bytes ical = cli_member(item->fields, "ical");
    struct buffer text;

    buffer_init(&text);
    apply_append_item_path(&request.path, item);
    if (item->kind == APPLY_NAMED_TARGET && item->act == APPLY_CHANGE)
        snprintf(request.header, sizeof(request.header), "If-Match: \"%llu\"",
                 (unsigned long long)item->version);
    if (item->kind == APPLY_CALENDAR && ical.size) {
        request.content_type = "text/calendar";
        cli_append_value(&text, ical);
        request.body = buffer_bytes(&text);
    } else if (item->kind == APPLY_CALENDAR) {
        request.body = cli_member(item->fields, "dates");
    } else if (item->kind == APPLY_QUEUE) {
        request.method = "POST";
        buffer_append_text(&request.path, apply_is_pause(item) ? "/pause" : "/resume");
        json_open(&text, NULL, '{');
        json_put_some_raw(&text, "note", cli_member(item->fields, "note"));
        json_close(&text, '}');
        request.body = apply_is_pause(item) ? buffer_bytes(&text) : (struct bytes){NULL, 0};
    }
    const bool is_done = apply_change(plan, item, &request, ret_version, ret_code);
    buffer_deinit(&text);
    return is_done;
}

/* Removes the note about the owner. */
static bool apply_disown(struct apply_plan *plan, struct apply_item *item, enum cli_exit *ret_code)
{
    struct apply_request request = {.method = "DELETE"};
    struct cli_answer answer;

    apply_append_owner_path(&request.path, item);
    *ret_code = apply_send(plan->cli, &request, &answer);
    const bool is_done = !*ret_code && (answer.status / 100 == 2 || answer.status == 404);
    if (!*ret_code && !is_done)
        apply_fail(plan, item, answer.is_json ? buffer_bytes(&answer.body) : BYTES("{}"));
    cli_answer_deinit(&answer);
    return is_done;
}

/* The owner is noted first, so that two owners never make the same. If this ends half-way, the
 * note has no fingerprint, and the next run makes it again. */
static bool apply_make_definition(struct apply_plan *plan, struct apply_item *item,
                                  enum cli_exit *ret_code)
{
    char fingerprint[APPLY_FINGERPRINT_SIZE] = "";
    uint64_t version = 0;

    if (!bytes_equal(item->owner, plan->owner) && !apply_own(plan, item, NULL, 0, ret_code))
        return false;
    if (!apply_put(plan, item, &version, ret_code))
        return false;
    if (item->kind == APPLY_QUEUE)
        return apply_is_pause(item) || apply_disown(plan, item, ret_code);
    if (!apply_fingerprint_make(item->new, apply_secrecy_of(item), fingerprint)) {
        *ret_code = cli_complain(CLI_EXIT_FAILED, "no fingerprint can be made");
        return false;
    }
    return apply_own(plan, item, fingerprint, version, ret_code);
}

enum cli_exit apply_definitions_make(struct apply_plan *plan)
{
    enum cli_exit code = CLI_EXIT_DONE;

    for (size_t i = 0; i < plan->file_count && !code; i++) {
        struct apply_item *item = &plan->items[i];

        if (item->kind == APPLY_SCHEDULE || item->is_done ||
            (item->act != APPLY_CREATE && item->act != APPLY_CHANGE))
            continue;
        item->is_done = apply_make_definition(plan, item, &code);
        plan->done_count += item->is_done;
        if (!code && !cli_wait(plan->cli, 0))
            code = CLI_EXIT_STOPPED;
    }
    return code;
}

/* Removes what is in no file, and then the note about it. */
static bool apply_delete_definition(struct apply_plan *plan, struct apply_item *item,
                                    enum cli_exit *ret_code)
{
    struct apply_request request = {.method = item->kind == APPLY_QUEUE ? "POST" : "DELETE"};
    struct cli_answer answer;

    apply_append_item_path(&request.path, item);
    if (item->kind == APPLY_QUEUE)
        buffer_append_text(&request.path, "/resume");
    *ret_code = apply_send(plan->cli, &request, &answer);
    const bool is_gone = !*ret_code && (answer.status / 100 == 2 || answer.status == 404);
    if (!*ret_code && (answer.status == 401 || answer.status == 403))
        *ret_code = cli_complain_of(&answer);
    else if (!*ret_code && !is_gone)
        apply_fail(plan, item, answer.is_json ? buffer_bytes(&answer.body) : BYTES("{}"));
    cli_answer_deinit(&answer);
    return is_gone && apply_disown(plan, item, ret_code);
}

enum cli_exit apply_definitions_delete(struct apply_plan *plan)
{
    enum cli_exit code = CLI_EXIT_DONE;

    for (int kind = APPLY_SCHEDULE - 1; kind >= 0; kind--)
        for (size_t i = 0; i < plan->count && !code; i++) {
            struct apply_item *item = &plan->items[i];

            if ((int)item->kind != kind || item->act != APPLY_DELETE || item->is_done)
                continue;
            item->is_done = apply_delete_definition(plan, item, &code);
            plan->done_count += item->is_done;
        }
    return code;
}
