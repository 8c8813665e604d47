/* admin.c - makes a backup and answers when it is finished; begins and ends maintenance. */
#include "api/core/call.h"

#include "api/json/members.h"
#include "base/json.h"
#include "base/json_write.h"
#include "calendar/rfc3339.h"
#include "sys/clock.h"

#include <stdlib.h>

struct admin_backup {
    struct node_backup node;
    struct call *call;
};

/* The error names folders and files, which the operator needs to correct the cause. */
static void admin_answer_backup(struct node_backup *backup)
{
    struct call *call = list_item(backup, struct admin_backup, node)->call;

    if (backup->result) {
        call_answer_error(call, backup->result, backup->error.text);
        return;
    }
    struct buffer body;
    buffer_init(&body);
    json_open(&body, NULL, '{');
    json_put_text(&body, "name", backup->name);
    json_put_text(&body, "folder", backup->folder);
    json_put_number(&body, "timers", backup->copy.timers);
    json_put_number(&body, "bytes", backup->copy.bytes);
    rfc3339_put(&body, "finished", backup->finished);
    json_close(&body, '}');
    call_answer_json(call, 201, &body);
}

static const char *admin_detail_of(enum error_code code)
{
    switch (code) {
    case ERROR_BACKUP_OFF:
        return "Set backup_folder to where backups are to lie, and start the server again";
    case ERROR_BACKUP_RUNS:
        return "Another backup has not finished yet";
    default:
        return "";
    }
}

void admin_backup(struct call *call)
{
    struct admin_backup *backup = calloc(1, sizeof(*backup));

    if (!backup) {
        call_answer_error(call, ERROR_NO_MEMORY, "");
        return;
    }
    call->state = backup;
    backup->call = call;
    backup->node.done = admin_answer_backup;
    backup->node.at = wall_machine_now();
    enum error_code code = node_backup_start(call->api->options.node, &backup->node);
    if (code)
        call_answer_error(call, code, admin_detail_of(code));
}

/* ---- maintenance ---- */

void admin_maintenance(struct call *call)
{
    char note[NODE_NOTE_SIZE_MAX];
    size_t size;
    const bool is_on = node_maintenance(call->api->options.node, note, &size);
    struct buffer body;

    buffer_init(&body);
    json_open(&body, NULL, '{');
    json_put_flag(&body, "maintenance", is_on);
    json_put_some(&body, "note", (struct bytes){note, size});
    json_close(&body, '}');
    call_answer_json(call, 200, &body);
}

/* Reads {"note": "..."}, which is optional. Returns false if answered. */
static bool admin_read_note(struct call *call, char note[NODE_NOTE_SIZE_MAX], size_t *ret_size)
{
    static const char *const names[] = {"note"};
    struct bytes value = {0};
    struct problem problem;
    enum error_code code = ERROR_NONE;

    *ret_size = 0;
    if (call->body.size)
        code = members_read(buffer_bytes(&call->body), names, 1, &value, &problem);
    struct json_reader reader;
    struct json_string string;
    char room[6 * NODE_NOTE_SIZE_MAX]; /* a byte takes at most six in JSON */
    json_reader_init(&reader, value);
    if (!code && value.data &&
        (json_peek(&reader) != JSON_STRING || !json_read_string(&reader, &string)))
        code = problem_set(&problem, ERROR_INVALID, "#/note", "It must be a string");
    else if (!code && value.data &&
             (string.raw.size > sizeof(room) ||
              !json_string_decode(&string, room, sizeof(room), ret_size) ||
              *ret_size > NODE_NOTE_SIZE_MAX))
        code = problem_set(&problem, ERROR_INVALID, "#/note", "It may have at most %d bytes",
                           NODE_NOTE_SIZE_MAX);
    if (code) {
        call_answer_problem(call, &problem);
        return false;
    }
    memcpy(note, room, *ret_size);
    return true;
}

struct admin_hold {
    struct node_hold node;
    struct call *call;
    char note[NODE_NOTE_SIZE_MAX];
};

static void admin_answer_hold(struct call *call)
{
    const struct admin_hold *hold = call->state;

    if (hold->node.result)
        call_answer_error(call, hold->node.result, hold->node.error.text);
    else
        admin_maintenance(call);
}

static void admin_held(struct node_hold *hold)
{
    call_resume(list_item(hold, struct admin_hold, node)->call, admin_answer_hold);
}

/* NULL: answered. */
static struct admin_hold *admin_prepare_hold(struct call *call, enum node_hold_kind kind)
{
    struct admin_hold *hold = calloc(1, sizeof(*hold));

    if (!hold) {
        call_answer_error(call, ERROR_NO_MEMORY, "");
        return NULL;
    }
    hold->call = call;
    hold->node.kind = kind;
    hold->node.at = wall_now();
    hold->node.done = admin_held;
    call->state = hold;
    return hold;
}

void admin_maintenance_begin(struct call *call)
{
    struct admin_hold *hold = admin_prepare_hold(call, NODE_HOLD_MAINTAIN);

    if (!hold)
        return;
    hold->node.pause.note.data = hold->note;
    if (admin_read_note(call, hold->note, &hold->node.pause.note.size))
        node_hold(call->api->options.node, &hold->node);
}

void admin_maintenance_end(struct call *call)
{
    struct admin_hold *hold = admin_prepare_hold(call, NODE_HOLD_END);

    if (hold)
        node_hold(call->api->options.node, &hold->node);
}
