/* fields.c - the flags that describe a timer, as JSON. */
#include "cli/fields.h"

#include "base/base64.h"
#include "base/json_write.h"
#include "calendar/duration.h"
#include "calendar/rfc3339.h"
#include "cli/client.h"
#include "cli/value.h"
#include "cli/verbs.h"
#include "sys/files.h"

#define FIELDS_FILE_BYTES_MAX (UINT64_C(16) << 20)

enum cli_exit fields_append_when(struct buffer *body, const char *text)
{
    uint64_t ms;
    struct wall at;

    if (strcmp(text, "now") == 0)
        json_put_text(body, "after", "0s");
    else if (duration_parse(bytes_of(text), &ms, NULL) == ERROR_NONE)
        json_put_text(body, "after", text);
    else if (rfc3339_parse(bytes_of(text), &at, NULL) == ERROR_NONE)
        json_put_text(body, "at", text);
    else
        return cli_complain(CLI_EXIT_USAGE,
                            "\"%s\" is no time: write a duration (90s, 1h30m, 2d), a time "
                            "(2026-12-24T18:00:00+01:00), or now",
                            text);
    return CLI_EXIT_DONE;
}

enum cli_exit fields_read(const char *text, struct buffer *contents)
{
    const char *path = strcmp(text, "-") == 0 ? "/dev/stdin" : *text == '@' ? text + 1 : NULL;
    struct error error;

    if (!path)
        buffer_append_text(contents, text);
    else if (files_read(path, FIELDS_FILE_BYTES_MAX, contents, &error))
        return cli_complain(CLI_EXIT_USAGE, "%s", error.text);
    return CLI_EXIT_DONE;
}

/* The payload is put into the request unchanged, so it must be exactly one JSON value. */
static enum cli_exit fields_append_payload(const char *text, struct buffer *body)
{
    struct buffer contents;
    const char *why;
    size_t offset;

    buffer_init(&contents);
    enum cli_exit code = fields_read(text, &contents);
    if (!code && !cli_is_json(buffer_bytes(&contents), &why, &offset))
        code = cli_complain(CLI_EXIT_USAGE,
                            "the payload is no JSON: %s, at byte %zu (--body takes any text)", why,
                            offset);
    if (!code)
        json_put_raw(body, "payload", buffer_bytes(&contents));
    buffer_deinit(&contents);
    return code;
}

static enum cli_exit fields_append_body(const char *text, struct buffer *body)
{
    struct buffer contents, encoded;

    buffer_init(&contents);
    buffer_init(&encoded);
    enum cli_exit code = fields_read(text, &contents);
    base64_append(&encoded, buffer_bytes(&contents));
    if (!code)
        json_put_string(body, "body_base64", buffer_bytes(&encoded));
    buffer_deinit(&encoded);
    buffer_deinit(&contents);
    return code;
}

enum cli_exit fields_append_pairs(struct cli *cli, enum cli_flag_id flag, const char *name,
                                  struct buffer *body)
{
    const char *text;
    size_t cursor = 0;

    if (!cli_flag(cli, flag))
        return CLI_EXIT_DONE;
    json_open(body, name, '{');
    while ((text = cli_options_next(&cli->options, flag, &cursor))) {
        struct buffer pair;
        struct bytes value, key;

        buffer_init(&pair); /* a copy, because quotes are removed in place */
        buffer_append_text(&pair, text);
        value = buffer_bytes(&pair);
        if (!bytes_cut_name(&value, ':', &key)) {
            buffer_deinit(&pair);
            return cli_complain(CLI_EXIT_USAGE, "--%s takes %s", cli_flag_row(flag)->name,
                                cli_flag_row(flag)->value);
        }
        json_put_pair(body, bytes_trim(key), bytes_trim(value));
        buffer_deinit(&pair);
    }
    json_close(body, '}');
    return CLI_EXIT_DONE;
}

static enum cli_exit fields_append_nested(struct cli *cli, struct buffer *body)
{
    static const struct {
        enum cli_flag_id flag;
        const char *outer, *inner;
    } nested[] = {
        {CLI_FLAG_DROP_AFTER, "late", "drop_after"},
        {CLI_FLAG_SPREAD, "spread", "window"},
        {CLI_FLAG_ON_DEAD, "on_dead", "target"},
        {CLI_FLAG_ON_SUCCESS, "on_success", "target"},
    };
    const char *timeout = cli_flag(cli, CLI_FLAG_ATTEMPT_TIMEOUT);
    const char *give_up = cli_flag(cli, CLI_FLAG_GIVE_UP_AFTER);
    const char *until = cli_flag(cli, CLI_FLAG_RETRY_UNTIL);
    uint64_t attempts;

    for (size_t i = 0; i < sizeof(nested) / sizeof(*nested); i++) {
        const char *value = cli_flag(cli, nested[i].flag);
        if (!value)
            continue;
        json_open(body, nested[i].outer, '{');
        json_put_text(body, nested[i].inner, value);
        json_close(body, '}');
    }
    if (cli_flag_number(cli, CLI_FLAG_ATTEMPTS, 1, 100, 0, &attempts))
        return CLI_EXIT_USAGE;
    if (!attempts && !timeout && !give_up && !until)
        return CLI_EXIT_DONE;
    json_open(body, "retry", '{');
    if (attempts)
        json_put_number(body, "max_attempts", attempts);
    if (timeout)
        json_put_text(body, "timeout", timeout);
    if (give_up)
        json_put_text(body, "give_up_after", give_up);
    if (until)
        json_put_text(body, "until", until);
    json_close(body, '}');
    return CLI_EXIT_DONE;
}

/* Appends the fields of --set FIELD=JSON, which is for fields without a flag. */
static enum cli_exit fields_append_sets(struct cli *cli, struct buffer *body)
{
    const char *text;
    size_t cursor = 0;

    while ((text = cli_options_next(&cli->options, CLI_FLAG_SET, &cursor))) {
        struct bytes value = bytes_of(text), name = bytes_cut(&value, '=');

        if (!cli_is_json(value, NULL, NULL))
            return cli_complain(CLI_EXIT_USAGE,
                                "--set takes FIELD=JSON, as retry='{\"base\":\"5s\"}'");
        json_put_string(body, NULL, name);
        buffer_append_text(body, ":");
        json_put_raw(body, NULL, value);
    }
    return CLI_EXIT_DONE;
}

static void fields_append_events(struct cli *cli, struct buffer *body)
{
    const char *text;
    size_t cursor = 0;

    if (!cli_flag(cli, CLI_FLAG_EVENT))
        return;
    json_open(body, "watch", '[');
    while ((text = cli_options_next(&cli->options, CLI_FLAG_EVENT, &cursor)))
        json_put_text(body, NULL, text);
    json_close(body, ']');
}

/* Appends the dates of the flag, which have commas between them. */
static void fields_append_dates(struct cli *cli, enum cli_flag_id flag, const char *name,
                                struct buffer *body)
{
    size_t cursor = 0;

    if (!cli_flag(cli, flag))
        return;
    json_open(body, name, '[');
    for (const char *text; (text = cli_options_next(&cli->options, flag, &cursor));)
        for (struct bytes rest = bytes_of(text); rest.size;)
            json_put_string(body, NULL, bytes_trim(bytes_cut(&rest, ',')));
    json_close(body, ']');
}

void fields_append_targets(struct cli *cli, const char *first, struct buffer *body)
{
    size_t cursor = 0, count = first != NULL;

    while (cli_options_next(&cli->options, CLI_FLAG_TARGET, &cursor))
        count++;
    if (count == 1)
        json_put_text(body, "target", first ? first : cli_flag(cli, CLI_FLAG_TARGET));
    if (count < 2)
        return;
    json_open(body, "targets", '[');
    if (first)
        json_put_text(body, NULL, first);
    cursor = 0;
    for (const char *text; (text = cli_options_next(&cli->options, CLI_FLAG_TARGET, &cursor));)
        json_put_text(body, NULL, text);
    json_close(body, ']');
}

enum cli_exit fields_append_flags(struct cli *cli, struct buffer *body)
{
    static const struct {
        enum cli_flag_id flag;
        const char *name;
    } texts[] = {
        {CLI_FLAG_METHOD, "method"},   {CLI_FLAG_ORDER, "order"},
        {CLI_FLAG_CRON, "cron"},       {CLI_FLAG_EVERY, "every"},
        {CLI_FLAG_ZONE, "timezone"},   {CLI_FLAG_DST, "dst"},
        {CLI_FLAG_UNTIL, "until"},     {CLI_FLAG_CONTENT_TYPE, "content_type"},
        {CLI_FLAG_OVERLAP, "overlap"}, {CLI_FLAG_ON_HOLIDAY, "on_holiday"},
    };
    const char *payload = cli_flag(cli, CLI_FLAG_PAYLOAD), *text = cli_flag(cli, CLI_FLAG_BODY);
    uint64_t count;
    enum cli_exit code = cli_flag_number(cli, CLI_FLAG_NUMBER, 1, UINT64_C(1) << 53, 0, &count);

    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        const char *value = cli_flag(cli, texts[i].flag);
        if (value)
            json_put_text(body, texts[i].name, value);
    }
    if (!code && count)
        json_put_number(body, "count", count);
    fields_append_events(cli, body);
    fields_append_dates(cli, CLI_FLAG_EXCEPT, "except", body);
    fields_append_dates(cli, CLI_FLAG_ONLY, "only", body);
    code = code || !payload ? code : fields_append_payload(payload, body);
    code = code || !text ? code : fields_append_body(text, body);
    code = code ? code : fields_append_pairs(cli, CLI_FLAG_LABEL, "labels", body);
    code = code ? code : fields_append_pairs(cli, CLI_FLAG_HEADER, "headers", body);
    code = code ? code : fields_append_nested(cli, body);
    return code ? code : fields_append_sets(cli, body);
}

void fields_append_key_path(struct buffer *path, struct bytes key, const char *suffix)
{
    /* With a suffix, such as that of a touch, the path has no "/timer". */
    const char *verb = *suffix ? suffix : "/timer";
    bool is_safe = !bytes_equal(key, BYTES(".")) && !bytes_equal(key, BYTES(".."));

    for (size_t i = 0; i < key.size; i++)
        is_safe = is_safe && !strchr("/\\%;", key.data[i]);
    buffer_append_text(path, is_safe ? "/v1/keys/" : "/v1/key");
    if (is_safe)
        cli_append_path(path, key);
    buffer_append_text(path, verb);
    if (!is_safe)
        cli_append_query(path, "key", key);
}

enum cli_exit fields_append_place(struct cli *cli, struct buffer *path, size_t arguments_behind,
                                  const char *suffix)
{
    const char *key = cli_flag(cli, CLI_FLAG_KEY);
    size_t wanted = arguments_behind + (key == NULL);

    if (cli->options.argument_count != wanted)
        return cli_complain(CLI_EXIT_USAGE,
                            "name the timer by its id, or by --key KEY; tickwheel %s --help has "
                            "examples",
                            cli->verb->name);
    if (key) {
        fields_append_key_path(path, bytes_of(key), suffix);
        return CLI_EXIT_DONE;
    }
    buffer_append_text(path, "/v1/timers/");
    cli_append_path(path, bytes_of(cli->options.arguments[0]));
    buffer_append_text(path, suffix);
    return CLI_EXIT_DONE;
}

void fields_append_pause(struct cli *cli, struct buffer *body)
{
    if (cli_flag(cli, CLI_FLAG_NOTE))
        json_put_text(body, "note", cli_flag(cli, CLI_FLAG_NOTE));
    if (cli_flag(cli, CLI_FLAG_UNTIL))
        json_put_text(body, "until", cli_flag(cli, CLI_FLAG_UNTIL));
}
