/* node_copy.c - copies of partitions from other nodes, and for them (cluster/copy.h).
 *
 * The replica of a partition that has nothing asks one node for page after page, in place of
 * following the log. Any node may give the next page, so when one does not answer another is
 * asked, from where the last page ended. */
#include "node/node_copy.h"

#include "node/node_members.h"
#include "node/node_state.h"
#include "sys/clock.h"

enum {
    MISSED_PAGES_MAX = 3, /* failed pages after which a copy is given up */
    COPIES_MAX = 4,       /* maximum of copies of this node at once; each has a page in memory */
    COPY_LAG = 4096,      /* records by which a giver may lag the best one */
};

/* ---- givers ---- */

static bool copy_may_give(const struct roster *roster, const struct roster_member *member,
                          uint16_t partition)
{
    const enum roster_role role = member->standings[partition].role;

    return roster_is_alive(roster, member) && (role == ROSTER_STANDBY || role == ROSTER_OWNER);
}

/* Prefers a standby to the owner, which has other work, but for the first page. */
void node_copy_find_givers(struct node *node, const struct roster *roster, uint16_t partition)
{
    struct node_replica *replica = &node->cluster.replicas[partition];
    const uint32_t self = node->config->cluster_node_id;
    uint32_t givers[COPY_GIVERS] = {0}, owner = 0;
    uint64_t best = 0;
    size_t count = 0;

    for (size_t i = 0; i < roster_count(roster); i++) {
        const struct roster_member *member = roster_at(roster, i);

        if (member->node != self && copy_may_give(roster, member, partition) &&
            member->standings[partition].next > best)
            best = member->standings[partition].next;
        if (member->node != self && copy_may_give(roster, member, partition) &&
            member->standings[partition].role == ROSTER_OWNER)
            owner = member->node;
    }
    for (int role = ROSTER_STANDBY; role <= ROSTER_OWNER; role++)
        for (size_t i = 0; i < roster_count(roster) && count < COPY_GIVERS; i++) {
            const struct roster_member *member = roster_at(roster, i);

            if (member->node != self && copy_may_give(roster, member, partition) &&
                (int)member->standings[partition].role == role &&
                member->standings[partition].next + COPY_LAG > best)
                givers[count++] = member->node;
        }
    for (size_t i = 0; i < COPY_GIVERS; i++)
        atomic_store(&replica->givers[i], givers[i]);
    atomic_store(&replica->giver_owner, owner);
    atomic_store(&replica->giver_next, best);
}

bool node_give_copy(struct node *node, struct copy_page *page, struct buffer *to)
{
    const uint16_t partition = page->at.partition;

    if (!node->cluster.control || partition >= node->partition_count)
        return false;
    struct node_replica *replica = &node->cluster.replicas[partition];
    const uint64_t rows = page->at.rows;
    const int state = atomic_load(&replica->state);
    if (!atomic_load(&replica->is_followed) || state == OWNERSHIP_RESTORING ||
        state == OWNERSHIP_BROKEN || storage_export(node->disk.storage, &page->at, to, NULL) ||
        !copy_is_whole(&page->at.place) || atomic_load(&replica->state) == OWNERSHIP_BROKEN)
        return false;
    page->row_count = (uint32_t)(page->at.rows - rows);
    if (page->at.is_done)
        atomic_fetch_add(&replica->copies_given, 1);
    return true;
}

/* ---- pages ---- */

static void copy_done(struct peers_copy *ask, const struct copy_page *page)
{
    struct node_replica *replica = list_item(ask, struct node_replica, copy_ask);

    pthread_mutex_lock(&replica->lock);
    buffer_clear(&replica->page_rows);
    replica->has_page = page != NULL;
    if (page) {
        replica->page = *page;
        buffer_append_bytes(&replica->page_rows, page->rows);
        replica->has_page = !buffer_failed(&replica->page_rows);
    }
    replica->is_asked = false;
    pthread_mutex_unlock(&replica->lock);
    node_replica_tell(replica, REPLICA_PAGE);
}

static bool copy_is_at_its_first_page(const struct node_replica *replica)
{
    uint8_t table;

    return storage_export_cursor(&replica->copy_ask.at, &table).size == 0 && table == 0;
}

/* Returns the node to ask; 0 for none. The first page is asked of the owner: one that gives it
 * writes names as a copy needs them (storage.h), which owners of earlier builds do not, and each
 * further page must be of the same claim. */
static uint32_t copy_giver(struct node_replica *replica)
{
    size_t count = 0;

    if (copy_is_at_its_first_page(replica))
        return atomic_load(&replica->giver_owner);
    while (count < COPY_GIVERS && atomic_load(&replica->givers[count]))
        count++;
    return count ? atomic_load(&replica->givers[replica->missed_pages % count]) : 0;
}

/* True while a request is under way, perhaps of an earlier replica. */
static bool copy_is_asked(struct node_replica *replica)
{
    pthread_mutex_lock(&replica->lock);
    const bool is_asked = replica->is_asked;
    pthread_mutex_unlock(&replica->lock);
    return is_asked;
}

/* Asks for the page after the last one. */
static void copy_ask(struct node_replica *replica, uint32_t giver)
{
    const struct node_route *route = &replica->node->route;

    replica->copy_ask.node = giver;
    replica->copy_ask.done = copy_done;
    pthread_mutex_lock(&replica->lock);
    replica->is_asked = true;
    pthread_mutex_unlock(&replica->lock);
    route->copy(route->context, &replica->copy_ask);
}

enum node_copy_step node_copy_begin(struct node_replica *replica)
{
    struct node *node = replica->node;

    if (!node->route.copy || copy_is_asked(replica) ||
        !replica_wants_copy(replica->replica, atomic_load(&replica->giver_next)))
        return NODE_COPY_NONE;
    replica->copy_ask.at = (struct storage_export){.partition = replica->partition->index};
    const uint32_t giver = copy_giver(replica);
    if (!giver)
        return NODE_COPY_NONE;
    if (!node_control_has_address(node))
        return NODE_COPY_WAITS;
    if (atomic_fetch_add(&node->cluster.copies, 1) >= COPIES_MAX) {
        atomic_fetch_sub(&node->cluster.copies, 1);
        return NODE_COPY_WAITS;
    }
    replica->is_copying = true;
    replica->missed_pages = 0;
    copy_ask(replica, giver);
    return NODE_COPY_ASKS;
}

void node_copy_end(struct node_replica *replica)
{
    if (!replica->is_copying)
        return;
    replica->is_copying = false;
    atomic_fetch_sub(&replica->node->cluster.copies, 1);
    pthread_mutex_lock(&replica->lock);
    if (!replica->is_asked)
        buffer_deinit(&replica->page_rows);
    pthread_mutex_unlock(&replica->lock);
}

void node_copy_hear(struct node_replica *replica, struct instant now)
{
    if (!replica->is_copying || copy_is_asked(replica))
        return; /* the answer is late */
    /* A page of an earlier place comes from a giver that lags the one before; a first page of
     * another owner, from one that is the owner no more. */
    if (replica->has_page && replica->page.at.place.next >= replica->copy_ask.at.place.next &&
        (!copy_is_at_its_first_page(replica) ||
         replica->page.at.place.node == replica->copy_ask.node)) {
        struct copy_page page = replica->page;

        page.rows = buffer_bytes(&replica->page_rows);
        replica->copy_ask.at = page.at;
        if (!replica_take_page(replica->replica, &page, now) ||
            !replica_is_copying(replica->replica)) {
            node_copy_end(replica);
            return;
        }
    } else {
        replica->missed_pages++;
    }
    const uint32_t giver = copy_giver(replica);
    if (giver && replica->missed_pages < MISSED_PAGES_MAX) {
        copy_ask(replica, giver);
        return;
    }
    replica_end_copy(replica->replica);
    node_copy_end(replica);
}
