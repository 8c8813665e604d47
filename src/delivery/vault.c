/* vault.c - the keys under a lock. See vault.h. */
#include "delivery/vault.h"

#include <pthread.h>
#include <stdlib.h>

struct vault {
    struct definition_board *board;
    pthread_mutex_t lock; /* guards `keys` */
    struct seal_keys *keys;
};

enum error_code vault_create(const char *keys, struct definition_board *board,
                             struct vault **ret_vault, struct error *ret_error)
{
    struct vault *vault = calloc(1, sizeof(*vault));

    if (!vault)
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    const enum error_code code = seal_keys_create(keys, &vault->keys, ret_error);
    if (code) {
        free(vault);
        return code;
    }
    vault->board = board;
    pthread_mutex_init(&vault->lock, NULL);
    *ret_vault = vault;
    return ERROR_NONE;
}

void vault_destroy(struct vault *vault)
{
    if (!vault)
        return;
    seal_keys_destroy(vault->keys);
    pthread_mutex_destroy(&vault->lock);
    free(vault);
}

enum error_code vault_reload(struct vault *vault, const char *keys, struct error *ret_error)
{
    struct seal_keys *next;
    enum error_code code = seal_keys_create(keys, &next, ret_error);

    if (code)
        return code;
    pthread_mutex_lock(&vault->lock);
    struct seal_keys *last = vault->keys;
    vault->keys = next;
    pthread_mutex_unlock(&vault->lock);
    seal_keys_destroy(last);
    return ERROR_NONE;
}

struct definitions *vault_definitions(struct vault *vault)
{
    uint64_t version;

    return vault->board ? definition_board_take(vault->board, &version) : NULL;
}

enum error_code vault_seal(struct vault *vault, struct bytes bound, struct bytes plain,
                           struct buffer *out)
{
    pthread_mutex_lock(&vault->lock);
    const enum error_code code = seal_append(vault->keys, bound, plain, out);
    pthread_mutex_unlock(&vault->lock);
    return code;
}

enum error_code vault_open(struct vault *vault, struct bytes bound, struct bytes sealed,
                           struct buffer *out, struct error *ret_error)
{
    pthread_mutex_lock(&vault->lock);
    const enum error_code code = seal_open(vault->keys, bound, sealed, out, ret_error);
    pthread_mutex_unlock(&vault->lock);
    return code;
}

bool vault_is_newest(struct vault *vault, struct bytes sealed)
{
    pthread_mutex_lock(&vault->lock);
    const bool is_newest = seal_is_newest(vault->keys, sealed);
    pthread_mutex_unlock(&vault->lock);
    return is_newest;
}
