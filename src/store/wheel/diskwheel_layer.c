/* diskwheel_layer.c - B+ trees that only grow; see diskwheel_layer.h. */
#include "store/wheel/diskwheel_layer.h"

#include <assert.h>
#include <stdlib.h>

enum {
    LAYER_PIECE = 256 * 1024,
    LAYER_HEIGHT = 8,
    LAYER_FILL = DISKWHEEL_LAYER_WIDTH * 3 / 4, /* changes of a node, about */
};

struct diskwheel_piece {
    struct diskwheel_piece *next;
    size_t size;
    _Alignas(16) char data[];
};

/* ---- memory ---- */

static void *diskwheel_layer_take(struct diskwheel_layer *layer, size_t size)
{
    size = (size + 15) & ~(size_t)15;
    if (!layer->pieces_ || layer->size_ - layer->used_ < size) {
        const size_t room = size > LAYER_PIECE / 4 ? size : LAYER_PIECE;
        struct diskwheel_piece *piece = malloc(sizeof(*piece) + room);

        if (!piece)
            return NULL;
        layer->bytes += sizeof(*piece) + room;
        piece->size = room;
        if (room != LAYER_PIECE && layer->pieces_) { /* a big entry has a piece of its own */
            piece->next = layer->pieces_->next;
            layer->pieces_->next = piece;
            return piece->data;
        }
        piece->next = layer->pieces_;
        layer->pieces_ = piece;
        layer->size_ = room;
        layer->used_ = 0;
    }
    char *memory = layer->pieces_->data + layer->used_;
    layer->used_ += size;
    return memory;
}

void diskwheel_layer_deinit(struct diskwheel_layer *layer)
{
    while (layer->pieces_) {
        struct diskwheel_piece *piece = layer->pieces_;

        layer->pieces_ = piece->next;
        free(piece);
    }
    diskwheel_layer_init(layer);
}

static struct diskwheel_node *diskwheel_layer_make_node(struct diskwheel_layer *layer)
{
    struct diskwheel_node *node = diskwheel_layer_take(layer, sizeof(*node));

    if (node) {
        node->count = 0;
        node->next = NULL;
    }
    return node;
}

/* ---- trees ---- */

/* Returns the number of keys before `key`. */
static unsigned diskwheel_layer_before(const struct diskwheel_node *node, struct record_key key)
{
    unsigned low = 0, high = node->count;

    while (low < high) {
        const unsigned middle = (low + high) / 2;

        if (record_key_before(node->keys[middle], key))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Returns the child whose keys may include `key`. */
static unsigned diskwheel_layer_child(const struct diskwheel_node *node, struct record_key key)
{
    const unsigned before = diskwheel_layer_before(node, key);

    if (before < node->count && record_key_equal(node->keys[before], key))
        return before;
    return before ? before - 1 : 0;
}

/* Nodes from the root to a leaf, and the child taken in each. */
struct diskwheel_path {
    struct diskwheel_node *nodes[LAYER_HEIGHT];
    unsigned at[LAYER_HEIGHT];
};

/* Splits the full node; the upper half is in *ret_right. An append leaves the left one full. */
static bool diskwheel_layer_split(struct diskwheel_layer *layer, struct diskwheel_node *node,
                                  bool is_leaf, bool is_append, struct diskwheel_node **ret_right)
{
    struct diskwheel_node *right = diskwheel_layer_make_node(layer);
    const unsigned kept = is_append ? DISKWHEEL_LAYER_WIDTH - 1 : DISKWHEEL_LAYER_WIDTH / 2;

    if (!right)
        return false;
    right->count = node->count - kept;
    memcpy(right->keys, node->keys + kept, right->count * sizeof(node->keys[0]));
    memcpy(right->entries, node->entries + kept, right->count * sizeof(node->entries[0]));
    node->count = kept;
    if (is_leaf) {
        right->next = node->next;
        node->next = right;
    }
    *ret_right = right;
    return true;
}

static void diskwheel_layer_insert_at(struct diskwheel_node *node, unsigned at,
                                      struct record_key key, void *child)
{
    const unsigned behind = node->count - at;

    memmove(node->keys + at + 1, node->keys + at, behind * sizeof(node->keys[0]));
    memmove(node->entries + at + 1, node->entries + at, behind * sizeof(node->entries[0]));
    node->keys[at] = key;
    node->children[at] = child;
    node->count++;
}

/* Splits the full nodes at the end of the path, from the first one, so that the leaf has room. On
 * failure the tree is as it was, but with less room. */
static bool diskwheel_layer_make_room(struct diskwheel_layer *layer, struct diskwheel_tree *tree,
                                      struct record_key key)
{
    struct diskwheel_node *node = tree->root, *parent = NULL;
    unsigned at = 0;

    if (node->count == DISKWHEEL_LAYER_WIDTH) {
        struct diskwheel_node *root = diskwheel_layer_make_node(layer);

        if (!root || tree->height == LAYER_HEIGHT)
            return false;
        root->keys[0] = node->keys[0];
        root->children[0] = node;
        root->count = 1;
        tree->root = root;
        tree->height++;
        node = root;
    }
    for (unsigned level = tree->height; level > 0; level--) {
        if (node->count == DISKWHEEL_LAYER_WIDTH) {
            const bool is_append = record_key_before(node->keys[node->count - 1], key);
            struct diskwheel_node *right;

            assert(parent);
            if (!diskwheel_layer_split(layer, node, level == 1, is_append, &right))
                return false;
            diskwheel_layer_insert_at(parent, at + 1, right->keys[0], right);
            if (!record_key_before(key, right->keys[0]))
                node = right;
        }
        if (level == 1)
            break;
        parent = node;
        at = diskwheel_layer_child(node, key);
        node = node->children[at];
    }
    return true;
}

/* Returns the leaf whose keys may include `key`. Before the first key of a child, its parents
 * learn of the lower one. */
static struct diskwheel_node *diskwheel_layer_leaf(const struct diskwheel_tree *tree,
                                                   struct record_key key, bool is_insert)
{
    struct diskwheel_node *node = tree->root;

    for (unsigned level = tree->height; level > 1; level--) {
        const unsigned at = diskwheel_layer_child(node, key);

        if (is_insert && record_key_before(key, node->keys[at]))
            node->keys[at] = key;
        node = node->children[at];
    }
    return node;
}

bool diskwheel_layer_put(struct diskwheel_layer *layer, enum diskwheel_table table,
                         struct record_key key, enum diskwheel_change change, bool is_new,
                         struct bytes value)
{
    struct diskwheel_tree *tree = &layer->trees[table];
    struct diskwheel_entry *entry = diskwheel_layer_take(layer, sizeof(*entry) + value.size);

    assert(value.size <= UINT32_MAX);
    if (!entry)
        return false;
    layer->held += sizeof(*entry) + value.size + sizeof(struct diskwheel_node) / LAYER_FILL;
    *entry = (struct diskwheel_entry){(uint32_t)value.size, (uint8_t)change, is_new};
    if (value.size)
        memcpy(entry->value, value.data, value.size);
    if (!tree->root) {
        if (!(tree->root = diskwheel_layer_make_node(layer)))
            return false;
        tree->height = 1;
    }
    struct diskwheel_node *leaf = diskwheel_layer_leaf(tree, key, false);
    unsigned at = diskwheel_layer_before(leaf, key);
    if (at < leaf->count && record_key_equal(leaf->keys[at], key)) {
        if (leaf->entries[at]->is_new) {
            entry->is_new = true;
            if (change == DISKWHEEL_GONE)
                entry->change = DISKWHEEL_NONE;
        }
        leaf->entries[at] = entry;
        return true;
    }
    if (leaf->count == DISKWHEEL_LAYER_WIDTH && !diskwheel_layer_make_room(layer, tree, key))
        return false;
    leaf = diskwheel_layer_leaf(tree, key, true);
    at = diskwheel_layer_before(leaf, key);
    diskwheel_layer_insert_at(leaf, at, key, entry);
    tree->count++;
    return true;
}

const struct diskwheel_entry *diskwheel_layer_find(const struct diskwheel_layer *layer,
                                                   enum diskwheel_table table,
                                                   struct record_key key)
{
    const struct diskwheel_tree *tree = &layer->trees[table];

    if (!tree->root)
        return NULL;
    const struct diskwheel_node *leaf = diskwheel_layer_leaf(tree, key, false);
    const unsigned at = diskwheel_layer_before(leaf, key);
    return at < leaf->count && record_key_equal(leaf->keys[at], key) ? leaf->entries[at] : NULL;
}

struct diskwheel_walk diskwheel_layer_from(const struct diskwheel_layer *layer,
                                           enum diskwheel_table table, struct record_key key)
{
    const struct diskwheel_tree *tree = &layer->trees[table];
    struct diskwheel_walk walk = {NULL, 0};

    if (tree->root) {
        walk.leaf = diskwheel_layer_leaf(tree, key, false);
        walk.at = diskwheel_layer_before(walk.leaf, key);
    }
    return walk;
}

bool diskwheel_walk_next(struct diskwheel_walk *walk, struct record_key *ret_key,
                         struct diskwheel_entry **ret_entry)
{
    while (walk->leaf && walk->at == walk->leaf->count) {
        walk->leaf = walk->leaf->next;
        walk->at = 0;
    }
    if (!walk->leaf)
        return false;
    *ret_key = walk->leaf->keys[walk->at];
    *ret_entry = walk->leaf->entries[walk->at++];
    return true;
}
