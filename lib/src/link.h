/*
 * link.h - circular doubly linked lists with a root, and the root as a bucket of a wheel.
 *
 * The cell is public (hierarchy.h) because callers embed it. A cell that is in no list is all zero.
 * Removing a cell needs neither its list nor its neighbours' owners, so it is O(1).
 */
#ifndef TICKWHEEL_LINK_H
#define TICKWHEEL_LINK_H

#include <tickwheel/hierarchy.h>

#include <stdio.h>
#include <stdlib.h>

/* For the public checks: aborts unless the condition holds, even if assert() is compiled out. */
#define REQUIRE(condition) \
    ((condition)           \
         ? (void)0         \
         : (fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #condition), abort()))

/* Index of a list that is not a bucket of a wheel, so that no bit need be cleared. */
#define BUCKET_NONE UINT32_MAX

/* A bucket: the root of its list, and its place in the wheel. With that, removing the last cell can
 * clear the bit of the bucket. */
struct link_bucket {
    struct tw_link root;
    uint32_t level;
    uint32_t index; /* BUCKET_NONE for a list outside the wheel */
};

static inline void bucket_init(struct link_bucket *bucket, uint32_t level, uint32_t index)
{
    bucket->root.next_ = bucket->root.prev_ = &bucket->root;
    bucket->level = level;
    bucket->index = index;
}

static inline bool bucket_is_empty(const struct link_bucket *bucket)
{
    return bucket->root.next_ == &bucket->root;
}

static inline bool link_is_linked(const struct tw_link *link)
{
    return link->next_ != NULL;
}

static inline void bucket_push(struct link_bucket *bucket, struct tw_link *link)
{
    link->next_ = &bucket->root;
    link->prev_ = bucket->root.prev_;
    bucket->root.prev_->next_ = link;
    bucket->root.prev_ = link;
}

/* Removes `link`. Returns the bucket if it is empty now; NULL if it still has cells. */
static inline struct link_bucket *bucket_remove(struct tw_link *link)
{
    struct tw_link *next = link->next_;
    struct tw_link *prev = link->prev_;

    next->prev_ = prev;
    prev->next_ = next;
    link->next_ = link->prev_ = NULL;
    /* The neighbours are equal only if both are the root. */
    return next == prev ? (struct link_bucket *)((char *)next - offsetof(struct link_bucket, root))
                        : NULL;
}

/* Appends all cells of `from`, in order, to `to`. O(1). */
static inline void bucket_join(struct link_bucket *to, struct link_bucket *from)
{
    struct tw_link *first = from->root.next_;
    struct tw_link *last = from->root.prev_;

    if (first == &from->root)
        return;
    first->prev_ = to->root.prev_;
    to->root.prev_->next_ = first;
    last->next_ = &to->root;
    to->root.prev_ = last;
    from->root.next_ = from->root.prev_ = &from->root;
}

/* For checks: walks the list both ways and returns how many cells it has. */
static inline size_t bucket_check(const struct link_bucket *bucket)
{
    size_t count = 0;

    for (const struct tw_link *link = &bucket->root; link->next_ != &bucket->root;
         link = link->next_, count++)
        REQUIRE(link->next_ && link->next_->prev_ == link);
    REQUIRE(bucket->root.prev_->next_ == &bucket->root);
    return count;
}

#endif
