/*
 * crontab_import.c - import crontab: a timer for each entry of a crontab.
 *
 * All lines are read before the first timer is created. Each becomes a line of NDJSON with the
 * number that it has in the crontab, so that what the daemon refuses is named by it. The key is a
 * hash of schedule, user and command, and of how often they stood above: a repeated import finds
 * its timers.
 */
#include "cli/crontab_import.h"

#include "base/json_write.h"
#include "calendar/zones.h"
#include "cli/client.h"
#include "cli/crontab.h"
#include "cli/fields.h"
#include "cli/value.h"
#include "sys/clock.h"
#include "sys/files.h"

#include <stdio.h>
#include <stdlib.h>

#define CRONTAB_FIRINGS 3 /* number of firings of each entry that --dry-run shows */

struct crontab_import {
    struct cli *cli;
    struct crontab crontab;
    struct crontab_entry entry;
    struct zones *zones;
    const struct zone *zone; /* time zone of the entry */
    struct bytes zone_name;
    struct buffer *lines; /* lines of NDJSON for the caller */
    struct buffer hashes; /* uint64_t hashes of the entries so far */
    size_t wrong, count;
};

static void crontab_complain(struct crontab_import *import, const char *why)
{
    import->wrong++;
    cli_complain(CLI_EXIT_USAGE, "line %zu: %s", import->crontab.line, why);
}

/* Finds the zone of an entry: CRON_TZ in a line before it, or --zone. */
static bool crontab_find_zone(struct crontab_import *import)
{
    const char *flag = cli_flag(import->cli, CLI_FLAG_ZONE);
    struct bytes named = crontab_variable(&import->crontab, "CRON_TZ");
    struct error error;

    import->zone_name = named.size || !flag ? named : bytes_of(flag);
    if (!import->zone_name.size) {
        crontab_complain(import, "name the time zone of the crontab: --zone Europe/Berlin, or UTC");
        return false;
    }
    if (zones_get(import->zones, import->zone_name, &import->zone, &error)) {
        crontab_complain(import, error.text);
        return false;
    }
    return true;
}

static void crontab_append_key(struct crontab_import *import, struct buffer *line)
{
    const struct crontab_entry *entry = &import->entry;
    uint64_t hash = bytes_hash(0, buffer_bytes(&entry->schedule));
    size_t before = 0;
    char key[64];

    hash = bytes_hash(bytes_hash(hash, entry->user), entry->text);
    for (size_t i = 0; i + sizeof(hash) <= import->hashes.size; i += sizeof(hash))
        before += memcmp(import->hashes.data + i, &hash, sizeof(hash)) == 0;
    buffer_append(&import->hashes, &hash, sizeof(hash));
    snprintf(key, sizeof(key), "crontab-%016llx-%zu", (unsigned long long)hash, before + 1);
    json_put_text(line, "key", key);
}

static void crontab_append_payload(const struct crontab_import *import, struct buffer *line)
{
    const struct crontab_entry *entry = &import->entry;
    const struct crontab *crontab = &import->crontab;

    json_open(line, "payload", '{');
    json_put_string(line, "command", buffer_bytes(&entry->command));
    if (entry->has_input)
        json_put_string(line, "stdin", buffer_bytes(&entry->input));
    if (entry->user.size)
        json_put_string(line, "user", entry->user);
    json_open(line, "env", '{');
    for (size_t i = 0; i < crontab->variable_count; i++)
        json_put_pair(line, crontab->variables[i].name, crontab->variables[i].value);
    json_close(line, '}');
    json_close(line, '}');
}

static enum cli_exit crontab_append_timer(struct crontab_import *import, struct buffer *line)
{
    struct cli *cli = import->cli;

    json_open(line, NULL, '{');
    json_put_string(line, "cron", buffer_bytes(&import->entry.schedule));
    json_put_string(line, "timezone", import->zone_name);
    json_put_text(line, "target", cli_flag(cli, CLI_FLAG_TARGET));
    crontab_append_key(import, line);
    enum cli_exit code = fields_append_pairs(cli, CLI_FLAG_LABEL, "labels", line);
    crontab_append_payload(import, line);
    json_close(line, '}');
    return code;
}

/* Prints the next firings in local time, and the command. */
static void crontab_show(struct crontab_import *import)
{
    struct buffer *out = &import->cli->out;
    struct wall at = wall_now();

    buffer_printf(out, "line %zu  ", import->crontab.line);
    screen_append(out, import->entry.text);
    buffer_append_text(out, "\n");
    for (size_t i = 0; i < CRONTAB_FIRINGS; i++) {
        at = cron_next(&import->entry.cron, import->zone, CRON_DST_SHIFT, at);
        if (at.ms == WALL_NEVER.ms)
            break;
        buffer_append_text(out, "    ");
        screen_append_local(out, import->zone, at);
        buffer_append_text(out, "\n");
    }
}

static enum cli_exit crontab_take_entry(struct crontab_import *import)
{
    struct cli *cli = import->cli;
    struct buffer line;
    enum cli_exit code = CLI_EXIT_DONE;

    if (!crontab_find_zone(import))
        return CLI_EXIT_DONE;
    buffer_init(&line);
    import->count++;
    code = crontab_append_timer(import, &line);
    if (cli_flag(cli, CLI_FLAG_DRY_RUN) && cli->settings.form == CLI_FORM_TABLE)
        crontab_show(import);
    buffer_append_bytes(import->lines, buffer_bytes(&line));
    buffer_deinit(&line);
    return code;
}

static enum cli_exit crontab_read(struct crontab_import *import)
{
    enum cli_exit code = CLI_EXIT_DONE;
    enum crontab_step step;
    struct error error;

    while (!code &&
           (step = crontab_next(&import->crontab, &import->entry, &error)) != CRONTAB_END) {
        if (step == CRONTAB_WRONG)
            crontab_complain(import, error.text);
        else if (step == CRONTAB_ENTRY)
            code = crontab_take_entry(import);
        buffer_append_text(import->lines, "\n");
    }
    if (!code && import->wrong) {
        buffer_clear(&import->cli->out);
        code = cli_complain(CLI_EXIT_USAGE, "nothing was created");
    }
    if (!code && buffer_failed(import->lines))
        code = cli_complain(CLI_EXIT_FAILED, "out of memory");
    return code;
}

/* Prints the documents that would be imported. */
static void crontab_show_lines(struct crontab_import *import)
{
    for (struct bytes rest = buffer_bytes(import->lines); rest.size;) {
        struct bytes line = bytes_cut(&rest, '\n');

        if (!line.size)
            continue;
        screen_append_json(&import->cli->out, line);
        buffer_append_text(&import->cli->out, "\n");
    }
}

static enum cli_exit crontab_run(struct crontab_import *import, const char *path)
{
    struct cli *cli = import->cli;
    struct buffer text;
    struct error error;

    buffer_init(&text);
    enum cli_exit code = CLI_EXIT_DONE;
    if (files_read(strcmp(path, "-") == 0 ? "/dev/stdin" : path, CRONTAB_BYTES_MAX, &text,
                   &error) ||
        zones_create(ZONES_FOLDER, &import->zones, &error))
        code = cli_complain(CLI_EXIT_USAGE, "%s", error.text);
    import->crontab.rest = buffer_bytes(&text);
    code = code ? code : crontab_read(import);
    if (!code && cli_flag(cli, CLI_FLAG_DRY_RUN) && cli->settings.form != CLI_FORM_TABLE)
        crontab_show_lines(import);
    buffer_deinit(&text);
    return code;
}

enum cli_exit crontab_import(struct cli *cli, struct buffer *lines)
{
    struct crontab_import *import = calloc(1, sizeof(*import));

    if (!import)
        return cli_complain(CLI_EXIT_FAILED, "out of memory");
    import->cli = cli;
    import->lines = lines;
    import->crontab.kind = cli_flag(cli, CLI_FLAG_SYSTEM) ? CRONTAB_OF_SYSTEM : CRONTAB_OF_USER;
    enum cli_exit code =
        cli_flag(cli, CLI_FLAG_TARGET)
            ? crontab_run(import, cli->options.arguments[1])
            : cli_complain(CLI_EXIT_USAGE, "name the target of the timers, as --target queue:cron");
    crontab_entry_deinit(&import->entry);
    zones_destroy(import->zones);
    buffer_deinit(&import->hashes);
    free(import);
    return code;
}
