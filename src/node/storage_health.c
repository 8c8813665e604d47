/*
 * storage_health.c - whether the storage of a node works; see storage_health.h.
 *
 * Commits, reads and replicas tell when it fails them. A dead disk may fail no call: memory
 * takes the changes of partitions that follow a log, and an idle node writes nothing. So each look
 * writes and syncs a small file in the data folder.
 */
#include "node/storage_health.h"

#include "node/node_disk.h"
#include "sys/clock.h"
#include "sys/files.h"

#include <stdio.h>

enum {
    HEALTH_PROBE_BYTES = 4096,
    HEALTH_READ_MS = 2000, /* time for which a failed read counts; reads are repeated sooner */
    HEALTH_HANGS_LEASES = 2,
    HEALTH_WORKS_LEASES = 2,
};

void storage_health_note(struct node_disk *disk, const struct error *error)
{
    pthread_mutex_lock(&disk->lock);
    disk->error = *error;
    if (!*error->text)
        error_set(&disk->error, ERROR_IO, "%s", error_title(ERROR_IO));
    pthread_mutex_unlock(&disk->lock);
}

void storage_health_read_failed(struct node_disk *disk)
{
    atomic_store(&disk->health.read_failed_ns, instant_boot_now().ns);
}

static bool health_read_fails(const struct node_disk *disk, struct instant now)
{
    const uint64_t failed_ns = atomic_load(&disk->health.read_failed_ns);

    return failed_ns && now.ns - failed_ns < HEALTH_READ_MS * UINT64_C(1000000);
}

/* Probes the disk. A full disk is no failure for a single node, which has its reserve. */
static bool health_probe_fails(struct node_disk *disk, struct error *ret_error)
{
    struct storage_health *health = &disk->health;

    atomic_store(&health->probed_ns, instant_boot_now().ns);
    const enum error_code code =
        files_probe(disk->config->data_folder, HEALTH_PROBE_BYTES, ret_error);
    atomic_store(&health->probed_ns, 0);
    return code && (config_is_cluster(disk->config) || code != ERROR_DISK_FULL);
}

void storage_health_look(struct node_disk *disk)
{
    struct storage_health *health = &disk->health;
    struct error error = {.text = ""};
    const bool has_failed = health_probe_fails(disk, &error);
    const struct instant now = instant_boot_now();
    const bool fails = has_failed || atomic_load(&disk->is_failing) ||
                       health_read_fails(disk, now) || atomic_load(&health->failing_replicas) > 0;

    atomic_store(&health->probe_fails, has_failed);
    if (has_failed && !atomic_load(&disk->is_lost)) /* that cause has been noted */
        storage_health_note(disk, &error);
    if (fails == (atomic_load(&health->since_ns) != 0))
        return;
    atomic_store(&health->since_ns, fails ? now.ns : 0);
    if (!fails)
        atomic_store(&health->worked_ns, now.ns);
    atomic_fetch_add(&health->failures, has_failed);
    mailbox_wake(disk->news);
}

static bool health_is_past(uint64_t since_ns, uint64_t ms, struct instant now)
{
    return since_ns && now.ns > since_ns && now.ns - since_ns >= ms * UINT64_C(1000000);
}

bool storage_health_gives_up(struct node_disk *disk, struct instant now)
{
    struct storage_health *health = &disk->health;
    const uint64_t lease_ms = disk->config->cluster_lease_ms;
    const uint64_t since_ns = atomic_load(&health->since_ns);
    const bool was_given_up = atomic_load(&health->gives_up);
    bool gives_up = was_given_up;

    if (health_is_past(since_ns, lease_ms, now) ||
        health_is_past(atomic_load(&health->probed_ns), HEALTH_HANGS_LEASES * lease_ms, now))
        gives_up = true;
    else if (!since_ns &&
             health_is_past(atomic_load(&health->worked_ns), HEALTH_WORKS_LEASES * lease_ms, now))
        gives_up = false;
    if (gives_up != was_given_up) {
        atomic_store(&health->gives_up, gives_up);
        mailbox_wake(disk->news);
    }
    return gives_up;
}

bool storage_health_is_damaged(const struct node_disk *disk)
{
    return !atomic_load(&disk->health.probe_fails) && !atomic_load(&disk->is_failing) &&
           !atomic_load(&disk->health.failing_replicas);
}

bool storage_health_fails(struct node_disk *disk, char *ret_reason, size_t size)
{
    const bool gives_up = atomic_load(&disk->health.gives_up);

    if (!gives_up && !atomic_load(&disk->is_failing) && !atomic_load(&disk->health.since_ns))
        return false;
    pthread_mutex_lock(&disk->lock);
    snprintf(ret_reason, size, "the storage fails%s%s%.160s",
             gives_up ? ", and other nodes own the partitions" : "", *disk->error.text ? ": " : "",
             disk->error.text);
    pthread_mutex_unlock(&disk->lock);
    return true;
}
