# RocksDB as tw_rocksdb: a library for the headers of librocksdb-dev. The lesser the number, the less CPU it costs:
#
#   1. a static one without assertions, which `make rocksdb` builds (scripts/rocksdb)
#   2. Debian's static one, with assertions
#   3. the shared one
#
# A release links the first that is there. Other builds link the shared one: the assertions of Debian's help tests, and
# tests/tsan.supp knows it by its name.
pkg_check_modules(ROCKSDB REQUIRED IMPORTED_TARGET rocksdb)
set(TICKWHEEL_ROCKSDB auto CACHE STRING "the RocksDB to link: auto, shared, or the path of a static library")

set(tw_rocksdb_linked ${TICKWHEEL_ROCKSDB})
if(TICKWHEEL_ROCKSDB STREQUAL auto)
    set(tw_rocksdb_linked shared)
    if(CMAKE_BUILD_TYPE STREQUAL Release AND NOT TICKWHEEL_SANITIZE)
        foreach(folder ${ROCKSDB_LIBDIR} ${CMAKE_SOURCE_DIR}/build/rocksdb/${ROCKSDB_VERSION})
            if(EXISTS ${folder}/librocksdb.a)
                set(tw_rocksdb_linked ${folder}/librocksdb.a)
            endif()
        endforeach()
    endif()
endif()
message(STATUS "RocksDB ${ROCKSDB_VERSION}: ${tw_rocksdb_linked}")

add_library(tw_rocksdb INTERFACE)
if(tw_rocksdb_linked STREQUAL shared)
    target_link_libraries(tw_rocksdb INTERFACE PkgConfig::ROCKSDB)
else()
    # What a static library of RocksDB may need; the linker leaves out what this one does not.
    set(needs "")
    foreach(name lz4 zstd snappy z bz2 gflags)
        find_library(TICKWHEEL_ROCKSDB_${name} ${name})
        mark_as_advanced(TICKWHEEL_ROCKSDB_${name})
        if(TICKWHEEL_ROCKSDB_${name})
            list(APPEND needs ${TICKWHEEL_ROCKSDB_${name}})
        endif()
    endforeach()
    target_include_directories(tw_rocksdb SYSTEM INTERFACE ${ROCKSDB_INCLUDE_DIRS})
    target_link_libraries(tw_rocksdb INTERFACE ${tw_rocksdb_linked}
        -Wl,--push-state,--as-needed ${needs} -Wl,--pop-state Threads::Threads stdc++ m)
    target_link_options(tw_rocksdb INTERFACE LINKER:--gc-sections)
endif()
