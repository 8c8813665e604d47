/*
 * patch.c - changes a timer by a merge patch. A patch whose result depends on the timer reads it,
 * merges, and writes on condition that the version is still that one; when another request was
 * faster, the refusal has the newer timer, and the merge is done again.
 *
 * A token that may not see all of a timer must not send it elsewhere, where it could. So a change
 * of the target by such a token reads the timer too.
 */

#include "api/timers/timers.h"
#include "sys/clock.h"
#include "timer/fanout.h"
#include "timer/sensitive_headers.h"

#include <strings.h>

void patch_begin(struct call *call)
{
    if (!call_refuses_type(call, "application/json", "application/merge-patch+json") &&
        !call_refuses_body(call))
        timers_read_if_match(call);
}

/* ---- what the token may not see ---- */

static bool patch_moves_unseen(const struct call *call, uint32_t fields)
{
    return fields & PATCH_TARGET && call_view(call).hides_headers;
}

/* True if each header of `headers` that is hidden is also in `given`. */
static bool patch_gives_hidden(struct bytes headers, struct bytes given,
                               const struct timer_json_view *view)
{
    while (headers.size > 0) {
        struct bytes line = bytes_cut(&headers, '\n'), rest = given;
        const struct bytes name = bytes_cut(&line, ':');
        bool is_given = !header_is_sensitive(name, view->sensitive_headers);

        while (!is_given && rest.size > 0) {
            struct bytes other = bytes_cut(&rest, '\n');
            const struct bytes other_name = bytes_cut(&other, ':');

            is_given = other_name.size == name.size &&
                       strncasecmp(other_name.data, name.data, name.size) == 0;
        }
        if (!is_given)
            return false;
    }
    return true;
}

/* Merges the body into a timer without hidden headers: the result has those of the body alone.
 * True if the values have no other hidden header, so that nothing unseen goes to the new target. */
static bool patch_shows_no_more(struct call *call, const struct timer *timer,
                                const struct timer *values, uint32_t fields)
{
    const struct timer_json_limits limits = call_timer_limits(call);
    const struct timer_json_view view = call_view(call);
    struct timer_texts texts = timer->texts;
    const struct bytes headers = fields & PATCH_HEADERS ? values->texts.headers : texts.headers;
    struct buffer shown;
    struct timer *bare, *given = NULL;
    struct problem problem;
    uint32_t unused;

    if (bytes_equal(texts.target, values->texts.target) &&
        bytes_equal(texts.targets, values->texts.targets))
        return true;
    if (view.hides_payload && texts.payload.size)
        return false;
    if (patch_gives_hidden(headers, (struct bytes){0}, &view))
        return true;
    if (!(fields & PATCH_HEADERS))
        return false;
    buffer_init(&shown);
    timer_json_append_shown_headers(texts.headers, &view, &shown);
    texts.headers = buffer_bytes(&shown);
    bare = buffer_failed(&shown) ? NULL : timer_copy(timer, &texts);
    bool shows_no_more =
        bare &&
        !timer_json_merge_patch(buffer_bytes(&call->body), bare, &limits, call_wall_coming(call),
                                &unused, &given, &problem) &&
        given && patch_gives_hidden(headers, given->texts.headers, &view);
    timer_free(given);
    timer_free(bare);
    buffer_deinit(&shown);
    return shows_no_more;
}

/* ---- the merge ---- */

static void patch_merge(struct call *call);

static void patch_merged(struct node_request *request)
{
    struct call *call = call_of(request);

    if (request->command.error != ERROR_VERSION_MISMATCH || call->if_version)
        timers_done(request);
    else if (++call->patch_tries < PATCH_TRIES_MAX)
        patch_merge(call);
    else
        call_answer_error(call, ERROR_OVERLOADED, "Too many requests change the timer at a time");
}

/* Merges the body into call->shown, and submits the result. */
static void patch_merge(struct call *call)
{
    const struct timer_json_limits limits = call_timer_limits(call);
    struct timer *timer = call->shown;

    call->shown = NULL;
    struct timer *values = NULL;
    struct problem problem;
    uint32_t fields;
    if (timer_json_merge_patch(buffer_bytes(&call->body), timer, &limits, call_wall_coming(call),
                               &fields, &values, &problem)) {
        call_answer_problem(call, &problem);
    } else if (!fields) { /* only the key, which is equal */
        call_answer_timer(call, 200, ERROR_NONE, timer);
        timer_free(values);
    } else if (patch_moves_unseen(call, fields) &&
               !patch_shows_no_more(call, timer, values, fields)) {
        call_answer_error(call, ERROR_FORBIDDEN,
                          "Another target would get what the token may not see: give the hidden "
                          "headers anew, or use a token with scope payload");
        timer_free(values);
    } else {
        call->node.command = (struct command){.kind = COMMAND_PATCH,
                                              .id = timer->id,
                                              .partition = timer->id.partition,
                                              .if_version = timer->version,
                                              .patch_fields = fields,
                                              .patch = values};
        if (call_submit(call, patch_merged))
            timer_free(values);
    }
    timer_free(timer);
}

static void patch_found(struct node_request *request)
{
    struct call *call = call_of(request);
    const struct timer *timer = request->command.timer;
    enum error_code error = request->command.error;

    if (!error && timer_is_final(timer->state))
        error = ERROR_GONE;
    else if (!error && fanout_shown_state(timer) == TIMER_DELIVERING)
        error = ERROR_ALREADY_FIRING;
    else if (!error && call->if_version && call->if_version != timer->version)
        error = ERROR_VERSION_MISMATCH;
    if (error)
        call_answer_timer(call, 200, error, timer);
    else
        patch_merge(call);
}

/* Reads the body, finds out with `address` which timer is meant, and submits the patch, or a GET
 * when the patch depends on the timer. */
static void patch_submit(struct call *call, bool (*address)(struct call *, enum command_kind))
{
    const struct timer_json_limits limits = call_timer_limits(call);
    struct command *command = &call->node.command;
    struct timer *values = NULL;
    struct problem problem;

    if (timer_json_check_patch(buffer_bytes(&call->body), &limits, call_wall_coming(call),
                               &command->patch_fields, &values, &problem)) {
        call_answer_problem(call, &problem);
        return;
    }
    if (values && patch_moves_unseen(call, command->patch_fields)) {
        timer_free(values);
        values = NULL;
    }
    if (!values)
        command->patch_fields = 0;
    call->if_version = command->if_version;
    command->patch = values;
    if (!address(call, values ? COMMAND_PATCH : COMMAND_GET) ||
        call_submit(call, values ? timers_done : patch_found))
        timer_free(values);
}

void patch_by_id(struct call *call)
{
    patch_submit(call, timers_address);
}

void patch_by_key(struct call *call)
{
    patch_submit(call, keys_address);
}
