/*
 * worker.h - the loop of a worker: leases items of a queue, starts a job for each, extends the
 * leases, and acknowledges or refuses the items by what the jobs say.
 *
 * One thread waits for a lease call, the jobs, and signals, all at once. A job has a slot from its
 * lease until the daemon took its answer: an ack or nack that does not reach the daemon is sent
 * again until the lease is over. Leases are extended when a third of them is over. The first signal
 * stops leasing and lets the jobs end, the second ends them.
 *
 * The verb has the flags --jobs, --lease and --count, and the queue as its first argument.
 *
 * Errors     An exit code, complained about.
 * Threads    One.
 */
#ifndef TICKWHEEL_CLI_WORKER_H
#define TICKWHEEL_CLI_WORKER_H

#include "cli/client.h"

#define WORKER_JOBS_MAX  256
#define WORKER_JOB_WAITS 2 /* maximum of descriptors of one job */

enum worker_result {
    WORKER_DONE,
    WORKER_FAILED,  /* the item is tried again */
    WORKER_REFUSED, /* the item becomes a dead letter at once */
};

/* The outcome of a job. */
struct worker_outcome {
    enum worker_result result;
    char error[128];
    uint64_t delay_s; /* delay of the next attempt; 0 if the retry policy of the timer decides */
};

/* A kind of job, as functions. Each gets `context`, and the slot of the job, which is below
 * `job_count`. */
struct worker_kind {
    const char *noun; /* what the jobs are called, in the plural */
    bool has_lines;   /* the job prints a line for each item itself, even with --output json */

    /* Begins the job of an item, which is borrowed during the call. If it cannot, sets *ret_outcome
     * and returns a code other than CLI_EXIT_DONE, with which the worker ends. */
    enum cli_exit (*start)(void *context, size_t slot, struct bytes item,
                           struct worker_outcome *ret_outcome);

    /* Writes the descriptors for which the job waits, besides its calls. Returns their number. */
    unsigned (*append_waits)(void *context, size_t slot, struct pollfd *waits);

    /* Lets the job proceed. Returns true if it has ended. */
    bool (*step)(void *context, size_t slot, struct worker_outcome *ret_outcome);

    /* Asks the job to end. */
    void (*stop)(void *context, size_t slot);
};

/* Reads --jobs: the number of jobs for which the kind must have slots. */
enum cli_exit worker_read_jobs(struct cli *cli, uint64_t *ret_count);

/* Works until a signal, or until --count items are done. Also waits for `calls`. */
enum cli_exit worker_run(struct cli *cli, const struct worker_kind *kind, void *context,
                         struct cli_calls *calls, size_t job_count);

/* Appends the payload of an item unchanged, or the decoded bytes of its body_base64. */
void worker_append_body(struct bytes item, struct buffer *out);

#endif
