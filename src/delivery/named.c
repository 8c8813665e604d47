/* named.c - makes timers as they are sent to named targets; see named.h. */
#include "delivery/named.h"

#include "base/json_write.h"
#include "delivery/hide.h"
#include "delivery/webhook_request.h"
#include "sys/clock.h"
#include "sys/files.h"
#include "timer/sensitive_headers.h"

#include <limits.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>

struct named {
    struct named_options options;
    char *secrets_folder, *sensitive_headers;
    struct vault *vault;
};

/* A timer as it is sent. Its texts are stored after it. */
struct named_sent {
    struct timer timer;
    struct named_identity identity;
    struct oauth_client oauth; /* empty url for none */
    bool is_oidc;
    struct bytes audience; /* audience of a token of this service; empty for the target's origin */
    struct signature *signature; /* NULL if the target has no signing secrets of its own */
    struct bytes secrets;        /* headers of authentication: "name: value\n" each */
    struct buffer bearer;        /* token of the client; empty if there is none yet */
    size_t size;
    char texts[];
};

/* ---- create ---- */

enum error_code named_create(const struct named_options *options, struct named **ret_named,
                             struct error *ret_error)
{
    struct named *named = calloc(1, sizeof(*named));

    if (!named)
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    named->options = *options;
    named->secrets_folder = strdup(options->secrets_folder);
    named->sensitive_headers = strdup(options->sensitive_headers);
    enum error_code code =
        named->secrets_folder && named->sensitive_headers
            ? vault_create(options->keys, options->board, &named->vault, ret_error)
            : error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    if (code) {
        free(named->secrets_folder);
        free(named->sensitive_headers);
        free(named);
        return code;
    }
    *ret_named = named;
    return ERROR_NONE;
}

void named_destroy(struct named *named)
{
    if (!named)
        return;
    vault_destroy(named->vault);
    free(named->secrets_folder);
    free(named->sensitive_headers);
    free(named);
}

enum error_code named_reload(struct named *named, const char *keys, struct error *ret_error)
{
    return vault_reload(named->vault, keys, ret_error);
}

struct vault *named_vault(struct named *named)
{
    return named->vault;
}

/* ---- secrets ---- */

/* What a sealed secret belongs to: it opens nowhere else. No part may contain a NUL. */
static bool named_append_bound(struct buffer *out, struct bytes tenant, struct bytes name,
                               const char *kind, const char *field)
{
    buffer_append_bytes(out, tenant);
    buffer_append(out, "", 1);
    buffer_append_bytes(out, name);
    buffer_append(out, "", 1);
    buffer_append_text(out, kind);
    buffer_append(out, "", 1);
    buffer_append_text(out, field);
    return !buffer_failed(out);
}

/* True if the path stays below its folder. */
static bool named_is_below(struct bytes path)
{
    if (path.size == 0 || path.data[0] == '/')
        return false;
    while (path.size > 0) {
        const struct bytes part = bytes_cut(&path, '/');

        if (part.size == 0 || bytes_equal(part, BYTES("..")) || bytes_equal(part, BYTES(".")))
            return false;
    }
    return true;
}

static enum error_code named_read_file(struct named *named, struct bytes tenant, struct bytes path,
                                       struct buffer *out, struct error *ret_error)
{
    char full[PATH_MAX];
    const size_t before = out->size;

    if (!*named->secrets_folder)
        return error_set(ret_error, ERROR_INVALID, "secret_ref file: needs secrets_folder");
    const int size =
        snprintf(full, sizeof(full), "%s/%.*s%s%.*s", named->secrets_folder, (int)tenant.size,
                 tenant.data, tenant.size ? "/" : "", (int)path.size, path.data);
    /* a tenant may be named "..", or "." */
    if (!named_is_below(path) || (tenant.size && !named_is_below(tenant)) || size < 0 ||
        (size_t)size >= sizeof(full))
        return error_set(ret_error, ERROR_INVALID, "secret_ref file: is a path below the folder");
    if (!buffer_reserve(out, SEAL_PLAIN_BYTES_MAX) ||
        files_read_regular(full, SEAL_PLAIN_BYTES_MAX, out, NULL))
        return error_set(ret_error, ERROR_INVALID, "its secret_ref file cannot be read");
    while (out->size > before &&
           (out->data[out->size - 1] == '\n' || out->data[out->size - 1] == '\r'))
        out->size--;
    return ERROR_NONE;
}

static enum error_code named_read_env(struct bytes tenant, struct bytes name, struct buffer *out,
                                      struct error *ret_error)
{
    char text[256];

    if (tenant.size)
        return error_set(ret_error, ERROR_INVALID, "secret_ref env: is for the operator alone");
    if (!bytes_has_prefix(name, BYTES(NAMED_SECRET_ENV)) || name.size >= sizeof(text))
        return error_set(ret_error, ERROR_INVALID,
                         "secret_ref env: names a variable that begins with " NAMED_SECRET_ENV);
    snprintf(text, sizeof(text), "%.*s", (int)name.size, name.data);
    const char *value = getenv(text);
    if (!value || !*value)
        return error_set(ret_error, ERROR_INVALID, "the variable of its secret_ref is not set");
    buffer_append_text(out, value);
    return ERROR_NONE;
}

/* Appends the value of a field. */
static enum error_code named_append_value(struct named *named, const struct definition *row,
                                          const struct named_target *target, int index,
                                          struct buffer *out, struct error *ret_error)
{
    const struct named_auth_field *field = named_target_field(target, index);
    const struct named_value *value = &target->values[index];
    struct bytes ref = value->ref;
    struct buffer bound;

    if (!field->is_secret || value->text.size) {
        buffer_append_bytes(out, value->text);
        return ERROR_NONE;
    }
    if (ref.size) {
        const struct bytes kind = bytes_cut(&ref, ':');
        const struct bytes author = definition_is_configured(row) ? (struct bytes){0} : row->tenant;
        return bytes_equal(kind, BYTES("env"))
                   ? named_read_env(author, ref, out, ret_error)
                   : named_read_file(named, row->tenant, ref, out, ret_error);
    }
    buffer_init(&bound);
    enum error_code code = ERROR_NO_MEMORY;
    if (named_append_bound(&bound, row->tenant, definition_name(row),
                           named_target_kind(target, index), field->name))
        code = vault_open(named->vault, buffer_bytes(&bound), value->sealed, out, ret_error);
    buffer_deinit(&bound);
    return code;
}

/* ---- sending ---- */

/* Returns the row of the timer's target; NULL if there is none. */
static const struct definition *named_row(const struct definitions *definitions,
                                          struct bytes tenant, struct bytes text,
                                          const struct target *target)
{
    return definitions ? definitions_find(definitions, tenant, DEFINITION_TARGET,
                                          target_slice(text, target->name))
                       : NULL;
}

enum error_code named_check(struct named *named, struct bytes tenant, struct bytes text,
                            const struct target *target, struct error *ret_error)
{
    struct definitions *definitions = vault_definitions(named->vault);
    const bool is_known = named_row(definitions, tenant, text, target);

    definitions_leave(definitions);
    return is_known ? ERROR_NONE
                    : error_set(ret_error, ERROR_INVALID, "there is no named target %.*s",
                                (int)target->name.size, text.data);
}

/* True if each sealed secret of the definition opens. */
static bool named_opens(struct named *named, const struct definition *row, struct error *ret_reason)
{
    struct named_target target;
    struct named_fault fault;
    struct buffer plain;
    bool opens = true;

    if (named_target_parse(row->value, NAMED_STORED, &target, &fault))
        return true; /* an attempt says so; no key would help */
    buffer_init(&plain);
    for (int i = 0; opens && i < NAMED_VALUES_MAX; i++)
        if (target.values[i].sealed.size)
            opens = buffer_reserve(&plain, SEAL_PLAIN_BYTES_MAX + 1) &&
                    !named_append_value(named, row, &target, i, &plain, ret_reason);
    seal_wipe(&plain);
    named_target_deinit(&target);
    return opens;
}

size_t named_count_closed(struct named *named, struct error *ret_reason)
{
    struct definitions *definitions = vault_definitions(named->vault);
    struct error first = {.text = "out of memory"};
    size_t count = 0;

    for (size_t i = 0; definitions && i < definitions->count; i++) {
        const struct definition *row = &definitions->rows[i];

        if (definition_kind(row) != DEFINITION_TARGET || named_opens(named, row, &first))
            continue;
        if (!count++)
            error_set(ret_reason, ERROR_INVALID, "%.*s: %s", (int)definition_name(row).size,
                      definition_name(row).data, first.text);
    }
    definitions_leave(definitions);
    return count;
}

/* Values of the fields, and what the kind of authentication makes of them. */
struct named_credentials {
    struct buffer room;
    struct named_request request;
};

static enum error_code named_apply(struct named *named, const struct definition *row,
                                   const struct named_target *target,
                                   struct named_credentials *credentials, struct error *ret_error)
{
    struct bytes values[NAMED_FIELDS_MAX] = {{0}};
    size_t ends[NAMED_FIELDS_MAX] = {0};
    enum error_code code = ERROR_NONE;
    const char *reason;

    for (int i = 0; !code && target->auth->fields[i].name; i++) {
        code = named_append_value(named, row, target, i, &credentials->room, ret_error);
        ends[i] = credentials->room.size;
    }
    if (code || buffer_failed(&credentials->room))
        return code ? code : ERROR_NO_MEMORY;
    for (int i = 0; target->auth->fields[i].name; i++) {
        const size_t begin = i ? ends[i - 1] : 0;

        values[i] = (struct bytes){credentials->room.data + begin, ends[i] - begin};
    }
    if (target->auth->check(values, &reason) >= 0) /* what a secret_ref gave was not checked */
        return error_set(ret_error, ERROR_INVALID, "its secret cannot be sent: %.100s", reason);
    target->auth->apply(values, &credentials->request);
    return buffer_failed(&credentials->request.headers) ? ERROR_NO_MEMORY : ERROR_NONE;
}

static struct bytes named_copy(char **at, struct bytes first, struct bytes second)
{
    const struct bytes copy = {*at, first.size + second.size};

    if (first.size)
        memcpy(*at, first.data, first.size);
    if (second.size)
        memcpy(*at + first.size, second.data, second.size);
    *at += copy.size;
    return copy;
}

/* Makes the timer as it is sent. */
static enum error_code named_make(const struct timer *timer, const struct named_target *target,
                                  const struct named_credentials *credentials,
                                  struct named_sent **ret_sent, struct error *ret_error)
{
    const struct named_request *request = &credentials->request;
    const struct oauth_client *oauth = &request->oauth;
    const struct bytes headers = buffer_bytes(&request->headers);
    const struct bytes text = timer->texts.target;
    const size_t origin = timer->target.origin_size;
    const struct bytes path = {text.data + origin, text.size - origin}, none = {0};
    const size_t size = target->url.size + path.size + target->headers.size + headers.size +
                        target->method.size + request->certificate.size + request->key.size +
                        target->ca.size + oauth->url.size + oauth->id.size + oauth->secret.size +
                        oauth->scope.size + oauth->audience.size + request->audience.size;
    struct named_sent *sent = calloc(1, sizeof(*sent) + size);

    if (!sent)
        return ERROR_NO_MEMORY;
    char *at = sent->texts;
    sent->size = sizeof(*sent) + size;
    sent->timer = *timer;
    sent->timer.next = NULL;
    sent->timer.texts.target = named_copy(&at, target->url, path);
    sent->timer.texts.headers = named_copy(&at, target->headers, headers);
    sent->secrets = (struct bytes){at - headers.size, headers.size};
    sent->timer.texts.method = named_copy(&at, target->method, none);
    sent->identity.certificate = named_copy(&at, request->certificate, none);
    sent->identity.key = named_copy(&at, request->key, none);
    sent->identity.ca = named_copy(&at, target->ca, none);
    sent->oauth = *oauth;
    sent->oauth.url = named_copy(&at, oauth->url, none);
    sent->oauth.id = named_copy(&at, oauth->id, none);
    sent->oauth.secret = named_copy(&at, oauth->secret, none);
    sent->oauth.scope = named_copy(&at, oauth->scope, none);
    sent->oauth.audience = named_copy(&at, oauth->audience, none);
    sent->audience = named_copy(&at, request->audience, none);
    sent->is_oidc = request->is_oidc;
    if (!webhook_request_has_body(&sent->timer))
        sent->timer.texts.payload = sent->timer.texts.content_type = none;
    *ret_sent = sent;
    return target_parse(sent->timer.texts.target, &sent->timer.target, ret_error);
}

/* Adds the signing secrets at this index of the target. Those of before that find no place beside
 * the new ones are left out. */
static enum error_code named_add_signature(struct named *named, const struct definition *row,
                                           const struct named_target *target, int index,
                                           struct signature **signature, struct error *ret_error)
{
    struct buffer text;
    struct bytes rest, secret;

    buffer_init(&text);
    /* reserved, so that no secret is left behind where the buffer was before it grew */
    if (!buffer_reserve(&text, 2 * SEAL_PLAIN_BYTES_MAX))
        return ERROR_NO_MEMORY;
    enum error_code code = named_append_value(named, row, target, index, &text, ret_error);
    rest = buffer_bytes(&text);
    while (!code && signature_next_secret(&rest, &secret)) {
        code = signature_add(signature, secret, ret_error);
        if (code == ERROR_INVALID && index == NAMED_BEFORE)
            code = ERROR_NONE;
    }
    seal_wipe(&text);
    return code;
}

static enum error_code named_read_signature(struct named *named, const struct definition *row,
                                            const struct named_target *target,
                                            struct signature **ret_signature,
                                            struct error *ret_error)
{
    const struct named_value *before = &target->values[NAMED_BEFORE];
    enum error_code code =
        named_add_signature(named, row, target, NAMED_SIGNING, ret_signature, ret_error);

    if (!code && !*ret_signature)
        code = error_set(ret_error, ERROR_INVALID, "its signing secret is empty");
    if (!code && named_value_is_set(before) && wall_machine_now_us() / 1000 < before->until.ms)
        code = named_add_signature(named, row, target, NAMED_BEFORE, ret_signature, ret_error);
    return code;
}

static enum error_code named_resolve_row(struct named *named, const struct definition *row,
                                         const struct timer *timer, struct named_sent **ret_sent,
                                         struct error *ret_error)
{
    struct named_credentials credentials = {.room = {0}};
    struct named_target target;
    struct named_fault fault;
    enum error_code code = named_target_parse(row->value, NAMED_STORED, &target, &fault);

    if (code)
        return error_set(ret_error, code, "its definition cannot be read: %s %.100s", fault.place,
                         fault.reason);
    /* so that no secret is left behind where a buffer was before it grew */
    if (target.auth && (!buffer_reserve(&credentials.room, 4 * SEAL_PLAIN_BYTES_MAX) ||
                        !buffer_reserve(&credentials.request.headers, 2 * SEAL_PLAIN_BYTES_MAX)))
        code = ERROR_NO_MEMORY;
    if (!code && target.auth)
        code = named_apply(named, row, &target, &credentials, ret_error);
    if (!code)
        code = named_make(timer, &target, &credentials, ret_sent, ret_error);
    if (!code && named_value_is_set(&target.values[NAMED_SIGNING]))
        code = named_read_signature(named, row, &target, &(*ret_sent)->signature, ret_error);
    seal_wipe(&credentials.room);
    seal_wipe(&credentials.request.headers);
    named_target_deinit(&target);
    return code;
}

static void named_free(struct named_sent *sent)
{
    if (!sent)
        return;
    signature_destroy(sent->signature);
    seal_wipe(&sent->bearer);
    OPENSSL_cleanse(sent, sent->size);
    free(sent);
}

enum error_code named_resolve(struct named *named, struct delivery *delivery,
                              struct error *ret_error)
{
    const struct timer *timer = delivery->timer;
    struct definitions *definitions = vault_definitions(named->vault);
    const struct definition *row =
        named_row(definitions, timer->texts.tenant, timer->texts.target, &timer->target);
    struct named_sent *sent = NULL;
    enum error_code code = ERROR_INVALID;

    ret_error->text[0] = '\0';
    delivery->sent = NULL;
    if (row)
        code = named_resolve_row(named, row, timer, &sent, ret_error);
    else
        error_set(ret_error, code, "it is not defined");
    definitions_leave(definitions);
    if (code)
        named_free(sent);
    else
        delivery->sent = &sent->timer;
    return code;
}

static struct named_sent *named_sent_of(const struct delivery *delivery)
{
    return delivery->sent
               ? list_item((struct timer *)(uintptr_t)delivery->sent, struct named_sent, timer)
               : NULL;
}

void named_release(struct delivery *delivery)
{
    named_free(named_sent_of(delivery));
    delivery->sent = NULL;
}

const struct named_identity *named_identity_of(const struct delivery *delivery)
{
    const struct named_sent *sent = named_sent_of(delivery);

    return sent && (sent->identity.certificate.size || sent->identity.ca.size) ? &sent->identity
                                                                               : NULL;
}

struct signature *named_signature_of(const struct delivery *delivery)
{
    const struct named_sent *sent = named_sent_of(delivery);

    return sent ? sent->signature : NULL;
}

const struct oauth_client *named_oauth_of(const struct delivery *delivery)
{
    const struct named_sent *sent = named_sent_of(delivery);

    return sent && sent->oauth.url.size ? &sent->oauth : NULL;
}

bool named_set_bearer(struct delivery *delivery, struct bytes token)
{
    struct buffer *bearer = &named_sent_of(delivery)->bearer;

    buffer_append_bytes(bearer, token);
    return !buffer_failed(bearer);
}

struct bytes named_bearer_of(const struct delivery *delivery)
{
    const struct named_sent *sent = named_sent_of(delivery);

    return sent ? buffer_bytes(&sent->bearer) : (struct bytes){NULL, 0};
}

/* Hides the value of a header, also without the scheme of its authentication. */
static void named_hide_value(struct bytes value, struct delivery *delivery)
{
    struct bytes credentials = value;

    bytes_cut(&credentials, ' ');
    hide_secret(value, delivery->answer, &delivery->answer_size);
    hide_secret(credentials, delivery->answer, &delivery->answer_size);
}

/* Hides the values of all headers, or of those that are sensitive. */
static void named_hide_headers(const struct named *named, struct bytes headers, bool are_secret,
                               struct delivery *delivery)
{
    while (headers.size > 0) {
        struct bytes line = bytes_cut(&headers, '\n');
        const struct bytes name = bytes_cut(&line, ':');

        if (are_secret || header_is_sensitive(name, bytes_of(named->sensitive_headers)))
            named_hide_value(bytes_trim(line), delivery);
    }
}

void named_hide_in_answer(const struct named *named, struct delivery *delivery)
{
    const struct named_sent *sent = named_sent_of(delivery);

    if (!delivery->answer_size)
        return;
    named_hide_headers(named, delivery_sent(delivery)->texts.headers, false, delivery);
    if (!sent)
        return;
    named_hide_headers(named, sent->secrets, true, delivery);
    hide_secret(buffer_bytes(&sent->bearer), delivery->answer, &delivery->answer_size);
}

bool named_is_oidc(const struct delivery *delivery)
{
    const struct named_sent *sent = named_sent_of(delivery);

    return sent && sent->is_oidc;
}

struct bytes named_audience_of(const struct delivery *delivery)
{
    const struct named_sent *sent = named_sent_of(delivery);

    return sent ? sent->audience : (struct bytes){NULL, 0};
}

/* ---- storing ---- */

/* True if the secrets would go where they went before. */
static bool named_has_same_addresses(const struct named_target *target,
                                     const struct named_target *last)
{
    for (int i = 0; last->auth && last->auth == target->auth && target->auth->fields[i].name; i++)
        if (target->auth->fields[i].is_address &&
            !bytes_equal(target->values[i].text, last->values[i].text))
            return false;
    return bytes_equal(named_target_origin(last), named_target_origin(target));
}

static enum error_code named_fault_set(struct named_fault *fault, const char *place,
                                       const char *field, const char *reason)
{
    snprintf(fault->place, sizeof(fault->place), "%s%s", place, field);
    snprintf(fault->reason, sizeof(fault->reason), "%s", reason);
    return ERROR_INVALID;
}

/* Takes the secrets over that the client left out. */
static enum error_code named_keep(struct named_target *target, const struct named_target *last,
                                  struct named_fault *fault)
{
    const bool is_same_kind = last && last->auth == target->auth;
    const bool is_same_host = last && named_has_same_addresses(target, last);

    /* signing secrets are not sent, so they stay wherever the target goes */
    if (last && !target->has_no_signing && !named_value_is_set(&target->values[NAMED_SIGNING])) {
        target->values[NAMED_SIGNING] = last->values[NAMED_SIGNING];
        target->values[NAMED_BEFORE] = last->values[NAMED_BEFORE];
    }
    for (int i = 0; target->auth && target->auth->fields[i].name; i++) {
        const struct named_auth_field *field = &target->auth->fields[i];

        if (!field->is_secret || named_value_is_set(&target->values[i]))
            continue;
        if (!is_same_kind || !named_value_is_set(&last->values[i]))
            return named_fault_set(fault, "#/auth/", field->name, "It is missing");
        if (!is_same_host)
            return named_fault_set(fault, "#/auth/", field->name,
                                   "The host is another one: send the secret again");
        target->values[i] = last->values[i];
    }
    return ERROR_NONE;
}

/* Seals the texts of secret fields into `room`. */
static enum error_code named_seal_all(struct named *named, struct bytes tenant, struct bytes name,
                                      struct wall now, struct named_target *target,
                                      struct buffer rooms[NAMED_VALUES_MAX],
                                      struct named_fault *fault)
{
    enum error_code code = ERROR_NONE;

    for (int i = 0; !code && i < NAMED_VALUES_MAX; i++) {
        const struct named_auth_field *field = named_target_field(target, i);
        struct named_value *value = &target->values[i];
        struct buffer bound;

        if (!field || !field->is_secret || !value->text.size)
            continue;
        buffer_init(&bound);
        code = named_append_bound(&bound, tenant, name, named_target_kind(target, i), field->name)
                   ? vault_seal(named->vault, buffer_bytes(&bound), value->text, &rooms[i])
                   : ERROR_NO_MEMORY;
        buffer_deinit(&bound);
        if (code == ERROR_INVALID)
            named_fault_set(fault, named_target_place(i), field->name,
                            "The daemon has no secrets_keys to seal it with: set them, or give a "
                            "secret_ref");
        value->sealed = buffer_bytes(&rooms[i]);
        value->since = now;
    }
    return code;
}

static enum error_code named_write(const struct named_target *target, struct buffer *out)
{
    json_open(out, NULL, '{');
    named_target_put(target, NAMED_VIEW_STORED, out);
    json_close(out, '}');
    return buffer_failed(out) ? ERROR_NO_MEMORY : ERROR_NONE;
}

static bool named_allows_host(struct named *named, struct bytes url)
{
    struct target parsed;

    return !target_parse(url, &parsed, NULL) &&
           guard_allows_host(named->options.guard, target_slice(url, parsed.name));
}

/* Checks the hosts of all addresses that the definition names. */
static enum error_code named_check_hosts(struct named *named, const struct named_target *target,
                                         struct named_fault *fault)
{
    static const char reason[] =
        "This host is at an address that is not public; webhook_allow can allow it";

    if (!named_allows_host(named, target->url))
        return named_fault_set(fault, "#/url", "", reason);
    for (int i = 0; target->auth && target->auth->fields[i].name; i++)
        if (target->auth->fields[i].is_address && !named_allows_host(named, target->values[i].text))
            return named_fault_set(fault, "#/auth/", target->auth->fields[i].name, reason);
    return ERROR_NONE;
}

static enum error_code named_check_issuer(struct named *named, const struct named_target *target,
                                          struct named_fault *fault)
{
    if (!target->auth || target->auth != named_auth_find(BYTES("oidc")) ||
        named->options.issues_tokens)
        return ERROR_NONE;
    return named_fault_set(fault, "#/auth/kind", "",
                           "The daemon issues no tokens: set webhook_token_issuer, and "
                           "secrets_keys_file or webhook_token_keys_file");
}

/* Those of named_target_parse are the ones that are sensitive everywhere. */
static enum error_code named_check_headers(struct named *named, const struct named_target *target,
                                           struct named_fault *fault)
{
    struct bytes headers = target->headers;

    while (headers.size > 0) {
        struct bytes line = bytes_cut(&headers, '\n');

        if (header_is_sensitive(bytes_cut(&line, ':'), bytes_of(named->sensitive_headers)))
            return named_fault_set(fault, "#/headers", "", NAMED_HEADER_IS_SECRET);
    }
    return ERROR_NONE;
}

/* Checks what depends on the settings, and takes the secrets over that were left out. `last` is
 * NULL for a new definition. */
static enum error_code named_accept(struct named *named, struct named_target *target,
                                    const struct named_target *last, struct named_fault *ret_fault)
{
    enum error_code code = named_check_hosts(named, target, ret_fault);

    if (!code)
        code = named_check_headers(named, target, ret_fault);
    if (!code)
        code = named_check_issuer(named, target, ret_fault);
    return code ? code : named_keep(target, last, ret_fault);
}

enum error_code named_check_configured(struct named *named, struct bytes json,
                                       struct named_fault *ret_fault)
{
    struct named_target target;
    enum error_code code = named_target_parse(json, NAMED_CONFIGURED, &target, ret_fault);

    if (code)
        return code;
    code = named_accept(named, &target, NULL, ret_fault);
    named_target_deinit(&target);
    return code;
}

enum error_code named_store(struct named *named, struct bytes tenant, struct bytes name,
                            struct wall now, struct named_target *target, struct bytes last,
                            struct buffer *out, struct named_fault *ret_fault)
{
    struct buffer rooms[NAMED_VALUES_MAX] = {{0}};
    struct named_target before;
    struct named_fault unused;
    const bool has_last = last.size && !named_target_parse(last, NAMED_STORED, &before, &unused);
    enum error_code code = named_accept(named, target, has_last ? &before : NULL, ret_fault);

    if (!code)
        code = named_seal_all(named, tenant, name, now, target, rooms, ret_fault);
    if (!code)
        code = named_write(target, out);
    for (int i = 0; i < NAMED_VALUES_MAX; i++)
        buffer_deinit(&rooms[i]);
    if (has_last)
        named_target_deinit(&before);
    return code;
}

enum error_code named_rotate(struct named *named, const struct definition *row, struct wall now,
                             const struct named_target *rotation, uint64_t overlap_ms,
                             struct buffer *out, struct named_fault *ret_fault)
{
    struct buffer rooms[NAMED_VALUES_MAX] = {{0}};
    struct named_target target;
    enum error_code code = named_target_parse(row->value, NAMED_STORED, &target, ret_fault);

    if (code)
        return code;
    target.values[NAMED_BEFORE] = (struct named_value){.text = {NULL, 0}};
    if (overlap_ms) {
        target.values[NAMED_BEFORE] = target.values[NAMED_SIGNING];
        target.values[NAMED_BEFORE].until =
            (struct wall){wall_machine_now_us() / 1000 + overlap_ms};
    }
    target.values[NAMED_SIGNING] = rotation->values[NAMED_SIGNING];
    code = named_seal_all(named, row->tenant, definition_name(row), now, &target, rooms, ret_fault);
    if (!code)
        code = named_write(&target, out);
    for (int i = 0; i < NAMED_VALUES_MAX; i++)
        buffer_deinit(&rooms[i]);
    named_target_deinit(&target);
    return code;
}

enum error_code named_reseal(struct named *named, const struct definition *row, struct buffer *out,
                             bool *ret_has_changed, struct error *ret_error)
{
    struct buffer plain[NAMED_VALUES_MAX] = {{0}}, rooms[NAMED_VALUES_MAX] = {{0}};
    struct named_target target;
    struct named_fault fault;
    enum error_code code = named_target_parse(row->value, NAMED_STORED, &target, &fault);

    *ret_has_changed = false;
    if (code)
        return error_set(ret_error, code, "%s", fault.reason);
    for (int i = 0; !code && i < NAMED_VALUES_MAX; i++) {
        struct named_value *value = &target.values[i];
        const struct wall since = value->since;

        if (!value->sealed.size || vault_is_newest(named->vault, value->sealed))
            continue;
        if (!buffer_reserve(&plain[i], SEAL_PLAIN_BYTES_MAX + 1))
            code = ERROR_NO_MEMORY;
        if (!code)
            code = named_append_value(named, row, &target, i, &plain[i], ret_error);
        value->text = buffer_bytes(&plain[i]);
        if (!code)
            code = named_seal_all(named, row->tenant, definition_name(row), since, &target, rooms,
                                  &fault);
        value->text = (struct bytes){0};
        *ret_has_changed = true;
    }
    if (!code)
        code = named_write(&target, out);
    for (int i = 0; i < NAMED_VALUES_MAX; i++) {
        seal_wipe(&plain[i]);
        buffer_deinit(&rooms[i]);
    }
    named_target_deinit(&target);
    return code;
}
