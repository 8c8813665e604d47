/*
 * admin.h - calls of the operator: POST /v1/admin/backup.
 */
#ifndef TICKWHEEL_API_OPERATIONS_ADMIN_H
#define TICKWHEEL_API_OPERATIONS_ADMIN_H

#include "api/core/call.h"

void admin_backup(struct call *call);
void admin_closed(struct call *call);

#endif
