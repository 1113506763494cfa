#!/usr/bin/env bash
# Benchmarks of what was built, one after the other; what `make bench` runs. Figures that matter stand in docs/results.md
# with the command that gave them.
#   scripts/bench.sh            all
#   scripts/bench.sh flow_gap   those whose names contain one of the words
# For figures that can be compared let nothing else run on the machine.
set -euo pipefail
cd "$(dirname "$0")/.."
python=.venv/bin/python
wanted() {
  [ $# -eq 1 ] && return 0
  local name=$1 word
  shift
  for word in "$@"; do [[ $name == *$word* ]] && return 0; done
  return 1
}
status=0
for source in bench/*; do
  name=$(basename "${source%.*}")
  [ "$name" != soak ] || continue  # `make soak`
  wanted "$name" "$@" || continue
  case $source in
    *.cpp) command=("build/bench_$name") ;;
    *.py) command=("$python" "$source") ;;
    *) continue ;;
  esac
  if [ "${command[0]}" = "build/bench_$name" ] && [ ! -x "build/bench_$name" ]; then
    echo "bench: $name is not built here, left out"
    continue
  fi
  echo "bench: ${command[*]}"
  "${command[@]}" || { echo "bench: $name failed"; status=1; }
done
exit $status
