/* Goal: changes keep within their memory, whatever the disk does, and a disk without room loses
 * nothing. Method: writes on the system's disk, which are counted, slowed down or refused. */
#include "store/storage_testing.h"
#include "store/wheel/diskwheel_store.h"

#include <errno.h>
#include <sched.h>

enum {
    ROOM_BODY = 200, /* timers of a body */
    ROOM_BODIES = 400,
    ROOM_MEMORY = 4 << 20,
    ROOM_SLACK = 1 << 20, /* a piece of each stage, and a body */
    ROOM_PAYLOAD = 200,
};

#define ROOM_START UINT64_C(1800000000000)

struct room {
    struct disk_calls disk; /* the system's, but for its writes */
    atomic_bool is_full, is_slow;
    atomic_uint writes;
    struct testing_folder folder;
    struct storage *storage;
    uint64_t serial;
};

static int room_write(const struct disk_calls *disk, int file, uint64_t at, struct bytes bytes)
{
    struct room *room = (struct room *)(uintptr_t)disk; /* its first field */

    atomic_fetch_add(&room->writes, 1);
    if (atomic_load(&room->is_full))
        return ENOSPC;
    for (unsigned i = 0; i < 2000 && atomic_load(&room->is_slow); i++)
        sched_yield();
    return disk_system()->write(disk_system(), file, at, bytes);
}

static struct room *room_open(void)
{
    struct room *room = calloc(1, sizeof(*room));
    struct error error;

    assert_non_null(room);
    room->disk = *disk_system();
    room->disk.write = room_write;
    testing_folder_make(&room->folder);
    const struct diskwheel_options options = {.disk = &room->disk,
                                              .folder = room->folder.path,
                                              .partition_count = 1,
                                              .retain_ms = TESTING_FOREVER,
                                              .memory_bytes = ROOM_MEMORY};
    if (diskwheel_storage_open(&options, &room->storage, &error))
        fail_msg("%s", error.text);
    return room;
}

static void room_close(struct room *room)
{
    storage_close(room->storage);
    testing_folder_remove(&room->folder);
    free(room);
}

static struct timer_id room_id(uint64_t serial)
{
    return (struct timer_id){{ROOM_START + serial}, 0, TIMER_SERIAL(1, serial)};
}

/* Creates the timers of a body. */
static enum error_code room_create(struct room *room)
{
    struct storage_write writes[ROOM_BODY] = {{.timer = NULL}};
    char payload[ROOM_PAYLOAD];
    struct timer_texts texts = {.target = BYTES("http://127.0.0.1:9000/hooks/recheck"),
                                .payload = {payload, sizeof(payload)}};
    struct storage_batch batch = {.meta = {.epoch = 1}, .writes = writes, .write_count = ROOM_BODY};
    struct storage_batch *pointer = &batch;

    memset(payload, 'x', sizeof(payload));
    for (uint64_t i = 0; i < ROOM_BODY; i++) {
        struct timer *timer = timer_alloc(&texts);

        assert_non_null(timer);
        timer->id = room_id(room->serial + i + 1);
        timer->due = timer->at = timer->id.first;
        timer->created.ms = ROOM_START;
        writes[i].timer = timer;
    }
    const enum error_code code = storage_write_body(room->storage, &pointer, 1, NULL);
    if (!code)
        room->serial += ROOM_BODY;
    for (size_t i = 0; i < ROOM_BODY; i++)
        timer_free(writes[i].timer);
    return code;
}

static uint64_t room_used(struct room *room)
{
    struct diskwheel_store *store = diskwheel_store_of(room->storage);

    pthread_mutex_lock(&store->lock);
    const uint64_t used =
        store->active->layer.bytes + (store->frozen ? store->frozen->layer.bytes : 0);
    pthread_mutex_unlock(&store->lock);
    return used;
}

static void room_assert_all(struct room *room)
{
    struct storage_meta meta;

    for (uint64_t serial = 1; serial <= room->serial; serial += 37) {
        const struct timer_id id = room_id(serial);
        struct timer *timer = NULL;

        assert_int_equal(storage_find(room->storage, &id, &timer, NULL), ERROR_NONE);
        timer_free(timer);
    }
    assert_int_equal(storage_load_meta(room->storage, 0, &meta, NULL), ERROR_NONE);
    assert_int_equal(meta.pending, room->serial);
}

/* proves: apply-queue */
static void test_memory_has_a_bound(void **state)
{
    struct room *room = room_open();
    uint64_t most = 0;

    (void)state;
    for (unsigned i = 0; i < ROOM_BODIES; i++) {
        atomic_store(&room->is_slow, i % 100 >= 50);
        assert_int_equal(room_create(room), ERROR_NONE);
        const uint64_t used = room_used(room);
        most = used > most ? used : most;
    }
    atomic_store(&room->is_slow, false);
    print_message("%" PRIu64 " of %d bytes, %u writes\n", most, ROOM_MEMORY,
                  atomic_load(&room->writes));
    assert_true(most > ROOM_MEMORY / 2 && most <= ROOM_MEMORY + ROOM_SLACK);
    room_assert_all(room);
    room_close(room);
}

static void test_a_full_disk_refuses_and_goes_on(void **state)
{
    struct room *room = room_open();
    enum error_code code = ERROR_NONE;

    (void)state;
    atomic_store(&room->is_full, true);
    for (unsigned i = 0; i < ROOM_BODIES && !code; i++)
        code = room_create(room);
    assert_int_equal(code, ERROR_DISK_FULL);
    assert_true(room_used(room) <= ROOM_MEMORY + ROOM_SLACK);
    assert_int_equal(room_create(room), ERROR_DISK_FULL);
    room_assert_all(room);
    atomic_store(&room->is_full, false);
    for (unsigned i = 0; i < ROOM_BODIES; i++)
        assert_int_equal(room_create(room), ERROR_NONE);
    assert_int_equal(storage_flush(room->storage, NULL), ERROR_NONE);
    diskwheel_storage_rest(room->storage);
    assert_true(room_used(room) < ROOM_MEMORY / 2);
    room_assert_all(room);
    room_close(room);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_has_a_bound),
        cmocka_unit_test(test_a_full_disk_refuses_and_goes_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
