/*
 * diskwheel_layer.h - changes in memory that no run has yet: an ordered map for each table.
 *
 * The newest change of a key replaces the one before. Memory is taken in pieces and freed with the
 * layer, so what is replaced costs memory until then.
 *
 * Errors     Out of memory: the layer is unchanged.
 * Threads    One owner; a layer that no longer changes may be read by any.
 */
#ifndef TICKWHEEL_STORE_WHEEL_DISKWHEEL_LAYER_H
#define TICKWHEEL_STORE_WHEEL_DISKWHEEL_LAYER_H

#include "store/record.h"

/* The tables whose records are in runs, in the order in which a run has them. */
enum diskwheel_table {
    DISKWHEEL_TIMERS, /* rows by position */
    DISKWHEEL_MOVED,  /* pointers by serial */
    DISKWHEEL_NAMES,  /* entries of names */
    DISKWHEEL_TABLES
};

enum diskwheel_change {
    DISKWHEEL_PUT,   /* the record is `value` */
    DISKWHEEL_TOUCH, /* `value` is a touch of an older record */
    DISKWHEEL_GONE,  /* older records of the key are over */
    DISKWHEEL_NONE,  /* nothing is known of the key: a new record that is over already */
};

/* A change of a key. */
struct diskwheel_entry {
    uint32_t size;
    uint8_t change;
    bool is_new; /* no older record can have the key */
    char value[];
};

static inline struct bytes diskwheel_entry_value(const struct diskwheel_entry *entry)
{
    return (struct bytes){entry->value, entry->size};
}

enum { DISKWHEEL_LAYER_WIDTH = 64 };

/* A node of a B+ tree: a leaf has entries, another node has children, whose keys are not below its
 * own. */
struct diskwheel_node {
    struct record_key keys[DISKWHEEL_LAYER_WIDTH];
    union {
        struct diskwheel_entry *entries[DISKWHEEL_LAYER_WIDTH];
        struct diskwheel_node *children[DISKWHEEL_LAYER_WIDTH];
    };
    struct diskwheel_node *next; /* of a leaf */
    unsigned count;
};

struct diskwheel_tree {
    struct diskwheel_node *root; /* NULL while it is empty */
    unsigned height;             /* 1 if the root is a leaf */
    size_t count;
};

struct diskwheel_layer {
    struct diskwheel_tree trees[DISKWHEEL_TABLES];
    struct diskwheel_piece *pieces_; /* memory; the one in use first */
    size_t used_, size_;             /* of the piece in use */
    size_t bytes;                    /* memory of all pieces */
    size_t held;                     /* memory of all changes, with their share of the nodes */
};

static inline void diskwheel_layer_init(struct diskwheel_layer *layer)
{
    *layer = (struct diskwheel_layer){0};
}

void diskwheel_layer_deinit(struct diskwheel_layer *layer);

/* Puts a change of the key. If the change that it replaces is new, this one is, too: then GONE
 * becomes NONE. Returns false if out of memory. */
bool diskwheel_layer_put(struct diskwheel_layer *layer, enum diskwheel_table table,
                         struct record_key key, enum diskwheel_change change, bool is_new,
                         struct bytes value);

/* Returns the change of the key; NULL if there is none. */
const struct diskwheel_entry *diskwheel_layer_find(const struct diskwheel_layer *layer,
                                                   enum diskwheel_table table,
                                                   struct record_key key);

/* Walks a table in order of keys. */
struct diskwheel_walk {
    const struct diskwheel_node *leaf;
    unsigned at;
};

struct diskwheel_walk diskwheel_layer_from(const struct diskwheel_layer *layer,
                                           enum diskwheel_table table, struct record_key key);

/* Returns false at the end. */
bool diskwheel_walk_next(struct diskwheel_walk *walk, struct record_key *ret_key,
                         struct diskwheel_entry **ret_entry);

#endif
