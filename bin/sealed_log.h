/*
 * sealed_log.h - the log lines about secrets of named targets, and keys of tokens, that do not
 * open because secrets_keys lacks their key: at the start, and after a reload.
 *
 * Threads    Any.
 */
#ifndef TICKWHEEL_BIN_SEALED_LOG_H
#define TICKWHEEL_BIN_SEALED_LOG_H

#include "node/node.h"
#include "ops/event_log.h"

/* Writes to the log which secrets of named targets cannot be opened, if there are any. */
void sealed_log_write(const struct event_log *log, const struct node *node);

#endif
