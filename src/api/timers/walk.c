/* walk.c - reads rows of all partitions, page by page. */
#include "api/timers/walk.h"

enum {
    PAGE_ROWS = 1000,
    PAGE_BYTES = 4 << 20, /* of footprint */
};

static void walk_resume(struct call *call);

/* Takes a page, while its rows are valid. */
static void walk_read(struct node_request *request)
{
    struct timer_walk *walk = list_item(request, struct timer_walk, node_);
    const struct storage_page *page = &request->command.page;

    walk->error = request->command.error;
    walk->rows_ +=
        storage_position_before(page->next, request->command.scan.to) ? PAGE_ROWS : page->count;
    for (size_t i = 0; i < page->count && !walk->error; i++)
        walk->take(walk, page->timers[i]);
    call_resume(walk->call, walk_resume);
}

static void walk_ask(struct concurrency_start *start)
{
    struct timer_walk *walk = list_item(start, struct timer_walk, start_);

    /* After it is submitted, the reply may be there and the call ended. */
    enum error_code refused = call_ask(walk->call, &walk->node_);
    if (!refused)
        return;
    walk->error = refused;
    call_resume(walk->call, walk_resume);
}

/* Requests the next page from the node. */
static void walk_next(struct timer_walk *walk, uint16_t partition, struct storage_position from)
{
    walk->node_.done = walk_read;
    walk->node_.command = (struct command){.kind = COMMAND_LIST,
                                           .partition = partition,
                                           .scan = {.partition = partition,
                                                    .kind = walk->kind,
                                                    .from = from,
                                                    .to = walk->to,
                                                    .rows_max = PAGE_ROWS,
                                                    .bytes_max = PAGE_BYTES}};
    concurrency_enter(&walk->call->api->lists, &walk->start_, caller_key(&walk->call->caller));
}

/* Continues after the page that was read, or with the next partition. */
static void walk_resume(struct call *call)
{
    struct timer_walk *walk = call->walk;
    const struct command *command = &walk->node_.command;
    uint16_t partition = command->partition;
    struct storage_position from = command->page.next;

    concurrency_leave(&call->api->lists, caller_key(&call->caller));
    if (!walk->error && !storage_position_before(from, command->scan.to)) {
        partition++;
        from = walk->from;
    }
    const bool has_more = partition < node_partition_count(call->api->options.node);
    walk->is_cut = has_more && walk->rows_ >= walk->rows_max;
    if (!walk->error && has_more && !walk->is_cut)
        walk_next(walk, partition, from);
    else
        walk->finish(walk);
}

void timer_walk_begin(struct timer_walk *walk, struct call *call)
{
    walk->call = call;
    walk->start_.begin = walk_ask;
    call->walk = walk;
    walk_next(walk, 0, walk->from);
}
