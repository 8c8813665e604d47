/* scatter.c - submits the parts of a scattered request and counts their replies. */
#include "api/core/scatter.h"

#include <stdlib.h>

struct scatter *scatter_alloc(struct call *call, size_t count)
{
    struct scatter *scatter = calloc(1, sizeof(*scatter) + count * sizeof(scatter->parts[0]));

    if (!scatter)
        return NULL;
    scatter->call = call;
    scatter->count = count;
    scatter->missing = count + 1;
    for (size_t i = 0; i < count; i++)
        scatter->parts[i].scatter = scatter;
    return scatter;
}

static void scatter_gathered(struct call *call)
{
    struct scatter *scatter = call->state;

    scatter->finish(scatter);
}

struct scatter *scatter_create(struct call *call, size_t count)
{
    struct scatter *scatter = scatter_alloc(call, count);

    if (!scatter) {
        call_answer_error(call, ERROR_NO_MEMORY, "");
        return NULL;
    }
    scatter->resume = scatter_gathered;
    call->state = scatter;
    return scatter;
}

static void scatter_leave(struct scatter *scatter)
{
    if (atomic_fetch_sub(&scatter->missing, 1) == 1)
        call_resume(scatter->call, scatter->resume);
}

static void scatter_part_done(struct node_request *request)
{
    struct scatter_part *part = list_item(request, struct scatter_part, node);
    struct scatter *scatter = part->scatter;

    part->error = request->command.error;
    if (scatter->done)
        scatter->done(part);
    scatter_leave(scatter);
}

bool scatter_give_patch(struct scatter *scatter, const struct timer *patch, uint32_t fields)
{
    for (size_t i = 0; i < scatter->count; i++) {
        struct command *command = &scatter->parts[i].node.command;

        command->patch_fields = fields;
        command->patch = timer_copy(patch, &patch->texts);
        if (!command->patch) {
            while (i-- > 0) {
                timer_free(scatter->parts[i].node.command.patch);
                scatter->parts[i].node.command.patch = NULL;
            }
            return false;
        }
    }
    return true;
}

void scatter_submit(struct scatter *scatter)
{
    for (size_t i = 0; i < scatter->count; i++) {
        struct scatter_part *part = &scatter->parts[i];

        part->node.done = scatter_part_done;
        /* A submitted part belongs to the shard's thread, which may have replied already. */
        enum error_code refusal = call_ask(scatter->call, &part->node);
        if (refusal) {
            part->error = refusal;
            timer_free(part->node.command.patch);
            part->node.command.patch = NULL;
            scatter_leave(scatter);
        }
    }
    scatter_leave(scatter);
}

enum error_code scatter_failure(const struct scatter *scatter)
{
    for (size_t i = 0; i < scatter->count; i++)
        if (problem_status(scatter->parts[i].error) >= 500)
            return scatter->parts[i].error;
    return ERROR_NONE;
}

void scatter_closed(struct call *call)
{
    struct scatter *scatter = call->state;

    if (scatter)
        free(scatter->room);
    free(scatter);
}
