#!/usr/bin/env bash
# Long runs and long searches; what `make soak` runs (about half an hour).
#   SOAK_SEEDS (20000) of simulated churn beyond those of `make test`; then bench/soak.py: ten undisturbed minutes without a false death,
#   and a relay's memory after 1,000 iterations with churn.
set -euo pipefail
cd "$(dirname "$0")/.."
echo "soak: ${SOAK_SEEDS:-20000} seeds of simulated churn"
build/tributary sim chaos --seed 2001 --seeds "${SOAK_SEEDS:-20000}"
.venv/bin/python bench/soak.py "$@"
