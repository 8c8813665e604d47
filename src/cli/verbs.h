/*
 * verbs.h - the table of verbs: help, completion and manual pages are made from it.
 *
 * A family of verbs has a file, which has their rows and their functions.
 */
#ifndef TICKWHEEL_CLI_VERBS_H
#define TICKWHEEL_CLI_VERBS_H

#include "cli/cli.h"

struct cli_verb {
    const char *name;
    const char *arguments; /* as the usage shows them; "" for none */
    unsigned arguments_min, arguments_max;
    const char *summary;             /* one line, an imperative */
    const char *about;               /* further paragraphs for --help and the manual, or NULL */
    const char *examples;            /* lines: a command, or a comment with # */
    const struct cli_flag_use *uses; /* ends with one whose meaning is NULL */
    enum cli_exit (*run)(struct cli *cli);
};

/* All verbs in the order of the overview, and their number. */
extern const struct cli_verb CLI_VERBS[];
extern const size_t CLI_VERB_COUNT;

/* NULL when there is none of that name. */
const struct cli_verb *verbs_find(const char *name);

/* The functions of the verbs: each returns an exit code of the program. */
enum cli_exit timers_add(struct cli *cli);
enum cli_exit timers_get(struct cli *cli);
enum cli_exit timers_change(struct cli *cli);
enum cli_exit timers_touch(struct cli *cli);
enum cli_exit timers_cancel(struct cli *cli);
enum cli_exit timers_complete(struct cli *cli);
enum cli_exit timers_fire(struct cli *cli);
enum cli_exit timers_pause(struct cli *cli);
enum cli_exit timers_resume(struct cli *cli);
enum cli_exit plan_preview(struct cli *cli);
enum cli_exit plan_forecast(struct cli *cli);
enum cli_exit plan_explain(struct cli *cli);
enum cli_exit dead_run(struct cli *cli);
enum cli_exit queue_lease(struct cli *cli);
enum cli_exit queue_ack(struct cli *cli);
enum cli_exit queue_nack(struct cli *cli);
enum cli_exit queue_extend(struct cli *cli);
enum cli_exit listen_run(struct cli *cli);
enum cli_exit work_run(struct cli *cli);
enum cli_exit transfer_import(struct cli *cli);
enum cli_exit transfer_export(struct cli *cli);
enum cli_exit receive_run(struct cli *cli);
enum cli_exit receive_dev(struct cli *cli);
enum cli_exit pages_completion(struct cli *cli);
enum cli_exit pages_manual(struct cli *cli);
enum cli_exit lists_list(struct cli *cli);
enum cli_exit service_health(struct cli *cli);
enum cli_exit service_backup(struct cli *cli);
enum cli_exit overview_count(struct cli *cli);
enum cli_exit overview_queues(struct cli *cli);
enum cli_exit overview_targets(struct cli *cli);
enum cli_exit overview_cluster(struct cli *cli);
enum cli_exit check_run(struct cli *cli);
enum cli_exit doctor_run(struct cli *cli);
enum cli_exit service_version(struct cli *cli);
enum cli_exit bench_run(struct cli *cli);
enum cli_exit top_run(struct cli *cli);

/* ---- help.c ---- */

/* Appends the overview, the help of a verb. */
void help_append_overview(struct buffer *out, enum screen_style style);
void help_append_verb(struct buffer *out, enum screen_style style, const struct cli_verb *verb);

#endif
