/* process.c - the limits, the terminal and the threads of this process, and its children. */
#include "sys/process.h"

#include "sys/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* minimum size of a block that free() returns to the system */
#define LARGE_BLOCK_BYTES (256 << 10)

uint64_t process_memory_bytes(void)
{
    struct buffer text;

    buffer_init(&text);
    unsigned long long pages = 0;
    if (files_read("/proc/self/statm", 4096, &text, NULL) == ERROR_NONE) {
        buffer_append(&text, "", 1);
        /* the second number is that of resident pages */
        if (!buffer_failed(&text) && sscanf(text.data, "%*u %llu", &pages) != 1)
            pages = 0;
    }
    buffer_deinit(&text);
    return pages * (unsigned long long)sysconf(_SC_PAGESIZE);
}

uint64_t process_cpu_us(void)
{
    struct timespec used;

    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) != 0)
        return 0;
    return (uint64_t)used.tv_sec * 1000000 + (uint64_t)used.tv_nsec / 1000;
}

uint64_t process_file_count(void)
{
    DIR *folder = opendir("/proc/self/fd");

    if (!folder)
        return 0;
    uint64_t count = 0;
    for (const struct dirent *entry; (entry = readdir(folder));)
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count - 1; /* does not count the descriptor of the folder itself */
}

uint64_t process_file_limit(void)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 0;
}

unsigned process_cores(void)
{
    cpu_set_t cores;

    return sched_getaffinity(0, sizeof(cores), &cores) == 0 ? (unsigned)CPU_COUNT(&cores) : 1;
}

uint64_t process_raise_file_limit(uint64_t wanted)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 0;
    rlim_t before = limit.rlim_cur;
    if (before >= wanted)
        return before;
    limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
    return setrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : before;
}

void process_return_memory(void)
{
#ifdef M_MMAP_THRESHOLD
    mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES);
#endif
}

void process_settle_files(void)
{
    const struct sigaction ignore = {.sa_handler = SIG_IGN};

    umask(S_IRWXG | S_IRWXO);
    sigaction(SIGXFSZ, &ignore, NULL);
}

uint64_t process_file_limit_max(void)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_max : 0;
}

bool process_is_terminal(int fd)
{
    return isatty(fd) == 1;
}

bool process_hold_standard_files(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) != fd)
            return false;
    return true;
}

int thread_start(pthread_t *ret_thread, void *(*run)(void *argument), void *argument,
                 const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    char name[THREAD_NAME_SIZE];
    vsnprintf(name, sizeof(name), format, arguments);
    va_end(arguments);

    int error = pthread_create(ret_thread, NULL, run, argument);

    if (!error) /* the thread works without the name, so a failure is ignored */
        (void)pthread_setname_np(*ret_thread, name);
    return error;
}

/* ---- limits ---- */

/* Threads that wait until all of them run, to prove that so many can run. */
struct process_trial {
    pthread_mutex_t lock;
    pthread_cond_t ends;
    bool is_over; /* guarded by lock */
};

static void *process_trial_run(void *argument)
{
    struct process_trial *trial = argument;

    pthread_mutex_lock(&trial->lock);
    while (!trial->is_over)
        pthread_cond_wait(&trial->ends, &trial->lock);
    pthread_mutex_unlock(&trial->lock);
    return NULL;
}

static void process_say_limit(int resource, const char *name, char *text, size_t size)
{
    struct rlimit limit;
    const size_t used = strlen(text);

    if (getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        snprintf(text + used, size - used, ", %s is %llu", name,
                 (unsigned long long)limit.rlim_cur);
}

enum error_code process_try(size_t threads, uint64_t bytes, struct error *ret_error)
{
    struct process_trial trial = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};
    pthread_t *started = calloc(threads, sizeof(*started));
    struct rlimit addresses;
    size_t count = 0;

    /* malloc reserves up to 128 MiB of addresses for each thread, so there would be none left for
     * stacks. */
    if (getrlimit(RLIMIT_AS, &addresses) == 0 && addresses.rlim_cur != RLIM_INFINITY)
        mallopt(M_ARENA_MAX, 1);
    while (started && count < threads &&
           thread_start(&started[count], process_trial_run, &trial, "trial") == 0)
        count++;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    const bool has_memory = memory != MAP_FAILED;
    if (has_memory)
        munmap(memory, bytes);
    pthread_mutex_lock(&trial.lock);
    trial.is_over = true;
    pthread_cond_broadcast(&trial.ends);
    pthread_mutex_unlock(&trial.lock);
    for (size_t i = 0; i < count; i++)
        pthread_join(started[i], NULL);
    free(started);
    if (count == threads && has_memory)
        return ERROR_NONE;
    char limits[200] = "";
    if (count < threads)
        process_say_limit(RLIMIT_NPROC, "RLIMIT_NPROC", limits, sizeof(limits));
    process_say_limit(RLIMIT_AS, "RLIMIT_AS", limits, sizeof(limits));
    process_say_limit(RLIMIT_DATA, "RLIMIT_DATA", limits, sizeof(limits));
    if (count < threads)
        return error_set(ret_error, ERROR_NO_MEMORY,
                         "the system allows %zu of the %zu threads that are needed (ulimit, "
                         "TasksMax=)%s",
                         count, threads, limits);
    return error_set(ret_error, ERROR_NO_MEMORY,
                     "the system does not allow the %llu MiB of memory that are needed%s",
                     (unsigned long long)(bytes >> 20), limits);
}

static void process_on_abort(int signal)
{
    static const char text[] =
        "level=error event=start_failed cause=\"the program was aborted before it listened; lines "
        "above may say why\" hint=\"libraries abort when they get no thread or memory: see ulimit "
        "-u, -v, -d, TasksMax=, MemoryMax=\"\n";

    (void)signal;
    _exit(write(STDERR_FILENO, text, sizeof(text) - 1) < 0 ? 2 : 1);
}

void process_catch_abort(void)
{
    const struct sigaction catch = {.sa_handler = process_on_abort};

    sigaction(SIGABRT, &catch, NULL);
}

void process_let_abort(void)
{
    const struct sigaction preset = {.sa_handler = SIG_DFL};

    sigaction(SIGABRT, &preset, NULL);
}

uint64_t thread_used_ns(void)
{
    struct timespec used = {0};

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (uint64_t)used.tv_sec * 1000000000 + (uint64_t)used.tv_nsec;
}

/* Makes a child that was forked ready to run: its group, signals and standard input. Returns an
 * errno. Calls only functions that are safe after fork in a process with threads. */
static int process_settle(enum process_bond bond, pid_t parent, int input)
{
    const struct sigaction preset = {.sa_handler = SIG_DFL};
    sigset_t none;

    errno = 0;
    if (bond == PROCESS_IS_BOUND && (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 || getppid() != parent))
        return errno ? errno : ESRCH; /* the parent ended before the bond was made */
    for (int i = 1; i < NSIG; i++)
        (void)sigaction(i, &preset, NULL); /* some cannot be changed */
    sigemptyset(&none);
    if (setpgid(0, 0) != 0 || dup2(input, STDIN_FILENO) < 0 ||
        sigprocmask(SIG_SETMASK, &none, NULL) != 0)
        return errno;
    return 0;
}

/* Runs in the child. Returns errno if the program cannot be run. */
static int process_become(char *const *arguments, char *const *environment, enum process_bond bond,
                          pid_t parent, int input)
{
    const int failure = process_settle(bond, parent, input);

    if (failure)
        return failure;
    execvpe(arguments[0], arguments, environment);
    return errno;
}

/* Returns 0, or the errno of what failed in the child, which reports it through a pipe that exec
 * closes. */
static int process_fork(char *const *arguments, char *const *environment, enum process_bond bond,
                        int input, pid_t *ret_pid)
{
    const pid_t parent = getpid();
    int report[2], failure = 0;

    if (pipe2(report, O_CLOEXEC) != 0)
        return errno;
    const pid_t pid = fork();
    if (pid == 0) {
        failure = process_become(arguments, environment, bond, parent, input);
        _exit(write(report[1], &failure, sizeof(failure)) == sizeof(failure) ? 127 : 126);
    }
    if (pid < 0)
        failure = errno;
    close(report[1]);
    while (pid > 0 && read(report[0], &failure, sizeof(failure)) < 0 && errno == EINTR)
        ;
    close(report[0]);
    if (pid > 0 && failure)
        waitpid(pid, NULL, 0);
    *ret_pid = pid;
    return failure;
}

enum error_code process_start(char *const *arguments, char *const *environment,
                              enum process_bond bond, struct process_child *ret_child,
                              struct error *ret_error)
{
    int input[2];
    pid_t pid = 0;

    if (pipe2(input, O_CLOEXEC) != 0)
        return error_set(ret_error, ERROR_IO, "pipe: %s", strerror(errno));
    int failure = process_fork(arguments, environment, bond, input[0], &pid);
    close(input[0]);
    if (failure) {
        close(input[1]);
        return error_set(ret_error, ERROR_IO, "start %s: %s", arguments[0], strerror(failure));
    }
    /* The child is not reaped before process_ended, so its pid cannot belong to another process
     * yet. */
    int ended_fd = pidfd_open(pid, 0);
    if (ended_fd < 0 || fcntl(input[1], F_SETFL, O_NONBLOCK) != 0) {
        failure = errno;
        close(input[1]);
        kill(-pid, SIGKILL);
        waitpid(pid, NULL, 0);
        return error_set(ret_error, ERROR_IO, "watch %s: %s", arguments[0], strerror(failure));
    }
    *ret_child = (struct process_child){pid, ended_fd, input[1]};
    return ERROR_NONE;
}

static void process_close_input(struct process_child *child)
{
    if (child->input_fd >= 0)
        close(child->input_fd);
    child->input_fd = -1;
}

size_t process_write(struct process_child *child, struct bytes input)
{
    size_t written = 0;

    while (written < input.size) {
        ssize_t size = write(child->input_fd, input.data + written, input.size - written);
        if (size < 0 && errno == EAGAIN)
            return written;
        if (size < 0 && errno != EINTR)
            break;
        written += size > 0 ? (size_t)size : 0;
    }
    process_close_input(child);
    return input.size;
}

bool process_ended(struct process_child *child, int *ret_code)
{
    int status;

    if (waitpid(child->pid, &status, WNOHANG) != child->pid)
        return false;
    *ret_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    process_close_input(child);
    close(child->ended_fd);
    return true;
}

void process_stop(const struct process_child *child)
{
    kill(-child->pid, SIGTERM);
}

/* ---- branches ---- */

static void process_close_pair(const int pair[2])
{
    close(pair[0]);
    close(pair[1]);
}

/* Runs in the child, and ends it. */
static void process_run_branch(int (*run)(void *context), void *context, pid_t parent, int output,
                               int error)
{
    const int input = open("/dev/null", O_RDONLY | O_CLOEXEC);

    if (input < 0 || process_settle(PROCESS_IS_BOUND, parent, input) != 0 ||
        dup2(output, STDOUT_FILENO) < 0 || dup2(error, STDERR_FILENO) < 0)
        _exit(126);
    const int code = run(context);
    _exit(fflush(stdout) == 0 ? code : 126);
}

enum error_code process_branch(int (*run)(void *context), void *context,
                               struct process_branch *ret_branch, struct error *ret_error)
{
    const pid_t parent = getpid();
    int output[2], error[2];

    if (pipe2(output, O_CLOEXEC) != 0)
        return error_set(ret_error, ERROR_IO, "pipe: %s", strerror(errno));
    if (pipe2(error, O_CLOEXEC) != 0) {
        const int cause = errno;

        process_close_pair(output);
        return error_set(ret_error, ERROR_IO, "pipe: %s", strerror(cause));
    }
    const pid_t pid = fork();
    if (pid == 0)
        process_run_branch(run, context, parent, output[1], error[1]);
    const int cause = errno;
    if (pid > 0)
        (void)setpgid(pid, pid); /* as the child does, so that a signal right now finds the group */
    close(output[1]);
    close(error[1]);
    const int ended_fd = pid > 0 ? pidfd_open(pid, 0) : -1;
    if (ended_fd < 0 || fcntl(output[0], F_SETFL, O_NONBLOCK) != 0 ||
        fcntl(error[0], F_SETFL, O_NONBLOCK) != 0) {
        const int failure = pid < 0 ? cause : errno;

        if (pid > 0) {
            kill(pid, SIGKILL);
            waitpid(pid, NULL, 0);
        }
        close(output[0]);
        close(error[0]);
        return error_set(ret_error, ERROR_IO, "fork: %s", strerror(failure));
    }
    *ret_branch = (struct process_branch){{pid, ended_fd, -1}, output[0], error[0]};
    return ERROR_NONE;
}

ssize_t process_read(int fd, char *to, size_t size)
{
    ssize_t got;

    while ((got = read(fd, to, size)) < 0 && errno == EINTR)
        ;
    return got < 0 && errno != EAGAIN ? 0 : got;
}

void process_await(struct pollfd *ready, unsigned count, uint64_t ms)
{
    for (unsigned i = 0; i < count; i++)
        ready[i].revents = 0;
    (void)poll(ready, count, ms == UINT64_MAX ? -1 : ms > INT_MAX ? INT_MAX : (int)ms);
}

void process_branch_close(struct process_branch *branch)
{
    close(branch->output_fd);
    close(branch->error_fd);
}
