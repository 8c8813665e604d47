# The peers of wheel/peers/ whose packages are installed. One that is missing is left out with a
# line that says so, here and in the table that run.py prints.
include(CheckLanguage)

set(bench_left_out "")

macro(bench_leave_out what why)
    message(STATUS "benchmark left out: ${what}, ${why}")
    string(APPEND bench_left_out "${what}\t${why}\n")
endmacro()

# An event loop, which runs in virtual time.
macro(bench_loop name title header library package)
    find_path(BENCH_${name}_INCLUDE ${header})
    find_library(BENCH_${name}_LIBRARY ${library})
    if(BENCH_${name}_INCLUDE AND BENCH_${name}_LIBRARY)
        bench_subject(wheel/peers/subject_${name}.c wheel/virtual.c)
        target_link_libraries(wheel_${name} PRIVATE tw_flags ${BENCH_${name}_LIBRARY})
    else()
        bench_leave_out("${title}" "package ${package}")
    endif()
endmacro()

bench_loop(libuv libuv uv.h uv libuv1-dev)
bench_loop(libev libev ev.h ev libev-dev)
bench_loop(libevent libevent event2/event.h event_core libevent-dev)

pkg_check_modules(DPDK QUIET libdpdk)
find_library(BENCH_rte_timer rte_timer)
find_library(BENCH_rte_eal rte_eal)
if(DPDK_FOUND AND BENCH_rte_timer AND BENCH_rte_eal)
    bench_subject(wheel/peers/subject_dpdk.c)
    target_include_directories(wheel_dpdk SYSTEM PRIVATE ${DPDK_INCLUDE_DIRS})
    # A header that comes before all others, and the processor that its headers need at least.
    target_compile_options(wheel_dpdk PRIVATE ${DPDK_CFLAGS_OTHER})
    target_link_libraries(wheel_dpdk PRIVATE tw_flags ${BENCH_rte_timer} ${BENCH_rte_eal})
else()
    bench_leave_out("DPDK rte_timer" "package libdpdk-dev")
endif()

check_language(CXX)
if(CMAKE_CXX_COMPILER)
    enable_language(CXX)
    set(CMAKE_CXX_STANDARD 17)
    bench_subject(wheel/peers/subject_queue.cpp)
    bench_subject(wheel/peers/subject_lazy_queue.cpp)
    find_path(BENCH_boost_INCLUDE boost/intrusive/set.hpp)
    if(BENCH_boost_INCLUDE)
        bench_subject(wheel/peers/subject_rbtree.cpp)
    else()
        bench_leave_out("Boost intrusive red-black tree" "package libboost-dev")
    endif()
else()
    bench_leave_out("std::priority_queue" "package g++")
    bench_leave_out("Boost intrusive red-black tree" "package g++")
endif()

file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/wheel_left_out.txt "${bench_left_out}")
