/*
 * apply_schedules.h - the schedules of a plan: what the daemon has of them, and the changes.
 *
 * The daemon itself shows what a document would be (POST /v1/timers/batch?dry_run=true). That is
 * compared with the timer that it has, so equal means what the daemon takes for equal.
 *
 * Errors     An exit code, complained about. Failures of single items are counted in the plan.
 * Threads    One.
 */
#ifndef TICKWHEEL_CLI_APPLY_SCHEDULES_H
#define TICKWHEEL_CLI_APPLY_SCHEDULES_H

#include "cli/apply_plan.h"

/* Decides about each schedule, and adds those of the owner that are in no file. */
enum cli_exit apply_schedules_plan(struct apply_plan *plan);

/* Compares schedules that name what was only made by this plan. */
enum cli_exit apply_schedules_plan_late(struct apply_plan *plan);

/* Creates and changes. */
enum cli_exit apply_schedules_make(struct apply_plan *plan);
enum cli_exit apply_schedules_delete(struct apply_plan *plan);

#endif
