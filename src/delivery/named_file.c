/* named_file.c - reads the file of named targets; see named_file.h. */
#include "delivery/named_file.h"

#include "base/json.h"
#include "sys/files.h"
#include "timer/target.h"

#include <stdio.h>

struct named_file {
    struct named *named;
    struct json_reader json;
    struct wall now;
    uint64_t version;
    struct definitions *definitions; /* those that were read */
    struct bytes tenant, name;       /* texts of the file where the reader is; empty if nowhere */
    struct error *error;
};

/* Sets the error, with the place of the tenant and the name, and `place` below them. */
static enum error_code named_file_wrong(struct named_file *file, const char *place,
                                        const char *reason)
{
    const struct bytes tenant = file->tenant, name = file->name;

    return error_set(file->error, ERROR_INVALID, "#%s%.*s%s%.*s%s: %s", tenant.data ? "/" : "",
                     (int)tenant.size, tenant.data ? tenant.data : "", name.data ? "/" : "",
                     (int)name.size, name.data ? name.data : "", place, reason);
}

/* Returns a name as it stands in the file, cut so that an error has room for it. Texts with escapes
 * are no valid names. */
static struct bytes named_file_shown(const struct json_string *string)
{
    return (struct bytes){string->raw.data, string->raw.size < DEFINITION_NAME_SIZE_MAX
                                                ? string->raw.size
                                                : DEFINITION_NAME_SIZE_MAX};
}

static enum error_code named_file_add(struct named_file *file, struct bytes tenant,
                                      struct bytes value)
{
    char room[DEFINITION_KEY_SIZE_MAX];
    const struct definition row = {.tenant = tenant,
                                   .key = definition_key(DEFINITION_TARGET, file->name, room),
                                   .value = value,
                                   .since = file->now,
                                   .version = file->version};
    struct definitions *next;
    const enum error_code code = definitions_put(file->definitions, &row, &next);

    if (code == ERROR_TOO_MANY) {
        char reason[160];

        snprintf(reason, sizeof(reason),
                 "A tenant has at most %d, with %d bytes, and all tenants have %d bytes",
                 DEFINITIONS_TENANT_MAX, DEFINITIONS_BYTES_TENANT_MAX, DEFINITIONS_BYTES_MAX);
        return named_file_wrong(file, "", reason);
    }
    if (code)
        return code;
    definitions_leave(file->definitions);
    file->definitions = next;
    return ERROR_NONE;
}

static enum error_code named_file_read_target(struct named_file *file, struct bytes tenant,
                                              const struct json_string *name)
{
    struct named_fault fault;
    struct bytes value;
    char place[sizeof(fault.place) + sizeof(fault.member) + 1];

    file->name = named_file_shown(name);
    if (name->raw.size > DEFINITION_NAME_SIZE_MAX || !target_name_is_valid(name->raw))
        return named_file_wrong(file, "",
                                "A name is a letter and up to 63 of A-Z a-z 0-9 . _ -, and not a "
                                "scheme");
    if (definitions_find(file->definitions, tenant, DEFINITION_TARGET, name->raw))
        return named_file_wrong(file, "", "It is given twice");
    json_skip(&file->json, &value);
    const enum error_code code = named_check_configured(file->named, value, &fault);
    if (code == ERROR_INVALID) {
        snprintf(place, sizeof(place), "%s%s%s", fault.place + 1, fault.member[0] ? "/" : "",
                 fault.member);
        return named_file_wrong(file, place, fault.reason);
    }
    return code ? code : named_file_add(file, tenant, value);
}

static enum error_code named_file_read_tenant(struct named_file *file,
                                              const struct json_string *string)
{
    const bool is_unnamed = bytes_equal(string->raw, BYTES("-"));
    const struct bytes tenant = is_unnamed ? (struct bytes){0} : string->raw;
    enum error_code code = ERROR_NONE;
    struct json_string name;
    size_t count;

    file->tenant = named_file_shown(string);
    file->name = (struct bytes){0};
    if (!is_unnamed && !tenant_is_valid(tenant))
        return named_file_wrong(file, "", "A tenant has 1 to 64 of A-Z a-z 0-9 . _ -");
    definitions_of(file->definitions, tenant, DEFINITION_TARGET, &count);
    if (count)
        return named_file_wrong(file, "", "It is given twice");
    if (json_peek(&file->json) != JSON_OBJECT || !json_enter_object(&file->json))
        return named_file_wrong(file, "", "It must be an object of definitions");
    while (!code && json_next_member(&file->json, &name))
        code = named_file_read_target(file, tenant, &name);
    return code;
}

/* All of the text is JSON before a part of it can be wrong. */
static enum error_code named_file_read(struct named_file *file, struct bytes text)
{
    struct json_reader *json = &file->json;
    struct json_string tenant;
    enum error_code code = ERROR_NONE;

    json_reader_init(json, text);
    if (!json_skip(json, NULL) || !json_finish(json))
        return error_set(file->error, ERROR_INVALID, "byte %zu: %s", json_error_offset(json),
                         json_error(json));
    json_reader_init(json, text);
    if (json_peek(json) != JSON_OBJECT || !json_enter_object(json))
        return named_file_wrong(file, "", "It must be an object of tenants");
    while (!code && json_next_member(json, &tenant))
        code = named_file_read_tenant(file, &tenant);
    return code;
}

enum error_code named_file_parse(struct named *named, struct bytes text, struct wall now,
                                 uint64_t version, struct definitions **ret_definitions,
                                 struct error *ret_error)
{
    struct named_file file = {.named = named,
                              .now = now,
                              .version = version,
                              .definitions = definitions_create(),
                              .error = ret_error};
    const enum error_code code = file.definitions ? named_file_read(&file, text) : ERROR_NO_MEMORY;

    if (code == ERROR_NO_MEMORY)
        error_set(ret_error, code, "out of memory");
    if (code)
        definitions_leave(file.definitions);
    else
        *ret_definitions = file.definitions;
    return code;
}

enum error_code named_file_load(struct named *named, const char *path, struct wall now,
                                uint64_t version, struct definitions **ret_definitions,
                                struct error *ret_error)
{
    struct error cause = {.text = "out of memory"};
    struct buffer text;

    buffer_init(&text);
    /* reserved, so that no secret is left behind where the buffer was before it grew */
    enum error_code code = buffer_reserve(&text, 2 * NAMED_FILE_SIZE_MAX)
                               ? files_read_regular(path, NAMED_FILE_SIZE_MAX, &text, &cause)
                               : ERROR_NO_MEMORY;
    if (code) {
        error_set(ret_error, code, "named_targets_file: %s", cause.text);
    } else {
        code = named_file_parse(named, buffer_bytes(&text), now, version, ret_definitions, &cause);
        if (code)
            error_set(ret_error, code, "named_targets_file: %.80s: %s", path, cause.text);
    }
    seal_wipe(&text);
    return code;
}
