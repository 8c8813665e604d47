/* oauth_message.c - see oauth_message.h. */
#include "delivery/oauth_message.h"

#include "base/base64.h"
#include "base/json.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <strings.h>

/* ---- requests ---- */

/* Appends the text as application/x-www-form-urlencoded. */
static void oauth_append_form(struct buffer *out, struct bytes text)
{
    static const char digits[] = "0123456789ABCDEF";

    for (size_t i = 0; i < text.size; i++) {
        const unsigned char c = (unsigned char)text.data[i];
        const char escaped[3] = {'%', digits[c >> 4], digits[c & 15]};
        const bool is_plain = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') ||
                              c == '-' || c == '.' || c == '_' || c == '~';

        buffer_append(out, is_plain ? &text.data[i] : escaped, is_plain ? 1 : sizeof(escaped));
    }
}

static void oauth_append_some(struct buffer *out, const char *start, struct bytes value)
{
    if (!value.size)
        return;
    buffer_append_text(out, start);
    oauth_append_form(out, value);
}

void oauth_append_body(const struct oauth_client *client, struct buffer *out)
{
    buffer_append_text(out, "grant_type=client_credentials");
    oauth_append_some(out, "&scope=", client->scope);
    oauth_append_some(out, "&audience=", client->audience);
    if (client->has_secret_in_body) {
        oauth_append_some(out, "&client_id=", client->id);
        oauth_append_some(out, "&client_secret=", client->secret);
    }
}

void oauth_append_authorization(const struct oauth_client *client, struct buffer *out)
{
    struct buffer pair;

    if (client->has_secret_in_body)
        return;
    buffer_init(&pair);
    /* reserved, so that no copy of the secret is left behind where the buffer was before it grew */
    if (!buffer_reserve(&pair, 3 * (client->id.size + client->secret.size) + 1)) {
        out->failed = true;
        return;
    }
    oauth_append_form(&pair, client->id);
    buffer_append(&pair, ":", 1);
    oauth_append_form(&pair, client->secret);
    buffer_append_text(out, "Basic ");
    base64_append(out, buffer_bytes(&pair));
    OPENSSL_cleanse(pair.data, pair.size);
    buffer_deinit(&pair);
}

/* ---- answers ---- */

/* Members of the answer that are used; empty if missing. */
struct oauth_members {
    struct json_string token, type, error;
    bool has_life;
    uint64_t life_s;
};

static bool oauth_read_life(struct json_reader *reader, struct oauth_members *members)
{
    struct bytes number = {NULL, 0};

    /* some servers write the number as a string */
    if (json_peek(reader) == JSON_STRING) {
        struct json_string text;

        if (!json_read_string(reader, &text))
            return false;
        number = text.raw;
    } else if (json_peek(reader) != JSON_NUMBER || !json_read_number(reader, &number)) {
        return json_skip(reader, NULL);
    }
    members->has_life = number.size > 0 && number.size < 20;
    for (size_t i = 0; members->has_life && i < number.size; i++) {
        members->has_life = number.data[i] >= '0' && number.data[i] <= '9';
        members->life_s = members->life_s * 10 + (uint64_t)(number.data[i] - '0');
    }
    return true;
}

static bool oauth_read_members(struct bytes body, struct oauth_members *ret_members)
{
    struct json_reader reader;
    struct json_string name;

    json_reader_init(&reader, body);
    if (json_peek(&reader) != JSON_OBJECT || !json_enter_object(&reader))
        return false;
    while (json_next_member(&reader, &name)) {
        const bool is_string = json_peek(&reader) == JSON_STRING;
        struct json_string *member = NULL;

        if (bytes_equal(name.raw, BYTES("access_token")))
            member = &ret_members->token;
        else if (bytes_equal(name.raw, BYTES("token_type")))
            member = &ret_members->type;
        else if (bytes_equal(name.raw, BYTES("error")))
            member = &ret_members->error;
        if (member && is_string)
            json_read_string(&reader, member);
        else if (bytes_equal(name.raw, BYTES("expires_in")))
            oauth_read_life(&reader, ret_members);
        else
            json_skip(&reader, NULL);
    }
    return json_finish(&reader);
}

static bool oauth_is_visible(struct bytes text)
{
    for (size_t i = 0; i < text.size; i++)
        if (text.data[i] <= ' ' || text.data[i] > '~')
            return false;
    return text.size > 0;
}

/* Appends the decoded token, if it can stand in a header. */
static bool oauth_append_token(const struct json_string *string, struct buffer *token)
{
    const size_t start = token->size;
    char *to = string->raw.size > 0 && string->raw.size <= OAUTH_TOKEN_SIZE_MAX
                   ? buffer_reserve(token, string->raw.size)
                   : NULL;
    size_t size = 0;

    if (!to || !json_string_decode(string, to, string->raw.size, &size) ||
        !oauth_is_visible((struct bytes){to, size}))
        return false;
    token->size = start + size;
    return true;
}

/* True for a code of an error, as RFC 6749 and its extensions name them. Others are not shown: a
 * server may send back there what it got. */
static bool oauth_is_code(struct bytes text)
{
    for (size_t i = 0; i < text.size; i++)
        if ((text.data[i] < 'a' || text.data[i] > 'z') && text.data[i] != '_')
            return false;
    return text.size > 0 && text.size <= 40;
}

bool oauth_answer_read(int status, struct bytes body, struct buffer *token, uint32_t *ret_life_s,
                       char ret_reason[OAUTH_REASON_SIZE])
{
    struct oauth_members members = {.has_life = false};
    const bool is_read = oauth_read_members(body, &members);
    const struct bytes error = members.error.raw;

    if (status != 200) {
        const bool is_shown = is_read && oauth_is_code(error);

        snprintf(ret_reason, OAUTH_REASON_SIZE, "token endpoint answered HTTP %d%s%.*s", status,
                 is_shown ? ": " : "", is_shown ? (int)error.size : 0, is_shown ? error.data : "");
        return false;
    }
    if (!is_read) {
        snprintf(ret_reason, OAUTH_REASON_SIZE, "token endpoint answered no JSON object");
        return false;
    }
    if (members.type.raw.size != 6 || strncasecmp(members.type.raw.data, "bearer", 6) != 0) {
        snprintf(ret_reason, OAUTH_REASON_SIZE, "token endpoint gave no token of type bearer");
        return false;
    }
    if (!oauth_append_token(&members.token, token)) {
        snprintf(ret_reason, OAUTH_REASON_SIZE, "token endpoint gave no access_token that fits");
        return false;
    }
    const uint64_t life_s = members.has_life ? members.life_s : OAUTH_LIFE_S_DEFAULT;
    *ret_life_s = life_s < OAUTH_LIFE_S_MIN   ? OAUTH_LIFE_S_MIN
                  : life_s > OAUTH_LIFE_S_MAX ? OAUTH_LIFE_S_MAX
                                              : (uint32_t)life_s;
    return true;
}
