/* token_keys.c - see token_keys.h. A definition has a line for each key: its name, its algorithm,
 * three times in milliseconds, its public part as JSON and its private part sealed, with a space
 * between two of them. None of them has a space. */
#include "delivery/token_keys.h"

#include "base/json.h"
#include "base/json_write.h"

/* ---- reading ---- */

const struct definition *token_keys_row(const struct definitions *definitions)
{
    return definitions_find(definitions, (struct bytes){0}, DEFINITION_TOKEN_KEYS,
                            BYTES("webhooks"));
}

struct bytes token_keys_row_key(char room[DEFINITION_KEY_SIZE_MAX])
{
    return definition_key(DEFINITION_TOKEN_KEYS, BYTES("webhooks"), room);
}

static bool token_keys_read_time(struct bytes *line, struct wall *ret_time)
{
    struct bytes word;

    return bytes_next_word(line, &word) && json_number_u64(word, &ret_time->ms) == JSON_U64_OK;
}

bool token_keys_next(struct bytes *value, struct token_key *ret_key)
{
    struct bytes line = bytes_cut(value, '\n');

    return bytes_next_word(&line, &ret_key->name) && bytes_next_word(&line, &ret_key->algorithm) &&
           token_keys_read_time(&line, &ret_key->made) &&
           token_keys_read_time(&line, &ret_key->signs) &&
           token_keys_read_time(&line, &ret_key->ends) && bytes_next_word(&line, &ret_key->shown) &&
           bytes_next_word(&line, &ret_key->sealed);
}

/* True if `key` signs rather than `other`: the latest that has begun; before the first has, as by a
 * clock that was set back, that one. */
static bool token_keys_signs_before(const struct token_key *key, const struct token_key *other,
                                    struct wall now)
{
    if (key->signs.ms > now.ms)
        return other->signs.ms > key->signs.ms;
    return other->signs.ms > now.ms || other->signs.ms <= key->signs.ms;
}

bool token_keys_signer(struct bytes value, struct wall now, struct token_key *ret_key)
{
    struct token_key key;
    bool is_found = false;

    while (token_keys_next(&value, &key)) {
        if (!is_found || token_keys_signs_before(&key, ret_key, now))
            *ret_key = key;
        is_found = true;
    }
    return is_found;
}

bool token_key_is_shown(const struct token_key *key, struct wall now)
{
    return !key->ends.ms || now.ms < key->ends.ms;
}

/* ---- private parts ---- */

/* Appends what the sealed private part belongs to: it opens nowhere else. A target's secret is
 * bound to four texts, so none of those opens as a key. */
static void token_keys_append_bound(struct buffer *out, struct bytes name)
{
    buffer_append(out, "\0token-key", sizeof("\0token-key"));
    buffer_append_bytes(out, name);
}

static enum error_code token_keys_append_sealed(struct vault *vault, struct bytes name,
                                                struct bytes plain, struct buffer *out,
                                                struct error *ret_error)
{
    struct buffer bound;

    buffer_init(&bound);
    token_keys_append_bound(&bound, name);
    const enum error_code code = buffer_failed(&bound)
                                     ? ERROR_NO_MEMORY
                                     : vault_seal(vault, buffer_bytes(&bound), plain, out);
    buffer_deinit(&bound);
    if (code == ERROR_INVALID)
        return error_set(ret_error, code, "The daemon has no secrets_keys to seal the key with");
    return code ? error_set(ret_error, code, "%s", "") : ERROR_NONE;
}

static enum error_code token_keys_append_plain(struct vault *vault, const struct token_key *key,
                                               struct buffer *out, struct error *ret_error)
{
    struct buffer bound;
    enum error_code code = ERROR_NO_MEMORY;

    buffer_init(&bound);
    token_keys_append_bound(&bound, key->name);
    error_set(ret_error, code, "out of memory");
    /* reserved, so that no part is left behind where the buffer was before it grew */
    if (!buffer_failed(&bound) && buffer_reserve(out, SEAL_PLAIN_BYTES_MAX + 1))
        code = vault_open(vault, buffer_bytes(&bound), key->sealed, out, ret_error);
    buffer_deinit(&bound);
    return code;
}

/* ---- writing ---- */

/* Appends the line up to the private part. */
static void token_keys_put(const struct token_key *key, struct buffer *out)
{
    const uint64_t times[] = {key->made.ms, key->signs.ms, key->ends.ms};

    buffer_append_bytes(out, key->name);
    buffer_append(out, " ", 1);
    buffer_append_bytes(out, key->algorithm);
    for (size_t i = 0; i < sizeof(times) / sizeof(*times); i++) {
        buffer_append(out, " ", 1);
        buffer_append_u64(out, times[i]);
    }
    buffer_append(out, " ", 1);
    buffer_append_bytes(out, key->shown);
    buffer_append(out, " ", 1);
}

static enum error_code token_keys_put_new(struct vault *vault, const struct jwt_keys *made,
                                          struct wall now, struct wall signs, struct buffer *out,
                                          struct error *ret_error)
{
    struct buffer shown, plain;
    struct token_key key = {.name = jwt_keys_name(made),
                            .algorithm = bytes_of(jwt_keys_algorithm(made)),
                            .made = now,
                            .signs = signs};
    enum error_code code = ERROR_NO_MEMORY;

    buffer_init(&shown);
    buffer_init(&plain);
    jwt_keys_append_public(made, &shown);
    key.shown = buffer_bytes(&shown);
    error_set(ret_error, code, "%s", "");
    if (!buffer_failed(&shown) && buffer_reserve(&plain, SEAL_PLAIN_BYTES_MAX))
        code = jwt_keys_append_private(made, &plain);
    token_keys_put(&key, out);
    if (!code)
        code = token_keys_append_sealed(vault, key.name, buffer_bytes(&plain), out, ret_error);
    buffer_append(out, "\n", 1);
    seal_wipe(&plain);
    buffer_deinit(&shown);
    return code;
}

/* Appends the keys of before that are still needed when the new one signs. */
static size_t token_keys_put_kept(struct bytes before, const struct token_keys_rotation *rotation,
                                  struct wall signs, struct buffer *out)
{
    const struct wall ends = wall_add(signs, rotation->life_ms + TOKEN_KEYS_MARGIN_MS);
    struct token_key key;
    size_t count = 0;

    while (token_keys_next(&before, &key)) {
        const bool never_signs = key.signs.ms > rotation->now.ms && key.signs.ms >= signs.ms;

        if (never_signs || !token_key_is_shown(&key, rotation->now))
            continue;
        key.ends = key.ends.ms ? key.ends : ends;
        token_keys_put(&key, out);
        buffer_append_bytes(out, key.sealed);
        buffer_append(out, "\n", 1);
        count++;
    }
    return count;
}

enum error_code token_keys_rotate(struct vault *vault, struct bytes before,
                                  const struct token_keys_rotation *rotation, struct buffer *out,
                                  struct error *ret_error)
{
    struct wall signs = wall_add(rotation->now, rotation->overlap_ms);
    struct jwt_keys *made;
    const size_t count = token_keys_put_kept(before, rotation, signs, out);

    if (!count) /* nothing else signs meanwhile */
        signs = rotation->now;
    if (count >= TOKEN_KEYS_MAX)
        return error_set(ret_error, ERROR_TOO_MANY,
                         "There are %d keys whose tokens may still be valid", TOKEN_KEYS_MAX);
    if (jwt_keys_make(rotation->algorithm, &made))
        return error_set(ret_error, ERROR_NO_MEMORY, "%s", "");
    enum error_code code = token_keys_put_new(vault, made, rotation->now, signs, out, ret_error);
    jwt_keys_destroy(made);
    if (!code && buffer_failed(out))
        code = error_set(ret_error, ERROR_NO_MEMORY, "%s", "");
    return code;
}

enum error_code token_keys_reseal(struct vault *vault, struct bytes value, struct buffer *out,
                                  bool *ret_has_changed, struct error *ret_error)
{
    enum error_code code = ERROR_NONE;
    struct token_key key;

    *ret_has_changed = false;
    while (!code && token_keys_next(&value, &key)) {
        struct buffer plain;

        token_keys_put(&key, out);
        if (vault_is_newest(vault, key.sealed)) {
            buffer_append_bytes(out, key.sealed);
        } else {
            buffer_init(&plain);
            code = token_keys_append_plain(vault, &key, &plain, ret_error);
            if (!code)
                code =
                    token_keys_append_sealed(vault, key.name, buffer_bytes(&plain), out, ret_error);
            seal_wipe(&plain);
            *ret_has_changed = true;
        }
        buffer_append(out, "\n", 1);
    }
    return code || !buffer_failed(out) ? code : error_set(ret_error, ERROR_NO_MEMORY, "%s", "");
}

/* ---- at work ---- */

void token_keys_append_set(struct vault *vault, struct wall now, struct buffer *out)
{
    struct definitions *definitions = vault_definitions(vault);
    const struct definition *row = definitions ? token_keys_row(definitions) : NULL;
    struct bytes value = row ? row->value : (struct bytes){0};
    struct token_key key;

    json_open(out, NULL, '{');
    json_open(out, "keys", '[');
    while (token_keys_next(&value, &key))
        if (token_key_is_shown(&key, now))
            json_put_raw(out, NULL, key.shown);
    json_close(out, ']');
    json_close(out, '}');
    definitions_leave(definitions);
}

static enum error_code token_keys_open_one(struct vault *vault, const struct token_key *key,
                                           struct jwt_keys **ret_keys, struct error *ret_error)
{
    struct buffer plain;

    buffer_init(&plain);
    enum error_code code = token_keys_append_plain(vault, key, &plain, ret_error);
    if (!code)
        code = jwt_keys_parse(buffer_bytes(&plain), ret_keys, ret_error);
    seal_wipe(&plain);
    return code;
}

enum error_code token_keys_open(struct vault *vault, struct wall now, struct bytes name,
                                struct jwt_keys **ret_keys, struct error *ret_error)
{
    struct definitions *definitions = vault_definitions(vault);
    const struct definition *row = definitions ? token_keys_row(definitions) : NULL;
    struct token_key key = {.signs = {0}};
    enum error_code code = ERROR_NONE;

    *ret_keys = NULL;
    if (!row || !token_keys_signer(row->value, now, &key))
        code = error_set(ret_error, ERROR_INVALID, "the daemon has not made its key yet");
    else if (!bytes_equal(key.name, name))
        code = token_keys_open_one(vault, &key, ret_keys, ret_error);
    definitions_leave(definitions);
    return code;
}

bool token_keys_are_open(struct vault *vault, struct error *ret_reason)
{
    struct definitions *definitions = vault_definitions(vault);
    const struct definition *row = definitions ? token_keys_row(definitions) : NULL;
    struct bytes value = row ? row->value : (struct bytes){0};
    struct token_key key;
    bool are_open = true;

    while (are_open && token_keys_next(&value, &key)) {
        struct buffer plain;

        buffer_init(&plain);
        are_open = !token_keys_append_plain(vault, &key, &plain, ret_reason);
        seal_wipe(&plain);
    }
    definitions_leave(definitions);
    return are_open;
}
