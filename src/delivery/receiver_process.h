/*
 * receiver_process.h - for tests and benchmarks: starts tests/support/receiver.c and learns its
 * port.
 *
 * The program is the environment's TICKWHEEL_RECEIVER, or the one of this build. Aborts when it
 * cannot be started: nothing can be tested then.
 */
#ifndef TICKWHEEL_DELIVERY_RECEIVER_PROCESS_H
#define TICKWHEEL_DELIVERY_RECEIVER_PROCESS_H

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef RECEIVER_PATH
#define RECEIVER_PATH "receiver"
#endif

struct receiver_process {
    pid_t pid;
    FILE *output;
    unsigned port;
};

static inline struct receiver_process receiver_start(const char *option, const char *value)
{
    const char *named = getenv("TICKWHEEL_RECEIVER"), *path = named ? named : RECEIVER_PATH;
    struct receiver_process receiver = {0};
    int fds[2];

    if (pipe(fds) != 0 || (receiver.pid = fork()) < 0)
        abort();
    if (receiver.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM); /* ends the receiver if the test aborts */
        dup2(fds[1], 1);
        close(fds[0]);
        execlp(path, path, option, value, (char *)NULL);
        perror(path);
        _exit(127);
    }
    close(fds[1]);
    receiver.output = fdopen(fds[0], "r");
    if (!receiver.output || fscanf(receiver.output, "port %u", &receiver.port) != 1)
        abort();
    return receiver;
}

/* Stops the receiver. Returns how many requests it has answered. */
static inline unsigned long receiver_stop(struct receiver_process *receiver)
{
    unsigned long requests = 0;

    kill(receiver->pid, SIGTERM);
    if (fscanf(receiver->output, " requests %lu", &requests) != 1)
        abort();
    fclose(receiver->output);
    waitpid(receiver->pid, NULL, 0);
    return requests;
}

#endif
