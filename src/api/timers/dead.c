/* dead.c - lists dead letters, and redrives them by id or by filter. */
#include "api/timers/dead.h"

#include <stdlib.h>

void dead_list(struct call *call)
{
    list_end_of(call, 1u << TIMER_DEAD);
}

/* ---- redrive ---- */

struct redrive;

/* One dead letter to be tried again. */
struct letter {
    struct node_request node;
    struct redrive *redrive;
    enum error_code error;
};

struct redrive {
    struct call *call;
    struct dead_ask ask;
    struct list_job *job;  /* the search for them, or NULL */
    atomic_size_t waiting; /* letters without a reply, and one for the submission itself */
    struct letter *letters;
    size_t letter_count;
    bool has_next;
    struct cursor next;
};

void dead_redrive_begin(struct call *call)
{
    if (!call_refuses_type(call, "application/json", NULL))
        call_refuses_body(call);
}

void dead_redrive_closed(struct call *call)
{
    struct redrive *redrive = call->state;

    if (!redrive)
        return;
    dead_ask_free(&redrive->ask);
    list_job_free(redrive->job);
    free(redrive->letters);
    free(redrive);
}

static void append_results(const struct redrive *redrive, struct buffer *out)
{
    buffer_append_text(out, ",\"results\":[");
    for (size_t i = 0; i < redrive->letter_count; i++) {
        enum error_code error = redrive->letters[i].error;

        buffer_printf(out, "%s\"%s\"", i ? "," : "", error ? error_slug(error) : "ok");
    }
    buffer_append_text(out, "]");
}

static void redrive_answer(struct call *call)
{
    const struct redrive *redrive = call->state;
    size_t done = 0;

    for (size_t i = 0; i < redrive->letter_count; i++)
        done += redrive->letters[i].error == ERROR_NONE;
    struct buffer body;
    buffer_init(&body);
    buffer_printf(&body, "{\"redriven\":%zu,\"failed\":%zu", done, redrive->letter_count - done);
    if (redrive->ask.ids) {
        append_results(redrive, &body);
    } else if (redrive->has_next) {
        char text[CURSOR_TEXT_SIZE];
        cursor_format(&redrive->next, text);
        buffer_printf(&body, ",\"next\":\"%s\"", text);
    } else {
        buffer_append_text(&body, ",\"next\":null");
    }
    buffer_append_text(&body, "}");
    call_answer_json(redrive->call, 200, &body);
}

static void letter_over(struct redrive *redrive)
{
    if (atomic_fetch_sub(&redrive->waiting, 1) == 1)
        call_resume(redrive->call, redrive_answer);
}

static void letter_done(struct node_request *request)
{
    struct letter *letter = list_item(request, struct letter, node);

    letter->error = request->command.error;
    letter_over(letter->redrive);
}

static void submit(struct letter *letter, const struct timer_id *id)
{
    const struct node *node = letter->redrive->call->api->options.node;

    letter->node.done = letter_done;
    letter->node.command =
        (struct command){.kind = COMMAND_REDRIVE, .partition = id->partition, .id = *id};
    letter->error = id->partition < node_partition_count(node) ? ERROR_NONE : ERROR_NOT_FOUND;
    if (letter->error)
        return;
    atomic_fetch_add(&letter->redrive->waiting, 1);
    enum error_code refused =
        call_ask(letter->redrive->call,
                 &letter->node); /* once it is submitted, the reply may be there already */
    if (refused) {
        letter->error = refused;
        letter_over(letter->redrive);
    }
}

static void redrive_all(struct redrive *redrive, const struct timer_id *ids, size_t count)
{
    redrive->letters = calloc(count + 1, sizeof(*redrive->letters));
    if (!redrive->letters) {
        call_answer_error(redrive->call, ERROR_NO_MEMORY, "");
        return;
    }
    redrive->letter_count = count;
    /* One more than the letters, so that no answer is given before all have been handed out. */
    atomic_init(&redrive->waiting, 1);
    for (size_t i = 0; i < count; i++) {
        redrive->letters[i].redrive = redrive;
        submit(&redrive->letters[i], &ids[i]);
    }
    letter_over(redrive);
}

static void redrive_found(struct call *call)
{
    struct redrive *redrive = call->state;
    struct list_found found;

    list_take_found(redrive->job, &found);
    if (found.error) {
        call_answer_error(call, found.error, "");
        return;
    }
    redrive->has_next = found.has_next;
    redrive->next = found.next;
    redrive_all(redrive, found.ids, found.count);
}

void dead_redrive(struct call *call)
{
    struct redrive *redrive = calloc(1, sizeof(*redrive));

    if (!redrive) {
        call_answer_error(call, ERROR_NO_MEMORY, "");
        return;
    }
    redrive->call = call;
    call->state = redrive;
    struct problem problem;
    if (dead_json_parse(buffer_bytes(&call->body), &redrive->ask, &problem)) {
        call_answer_problem(call, &problem);
        return;
    }
    if (redrive->ask.ids) {
        redrive_all(redrive, redrive->ask.ids, redrive->ask.id_count);
        return;
    }
    redrive->job = list_find(call, &redrive->ask.query, redrive_found);
    if (!redrive->job)
        call_answer_error(call, ERROR_NO_MEMORY, "");
}
