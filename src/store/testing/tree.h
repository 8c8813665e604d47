/*
 * tree.h - an ordered map in memory from a record's key to its bytes.
 *
 * A treap (Seidel & Aragon 1996): a search tree by key and a heap by a hash of the key, so its
 * shape follows from its keys alone and is balanced for any that were not chosen to be bad. Find,
 * insert and remove are O(log n), expected.
 *
 * Ownership  A node is the caller's (one malloc) before it is inserted and after it is removed.
 * Threads    None: one owner.
 */
#ifndef TICKWHEEL_STORE_TESTING_TREE_H
#define TICKWHEEL_STORE_TESTING_TREE_H

#include "store/record.h"

struct tree_node {
    struct record_key key;
    size_t size;
    struct tree_node *left_, *right_;
    uint64_t rank_;
    char data[];
};

struct tree {
    struct tree_node *root_;
    size_t count_, bytes_;
};

static inline void tree_init(struct tree *tree)
{
    *tree = (struct tree){0};
}

/* Frees every node. */
void tree_deinit(struct tree *tree);

/* Makes a node with a copy of `value`; NULL if out of memory. Free it with free(). */
struct tree_node *tree_node_create(struct record_key key, struct bytes value);

static inline struct bytes tree_node_value(const struct tree_node *node)
{
    return (struct bytes){node->data, node->size};
}

/* Inserts `node`. Returns the node that had its key, or NULL. Cannot fail. */
struct tree_node *tree_insert(struct tree *tree, struct tree_node *node);

/* Removes and returns the node with this key; NULL if there is none. */
struct tree_node *tree_remove(struct tree *tree, struct record_key key);

/* Returns NULL if there is none. */
struct tree_node *tree_find(const struct tree *tree, struct record_key key);

/* Returns the node with the least key at or after `key`; NULL if there is none. */
struct tree_node *tree_find_from(const struct tree *tree, struct record_key key);

static inline size_t tree_count(const struct tree *tree)
{
    return tree->count_;
}

/* Returns the memory of all nodes, without malloc's own. */
static inline size_t tree_bytes(const struct tree *tree)
{
    return tree->bytes_;
}

/* For tests: aborts unless order, heap and sums hold. O(nodes). */
void tree_check(const struct tree *tree);

#endif
