/*
 * transfer.c - the verbs import and export.
 *
 * A line of an export is a timer as the API shows it; the daemon knows it again by its key or its
 * id. Other lines are requests. Lines with a key are sent in batches. A request without a key has
 * nothing by which the daemon knows it again, so it is sent alone, with an Idempotency-Key made of
 * its number and its text: importing a file again creates nothing twice. A busy daemon (429, 503)
 * is asked again.
 */
#include "base/hex.h"
#include "base/json_write.h"
#include "cli/crontab_import.h"
#include "cli/fields.h"
#include "cli/lists.h"
#include "cli/value.h"
#include "cli/verbs.h"
#include "sys/clock.h"
#include "sys/process.h"

#include <stdio.h>
#include <unistd.h>

#define TRANSFER_BATCH_LINES_MAX 1000
#define TRANSFER_BATCH_BYTES_MAX (UINT64_C(4) << 20)
#define TRANSFER_LINE_BYTES_MAX  (UINT64_C(16) << 20)
#define TRANSFER_READ_SIZE       (256 * 1024)
#define TRANSFER_PAUSE_MS        1000
#define TRANSFER_DRAW_MS         200
#define TRANSFER_FAILURES_SHOWN  20

/* ---- progress ---- */

struct transfer_progress {
    bool is_drawn; /* standard error is a terminal, so the bar is drawn */
    struct instant began, drawn_at;
    /* handled so far; bytes_total is 0 if the size is unknown */
    uint64_t lines, bytes, bytes_total;
};

static void transfer_progress_begin(struct transfer_progress *progress, uint64_t bytes_total)
{
    *progress = (struct transfer_progress){.is_drawn = process_is_terminal(STDERR_FILENO),
                                           .began = instant_now(),
                                           .bytes_total = bytes_total};
}

static double transfer_rate(const struct transfer_progress *progress, uint64_t count)
{
    double seconds = (double)instant_since_ns(progress->began, instant_now()) / 1e9;

    return seconds > 0.001 ? (double)count / seconds : 0;
}

/* Draws the bar, at most five times a second. If `final` is set, draws it in any case. */
static void transfer_draw(struct transfer_progress *progress, const char *final)
{
    struct instant now = instant_now();
    char line[160], bar[32] = "";

    if (!progress->is_drawn || (!final && instant_since_ns(progress->drawn_at, now) <
                                              TRANSFER_DRAW_MS * UINT64_C(1000000)))
        return;
    progress->drawn_at = now;
    double share =
        progress->bytes_total ? (double)progress->bytes / (double)progress->bytes_total : 0;
    double rate = transfer_rate(progress, progress->bytes);
    int width =
        snprintf(line, sizeof(line), "\r\033[K%llu timers, %.0f/s",
                 (unsigned long long)progress->lines, transfer_rate(progress, progress->lines));
    if (progress->bytes_total && share <= 1 && !final && width > 0) {
        memset(bar, ' ', 20);
        memset(bar, '#', (size_t)(share * 20));
        snprintf(line + width, sizeof(line) - (size_t)width, " [%s] %.0f %%, %.0f s left", bar,
                 share * 100,
                 rate > 0 ? (double)(progress->bytes_total - progress->bytes) / rate : 0.0);
    }
    fputs(line, stderr);
    fputs(final ? final : "", stderr);
    fflush(stderr);
}

/* ---- import ---- */

struct transfer_import {
    struct cli *cli;
    struct transfer_progress progress;
    struct buffer batch; /* requests with a key, or lines of an export, to be sent together */
    /* line numbers, from 1, of the lines in the batch */
    uint64_t numbers[TRANSFER_BATCH_LINES_MAX];
    size_t count;
    bool restores; /* the batch has lines of an export, which are timers and not requests */
    uint64_t created, existed, failed;
    uint64_t line;  /* number of the line that was read last */
    uint64_t first; /* lines before this one are skipped */
    bool takes_milliseconds;
    enum cli_exit code;
};

static void transfer_fail(struct transfer_import *import, uint64_t line, struct bytes problem)
{
    struct bytes detail = cli_member(problem, "detail");
    struct buffer text;

    if (++import->failed > TRANSFER_FAILURES_SHOWN)
        return;
    buffer_init(&text);
    cli_append_value(&text, cli_member(problem, "title"));
    buffer_append_text(&text, detail.size ? ": " : "");
    cli_append_value(&text, detail);
    if (import->progress.is_drawn)
        fputs("\r\033[K", stderr);
    cli_complain(CLI_EXIT_DONE, "line %llu: %s", (unsigned long long)line, cli_text(&text));
    buffer_deinit(&text);
}

static bool transfer_is_busy(uint64_t status)
{
    return status == 429 || status == 503;
}

/* If the answer asks to repeat the batch, waits and returns true. A signal ends the import with
 * `code`. */
static bool transfer_wait(struct transfer_import *import, uint64_t retry_after_s)
{
    uint64_t ms = retry_after_s && retry_after_s < 3600 ? retry_after_s * 1000 : TRANSFER_PAUSE_MS;

    if (cli_wait(import->cli, ms))
        return true;
    import->code = CLI_EXIT_STOPPED;
    return false;
}

/* Keeps those lines of the batch for which the daemon was busy. Counts the others. */
static void transfer_take_failures(struct transfer_import *import, struct bytes answer)
{
    struct bytes counts = bytes_cut(&answer, '\n'), batch = buffer_bytes(&import->batch);
    struct buffer kept;
    size_t index = 0, kept_count = 0;
    const uint64_t created = cli_number(cli_member(counts, "created"), 0);
    const uint64_t existed = cli_number(cli_member(counts, "existed"), 0);
    /* The daemon has read nothing behind the line of the last problem, which may be that of the
     * batch: this line and all behind it are sent again. */
    const bool is_cut =
        created + existed + cli_number(cli_member(counts, "failed"), 0) < import->count;

    import->created += created;
    import->existed += existed;
    buffer_init(&kept);
    while (answer.size > 0) {
        struct bytes problem = bytes_cut(&answer, '\n'), line = {NULL, 0};
        uint64_t number =
            cli_is_json(problem, NULL, NULL) ? cli_number(cli_member(problem, "line"), 0) : 0;
        if (number == 0 || number <= index || number > import->count)
            continue;
        for (; index < number; index++)
            line = bytes_cut(&batch, '\n');
        const bool is_cut_here = is_cut && number > 1 && !answer.size;
        if (!is_cut_here && !transfer_is_busy(cli_number(cli_member(problem, "status"), 0))) {
            transfer_fail(import, import->numbers[number - 1], problem);
            continue;
        }
        buffer_append_bytes(&kept, line);
        buffer_append_text(&kept, "\n");
        import->numbers[kept_count++] = import->numbers[number - 1];
    }
    for (; is_cut && index < import->count; index++) {
        buffer_append_bytes(&kept, bytes_cut(&batch, '\n'));
        buffer_append_text(&kept, "\n");
        import->numbers[kept_count++] = import->numbers[index];
    }
    buffer_deinit(&import->batch);
    import->batch = kept;
    import->count = kept_count;
}

static void transfer_send_batch(struct transfer_import *import)
{
    struct cli_request request = {.method = "POST",
                                  .content_type = "application/x-ndjson",
                                  .header = import->takes_milliseconds
                                                ? "Prefer: return=minimal, after=milliseconds"
                                                : "Prefer: return=minimal"};

    while (import->count && !import->code) {
        struct cli_answer answer;

        request.body = buffer_bytes(&import->batch);
        request.path = import->restores ? "/v1/timers/batch?restore=true" : "/v1/timers/batch";
        import->code = cli_send(import->cli, &request, &answer);
        if (!import->code && answer.status == 200)
            transfer_take_failures(import, buffer_bytes(&answer.body));
        else if (!import->code && !transfer_is_busy((uint64_t)answer.status))
            import->code = cli_complain_of(&answer);
        if (!import->code && import->count)
            transfer_wait(import, answer.retry_after_s);
        cli_answer_deinit(&answer);
    }
    if (!import->code)
        buffer_clear(&import->batch);
}

static void transfer_send_one(struct transfer_import *import, struct bytes line)
{
    char name[128];
    struct cli_request request = {
        .method = "POST", .path = "/v1/timers", .body = line, .header = name};
    bool is_over = false;

    snprintf(name, sizeof(name), "Prefer: after=%s\nIdempotency-Key: import-%llu-%016llx",
             import->takes_milliseconds ? "milliseconds" : "unit", (unsigned long long)import->line,
             (unsigned long long)bytes_hash(0, line));
    while (!is_over && !import->code) {
        struct cli_answer answer;

        import->code = cli_send(import->cli, &request, &answer);
        is_over = !transfer_is_busy((uint64_t)answer.status);
        if (!import->code && !is_over)
            transfer_wait(import, answer.retry_after_s);
        else if (!import->code && answer.status / 100 == 2)
            ++*(answer.is_repeated ? &import->existed : &import->created);
        else if (!import->code && answer.status / 100 == 4 && answer.status != 401 &&
                 answer.status != 403 && cli_is_problem(&answer))
            transfer_fail(import, import->line, buffer_bytes(&answer.body));
        else if (!import->code)
            import->code = cli_complain_of(&answer);
        cli_answer_deinit(&answer);
    }
}

static void transfer_take_line(struct transfer_import *import, struct bytes line)
{
    const char *why;
    size_t offset;

    import->line++;
    line = bytes_trim(line);
    if (line.size && line.data[line.size - 1] == '\r')
        line.size--;
    if (!line.size || import->line < import->first)
        return;
    import->progress.lines++;
    if (!cli_is_json(line, &why, &offset)) {
        import->failed++;
        cli_complain(CLI_EXIT_DONE, "line %llu is no JSON: %s, at byte %zu",
                     (unsigned long long)import->line, why, offset);
    } else if (!cli_member(line, "version").size && !cli_member(line, "key").size) {
        transfer_send_one(import, line);
    } else {
        const bool restores = cli_member(line, "version").size > 0;

        if (restores != import->restores)
            transfer_send_batch(import);
        import->restores = restores;
        buffer_append_bytes(&import->batch, line);
        buffer_append_text(&import->batch, "\n");
        import->numbers[import->count++] = import->line;
        if (import->count == TRANSFER_BATCH_LINES_MAX ||
            import->batch.size >= TRANSFER_BATCH_BYTES_MAX)
            transfer_send_batch(import);
    }
    transfer_draw(&import->progress, NULL);
}

static bool transfer_is_too_long(struct transfer_import *import, size_t size)
{
    if (size > TRANSFER_LINE_BYTES_MAX)
        import->code = cli_complain(CLI_EXIT_USAGE, "line %llu is longer than %u MiB",
                                    (unsigned long long)import->line + 1,
                                    (unsigned)(TRANSFER_LINE_BYTES_MAX >> 20));
    return size > TRANSFER_LINE_BYTES_MAX;
}

/* Splits the text into lines. An incomplete last line stays in `text`. */
static void transfer_take_text(struct transfer_import *import, struct buffer *text)
{
    struct bytes rest = buffer_bytes(text);

    while (!import->code && rest.size && memchr(rest.data, '\n', rest.size)) {
        struct bytes line = bytes_cut(&rest, '\n');

        if (transfer_is_too_long(import, line.size))
            return;
        import->progress.bytes += line.size + 1;
        transfer_take_line(import, line);
    }
    if (rest.size)
        memmove(text->data, rest.data, rest.size);
    text->size = rest.size;
    if (!import->code)
        transfer_is_too_long(import, text->size);
}

static void transfer_read(struct transfer_import *import, FILE *file)
{
    struct buffer text;

    buffer_init(&text);
    for (size_t size = 1; size > 0 && !import->code;) {
        char *to = buffer_reserve(&text, TRANSFER_READ_SIZE);

        if (!to) {
            import->code = cli_complain(CLI_EXIT_FAILED, "out of memory");
            break;
        }
        size = fread(to, 1, TRANSFER_READ_SIZE, file);
        text.size += size;
        if (size == 0 && ferror(file))
            import->code = cli_complain(CLI_EXIT_FAILED, "the file cannot be read");
        if (size == 0 && text.size) /* the last line has no line break */
            buffer_append_text(&text, "\n");
        transfer_take_text(import, &text);
    }
    transfer_send_batch(import);
    buffer_deinit(&text);
}

static uint64_t transfer_size(FILE *file)
{
    long size = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : 0;

    rewind(file);
    return size > 0 ? (uint64_t)size : 0;
}

/* Returns the first line that is not done. A repeated import can begin there. */
static uint64_t transfer_next_line(const struct transfer_import *import)
{
    return import->count ? import->numbers[0] : import->line;
}

/* Creates the timers that the lines of a file describe. */
static enum cli_exit transfer_run(struct cli *cli, FILE *file)
{
    struct transfer_import import = {.cli = cli,
                                     .takes_milliseconds = cli_flag(cli, CLI_FLAG_MILLISECONDS)};

    import.code = cli_flag_number(cli, CLI_FLAG_FROM, 1, UINT64_C(1) << 53, 1, &import.first);
    if (!import.code)
        import.code = cli_catch_signals(cli);
    transfer_progress_begin(&import.progress, file == stdin ? 0 : transfer_size(file));
    if (!import.code)
        transfer_read(&import, file);
    transfer_draw(&import.progress, "\n");
    if (import.failed > TRANSFER_FAILURES_SHOWN)
        cli_complain(CLI_EXIT_DONE, "and %llu further lines failed",
                     (unsigned long long)(import.failed - TRANSFER_FAILURES_SHOWN));
    struct buffer counts;
    buffer_init(&counts);
    json_open(&counts, NULL, '{');
    json_put_number(&counts, "created", import.created);
    json_put_number(&counts, "existed", import.existed);
    json_put_number(&counts, "failed", import.failed);
    json_close(&counts, '}');
    lists_show_counts(cli, buffer_bytes(&counts));
    buffer_deinit(&counts);
    if (import.code && import.line)
        cli_complain(CLI_EXIT_DONE, "stopped: go on with --from %llu, or import all of it again",
                     (unsigned long long)transfer_next_line(&import));
    buffer_deinit(&import.batch);
    return import.code ? import.code : import.failed ? CLI_EXIT_FAILED : CLI_EXIT_DONE;
}

static enum cli_exit transfer_import_crontab(struct cli *cli)
{
    struct buffer lines;

    buffer_init(&lines);
    enum cli_exit code = crontab_import(cli, &lines);
    if (!code && !cli_flag(cli, CLI_FLAG_DRY_RUN)) {
        FILE *file = fmemopen(lines.data, lines.size, "r");

        code = file ? transfer_run(cli, file) : cli_complain(CLI_EXIT_FAILED, "out of memory");
        if (file)
            fclose(file);
    }
    buffer_deinit(&lines);
    return code;
}

/* Refuses flags that are only for a crontab. */
static enum cli_exit transfer_refuse_flags(struct cli *cli)
{
    static const enum cli_flag_id flags[] = {CLI_FLAG_TARGET, CLI_FLAG_ZONE, CLI_FLAG_LABEL,
                                             CLI_FLAG_SYSTEM, CLI_FLAG_DRY_RUN};

    for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++)
        if (cli_flag(cli, flags[i]))
            return cli_complain(CLI_EXIT_USAGE, "--%s is a flag of: tickwheel import crontab FILE",
                                cli_flag_row(flags[i])->name);
    return CLI_EXIT_DONE;
}

enum cli_exit transfer_import(struct cli *cli)
{
    const char *path = cli->options.arguments[0];
    bool is_input = strcmp(path, "-") == 0;

    if (cli->options.argument_count == 2 && strcmp(path, "crontab") == 0)
        return transfer_import_crontab(cli);
    if (cli->options.argument_count == 2)
        return cli_complain(CLI_EXIT_USAGE, "too many arguments for \"import FILE\"");
    enum cli_exit code = transfer_refuse_flags(cli);
    if (code)
        return code;
    FILE *file = is_input ? stdin : fopen(path, "r");
    if (!file)
        return cli_complain(CLI_EXIT_USAGE, "%s cannot be opened", path);
    code = transfer_run(cli, file);
    if (!is_input)
        fclose(file);
    return code;
}

/* ---- export ---- */

enum cli_exit transfer_export(struct cli *cli)
{
    struct transfer_progress progress;
    struct lists_pages pages;
    struct cli_list timers;
    struct bytes page, timer;
    enum cli_exit code = cli_catch_signals(cli);

    transfer_progress_begin(&progress, 0);
    progress.is_drawn = progress.is_drawn && !cli->is_terminal;
    lists_pages_init(&pages, cli, "/v1/timers", UINT64_MAX);
    while (!code && !pages.is_over) {
        code = lists_pages_next(cli, &pages, &page);
        cli_list_init(&timers, page);
        while (!code && cli_list_next(&timers, &timer)) {
            if (!cli_member(timer, "due").size || cli_member(timer, "ended").size)
                continue; /* skip a timer that has ended */
            if (cli_member(timer, "part_of").size)
                continue; /* its timer, which has several targets, makes it again */
            screen_append_json(&cli->out, timer);
            buffer_append_text(&cli->out, "\n");
            progress.lines++;
        }
        if (!code && !cli_flush(cli))
            code = CLI_EXIT_FAILED;
        transfer_draw(&progress, NULL);
    }
    lists_pages_deinit(&pages);
    transfer_draw(&progress, "\n");
    return code;
}
