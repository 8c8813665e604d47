/*
 * apply.c - the verb apply: makes the daemon have what files say, and shows the difference first.
 *
 * If another client changes something between the comparison and the change, the daemon refuses,
 * and the plan is made anew. So two runs at a time end in the state of one of them.
 */
#include "base/json_write.h"
#include "cli/apply_definitions.h"
#include "cli/apply_files.h"
#include "cli/apply_schedules.h"
#include "cli/canonical.h"
#include "cli/value.h"
#include "cli/verbs.h"

#include <stdio.h>
#include <string.h>

#define APPLY_ROUNDS_MAX     8
#define APPLY_ROUND_MS       250 /* pause before the second round; doubled for each further one */
#define APPLY_VALUE_SIZE_MAX 120 /* places of a value in the difference */
#define APPLY_TAKEN_SHOWN    20
#define APPLY_EXIT_CHANGES   2 /* of --dry-run: there is something to do */

/* ---- the difference ---- */

struct apply_showing {
    struct buffer *out;
    const struct apply_item *item;
    enum screen_style style;
    size_t count;
};

/* True if a member of a named target is no secret. */
static bool apply_is_public(struct bytes name)
{
    static const char *const names[] = {"url",
                                        "method",
                                        "ca",
                                        "auth.kind",
                                        "auth.username",
                                        "auth.name",
                                        "auth.token_url",
                                        "auth.scope",
                                        "auth.audience",
                                        "auth.client_id",
                                        "auth.client_auth",
                                        "auth.certificate"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (bytes_equal(name, bytes_of(names[i])))
            return true;
    return !bytes_has_prefix(name, BYTES("auth")) && !bytes_has_prefix(name, BYTES("signing")) &&
           !bytes_has_prefix(name, BYTES("headers"));
}

/* True if a value must not be shown: a secret of a named target, or any header. */
static bool apply_is_secret(const struct apply_item *item, struct bytes name)
{
    if (item->kind == APPLY_NAMED_TARGET)
        return !apply_is_public(name);
    return item->kind == APPLY_SCHEDULE && bytes_has_prefix(name, BYTES("headers"));
}

static void apply_show_value(struct apply_showing *showing, struct bytes name, struct bytes value)
{
    struct buffer shown;

    if (!value.data) {
        buffer_append_text(showing->out, "none");
        return;
    }
    if (apply_is_secret(showing->item, name)) {
        buffer_append_text(showing->out, "***");
        return;
    }
    buffer_init(&shown);
    screen_append_json(&shown, value);
    if (shown.size > APPLY_VALUE_SIZE_MAX) {
        size_t size = APPLY_VALUE_SIZE_MAX;

        while (size && ((uint8_t)shown.data[size] & 0xc0) == 0x80) /* not within a character */
            size--;
        shown.size = size;
        buffer_append_text(&shown, "...");
    }
    buffer_append_bytes(showing->out, buffer_bytes(&shown));
    buffer_deinit(&shown);
}

/* True if the difference has no effect: the daemon keeps a secret that is left out, and does not
 * show a method that is the default. */
static bool apply_is_idle(const struct apply_item *item, struct bytes name, struct bytes old,
                          struct bytes new)
{
    if (item->kind != APPLY_NAMED_TARGET)
        return false;
    return (!new.data &&
            (bytes_has_prefix(name, BYTES("auth.")) || bytes_has_prefix(name, BYTES("signing")))) ||
           (!old.data && bytes_equal(name, BYTES("method")) && bytes_equal(new, BYTES("\"POST\"")));
}

static void apply_show_difference(void *context, struct bytes name, struct bytes old,
                                  struct bytes new)
{
    struct apply_showing *showing = context;

    if (apply_is_idle(showing->item, name, old, new))
        return;
    showing->count++;
    buffer_append_text(showing->out, "    ");
    screen_append(showing->out, name);
    buffer_append_text(showing->out, ": ");
    apply_show_value(showing, name, old);
    buffer_append_text(showing->out, " -> ");
    apply_show_value(showing, name, new);
    buffer_append_text(showing->out, "\n");
}

static void apply_show_fields(struct apply_showing *showing)
{
    const struct apply_item *item = showing->item;

    if (item->kind == APPLY_CALENDAR)
        buffer_append_text(showing->out, "    its dates\n");
    else if (item->is_late && !item->new.data)
        buffer_append_text(showing->out, "    is compared when what it names is there\n");
    else
        canonical_differ(item->old, item->new, apply_show_difference, showing);
    if (item->kind != APPLY_CALENDAR && !item->is_late && !showing->count)
        buffer_append_text(showing->out, "    a secret, or changed by another hand\n");
}

static void apply_show_item(struct cli *cli, const struct apply_item *item)
{
    static const struct {
        const char *mark;
        enum screen_colour colour;
    } marks[] = {[APPLY_CREATE] = {"+ ", SCREEN_GREEN},
                 [APPLY_CHANGE] = {"~ ", SCREEN_YELLOW},
                 [APPLY_DELETE] = {"- ", SCREEN_RED}};
    struct apply_showing showing = {&cli->out, item, cli_style(cli), 0};
    struct buffer line;

    buffer_init(&line);
    buffer_append_text(&line, marks[item->act].mark);
    buffer_append_text(&line, apply_kind_word(item->kind));
    buffer_append_text(&line, " ");
    buffer_append_bytes(&line, item->name);
    screen_append_coloured(&cli->out, showing.style, marks[item->act].colour, buffer_bytes(&line));
    buffer_append_text(&cli->out, "\n");
    if (item->act == APPLY_CHANGE)
        apply_show_fields(&showing);
    buffer_deinit(&line);
}

struct apply_counts {
    size_t of[APPLY_TAKEN + 1];
};

static struct apply_counts apply_count(const struct apply_plan *plan)
{
    struct apply_counts counts = {{0}};

    for (size_t i = 0; i < plan->count; i++)
        counts.of[plan->items[i].act]++;
    return counts;
}

static size_t apply_changes(const struct apply_counts *counts)
{
    return counts->of[APPLY_CREATE] + counts->of[APPLY_CHANGE] + counts->of[APPLY_DELETE];
}

static void apply_put_value(struct apply_showing *showing, const char *member, struct bytes name,
                            struct bytes value)
{
    if (value.data && apply_is_secret(showing->item, name))
        json_put_text(showing->out, member, "***");
    else
        json_put_some_raw(showing->out, member, value);
}

static void apply_put_difference(void *context, struct bytes name, struct bytes old,
                                 struct bytes new)
{
    struct apply_showing *showing = context;

    if (apply_is_idle(showing->item, name, old, new))
        return;
    json_open(showing->out, NULL, '{');
    json_put_string(showing->out, "field", name);
    apply_put_value(showing, "old", name, old);
    apply_put_value(showing, "new", name, new);
    json_close(showing->out, '}');
}

static void apply_show_json(struct cli *cli, const struct apply_plan *plan,
                            const struct apply_counts *counts)
{
    static const char *const acts[] = {
        [APPLY_CREATE] = "create", [APPLY_CHANGE] = "change", [APPLY_DELETE] = "delete"};

    struct buffer json;

    buffer_init(&json);
    json_open(&json, NULL, '{');
    json_put_string(&json, "owner", plan->owner);
    json_open(&json, "changes", '[');
    for (size_t i = 0; i < plan->count; i++) {
        const struct apply_item *item = &plan->items[i];

        if (item->act != APPLY_CREATE && item->act != APPLY_CHANGE && item->act != APPLY_DELETE)
            continue;
        json_open(&json, NULL, '{');
        json_put_text(&json, "act", acts[item->act]);
        json_put_text(&json, "kind", apply_kind_word(item->kind));
        json_put_string(&json, "name", item->name);
        if (item->act == APPLY_CHANGE && item->kind != APPLY_CALENDAR && item->new.data) {
            struct apply_showing showing = {&json, item, cli_style(cli), 0};

            json_open(&json, "fields", '[');
            canonical_differ(item->old, item->new, apply_put_difference, &showing);
            json_close(&json, ']');
        }
        json_close(&json, '}');
    }
    json_close(&json, ']');
    json_put_number(&json, "equal", counts->of[APPLY_EQUAL]);
    json_put_number(&json, "left", plan->left_count);
    json_close(&json, '}');
    screen_append_json(&cli->out, buffer_bytes(&json));
    buffer_append_text(&cli->out, "\n");
    cli->out.failed |= buffer_failed(&json);
    buffer_deinit(&json);
}

static void apply_show(struct apply_plan *plan, const struct apply_counts *counts)
{
    struct cli *cli = plan->cli;

    if (cli->settings.form == CLI_FORM_JSON) {
        apply_show_json(cli, plan, counts);
        return;
    }
    for (size_t i = 0; i < plan->count; i++)
        if (plan->items[i].act == APPLY_CREATE || plan->items[i].act == APPLY_CHANGE ||
            plan->items[i].act == APPLY_DELETE)
            apply_show_item(cli, &plan->items[i]);
    buffer_printf(&cli->out, "%zu to create, %zu to change, %zu to delete, %zu equal",
                  counts->of[APPLY_CREATE], counts->of[APPLY_CHANGE], counts->of[APPLY_DELETE],
                  counts->of[APPLY_EQUAL]);
    if (counts->of[APPLY_OVER])
        buffer_printf(&cli->out, ", %zu over", counts->of[APPLY_OVER]);
    if (plan->left_count)
        buffer_printf(&cli->out, "; %zu in no file, which --prune deletes", plan->left_count);
    buffer_append_text(&cli->out, "\n");
}

/* ---- plan ---- */

/* Complains about what belongs to others. */
static enum cli_exit apply_refuse_taken(const struct apply_plan *plan)
{
    size_t count = 0;

    for (size_t i = 0; i < plan->count; i++) {
        const struct apply_item *item = &plan->items[i];
        struct buffer why;

        if (item->act != APPLY_TAKEN || ++count > APPLY_TAKEN_SHOWN)
            continue;
        buffer_init(&why);
        if (item->owner.size) {
            buffer_append_text(&why, "it belongs to ");
            buffer_append_bytes(&why, item->owner);
            buffer_append_text(&why, ", not to ");
            buffer_append_bytes(&why, plan->owner);
        } else {
            buffer_append_text(&why, "it exists, and apply did not make it");
        }
        buffer_append_text(&why, "; --take-over takes it");
        apply_complain(item, (struct bytes){NULL, 0}, cli_text(&why));
        buffer_deinit(&why);
    }
    if (count > APPLY_TAKEN_SHOWN)
        cli_complain(CLI_EXIT_DONE, "and %zu more", count - APPLY_TAKEN_SHOWN);
    return count ? CLI_EXIT_CONFLICT : CLI_EXIT_DONE;
}

/* Leaves what is in no file, unless --prune was given. */
static void apply_keep_left(struct apply_plan *plan)
{
    plan->left_count = 0;
    for (size_t i = plan->file_count; i < plan->count && !plan->prunes; i++) {
        plan->items[i].act = APPLY_UNDECIDED;
        plan->left_count++;
    }
}

static enum cli_exit apply_plan_all(struct apply_plan *plan)
{
    enum cli_exit code = apply_definitions_plan(plan);

    if (!code)
        code = apply_schedules_plan(plan);
    if (!code)
        code = apply_refuse_taken(plan);
    if (!code)
        apply_keep_left(plan);
    return code;
}

static enum cli_exit apply_make_all(struct apply_plan *plan)
{
    enum cli_exit code = apply_definitions_make(plan);

    if (!code)
        code = apply_schedules_plan_late(plan);
    if (!code)
        code = apply_schedules_make(plan);
    if (!code)
        code = apply_schedules_delete(plan);
    if (!code)
        code = apply_definitions_delete(plan);
    return code;
}

/* ---- rounds ---- */

struct apply_run {
    struct cli *cli;
    const char *path;
    struct buffer input; /* of standard input */
    size_t done_count, failed_count;
    bool must_retry;
};

static enum cli_exit apply_ask(struct apply_plan *plan, size_t changes)
{
    if (!cli_flush(plan->cli))
        return CLI_EXIT_FAILED;
    return cli_confirm(plan->cli, "Make %zu %s for %.*s?", changes,
                       changes == 1 ? "change" : "changes", (int)plan->owner.size,
                       plan->owner.data);
}

/* Compares and changes once. */
static enum cli_exit apply_round(struct apply_run *run, struct apply_plan *plan)
{
    enum cli_exit code = apply_plan_all(plan);

    if (code && plan->failed_count > APPLY_FAILURES_SHOWN)
        cli_complain(code, "and %zu more", plan->failed_count - APPLY_FAILURES_SHOWN);
    if (code)
        return code;
    const struct apply_counts counts = apply_count(plan);
    const size_t changes = apply_changes(&counts);
    apply_show(plan, &counts);
    if (cli_flag(run->cli, CLI_FLAG_DRY_RUN))
        return changes ? (enum cli_exit)APPLY_EXIT_CHANGES : CLI_EXIT_DONE;
    if (!changes)
        return CLI_EXIT_DONE;
    code = apply_ask(plan, changes);
    if (!code && !run->cli->has_signals) /* what was done is reported also after Ctrl-C */
        code = cli_catch_signals(run->cli);
    if (!code)
        code = apply_make_all(plan);
    run->done_count += plan->done_count;
    run->failed_count += plan->failed_count;
    run->must_retry = plan->must_retry;
    return code;
}

/* Makes a plan of the files, whose reading costs little beside the rest. */
static enum cli_exit apply_begin_plan(struct apply_run *run, struct bytes owner,
                                      struct apply_plan *ret_plan)
{
    struct cli *cli = run->cli;

    ret_plan->cli = cli;
    ret_plan->takes_over = cli_flag(cli, CLI_FLAG_TAKE_OVER);
    ret_plan->prunes = cli_flag(cli, CLI_FLAG_PRUNE);
    if (owner.size)
        ret_plan->owner = apply_keep(ret_plan, owner);
    const enum cli_exit code = apply_files_read(ret_plan, run->path, buffer_bytes(&run->input));
    if (code)
        return code;
    if (!ret_plan->owner.size)
        return cli_complain(CLI_EXIT_FAILED,
                            "who keeps these files? Give --owner NAME, or a document "
                            "`kind: owner` with a `name`");
    for (size_t i = 0; i < ret_plan->owner.size; i++) {
        const char c = ret_plan->owner.data[i];

        if (ret_plan->owner.size > 64 || !((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                                           (c >= '0' && c <= '9') || (c && strchr("._-", c))))
            return cli_complain(CLI_EXIT_FAILED,
                                "an owner has a name of 1 to 64 of A-Z a-z 0-9 . _ -");
    }
    return CLI_EXIT_DONE;
}

static enum cli_exit apply_finish(const struct apply_run *run, enum cli_exit code)
{
    if (code == (enum cli_exit)APPLY_EXIT_CHANGES && cli_flag(run->cli, CLI_FLAG_DRY_RUN))
        return code;
    if (code == CLI_EXIT_DONE && run->must_retry)
        code = cli_complain(CLI_EXIT_CONFLICT,
                            "something is being delivered, or others change it too: apply again");
    if (code == CLI_EXIT_DONE && run->failed_count)
        code = CLI_EXIT_FAILED;
    if (run->done_count || run->failed_count)
        cli_complain(CLI_EXIT_DONE, "%zu done, %zu failed%s", run->done_count, run->failed_count,
                     code ? "; apply again to go on" : "");
    return code;
}

enum cli_exit apply(struct cli *cli)
{
    const char *owner = cli_flag(cli, CLI_FLAG_OWNER);
    struct apply_run run = {.cli = cli, .path = cli_flag(cli, CLI_FLAG_FILE), .must_retry = true};

    if (!run.path)
        return cli_complain(CLI_EXIT_USAGE, "name the files: apply --file FOLDER");
    enum cli_exit code = apply_files_read_input(run.path, &run.input);
    for (unsigned i = 0; i < APPLY_ROUNDS_MAX && !code && run.must_retry; i++) {
        struct apply_plan plan = {.cli = cli};

        run.must_retry = false;
        if (i && !cli_wait(cli, (uint64_t)APPLY_ROUND_MS << (i - 1)))
            code = CLI_EXIT_STOPPED;
        else if (!(code = apply_begin_plan(&run, bytes_of(owner ? owner : ""), &plan)))
            code = apply_round(&run, &plan);
        apply_plan_deinit(&plan);
    }
    buffer_deinit(&run.input);
    return apply_finish(&run, code);
}
