/*
 * dead_groups.h - GET /v1/dead/groups: how many dead letters each origin has of each error.
 *
 * Reads the dead letters of one partition after the other, a page at a time and a bounded number in
 * all, and counts those of the caller that pass the filters.
 */
#ifndef TICKWHEEL_API_TIMERS_DEAD_GROUPS_H
#define TICKWHEEL_API_TIMERS_DEAD_GROUPS_H

#include "api/core/call.h"

#define DEAD_GROUPS_MAX      1000   /* groups that are told apart; the rest are counted together */
#define DEAD_GROUPS_ROWS_MAX 100000 /* rows that a call reads */

void dead_groups(struct call *call);
void dead_groups_closed(struct call *call);

#endif
