#!/usr/bin/env bash
# Every test, part by part; what `make test` runs after `make`.
#   scripts/test.sh              all parts
#   scripts/test.sh cpp asan     only those: cpp, asan, tsan, fuzz, python
# Knobs: TRIBUTARY_SEEDS (of the simulated churn; 2000, and 200 under ASan), FUZZ_SECONDS (10 a target), JOBS (cores).
# Results stay in build*/test-results/. The last line is `N passed, N failed`; the exit status is 0 if none failed.
set -euo pipefail
cd "$(dirname "$0")/.."
JOBS=${JOBS:-$(nproc)}
FUZZ_SECONDS=${FUZZ_SECONDS:-10}
PARTS=${*:-cpp asan tsan fuzz python}
python=.venv/bin/python
[ -x "$python" ] || python=python3
results=build/test-results
mkdir -p "$results"
passed=0 failed=0

say() { printf 'test: %s\n' "$*"; }

# Adds a JUnit file's counts to the total; a part that left none has failed as a whole.
count() {
  local name=$1 file=$2 began=$3 p=0 f=1 s=0
  if [ -s "$file" ]; then read -r p f s < <("$python" scripts/count_tests.py "$file"); fi
  finish "$name" "$p" "$f" "$began" "$([ "$s" = 0 ] || echo ", $s skipped")"
}
finish() {
  passed=$((passed + $2)) failed=$((failed + $3))
  say "$1: $2 passed, $3 failed${5:-} in $((SECONDS - $4)) s"
}

# configure_and_build PRESET FOLDER [TARGET...]; prints the build only if it fails.
configure_and_build() {
  local preset=$1 folder=$2
  shift 2
  [ -e "$folder/build.ninja" ] || cmake --preset "$preset" > /dev/null || return 1
  cmake --build "$folder" -j "$JOBS" ${*:+--target "$@"} > "$results/build-$preset.log" 2>&1 && return
  tail -n 40 "$results/build-$preset.log"
  return 1
}

# run_ctest NAME FOLDER REGEX; tests that take longest run first, once ctest has seen them.
run_ctest() {
  local began=$SECONDS file=$PWD/$results/$1.xml
  rm -f "$file"
  ctest --test-dir "$2" -R "$3" -j "$JOBS" --output-on-failure --no-tests=error --output-junit "$file" |
    grep -Ev '^ *(Start +[0-9]+:|[0-9]+/[0-9]+ Test .* Passed )' || true
  count "$1" "$file" "$began"
}

part_cpp() {
  say "C++ tests of the release build"
  run_ctest cpp build '.'
}

part_asan() {
  say "the folders without LibTorch under ASan and UBSan, fewer seeds"
  local began=$SECONDS
  if ! configure_and_build asan build-asan; then finish asan 0 1 "$began"; return; fi
  say "asan: built in $((SECONDS - began)) s"
  TRIBUTARY_SEEDS=${TRIBUTARY_SEEDS:-200} run_ctest asan build-asan '.'
  same_fingerprint
}

# The same seeds must leave the same trace of events in a release and in a sanitizer build.
same_fingerprint() {
  local began=$SECONDS release asan
  release=$(fingerprint build) asan=$(fingerprint build-asan)
  say "fingerprint of the simulated churn: release $release, asan $asan"
  if [ -n "$release" ] && [ "$release" = "$asan" ]; then finish fingerprint 1 0 "$began"; else finish fingerprint 0 1 "$began"; fi
}
fingerprint() {
  [ -x "$1/test_sim" ] || return 0
  "$1/test_sim" --gtest_filter='*Fingerprint*' | sed -n 's/^fingerprint \([0-9a-f]*\)$/\1/p'
}

part_tsan() {
  say "what has threads under TSan"
  local began=$SECONDS
  if ! configure_and_build tsan build-tsan test_net; then finish tsan 0 1 "$began"; return; fi
  say "tsan: built in $((SECONDS - began)) s"
  run_ctest tsan build-tsan '^net\.'
}

part_fuzz() {
  say "each parser's fuzz target for $FUZZ_SECONDS s"
  local began=$SECONDS p=0 f=0 target name
  if ! configure_and_build fuzz build-fuzz; then finish fuzz 0 1 "$began"; return; fi
  say "fuzz: built in $((SECONDS - began)) s"
  local -A running=()
  for target in build-fuzz/fuzz_*; do
    [ -x "$target" ] || continue
    name=${target#build-fuzz/fuzz_}
    while [ "$(jobs -pr | wc -l)" -ge "$JOBS" ]; do sleep 0.2; done
    run_fuzzer "$target" "$name" &
    running[$name]=$!
  done
  for name in "${!running[@]}"; do
    if wait "${running[$name]}"; then p=$((p + 1)); else
      f=$((f + 1))
      say "fuzz: $name failed; its input is build-fuzz/$name-*, the rest:"
      tail -n 30 "$results/fuzz-$name.log"
    fi
  done
  finish fuzz "$p" "$f" "$began"
}
run_fuzzer() {
  local grown=build-fuzz/corpus/$2 seeds=() folder
  mkdir -p "$grown"
  for folder in "fuzz/corpus/$2"; do [ -d "$folder" ] && seeds+=("$folder"); done
  "$1" -max_total_time="$FUZZ_SECONDS" -timeout=20 -rss_limit_mb=2048 -artifact_prefix="build-fuzz/$2-" \
    "$grown" "${seeds[@]}" > "$results/fuzz-$2.log" 2>&1
}

part_python() {
  say "the program as a user types it, and against other implementations"
  local began=$SECONDS folder folders=()
  for folder in tests/style tests/cli tests/interop tests/e2e tests/browser; do
    [ -d "$folder" ] && folders+=("$folder")
  done
  rm -f "$results/python.xml"
  "$python" -m pytest -q --timeout=900 --junitxml="$results/python.xml" -o junit_family=xunit1 "${folders[@]}" || true
  count python "$results/python.xml" "$began"
}

for part in $PARTS; do
  case $part in
    cpp|asan|tsan|fuzz|python) "part_$part" ;;
    *) say "no part is called $part: take some of cpp asan tsan fuzz python"; exit 2 ;;
  esac
done
say "all in $((SECONDS / 60)) min $((SECONDS % 60)) s"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
