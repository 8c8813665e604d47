/* timers.c - the verbs that read or change timers by id, key, label or event. */
#include "base/json_write.h"
#include "calendar/rfc3339.h"
#include "cli/fields.h"
#include "cli/lists.h"
#include "cli/value.h"
#include "cli/verbs.h"
#include "sys/clock.h"

/* ---- add, change, touch ---- */

/* Sends a request with `body`, and shows the timer in the answer. An answer with status 410 has the
 * final timer. */
static enum cli_exit timers_exchange(struct cli *cli, const char *method, struct buffer *path,
                                     struct buffer *body, const char *header)
{
    struct cli_answer answer;
    struct cli_request request = {.method = method, .path = cli_text(path), .header = header};

    if (body) {
        request.body = (struct bytes){cli_text(body), body->size};
        if (buffer_failed(body))
            return cli_complain(CLI_EXIT_FAILED, "out of memory");
    }
    enum cli_exit code = cli_send(cli, &request, &answer);
    struct bytes text = buffer_bytes(&answer.body), final = {NULL, 0};
    if (!code && answer.is_json && answer.status == 410)
        final = cli_member(text, "timer");
    if (!code && answer.is_json && answer.status / 100 == 2)
        lists_show(cli, text);
    else if (!code && final.size && strcmp(method, "GET") == 0)
        lists_show(cli, final);
    else if (!code)
        code = cli_complain_of(&answer);
    if (code == CLI_EXIT_NOT_FOUND && answer.status == 404 && cli->options.argument_count &&
        *cli->options.arguments[0] && !cli_flag(cli, CLI_FLAG_KEY))
        cli_complain(code, "if \"%s\" is a key, write --key %s", cli->options.arguments[0],
                     cli->options.arguments[0]);
    if (code == CLI_EXIT_NOT_FOUND && answer.status == 404 && strcmp(method, "GET") == 0)
        lists_hint_log(cli);
    cli_answer_deinit(&answer);
    return code;
}

static enum cli_exit timers_header(struct cli *cli, enum cli_flag_id flag, const char *name,
                                   struct buffer *header)
{
    const char *value = cli_flag(cli, flag);

    if (!value)
        return CLI_EXIT_DONE;
    if (bytes_has_control(bytes_of(value)))
        return cli_complain(CLI_EXIT_USAGE, "--%s has a control character",
                            cli_flag_row(flag)->name);
    buffer_printf(header, flag == CLI_FLAG_VERSION ? "%s: \"%s\"" : "%s: %s", name, value);
    return CLI_EXIT_DONE;
}

/* Appends what calls with the key do to the timer's time. */
static enum cli_exit timers_append_debounce(struct cli *cli, struct buffer *body)
{
    const char *wait = cli_flag(cli, CLI_FLAG_DEBOUNCE), *most = cli_flag(cli, CLI_FLAG_AT_MOST);

    if (!wait && !most)
        return CLI_EXIT_DONE;
    if (!wait || !most)
        return cli_complain(CLI_EXIT_USAGE, "--debounce and --at-most go together");
    json_open(body, "debounce", '{');
    json_put_text(body, "for", wait);
    json_put_text(body, "at_most", most);
    json_close(body, '}');
    return CLI_EXIT_DONE;
}

enum cli_exit timers_add(struct cli *cli)
{
    size_t count = cli->options.argument_count;
    char **arguments = cli->options.arguments;
    const char *key = cli_flag(cli, CLI_FLAG_KEY);
    bool has_time = cli_flag(cli, CLI_FLAG_CRON) || cli_flag(cli, CLI_FLAG_EVERY) ||
                    cli_flag(cli, CLI_FLAG_DEBOUNCE);
    bool is_put = cli_flag(cli, CLI_FLAG_REPLACE) != NULL;
    struct buffer path, body, header;

    if (count == 1 && !has_time)
        return cli_complain(CLI_EXIT_USAGE, "add needs WHEN and TARGET, as: tickwheel add 30m %s",
                            strchr(arguments[0], ':') ? arguments[0] : "log:hello");
    if (cli_flag(cli, CLI_FLAG_BODY) && !cli_flag(cli, CLI_FLAG_CONTENT_TYPE))
        return cli_complain(CLI_EXIT_USAGE, "--body needs --content-type, as text/plain");
    if (is_put && !key)
        return cli_complain(CLI_EXIT_USAGE, "--replace needs --key");
    buffer_init(&path);
    buffer_init(&body);
    buffer_init(&header);
    json_open(&body, NULL, '{');
    enum cli_exit code = count == 2 ? fields_append_when(&body, arguments[0]) : CLI_EXIT_DONE;
    if (key && !is_put)
        json_put_text(&body, "key", key);
    fields_append_targets(cli, arguments[count - 1], &body);
    code = code ? code : timers_append_debounce(cli, &body);
    code = code ? code : fields_append_flags(cli, &body);
    code = code ? code : timers_header(cli, CLI_FLAG_IDEMPOTENCY_KEY, "Idempotency-Key", &header);
    json_close(&body, '}');
    if (is_put) {
        fields_append_key_path(&path, bytes_of(key), "");
    } else {
        buffer_append_text(&path, "/v1/timers");
    }
    if (!code)
        code = timers_exchange(cli, is_put ? "PUT" : "POST", &path, &body,
                               header.size ? cli_text(&header) : NULL);
    buffer_deinit(&header);
    buffer_deinit(&body);
    buffer_deinit(&path);
    return code;
}

/* Sends a change. The body consists of `when`, which may be NULL, and of the flags. */
static enum cli_exit timers_send_change(struct cli *cli, const char *method,
                                        size_t arguments_behind, const char *suffix,
                                        const char *when)
{
    struct buffer path, body, header;

    buffer_init(&path);
    buffer_init(&body);
    buffer_init(&header);
    json_open(&body, NULL, '{');
    enum cli_exit code = fields_append_place(cli, &path, arguments_behind, suffix);
    if (!code && arguments_behind)
        when = cli->options.arguments[cli->options.argument_count - 1];
    if (!code && when)
        code = fields_append_when(&body, when);
    fields_append_targets(cli, NULL, &body);
    code = code ? code : fields_append_flags(cli, &body);
    code = code ? code : timers_header(cli, CLI_FLAG_VERSION, "If-Match", &header);
    if (!code && body.size == 1)
        code = cli_complain(CLI_EXIT_USAGE, "there is nothing to change: add a flag, as --when 1h");
    json_close(&body, '}');
    if (!code)
        code = timers_exchange(cli, method, &path, &body, header.size ? cli_text(&header) : NULL);
    buffer_deinit(&header);
    buffer_deinit(&body);
    buffer_deinit(&path);
    return code;
}

enum cli_exit timers_change(struct cli *cli)
{
    return timers_send_change(cli, "PATCH", 0, "", cli_flag(cli, CLI_FLAG_WHEN));
}

enum cli_exit timers_touch(struct cli *cli)
{
    return timers_send_change(cli, "POST", 1, "/touch", NULL);
}

enum cli_exit timers_get(struct cli *cli)
{
    struct buffer path;

    buffer_init(&path);
    enum cli_exit code = fields_append_place(cli, &path, 0, "");
    if (!code)
        code = timers_exchange(cli, "GET", &path, NULL, NULL);
    buffer_deinit(&path);
    return code;
}

/* ---- cancel, fire, backfill, pause, resume, release, complete ---- */

/* Appends an array of texts: the values of a flag, or the arguments. */
static void timers_append_texts(struct cli *cli, struct buffer *body, const char *name,
                                enum cli_flag_id flag)
{
    size_t cursor = 0;
    const char *text;

    json_open(body, name, '[');
    while ((text = flag == CLI_FLAG_COUNT ? cli->options.arguments[cursor++]
                                          : cli_options_next(&cli->options, flag, &cursor)))
        json_put_text(body, NULL, text);
    json_close(body, ']');
}

static enum cli_exit timers_post_counts(struct cli *cli, const char *path, struct buffer *body)
{
    struct cli_answer answer;
    const char *text = cli_text(body);
    enum cli_exit code = cli_ask(cli, "POST", path, (struct bytes){text, strlen(text)}, &answer);

    if (!code)
        code = lists_show_counts(cli, buffer_bytes(&answer.body));
    cli_answer_deinit(&answer);
    return code;
}

/* A verb that acts on one timer or on many. */
struct timers_act {
    const char *word;   /* verb in a question, such as "Cancel" */
    const char *method; /* method of the request for one timer */
    const char *suffix; /* suffix of the path for one timer */
    const char *many;   /* path for many timers; NULL if the verb takes one only */
};

static enum cli_exit timers_act_on_many(struct cli *cli, const struct timers_act *act, size_t count)
{
    bool has_labels = cli_flag(cli, CLI_FLAG_LABEL) != NULL;
    struct buffer body;
    uint64_t labelled = 0;
    enum cli_exit code = has_labels ? lists_count(cli, "/v1/timers", &labelled) : CLI_EXIT_DONE;

    if (!code && labelled + count == 0)
        return cli_complain(CLI_EXIT_DONE, "there are no live timers with these labels");
    if (!code && has_labels)
        code = cli_confirm(cli, "%s %llu timers with these labels%s?", act->word,
                           (unsigned long long)labelled, count ? ", and those named" : "");
    else if (!code)
        code = cli_confirm(cli, "%s %zu timers?", act->word, count);
    if (code)
        return code;
    buffer_init(&body);
    json_open(&body, NULL, '{');
    if (cli->options.argument_count)
        timers_append_texts(cli, &body, "ids", CLI_FLAG_COUNT);
    if (cli_flag(cli, CLI_FLAG_KEY))
        timers_append_texts(cli, &body, "keys", CLI_FLAG_KEY);
    code = fields_append_pairs(cli, CLI_FLAG_LABEL, "labels", &body);
    fields_append_pause(cli, &body);
    json_close(&body, '}');
    if (!code)
        code = timers_post_counts(cli, act->many, &body);
    buffer_deinit(&body);
    return code;
}

static enum cli_exit timers_act(struct cli *cli, const struct timers_act *act)
{
    size_t cursor = 0, count = cli->options.argument_count;
    struct buffer path, body, header;

    while (cli_options_next(&cli->options, CLI_FLAG_KEY, &cursor))
        count++;
    if (act->many && count == 0 && !cli_flag(cli, CLI_FLAG_LABEL))
        return cli_complain(CLI_EXIT_USAGE, "name the timers: by ids, --key or --label");
    if ((count > 1 || cli_flag(cli, CLI_FLAG_LABEL)) && cli_flag(cli, CLI_FLAG_VERSION))
        return cli_complain(CLI_EXIT_USAGE, "--if-version is for a single timer, by id or --key");
    if (act->many && (count > 1 || cli_flag(cli, CLI_FLAG_LABEL)))
        return timers_act_on_many(cli, act, count);
    buffer_init(&path);
    buffer_init(&body);
    buffer_init(&header);
    json_open(&body, NULL, '{');
    fields_append_pause(cli, &body);
    bool has_body = body.size > 1;
    json_close(&body, '}');
    enum cli_exit code = fields_append_place(cli, &path, 0, act->suffix);
    code = code ? code : timers_header(cli, CLI_FLAG_VERSION, "If-Match", &header);
    if (!code)
        code = timers_exchange(cli, act->method, &path, has_body ? &body : NULL,
                               header.size ? cli_text(&header) : NULL);
    buffer_deinit(&header);
    buffer_deinit(&body);
    buffer_deinit(&path);
    return code;
}

enum cli_exit timers_cancel(struct cli *cli)
{
    return timers_act(cli, &(struct timers_act){"Cancel", "DELETE", "", "/v1/timers/cancel"});
}

enum cli_exit timers_fire(struct cli *cli)
{
    return timers_act(cli, &(struct timers_act){"Fire", "POST", "/fire", "/v1/timers/fire"});
}

enum cli_exit timers_backfill(struct cli *cli)
{
    const char *since = cli_flag(cli, CLI_FLAG_SINCE), *until = cli_flag(cli, CLI_FLAG_UNTIL);
    const char *rate = cli_flag(cli, CLI_FLAG_RATE);
    char now[RFC3339_TEXT_SIZE];
    struct buffer path, body, header;

    if (!since)
        return cli_complain(CLI_EXIT_USAGE, "backfill needs --since, as --since 7d");
    rfc3339_format(wall_now(), now);
    buffer_init(&path);
    buffer_init(&body);
    buffer_init(&header);
    json_open(&body, NULL, '{');
    json_put_text(&body, "from", since);
    json_put_text(&body, "to", until ? until : now);
    if (rate)
        json_put_text(&body, "rate", rate);
    if (cli_flag(cli, CLI_FLAG_DRY_RUN))
        json_put_flag(&body, "dry_run", true);
    json_close(&body, '}');
    enum cli_exit code = fields_append_place(cli, &path, 0, "/backfill");
    code = code ? code : timers_header(cli, CLI_FLAG_IDEMPOTENCY_KEY, "Idempotency-Key", &header);
    if (!code)
        code = timers_exchange(cli, "POST", &path, &body, header.size ? cli_text(&header) : NULL);
    buffer_deinit(&header);
    buffer_deinit(&body);
    buffer_deinit(&path);
    return code;
}

enum cli_exit timers_pause(struct cli *cli)
{
    return timers_act(cli, &(struct timers_act){"Pause", "POST", "/pause", "/v1/timers/pause"});
}

enum cli_exit timers_resume(struct cli *cli)
{
    return timers_act(cli, &(struct timers_act){"Resume", "POST", "/resume", "/v1/timers/resume"});
}

enum cli_exit timers_release(struct cli *cli)
{
    return timers_act(cli, &(struct timers_act){"Release", "POST", "/release", NULL});
}

enum cli_exit timers_complete(struct cli *cli)
{
    struct buffer body;

    buffer_init(&body);
    json_open(&body, NULL, '{');
    timers_append_texts(cli, &body, "watch", CLI_FLAG_COUNT);
    if (cli_flag(cli, CLI_FLAG_FIRE))
        json_put_flag(&body, "fire", true);
    json_close(&body, '}');
    enum cli_exit code = timers_post_counts(cli, "/v1/watch/complete", &body);
    buffer_deinit(&body);
    return code;
}
