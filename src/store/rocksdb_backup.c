/* rocksdb_backup.c - copies the database while it runs, by RocksDB's checkpoints.
 *
 * The memtables are written out before, and files that never change are linked where possible, so a
 * copy on one disk takes little time and room. Commits go on meanwhile; the copy is of one moment
 * after the call began. */
#include "store/rocksdb_store.h"
#include "sys/files.h"

#include <stdlib.h>

enum { FLUSH_ALWAYS = 0 }; /* flush logs of any size, because they are not copied */

static enum error_code rocksdb_backup_make_checkpoint(struct rocksdb_store *store,
                                                      const char *folder, struct error *ret_error)
{
    char *text = NULL;
    rocksdb_checkpoint_t *checkpoint = rocksdb_checkpoint_object_create(store->db, &text);

    if (text)
        return store_failed(ret_error, "backup", text);
    rocksdb_checkpoint_create(checkpoint, folder, FLUSH_ALWAYS, &text);
    rocksdb_checkpoint_object_destroy(checkpoint);
    return text ? store_failed(ret_error, "backup", text) : ERROR_NONE;
}

/* Measures what a restore would find. */
static enum error_code rocksdb_backup_measure(const char *folder, struct storage_backup *ret_backup,
                                              struct error *ret_error)
{
    struct rocksdb_store *copy;
    enum error_code code = store_open_to_read(folder, &copy, ret_error);

    if (code)
        return code;
    *ret_backup = (struct storage_backup){.bytes = copy->folder_state.bytes};
    for (uint32_t i = 0; i < copy->partition_count; i++)
        ret_backup->timers += copy->counts[i].pending;
    store_close(copy);
    return ERROR_NONE;
}

enum error_code store_backup(struct storage *storage, const char *folder,
                             struct storage_backup *ret_backup, struct error *ret_error)
{
    struct rocksdb_store *store = store_of(storage);

    if (files_exists(folder))
        return error_set(ret_error, ERROR_BACKUP_EXISTS, "%s is there already", folder);
    enum error_code code;
    if ((code = store_enter(store, ret_error)))
        return code;
    code = rocksdb_backup_make_checkpoint(store, folder, ret_error);
    store_leave(store);
    struct folder_identity identity = store->identity;
    identity.has_log = false; /* the first start on the copy makes one */
    if (!code)
        code = folder_write_identity(folder, &identity, ret_error);
    if (!code)
        code = folder_seal(folder, FOLDER_OF_ROCKSDB, ret_error);
    if (!code)
        code = files_sync_folder_of(folder, ret_error);
    if (!code)
        code = rocksdb_backup_measure(folder, ret_backup, ret_error);
    return code;
}
