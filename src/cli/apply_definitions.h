/*
 * apply_definitions.h - the calendars, named targets, flows and paused queues of a plan.
 *
 * Their owner is noted at the daemon (/v1/owners) together with a fingerprint of the document and
 * the version that was made of it. One is equal if both are as noted.
 *
 * Errors     An exit code, complained about. Failures of single items are counted in the plan.
 * Threads    One.
 */
#ifndef TICKWHEEL_CLI_APPLY_DEFINITIONS_H
#define TICKWHEEL_CLI_APPLY_DEFINITIONS_H

#include "cli/apply_plan.h"

/* Decides about each, and adds those of the owner that are in no file. */
enum cli_exit apply_definitions_plan(struct apply_plan *plan);

/* Creates and changes. An item that fails does not end it. */
enum cli_exit apply_definitions_make(struct apply_plan *plan);
enum cli_exit apply_definitions_delete(struct apply_plan *plan);

#endif
