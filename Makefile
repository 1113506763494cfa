# `make help` says what there is. Each target does what it needs of the former.
JOBS ?= $(shell nproc)
.DEFAULT_GOAL := build
.PHONY: help setup setup-build configure build test demo bench format check asan tsan fuzz soak clean

help:
	@echo "make setup    install Debian packages and the virtual environment .venv"
	@echo "make          build build/tributary (and its tests)"
	@echo "make demo     train on seven processes, lose three, and let the model write; under 10 minutes from a bare clone"
	@echo "make test     build and run every test: C++, sanitizers, command line, fuzzers for seconds"
	@echo "make bench    benchmarks; figures and their commands are in docs/results.md"
	@echo "make format   clang-format;  make check: clang-tidy, cppcheck, layer table"
	@echo "make soak     long runs and long searches"

setup:
	@scripts/setup.sh
setup-build:
	@scripts/setup.sh build
configure: setup
	@grep -qs 'TRIBUTARY_TESTS:BOOL=ON' build/CMakeCache.txt || cmake --preset release -DTRIBUTARY_TESTS=ON > /dev/null
build: configure
	@cmake --build build -j $(JOBS)
test: build
	@scripts/test.sh
demo: setup-build
	@JOBS=$(JOBS) scripts/demo.sh
asan tsan fuzz: setup
	@[ -e build-$@/build.ninja ] || cmake --preset $@ > /dev/null
	@cmake --build build-$@ -j $(JOBS)
bench: build
	@scripts/bench.sh
format:
	@git ls-files '*.cpp' '*.h' | xargs clang-format-16 -i
soak: build
	@scripts/soak.sh
check: build
	@scripts/check.sh
clean:
	@rm -rf build build-debug build-asan build-tsan build-fuzz
