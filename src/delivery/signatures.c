/* signatures.c - signing secrets by tenant: a sorted array. */
#include "delivery/signatures.h"

#include "timer/tenant.h"

#include <stdlib.h>
#include <string.h>

struct signatures_entry {
    char name[TENANT_SIZE_MAX];
    size_t name_size;
    struct signature *signature;
};

struct signatures {
    struct signature *shared;                                /* NULL if there is none */
    struct signatures_entry entries[SIGNATURES_TENANTS_MAX]; /* by name, ascending */
    size_t count;
};

/* Returns the index of the first tenant whose name is not less than `name`. */
static size_t signatures_place(const struct signatures *signatures, struct bytes name)
{
    size_t low = 0, high = signatures->count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const struct signatures_entry *entry = &signatures->entries[middle];

        if (bytes_compare((struct bytes){entry->name, entry->name_size}, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct signatures_entry *signatures_at(const struct signatures *signatures, size_t place,
                                              struct bytes name)
{
    const struct signatures_entry *entry = &signatures->entries[place];

    return place < signatures->count &&
                   bytes_equal((struct bytes){entry->name, entry->name_size}, name)
               ? (struct signatures_entry *)(uintptr_t)entry
               : NULL;
}

static enum error_code signatures_add_own(struct signatures *signatures, struct bytes name,
                                          struct bytes secret, struct error *ret_error)
{
    /* A secret in the place of a name must not be shown. */
    if (!tenant_is_valid(name) || bytes_has_prefix(name, BYTES("whsec_")) ||
        bytes_has_prefix(name, BYTES("whsk_")))
        return error_set(ret_error, ERROR_INVALID,
                         "a word before = is not the name of a tenant: 1 to %d letters, digits "
                         "and . _ -",
                         TENANT_SIZE_MAX);
    const struct bytes shown = name;
    if (bytes_equal(name, BYTES("-")))
        name.size = 0;
    const size_t place = signatures_place(signatures, name);
    struct signatures_entry *entry = signatures_at(signatures, place, name);
    struct signature *signature = entry ? entry->signature : NULL;
    struct error cause;
    if (!entry && signatures->count == SIGNATURES_TENANTS_MAX)
        return error_set(ret_error, ERROR_INVALID, "more than %d tenants with secrets",
                         SIGNATURES_TENANTS_MAX);
    const enum error_code code = signature_add(&signature, secret, &cause);
    if (code)
        return error_set(ret_error, code, "tenant %.*s: %s", (int)shown.size, shown.data,
                         cause.text);
    if (!entry) {
        entry = &signatures->entries[place];
        memmove(entry + 1, entry, (signatures->count - place) * sizeof(*entry));
        memcpy(entry->name, name.data, name.size);
        entry->name_size = name.size;
        entry->signature = signature;
        signatures->count++;
    }
    return ERROR_NONE;
}

/* Base64 ends with one = or two, so a name ends at the = before a "wh". */
static enum error_code signatures_add(struct signatures *signatures, struct bytes word,
                                      struct error *ret_error)
{
    const char *mark = memmem(word.data, word.size, "=wh", 3);

    if (!mark)
        return signature_add(&signatures->shared, word, ret_error);
    const struct bytes name = {word.data, (size_t)(mark - word.data)};
    return signatures_add_own(signatures, name, (struct bytes){mark + 1, word.size - name.size - 1},
                              ret_error);
}

enum error_code signatures_create(const char *text, struct signatures **ret_signatures,
                                  struct error *ret_error)
{
    struct signatures *signatures = calloc(1, sizeof(*signatures));
    struct bytes rest = bytes_of(text), word;

    if (!signatures)
        return error_set(ret_error, ERROR_NO_MEMORY, "no memory to sign webhooks");
    enum error_code code = ERROR_NONE;
    while (!code && signature_next_secret(&rest, &word))
        code = signatures_add(signatures, word, ret_error);
    if (code)
        signatures_destroy(signatures);
    else
        *ret_signatures = signatures;
    return code;
}

void signatures_destroy(struct signatures *signatures)
{
    if (!signatures)
        return;
    for (size_t i = 0; i < signatures->count; i++)
        signature_destroy(signatures->entries[i].signature);
    signature_destroy(signatures->shared);
    free(signatures);
}

struct signature *signatures_find(const struct signatures *signatures, struct bytes tenant)
{
    const struct signatures_entry *entry =
        signatures_at(signatures, signatures_place(signatures, tenant), tenant);

    return entry ? entry->signature : signatures->shared;
}
