/* admin.c - makes a backup and answers when it is finished. */
#include "api/operations/service.h"

#include "base/json.h"
#include "calendar/rfc3339.h"

#include <stdlib.h>

struct admin_backup {
    struct node_backup node;
    struct call *call;
};

void admin_closed(struct call *call)
{
    free(call->state);
}

/* The error names folders and files: the operator needs them to correct the cause. */
static void answer_backup(struct node_backup *backup)
{
    struct call *call = list_item(backup, struct admin_backup, node)->call;

    if (backup->result) {
        call_answer_error(call, backup->result, backup->error.text);
        return;
    }
    struct buffer body;
    buffer_init(&body);
    char finished[RFC3339_TEXT_SIZE];
    rfc3339_format(backup->finished, finished);
    buffer_append_text(&body, "{\"name\":");
    json_append_string(&body, bytes_of(backup->name));
    buffer_append_text(&body, ",\"folder\":");
    json_append_string(&body, bytes_of(backup->folder));
    buffer_append_text(&body, ",\"timers\":");
    buffer_append_u64(&body, backup->copy.timers);
    buffer_append_text(&body, ",\"bytes\":");
    buffer_append_u64(&body, backup->copy.bytes);
    buffer_append_text(&body, ",\"finished\":\"");
    buffer_append_text(&body, finished);
    buffer_append_text(&body, "\"}");
    call_answer_json(call, 201, &body);
}

static const char *detail_of(enum error_code code)
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
    backup->node.done = answer_backup;
    enum error_code code = node_backup_start(call->api->options.node, &backup->node);
    if (code)
        call_answer_error(call, code, detail_of(code));
}
