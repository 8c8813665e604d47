/* zones.c - time zones by name, read from the tz database and kept. */
#include "calendar/zones.h"

#include "calendar/zone_links.h"
#include "sys/files.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

/* What identifies the contents of a file, to notice that it has changed. */
struct zones_file {
    dev_t device;
    ino_t number;
    off_t size;
    struct timespec changed;
};

struct zones_entry {
    char name[ZONE_NAME_SIZE_MAX + 1];
    struct zone *zone;
    struct zones_file file; /* file from which it was read */
};

/* A replaced zone, which others may still use. */
struct zones_retired {
    struct zone *zone;
    struct zones_retired *next;
};

struct zones {
    char folder[PATH_MAX / 2];
    _Atomic uint64_t generation;

    pthread_mutex_t lock; /* guards the fields below */
    char version[ZONES_VERSION_SIZE];
    struct zones_entry *entries; /* sorted by name */
    size_t count, capacity;
    struct zones_retired *retired;
    struct absent absent; /* missing names that were requested */
};

static void zones_destroy_entries(struct zones *zones)
{
    for (size_t i = 0; i < zones->count; i++)
        zone_destroy(zones->entries[i].zone);
    free(zones->entries);
    for (struct zones_retired *retired; (retired = zones->retired);) {
        zones->retired = retired->next;
        zone_destroy(retired->zone);
        free(retired);
    }
}

void zones_destroy(struct zones *zones)
{
    if (!zones)
        return;
    zones_destroy_entries(zones);
    pthread_mutex_destroy(&zones->lock);
    free(zones);
}

/* Reads "# version 2025b" at the begin of tzdata.zi, the source text of the database. */
static void zones_read_version(const struct zones *zones, char ret_version[ZONES_VERSION_SIZE])
{
    char path[PATH_MAX], line[32] = "";

    snprintf(ret_version, ZONES_VERSION_SIZE, "unknown");
    snprintf(path, sizeof(path), "%s/tzdata.zi", zones->folder);
    struct stat info;
    FILE *file = stat(path, &info) == 0 && S_ISREG(info.st_mode) ? fopen(path, "re") : NULL;
    if (!file)
        return;
    char version[ZONES_VERSION_SIZE];
    if (fgets(line, sizeof(line), file) && sscanf(line, "# version %15[0-9a-z-]", version) == 1)
        memcpy(ret_version, version, sizeof(version));
    fclose(file);
}

void zones_version(struct zones *zones, char ret_version[ZONES_VERSION_SIZE])
{
    pthread_mutex_lock(&zones->lock);
    memcpy(ret_version, zones->version, ZONES_VERSION_SIZE);
    pthread_mutex_unlock(&zones->lock);
}

const _Atomic uint64_t *zones_generation(const struct zones *zones)
{
    return &zones->generation;
}

enum error_code zones_create_anyway(const char *folder, struct zones **ret_zones,
                                    struct error *ret_error)
{
    struct zones *zones = calloc(1, sizeof(*zones));

    if (!zones)
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory for the time zones");
    pthread_mutex_init(&zones->lock, NULL);
    if ((size_t)snprintf(zones->folder, sizeof(zones->folder), "%s", folder) >=
        sizeof(zones->folder)) {
        zones_destroy(zones);
        return error_set(ret_error, ERROR_IO, "the folder of the tz database has too long a name");
    }
    zones_read_version(zones, zones->version);
    *ret_zones = zones;
    return ERROR_NONE;
}

enum error_code zones_create(const char *folder, struct zones **ret_zones, struct error *ret_error)
{
    struct zones *zones;
    const struct zone *zone;
    struct error error;
    enum error_code code = zones_create_anyway(folder, &zones, ret_error);

    if (code)
        return code;
    if (zones_get(zones, BYTES("UTC"), &zone, &error)) {
        zones_destroy(zones);
        return error_set(ret_error, error.code == ERROR_INVALID ? ERROR_NOT_FOUND : error.code,
                         "no tz database in %s (is tzdata installed?): %s", folder, error.text);
    }
    *ret_zones = zones;
    return ERROR_NONE;
}

/* Finds the index of `name`. Returns false if it is missing; then `ret_place` is where to insert
 * it. */
static bool zones_find(const struct zones *zones, const char *name, size_t *ret_place)
{
    size_t low = 0, high = zones->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(zones->entries[middle].name, name);

        if (order == 0) {
            *ret_place = middle;
            return true;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *ret_place = low;
    return false;
}

/* True if the folder has a zone of this name. */
static bool zones_has(const struct zones *zones, const char *name)
{
    char path[PATH_MAX];
    struct stat info;

    return (size_t)snprintf(path, sizeof(path), "%s/%s", zones->folder, name) < sizeof(path) &&
           stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

bool zones_suggest(const struct zones *zones, struct bytes name,
                   char ret_name[ZONES_SUGGESTION_SIZE])
{
    static const char *const regions[] = {"",          "Africa/",    "America/", "Asia/",
                                          "Atlantic/", "Australia/", "Europe/",  "Indian/",
                                          "Pacific/",  "Antarctica/"};
    const size_t count = memchr(name.data, '/', name.size) ? 1 : sizeof(regions) / sizeof(*regions);
    char word[ZONE_NAME_SIZE_MAX + 1];
    bool is_first = true;

    if (zone_name_check(name, NULL))
        return false;
    snprintf(word, sizeof(word), "%.*s", (int)name.size, name.data);
    for (char *at = word; *at; at++) {
        if (is_first && *at >= 'a' && *at <= 'z')
            *at = (char)(*at - 'a' + 'A');
        is_first = *at == '/' || *at == '_' || *at == '-';
    }
    for (size_t i = 0; i < count; i++) {
        snprintf(ret_name, ZONES_SUGGESTION_SIZE, "%s%s", regions[i], word);
        if (!bytes_equal(bytes_of(ret_name), name) && zones_has(zones, ret_name))
            return true;
    }
    return false;
}

/* Finds the file of a name: its own, or that of the present name of an old one. */
static enum error_code zones_locate(const struct zones *zones, const char *name, char *ret_path,
                                    struct zones_file *ret_file, struct error *ret_error)
{
    const char *const names[] = {name, zone_link_target(name)};
    struct stat info = {0};

    for (size_t i = 0; i < 2 && names[i]; i++) {
        snprintf(ret_path, PATH_MAX, "%s/%s", zones->folder, names[i]);
        if (stat(ret_path, &info) != 0) {
            if (errno != ENOENT && errno != ENOTDIR)
                return error_set(ret_error, ERROR_IO, "read %s: %s", ret_path, strerror(errno));
        } else if (S_ISREG(info.st_mode)) {
            *ret_file = (struct zones_file){info.st_dev, info.st_ino, info.st_size, info.st_mtim};
            return ERROR_NONE;
        }
        /* A folder such as "Europe" is no zone, nor is a file whose reading could wait. */
    }
    char guess[ZONES_SUGGESTION_SIZE];
    if (zones_suggest(zones, bytes_of(name), guess))
        return error_set(ret_error, ERROR_INVALID, "there is no time zone %s: did you mean %s?",
                         name, guess);
    return error_set(ret_error, ERROR_INVALID, "there is no time zone %s", name);
}

static enum error_code zones_read(const char *path, const char *name, struct zone **ret_zone,
                                  struct error *ret_error)
{
    struct buffer buffer;

    buffer_init(&buffer);
    enum error_code code = files_read_regular(path, ZONE_FILE_SIZE_MAX, &buffer, ret_error);
    if (!code)
        code = zone_parse(buffer_bytes(&buffer), ret_zone, ret_error);
    else if (code == ERROR_TOO_LARGE)
        code =
            error_set(ret_error, ERROR_INVALID, "the file of the time zone %s is too long", name);
    buffer_deinit(&buffer);
    return code;
}

static enum error_code zones_load(const struct zones *zones, const char *name,
                                  struct zones_file *ret_file, struct zone **ret_zone,
                                  struct error *ret_error)
{
    char path[PATH_MAX];
    enum error_code code = zones_locate(zones, name, path, ret_file, ret_error);

    return code ? code : zones_read(path, name, ret_zone, ret_error);
}

static bool zones_grow(struct zones *zones)
{
    size_t capacity = zones->capacity ? zones->capacity * 2 : 16;

    if (zones->count < zones->capacity)
        return true;
    struct zones_entry *entries = realloc(zones->entries, capacity * sizeof(*entries));
    if (!entries)
        return false;
    zones->entries = entries;
    zones->capacity = capacity;
    return true;
}

/* Stores `zone` under the name, unless another thread has done so meanwhile. The caller holds the
 * lock. */
static enum error_code zones_insert(struct zones *zones, const char *name, struct zone *zone,
                                    const struct zones_file *file, const struct zone **ret_zone,
                                    struct error *ret_error)
{
    size_t place;

    if (zones_find(zones, name, &place)) {
        zone_destroy(zone);
        *ret_zone = zones->entries[place].zone;
        return ERROR_NONE;
    }
    if (zones->count == ZONES_COUNT_MAX) {
        zone_destroy(zone);
        return error_set(ret_error, ERROR_TOO_MANY, "more than %d time zones are in use",
                         ZONES_COUNT_MAX);
    }
    if (!zones_grow(zones)) {
        zone_destroy(zone);
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory for a time zone");
    }
    memmove(&zones->entries[place + 1], &zones->entries[place],
            (zones->count - place) * sizeof(zones->entries[0]));
    zones->count++;
    zones->entries[place].zone = zone;
    zones->entries[place].file = *file;
    snprintf(zones->entries[place].name, sizeof(zones->entries[place].name), "%s", name);
    *ret_zone = zone;
    return ERROR_NONE;
}

enum error_code zones_get(struct zones *zones, struct bytes name, const struct zone **ret_zone,
                          struct error *ret_error)
{
    enum error_code code = zone_name_check(name, ret_error);

    if (code)
        return code;
    char text[ZONE_NAME_SIZE_MAX + 1];
    memcpy(text, name.data, name.size);
    text[name.size] = '\0';
    pthread_mutex_lock(&zones->lock);
    size_t place;
    bool is_known = zones_find(zones, text, &place);
    if (is_known)
        *ret_zone = zones->entries[place].zone;
    pthread_mutex_unlock(&zones->lock);
    if (is_known)
        return ERROR_NONE;

    struct zone *zone;
    struct zones_file file;
    code = zones_load(zones, text, &file, &zone, ret_error);
    if (code)
        return code;
    pthread_mutex_lock(&zones->lock);
    code = zones_insert(zones, text, zone, &file, ret_zone, ret_error);
    if (absent_forget(&zones->absent, name))
        atomic_fetch_add(&zones->generation, 1);
    pthread_mutex_unlock(&zones->lock);
    return code;
}

enum error_code zones_get_used(struct zones *zones, struct bytes name, const struct zone **ret_zone,
                               struct error *ret_error)
{
    enum error_code code = zones_get(zones, name, ret_zone, ret_error);

    if (code != ERROR_INVALID || zone_name_check(name, NULL))
        return code;
    pthread_mutex_lock(&zones->lock);
    absent_note(&zones->absent, name);
    pthread_mutex_unlock(&zones->lock);
    return code;
}

void zones_missing(struct zones *zones, struct absent_names *ret_missing)
{
    pthread_mutex_lock(&zones->lock);
    *ret_missing = *absent_names(&zones->absent);
    pthread_mutex_unlock(&zones->lock);
}

/* ---- files that change ---- */

static bool zones_is_file_equal(const struct zones_file *a, const struct zones_file *b)
{
    return a->device == b->device && a->number == b->number && a->size == b->size &&
           a->changed.tv_sec == b->changed.tv_sec && a->changed.tv_nsec == b->changed.tv_nsec;
}

/* Returns the entry at `index`; false at the end. */
static bool zones_entry_at(struct zones *zones, size_t index, struct zones_entry *ret_entry)
{
    pthread_mutex_lock(&zones->lock);
    const bool is_there = index < zones->count;
    if (is_there)
        *ret_entry = zones->entries[index];
    pthread_mutex_unlock(&zones->lock);
    return is_there;
}

/* Replaces the zone of a name. If there is no memory to keep the old one, nothing changes. */
static void zones_replace(struct zones *zones, const char *name, struct zone *zone,
                          const struct zones_file *file)
{
    struct zones_retired *retired = malloc(sizeof(*retired));
    size_t place;

    pthread_mutex_lock(&zones->lock);
    if (retired && zones_find(zones, name, &place)) {
        struct zones_entry *entry = &zones->entries[place];

        *retired = (struct zones_retired){entry->zone, zones->retired};
        zones->retired = retired;
        entry->zone = zone;
        entry->file = *file;
        atomic_fetch_add(&zones->generation, 1);
        zone = NULL;
        retired = NULL;
    }
    pthread_mutex_unlock(&zones->lock);
    zone_destroy(zone);
    free(retired);
}

/* Looks for the files of missing names, and removes those names that are no longer requested. */
static void zones_refresh_absent(struct zones *zones)
{
    struct absent_names *missing = malloc(sizeof(*missing));

    if (!missing)
        return;
    zones_missing(zones, missing);
    for (size_t i = 0; i < missing->count; i++) {
        const struct zone *zone;

        zones_get(zones, bytes_of(missing->names[i]), &zone, NULL);
    }
    free(missing);
    pthread_mutex_lock(&zones->lock);
    absent_age(&zones->absent);
    pthread_mutex_unlock(&zones->lock);
}

void zones_refresh(struct zones *zones)
{
    struct zones_entry entry;
    char path[PATH_MAX], version[ZONES_VERSION_SIZE];

    for (size_t i = 0; zones_entry_at(zones, i, &entry); i++) {
        struct zones_file file;
        struct zone *zone;

        if (!zones_locate(zones, entry.name, path, &file, NULL) &&
            !zones_is_file_equal(&file, &entry.file) && !zones_read(path, entry.name, &zone, NULL))
            zones_replace(zones, entry.name, zone, &file);
    }
    zones_refresh_absent(zones);
    zones_read_version(zones, version);
    pthread_mutex_lock(&zones->lock);
    memcpy(zones->version, version, sizeof(version));
    pthread_mutex_unlock(&zones->lock);
}
