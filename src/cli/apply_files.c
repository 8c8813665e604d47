/* apply_files.c - files and documents of `tickwheel apply`. */
#include "cli/apply_files.h"

#include "base/json.h"
#include "cli/specs.h"
#include "cli/value.h"
#include "sys/files.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define APPLY_FILES_MAX   10000
#define APPLY_FOLDERS_MAX 16 /* maximum depth of folders */

struct apply_reading {
    struct apply_plan *plan;
    const char *file; /* name of the file that is read, for complaints */
    size_t bytes;     /* size of the files read so far */
    size_t file_count, document_count;
};

/* ---- documents ---- */

static enum error_code apply_wrong(struct error *ret_error, const struct spec_document *document,
                                   const char *pointer, const char *why)
{
    return error_set(ret_error, ERROR_INVALID, "line %u: %s%s%s",
                     spec_line(document, bytes_of(*pointer ? pointer + 1 : pointer)), pointer,
                     *pointer ? ": " : "", why);
}

/* True if the value is a string that is not empty. */
static bool apply_is_text(struct bytes value)
{
    return value.size > 2 && value.data[0] == '"';
}

/* Takes the document that names the owner. A flag and the files must agree. */
static enum error_code apply_take_owner(struct apply_reading *reading,
                                        const struct spec_document *document, struct bytes name,
                                        struct error *ret_error)
{
    struct apply_plan *plan = reading->plan;

    if (plan->owner.size && !bytes_equal(plan->owner, name))
        return apply_wrong(ret_error, document, "#/name",
                           "the owner has another name already, in a file or by --owner");
    plan->owner = apply_keep(plan, name);
    return plan->owner.data ? ERROR_NONE : error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
}

/* Copies the members but kind and name. */
static struct bytes apply_fields_of(struct apply_plan *plan, struct bytes json)
{
    struct json_reader reader;
    struct json_string name;
    struct bytes value;
    struct buffer fields;

    buffer_init(&fields);
    buffer_append_text(&fields, "{");
    json_reader_init(&reader, json);
    if (json_peek(&reader) == JSON_OBJECT && json_enter_object(&reader))
        while (json_next_member(&reader, &name) && json_skip(&reader, &value))
            if (!bytes_equal(name.raw, BYTES("kind")) && !bytes_equal(name.raw, BYTES("name"))) {
                buffer_append_text(&fields, fields.size > 1 ? ",\"" : "\"");
                buffer_append_bytes(&fields, name.raw);
                buffer_append_text(&fields, "\":");
                buffer_append_bytes(&fields, value);
            }
    buffer_append_text(&fields, "}");
    const struct bytes kept =
        buffer_failed(&fields) ? (struct bytes){NULL, 0} : apply_keep(plan, buffer_bytes(&fields));
    buffer_deinit(&fields);
    return kept;
}

static enum error_code apply_take_item(struct apply_reading *reading, enum apply_kind kind,
                                       struct bytes name, const struct spec_document *document,
                                       struct error *ret_error)
{
    struct apply_plan *plan = reading->plan;
    const struct bytes places = {(const char *)document->places,
                                 document->place_count * sizeof(document->places[0])};

    if (plan->count == APPLY_ITEMS_MAX)
        return error_set(ret_error, ERROR_INVALID, "there are more than %d documents",
                         APPLY_ITEMS_MAX);
    struct apply_item *item = apply_add(plan, kind, name);
    if (item) {
        item->file = reading->file;
        item->fields = apply_fields_of(plan, document->json);
        item->document = *document;
        item->document.json = (struct bytes){NULL, 0};
        const struct bytes kept = apply_keep(plan, places);
        item->document.places = (const struct spec_place *)(const void *)kept.data;
        if (item->fields.data && kept.data)
            return ERROR_NONE;
    }
    return error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
}

static enum error_code apply_take(void *context, const struct spec_document *document,
                                  struct error *ret_error)
{
    struct apply_reading *reading = context;
    const struct bytes kind = cli_member(document->json, "kind");
    const struct bytes name = cli_member(document->json, "name");
    enum error_code code = ERROR_INVALID;
    struct buffer text;

    reading->document_count++;
    if (!kind.size)
        return apply_wrong(ret_error, document, "", "`kind` is missing");
    if (!apply_is_text(name))
        return apply_wrong(ret_error, document, "#/name", "`name` must be a string");
    buffer_init(&text);
    cli_append_value(&text, name);
    if (cli_is_text(kind, "owner")) {
        code = apply_take_owner(reading, document, buffer_bytes(&text), ret_error);
    } else {
        int i = 0;

        while (i < APPLY_KINDS && !cli_is_text(kind, apply_kind_word((enum apply_kind)i)))
            i++;
        if (i == APPLY_KINDS)
            apply_wrong(ret_error, document, "#/kind",
                        "it must be owner, schedule, named_target, flow, calendar or queue");
        else
            code = apply_take_item(reading, (enum apply_kind)i, buffer_bytes(&text), document,
                                   ret_error);
    }
    buffer_deinit(&text);
    return code;
}

/* ---- files ---- */

static enum cli_exit apply_read_text(struct apply_reading *reading, const char *name,
                                     struct bytes text)
{
    struct error error = {.text = ""};

    reading->file = apply_keep(reading->plan, bytes_of(name)).data;
    if (!reading->file)
        return cli_complain(CLI_EXIT_FAILED, "out of memory");
    if (!specs_read(text, apply_take, reading, &error))
        return CLI_EXIT_DONE;
    const char *place = strncmp(error.text, "line ", 5) == 0 ? error.text + 5 : NULL;
    return place ? cli_complain(CLI_EXIT_FAILED, "%s:%s", reading->file, place)
                 : cli_complain(CLI_EXIT_FAILED, "%s: %s", reading->file, error.text);
}

static enum cli_exit apply_read_file(struct apply_reading *reading, const char *path)
{
    enum cli_exit code;
    struct error error = {.text = ""};
    struct buffer text;

    buffer_init(&text);
    if (files_read(path, APPLY_BYTES_MAX - reading->bytes, &text, &error))
        code = cli_complain(CLI_EXIT_FAILED, "%s", error.text);
    else
        code = apply_read_text(reading, path, buffer_bytes(&text));
    reading->bytes += text.size;
    buffer_deinit(&text);
    return code;
}

/* Paths of the entries of a folder that are read. */
struct apply_folder {
    const char *path;
    struct buffer names; /* char *, each of malloc */
    bool has_failed;
};

static bool apply_is_document(const char *name)
{
    const char *end = strrchr(name, '.');

    return end &&
           (strcmp(end, ".yaml") == 0 || strcmp(end, ".yml") == 0 || strcmp(end, ".json") == 0);
}

static bool apply_on_entry(void *context, const struct files_entry *entry)
{
    struct apply_folder *folder = context;
    char *path;

    if (entry->name[0] == '.' ||
        !(entry->is_folder || (entry->is_file && apply_is_document(entry->name))))
        return true;
    if (asprintf(&path, "%s/%s", folder->path, entry->name) < 0)
        folder->has_failed = true;
    else
        buffer_append(&folder->names, &path, sizeof(path));
    return !folder->has_failed && !buffer_failed(&folder->names);
}

static int apply_compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool apply_end_list(void *context, const struct files_entry *entry)
{
    (void)context, (void)entry;
    return false;
}

static bool apply_is_folder(const char *path)
{
    return !files_list(path, apply_end_list, NULL, NULL);
}

/* Reads a folder, in the order of names. */
static enum cli_exit apply_read_folder(struct apply_reading *reading, const char *path,
                                       unsigned depth)
{
    struct apply_folder folder = {.path = path};
    enum cli_exit code = CLI_EXIT_DONE;
    struct error error;

    if (depth == APPLY_FOLDERS_MAX)
        return cli_complain(CLI_EXIT_FAILED, "%s: folders are nested too deeply", path);
    buffer_init(&folder.names);
    if (files_list(path, apply_on_entry, &folder, &error))
        code = cli_complain(CLI_EXIT_FAILED, "%s", error.text);
    else if (folder.has_failed || buffer_failed(&folder.names))
        code = cli_complain(CLI_EXIT_FAILED, "out of memory");
    char **names = (char **)(void *)folder.names.data;
    const size_t count = folder.names.size / sizeof(*names);
    if (count)
        qsort(names, count, sizeof(*names), apply_compare_names);
    for (size_t i = 0; i < count; i++) {
        if (!code && apply_is_folder(names[i]))
            code = apply_read_folder(reading, names[i], depth + 1);
        else if (!code && ++reading->file_count > APPLY_FILES_MAX)
            code = cli_complain(CLI_EXIT_FAILED, "there are more than %d files", APPLY_FILES_MAX);
        else if (!code)
            code = apply_read_file(reading, names[i]);
        free(names[i]);
    }
    buffer_deinit(&folder.names);
    return code;
}

enum cli_exit apply_files_read_input(const char *path, struct buffer *input)
{
    struct error error = {.text = ""};

    if (strcmp(path, "-") == 0 && files_read("/dev/stdin", APPLY_BYTES_MAX, input, &error))
        return cli_complain(CLI_EXIT_FAILED, "%s", error.text);
    return CLI_EXIT_DONE;
}

enum cli_exit apply_files_read(struct apply_plan *plan, const char *path, struct bytes input)
{
    struct apply_reading reading = {.plan = plan};
    enum cli_exit code;

    if (strcmp(path, "-") == 0)
        code = apply_read_text(&reading, "standard input", input);
    else if (apply_is_folder(path))
        code = apply_read_folder(&reading, path, 0);
    else
        code = apply_read_file(&reading, path);
    if (code)
        return code;
    if (!reading.document_count) /* with --prune a wrong path would delete everything */
        return cli_complain(CLI_EXIT_FAILED, "%s: there is no document", path);
    apply_sort(plan);
    for (size_t i = 1; i < plan->count; i++)
        if (plan->items[i].kind == plan->items[i - 1].kind &&
            bytes_equal(plan->items[i].name, plan->items[i - 1].name)) {
            apply_complain(&plan->items[i - 1], (struct bytes){NULL, 0}, "it is there twice");
            apply_complain(&plan->items[i], (struct bytes){NULL, 0}, "it is there twice");
            return CLI_EXIT_FAILED;
        }
    return CLI_EXIT_DONE;
}
