/*
 * import_choice.h - which copy of a partition an import takes, of those that several data folders
 * have.
 *
 * Each record of a log has one place: of two whole copies, the one that had read further has
 * everything that the other one has. A part of a copy has rows of several places, and is never
 * taken. The new log begins IMPORT_EPOCHS_LOST epochs above all of them: owners whose folder is
 * lost have given ids and sent webhooks, too.
 *
 *     import_choose(copies, count, &choice);
 *     if (choice.taken != IMPORT_NO_COPY && choice.stranger == IMPORT_NO_COPY)
 *         import_open(storages[choice.taken], partition, cluster, choice.epoch, &import, &error);
 *
 * Threads    No state: any.
 */
#ifndef TICKWHEEL_CLUSTER_IMPORT_CHOICE_H
#define TICKWHEEL_CLUSTER_IMPORT_CHOICE_H

#include "store/storage.h"

#define IMPORT_NO_COPY SIZE_MAX

enum { IMPORT_EPOCHS_LOST = 1000 };

/* What a data folder has of one partition. */
struct import_copy {
    uint64_t epoch;             /* epoch of its metadata; 0 if it has no timers */
    struct storage_place place; /* all 0 if it follows no log */
};

enum import_copy_kind {
    IMPORT_COPY_NONE,
    IMPORT_COPY_SINGLE, /* timers of a single node, which follow no log */
    IMPORT_COPY_PART,   /* rows are missing, or belong to several places */
    IMPORT_COPY_WHOLE,
};

struct import_choice {
    size_t taken;    /* index of the chosen copy; IMPORT_NO_COPY if none is complete */
    size_t stranger; /* copy of a log other than that of the chosen one; IMPORT_NO_COPY if none */
    size_t further;  /* incomplete copy that had read further; IMPORT_NO_COPY if none */
    uint64_t epoch;  /* epoch of the new log; its first owner has the next one */
};

enum import_copy_kind import_copy_kind(const struct import_copy *copy);

/* Chooses the copy that had read furthest; of equal ones the first. */
void import_choose(const struct import_copy *copies, size_t count,
                   struct import_choice *ret_choice);

#endif
