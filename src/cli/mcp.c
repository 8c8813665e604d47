/*
 * mcp.c - the verb mcp: a server of the Model Context Protocol on standard input and output.
 *
 * Each call of a tool is a run of its verb in a process of its own, so that a call that waits holds
 * no other message up, and one that is cancelled ends at once. What the verb prints is the result:
 * JSON from standard output, and the sentence of a problem from standard error.
 */
#include "base/json_write.h"
#include "cli/mcp_message.h"
#include "cli/mcp_tools.h"
#include "cli/value.h"
#include "sys/clock.h"
#include "sys/output.h"
#include "sys/process.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MCP_CALLS_MAX        16          /* maximum of calls of tools at a time */
#define MCP_RESULT_BYTES_MAX (1 << 20)   /* maximum that a verb may print */
#define MCP_CHUNK_BYTES      (64 * 1024) /* read at a time */
#define MCP_FAREWELL_MS      1000        /* time for calls to end after the end of the input */

/* The first is preferred. Results have structured content from 2025-06-18 on. */
static const char *const mcp_versions[] = {"2025-06-18", "2025-03-26", "2024-11-05"};

struct mcp_call {
    bool is_running;
    const struct mcp_tool *tool;
    struct buffer id; /* JSON of the request's id */
    struct process_branch branch;
    struct buffer output, error;
    bool is_cancelled; /* the client wants no answer */
    bool is_too_large; /* it was stopped because of what it printed */
};

struct mcp_server {
    struct cli *cli;
    enum mcp_scope scope;
    const char *version;
    struct mcp_lines lines;
    struct output output; /* standard output, whose reader may stop reading */
    bool is_over;         /* the input has ended */
    bool is_stopped;      /* SIGTERM or SIGINT came */
    struct mcp_call calls[MCP_CALLS_MAX];
};

/* ---- answers ---- */

static void mcp_begin_answer(struct mcp_server *server, struct bytes id)
{
    struct buffer *out = &server->cli->out;

    json_open(out, NULL, '{');
    json_put_text(out, "jsonrpc", "2.0");
    json_put_raw(out, "id", id.size ? id : BYTES("null"));
}

/* Writes the answer. While the client does not read it, only a signal can end the wait. */
static void mcp_end_answer(struct mcp_server *server)
{
    struct cli *cli = server->cli;
    size_t at = 0;

    json_close(&cli->out, '}');
    buffer_append_text(&cli->out, "\n");
    cli->is_broken = cli->is_broken || buffer_failed(&cli->out);
    while (!cli->is_broken && !server->is_stopped && at < cli->out.size) {
        const size_t left = cli->out.size - at;
        const ssize_t written = output_write(&server->output, cli->out.data + at,
                                             left < OUTPUT_ATOMIC_MAX ? left : OUTPUT_ATOMIC_MAX);

        if (written >= 0) {
            at += (size_t)written;
        } else if (errno != EAGAIN) {
            cli->is_broken = true;
        } else {
            (void)output_wait(&server->output, -1, signals_fd(&cli->signals));
            server->is_stopped = !cli_wait(cli, 0);
        }
    }
    buffer_clear(&cli->out);
}

static void mcp_answer_error(struct mcp_server *server, struct bytes id, enum mcp_error code,
                             const char *why)
{
    struct buffer *out = &server->cli->out;
    char number[16];

    snprintf(number, sizeof(number), "%d", (int)code);
    mcp_begin_answer(server, id);
    json_open(out, "error", '{');
    json_put_raw(out, "code", bytes_of(number));
    json_put_text(out, "message", why);
    json_close(out, '}');
    mcp_end_answer(server);
}

static void mcp_put_text(struct buffer *out, struct bytes text)
{
    json_open(out, NULL, '{');
    json_put_text(out, "type", "text");
    json_put_string(out, "text", text);
    json_close(out, '}');
}

/* Answers a call that failed, with a sentence for the model. */
static void mcp_answer_failure(struct mcp_server *server, struct bytes id, struct bytes why)
{
    struct buffer *out = &server->cli->out;

    mcp_begin_answer(server, id);
    json_open(out, "result", '{');
    json_open(out, "content", '[');
    mcp_put_text(out, why);
    json_close(out, ']');
    json_put_flag(out, "isError", true);
    json_close(out, '}');
    mcp_end_answer(server);
}

/* ---- results ---- */

/* Makes one JSON object of the documents that a verb printed, one on each line. Returns false if
 * they are none. */
static bool mcp_result_read(const struct mcp_call *call, struct buffer *object)
{
    struct bytes rest = buffer_bytes(&call->output), line = {0};
    size_t count = 0;

    json_open(object, NULL, '{');
    json_open(object, "items", '[');
    while (rest.size) {
        line = bytes_cut(&rest, '\n');
        if (!cli_is_json(line, NULL, NULL))
            return false;
        json_put_raw(object, NULL, line);
        count++;
    }
    json_close(object, ']');
    json_close(object, '}');
    if (call->tool->output == MCP_ONE && count == 1 && *line.data == '{') {
        buffer_clear(object);
        buffer_append_bytes(object, line);
    }
    return count > 0 || call->tool->output == MCP_MANY;
}

/* Appends what the verb complained about, without the name of the program. */
static void mcp_append_complaints(struct bytes text, struct buffer *out)
{
    const struct bytes program = BYTES("tickwheel: ");

    while (text.size) {
        struct bytes line = bytes_cut(&text, '\n');

        if (bytes_has_prefix(line, program))
            line = (struct bytes){line.data + program.size, line.size - program.size};
        buffer_append_text(out, out->size ? "\n" : "");
        buffer_append_bytes(out, line);
    }
}

static void mcp_answer_call(struct mcp_server *server, const struct mcp_call *call, int code)
{
    struct buffer *out = &server->cli->out, object, complaints;

    buffer_init(&object);
    buffer_init(&complaints);
    const bool is_json = mcp_result_read(call, &object);
    const struct bytes text = is_json ? buffer_bytes(&object) : buffer_bytes(&call->output);
    mcp_append_complaints(buffer_bytes(&call->error), &complaints);
    if (code && !complaints.size && !call->output.size)
        buffer_printf(&complaints, "the call ended with code %d", code);
    mcp_begin_answer(server, buffer_bytes(&call->id));
    json_open(out, "result", '{');
    json_open(out, "content", '[');
    if (complaints.size)
        mcp_put_text(out, buffer_bytes(&complaints));
    if (!complaints.size || (text.size && call->output.size))
        mcp_put_text(out, text);
    json_close(out, ']');
    if (is_json && (!code || call->output.size) && server->version == mcp_versions[0])
        json_put_raw(out, "structuredContent", buffer_bytes(&object));
    json_put_flag(out, "isError", code != CLI_EXIT_DONE);
    json_close(out, '}');
    mcp_end_answer(server);
    buffer_deinit(&complaints);
    buffer_deinit(&object);
}

/* ---- calls of tools ---- */

/* What a branch of the process runs. */
struct mcp_verb {
    struct cli *cli;
    const struct mcp_tool *tool;
    const struct mcp_arguments *arguments;
};

static int mcp_run_verb(void *context)
{
    const struct mcp_verb *run = context;
    struct cli *cli = run->cli;
    struct error error = {.text = "out of memory"};

    cli->verb = verbs_find(run->tool->verb);
    cli->has_signals = false;
    if (cli_options_read(cli->verb, run->arguments->count, run->arguments->values, &cli->options,
                         &error))
        return cli_complain(CLI_EXIT_USAGE, "%s", error.text);
    cli_options_settle_times(&cli->options, wall_now());
    const enum cli_exit code = cli->verb->run(cli);
    return cli_flush(cli) || code ? (int)code : CLI_EXIT_FAILED;
}

static struct mcp_call *mcp_free_call(struct mcp_server *server)
{
    for (size_t i = 0; i < MCP_CALLS_MAX; i++)
        if (!server->calls[i].is_running)
            return &server->calls[i];
    return NULL;
}

static void mcp_start_call(struct mcp_server *server, const struct mcp_message *message,
                           const struct mcp_tool *tool)
{
    struct mcp_call *call = mcp_free_call(server);
    struct mcp_arguments arguments;
    struct mcp_verb run = {server->cli, tool, &arguments};
    struct error error = {.text = "out of memory"};

    mcp_arguments_init(&arguments);
    enum error_code code =
        call ? ERROR_NONE
             : error_set(&error, ERROR_OVERLOADED, "%d calls run already", MCP_CALLS_MAX);
    if (!code)
        code =
            mcp_arguments_read(tool, cli_member(message->params, "arguments"), &arguments, &error);
    if (!code)
        code = process_branch(mcp_run_verb, &run, &call->branch, &error);
    mcp_arguments_deinit(&arguments);
    if (code) {
        mcp_answer_failure(server, message->id, bytes_of(error.text));
        return;
    }
    call->is_running = true;
    call->is_cancelled = call->is_too_large = false;
    call->tool = tool;
    buffer_append_bytes(&call->id, message->id);
}

/* Takes what the verb has printed. */
static void mcp_read_output(struct mcp_call *call, int fd, struct buffer *output)
{
    char chunk[4096];

    for (ssize_t got; (got = process_read(fd, chunk, sizeof(chunk))) > 0;) {
        if (call->is_too_large)
            continue;
        buffer_append(output, chunk, (size_t)got);
        if (output->size <= MCP_RESULT_BYTES_MAX)
            continue;
        call->is_too_large = true;
        process_stop(&call->branch.child);
    }
}

/* Answers a call that has ended, and makes room for another. */
static void mcp_look_at_call(struct mcp_server *server, struct mcp_call *call)
{
    int code;

    mcp_read_output(call, call->branch.output_fd, &call->output);
    mcp_read_output(call, call->branch.error_fd, &call->error);
    if (!process_ended(&call->branch.child, &code))
        return;
    mcp_read_output(call, call->branch.output_fd, &call->output);
    mcp_read_output(call, call->branch.error_fd, &call->error);
    process_branch_close(&call->branch);
    call->is_running = false;
    if (call->is_too_large && !call->is_cancelled)
        mcp_answer_failure(server, buffer_bytes(&call->id),
                           BYTES("the result is larger than 1 MiB: ask for less"));
    else if (!call->is_cancelled)
        mcp_answer_call(server, call, code);
    buffer_clear(&call->id);
    buffer_clear(&call->output);
    buffer_clear(&call->error);
}

/* ---- messages ---- */

static void mcp_initialize(struct mcp_server *server, const struct mcp_message *message)
{
    const struct bytes wanted = cli_member(message->params, "protocolVersion");
    struct buffer *out = &server->cli->out;

    server->version = mcp_versions[0];
    for (size_t i = 0; i < sizeof(mcp_versions) / sizeof(*mcp_versions); i++)
        if (cli_is_text(wanted, mcp_versions[i]))
            server->version = mcp_versions[i];
    mcp_begin_answer(server, message->id);
    json_open(out, "result", '{');
    json_put_text(out, "protocolVersion", server->version);
    json_open(out, "capabilities", '{');
    json_open(out, "tools", '{');
    json_close(out, '}');
    json_close(out, '}');
    json_open(out, "serverInfo", '{');
    json_put_text(out, "name", "tickwheel");
    json_put_text(out, "title", "Tickwheel");
    json_put_text(out, "version", TICKWHEEL_VERSION);
    json_close(out, '}');
    json_put_text(out, "instructions",
                  "Tickwheel keeps timers: at its due time each calls a webhook, publishes to a "
                  "message broker, or waits in a queue for a worker. Times are durations such as "
                  "90s and 2d, or RFC 3339. To get woken up, schedule a timer with target "
                  "queue:NAME, call lease with wait, and then ack with the receipt.");
    json_close(out, '}');
    mcp_end_answer(server);
}

static void mcp_list_tools(struct mcp_server *server, const struct mcp_message *message)
{
    struct buffer *out = &server->cli->out;

    mcp_begin_answer(server, message->id);
    json_open(out, "result", '{');
    mcp_tools_append(out, "tools", server->scope);
    json_close(out, '}');
    mcp_end_answer(server);
}

static void mcp_ping(struct mcp_server *server, const struct mcp_message *message)
{
    mcp_begin_answer(server, message->id);
    json_put_raw(&server->cli->out, "result", BYTES("{}"));
    mcp_end_answer(server);
}

static void mcp_call_tool(struct mcp_server *server, const struct mcp_message *message)
{
    struct buffer name;

    buffer_init(&name);
    cli_append_value(&name, cli_member(message->params, "name"));
    const struct mcp_tool *tool = mcp_tools_find(buffer_bytes(&name), server->scope);
    buffer_deinit(&name);
    if (tool)
        mcp_start_call(server, message, tool);
    else
        mcp_answer_error(server, message->id, MCP_ERROR_PARAMS, "there is no such tool");
}

static void mcp_cancel(struct mcp_server *server, const struct mcp_message *message)
{
    const struct bytes id = cli_member(message->params, "requestId");

    for (size_t i = 0; i < MCP_CALLS_MAX; i++) {
        struct mcp_call *call = &server->calls[i];

        if (!call->is_running || call->is_cancelled || !bytes_equal(buffer_bytes(&call->id), id))
            continue;
        call->is_cancelled = true;
        process_stop(&call->branch.child);
    }
}

static void mcp_take(struct mcp_server *server, const struct mcp_message *message)
{
    static const struct {
        const char *name;
        void (*take)(struct mcp_server *server, const struct mcp_message *message);
        bool is_notification;
    } methods[] = {
        {"initialize", mcp_initialize, false},         {"ping", mcp_ping, false},
        {"tools/list", mcp_list_tools, false},         {"tools/call", mcp_call_tool, false},
        {"notifications/cancelled", mcp_cancel, true},
    };

    for (size_t i = 0; i < sizeof(methods) / sizeof(*methods); i++)
        if (bytes_equal(message->method, bytes_of(methods[i].name)) &&
            methods[i].is_notification == !message->id.size) {
            methods[i].take(server, message);
            return;
        }
    if (message->id.size && !message->is_answer)
        mcp_answer_error(server, message->id, MCP_ERROR_METHOD, "there is no such method");
}

/* Reads what is there, and takes each message of it. */
static void mcp_read_input(struct mcp_server *server)
{
    static_assert(MCP_CHUNK_BYTES <= MCP_LINE_BYTES_MAX, "a chunk is within the maximum");
    char chunk[MCP_CHUNK_BYTES];
    const ssize_t got = process_read(STDIN_FILENO, chunk, sizeof(chunk));
    struct mcp_message message;
    struct mcp_line line;
    const char *why;

    if (got < 0)
        return;
    server->is_over = got == 0;
    mcp_lines_add(&server->lines, got ? (struct bytes){chunk, (size_t)got} : BYTES("\n"));
    while (mcp_lines_next(&server->lines, &line)) {
        const enum mcp_error code =
            line.is_too_long ? MCP_ERROR_REQUEST : mcp_message_read(line.text, &message, &why);

        if (line.is_too_long)
            mcp_answer_error(server, (struct bytes){0}, code, "the message is larger than 1 MiB");
        else if (code)
            mcp_answer_error(server, message.id, code, why);
        else
            mcp_take(server, &message);
    }
}

/* ---- the server ---- */

/* Waits for input, a signal, or a call that has printed something or has ended. */
static void mcp_wait(struct mcp_server *server, uint64_t ms)
{
    struct pollfd ready[2 + 3 * MCP_CALLS_MAX];
    unsigned count = 0;

    ready[count++] = (struct pollfd){.fd = signals_fd(&server->cli->signals), .events = POLLIN};
    ready[count++] = (struct pollfd){.fd = server->is_over ? -1 : STDIN_FILENO, .events = POLLIN};
    for (size_t i = 0; i < MCP_CALLS_MAX; i++) {
        const struct process_branch *branch = &server->calls[i].branch;

        if (!server->calls[i].is_running)
            continue;
        ready[count++] = (struct pollfd){.fd = branch->output_fd, .events = POLLIN};
        ready[count++] = (struct pollfd){.fd = branch->error_fd, .events = POLLIN};
        ready[count++] = (struct pollfd){.fd = branch->child.ended_fd, .events = POLLIN};
    }
    process_await(ready, count, ms);
    if (ready[0].revents)
        server->is_stopped = server->is_stopped || !cli_wait(server->cli, 0);
    if (ready[1].revents)
        mcp_read_input(server);
    for (size_t i = 0; i < MCP_CALLS_MAX; i++)
        if (server->calls[i].is_running)
            mcp_look_at_call(server, &server->calls[i]);
}

static bool mcp_is_busy(const struct mcp_server *server)
{
    for (size_t i = 0; i < MCP_CALLS_MAX; i++)
        if (server->calls[i].is_running)
            return true;
    return false;
}

/* Ends the calls that still run, without an answer. */
static void mcp_stop_calls(struct mcp_server *server)
{
    for (size_t i = 0; i < MCP_CALLS_MAX; i++) {
        struct mcp_call *call = &server->calls[i];

        if (call->is_running)
            process_stop(&call->branch.child);
        call->is_cancelled = true;
    }
    server->is_over = true;
    for (unsigned i = 0; i < 100 && mcp_is_busy(server); i++)
        mcp_wait(server, 10);
}

static bool mcp_goes_on(const struct mcp_server *server)
{
    return !server->is_stopped && !server->cli->is_broken;
}

static enum cli_exit mcp_serve(struct mcp_server *server)
{
    while (mcp_goes_on(server) && !server->is_over)
        mcp_wait(server, UINT64_MAX);
    const struct instant until = instant_add_ms(instant_now(), MCP_FAREWELL_MS);
    while (mcp_goes_on(server) && mcp_is_busy(server) && instant_now().ns < until.ns)
        mcp_wait(server, 50);
    mcp_stop_calls(server);
    return server->is_stopped ? CLI_EXIT_STOPPED : CLI_EXIT_DONE;
}

enum cli_exit mcp_run(struct cli *cli)
{
    struct mcp_server *server = calloc(1, sizeof(*server));

    if (!server)
        return cli_complain(CLI_EXIT_FAILED, "out of memory");
    server->cli = cli;
    server->scope = cli_flag(cli, CLI_FLAG_READ_ONLY) ? MCP_READING_TOOLS : MCP_ALL_TOOLS;
    server->version = mcp_versions[0];
    mcp_lines_init(&server->lines);
    /* What verbs print is for a program, also if somebody types the messages. */
    cli->settings.form = CLI_FORM_JSON;
    cli->is_terminal = cli->is_coloured = false;
    enum cli_exit code = cli_catch_signals(cli);
    output_open(&server->output, STDOUT_FILENO);
    if (!code)
        code = mcp_serve(server);
    output_close(&server->output);
    for (size_t i = 0; i < MCP_CALLS_MAX; i++) {
        buffer_deinit(&server->calls[i].id);
        buffer_deinit(&server->calls[i].output);
        buffer_deinit(&server->calls[i].error);
    }
    mcp_lines_deinit(&server->lines);
    free(server);
    return code;
}
