# The front door. Each target is one command for people; CMake and the scripts do the work.

# make run DATA=/srv/timers FLAGS="--listen-port 80"
DATA ?= ./data
FLAGS ?=
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
export JOBS

.PHONY: help run build test bench asan tsan fuzz coverage lint fmt docs install clean
.DEFAULT_GOAL := help

help: ## list what can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

run: build ## install what is missing, build, and start tickwheeld on 127.0.0.1:8463 with data in ./data
	@exec build/release/bin/tickwheeld --banner --data-folder "$(DATA)" \
		--webhook-allow "127.0.0.0/8,::1/128" $(FLAGS)

build: ## the release build, in build/release
	@scripts/install-deps build
	@cmake --preset release --log-level=WARNING -DTICKWHEEL_TESTS=OFF >/dev/null
	@cmake --build build/release -j $(JOBS) --target tickwheeld

test: ## every test, with warnings as errors
	@scripts/install-deps test
	@scripts/test dev

bench: ## the benchmarks: the wheel, then the service beside its peers
	@scripts/install-deps bench
	@scripts/bench

asan: ## every test under AddressSanitizer and UndefinedBehaviorSanitizer
	@scripts/install-deps test
	@scripts/test asan

tsan: ## every test under ThreadSanitizer
	@scripts/install-deps test
	@scripts/test tsan

fuzz: ## ten seconds of each fuzz target
	@scripts/install-deps test
	@scripts/test fuzz -R '_fuzz$$'

coverage: ## every test, and the share of lines they run, in build/coverage/index.html
	@scripts/install-deps test
	@scripts/coverage

lint: ## clang-format without changes, clang-tidy, the tidy tests
	@scripts/install-deps lint
	@scripts/lint

fmt: ## format every C file
	@scripts/install-deps lint
	@git ls-files -co --exclude-standard '*.c' '*.h' | xargs clang-format-14 -i

docs: ## the files that are made from tables: docs/configuration.md, packaging/tickwheeld.conf
	@$(MAKE) --no-print-directory build
	@build/release/bin/tickwheeld --print-config-docs > docs/configuration.md
	@build/release/bin/tickwheeld --print-config-example > packaging/tickwheeld.conf

install: build ## install under PREFIX (default /usr/local)
	@cmake --preset release --log-level=WARNING -DCMAKE_INSTALL_PREFIX="$(PREFIX)" >/dev/null
	@cmake --install build/release

clean: ## remove what was built; your data stays
	@rm -rf build
