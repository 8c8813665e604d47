/*
 * apply_plan.h - what `tickwheel apply` found in its files, and what it will do about each.
 *
 * Ownership  Texts are kept by the plan (apply_keep) until it is deinited.
 * Threads    One.
 */
#ifndef TICKWHEEL_CLI_APPLY_PLAN_H
#define TICKWHEEL_CLI_APPLY_PLAN_H

#include "cli/client.h"
#include "cli/spec_draft.h"

#define APPLY_OWNER_LABEL    "tickwheel.owner"
#define APPLY_FAILURES_SHOWN 20                   /* failures that are complained about */
#define APPLY_ITEMS_MAX      100000               /* maximum number of documents */
#define APPLY_BYTES_MAX      (UINT64_C(64) << 20) /* maximum size of all files */

/* X(NAME, word): a kind of document, in the order in which they are made. Those that others name
 * come first. */
#define APPLY_KIND_LIST(X)          \
    X(CALENDAR, "calendar")         \
    X(NAMED_TARGET, "named_target") \
    X(FLOW, "flow")                 \
    X(QUEUE, "queue")               \
    X(SCHEDULE, "schedule")

enum apply_kind {
#define X(name, word) APPLY_##name,
    APPLY_KIND_LIST(X)
#undef X
        APPLY_KINDS
};

enum apply_act {
    APPLY_UNDECIDED,
    APPLY_EQUAL,
    APPLY_CREATE,
    APPLY_CHANGE,
    APPLY_DELETE,
    APPLY_OVER,  /* a schedule whose `until` has passed: nothing is made */
    APPLY_TAKEN, /* it has another owner, or none, and was not made by apply */
};

struct apply_item {
    enum apply_kind kind;
    struct bytes name;
    struct bytes fields; /* members of the document but kind and name; empty if in no file */
    const char *file;    /* NULL if in no file */
    struct spec_document document; /* lines of the members; its JSON is `fields` */

    enum apply_act act;
    bool is_late;          /* can be compared only after other things were made */
    bool is_done;          /* what `act` says was done */
    struct bytes body;     /* request of a schedule */
    struct bytes old, new; /* canonical forms, as they are shown; empty for none */
    struct bytes owner;    /* owner on the daemon; empty for none */
    uint64_t version;      /* version on the daemon; 0 if it does not exist */
    char id[32];           /* of a schedule on the daemon */
};

struct apply_plan {
    struct cli *cli;
    struct bytes owner;       /* empty if neither flag nor file names one */
    bool takes_over;          /* takes from other owners */
    bool prunes;              /* deletes what is in no file */
    struct apply_item *items; /* those of the files, by kind and name; then those in none */
    size_t count, file_count, capacity;
    struct apply_text *texts_; /* blocks of texts that are kept */
    size_t left_count;         /* things of this owner that are in no file, and stay */
    bool must_retry;           /* something was changed by another meanwhile */
    size_t failed_count, done_count;
};

void apply_plan_deinit(struct apply_plan *plan);

/* Returns a copy of the text that lives as long as the plan; without data if out of memory. */
struct bytes apply_keep(struct apply_plan *plan, struct bytes text);

/* Appends an item; NULL if out of memory. Pointers to items are invalid after it. */
struct apply_item *apply_add(struct apply_plan *plan, enum apply_kind kind, struct bytes name);

/* Sorts the items of the files. */
void apply_sort(struct apply_plan *plan);

/* Returns the item of the files; NULL if there is none. O(log items). */
struct apply_item *apply_find(const struct apply_plan *plan, enum apply_kind kind,
                              struct bytes name);

const char *apply_kind_word(enum apply_kind kind);

/* Complains about a member of an item: "FILE:LINE: KIND NAME: #/POINTER: WHY". */
void apply_complain(const struct apply_item *item, struct bytes pointer, const char *why);

/* Complains about an item with the problem of an answer, and counts it as failed. */
void apply_fail(struct apply_plan *plan, const struct apply_item *item, struct bytes problem);

#endif
