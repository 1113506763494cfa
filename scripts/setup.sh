#!/usr/bin/env bash
# Installs what Tributary builds and tests with: Debian packages, and a virtual environment `.venv` with LibTorch.
#   scripts/setup.sh            everything
#   scripts/setup.sh build      only what the program itself needs (used by `make demo`)
# TORCH_DIR=/path/to/libtorch uses that LibTorch instead of the wheel's. Running it again costs a second.
set -euo pipefail
cd "$(dirname "$0")/.."
mode=${1:-all}
say() { printf 'setup: %s\n' "$*"; }
stamp_dir=.venv/.tributary-setup

missing_packages() {
  local package
  while read -r package; do
    if [ "$mode" = build ]; then
      case "$package" in clang-*|libclang-*|cppcheck|libgtest-dev|librapidcheck-dev|libbenchmark-dev|chromium-*) continue ;; esac
    fi
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)" = installed ] || printf '%s ' "$package"
  done < scripts/debian-packages.txt
}

install_debian_packages() {
  if ! command -v dpkg-query >/dev/null; then
    say "this is not a Debian system; install the equivalents of scripts/debian-packages.txt by hand"
    return
  fi
  local missing as_root=
  missing=$(missing_packages)
  if [ -z "$missing" ]; then say "Debian packages: all there"; return; fi
  local line="apt-get install -y --no-install-recommends $missing"
  if [ "$(id -u)" != 0 ]; then
    if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then as_root=sudo
    else
      say "neither root nor passwordless sudo; type this line, then run the command again:"
      echo "  sudo $line"
      exit 1
    fi
  fi
  say "Debian packages: installing $missing"
  $as_root apt-get update -qq
  # shellcheck disable=SC2086
  DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends $missing >/dev/null
}

install_python_packages() {
  local list=scripts/python-packages.txt wanted
  if [ "$mode" = build ]; then
    if [ -n "${TORCH_DIR:-}" ]; then say "LibTorch: TORCH_DIR=$TORCH_DIR"; return; fi
    wanted=$(grep '^torch==' "$list")
  else
    wanted=$(cat "$list")
  fi
  local stamp="$stamp_dir/$mode-$(printf '%s' "$wanted" | sha256sum | cut -c1-16)"
  local full="$stamp_dir/all-$(sha256sum < <(printf '%s' "$(cat "$list")") | cut -c1-16)"
  if [ -e "$stamp" ] || [ -e "$full" ]; then say "Python packages: all there"; return; fi
  [ -x .venv/bin/python ] || { say "virtual environment: making .venv"; python3 -m venv .venv; }
  say "Python packages: installing $(echo "$wanted" | tr '\n' ' ')"
  # torch goes first and exactly: a range would pull a CUDA build of several GB.
  .venv/bin/pip install -q --disable-pip-version-check "$(grep '^torch==' "$list")"
  # shellcheck disable=SC2086
  .venv/bin/pip install -q --disable-pip-version-check $wanted
  mkdir -p "$stamp_dir"
  touch "$stamp"
}

install_debian_packages
install_python_packages
say "done"
