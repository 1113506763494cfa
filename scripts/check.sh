#!/usr/bin/env bash
# What a machine can judge without running the program; what `make check` runs.
#   scripts/check.sh          files that differ from the branch `main` (all of them on main itself)
#   scripts/check.sh all      every file
# Steps: format, table of folders, headers that compile alone, cppcheck, clang-tidy. Exit status 1 if any complains.
set -euo pipefail
cd "$(dirname "$0")/.."
JOBS=${JOBS:-$(nproc)}
scope=${1:-changed}
failed=()
say() { printf 'check: %s\n' "$*"; }

files() {  # files PATTERN...: of the chosen scope
  local base
  base=$(git merge-base HEAD main 2>/dev/null || true)
  if [ "$scope" = all ] || [ -z "$base" ] || [ "$base" = "$(git rev-parse HEAD)" ]; then
    git ls-files -- "$@"
  else
    { git diff --name-only --diff-filter=d "$base" -- "$@"; git ls-files --others --exclude-standard -- "$@"; } | sort -u
  fi
}
# step NAME COMMAND...
step() {
  local name=$1 began=$SECONDS
  shift
  if "$@"; then say "$name: fine ($((SECONDS - began)) s)"; else
    failed+=("$name")
    say "$name: complaints, see above ($((SECONDS - began)) s)"
  fi
}
# Reads file names, leaves out those of folders that need LibTorch.
without_torch() { grep -Ev '^(src|tests)/(model|node|chat|app)/' || true; }

format() { files '*.cpp' '*.h' | xargs -r clang-format-16 --dry-run -Werror; }
layers() { python3 scripts/check_layers.py; }
# Headers that need LibTorch's are left out: each would cost 20 s.
headers() {
  files 'src/*.h' | grep -v '/kernels_body\.h$' | without_torch |
    xargs -r -P "$JOBS" -I {} g++ -std=c++20 -fsyntax-only -Wall -Wextra -Isrc -x c++ {}
}
run_cppcheck() {
  files 'src/*.cpp' 'tests/*.cpp' | xargs -r cppcheck -q -j "$JOBS" --std=c++20 --language=c++ -Isrc --inline-suppr \
    --enable=warning,portability --error-exitcode=1 --suppress=missingIncludeSystem --suppress=syntaxError \
    --suppress=unknownMacro --suppress=internalAstError
}
run_tidy() {
  [ -e build/compile_commands.json ] || { say "no build/compile_commands.json: run make first"; return 1; }
  files 'src/*.cpp' 'tests/*.cpp' | without_torch |
    xargs -r -P "$JOBS" -n 1 clang-tidy-16 -p build --quiet --extra-arg=-Wno-unknown-warning-option 2>/dev/null
}

step format format
step layers layers
step headers headers
step cppcheck run_cppcheck
step clang-tidy run_tidy
if [ ${#failed[@]} -gt 0 ]; then
  say "failed: ${failed[*]}"
  exit 1
fi
say "all fine"
