/*
 * file_limit.h - fits the limits of connections to the limit of open files.
 */
#ifndef TICKWHEEL_BIN_FILE_LIMIT_H
#define TICKWHEEL_BIN_FILE_LIMIT_H

#include "ops/event_log.h"
#include "ops/config.h"

/* Raises the limit of open files to the number that the settings need. If the system refuses,
 * lowers connections_max and webhook_connections_max to fit and logs `few_files`. Reason: without
 * files left, the storage fails as if the disk did. */
void file_limit_fit(struct config *config, const struct event_log *log);

#endif
