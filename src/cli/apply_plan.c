/* apply_plan.c - the items of a plan. */
#include "cli/apply_plan.h"

#include "cli/value.h"

#include <stdlib.h>

#define APPLY_BLOCK_SIZE (256 * 1024)

/* A block of texts. */
struct apply_text {
    struct apply_text *next;
    size_t size, capacity;
    char data[];
};

void apply_plan_deinit(struct apply_plan *plan)
{
    while (plan->texts_) {
        struct apply_text *next = plan->texts_->next;

        free(plan->texts_);
        plan->texts_ = next;
    }
    free(plan->items);
    plan->items = NULL;
    plan->count = plan->file_count = plan->capacity = 0;
}

struct bytes apply_keep(struct apply_plan *plan, struct bytes text)
{
    const size_t needed = (text.size + 1 + 15) & ~(size_t)15; /* a NUL, and structs stay aligned */
    struct apply_text *block = plan->texts_;

    if (!block || block->capacity - block->size < needed) {
        const size_t capacity = needed > APPLY_BLOCK_SIZE ? needed : APPLY_BLOCK_SIZE;

        block = malloc(sizeof(*block) + 16 + capacity);
        if (!block)
            return (struct bytes){NULL, 0};
        block->next = plan->texts_;
        block->capacity = capacity;
        block->size = (size_t)(-(uintptr_t)block->data & 15);
        block->capacity += block->size;
        plan->texts_ = block;
    }
    char *to = block->data + block->size;
    if (text.size)
        memcpy(to, text.data, text.size);
    to[text.size] = '\0';
    block->size += needed;
    return (struct bytes){to, text.size};
}

struct apply_item *apply_add(struct apply_plan *plan, enum apply_kind kind, struct bytes name)
{
    if (plan->count == plan->capacity) {
        const size_t capacity = plan->capacity ? 2 * plan->capacity : 64;
        struct apply_item *items = realloc(plan->items, capacity * sizeof(*items));

        if (!items)
            return NULL;
        plan->items = items;
        plan->capacity = capacity;
    }
    struct apply_item *item = &plan->items[plan->count];
    *item = (struct apply_item){.kind = kind, .name = apply_keep(plan, name)};
    if (!item->name.data)
        return NULL;
    plan->count++;
    return item;
}

static int apply_compare(const void *a, const void *b)
{
    const struct apply_item *left = a, *right = b;

    if (left->kind != right->kind)
        return left->kind < right->kind ? -1 : 1;
    return bytes_compare(left->name, right->name);
}

void apply_sort(struct apply_plan *plan)
{
    plan->file_count = plan->count;
    if (plan->count)
        qsort(plan->items, plan->count, sizeof(*plan->items), apply_compare);
}

struct apply_item *apply_find(const struct apply_plan *plan, enum apply_kind kind,
                              struct bytes name)
{
    const struct apply_item key = {.kind = kind, .name = name};

    return plan->file_count
               ? bsearch(&key, plan->items, plan->file_count, sizeof(key), apply_compare)
               : NULL;
}

const char *apply_kind_word(enum apply_kind kind)
{
    static const char *const words[] = {
#define X(name, word) word,
        APPLY_KIND_LIST(X)
#undef X
    };

    return words[kind];
}

/* Returns the line of the member that a pointer of the API names, such as "#/retry/base". */
static uint32_t apply_line(const struct apply_item *item, struct bytes pointer)
{
    if (pointer.size && pointer.data[0] == '#')
        pointer.data++, pointer.size--;
    return spec_line(&item->document, pointer);
}

void apply_complain(const struct apply_item *item, struct bytes pointer, const char *why)
{
    struct buffer text;

    buffer_init(&text);
    if (item->file)
        buffer_printf(&text, "%s:%u: ", item->file, apply_line(item, pointer));
    buffer_printf(&text, "%s ", apply_kind_word(item->kind));
    buffer_append_bytes(&text, item->name);
    buffer_append_text(&text, ": ");
    if (pointer.size) {
        buffer_append_bytes(&text, pointer);
        buffer_append_text(&text, ": ");
    }
    buffer_append_text(&text, why);
    cli_complain(CLI_EXIT_DONE, "%s", cli_text(&text));
    buffer_deinit(&text);
}

void apply_fail(struct apply_plan *plan, const struct apply_item *item, struct bytes problem)
{
    struct cli_list errors;
    struct bytes fault = {NULL, 0};
    struct buffer pointer, why;

    if (++plan->failed_count > APPLY_FAILURES_SHOWN)
        return;
    cli_list_init(&errors, cli_member(problem, "errors"));
    cli_list_next(&errors, &fault);
    buffer_init(&pointer);
    buffer_init(&why);
    cli_append_value(&pointer, cli_member(fault, "pointer"));
    const struct bytes detail = cli_member(fault.size ? fault : problem, "detail");
    cli_append_value(&why, detail.size ? detail : cli_member(problem, "title"));
    apply_complain(item, buffer_bytes(&pointer), why.size ? cli_text(&why) : "it was refused");
    buffer_deinit(&pointer);
    buffer_deinit(&why);
}
