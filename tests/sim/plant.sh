#!/bin/sh
# Plants each bug of tests/sim/mutants into a copy of the tree and demands that the simulation finds it.
#
#     tests/sim/plant.sh [--keep] [NAME...]       all of them without names
#
# RUNS (20000) is how many seeds a bug may hide from; SEED (1) where they begin. The copy is built in a
# temporary folder, once in full and then again for each bug.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
runs=${RUNS:-20000}
seed=${SEED:-1}
keep=no
if [ "${1:-}" = --keep ]; then
    keep=yes
    shift
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/tickwheel-mutants.XXXXXX")
if [ "$keep" = no ]; then
    trap 'rm -rf "$work"' EXIT INT TERM
fi
mkdir -p "$work/tree/tests" "$work/tree/src"
for part in cmake lib src/base src/sys src/storage src/engine tests/sim; do
    cp -R "$root/$part" "$work/tree/$part"
done
find "$work/tree/lib" "$work/tree/src" -name '*_bench.c' -delete # they need more libraries

# What the simulation stands on, and nothing else.
cat >"$work/tree/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.25)
project(planted LANGUAGES C)
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
include(cmake/module.cmake)
find_package(Threads REQUIRED)
pkg_check_modules(ROCKSDB REQUIRED IMPORTED_TARGET rocksdb)
foreach(part lib src/base src/sys src/storage src/engine tests/sim)
    add_subdirectory(${part})
endforeach()
END

build() {
    cmake --build "$work/build" --target sim -j "${JOBS:-2}" >"$work/build.log" 2>&1
}

cmake -S "$work/tree" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Debug \
    -DCMAKE_C_FLAGS_DEBUG="-O1 -g" >"$work/build.log" 2>&1 && build || {
    cat "$work/build.log"
    exit 1
}
if ! "$work/build/tests/sim/sim" --seed "$seed" --runs 500 >"$work/out"; then
    cat "$work/out"
    echo "plant: the simulation fails without any bug planted"
    exit 1
fi

planted=0
killed=0
[ $# -gt 0 ] || set -- $(cd "$root/tests/sim/mutants" && ls ./*.patch | sed 's|^\./||; s|\.patch$||')
for name; do
    planted=$((planted + 1))
    rm -rf "$work/tree/src/engine"
    cp -R "$root/src/engine" "$work/tree/src/"
    if ! patch -s -p1 -d "$work/tree" <"$root/tests/sim/mutants/$name.patch"; then
        echo "STALE     $name: the patch does not fit any more"
        continue
    fi
    if ! build; then
        echo "STALE     $name: it does not build"
        tail -5 "$work/build.log"
        continue
    fi
    if "$work/build/tests/sim/sim" --seed "$seed" --runs "$runs" >"$work/out" 2>&1; then
        echo "SURVIVED  $name"
        continue
    fi
    killed=$((killed + 1))
    echo "killed    $name" \
        "($(sed -n 's/^FAILED after \([0-9]*\) runs.*/after \1 runs/p' "$work/out"):" \
        "$(grep -a -m1 '^BROKEN' "$work/out" | sed 's/^BROKEN: //' | cut -c1-90))"
done
echo "plant: $killed of $planted bugs killed"
[ "$killed" = "$planted" ]
