/*
 * zones_legacy_test.c - Goal: each name of a time zone that Debian 12 has means the same on a
 * machine that lacks the old names, as Debian 13 does without tzdata-legacy.
 *
 * Method: without arguments the installed database, and a folder with links to its files under the
 * present names only. With two arguments two folders, such as those of the packages of Debian 12
 * and 13, unpacked by `dpkg -x`: zones_legacy_test OLD/usr/share/zoneinfo NEW/usr/share/zoneinfo.
 * Compares each stretch from 2025 to 2100: EET is Europe/Athens today, and was not in 1975.
 */
#include "database.h"

#include "calendar/zone_links.h"
#include "sys/files.h"

#include <ftw.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#define BEGIN INT64_C(1735689600) /* 2025 */
#define END   INT64_C(4102444800) /* 2100 */

static char folder[] = "/tmp/tickwheel-legacy-XXXXXX";

static int legacy_remove(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)info, (void)kind, (void)walk;
    return remove(path);
}

static void legacy_link(const char *old, const char *name)
{
    char path[PATH_MAX], target[PATH_MAX];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    for (char *slash = path + sizeof(folder); (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
    snprintf(target, sizeof(target), "%s/%s", old, name);
    REQUIRE(symlink(target, path) == 0, "%s", path);
}

static void legacy_compare(struct zones *old, struct zones *new, const char *name)
{
    const struct zone *before, *now;
    struct error error;

    REQUIRE(zones_get(old, bytes_of(name), &before, &error) == ERROR_NONE, "%s", error.text);
    REQUIRE(zones_get(new, bytes_of(name), &now, &error) == ERROR_NONE, "%s", error.text);
    for (int64_t at = BEGIN; at < END;) {
        const struct zone_stretch a = zone_stretch_at(before, at), b = zone_stretch_at(now, at);

        REQUIRE(a.offset_s == b.offset_s, "%s at %lld: %d, not %d", name, (long long)at, b.offset_s,
                a.offset_s);
        at = a.end < b.end ? a.end : b.end;
    }
}

int main(int count, char **arguments)
{
    const char *old_folder = count > 2 ? arguments[1] : ZONES_FOLDER;
    struct zones *old, *new;
    struct error error;
    struct buffer list;
    size_t names = 0, missing = 0;

    buffer_init(&list);
    REQUIRE(files_read(TW_SOURCE_FOLDER "/tests/zones/debian12.names", 1 << 20, &list, &error) ==
                ERROR_NONE,
            "%s", error.text);
    struct bytes rest = buffer_bytes(&list);
    if (count <= 2)
        REQUIRE(mkdtemp(folder), "%s", folder);
    for (struct bytes all = rest; count <= 2 && all.size;) {
        struct bytes line = bytes_cut(&all, '\n');
        char name[ZONE_NAME_SIZE_MAX + 1];

        snprintf(name, sizeof(name), "%.*s", (int)line.size, line.data);
        if (!zone_link_target(name) && line.size)
            legacy_link(old_folder, name);
    }
    const char *new_folder = count > 2 ? arguments[2] : folder;
    REQUIRE(zones_create_anyway(old_folder, &old, &error) == ERROR_NONE, "%s", error.text);
    REQUIRE(zones_create_anyway(new_folder, &new, &error) == ERROR_NONE, "%s", error.text);
    while (rest.size) {
        struct bytes line = bytes_cut(&rest, '\n');
        char name[ZONE_NAME_SIZE_MAX + 1], path[PATH_MAX];

        if (!line.size || zone_name_check(line, NULL))
            continue; /* "localtime", "posixrules" */
        snprintf(name, sizeof(name), "%.*s", (int)line.size, line.data);
        snprintf(path, sizeof(path), "%s/%s", new_folder, name);
        missing += access(path, F_OK) != 0;
        names++;
        legacy_compare(old, new, name);
    }
    printf("%zu names mean the same, %zu of them by their present name\n", names, missing);
    REQUIRE(names > 590 && missing > 100, "%zu, %zu", names, missing);
    zones_destroy(old);
    zones_destroy(new);
    buffer_deinit(&list);
    if (count <= 2)
        nftw(folder, legacy_remove, 16, FTW_DEPTH | FTW_PHYS);
    return 0;
}
