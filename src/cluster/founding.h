/*
 * founding.h - the record that founds a cluster: the body of a note of node 0 in its control topic.
 *
 * It has the count of partitions, and a digest of the secret that nodes prove to each other, so
 * that a node with another secret does not join. The digest tells nothing of a secret that cannot
 * be guessed. A cluster that was founded without a secret gets the digest by the first planner that
 * has one. Of several foundings the last one with a digest counts.
 *
 * Threads    No state: any.
 */
#ifndef TICKWHEEL_CLUSTER_FOUNDING_H
#define TICKWHEEL_CLUSTER_FOUNDING_H

#include "base/bytes.h"

enum {
    FOUNDING_DIGEST_SIZE = 16,
    FOUNDING_SIZE_LARGEST = 2 + FOUNDING_DIGEST_SIZE,
};

struct founding {
    uint16_t partition_count;
    bool has_digest;
    uint8_t digest[FOUNDING_DIGEST_SIZE]; /* digest of the secret; all 0 without one */
};

/* Sets the digest of the secret; none if the secret is empty. Returns false if out of memory. */
bool founding_set_secret(struct founding *founding, struct bytes secret);

/* True unless both have a digest, and the digests differ. */
bool founding_agrees(const struct founding *founding, const struct founding *other);

/* Returns the size of the body. */
size_t founding_encode(const struct founding *founding, char ret_body[FOUNDING_SIZE_LARGEST]);

/* Returns false if the body is not one of a founding. */
bool founding_decode(struct bytes body, struct founding *ret_founding);

#endif
