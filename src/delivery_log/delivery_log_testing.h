/*
 * delivery_log_testing.h - for tests: a folder for a delivery log, a disk that fails and tears
 * writes, and entries.
 */
#ifndef TICKWHEEL_DELIVERY_LOG_DELIVERY_LOG_TESTING_H
#define TICKWHEEL_DELIVERY_LOG_DELIVERY_LOG_TESTING_H

#include "delivery_log/delivery_ring.h"
#include "sys/files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct testing_log {
    char folder[64];
    struct disk_calls disk;
    bool is_full;               /* each write stores half of its bytes and fails */
    int open_fails, read_fails; /* errno of each open and read; 0: they work */
    atomic_bool is_low;         /* the option is_disk_full */
    unsigned writes;            /* number of files opened for writing */
    struct delivery_ring *ring;
    struct delivery_ring_options options;
};

static inline int testing_log_write(const struct disk_calls *disk, int file, uint64_t at,
                                    struct bytes bytes)
{
    const struct testing_log *log = disk->state;

    if (log->is_full)
        bytes.size /= 2;
    const int failed = disk_system()->write(disk_system(), file, at, bytes);
    return log->is_full ? ENOSPC : failed;
}

static inline int testing_log_open_file(const struct disk_calls *disk, const char *path,
                                        enum disk_access access, int *ret_file)
{
    struct testing_log *log = disk->state;

    log->writes += access != DISK_READ;
    return log->open_fails ? log->open_fails
                           : disk_system()->open(disk_system(), path, access, ret_file);
}

static inline int testing_log_read(const struct disk_calls *disk, int file, uint64_t at, void *to,
                                   size_t size, size_t *ret_size)
{
    const struct testing_log *log = disk->state;

    return log->read_fails ? log->read_fails
                           : disk_system()->read(disk_system(), file, at, to, size, ret_size);
}

static inline void testing_log_open(struct testing_log *log)
{
    struct error error = {0};

    if (delivery_ring_open(&log->options, &log->ring, &error))
        fail_msg("%s", error.text);
    delivery_ring_check(log->ring);
}

static inline void testing_log_init(struct testing_log *log, uint64_t bytes_max)
{
    *log = (struct testing_log){.disk = *disk_system()};
    snprintf(log->folder, sizeof(log->folder), "/tmp/tickwheel-deliveries-XXXXXX");
    assert_non_null(mkdtemp(log->folder));
    log->disk.state = log;
    log->disk.write = testing_log_write;
    log->disk.open = testing_log_open_file;
    log->disk.read = testing_log_read;
    log->options = (struct delivery_ring_options){.folder = log->folder,
                                                  .disk = &log->disk,
                                                  .bytes_max = bytes_max,
                                                  .is_disk_full = &log->is_low,
                                                  .age_ms_max = UINT64_C(7) * 24 * 3600 * 1000};
    testing_log_open(log);
}

static inline void testing_log_deinit(struct testing_log *log)
{
    delivery_ring_close(log->ring);
    files_remove_folder(log->folder);
}

static inline void testing_log_reopen(struct testing_log *log)
{
    delivery_ring_close(log->ring);
    testing_log_open(log);
}

static inline void testing_log_add(struct testing_log *log, const char *tenant,
                                   const struct delivery_entry *entry)
{
    struct buffer encoded;

    buffer_init(&encoded);
    delivery_entry_encode(entry, &encoded);
    delivery_ring_add(log->ring, bytes_of(tenant), buffer_bytes(&encoded));
    buffer_deinit(&encoded);
}

/* Returns the timers of the answer, each with a blank after it, which the caller frees. */
static inline char *testing_log_timers(const struct delivery_query *query)
{
    struct bytes rest = buffer_bytes(&query->found);
    struct delivery_entry entry;
    struct buffer text;

    buffer_init(&text);
    for (uint32_t i = 0; i < query->count; i++) {
        const size_t size = delivery_entry_size(rest);

        assert_true(delivery_entry_decode(rest, &entry));
        buffer_append_bytes(&text, entry.texts[DELIVERY_TEXT_timer]);
        buffer_append_text(&text, " ");
        rest = (struct bytes){rest.data + size, rest.size - size};
    }
    assert_int_equal(rest.size, 0);
    buffer_append(&text, "", 1);
    return text.data;
}

#endif
