/* scarce.c - refuses the N-th allocation of a program, by the linker's --wrap. */
#include "scarce.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS_MAX = 1000000 }; /* more means that it never ends: somebody tries again for ever */

static struct {
    _Atomic bool is_on;
    _Atomic uint64_t count, n;
    _Atomic bool from_then_on, was_refused, is_told;
    _Atomic int64_t live;
} memory;

/* ---- in place of the C library's ---- */

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t size);
void __real_free(void *block);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *block, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t size);
void __wrap_free(void *block);

static bool is_refused(void)
{
    uint64_t n = atomic_load(&memory.n);

    if (!atomic_load(&memory.is_on))
        return false;
    uint64_t number = atomic_fetch_add(&memory.count, 1) + 1;
    if (number != n && !(number > n && atomic_load(&memory.from_then_on)))
        return false;
    if (atomic_load(&memory.is_told) && number == n)
        dprintf(STDERR_FILENO, "scarce: allocation %llu is refused\n", (unsigned long long)n);
    atomic_store(&memory.was_refused, true);
    errno = ENOMEM;
    return true;
}

static void *counted(void *block)
{
    if (block)
        atomic_fetch_add(&memory.live, 1);
    return block;
}

void *__wrap_malloc(size_t size)
{
    return is_refused() ? NULL : counted(__real_malloc(size));
}

void *__wrap_calloc(size_t count, size_t size)
{
    return is_refused() ? NULL : counted(__real_calloc(count, size));
}

void *__wrap_realloc(void *block, size_t size)
{
    if (is_refused())
        return NULL; /* and the old one stays */
    void *moved = __real_realloc(block, size);
    return block ? moved : counted(moved);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return is_refused() ? NULL : counted(__real_aligned_alloc(alignment, size));
}

char *__wrap_strdup(const char *text)
{
    return is_refused() ? NULL : counted(__real_strdup(text));
}

char *__wrap_strndup(const char *text, size_t size)
{
    return is_refused() ? NULL : counted(__real_strndup(text, size));
}

void __wrap_free(void *block)
{
    if (block)
        atomic_fetch_sub(&memory.live, 1);
    __real_free(block);
}

/* ---- a whole program ---- */

__attribute__((constructor)) static void read_environment(void)
{
    const char *at = getenv("SCARCE_AT"), *from = getenv("SCARCE_FROM");

    if (!at && !from)
        return;
    memory.n = strtoull(at ? at : from, NULL, 10);
    memory.from_then_on = !at;
    memory.is_told = true;
    memory.is_on = true;
}

/* ---- a sweep ---- */

struct scarce scarce_sweep(const char *name)
{
    return (struct scarce){.name = name};
}

static void fail(const struct scarce *scarce, const char *what, long long count)
{
    fprintf(stderr, "%s: N = %llu%s: %s: %lld\n", scarce->name, (unsigned long long)scarce->n,
            scarce->from_then_on ? " and from then on" : "", what, count);
    abort();
}

bool scarce_next(struct scarce *scarce)
{
    int64_t live = atomic_load(&memory.live);

    if (scarce->n == 0)
        scarce->live = live;
    if (live != scarce->live)
        fail(scarce, "blocks that were not freed", live - scarce->live);
    if (scarce->n && !scarce->was_refused) {
        if (scarce->from_then_on) {
            printf("%s: N = 1 to %llu\n", scarce->name, (unsigned long long)scarce->n_max);
            return false;
        }
        scarce->from_then_on = true;
        scarce->n = 0;
    }
    if (scarce->was_refused && scarce->n > scarce->n_max)
        scarce->n_max = scarce->n;
    if (++scarce->n > ROUNDS_MAX)
        fail(scarce, "it never ends", ROUNDS_MAX);
    scarce->was_refused = false;
    atomic_store(&memory.count, 0);
    return true;
}

void scarce_begin(struct scarce *scarce)
{
    atomic_store(&memory.n, scarce->n);
    atomic_store(&memory.from_then_on, scarce->from_then_on);
    atomic_store(&memory.was_refused, false);
    atomic_store(&memory.is_on, true);
}

bool scarce_end(struct scarce *scarce)
{
    atomic_store(&memory.is_on, false);
    if (!atomic_load(&memory.was_refused))
        return false;
    scarce->was_refused = true;
    return true;
}
