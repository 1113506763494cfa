# `make help` says what there is. Each target does what it needs of the former.
JOBS ?= $(shell nproc)
.DEFAULT_GOAL := build
.PHONY: help setup setup-build configure build test demo bench format check asan tsan fuzz soak clean

help:
	@echo "make setup    install Debian packages and the virtual environment .venv"
	@echo "make          build build/tributary (and its tests)"
	@echo "make test     build and run every test: C++, sanitizers, command line, fuzzers for seconds"
	@echo "make bench    benchmarks; figures and their commands are in docs/results.md"
	@echo "make format   clang-format;  make check: clang-tidy, cppcheck, layer table"
	@echo "make soak     long runs and long searches"

setup:
	@scripts/setup.sh
setup-build:
	@scripts/setup.sh build
configure: setup
	@[ -e build/build.ninja ] || cmake --preset release > /dev/null
build: configure
	@cmake --build build -j $(JOBS)
test: build
	@scripts/test.sh
asan tsan fuzz: setup
	@[ -e build-$@/build.ninja ] || cmake --preset $@ > /dev/null
	@cmake --build build-$@ -j $(JOBS)
bench: build
	@scripts/bench.sh
format:
	@git ls-files '*.cpp' '*.h' | xargs clang-format-16 -i
check: build
	@scripts/check.sh
clean:
	@rm -rf build build-debug build-asan build-tsan build-fuzz
