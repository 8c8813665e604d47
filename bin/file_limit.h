/*
 * file_limit.h - how many files and sockets the machine lets the daemon open, shared out.
 */
#ifndef TICKWHEEL_BIN_FILE_LIMIT_H
#define TICKWHEEL_BIN_FILE_LIMIT_H

#include "base/log.h"
#include "ops/config.h"

/* Raises the limit to what the settings ask for. Where the machine does not let it, the settings
 * are lowered to what is there and the log says so: connections that take the storage's files would
 * be taken for a disk that fails. */
void file_limit_fit(struct config *config, const struct log *log);

#endif
