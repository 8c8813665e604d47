/* backup_plan.c - makes backups when backup_cron says so.
 *
 * The next one follows from the newest planned one that is there. So one that was missed while the
 * daemon was down is made at its start, and a restart makes none twice. */
#include "node/backup_record.h"
#include "node/node_state.h"

#include <stdio.h>

enum {
    LOOK_MS = 60000,     /* so that a step of the wall clock is seen */
    LOOK_MS_BUSY = 1000, /* while a backup that was asked for runs */
};

enum error_code node_backup_check_settings(const struct config *config, struct error *ret_error)
{
    const struct bytes text = bytes_of(config->backup_cron);
    const struct zone *zone;
    struct zones *zones;
    struct error cause = {.text = "out of memory"};
    struct cron cron;

    if (!text.size)
        return ERROR_NONE;
    if (!*config->backup_folder)
        return error_set(ret_error, ERROR_INVALID, "backup_cron: set backup_folder too");
    if (cron_parse(text, &cron, &cause) || cron_check_weekdays(text, &cause))
        return error_set(ret_error, ERROR_INVALID, "backup_cron: %s", cause.text);
    if (zones_create(config->zoneinfo_folder, &zones, NULL))
        return ERROR_NONE; /* the database may be installed later */
    enum error_code code = zones_get(zones, bytes_of(config->backup_timezone), &zone, &cause);
    zones_destroy(zones);
    return code ? error_set(ret_error, ERROR_INVALID, "backup_timezone: %s", cause.text) : code;
}

void backup_tell_trouble(struct node_backups *backups, char *ret_text, size_t size)
{
    pthread_mutex_lock(&backups->lock);
    snprintf(ret_text, size, "%s", backups->trouble);
    pthread_mutex_unlock(&backups->lock);
}

/* Remembers how the last planned backup ended, for the health of the node. Returns the backup. */
static const struct node_backup *backup_plan_end(struct node_backups *backups)
{
    const struct node_backup *run = &backups->plan.run;
    const char *what = run->result             ? "the last planned backup failed: "
                       : run->prune_error.code ? "an old backup was not deleted: "
                                               : "";
    const char *why = run->result ? run->error.text : run->prune_error.text;

    pthread_mutex_lock(&backups->lock);
    snprintf(backups->trouble, sizeof(backups->trouble), "%s%.200s", what, *what ? why : "");
    pthread_mutex_unlock(&backups->lock);
    return run;
}

static void backup_plan_done(struct node_backup *backup)
{
    struct node *node = backup->node_;

    atomic_store(&node->backups.plan.has_ended, true);
    mailbox_wake(&node->report.news);
}

/* Sets the time of the backup that follows `from`. */
static enum error_code backup_plan_next(struct node *node, struct wall from,
                                        struct error *ret_error)
{
    const struct zone *zone;
    struct backup_plan *plan = &node->backups.plan;
    enum error_code code =
        zones_get(node->zones, bytes_of(node->config->backup_timezone), &zone, ret_error);

    plan->next = code ? WALL_NEVER : cron_next(&plan->cron, zone, CRON_DST_SHIFT, from);
    plan->from = from;
    return code;
}

static void backup_plan_read(struct node *node)
{
    struct backup_plan *plan = &node->backups.plan;

    plan->is_read = true;
    plan->next = WALL_NEVER;
    plan->is_on = *node->config->backup_cron &&
                  !cron_parse(bytes_of(node->config->backup_cron), &plan->cron, NULL);
}

/* Begins the backup that is due, and plans the next. BACKUP_RUNS: tries again. */
static enum error_code backup_plan_begin(struct node *node, struct wall now)
{
    struct backup_plan *plan = &node->backups.plan;

    plan->run = (struct node_backup){
        .done = backup_plan_done, .at = now, .keep = node->config->backup_keep};
    atomic_store(&plan->has_ended, false);
    enum error_code code = node_backup_start(node, &plan->run);
    if (code == ERROR_BACKUP_RUNS)
        return code;
    backup_plan_next(node, now, NULL);
    plan->is_running = !code;
    if (!code || code == ERROR_STOPPING)
        return code;
    plan->run.result = error_set(&plan->run.error, code, "%s", error_title(code));
    metrics_add(node->metrics, METRIC_BACKUPS_FAILED, 1);
    return code;
}

/* True if the time of the next backup is known. */
static bool backup_plan_is_known(struct node *node, struct wall now,
                                 const struct node_backup **ret_ended)
{
    struct backup_plan *plan = &node->backups.plan;

    if (plan->next.ms != WALL_NEVER.ms && plan->from.ms <= now.ms) /* the clock was not set back */
        return true;
    const struct backup_place place = {node->config->data_folder, node->config->backup_folder};
    const struct wall latest = backup_record_latest(&place);
    const enum error_code before = plan->run.result;
    struct error error;
    const enum error_code code = backup_plan_next(node, wall_min(latest, now), &error);
    if (!code)
        return true;
    plan->run = (struct node_backup){.result = code, .error = error};
    if (before != code) /* reported once */
        *ret_ended = backup_plan_end(&node->backups);
    return false;
}

uint64_t node_backup_look(struct node *node, struct wall now, const struct node_backup **ret_ended)
{
    struct backup_plan *plan = &node->backups.plan;

    *ret_ended = NULL;
    if (!plan->is_read)
        backup_plan_read(node);
    if (!plan->is_on)
        return UINT64_MAX;
    if (plan->is_running && !atomic_load(&plan->has_ended))
        return LOOK_MS;
    if (plan->is_running) {
        plan->is_running = false;
        *ret_ended = backup_plan_end(&node->backups);
    } else if (!backup_plan_is_known(node, now, ret_ended)) {
        return LOOK_MS;
    } else if (now.ms >= plan->next.ms) {
        const enum error_code code = backup_plan_begin(node, now);

        if (code == ERROR_BACKUP_RUNS)
            return LOOK_MS_BUSY;
        if (code && code != ERROR_STOPPING)
            *ret_ended = backup_plan_end(&node->backups);
        if (!code)
            return LOOK_MS;
    }
    const uint64_t wait_ms = wall_since(now, plan->next);
    return wait_ms < LOOK_MS ? wait_ms : LOOK_MS;
}
