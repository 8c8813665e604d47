/* named_target.c - see named_target.h. */
#include "delivery/named_target.h"

#include "base/json.h"
#include "base/json_write.h"
#include "calendar/duration.h"
#include "calendar/rfc3339.h"
#include "delivery/seal.h"
#include "delivery/signature.h"
#include "delivery/webhook.h"
#include "timer/sensitive_headers.h"
#include "timer/target.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <strings.h>

#define NAMED_SECRET_FORM "It must be a string, or an object with secret_ref"

/* ---- values ---- */

static const struct named_auth_field named_signing_field = {
    "signing", .is_secret = true, .size_max = NAMED_SIGNING_SIZE_MAX, .is_optional = true};

const struct named_auth_field *named_target_field(const struct named_target *target, int index)
{
    if (index >= NAMED_SIGNING)
        return named_value_is_set(&target->values[index]) ? &named_signing_field : NULL;
    for (int i = 0; target->auth && target->auth->fields[i].name; i++)
        if (i == index)
            return &target->auth->fields[i];
    return NULL;
}

const char *named_target_kind(const struct named_target *target, int index)
{
    return index >= NAMED_SIGNING ? "signing" : target->auth->kind;
}

const char *named_target_place(int index)
{
    return index >= NAMED_SIGNING ? "#/" : "#/auth/";
}

/* ---- reading ---- */

struct named_reader {
    struct json_reader json;
    enum named_form form;
    unsigned seen; /* bits of the members that were read */
    struct named_target *target;
    struct named_fault *fault;
};

static enum error_code named_wrong(struct named_reader *reader, const char *place, const char *part,
                                   const char *reason)
{
    snprintf(reader->fault->place, sizeof(reader->fault->place), "%.30s%.30s", place, part);
    if (reason != reader->fault->reason) /* another place for the same reason */
        snprintf(reader->fault->reason, sizeof(reader->fault->reason), "%s", reason);
    return ERROR_INVALID;
}

/* Refuses a member that the object at this place does not have. */
static enum error_code named_unknown(struct named_reader *reader, const char *place,
                                     struct bytes name)
{
    named_wrong(reader, place, "", "There is no such field");
    snprintf(reader->fault->member, sizeof(reader->fault->member), "%.*s", (int)name.size,
             name.data);
    return ERROR_INVALID;
}

/* Begins to read a text. All of it is JSON before a field of it can be wrong. */
static enum error_code named_begin(struct named_reader *reader, struct bytes text)
{
    json_reader_init(&reader->json, text);
    if (!json_skip(&reader->json, NULL) || !json_finish(&reader->json)) {
        snprintf(reader->fault->reason, sizeof(reader->fault->reason), "Byte %zu: %s",
                 json_error_offset(&reader->json), json_error(&reader->json));
        return ERROR_NOT_JSON;
    }
    json_reader_init(&reader->json, text);
    return json_peek(&reader->json) == JSON_OBJECT && json_enter_object(&reader->json)
               ? ERROR_NONE
               : named_wrong(reader, "#", "", "It must be an object");
}

/* Decodes a string into the room, which has been reserved for all of the text. */
static struct bytes named_decode(struct named_reader *reader, const struct json_string *string)
{
    struct buffer *room = &reader->target->room_;
    char *to = room->data + room->size;
    size_t size = 0;

    json_string_decode(string, to, room->capacity - room->size, &size);
    room->size += size;
    return (struct bytes){to, size};
}

static enum error_code named_read_text(struct named_reader *reader, const char *place,
                                       size_t size_max, struct bytes *ret_text)
{
    struct json_string string;
    char reason[64];

    if (json_peek(&reader->json) != JSON_STRING || !json_read_string(&reader->json, &string))
        return named_wrong(reader, place, "", "It must be a string");
    const struct bytes text = named_decode(reader, &string);
    snprintf(reason, sizeof(reason), "It must have 1 to %zu bytes", size_max);
    if (text.size == 0 || text.size > size_max)
        return named_wrong(reader, place, "", reason);
    *ret_text = text;
    return ERROR_NONE;
}

static enum error_code named_read_url(struct named_reader *reader)
{
    struct named_target *target = reader->target;
    struct target parsed;
    struct error error;
    enum error_code code = named_read_text(reader, "#/url", NAMED_URL_SIZE_MAX, &target->url);

    if (code)
        return code;
    if (target_parse(target->url, &parsed, &error))
        return named_wrong(reader, "#/url", "", error.text);
    if (!target_is_webhook(&parsed))
        return named_wrong(reader, "#/url", "", "It must begin with http:// or https://");
    if (memchr(target->url.data, '?', target->url.size))
        return named_wrong(reader, "#/url", "", "It must have no query: timers append their path");
    if (target->url.data[target->url.size - 1] == '/')
        return named_wrong(reader, "#/url", "",
                           "It must not end with /: the path of a timer does "
                           "begin with it");
    return ERROR_NONE;
}

static enum error_code named_read_method(struct named_reader *reader)
{
    static const struct bytes methods[] = {BYTES("POST"), BYTES("PUT"), BYTES("PATCH"),
                                           BYTES("GET"), BYTES("DELETE")};
    enum error_code code = named_read_text(reader, "#/method", 8, &reader->target->method);

    for (size_t i = 0; !code && i < sizeof(methods) / sizeof(methods[0]); i++)
        if (bytes_equal(reader->target->method, methods[i])) {
            reader->target->method = i ? methods[i] : (struct bytes){0};
            return ERROR_NONE;
        }
    return code ? code
                : named_wrong(reader, "#/method", "", "It must be POST, PUT, PATCH, GET or DELETE");
}

static bool named_has_header(struct bytes headers, struct bytes name)
{
    while (headers.size > 0) {
        struct bytes line = bytes_cut(&headers, '\n');

        if (line.size > name.size && line.data[name.size] == ':' &&
            strncasecmp(line.data, name.data, name.size) == 0)
            return true;
    }
    return false;
}

static const char *named_check_header(struct bytes before, struct bytes name, struct bytes value)
{
    if (!webhook_header_is_name(name))
        return "A name is no name of a header";
    if (webhook_header_is_reserved(name))
        return "The server sets one of these headers itself";
    if (header_is_sensitive(name, (struct bytes){0}))
        return NAMED_HEADER_IS_SECRET;
    if (named_has_header(before, name))
        return "A header is named twice";
    if (value.size == 0 || bytes_has_control(value) || bytes_trim(value).size != value.size)
        return "A header's value is not empty, has no space at its ends and no control characters";
    return NULL;
}

/* Appends "name: value\n" to the room. The two texts in JSON are longer than that. */
static enum error_code named_read_headers(struct named_reader *reader)
{
    struct buffer *room = &reader->target->room_;
    struct json_string name, value;
    struct bytes lines = {room->data + room->size, 0};

    if (json_peek(&reader->json) != JSON_OBJECT || !json_enter_object(&reader->json))
        return named_wrong(reader, "#/headers", "", "It must be an object of strings");
    while (json_next_member(&reader->json, &name)) {
        if (json_peek(&reader->json) != JSON_STRING || !json_read_string(&reader->json, &value))
            return named_wrong(reader, "#/headers", "", "It must be an object of strings");
        const struct bytes key = named_decode(reader, &name);
        room->size += 2;
        memcpy(room->data + room->size - 2, ": ", 2);
        const struct bytes text = named_decode(reader, &value);
        const char *wrong = named_check_header(lines, key, text);
        if (wrong)
            return named_wrong(reader, "#/headers", "", wrong);
        room->data[room->size++] = '\n';
        lines.size = (size_t)(room->data + room->size - lines.data);
        if (lines.size > NAMED_HEADERS_SIZE_MAX)
            return named_wrong(reader, "#/headers", "",
                               "They may have at most 4096 bytes together");
    }
    reader->target->headers = lines;
    return ERROR_NONE;
}

static enum error_code named_read_ca(struct named_reader *reader)
{
    struct bytes *ca = &reader->target->ca;
    enum error_code code = named_read_text(reader, "#/ca", NAMED_CA_SIZE_MAX, ca);

    if (code)
        return code;
    BIO *text = BIO_new_mem_buf(ca->data, (int)ca->size);
    X509 *certificate = text ? PEM_read_bio_X509(text, NULL, NULL, NULL) : NULL;
    const bool is_certificate = certificate != NULL;
    X509_free(certificate);
    BIO_free(text);
    ERR_clear_error();
    return is_certificate ? ERROR_NONE
                          : named_wrong(reader, "#/ca", "", "It must be certificates in PEM");
}

/* ---- authentication ---- */

static bool named_is_ref(struct bytes ref)
{
    return !bytes_has_control(ref) && ((bytes_has_prefix(ref, BYTES("env:")) && ref.size > 4) ||
                                       (bytes_has_prefix(ref, BYTES("file:")) && ref.size > 5));
}

/* Reads one member of the object that stands for a secret. */
static enum error_code named_read_secret_member(struct named_reader *reader, struct bytes name,
                                                const char *field, struct named_value *value)
{
    const bool is_stored = reader->form == NAMED_STORED;
    struct json_reader *json = &reader->json;
    struct bytes number;

    if (bytes_equal(name, BYTES("secret_ref"))) {
        enum error_code code = named_read_text(reader, "#/auth/", 1024, &value->ref);
        if (code || !named_is_ref(value->ref))
            return named_wrong(reader, "#/auth/", field,
                               "Its secret_ref must be env:NAME or file:PATH");
        return ERROR_NONE;
    }
    if (is_stored && bytes_equal(name, BYTES("sealed")))
        return named_read_text(reader, "#/auth/", 2 * SEAL_PLAIN_BYTES_MAX, &value->sealed);
    if (is_stored && bytes_equal(name, BYTES("since")) && json_peek(json) == JSON_NUMBER &&
        json_read_number(json, &number) && json_number_u64(number, &value->since.ms) == JSON_U64_OK)
        return ERROR_NONE;
    if (is_stored && bytes_equal(name, BYTES("until")) && json_peek(json) == JSON_NUMBER &&
        json_read_number(json, &number) && json_number_u64(number, &value->until.ms) == JSON_U64_OK)
        return ERROR_NONE;
    if (!is_stored && (bytes_equal(name, BYTES("set")) || bytes_equal(name, BYTES("since")))) {
        json_skip(json, NULL); /* as it is shown: the secret stays */
        return ERROR_NONE;
    }
    return named_wrong(reader, "#/auth/", field, NAMED_SECRET_FORM);
}

static enum error_code named_read_field(struct named_reader *reader, int index,
                                        const struct named_auth_field *field)
{
    struct named_value *value = &reader->target->values[index];
    struct json_string name;
    enum error_code code = ERROR_NONE;

    if (named_value_is_set(value))
        return named_wrong(reader, "#/auth/", field->name, "It is given twice");
    if (!field->is_secret || json_peek(&reader->json) != JSON_OBJECT) {
        code = named_read_text(reader, "#/auth/", field->size_max, &value->text);
        return code ? named_wrong(reader, "#/auth/", field->name, reader->fault->reason) : code;
    }
    if (!json_enter_object(&reader->json))
        return named_wrong(reader, "#/auth/", field->name, "It is nested too deeply");
    while (!code && json_next_member(&reader->json, &name))
        code = named_read_secret_member(reader, named_decode(reader, &name), field->name, value);
    if (!code && reader->form == NAMED_CONFIGURED && !named_value_is_set(value))
        return named_wrong(reader, "#/auth/", field->name, NAMED_SECRET_FORM);
    return code;
}

/* Finds the kind first, because it says which members are its fields. */
static enum error_code named_find_kind(struct named_reader *reader)
{
    const struct json_reader begin = reader->json;
    struct json_string name;
    struct bytes kind = {0};
    enum error_code code = ERROR_NONE;

    while (!code && json_next_member(&reader->json, &name))
        if (bytes_equal(named_decode(reader, &name), BYTES("kind")))
            code = named_read_text(reader, "#/auth/kind", 64, &kind);
        else
            json_skip(&reader->json, NULL);
    reader->json = begin;
    reader->target->auth = named_auth_find(kind);
    if (code || reader->target->auth)
        return code;
    return named_wrong(reader, "#/auth/kind", "",
                       "It must be bearer, basic, header, certificate, oauth2 or oidc");
}

static enum error_code named_read_auth(struct named_reader *reader)
{
    struct json_string string;
    enum error_code code;

    if (json_peek(&reader->json) != JSON_OBJECT || !json_enter_object(&reader->json))
        return named_wrong(reader, "#/auth", "", "It must be an object");
    code = named_find_kind(reader);
    while (!code && json_next_member(&reader->json, &string)) {
        const struct named_auth *auth = reader->target->auth;
        const struct bytes name = named_decode(reader, &string);
        const int index = named_auth_field(auth, name);

        if (index >= 0)
            code = named_read_field(reader, index, &auth->fields[index]);
        else if (bytes_equal(name, BYTES("kind")))
            json_skip(&reader->json, NULL);
        else
            code = named_unknown(reader, "#/auth", name);
    }
    return code;
}

static enum error_code named_read_signing(struct named_reader *reader)
{
    struct bytes rest, secret;
    struct signature *signature = NULL;
    struct error error;
    enum error_code code;

    if (json_peek(&reader->json) == JSON_NULL) {
        json_skip(&reader->json, NULL);
        reader->target->has_no_signing = true;
        return ERROR_NONE;
    }
    code = named_read_field(reader, NAMED_SIGNING, &named_signing_field);
    rest = reader->target->values[NAMED_SIGNING].text;
    if (code)
        return named_wrong(reader, "#/signing", "", reader->fault->reason);
    while (!code && signature_next_secret(&rest, &secret))
        code = signature_add(&signature, secret, &error);
    signature_destroy(signature);
    return code == ERROR_INVALID ? named_wrong(reader, "#/signing", "", error.text) : code;
}

/* A client may send it as it is shown: it stays while the secrets stay. */
static enum error_code named_read_before(struct named_reader *reader)
{
    if (reader->form == NAMED_STORED)
        return named_read_field(reader, NAMED_BEFORE, &named_signing_field);
    if (reader->form == NAMED_CONFIGURED)
        return named_wrong(reader, "#/signing_before", "",
                           "The secrets of before stand in `signing`, after the new ones");
    if (json_peek(&reader->json) != JSON_OBJECT)
        return named_wrong(reader, "#/signing_before", "", "It must be an object, as it is shown");
    json_skip(&reader->json, NULL);
    return ERROR_NONE;
}

static enum error_code named_read_limits(struct named_reader *reader)
{
    struct json_string string;
    const char *reason = "";

    if (json_peek(&reader->json) != JSON_OBJECT || !json_enter_object(&reader->json))
        return named_wrong(reader, "#/limits", "", "It must be an object");
    while (json_next_member(&reader->json, &string)) {
        const struct bytes name = named_decode(reader, &string);
        const enum named_limits_result result =
            named_limits_read(&reader->json, name, &reader->target->limits, &reason);

        if (result == NAMED_LIMITS_UNKNOWN)
            return named_unknown(reader, "#/limits", name);
        if (result == NAMED_LIMITS_WRONG)
            return named_wrong(reader, "#/limits/",
                               bytes_equal(name, BYTES("rate")) ? "rate" : "concurrency", reason);
    }
    return ERROR_NONE;
}

/* Checks what several members say together. */
static enum error_code named_check_members(struct named_reader *reader)
{
    struct named_target *target = reader->target;
    const struct named_auth *auth = target->auth;
    struct bytes values[NAMED_FIELDS_MAX];
    const char *reason = "";

    if (!target->url.size)
        return named_wrong(reader, "#/url", "", "It is missing");
    if (!auth)
        return ERROR_NONE;
    if (auth->needs_tls && strncasecmp(target->url.data, "https:", 6) != 0)
        return named_wrong(reader, "#/url", "", "It must begin with https:// for a certificate");
    for (int i = 0; i < NAMED_FIELDS_MAX; i++)
        values[i] = target->values[i].text;
    for (int i = 0; auth->fields[i].name; i++)
        if (!auth->fields[i].is_secret && !auth->fields[i].is_optional && !values[i].size)
            return named_wrong(reader, "#/auth/", auth->fields[i].name, "It is missing");
    const int wrong = auth->check(values, &reason);
    return wrong < 0 ? ERROR_NONE
                     : named_wrong(reader, "#/auth/", auth->fields[wrong].name, reason);
}

static const struct named_member {
    const char *name;
    enum error_code (*read)(struct named_reader *reader);
} named_members[] = {
    {"url", named_read_url},         {"method", named_read_method},
    {"headers", named_read_headers}, {"auth", named_read_auth},
    {"ca", named_read_ca},           {NAMED_LIMITS, named_read_limits},
    {"signing", named_read_signing}, {"signing_before", named_read_before},
};

static enum error_code named_read_member(struct named_reader *reader, struct bytes name)
{
    for (size_t i = 0; i < sizeof(named_members) / sizeof(named_members[0]); i++) {
        const unsigned bit = 1u << i;

        if (!bytes_equal(name, bytes_of(named_members[i].name)))
            continue;
        if (reader->seen & bit)
            return named_wrong(reader, "#/", named_members[i].name, "It is given twice");
        reader->seen |= bit;
        return named_members[i].read(reader);
    }
    return named_unknown(reader, "#", name);
}

enum error_code named_target_parse(struct bytes json, enum named_form form,
                                   struct named_target *ret_target, struct named_fault *ret_fault)
{
    struct named_target target = {.auth = NULL};
    struct named_reader reader = {.form = form, .target = &target, .fault = ret_fault};
    struct json_string name;
    enum error_code code = ERROR_NONE;

    *ret_fault = (struct named_fault){.reason = ""};
    if (!buffer_reserve(&target.room_, 2 * json.size + 1))
        return ERROR_NO_MEMORY;
    code = named_begin(&reader, json);
    while (!code && json_next_member(&reader.json, &name))
        code = named_read_member(&reader, named_decode(&reader, &name));
    if (!code)
        code = named_check_members(&reader);
    if (code)
        seal_wipe(&target.room_);
    else
        *ret_target = target;
    return code;
}

static enum error_code named_read_overlap(struct named_reader *reader, uint64_t *ret_overlap_ms)
{
    struct bytes text;
    struct error error;
    enum error_code code = named_read_text(reader, "#/overlap", DURATION_TEXT_SIZE, &text);

    if (code)
        return code;
    if (duration_parse(text, ret_overlap_ms, &error))
        return named_wrong(reader, "#/overlap", "", error.text);
    return *ret_overlap_ms <= NAMED_OVERLAP_MS_MAX
               ? ERROR_NONE
               : named_wrong(reader, "#/overlap", "", "It must be 0s to 30d");
}

static enum error_code named_read_rotation(struct named_reader *reader, struct bytes json,
                                           uint64_t *ret_overlap_ms)
{
    enum error_code code = named_begin(reader, json);
    struct json_string string;
    bool has_overlap = false;

    while (!code && json_next_member(&reader->json, &string)) {
        const struct bytes name = named_decode(reader, &string);

        if (bytes_equal(name, BYTES("signing"))) {
            code = named_read_signing(reader);
        } else if (!bytes_equal(name, BYTES("overlap"))) {
            code = named_unknown(reader, "#", name);
        } else {
            code = has_overlap ? named_wrong(reader, "#/overlap", "", "It is given twice")
                               : named_read_overlap(reader, ret_overlap_ms);
            has_overlap = true;
        }
    }
    if (!code && !named_value_is_set(&reader->target->values[NAMED_SIGNING]))
        return named_wrong(reader, "#/signing", "", "It is missing");
    return code;
}

enum error_code named_rotation_parse(struct bytes json, struct named_target *ret_target,
                                     uint64_t *ret_overlap_ms, struct named_fault *ret_fault)
{
    struct named_target target = {.auth = NULL};
    struct named_reader reader = {.form = NAMED_SENT, .target = &target, .fault = ret_fault};

    *ret_fault = (struct named_fault){.reason = ""};
    *ret_overlap_ms = 0;
    if (!buffer_reserve(&target.room_, 2 * json.size + 1))
        return ERROR_NO_MEMORY;
    const enum error_code code = named_read_rotation(&reader, json, ret_overlap_ms);
    if (code)
        seal_wipe(&target.room_);
    else
        *ret_target = target;
    return code;
}

void named_target_deinit(struct named_target *target)
{
    seal_wipe(&target->room_);
}

struct bytes named_target_origin(const struct named_target *target)
{
    struct target parsed;

    if (target_parse(target->url, &parsed, NULL))
        return (struct bytes){0};
    return target_origin(target->url, &parsed);
}

/* ---- writing ---- */

static void named_put_secret(const struct named_value *value, const char *name,
                             enum named_view view, struct buffer *out)
{
    json_open(out, name, '{');
    if (value->ref.size)
        json_put_string(out, "secret_ref", value->ref);
    else if (view == NAMED_VIEW_STORED)
        json_put_string(out, "sealed", value->sealed);
    else
        json_put_flag(out, "set", named_value_is_set(value));
    if (value->sealed.size && view == NAMED_VIEW_STORED)
        json_put_number(out, "since", value->since.ms);
    else if (value->sealed.size)
        rfc3339_put(out, "since", value->since);
    if (value->until.ms && view == NAMED_VIEW_STORED)
        json_put_number(out, "until", value->until.ms);
    else if (value->until.ms)
        rfc3339_put(out, "until", value->until);
    json_close(out, '}');
}

static void named_put_headers(const struct named_target *target, enum named_view view,
                              struct buffer *out)
{
    struct bytes headers = target->headers;

    json_open(out, "headers", '{');
    while (headers.size > 0) {
        struct bytes line = bytes_cut(&headers, '\n');
        const struct bytes name = bytes_cut(&line, ':');

        json_put_pair(out, name,
                      view == NAMED_VIEW_SHOWN &&
                              header_is_sensitive(name, target->sensitive_headers)
                          ? BYTES(HEADER_MASK)
                          : bytes_trim(line));
    }
    json_close(out, '}');
}

void named_target_put(const struct named_target *target, enum named_view view, struct buffer *out)
{
    json_put_string(out, "url", target->url);
    if (target->method.size || view == NAMED_VIEW_SHOWN)
        json_put_string(out, "method", target->method.size ? target->method : BYTES("POST"));
    if (target->headers.size)
        named_put_headers(target, view, out);
    if (target->auth) {
        const struct named_auth_field *fields = target->auth->fields;

        json_open(out, "auth", '{');
        json_put_text(out, "kind", target->auth->kind);
        for (int i = 0; fields[i].name; i++)
            if (fields[i].is_secret)
                named_put_secret(&target->values[i], fields[i].name, view, out);
            else
                json_put_some(out, fields[i].name, target->values[i].text);
        json_close(out, '}');
    }
    json_put_some(out, "ca", target->ca);
    named_limits_put(&target->limits, out);
    if (named_value_is_set(&target->values[NAMED_SIGNING]))
        named_put_secret(&target->values[NAMED_SIGNING], "signing", view, out);
    if (named_value_is_set(&target->values[NAMED_BEFORE]))
        named_put_secret(&target->values[NAMED_BEFORE], "signing_before", view, out);
}
