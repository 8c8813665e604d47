/*
 * log_files_private.h - the state of a log in files, for log_files.c, log_files_open.c and
 * log_files_read.c.
 *
 * Threads    `lock` guards the list of segments, the chain and the spare; the appending thread
 *            alone writes into the last segment, and alone makes a segment the last one.
 */
#ifndef TICKWHEEL_LOG_FILES_LOG_FILES_PRIVATE_H
#define TICKWHEEL_LOG_FILES_LOG_FILES_PRIVATE_H

#include "log/files/log_files.h"
#include "log/files/log_segment.h"
#include "sys/disk.h"

#include <limits.h>
#include <pthread.h>

#define LOG_FILES_CHAIN "CHAIN"
#define LOG_FILES_SPARE "spare"

struct log_part {
    uint64_t number, bytes;
    uint64_t end;         /* position after its last frame */
    uint64_t first, next; /* offsets of its first record, and of the next segment's */
    uint32_t sum;         /* checksum of its last frame; 0 if it has none */
    uint32_t seed;        /* first bytes of the input to the checksums of its frames */
    bool is_unsynced;
    bool is_ended; /* the header of the next segment names its end */
};

struct log_files {
    struct log_files_options options; /* options with defaults filled in; `folder` is a copy */
    char *folder;
    const struct disk_calls *disk;

    pthread_mutex_t lock;
    pthread_cond_t changed;     /* signalled when is_making_spare or is_writing_chain is cleared */
    struct segment_chain chain; /* the chain as it is on the disk */
    struct log_part *parts;     /* segments, oldest first */
    size_t part_count, part_capacity;
    uint64_t spare_bytes;                   /* size of the spare; 0 if there is none */
    bool is_making_spare, is_writing_chain; /* the lock is released while these are set */
    uint32_t reader_count; /* number of readers; no segment is removed while it is above 0 */
    uint64_t next;         /* offset of the next append */
    uint64_t torn, lost;
    uint64_t lost_before; /* offset up to which readings have counted lost records */
    uint64_t lost_at_end; /* records that the log had before its end, but no segment has */

    /* Fields of the appending thread. */
    int file;         /* descriptor of the last segment; -1 if it is not open */
    bool must_begin;  /* the next append must begin a new segment */
    bool is_in_doubt; /* the last append failed */
    bool has_next;    /* the file of `next_part` has its name, but is not in the chain yet */
    struct log_part next_part;
    int next_file;
    struct buffer frame;
};

/* A path of a file in the folder. Names are short enough for it, which was checked. */
struct log_path {
    char text[PATH_MAX];
};

struct log_path log_path_of(const struct log_files *files, const char *name);
struct log_path log_path_of_segment(const struct log_files *files, uint64_t number);

/* Returns the number in the name of a segment; 0 if it is not such a name. */
uint64_t log_path_number(const char *name);

static inline struct log_part *log_files_last(struct log_files *files)
{
    return files->part_count ? &files->parts[files->part_count - 1] : NULL;
}

/* Writes the chain into the slot for its generation. The caller holds the lock. */
enum error_code log_files_put_chain(struct log_files *files, const struct segment_chain *chain,
                                    struct error *ret_error);

/* Writes `chain` as the next generation. The caller holds the lock. */
enum error_code log_files_write_chain(struct log_files *files, const struct segment_chain *chain,
                                      struct error *ret_error);

/* Appends to the list of segments, which has room. */
void log_files_add_part(struct log_files *files, const struct log_part *part);
bool log_files_reserve_part(struct log_files *files);

/* Makes a spare of at least `bytes`, unless there is one already. */
enum error_code log_files_make_spare(struct log_files *files, uint64_t bytes,
                                     struct error *ret_error);

/* Begins a new segment with room for a frame of `frame_bytes`. */
enum error_code log_files_begin(struct log_files *files, uint64_t frame_bytes,
                                struct error *ret_error);

/* ---- log_files_read.c ---- */

/* Reads the contents of a segment up to `end`; the caller frees them. */
enum error_code log_files_load(const struct log_files *files, uint64_t number, uint64_t end,
                               char **ret_contents, struct error *ret_error);

/* Frees the memory of the log. Writes nothing to the disk. */
void log_files_free(struct log_files *files);

#endif
