"""Opens the tables of a folder of format 9 by librocksdb itself, to damage single records in them.

    with OldTables(folder) as tables:
        key, value = next(tables.each("timers"))
        tables.put("timers", key, value[:-1] + b"?")
        tables.delete("timers", key)
"""

import ctypes
import ctypes.util

NAMES = ("default", "timers", "moved", "names", "quarantine")
POINTER, SIZE, TEXT = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p


def library():
    loaded = ctypes.CDLL(ctypes.util.find_library("rocksdb"))
    for name in ("rocksdb_options_create", "rocksdb_writeoptions_create", "rocksdb_readoptions_create",
                 "rocksdb_flushoptions_create", "rocksdb_open_column_families", "rocksdb_create_iterator_cf", "rocksdb_iter_key",
                 "rocksdb_iter_value"):
        getattr(loaded, name).restype = POINTER
    loaded.rocksdb_iter_valid.restype = ctypes.c_ubyte
    return loaded


class OldTables:
    def __init__(self, folder):
        self.lib = library()
        self.error = TEXT()
        options = POINTER(self.lib.rocksdb_options_create())
        self.lib.rocksdb_options_set_disable_auto_compactions(options, 1)
        names = (TEXT * len(NAMES))(*[name.encode() for name in NAMES])
        each = (POINTER * len(NAMES))(*[options.value] * len(NAMES))
        handles = (POINTER * len(NAMES))()
        self.db = POINTER(self.lib.rocksdb_open_column_families(
            options, folder.encode(), len(NAMES), names, each, handles, ctypes.byref(self.error)))
        self.check()
        self.handles = dict(zip(NAMES, (POINTER(handle) for handle in handles)))
        self.writes = POINTER(self.lib.rocksdb_writeoptions_create())

    def check(self):
        assert not self.error.value, self.error.value

    def put(self, table, key, value):
        self.lib.rocksdb_put_cf(self.db, self.writes, self.handles[table], key, SIZE(len(key)), value, SIZE(len(value)),
                                ctypes.byref(self.error))
        self.check()

    def delete(self, table, key):
        self.lib.rocksdb_delete_cf(self.db, self.writes, self.handles[table], key, SIZE(len(key)), ctypes.byref(self.error))
        self.check()

    def each(self, table):
        """(key, value) of all records, in the order of keys."""
        reads = POINTER(self.lib.rocksdb_readoptions_create())
        records = POINTER(self.lib.rocksdb_create_iterator_cf(self.db, reads, self.handles[table]))
        self.lib.rocksdb_iter_seek_to_first(records)
        found = []
        while self.lib.rocksdb_iter_valid(records):
            found.append(tuple(self.text(read, records) for read in (self.lib.rocksdb_iter_key, self.lib.rocksdb_iter_value)))
            self.lib.rocksdb_iter_next(records)
        self.lib.rocksdb_iter_destroy(records)
        return iter(found)

    @staticmethod
    def text(read, records):
        size = SIZE()
        data = read(records, ctypes.byref(size))
        return ctypes.string_at(data, size.value)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Everything is in files of the tables, as the daemon leaves it."""
        flush = POINTER(self.lib.rocksdb_flushoptions_create())
        for handle in self.handles.values():
            self.lib.rocksdb_flush_cf(self.db, flush, handle, ctypes.byref(self.error))
            self.check()
            self.lib.rocksdb_column_family_handle_destroy(handle)
        self.lib.rocksdb_close(self.db)
