/*
 * definitions.h - what tenants define by name for their timers: named targets, calendars, flows;
 * and who keeps one of these, or the pause of a queue, in files (api/timers/owners.c).
 *
 *     row = definitions_find(definitions, tenant, DEFINITION_TARGET, BYTES("billing"));
 *     code = definitions_put(definitions, &definition, &next);     a table with that row
 *     definition_board_show(&board, next);                         readers find it from now on
 *
 * A value is bytes that only the module of its kind reads. A table never changes: each change makes
 * another one, so a reader that holds one needs no lock (named_rows.h).
 *
 * Errors     TOO_MANY beyond a limit, NO_MEMORY, CORRUPT of bytes that definitions_encode did not
 *            write: then nothing was made.
 * Ownership  A table belongs to its holders; the last one that leaves wipes and frees it. Texts are
 *            borrowed and copied.
 * Threads    Any.
 */
#ifndef TICKWHEEL_TIMER_DEFINITIONS_H
#define TICKWHEEL_TIMER_DEFINITIONS_H

#include "timer/named_rows.h"
#include "timer/tenant.h"

/* X(NAME, byte in the key of a row). TOKEN_KEYS is the operator's: one, of the unnamed tenant. */
#define DEFINITION_KIND_LIST(X) \
    X(CALENDAR, 'c')            \
    X(FLOW, 'f')                \
    X(TARGET, 't')              \
    X(TOKEN_KEYS, 'k')          \
    X(OWNED_CALENDAR, 'C')      \
    X(OWNED_FLOW, 'F')          \
    X(OWNED_QUEUE, 'Q')         \
    X(OWNED_TARGET, 'T')

enum definition_kind {
#define X(name, byte) DEFINITION_##name = byte,
    DEFINITION_KIND_LIST(X)
#undef X
};

#define DEFINITIONS_TENANT_MAX       256    /* maximum of definitions of a kind and a tenant */
#define DEFINITIONS_BYTES_TENANT_MAX 65536  /* maximum size of all values of a tenant */
#define DEFINITIONS_BYTES_MAX        500000 /* maximum size of an encoded table */
#define DEFINITION_NAME_SIZE_MAX     64
#define DEFINITION_KEY_SIZE_MAX      (DEFINITION_NAME_SIZE_MAX + 1)

/* Bit in the version of each definition that comes from the configuration of this node. */
#define DEFINITION_CONFIGURED (UINT64_C(1) << 63)

/* Laid out like a struct named_row. */
struct definition {
    struct bytes tenant;
    struct bytes key;   /* byte of the kind, then the name */
    struct bytes value; /* 1 byte or more */
    struct wall since;  /* time of the last change */
    uint64_t version;   /* number of the change that made it, among all definitions; from 1 on */
};

/* Laid out like a struct named_rows. */
struct definitions {
    size_t count;
    atomic_uint holders_;
    struct definition rows[]; /* sorted by tenant, kind and name */
};

/* True if it has 1 to DEFINITION_NAME_SIZE_MAX characters of A-Z a-z 0-9 . _ - */
bool definition_name_is_valid(struct bytes name);

/* Writes the key of a row to `room`. The name is valid. */
struct bytes definition_key(enum definition_kind kind, struct bytes name,
                            char room[DEFINITION_KEY_SIZE_MAX]);

static inline struct bytes definition_name(const struct definition *row)
{
    return (struct bytes){row->key.data + 1, row->key.size - 1};
}

static inline enum definition_kind definition_kind(const struct definition *row)
{
    return (enum definition_kind)row->key.data[0];
}

/* True if it comes from the configuration of this node, and not from the log. */
static inline bool definition_is_configured(const struct definition *row)
{
    return row->version & DEFINITION_CONFIGURED;
}

/* Returns the version that clients see: 0 if the definition comes from the configuration. */
static inline uint64_t definition_version(const struct definition *row)
{
    return definition_is_configured(row) ? 0 : row->version;
}

/* Makes a table without rows; NULL if out of memory. Like every new table it has one holder. */
struct definitions *definitions_create(void);

/* Adds a holder. definitions_leave removes one, and frees the table after the last. */
struct definitions *definitions_hold(struct definitions *definitions);
void definitions_leave(struct definitions *definitions); /* NULL has no effect */

/* Makes a table with this row, which replaces one of its key. */
enum error_code definitions_put(const struct definitions *definitions, const struct definition *row,
                                struct definitions **ret_definitions);

/* Makes a table without the row of this key. */
enum error_code definitions_remove(const struct definitions *definitions, struct bytes tenant,
                                   struct bytes key, struct definitions **ret_definitions);

/* Makes a table with the rows of both, beyond all limits. Of two rows with one key it has that of
 * `over`. NULL if out of memory. */
struct definitions *definitions_join(const struct definitions *under,
                                     const struct definitions *over);

/* Returns the row of the key; NULL if there is none. O(log rows). */
const struct definition *definitions_at(const struct definitions *definitions, struct bytes tenant,
                                        struct bytes key);

/* Returns the row of the name, which may be invalid; NULL if there is none. */
const struct definition *definitions_find(const struct definitions *definitions,
                                          struct bytes tenant, enum definition_kind kind,
                                          struct bytes name);

/* Returns the first of the tenant's rows of this kind, in the order of their names, and their
 * number. */
const struct definition *definitions_of(const struct definitions *definitions, struct bytes tenant,
                                        enum definition_kind kind, size_t *ret_count);

/* Appends the encoded table; buffer_failed tells if memory ran out. */
void definitions_encode(const struct definitions *definitions, struct buffer *out);
enum error_code definitions_decode(struct bytes bytes, struct definitions **ret_definitions);

/* ---- the board ---- */

/* Publishes the current table to other threads. */
struct definition_board {
    struct named_board board; /* its `version` is incremented with each table */
};

void definition_board_init(struct definition_board *board);
void definition_board_deinit(struct definition_board *board);

/* Publishes the table, and becomes its holder. */
void definition_board_show(struct definition_board *board, struct definitions *definitions);

/* Makes the caller a holder of the current table. Returns NULL if there is none. */
struct definitions *definition_board_take(struct definition_board *board, uint64_t *ret_version);

#endif
