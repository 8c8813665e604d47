/*
 * nth.c - runs a program in which the N-th system call of a kind fails.
 *
 *     nth CALL ERROR N [COUNT] -- PROGRAM ARGUMENTS...
 *     nth accept4 EMFILE 3 -- tickwheeld ...           the third
 *     nth fsync EIO 3 1000 -- tickwheeld ...           the third and 999 more
 *
 * The calls of all threads are counted together, in the order in which the kernel takes them up;
 * the failing one is not carried out. Of epoll_ctl only EPOLL_CTL_ADD counts, of read and write
 * those of files, for the others do not fail in earnest. On standard error comes a line when it
 * fails, and at the end one with how many there were. Exits as the program does; with 128 and the
 * signal that ended it.
 *
 * How      seccomp hands each such call to us (SECCOMP_RET_USER_NOTIF), and we let it go on or give
 *          it an error. So a call counts wherever it is made, also in the middle of the C library,
 *          and all others run at full speed. strace can do this too, but counts for each thread by
 *          itself: then the first call of a second thread never fails alone. Needs Linux 5.9, and
 *          no privileges.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

enum { STACK_SIZE = 64 << 10, EXIT_USAGE = 2, EXIT_UNSUPPORTED = 77 };

struct named {
    const char *name;
    int number;
};

#define CALL(name)        \
    {                     \
#name, SYS_##name \
    }
#define ERROR(name) \
    {               \
#name, name \
    }

static const struct named calls[] = {
    CALL(openat),      CALL(read),           CALL(pread64),    CALL(write),       CALL(pwrite64),
    CALL(writev),      CALL(fsync),          CALL(fdatasync),  CALL(ftruncate),   CALL(fallocate),
    CALL(lseek),       CALL(fcntl),          CALL(getdents64), CALL(newfstatat),  CALL(statfs),
    CALL(flock),       CALL(socket),         CALL(bind),       CALL(listen),      CALL(setsockopt),
    CALL(getsockname), CALL(accept4),        CALL(connect),    CALL(sendto),      CALL(recvfrom),
    CALL(sendmsg),     CALL(epoll_create1),  CALL(epoll_ctl),  CALL(epoll_pwait), CALL(eventfd2),
    CALL(pipe2),       CALL(signalfd4),      CALL(socketpair), CALL(clone3),      CALL(mmap),
    CALL(mprotect),    CALL(madvise),        CALL(getrandom),  CALL(prlimit64),   CALL(close),
    CALL(futex),       CALL(rt_sigprocmask), CALL(fstatfs),
#ifdef SYS_open
    CALL(open),        CALL(rename),         CALL(mkdir),      CALL(rmdir),       CALL(unlink),
    CALL(link),        CALL(epoll_wait),     CALL(poll),       CALL(access),
#endif
    CALL(renameat),    CALL(mkdirat),        CALL(unlinkat),   CALL(linkat),      CALL(ppoll),
};

static const struct named errors[] = {
    ERROR(EIO),   ERROR(ENOSPC),     ERROR(EMFILE),       ERROR(ENFILE), ERROR(ENOMEM),
    ERROR(EINTR), ERROR(EAGAIN),     ERROR(ECONNABORTED), ERROR(EACCES), ERROR(ENOBUFS),
    ERROR(EPERM), ERROR(EADDRINUSE), ERROR(ENOSYS),       ERROR(EDQUOT), ERROR(ECONNRESET),
};

static int number_of(const struct named *all, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(all[i].name, name) == 0)
            return all[i].number;
    fprintf(stderr, "nth: %s is not known; there are:", name);
    for (size_t i = 0; i < count; i++)
        fprintf(stderr, " %s", all[i].name);
    fprintf(stderr, "\n");
    exit(EXIT_USAGE);
}

struct child {
    int call;
    char **arguments;
    int listener; /* set by the child, which shares our memory and files until it is the program */
    int error;
};

static int become(void *argument)
{
    struct child *child = argument;
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)child->call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof(code) / sizeof(*code), code};
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0)
        child->listener = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                                       SECCOMP_FILTER_FLAG_NEW_LISTENER, &filter);
    if (child->listener >= 0)
        execvp(child->arguments[0], child->arguments);
    child->error = errno;
    _exit(127);
}

/* Whether it can fail in earnest. */
static bool can_fail(const struct seccomp_notif *call)
{
    const struct seccomp_data *data = &call->data;

    if (data->nr == SYS_epoll_ctl)
        return data->args[1] == EPOLL_CTL_ADD;
    if (data->nr != SYS_read && data->nr != SYS_write)
        return true;
    if (data->args[0] <= STDERR_FILENO)
        return false; /* otherwise its report of a failure could get lost */
    char path[64];
    snprintf(path, sizeof(path), "/proc/%u/fd/%u", call->pid, (unsigned)data->args[0]);
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

/* Answers one call. */
static void judge(int listener, const char *name, int error, unsigned long *count,
                  unsigned long first, unsigned long last)
{
    struct seccomp_notif call = {0};

    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call) != 0)
        return; /* a signal was quicker */
    bool counts = can_fail(&call);
    *count += counts;
    struct seccomp_notif_resp answer = {0};
    answer.id = call.id;
    if (counts && *count >= first && *count <= last) {
        answer.error = -error;
        if (*count == first)
            fprintf(stderr, "nth: %s %lu fails: %s\n", name, *count, strerror(error));
    } else {
        answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    }
    (void)ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
}

static int watch(const struct child *child, pid_t pid, int signals, char *argv[], int error)
{
    unsigned long first = strtoul(argv[3], NULL, 10), count = 0;
    unsigned long times = strcmp(argv[4], "--") == 0 ? 1 : strtoul(argv[4], NULL, 10);
    int status;

    for (;;) {
        struct pollfd fds[] = {{.fd = child->listener, .events = POLLIN},
                               {.fd = signals, .events = POLLIN}};

        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            break;
        if (fds[0].revents & POLLIN)
            judge(child->listener, argv[1], error, &count, first, first + times - 1);
        struct signalfd_siginfo info;
        if (!(fds[1].revents & POLLIN) || read(signals, &info, sizeof(info)) != sizeof(info))
            continue;
        if (info.ssi_signo != SIGCHLD)
            kill(pid, (int)info.ssi_signo); /* it is meant for the program */
        else if (waitpid(pid, &status, WNOHANG) == pid)
            break;
    }
    fprintf(stderr, "nth: %s was called %lu times\n", argv[1], count);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int argc, char *argv[])
{
    static char stack[STACK_SIZE] __attribute__((aligned(16)));
    struct child child = {.listener = -1};
    int program = argc > 4 && strcmp(argv[4], "--") == 0 ? 5 : 6;

    if (argc <= program || strcmp(argv[program - 1], "--") != 0) {
        fprintf(stderr, "usage: nth CALL ERROR N [COUNT] -- PROGRAM ARGUMENTS...\n");
        return EXIT_USAGE;
    }
    child.call = number_of(calls, sizeof(calls) / sizeof(*calls), argv[1]);
    int error = number_of(errors, sizeof(errors) / sizeof(*errors), argv[2]);
    child.arguments = argv + program;
    sigset_t mine;
    sigemptyset(&mine);
    for (const int *number = (const int[]){SIGCHLD, SIGTERM, SIGINT, SIGHUP, 0}; *number; number++)
        sigaddset(&mine, *number);
    sigprocmask(SIG_BLOCK, &mine, NULL);
    int signals = signalfd(-1, &mine, SFD_CLOEXEC);
    /* The child shares memory and files with us, and we stand still, until it runs the program. */
    pid_t pid =
        clone(become, stack + STACK_SIZE, CLONE_VM | CLONE_FILES | CLONE_VFORK | SIGCHLD, &child);
    if (signals < 0 || pid < 0 || child.error) {
        fprintf(stderr, "nth: %s\n", strerror(child.error ? child.error : errno));
        return child.listener < 0 ? EXIT_UNSUPPORTED : 127;
    }
    return watch(&child, pid, signals, argv, error);
}
