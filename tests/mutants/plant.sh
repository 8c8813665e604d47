#!/usr/bin/env bash
# Plants each bug of tests/mutants into a copy of the tree and demands that the tests find it.
#
#     tests/mutants/plant.sh [GROUP | GROUP/NAME]...       all of them without names
#     tests/mutants/plant.sh --check                       only whether the patches still fit
#
# A bug is a patch, with a sentence on top of what is wrong. Who must find it, its group says:
#
# lib       the tests of the module that its name begins with: wheel-... is for lib/src/wheel*_test.c.
#           SEEDS (40) is how many seeds of a model test it may hide from, LIMIT (60) how many seconds a test may
#           take until it has failed.
# sim       the simulation. RUNS (20000) is how many seeds it may hide from, STEPS (200) how long they are. Bugs of
#           memory limits and of steps of the clock take longer runs: STEPS=800.
# daemon    the real daemon under the test that the patch names: "Found by tests/...".
#
# SEED is where the seeds begin. The copy is in a temporary folder (TMPDIR), built once and then again for each bug.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
seed=${SEED:-1}
limit=${LIMIT:-60}
steps=${STEPS:-200}
runs=${RUNS:-20000}

# The mutants that are asked for, as GROUP/NAME.
names_of() {
    [ $# -gt 0 ] || set -- lib sim daemon
    for name; do
        if [ -d "$here/$name" ]; then
            (cd "$here" && find "$name" -name '*.patch' | sort | sed 's|\.patch$||')
        else
            echo "$name"
        fi
    done
}

if [ "${1:-}" = --check ]; then
    stale=0
    for name in $(names_of); do
        patch -s -p1 --dry-run -d "$root" <"$here/$name.patch" >/dev/null 2>&1 && continue
        echo "STALE     $name: the patch does not fit any more"
        stale=1
    done
    exit $stale
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/tickwheel-mutants.XXXXXX")
trap 'rm -rf "$work"' EXIT
tree=$work/tree
build=$tree/build/planted
mkdir "$tree"
(cd "$root" && git ls-files -z | xargs -0 cp --parents -t "$tree")
cp -R "$tree" "$work/sound"

# ---- what judges the bugs of each group: what to build, and a test that ends with 1 when it has found one ----

# The tests of a module, the long ones last.
tests_of() {
    for pattern in test lessons_test memory_test model_test '*_test'; do
        (cd "$root/lib/src" && ls "$1"_$pattern.c 2>/dev/null) || true
    done | sed 's|\.c$||' | awk '!seen[$0]++'
}

lib_targets() {
    tests_of "${1%%-*}"
}

lib_judge() {
    for test in $(tests_of "${1%%-*}"); do
        TEST_SEED=$seed TEST_SEEDS=${SEEDS:-40} TEST_ROUNDS=2 timeout "$limit" "$build/lib/$test" </dev/null || {
            echo "FOUND: $test"
            return 1
        }
    done
}

sim_targets() {
    echo sim
}

sim_judge() {
    "$build/tests/sim/sim" --seed "$seed" --steps "$steps" --runs "$runs" || {
        echo "FOUND: see above"
        return 1
    }
}

daemon_targets() {
    echo tickwheeld tickwheeld_scarce receiver faultlayer nth
}

daemon_judge() {
    local test
    test=$(sed -n 's/^Found by \(tests.*\)\.$/\1/p' "$here/daemon/$1.patch")
    # shellcheck disable=SC2086
    (cd "$tree" && TEST_SEED=$seed TEST_BUILD=$build timeout 600 env ${test#* } python3 ${test%% *}) || {
        echo "FOUND: $test"
        return 1
    }
}

# What was found, in a line.
finding() {
    local broken
    broken=$(grep -a -m1 '^BROKEN' "$work/out" | sed 's/^BROKEN: //' | cut -c1-90 || true)
    if [ -n "$broken" ]; then
        echo "$(sed -n 's/^FAILED \(after [0-9]* runs\).*/\1/p' "$work/out"): $broken"
    else
        sed -n 's/^FOUND: //p' "$work/out"
    fi
}

# ---- one after the other ----

make_group() {
    # shellcheck disable=SC2046
    cmake --build "$build" -j "${JOBS:-$(nproc)}" --target $("$1_targets" "$2") >"$work/build.log" 2>&1
}

(cd "$tree" && cmake --preset dev -B "$build" -DCMAKE_C_FLAGS= -DCMAKE_C_FLAGS_DEBUG="-O1 -g" --log-level=WARNING >/dev/null)

planted=0
killed=0
sound=" "
for each in $(names_of "$@"); do
    group=${each%%/*}
    name=${each#*/}
    module=$group/${name%%-*}
    [ "$group" = lib ] || module=$group
    # First without a bug, or what fails says nothing; the daemon's tests are long, and `make test` runs them.
    if [ "$group" != daemon ] && [[ "$sound" != *" $module "* ]]; then
        make_group "$group" "$name" || { cat "$work/build.log"; exit 1; }
        runs=500 "${group}_judge" "$name" >"$work/out" 2>&1 || {
            cat "$work/out"
            echo "plant: $(finding) without any bug planted"
            exit 1
        }
        sound="$sound$module "
    fi
    planted=$((planted + 1))
    if ! patch -s -p1 --dry-run -d "$tree" <"$here/$each.patch" >/dev/null; then
        echo "STALE     $each: the patch does not fit any more"
        continue
    fi
    patch -s -p1 -d "$tree" <"$here/$each.patch"
    if ! make_group "$group" "$name"; then
        echo "STALE     $each: it does not build"
        tail -5 "$work/build.log"
    elif "${group}_judge" "$name" >"$work/out" 2>&1; then
        echo "SURVIVED  $each"
    else
        killed=$((killed + 1))
        echo "killed    $each ($(finding))"
    fi
    # Copied, not patched back: a patch that fits elsewhere, too, would be taken back there.
    (cd "$work/sound" && sed -n 's|^+++ b/||p' "$here/$each.patch" | xargs cp --parents -t "$tree")
done
echo "plant: $killed of $planted bugs killed"
[ "$killed" = "$planted" ]
