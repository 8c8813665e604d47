/*
 * absent.h - names that timers need and that are missing: time zones, calendars.
 *
 * A name that is no longer asked for is forgotten after some calls of absent_age.
 *
 * Ownership  The caller embeds it; names are copied.
 * Threads    None: the owner guards it.
 */
#ifndef TICKWHEEL_CALENDAR_ABSENT_H
#define TICKWHEEL_CALENDAR_ABSENT_H

#include "base/bytes.h"

/* Maximum of names that are remembered; further ones are counted. */
#define ABSENT_KEPT          64
#define ABSENT_NAME_SIZE_MAX 63
#define ABSENT_AGE_MAX       20 /* calls of absent_age after which a name is forgotten */

struct absent_names {
    size_t count; /* number of `names` */
    bool has_more;
    char names[ABSENT_KEPT][ABSENT_NAME_SIZE_MAX + 1]; /* sorted */
};

struct absent {
    struct absent_names list_;
    unsigned idle_[ABSENT_KEPT]; /* calls of absent_age since each name was last asked for */
    unsigned more_idle_;         /* likewise, for names beyond the list */
};

/* Stores a missing name, which is cut at ABSENT_NAME_SIZE_MAX. */
void absent_note(struct absent *absent, struct bytes name);

/* Removes a name that is no longer missing. Returns false if it was not stored. */
bool absent_forget(struct absent *absent, struct bytes name);

/* Forgets the names that were not asked for lately. */
void absent_age(struct absent *absent);

static inline const struct absent_names *absent_names(const struct absent *absent)
{
    return &absent->list_;
}

#endif
