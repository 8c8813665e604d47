/* database.c - finds the zone files of the machine and reads them for the zone tests. */
#include "database.h"

#include "sys/files.h"
#include "seed.h"

#include <ftw.h>
#include <time.h>

enum { NAMES_MAX = 4096 };

/* nftw() hands nothing through. */
static char found[NAMES_MAX][ZONE_NAME_SIZE_MAX + 1];
static size_t found_count;

static int visit(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    const char *name = path + strlen(ZONES_FOLDER) + 1;

    (void)info, (void)walk;
    if ((kind == FTW_F || kind == FTW_SL) && zone_name_check(bytes_of(name), NULL) == ERROR_NONE &&
        found_count < NAMES_MAX)
        snprintf(found[found_count++], sizeof(found[0]), "%s", name);
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

static bool is_copy(const struct buffer *files, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (bytes_equal(buffer_bytes(&files[i]), buffer_bytes(&files[index])))
            return true;
    return false;
}

void database_open(struct database *database, struct random *random)
{
    *database = (struct database){0};
    struct error error;
    REQUIRE(zones_create(ZONES_FOLDER, &database->zones, &error) == ERROR_NONE, "%s", error.text);
    nftw(ZONES_FOLDER, visit, 16, FTW_PHYS); /* else a file is visited once, for all its links */
    /* So that a seed is the same run whatever the order on the disk. */
    qsort(found, found_count, sizeof(found[0]), by_name);
    struct buffer *files = calloc(found_count, sizeof(*files));
    database->names = calloc(found_count, sizeof(*database->names));
    REQUIRE(files && database->names, "memory");
    for (size_t i = 0; i < found_count; i++) {
        buffer_init(&files[i]);
        char path[256];
        snprintf(path, sizeof(path), "%s/%s", ZONES_FOLDER, found[i]);
        REQUIRE(files_read(path, ZONE_FILE_SIZE_MAX, &files[i], &error) == ERROR_NONE, "%s",
                error.text);
        if (!bytes_has_prefix(buffer_bytes(&files[i]), BYTES("TZif")))
            continue; /* leapseconds */
        database->name_count++;
        if (!is_copy(files, i))
            memcpy(database->names[database->count++], found[i], sizeof(found[0]));
    }
    for (size_t i = database->count; i > 1; i--) {
        size_t other = random_below(random, i);
        char name[ZONE_NAME_SIZE_MAX + 1];

        memcpy(name, database->names[i - 1], sizeof(name));
        memcpy(database->names[i - 1], database->names[other], sizeof(name));
        memcpy(database->names[other], name, sizeof(name));
    }
    for (size_t i = 0; i < found_count; i++)
        buffer_deinit(&files[i]);
    free(files);
    printf("%zu names, %zu different zones\n", database->name_count, database->count);
}

void database_close(struct database *database)
{
    zones_destroy(database->zones);
    free(database->names);
}

const struct zone *database_enter(struct database *database, size_t index)
{
    const struct zone *zone;
    struct error error;

    REQUIRE(zones_get(database->zones, bytes_of(database->names[index]), &zone, &error) ==
                ERROR_NONE,
            "%s: %s", database->names[index], error.text);
    setenv("TZ", database->names[index], 1);
    tzset();
    return zone;
}

int32_t database_offset(int64_t at)
{
    time_t seconds = (time_t)at;
    struct tm tm;

    REQUIRE(localtime_r(&seconds, &tm), "%lld", (long long)at);
    return (int32_t)tm.tm_gmtoff;
}

struct random database_random(void)
{
    return random_seeded(testing_seed());
}

size_t database_rounds(size_t usual, size_t all)
{
    const char *text = getenv("TEST_ROUNDS");
    size_t rounds = !text ? usual : strcmp(text, "all") == 0 ? all : strtoul(text, NULL, 10);

    return rounds < all ? rounds : all;
}
