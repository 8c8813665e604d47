/*
 * vault.h - the keys that seal secrets (seal.h) and the table of definitions that has the sealed
 * ones: all that opens a secret, for named.h and token_keys.h.
 *
 * Errors     Those of seal.h.
 * Threads    Any; a lock is held to use the keys, which a reload replaces as a whole.
 */
#ifndef TICKWHEEL_DELIVERY_VAULT_H
#define TICKWHEEL_DELIVERY_VAULT_H

#include "delivery/seal.h"
#include "timer/definitions.h"

struct vault;

/* `keys` as in seal.h. `board` is borrowed; NULL means that there are no definitions. */
enum error_code vault_create(const char *keys, struct definition_board *board,
                             struct vault **ret_vault, struct error *ret_error);
void vault_destroy(struct vault *vault); /* NULL is allowed */

/* Replaces the keys. On an error nothing changes. */
enum error_code vault_reload(struct vault *vault, const char *keys, struct error *ret_error);

/* Returns the definitions of all tenants, which the caller leaves; NULL if there are none. */
struct definitions *vault_definitions(struct vault *vault);

/* As the functions of seal.h. */
enum error_code vault_seal(struct vault *vault, struct bytes bound, struct bytes plain,
                           struct buffer *out);
enum error_code vault_open(struct vault *vault, struct bytes bound, struct bytes sealed,
                           struct buffer *out, struct error *ret_error);
bool vault_is_newest(struct vault *vault, struct bytes sealed);

#endif
