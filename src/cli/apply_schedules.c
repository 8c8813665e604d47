/* apply_schedules.c - compares the schedules of a plan with the daemon's, and changes those. */
#include "cli/apply_schedules.h"

#include "base/json_write.h"
#include "cli/apply_send.h"
#include "cli/canonical.h"
#include "cli/fields.h"
#include "cli/value.h"
#include "sys/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define APPLY_BATCH_LINES_MAX 1000
#define APPLY_BATCH_BYTES_MAX (UINT64_C(4) << 20)
#define APPLY_PAUSE_MS        1000
/* maximum number of pauses for lines that a busy daemon refused */
#define APPLY_PAUSES_MAX 120

/* ---- requests ---- */

static const struct {
    const char *name, *why;
} apply_refused_fields[] = {
    {"key", "the key of a schedule is its `name`"},
    {"after", "a schedule repeats: it has `every` or `cron`"},
    {"debounce", "a schedule repeats: it has `every` or `cron`"},
    {"count", "when the last firing was made, the next apply would begin anew: give `until`"},
};

static bool apply_refuse(struct apply_plan *plan, const struct apply_item *item,
                         const char *pointer, const char *why)
{
    apply_complain(item, bytes_of(pointer), why);
    plan->failed_count++;
    return false;
}

/* Appends the labels of the document with that of the owner. Returns false if it has that. */
static bool apply_append_labels(const struct apply_plan *plan, struct bytes labels,
                                struct buffer *out)
{
    struct json_reader reader;
    struct json_string name;
    struct bytes value;
    bool is_good = true;

    buffer_append_text(out, "\"labels\":{");
    json_reader_init(&reader, labels);
    if (labels.size && json_peek(&reader) == JSON_OBJECT && json_enter_object(&reader))
        while (json_next_member(&reader, &name) && json_skip(&reader, &value)) {
            is_good = is_good && !bytes_equal(name.raw, BYTES(APPLY_OWNER_LABEL));
            buffer_append_text(out, "\"");
            buffer_append_bytes(out, name.raw);
            buffer_append_text(out, "\":");
            buffer_append_bytes(out, value);
            buffer_append_text(out, ",");
        }
    buffer_append_text(out, "\"" APPLY_OWNER_LABEL "\":");
    json_append_string(out, plan->owner);
    buffer_append_text(out, "}");
    return is_good;
}

/* Makes the request of the item. Returns false after a complaint. */
static bool apply_make_body(struct apply_plan *plan, struct apply_item *item)
{
    const struct bytes labels = cli_member(item->fields, "labels");
    struct json_reader reader;
    struct json_string name;
    struct bytes value;
    struct buffer body;

    for (size_t i = 0; i < sizeof(apply_refused_fields) / sizeof(apply_refused_fields[0]); i++)
        if (cli_member(item->fields, apply_refused_fields[i].name).size) {
            char pointer[32];

            snprintf(pointer, sizeof(pointer), "#/%s", apply_refused_fields[i].name);
            return apply_refuse(plan, item, pointer, apply_refused_fields[i].why);
        }
    if (!cli_member(item->fields, "every").size && !cli_member(item->fields, "cron").size)
        return apply_refuse(plan, item, "", "a schedule repeats: it has `every` or `cron`");
    if (labels.size && labels.data[0] != '{')
        return apply_refuse(plan, item, "#/labels", "it must be an object of strings");
    buffer_init(&body);
    buffer_append_text(&body, "{\"key\":");
    json_append_string(&body, item->name);
    json_reader_init(&reader, item->fields);
    if (json_peek(&reader) == JSON_OBJECT && json_enter_object(&reader))
        while (json_next_member(&reader, &name) && json_skip(&reader, &value))
            if (!bytes_equal(name.raw, BYTES("labels"))) {
                buffer_append_text(&body, ",\"");
                buffer_append_bytes(&body, name.raw);
                buffer_append_text(&body, "\":");
                buffer_append_bytes(&body, value);
            }
    buffer_append_text(&body, ",");
    const bool is_good = apply_append_labels(plan, labels, &body);
    buffer_append_text(&body, "}");
    item->body =
        buffer_failed(&body) ? (struct bytes){NULL, 0} : apply_keep(plan, buffer_bytes(&body));
    buffer_deinit(&body);
    if (!is_good)
        return apply_refuse(plan, item, "#/labels", APPLY_OWNER_LABEL " is set by apply");
    return item->body.data || apply_refuse(plan, item, "", "out of memory");
}

/* ---- forms ---- */

/* Appends the targets of a timer alone, without what became of them. */
static void apply_append_targets(struct buffer *out, struct bytes targets)
{
    struct cli_list list;
    struct bytes each;

    json_open(out, "targets", '[');
    cli_list_init(&list, targets);
    while (cli_list_next(&list, &each))
        json_put_raw(out, NULL, cli_member(each, "target"));
    json_close(out, ']');
}

/* Returns what was asked for a timer that the daemon shows, in canonical form. */
static struct bytes apply_form_of(struct apply_plan *plan, struct bytes timer)
{
    static const char *const shown[] = {
        "id",     "due",          "state",      "version", "attempts",  "created",   "ended",
        "paused", "next_attempt", "last_error", "runs",    "report_of", "firing_of", "part_of",
    };
    struct cli_list members;
    struct bytes value;
    struct buffer asked, form;
    char name[64];

    buffer_init(&asked);
    buffer_init(&form);
    json_open(&asked, NULL, '{');
    cli_members_init(&members, timer);
    while (cli_members_next(&members, name, &value)) {
        bool is_asked = true;

        for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++)
            is_asked = is_asked && strcmp(name, shown[i]) != 0;
        if (is_asked && strcmp(name, "targets") == 0)
            apply_append_targets(&asked, value);
        else if (is_asked)
            json_put_raw(&asked, name, value);
    }
    json_close(&asked, '}');
    if (!buffer_failed(&asked))
        canonical_append(&form, buffer_bytes(&asked));
    const struct bytes kept = buffer_failed(&asked) || buffer_failed(&form)
                                  ? (struct bytes){NULL, 0}
                                  : apply_keep(plan, buffer_bytes(&form));
    buffer_deinit(&asked);
    buffer_deinit(&form);
    return kept;
}

/* True if the daemon hides a part of the timer from this token, so that it cannot be compared. */
static bool apply_is_hidden(struct bytes timer)
{
    struct cli_list headers;
    struct bytes value;
    char name[64];

    if (cli_is_true(cli_member(timer, "payload_hidden")))
        return true;
    cli_members_init(&headers, cli_member(timer, "headers"));
    while (cli_members_next(&headers, name, &value))
        if (cli_is_text(value, "***"))
            return true;
    return false;
}

/* ---- batches ---- */

/* Items that are sent together, a line each. */
struct apply_batch {
    struct apply_plan *plan;
    const char *path;
    bool (*wants)(const struct apply_item *item);
    /* Takes the answer to the line of an item: JSON; a problem has a `line`. */
    void (*take)(struct apply_plan *plan, struct apply_item *item, struct bytes answer);
    size_t next; /* index of the next item that is looked at */
    struct buffer lines, kept;
    size_t indexes[APPLY_BATCH_LINES_MAX];
    size_t count;
    unsigned pauses;
};

static void apply_batch_fill(struct apply_batch *batch)
{
    const struct apply_plan *plan = batch->plan;

    while (batch->next < plan->file_count && batch->count < APPLY_BATCH_LINES_MAX &&
           batch->lines.size < APPLY_BATCH_BYTES_MAX) {
        const size_t index = batch->next++;

        if (!batch->wants(&plan->items[index]))
            continue;
        batch->indexes[batch->count++] = index;
        buffer_append_bytes(&batch->lines, plan->items[index].body);
        buffer_append_text(&batch->lines, "\n");
    }
}

/* Takes the answers. Items for which the daemon was busy stay in the batch. */
static void apply_batch_take(struct apply_batch *batch, struct bytes answers)
{
    size_t kept = 0;

    buffer_clear(&batch->lines);
    for (size_t i = 0; i < batch->count; i++) {
        struct apply_item *item = &batch->plan->items[batch->indexes[i]];
        const struct bytes answer = bytes_cut(&answers, '\n');
        const bool is_json = cli_is_json(answer, NULL, NULL);
        const uint64_t status = is_json && cli_member(answer, "line").size
                                    ? cli_number(cli_member(answer, "status"), 0)
                                    : 0;

        if ((!is_json || status == 503 || status == 429) && batch->pauses < APPLY_PAUSES_MAX) {
            batch->indexes[kept++] = batch->indexes[i];
            buffer_append_bytes(&batch->lines, item->body);
            buffer_append_text(&batch->lines, "\n");
        } else {
            batch->take(batch->plan, item, is_json ? answer : BYTES("{}"));
        }
    }
    batch->count = kept;
}

static enum cli_exit apply_batch_send(struct apply_batch *batch)
{
    struct cli *cli = batch->plan->cli;
    const struct cli_request request = {.method = "POST",
                                        .path = batch->path,
                                        .content_type = "application/x-ndjson",
                                        .body = buffer_bytes(&batch->lines)};
    struct cli_answer answer;
    enum cli_exit code = buffer_failed(&batch->lines)
                             ? cli_complain(CLI_EXIT_FAILED, "out of memory")
                             : CLI_EXIT_DONE;

    if (code)
        return code;
    code = cli_send(cli, &request, &answer);
    const bool is_busy = answer.status == 503 || answer.status == 429;
    if (!code && answer.status == 200)
        apply_batch_take(batch, buffer_bytes(&answer.body));
    else if (!code && !(is_busy && batch->pauses < APPLY_PAUSES_MAX))
        code = cli_complain_of(&answer);
    cli_answer_deinit(&answer);
    if (!code && batch->count) {
        batch->pauses++;
        code = cli_wait(cli, APPLY_PAUSE_MS) ? CLI_EXIT_DONE : CLI_EXIT_STOPPED;
    } else {
        batch->pauses = 0;
    }
    return code;
}

static enum cli_exit apply_batch_run(struct apply_batch *batch)
{
    enum cli_exit code = CLI_EXIT_DONE;

    buffer_init(&batch->lines);
    for (;;) {
        if (!batch->count)
            apply_batch_fill(batch);
        if (code || !batch->count)
            break;
        code = apply_batch_send(batch);
        if (!batch->count)
            buffer_clear(&batch->lines);
        if (!code && !cli_wait(batch->plan->cli, 0))
            code = CLI_EXIT_STOPPED;
    }
    buffer_deinit(&batch->lines);
    return code;
}

/* ---- what the documents mean ---- */

static bool apply_wants_form(const struct apply_item *item)
{
    return item->kind == APPLY_SCHEDULE && item->body.data && !item->new.data &&
           item->act == APPLY_UNDECIDED;
}

/* True if the JSON has the name between these texts. */
static bool apply_names(struct bytes fields, const char *prefix, struct bytes name,
                        const char *suffix)
{
    struct buffer text;

    buffer_init(&text);
    buffer_append_text(&text, prefix);
    buffer_append_bytes(&text, name);
    buffer_append_text(&text, suffix);
    const bool has = !buffer_failed(&text) && text.size <= fields.size &&
                     memmem(fields.data, fields.size, text.data, text.size);
    buffer_deinit(&text);
    return has;
}

/* True if the document names something that this plan makes. */
static bool apply_waits(const struct apply_plan *plan, const struct apply_item *item)
{
    for (size_t i = 0; i < plan->file_count && plan->items[i].kind <= APPLY_NAMED_TARGET; i++) {
        const struct apply_item *other = &plan->items[i];

        if (other->act != APPLY_CREATE || other->is_done)
            continue;
        if ((other->kind == APPLY_CALENDAR &&
             apply_names(item->fields, "\"calendar:", other->name, "\"")) ||
            (other->kind == APPLY_NAMED_TARGET &&
             apply_names(item->fields, "\"", other->name, ":")))
            return true;
    }
    return false;
}

/* True if the document has an `until` that has passed. */
static bool apply_is_over(const struct apply_item *item)
{
    const struct bytes until = cli_member(item->fields, "until");
    struct wall end = {cli_number(until, UINT64_MAX)};
    struct buffer text;

    buffer_init(&text);
    cli_append_value(&text, until);
    if (until.size && until.data[0] == '"' && rfc3339_parse(buffer_bytes(&text), &end, NULL))
        end.ms = UINT64_MAX;
    buffer_deinit(&text);
    return until.size && end.ms <= wall_now().ms;
}

static void apply_take_form(struct apply_plan *plan, struct apply_item *item, struct bytes answer)
{
    if (cli_member(answer, "version").size) {
        item->new = apply_form_of(plan, answer);
        if (!item->new.data)
            apply_refuse(plan, item, "", "out of memory");
        else if (apply_is_hidden(answer)) {
            apply_refuse(plan, item, "",
                         "the daemon hides headers or payload from this token, so they cannot be "
                         "compared: it needs the scope payload");
        }
    } else if (!item->is_late && apply_waits(plan, item)) {
        item->is_late = true;
    } else if (apply_is_over(item) && memmem(answer.data, answer.size, "It would never fire", 19)) {
        item->act = APPLY_OVER;
    } else {
        apply_fail(plan, item, answer);
    }
}

static enum cli_exit apply_read_forms(struct apply_plan *plan)
{
    struct apply_batch batch = {.plan = plan,
                                .path = "/v1/timers/batch?dry_run=true",
                                .wants = apply_wants_form,
                                .take = apply_take_form};

    return apply_batch_run(&batch);
}

/* ---- what the daemon has ---- */

static bool apply_is_live(struct bytes timer)
{
    static const char *const states[] = {"scheduled", "delivering", "retrying", "paused"};

    for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++)
        if (cli_is_text(cli_member(timer, "state"), states[i]))
            return true;
    return false;
}

/* Notes the timer that the daemon has for an item. */
static void apply_note_timer(struct apply_plan *plan, struct apply_item *item, struct bytes timer)
{
    struct buffer id, owner;

    buffer_init(&id);
    buffer_init(&owner);
    cli_append_value(&id, cli_member(timer, "id"));
    cli_append_value(&owner, cli_member(cli_member(timer, "labels"), APPLY_OWNER_LABEL));
    snprintf(item->id, sizeof(item->id), "%s", cli_text(&id));
    item->owner = apply_keep(plan, buffer_bytes(&owner));
    item->version = cli_number(cli_member(timer, "version"), 0);
    item->old = apply_form_of(plan, timer);
    buffer_deinit(&id);
    buffer_deinit(&owner);
}

/* Takes a timer with the label of the owner. */
static bool apply_take_timer(struct apply_plan *plan, struct bytes timer)
{
    struct buffer key;

    if (!cli_member(timer, "key").size || !apply_is_live(timer))
        return true;
    buffer_init(&key);
    cli_append_value(&key, cli_member(timer, "key"));
    struct apply_item *item = apply_find(plan, APPLY_SCHEDULE, buffer_bytes(&key));
    if (!item) {
        item = apply_add(plan, APPLY_SCHEDULE, buffer_bytes(&key));
        if (item)
            item->act = APPLY_DELETE;
    }
    if (item)
        apply_note_timer(plan, item, timer);
    buffer_deinit(&key);
    return item;
}

static enum cli_exit apply_read_timers(struct apply_plan *plan)
{
    enum cli_exit code = CLI_EXIT_DONE;
    struct buffer label, cursor;
    bool is_over = false;

    buffer_init(&label);
    buffer_init(&cursor);
    buffer_append_text(&label, APPLY_OWNER_LABEL ":");
    buffer_append_bytes(&label, plan->owner);
    while (!code && !is_over) {
        struct apply_request request = {.method = "GET"};
        struct cli_answer answer;
        struct cli_list timers;
        struct bytes timer;

        buffer_append_text(&request.path, "/v1/timers?limit=1000");
        cli_append_query(&request.path, "label", buffer_bytes(&label));
        if (cursor.size)
            cli_append_query(&request.path, "cursor", buffer_bytes(&cursor));
        code = apply_send(plan->cli, &request, &answer);
        if (!code && answer.status != 200)
            code = cli_complain_of(&answer);
        if (!code) {
            const struct bytes page = buffer_bytes(&answer.body);

            cli_list_init(&timers, cli_member(page, "timers"));
            while (!code && cli_list_next(&timers, &timer))
                if (!apply_take_timer(plan, timer))
                    code = cli_complain(CLI_EXIT_FAILED, "out of memory");
            buffer_clear(&cursor);
            const struct bytes next = cli_member(page, "next");
            is_over = !next.size || next.data[0] != '"';
            if (!is_over)
                cli_append_value(&cursor, next);
        }
        cli_answer_deinit(&answer);
    }
    buffer_deinit(&label);
    buffer_deinit(&cursor);
    return code;
}

/* ---- those of others ---- */

static bool apply_is_unknown(const struct apply_item *item)
{
    return item->kind == APPLY_SCHEDULE && item->act == APPLY_UNDECIDED && !item->version;
}

static void apply_ask_key(void *context, size_t index, struct apply_request *request)
{
    const struct apply_plan *plan = context;

    if (apply_is_unknown(&plan->items[index]))
        fields_append_key_path(&request->path, plan->items[index].name, "");
}

static void apply_take_key(void *context, size_t index, const struct cli_answer *answer)
{
    struct apply_plan *plan = context;
    struct apply_item *item = &plan->items[index];

    if (answer->status == 200 && answer->is_json)
        apply_note_timer(plan, item, buffer_bytes(&answer->body));
    else if (answer->status != 404 && answer->status != 410)
        apply_fail(plan, item, answer->is_json ? buffer_bytes(&answer->body) : BYTES("{}"));
}

/* ---- the plan ---- */

static void apply_decide(struct apply_plan *plan, struct apply_item *item)
{
    const bool is_own = bytes_equal(item->owner, plan->owner);

    if (item->act == APPLY_OVER && item->version && is_own)
        item->act = APPLY_DELETE;
    if (item->act != APPLY_UNDECIDED)
        return;
    if (item->version && !is_own && !plan->takes_over)
        item->act = APPLY_TAKEN;
    else if (!item->version)
        item->act = APPLY_CREATE;
    else if (item->new.data && bytes_equal(item->old, item->new))
        item->act = APPLY_EQUAL;
    else
        item->act = APPLY_CHANGE;
}

enum cli_exit apply_schedules_plan(struct apply_plan *plan)
{
    for (size_t i = 0; i < plan->file_count; i++)
        if (plan->items[i].kind == APPLY_SCHEDULE)
            apply_make_body(plan, &plan->items[i]);
    enum cli_exit code = plan->failed_count ? CLI_EXIT_FAILED : apply_read_forms(plan);
    if (!code && plan->failed_count)
        code = CLI_EXIT_FAILED;
    if (!code)
        code = apply_read_timers(plan);
    if (!code)
        code = apply_send_all(plan->cli, plan->file_count, apply_ask_key, apply_take_key, plan);
    for (size_t i = 0; i < plan->file_count && !code; i++)
        if (plan->items[i].kind == APPLY_SCHEDULE)
            apply_decide(plan, &plan->items[i]);
    return !code && plan->failed_count ? CLI_EXIT_FAILED : code;
}

enum cli_exit apply_schedules_plan_late(struct apply_plan *plan)
{
    bool has_late = false;

    for (size_t i = 0; i < plan->file_count; i++)
        if (plan->items[i].is_late && plan->items[i].act == APPLY_CHANGE) {
            plan->items[i].act = APPLY_UNDECIDED;
            has_late = true;
        }
    const enum cli_exit code = has_late ? apply_read_forms(plan) : CLI_EXIT_DONE;
    for (size_t i = 0; i < plan->file_count && has_late; i++)
        if (plan->items[i].is_late)
            apply_decide(plan, &plan->items[i]);
    return code;
}

/* ---- changes ---- */

static bool apply_wants_create(const struct apply_item *item)
{
    return item->kind == APPLY_SCHEDULE && item->act == APPLY_CREATE && !item->is_done;
}

static void apply_done(struct apply_plan *plan, struct apply_item *item)
{
    item->is_done = true;
    plan->done_count++;
}

/* Takes the result of a request about one timer. Another change that came before has the plan made
 * again. */
static void apply_take_result(struct apply_plan *plan, struct apply_item *item, int status,
                              struct bytes answer)
{
    if (status / 100 == 2)
        apply_done(plan, item);
    else if (status == 409 || status == 412 || status == 404 || status == 410)
        plan->must_retry = true;
    else
        apply_fail(plan, item, answer);
}

static void apply_take_created(struct apply_plan *plan, struct apply_item *item,
                               struct bytes answer)
{
    const bool is_problem = cli_member(answer, "line").size || !cli_member(answer, "id").size;

    apply_take_result(
        plan, item, is_problem ? (int)cli_number(cli_member(answer, "status"), 500) : 200, answer);
}

static void apply_set_version(struct apply_request *request, uint64_t version)
{
    snprintf(request->header, sizeof(request->header), "If-Match: \"%llu\"",
             (unsigned long long)version);
}

static void apply_ask_change(void *context, size_t index, struct apply_request *request)
{
    const struct apply_plan *plan = context;
    const struct apply_item *item = &plan->items[index];

    if (item->kind != APPLY_SCHEDULE || item->act != APPLY_CHANGE || item->is_done)
        return;
    request->method = "PUT";
    fields_append_key_path(&request->path, item->name, "");
    request->body = item->body;
    apply_set_version(request, item->version);
}

static void apply_take_answer(void *context, size_t index, const struct cli_answer *answer)
{
    struct apply_plan *plan = context;

    apply_take_result(plan, &plan->items[index], answer->status,
                      answer->is_json ? buffer_bytes(&answer->body) : BYTES("{}"));
}

enum cli_exit apply_schedules_make(struct apply_plan *plan)
{
    struct apply_batch batch = {.plan = plan,
                                .path = "/v1/timers/batch",
                                .wants = apply_wants_create,
                                .take = apply_take_created};
    enum cli_exit code = apply_batch_run(&batch);

    if (!code)
        code =
            apply_send_all(plan->cli, plan->file_count, apply_ask_change, apply_take_answer, plan);
    return code;
}

static void apply_ask_delete(void *context, size_t index, struct apply_request *request)
{
    const struct apply_plan *plan = context;
    const struct apply_item *item = &plan->items[index];

    if (item->kind != APPLY_SCHEDULE || item->act != APPLY_DELETE || item->is_done)
        return;
    request->method = "DELETE";
    buffer_append_text(&request->path, "/v1/timers/");
    cli_append_path(&request->path, bytes_of(item->id));
    apply_set_version(request, item->version);
}

enum cli_exit apply_schedules_delete(struct apply_plan *plan)
{
    return apply_send_all(plan->cli, plan->count, apply_ask_delete, apply_take_answer, plan);
}
