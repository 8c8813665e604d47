/* tree.c - a treap of records, by key. */
#include "store/testing/tree.h"

#include "base/random.h"

#include <assert.h>
#include <stdlib.h>

struct tree_node *tree_node_create(struct record_key key, struct bytes value)
{
    struct tree_node *node = malloc(sizeof(*node) + value.size);

    if (!node)
        return NULL;
    *node = (struct tree_node){.key = key, .size = value.size};
    node->rank_ = random_mix(key.low + random_mix(key.high));
    if (value.size)
        memcpy(node->data, value.data, value.size);
    return node;
}

static void tree_free_all(struct tree_node *node)
{
    if (!node)
        return;
    tree_free_all(node->left_);
    tree_free_all(node->right_);
    free(node);
}

void tree_deinit(struct tree *tree)
{
    tree_free_all(tree->root_);
    tree_init(tree);
}

/* Splits into the nodes before `key` and the rest. */
static void tree_split(struct tree_node *node, struct record_key key, struct tree_node **ret_before,
                       struct tree_node **ret_rest)
{
    if (!node) {
        *ret_before = *ret_rest = NULL;
    } else if (record_key_before(node->key, key)) {
        tree_split(node->right_, key, &node->right_, ret_rest);
        *ret_before = node;
    } else {
        tree_split(node->left_, key, ret_before, &node->left_);
        *ret_rest = node;
    }
}

/* Joins two trees; all keys of `a` are before all keys of `b`. */
static struct tree_node *tree_join(struct tree_node *a, struct tree_node *b)
{
    if (!a || !b)
        return a ? a : b;
    if (a->rank_ > b->rank_) {
        a->right_ = tree_join(a->right_, b);
        return a;
    }
    b->left_ = tree_join(a, b->left_);
    return b;
}

struct tree_node *tree_insert(struct tree *tree, struct tree_node *node)
{
    struct tree_node *old = tree_remove(tree, node->key), **at = &tree->root_;

    while (*at && (*at)->rank_ > node->rank_)
        at = record_key_before((*at)->key, node->key) ? &(*at)->right_ : &(*at)->left_;
    tree_split(*at, node->key, &node->left_, &node->right_);
    *at = node;
    tree->count_++;
    tree->bytes_ += sizeof(*node) + node->size;
    return old;
}

struct tree_node *tree_remove(struct tree *tree, struct record_key key)
{
    struct tree_node **at = &tree->root_;

    while (*at && !record_key_equal((*at)->key, key))
        at = record_key_before((*at)->key, key) ? &(*at)->right_ : &(*at)->left_;
    struct tree_node *node = *at;
    if (!node)
        return NULL;
    *at = tree_join(node->left_, node->right_);
    node->left_ = node->right_ = NULL;
    tree->count_--;
    tree->bytes_ -= sizeof(*node) + node->size;
    return node;
}

struct tree_node *tree_find(const struct tree *tree, struct record_key key)
{
    struct tree_node *node = tree_find_from(tree, key);

    return node && record_key_equal(node->key, key) ? node : NULL;
}

struct tree_node *tree_find_from(const struct tree *tree, struct record_key key)
{
    struct tree_node *best = NULL;

    for (struct tree_node *node = tree->root_; node;) {
        if (record_key_before(node->key, key)) {
            node = node->right_;
        } else {
            best = node;
            node = node->left_;
        }
    }
    return best;
}

/* Counts the nodes at `node` and below; `last` follows the keys in order. */
static void tree_check_below(const struct tree_node *node, const struct tree_node **last,
                             size_t *count, size_t *bytes)
{
    if (!node)
        return;
    assert(!node->left_ || node->left_->rank_ <= node->rank_);
    assert(!node->right_ || node->right_->rank_ <= node->rank_);
    tree_check_below(node->left_, last, count, bytes);
    assert(!*last || record_key_before((*last)->key, node->key));
    *last = node;
    *count += 1;
    *bytes += sizeof(*node) + node->size;
    tree_check_below(node->right_, last, count, bytes);
}

void tree_check(const struct tree *tree)
{
    const struct tree_node *last = NULL;
    size_t count = 0, bytes = 0;

    tree_check_below(tree->root_, &last, &count, &bytes);
    assert(count == tree->count_ && bytes == tree->bytes_);
}
