/*
 * oauth_message.h - requests for tokens by client credentials (OAuth 2.0, RFC 6749, section 4.4),
 * and their answers.
 *
 * Errors     A buffer remembers that it could not grow; oauth_answer_read returns a reason, which
 *            has nothing of the answer but its member "error".
 * Threads    None; pure functions.
 */
#ifndef TICKWHEEL_DELIVERY_OAUTH_MESSAGE_H
#define TICKWHEEL_DELIVERY_OAUTH_MESSAGE_H

#include "base/bytes.h"

#define OAUTH_TOKEN_SIZE_MAX 16384
#define OAUTH_REASON_SIZE    96

/* Life of a token whose answer does not say it, and the bounds of what is believed. Below the
 * shortest a token would be fetched for each delivery; the receiver says that it is over. */
#define OAUTH_LIFE_S_MIN     10
#define OAUTH_LIFE_S_DEFAULT 300
#define OAUTH_LIFE_S_MAX     86400

/* A client of a token endpoint. Empty texts are left out of the request. */
struct oauth_client {
    struct bytes url, id, secret, scope, audience;
    bool has_secret_in_body; /* client_secret_post instead of client_secret_basic */
};

/* Appends the body, application/x-www-form-urlencoded. */
void oauth_append_body(const struct oauth_client *client, struct buffer *out);

/* Appends the value of the header authorization; nothing if the secret is in the body. */
void oauth_append_authorization(const struct oauth_client *client, struct buffer *out);

/* Reads the answer with this status. Appends the token and returns true; or returns false with the
 * reason, such as "token endpoint answered HTTP 401: invalid_client". */
bool oauth_answer_read(int status, struct bytes body, struct buffer *token, uint32_t *ret_life_s,
                       char ret_reason[OAUTH_REASON_SIZE]);

#endif
