#include "api/core/scatter.h"

#include <stdlib.h>

struct scatter *scatter_create(struct call *call, size_t count)
{
    struct scatter *fan = calloc(1, sizeof(*fan) + count * sizeof(fan->parts[0]));

    if (!fan) {
        call_answer_error(call, ERROR_NO_MEMORY, "");
        return NULL;
    }
    fan->call = call;
    fan->count = count;
    fan->missing = count + 1;
    for (size_t i = 0; i < count; i++)
        fan->parts[i].fan = fan;
    call->state = fan;
    return fan;
}

static void leave(struct scatter *fan)
{
    if (atomic_fetch_sub(&fan->missing, 1) == 1)
        fan->finish(fan);
}

static void part_done(struct node_request *request)
{
    struct scatter_part *part = list_item(request, struct scatter_part, node);
    struct scatter *fan = part->fan;

    part->error = request->command.error;
    if (fan->done)
        fan->done(part);
    leave(fan);
}

void scatter_submit(struct scatter *fan)
{
    for (size_t i = 0; i < fan->count; i++) {
        struct scatter_part *part = &fan->parts[i];
        enum error_code refusal;

        part->node.done = part_done;
        /* Once it is submitted the part is the node's thread's, which may have answered already. */
        refusal = call_ask(fan->call, &part->node);
        if (refusal) {
            part->error = refusal;
            timer_free(part->node.command.patch);
            part->node.command.patch = NULL;
            leave(fan);
        }
    }
    leave(fan);
}

enum error_code scatter_failure(const struct scatter *fan)
{
    for (size_t i = 0; i < fan->count; i++)
        if (error_status(fan->parts[i].error) >= 500)
            return fan->parts[i].error;
    return ERROR_NONE;
}

void scatter_closed(struct call *call)
{
    struct scatter *fan = call->state;

    if (fan)
        free(fan->room);
    free(fan);
}
