#!/usr/bin/env bash
# Plants every patch of mutants/, one at a time, in a copy of the tree and demands that the cases
# it names fail.  Prints TAP; exit 1 when a mutant is missed, stale or does not build.
#
#   tests/plant.sh                 all of mutants/
#   tests/plant.sh NAME...         those alone
#   KEEP=1 tests/plant.sh NAME     leaves the planted copy in build/plant for a look
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
copy=$root/build/plant
if [ $# -gt 0 ]; then names=("$@"); else names=(); for p in "$root"/mutants/*.patch; do names+=("$(basename "$p" .patch)"); done; fi

# The copy holds what git knows of the working tree, never the user's own files.
mkdir -p "$copy/tree"
(cd "$root" && git ls-files -z --cached --others --exclude-standard) >"$copy/files"
rsync_list() { tr '\0' '\n' <"$copy/files"; }
(cd "$root" && rsync_list | while IFS= read -r f; do [ -e "$f" ] && printf '%s\0' "$f"; done | tar --null -T - -cf -) | tar -xf - -C "$copy/tree"
cd "$copy/tree"
[ -d .git ] || git init -q .
git add -A && git -c user.name=plant -c user.email=plant@localhost commit -qm base --allow-empty >/dev/null
cmake -S . -B ../build -G Ninja -DCMAKE_BUILD_TYPE=Debug -DTF_DEBUG=ON >/dev/null
cmake --build ../build >"$copy/log" 2>&1 || { tail -5 "$copy/log"; echo "Bail out! the tree itself does not build"; exit 1; }

# Which program owns a case: the one whose source has its name in quotes.
owner() { grep -lF "\"$1\"" tests/test_*.c | head -1 | xargs -r basename | sed 's/\.c$//'; }

echo "TAP version 14"
echo "1..${#names[@]}"
number=0 bad=0
for name in "${names[@]}"; do
    number=$((number + 1))
    patch=$root/mutants/$name.patch
    why=""
    expect=$(sed -n 's/^Expect: //p' "$patch" | tr ',' '\n' | sed 's/^ *//;s/ *$//')
    if ! git apply --check "$patch" 2>"$copy/log"; then
        why="stale: $(head -1 "$copy/log")"
    else
        git apply "$patch"
        # Only the programs whose cases are named: linking all of them takes most of the time.
        targets=()
        while IFS= read -r case; do
            program=$(owner "$case")
            [ -z "$program" ] || targets+=(--target "$program")
        done <<<"$expect"
        if ! cmake --build ../build "${targets[@]}" >"$copy/log" 2>&1; then
            why="build failed: $(grep -m1 error "$copy/log" || tail -1 "$copy/log")"
        else
            while IFS= read -r case; do
                [ -n "$case" ] || continue
                program=$(owner "$case")
                if [ -z "$program" ]; then why="$why no case is named $case;"; continue; fi
                timeout 300 "../build/tests/$program" "$case" >"$copy/out" 2>&1 || true
                grep -qE "^not ok [0-9]+ - $case( |$)" "$copy/out" || why="$why missed by $case;"
            done <<<"$expect"
        fi
        [ "${KEEP:-0}" = 1 ] || git apply -R "$patch"
    fi
    if [ -z "$why" ]; then echo "ok $number - $name"; else echo "not ok $number - $name # $why"; bad=1; fi
done
exit $bad
