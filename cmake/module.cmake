# One folder, one module: x.c goes into the module's static library, x_test.c becomes a test,
# x_fuzz.c a fuzz target and x_bench.c a benchmark. A new file needs no line here.

add_library(tw_flags INTERFACE)
target_compile_definitions(tw_flags INTERFACE
    _GNU_SOURCE TICKWHEEL_VERSION="${PROJECT_VERSION}")
target_compile_options(tw_flags INTERFACE
    -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wundef
    -Wwrite-strings -fno-strict-aliasing
    # Assertions stay in every build type, although CMake gives most of them -DNDEBUG.
    -UNDEBUG
    # Only gcc understands the comment that allows to fall through.
    $<$<C_COMPILER_ID:GNU>:-Wimplicit-fallthrough>)
target_include_directories(tw_flags INTERFACE ${CMAKE_SOURCE_DIR}/src)

# Warnings about conversions that lose bits, a sign or a const. Modules and programs link tw_strict, tests do not.
set(TW_STRICT_WARNINGS -Wconversion -Wsign-conversion -Wdouble-promotion -Wcast-qual -Wformat=2 -Wvla
    -Wold-style-definition -Wredundant-decls)
add_library(tw_strict INTERFACE)
target_compile_options(tw_strict INTERFACE ${TW_STRICT_WARNINGS})

# A compiler cache that is there is used, unless another launcher is chosen.
find_program(TICKWHEEL_CCACHE ccache)
if(TICKWHEEL_CCACHE AND NOT CMAKE_C_COMPILER_LAUNCHER)
    set(CMAKE_C_COMPILER_LAUNCHER ${TICKWHEEL_CCACHE})
endif()

# Some 300 test programs are linked: mold takes a fraction of the time.
find_program(TICKWHEEL_MOLD ld.mold)
if(TICKWHEEL_TESTS AND TICKWHEEL_MOLD AND NOT CMAKE_BUILD_TYPE STREQUAL Release)
    target_link_options(tw_flags INTERFACE -fuse-ld=mold)
endif()

if(TICKWHEEL_SANITIZE)
    target_compile_options(tw_flags INTERFACE
        -fsanitize=${TICKWHEEL_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
    target_link_options(tw_flags INTERFACE -fsanitize=${TICKWHEEL_SANITIZE})
endif()
if(TICKWHEEL_COVERAGE)
    target_compile_options(tw_flags INTERFACE --coverage -fprofile-update=atomic)
    target_link_options(tw_flags INTERFACE --coverage)
endif()

# The library alone needs neither.
if(TICKWHEEL_SERVICE OR TICKWHEEL_TESTS)
    find_package(PkgConfig REQUIRED)
endif()
if(TICKWHEEL_TESTS)
    pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)
endif()

# The name of a program: its file's, with the folder's before it where another folder was first.
function(tw_name source ret_name)
    get_filename_component(name ${source} NAME_WE)
    if(TARGET ${name})
        get_filename_component(folder ${source} DIRECTORY)
        get_filename_component(folder ${folder} NAME)
        set(name ${folder}_${name})
    endif()
    set(${ret_name} ${name} PARENT_SCOPE)
endfunction()

# What the tests with these labels run. Those of `nightly` are neither built nor run by `make test` and .ci/run.
add_custom_target(check_programs)
add_custom_target(nightly_programs)

# tw_check(test...): gives the tests the label check, for `make check`.
function(tw_check)
    foreach(name ${ARGN})
        set_property(TEST ${name} APPEND PROPERTY LABELS check)
        if(TARGET ${name})
            add_dependencies(check_programs ${name})
        endif()
    endforeach()
endfunction()

# tw_nightly(test...): gives the tests the label nightly and leaves their programs out of `all`. scripts/test runs them when
# it is told so: scripts/test PRESET nightly.
function(tw_nightly)
    foreach(name ${ARGN})
        set_property(TEST ${name} APPEND PROPERTY LABELS nightly)
        if(TARGET ${name})
            set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
            add_dependencies(nightly_programs ${name})
        endif()
    endforeach()
endfunction()

# Under the thread sanitizer, makes a program nightly that has no thread of its own, or that takes minutes: a model test, one
# of scarce memory, a long one, and those of a room that starts no thread, unless the source of the test does.
function(tw_choose name source)
    set(long "conformance|conformance_lessons|wheel_endless|leases|feed|tokens|storage_kill")
    string(APPEND long "|diskwheel_months")
    set(single "/lib/src/|/src/(base|calendar|timer|engine|cli|cluster|api/json)/")
    if(NOT TICKWHEEL_SANITIZE STREQUAL "thread")
        return()
    elseif(name MATCHES "_(model|fault)_test$|^(${long})_test$|_fuzz$")
        tw_nightly(${name})
    elseif(source MATCHES "${single}")
        file(STRINGS ${source} starts REGEX "pthread_|tw_runner_" LIMIT_COUNT 1)
        if(NOT starts)
            tw_nightly(${name})
        endif()
    endif()
endfunction()

# Runs a program beside a PostgreSQL server, which POSTGRES_URI names; without PostgreSQL the program runs without.
set(TW_UNDER_POSTGRES python3 -B ${CMAKE_SOURCE_DIR}/tests/support/postgres_servers.py)

# A test program: goes by its file's name, is run by ctest under the same name. In an x_fault_test.c
# memory runs out when it says so (tests/support/scarce.h). UNDER: a command that runs it, with a server beside it.
function(tw_test source)
    cmake_parse_arguments(ARG "" "" "DEPS;UNDER" ${ARGN})
    tw_name(${source} name)
    add_executable(${name} ${source})
    target_link_libraries(${name} PRIVATE ${ARG_DEPS} tw_flags PkgConfig::CMOCKA m)
    if(source MATCHES "_fault_test\\.c$")
        target_link_libraries(${name} PRIVATE tw_scarce)
    endif()
    target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests/support)
    # Where the sources lie, for a test that compares them with what the code makes.
    target_compile_definitions(${name} PRIVATE TW_SOURCE_FOLDER="${CMAKE_SOURCE_DIR}")
    add_test(NAME ${name} COMMAND ${ARG_UNDER} $<TARGET_FILE:${name}>)
    set_tests_properties(${name} PROPERTIES TIMEOUT 600)
    tw_check(${name})
    tw_choose(${name} ${source})
    # The longest ones begin first, so that none is left alone at the end.
    if(name MATCHES "^(storage_model|wheel_endless)_test$")
        set_tests_properties(${name} PROPERTIES COST 100)
    endif()
endfunction()

# Each x_fuzz.corpus of the tree as a folder corpora/x_fuzz of the build folder.
file(GLOB_RECURSE tw_corpora CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/lib/src/*.corpus ${CMAKE_SOURCE_DIR}/src/*.corpus)
set(tw_corpora_folder ${CMAKE_BINARY_DIR}/corpora)
add_custom_command(OUTPUT ${tw_corpora_folder}.stamp
    COMMAND python3 ${CMAKE_SOURCE_DIR}/scripts/corpus unpack ${tw_corpora_folder} ${tw_corpora}
    COMMAND ${CMAKE_COMMAND} -E touch ${tw_corpora_folder}.stamp
    DEPENDS ${tw_corpora} ${CMAKE_SOURCE_DIR}/scripts/corpus
    COMMENT "" VERBATIM)
add_custom_target(corpora DEPENDS ${tw_corpora_folder}.stamp)

# A fuzz target, with its corpus and with its words in x_fuzz.dict beside it. With the fuzz preset the test starts from the
# corpus and from the inputs that earlier runs in this build folder found, with a fixed seed, so that two builds of a change
# are judged alike. With other presets the test runs each input of the corpus once.
function(tw_fuzz source)
    cmake_parse_arguments(ARG "" "" "DEPS" ${ARGN})
    get_filename_component(name ${source} NAME_WE)
    get_filename_component(folder ${source} DIRECTORY)
    add_executable(${name} ${source})
    target_link_libraries(${name} PRIVATE ${ARG_DEPS} tw_flags m)
    set(corpus ${tw_corpora_folder}/${name})
    add_dependencies(${name} corpora)
    if(NOT TICKWHEEL_FUZZ)
        target_sources(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests/fuzz/replay.c)
        add_test(NAME ${name} COMMAND ${name} ${corpus})
        tw_choose(${name} ${source})
        return()
    endif()
    target_compile_options(${name} PRIVATE -fsanitize=fuzzer)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    set(words "")
    if(EXISTS ${folder}/${name}.dict)
        set(words -dict=${folder}/${name}.dict)
    endif()
    file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz/${name})
    add_test(NAME ${name}
        COMMAND ${name} -seed=1 -max_total_time=6 -print_final_stats=1 -timeout=10 ${words}
                ${CMAKE_BINARY_DIR}/fuzz/${name} ${corpus})
endfunction()

# tw_module(base [ROOMS folder...] DEPS ...): library tw_<name> from the folder of that name, or from this one when it is
# called in there, and from the folders in it that ROOMS names, with its tests beside it.
function(tw_module name)
    cmake_parse_arguments(ARG "" "" "ROOMS;DEPS;TEST_DEPS" ${ARGN})
    set(folder ${CMAKE_CURRENT_SOURCE_DIR})
    if(IS_DIRECTORY ${folder}/${name})
        set(folder ${folder}/${name})
    endif()
    set(patterns ${folder}/*.c)
    foreach(room ${ARG_ROOMS})
        list(APPEND patterns ${folder}/${room}/*.c)
    endforeach()
    file(GLOB all CONFIGURE_DEPENDS ${patterns})
    set(sources ${all})
    list(FILTER sources EXCLUDE REGEX "_(test|fuzz|bench)\\.c$")
    add_library(tw_${name} STATIC ${sources})
    target_link_libraries(tw_${name} PUBLIC ${ARG_DEPS} PRIVATE tw_flags tw_strict)
    if(TICKWHEEL_FUZZ)
        target_compile_options(tw_${name} PRIVATE -fsanitize=fuzzer-no-link)
    endif()
    foreach(source ${all})
        # Programs lie in the build folder as their sources lie in the tree.
        get_filename_component(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${source} DIRECTORY)
        string(REPLACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR} CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
        if(source MATCHES "_test\\.c$" AND TICKWHEEL_TESTS)
            tw_test(${source} DEPS tw_${name} ${ARG_TEST_DEPS})
        elseif(source MATCHES "_fuzz\\.c$" AND (TICKWHEEL_TESTS OR TICKWHEEL_FUZZ))
            tw_fuzz(${source} DEPS tw_${name} ${ARG_TEST_DEPS})
        elseif(source MATCHES "_bench\\.c$")
            get_filename_component(bench ${source} NAME_WE)
            add_executable(${bench} ${source})
            target_link_libraries(${bench} PRIVATE tw_${name} ${ARG_TEST_DEPS} tw_flags)
        endif()
    endforeach()
endfunction()

# tw_script_tests(TIMEOUT seconds [FOLDER e2e] [PREFIX crash_] [EXCLUDE regex]): each x_test.py of this folder, or of the
# one in it, is a test, which ends with 77 where it cannot run.
function(tw_script_tests)
    cmake_parse_arguments(ARG "" "TIMEOUT;FOLDER;PREFIX;EXCLUDE" "" ${ARGN})
    file(GLOB scripts CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${ARG_FOLDER}/*_test.py)
    if(ARG_EXCLUDE)
        list(FILTER scripts EXCLUDE REGEX ${ARG_EXCLUDE})
    endif()
    foreach(script ${scripts})
        get_filename_component(name ${script} NAME_WE)
        add_test(NAME ${ARG_PREFIX}${name} COMMAND python3 ${script})
        set_tests_properties(${ARG_PREFIX}${name} PROPERTIES
            ENVIRONMENT "TEST_BUILD=${CMAKE_BINARY_DIR};PYTHONDONTWRITEBYTECODE=1"
            TIMEOUT ${ARG_TIMEOUT} SKIP_RETURN_CODE 77)
    endforeach()
endfunction()
