/* zones.c - time zones by name, read from the tz database and kept. */
#include "calendar/zones.h"

#include "sys/files.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

struct zones_entry {
    char name[ZONE_NAME_SIZE_MAX + 1];
    struct zone *zone;
};

#define ZONES_VERSION_SIZE 16

struct zones {
    char folder[PATH_MAX / 2];
    char version[ZONES_VERSION_SIZE];

    pthread_mutex_t lock;        /* of what follows */
    struct zones_entry *entries; /* in order of name */
    size_t count, capacity;
};

static void zones_destroy_entries(struct zones *zones)
{
    for (size_t i = 0; i < zones->count; i++)
        zone_destroy(zones->entries[i].zone);
    free(zones->entries);
}

void zones_destroy(struct zones *zones)
{
    if (!zones)
        return;
    zones_destroy_entries(zones);
    pthread_mutex_destroy(&zones->lock);
    free(zones);
}

/* "# version 2025b" begins tzdata.zi, the text that the database is made of. */
static void zones_find_version(struct zones *zones)
{
    char path[PATH_MAX], line[32] = "";

    snprintf(zones->version, sizeof(zones->version), "unknown");
    snprintf(path, sizeof(path), "%s/tzdata.zi", zones->folder);
    struct stat info;
    FILE *file = stat(path, &info) == 0 && S_ISREG(info.st_mode) ? fopen(path, "re") : NULL;
    if (!file)
        return;
    char version[ZONES_VERSION_SIZE];
    if (fgets(line, sizeof(line), file) && sscanf(line, "# version %15[0-9a-z-]", version) == 1)
        memcpy(zones->version, version, sizeof(version));
    fclose(file);
}

const char *zones_version(const struct zones *zones)
{
    return zones->version;
}

enum error_code zones_create(const char *folder, struct zones **ret_zones, struct error *ret_error)
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
    const struct zone *zone;
    struct error error;
    if (zones_get(zones, BYTES("UTC"), &zone, &error)) {
        zones_destroy(zones);
        return error_set(ret_error, error.code == ERROR_INVALID ? ERROR_NOT_FOUND : error.code,
                         "no tz database in %s (is tzdata installed?): %s", folder, error.text);
    }
    zones_find_version(zones);
    *ret_zones = zones;
    return ERROR_NONE;
}

/* Where `name` is, or belongs. */
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

static enum error_code zones_load(const struct zones *zones, const char *name,
                                  struct zone **ret_zone, struct error *ret_error)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/%s", zones->folder, name);
    struct stat info;
    /* Not a folder ("Europe"), and nothing that reading could wait for or that never ends. */
    if (stat(path, &info) != 0) {
        if (errno == ENOENT || errno == ENOTDIR)
            return error_set(ret_error, ERROR_INVALID, "there is no time zone %s", name);
        return error_set(ret_error, ERROR_IO, "read %s: %s", path, strerror(errno));
    }
    if (!S_ISREG(info.st_mode))
        return error_set(ret_error, ERROR_INVALID, "there is no time zone %s", name);
    struct buffer buffer;
    buffer_init(&buffer);
    enum error_code code = files_read(path, ZONE_FILE_SIZE_MAX, &buffer, ret_error);
    if (!code)
        code = zone_parse(buffer_bytes(&buffer), ret_zone, ret_error);
    else if (code == ERROR_TOO_LARGE)
        code =
            error_set(ret_error, ERROR_INVALID, "the file of the time zone %s is too long", name);
    buffer_deinit(&buffer);
    return code;
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

/* Takes `zone`, unless another thread was first. Under the lock. */
static enum error_code zones_insert(struct zones *zones, const char *name, struct zone *zone,
                                    const struct zone **ret_zone, struct error *ret_error)
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
    code = zones_load(zones, text, &zone, ret_error);
    if (code)
        return code;
    pthread_mutex_lock(&zones->lock);
    code = zones_insert(zones, text, zone, ret_zone, ret_error);
    pthread_mutex_unlock(&zones->lock);
    return code;
}
