/*
 * backup.h - copies of the storage.
 *
 * Threads    Any.
 */
#ifndef TICKWHEEL_NODE_BACKUP_H
#define TICKWHEEL_NODE_BACKUP_H

#include "node/node.h"

/* Waits for the running backup. */
void backup_join(struct node *node);

#endif
