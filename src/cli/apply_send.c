/* apply_send.c - sends the requests of `tickwheel apply`. */
#include "cli/apply_send.h"

#define APPLY_LANES    16
#define APPLY_PAUSE_MS 1000
#define APPLY_WAIT_MS  1000
#define APPLY_BUSY_MAX 60 /* maximum number of times that a busy daemon is asked again */

/* A connection, with the request that it carries. */
struct apply_lane {
    struct cli_call *call;
    struct apply_request request;
    struct cli_answer answer;
    size_t index;
    bool is_used;
};

struct apply_sending {
    struct cli *cli;
    struct cli_calls *calls;
    struct apply_lane lanes[APPLY_LANES];
    size_t next, count;
    unsigned busy_count;
    apply_prepare prepare;
    apply_answered answered;
    void *context;
    enum cli_exit code;
};

static bool apply_is_busy(const struct cli_answer *answer)
{
    /* 429 without a time is a limit that waiting does not change */
    return answer->status == 503 || (answer->status == 429 && answer->retry_after_s);
}

/* Waits before a busy daemon is asked again. */
static enum cli_exit apply_wait_busy(struct cli *cli, const struct cli_answer *answer,
                                     unsigned *busy_count)
{
    const uint64_t s = answer->retry_after_s;

    if (++*busy_count > APPLY_BUSY_MAX)
        return cli_complain_of(answer);
    return cli_wait(cli, s && s < 60 ? s * 1000 : APPLY_PAUSE_MS) ? CLI_EXIT_DONE
                                                                  : CLI_EXIT_STOPPED;
}

static struct cli_request apply_request_of(struct apply_request *request)
{
    return (struct cli_request){.method = request->method,
                                .path = cli_text(&request->path),
                                .body = request->body,
                                .content_type = request->content_type,
                                .header = *request->header ? request->header : NULL};
}

static void apply_start(struct apply_sending *sending, struct apply_lane *lane)
{
    const struct cli_request request = apply_request_of(&lane->request);

    if (buffer_failed(&lane->request.path) ||
        !cli_call_start(sending->cli, lane->call, &request, &lane->answer))
        sending->code = cli_complain(CLI_EXIT_FAILED, "out of memory");
    else
        lane->is_used = true;
}

/* Begins the next request that is needed. */
static void apply_begin(struct apply_sending *sending, struct apply_lane *lane)
{
    while (sending->next < sending->count && !lane->is_used && !sending->code) {
        lane->index = sending->next++;
        lane->request = (struct apply_request){.method = "GET"};
        buffer_init(&lane->request.path);
        sending->prepare(sending->context, lane->index, &lane->request);
        if (lane->request.path.size)
            apply_start(sending, lane);
        if (!lane->is_used)
            buffer_deinit(&lane->request.path);
    }
}

static void apply_end(struct apply_sending *sending, struct apply_lane *lane)
{
    const enum cli_exit code = cli_call_end(sending->cli, lane->call);
    bool is_again = false;

    lane->is_used = false;
    if (!sending->code && code)
        sending->code = code;
    if (!sending->code && apply_is_busy(&lane->answer)) {
        sending->code = apply_wait_busy(sending->cli, &lane->answer, &sending->busy_count);
        is_again = !sending->code;
    } else if (!sending->code) {
        sending->answered(sending->context, lane->index, &lane->answer);
    }
    cli_answer_deinit(&lane->answer);
    if (is_again)
        apply_start(sending, lane);
    if (!lane->is_used)
        buffer_deinit(&lane->request.path);
}

/* Ends the calls that are over; all of them after a failure. Returns the number of those left. */
static unsigned apply_turn(struct apply_sending *sending)
{
    unsigned used = 0;

    for (size_t i = 0; i < APPLY_LANES; i++) {
        struct apply_lane *lane = &sending->lanes[i];

        if (lane->is_used && (sending->code || cli_call_is_over(lane->call)))
            apply_end(sending, lane);
        if (!lane->is_used)
            apply_begin(sending, lane);
        used += lane->is_used;
    }
    return used;
}

enum cli_exit apply_send_all(struct cli *cli, size_t count, apply_prepare prepare,
                             apply_answered answered, void *context)
{
    struct apply_sending sending = {.cli = cli,
                                    .calls = cli_calls_create(),
                                    .count = count,
                                    .prepare = prepare,
                                    .answered = answered,
                                    .context = context};
    bool is_made = sending.calls;

    for (size_t i = 0; is_made && i < APPLY_LANES; i++)
        is_made = (sending.lanes[i].call = cli_call_create(sending.calls));
    if (!is_made)
        sending.code = cli_complain(CLI_EXIT_FAILED, "out of memory");
    while (apply_turn(&sending)) {
        cli_calls_wait(sending.calls, NULL, 0, APPLY_WAIT_MS);
        if (!sending.code && !cli_wait(cli, 0))
            sending.code = CLI_EXIT_STOPPED;
    }
    for (size_t i = 0; i < APPLY_LANES; i++)
        cli_call_destroy(sending.lanes[i].call);
    cli_calls_destroy(sending.calls);
    return sending.code;
}

enum cli_exit apply_send(struct cli *cli, struct apply_request *request,
                         struct cli_answer *ret_answer)
{
    const struct cli_request sent = apply_request_of(request);
    enum cli_exit code;
    unsigned busy_count = 0;

    while (!(code = cli_send(cli, &sent, ret_answer)) && apply_is_busy(ret_answer)) {
        code = apply_wait_busy(cli, ret_answer, &busy_count);
        cli_answer_deinit(ret_answer);
        if (code)
            break;
    }
    buffer_deinit(&request->path);
    return code;
}
