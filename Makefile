# Commands for daily work; CMake and the scripts do the work.

# make run DATA=/srv/timers FLAGS="--listen-port 80"
# make sim SEED=35 STEPS=200 FLAGS=--shrink
# make soak SECONDS=3600
# make fuzz-long SECONDS=600
DATA ?= ./data
FLAGS ?=
# make example COUNT=100000 HOLD=30s FLAGS=--crash
# make take-over FOLDER=/var/lib/tickwheel/data FLAGS=--accept-loss
FOLDER ?=
# make test-cluster-long ROWS="kill stop disk" ROUNDS=10 TIMERS=100000
COUNT ?= 1000000
HOLD ?= 3m
SEED ?= 1
STEPS ?= 200
SECONDS ?= 60
SHORT_ROWS = kill stop freeze once
ROWS ?= $(patsubst tests/cluster/long/%_test.py,%,$(wildcard tests/cluster/long/*_test.py))
LOG ?= postgres
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
export JOBS

.PHONY: help run cluster example build take-over test-take-over lib check test nightly test-bounds test-crowd test-brokers test-clients test-cluster test-cluster-long publish-dry-run test-generators test-debian test-systemd test-packages packages image chart dist formal sim soak bench bench-service bench-brokers asan \
	tsan fuzz fuzz-long coverage lint analyze fmt site docs install install-lib clean
.DEFAULT_GOAL := help

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' Makefile

run: build ## install missing packages, build, and start tickwheeld on 127.0.0.1:8463 with data in ./data
	@exec build/release/bin/tickwheeld --banner --data-folder "$(DATA)" \
		--webhook-allow "127.0.0.0/8,::1/128" $(FLAGS)

cluster: ## two nodes and PostgreSQL on this machine, to try a cluster: create, kill, add, drain; LOG=kafka for three and Kafka
	@scripts/install-deps $(LOG)
	@[ $(LOG) != kafka ] || tests/brokers/kafka/fetch
	@$(MAKE) --no-print-directory build
	@exec scripts/cluster --log $(LOG) $(FLAGS)

example: ## a million reservations, held, paid and expired; COUNT=10000 HOLD=5s for less
	@examples/reservation/run --count $(COUNT) --hold $(HOLD) $(FLAGS)

build: ## the release build, in build/release
	@scripts/install-deps build
	@cmake --preset release --log-level=WARNING -DTICKWHEEL_TESTS=OFF >/dev/null
	@cmake --build build/release -j $(JOBS) --target tickwheeld tickwheel_cli

# Unlike the other targets it needs only CMake and a C compiler: no Ninja, no packages.
take-over: ## give the data folder of a version up to 0.2.0, FOLDER=..., the format of this version; the daemon is stopped
	@scripts/install-deps take-over
	@cmake -S . -B build/take-over --log-level=WARNING -DTICKWHEEL_TAKE_OVER=ON -DTICKWHEEL_TESTS=OFF >/dev/null
	@cmake --build build/take-over -j $(JOBS) --target tickwheel_take_over >/dev/null
	@exec build/take-over/bin/tickwheel-take-over $(FLAGS) "$(FOLDER)"

lib: ## the library alone, in build/lib: no service, no packages to install
	@cmake -S . -B build/lib --log-level=WARNING -DTICKWHEEL_SERVICE=OFF -DTICKWHEEL_TESTS=OFF \
		-DCMAKE_C_FLAGS_RELEASE=-O3 -DCMAKE_INSTALL_PREFIX="$(PREFIX)" >/dev/null
	@MAKEFLAGS= cmake --build build/lib -j $(JOBS) --target tickwheel tickwheel_shared manual

check: ## three minutes, for each change: unit tests, style rules, 3,700 simulated runs, eight end-to-end tests
	@scripts/install-deps test
	@scripts/test dev check

test: ## every test that fits into ten minutes, with warnings as errors
	@scripts/install-deps test
	@scripts/test dev

nightly: ## what takes longer, hours: other systems, packages, brokers, clusters, planted bugs; STEPS="formal bounds" for some
	@scripts/nightly $(STEPS)

test-bounds: ## limits of memory at full size: ten million timers, bursts, 10,000 connections; half an hour
	@scripts/install-deps test
	@cmake --preset release --log-level=WARNING -DTICKWHEEL_TESTS=ON >/dev/null
	@cmake --build build/release -j $(JOBS) --target tickwheeld receiver
	@for each in tests/bounds/*_test.py; do \
		TEST_SIZE=full TEST_BUILD=build/release python3 $$each || exit 1; done

test-crowd: ## one tenant fills each pot that tenants share, at full size, beside a quiet one; a minute
	@scripts/install-deps test
	@cmake --preset release --log-level=WARNING -DTICKWHEEL_TESTS=ON >/dev/null
	@cmake --build build/release -j $(JOBS) --target tickwheeld receiver
	@TEST_SIZE=full TEST_BUILD=build/release python3 tests/e2e/crowd_test.py

bench: ## the benchmarks: the wheels, then the service, each beside its peers
	@scripts/install-deps bench
	@scripts/bench

test-debian: ## builds on the next Debian in a debootstrap, and runs the unit tests there; as root, ten minutes
	@python3 tests/install/debian_test.py || [ $$? -eq 77 ]

test-systemd: ## backup, restore and upgrade by docs/operations.md in a container with systemd; as root
	@scripts/install-deps containers
	@python3 tests/install/systemd_test.py || [ $$? -eq 77 ]

test-packages: ## builds the Debian packages for 12 and 13, installs, upgrades and purges them in containers; as root
	@scripts/install-deps containers
	@python3 tests/install/packages_test.py || [ $$? -eq 77 ]

test-take-over: ## folders of format 9 are taken over: whole, damaged, killed, and with planted bugs
	@scripts/install-deps take-over-test
	@cmake --preset dev -B build/test-take-over --log-level=WARNING -DTICKWHEEL_TAKE_OVER=ON >/dev/null
	@cmake --build build/test-take-over -j $(JOBS) --target tickwheel_take_over tickwheeld faultlayer >/dev/null
	@TEST_BUILD=build/test-take-over python3 -B tests/take_over/take_over_test.py
	@tests/mutants/plant.py take_over

test-clients: ## the client libraries, each with its language's own tools
	@scripts/install-deps languages
	@scripts/test dev -R '^client_'

publish-dry-run: ## build, check and install the packages of the client libraries, and publish nothing
	@scripts/install-deps languages
	@scripts/publish-dry-run

test-brokers: ## the tests of Kafka (the cluster's log too) and RabbitMQ against real servers
	@scripts/install-deps brokers
	@tests/brokers/kafka/fetch
	@TEST_BROKERS=all scripts/test dev -R 'broker_(kafka|kafka_log|cluster|compose|copies|import|once|pass|rabbitmq|rabbitmq_source|sweep)_test|cluster_script_test'

test-cluster: ## a cluster on three Kafka brokers, some of which are killed, and nodes too; ten minutes
	@scripts/install-deps cluster-test
	@tests/brokers/kafka/fetch
	@cmake --preset dev --log-level=WARNING >/dev/null
	@cmake --build build/dev -j $(JOBS) --target tickwheeld receiver log_tool kafka_tool >/dev/null
	@for each in tests/cluster/*_test.py $(SHORT_ROWS:%=tests/cluster/long/%_test.py); do \
		PYTHONDONTWRITEBYTECODE=1 TEST_BUILD=build/dev TEST_ROUNDS=3 python3 $$each -v || [ $$? -eq 77 ] || exit 1; done

test-cluster-long: ## faults of nodes, brokers, network, clocks and disks under load, hours; ROWS="kill stop" ROUNDS=10 for less
	@scripts/install-deps cluster-test
	@tests/brokers/kafka/fetch
	@cmake --preset release --log-level=WARNING -DTICKWHEEL_TESTS=ON >/dev/null
	@cmake --build build/release -j $(JOBS) --target tickwheeld receiver kafka_tool faultlayer load_client >/dev/null
	@for row in $(ROWS); do echo "== $$row"; \
		PYTHONDONTWRITEBYTECODE=1 TEST_BUILD=build/release TEST_ROUNDS=$(ROUNDS) TEST_TIMERS=$(TIMERS) \
		python3 tests/cluster/long/$${row}_test.py || [ $$? -eq 77 ] || failed="$$failed $$row"; \
	done; [ -z "$$failed" ] || { echo "FAILED:$$failed"; exit 1; }

formal: ## the models within larger bounds: ten minutes, 3 GB
	@scripts/install-deps test
	@TEST_SIZE=full python3 tests/formal/formal_test.py

test-generators: ## clients that six generators make of the OpenAPI document, against the daemon
	@scripts/install-deps languages
	@scripts/test dev -L generators

sim: ## a run of the simulation: SEED, STEPS, and FLAGS such as --nodes one, --shrink or --verbose
	@$(MAKE) --no-print-directory build/dev/tests/world/world
	@build/dev/tests/world/world --seed $(SEED) --runs 1 --steps $(STEPS) $(FLAGS)

soak: ## new runs of the simulation for SECONDS (60); prints each seed that fails
	@$(MAKE) --no-print-directory build/dev/tests/world/world
	@build/dev/tests/world/world --runs 1000000000 --steps $(STEPS) --seconds $(SECONDS) $(FLAGS)

.PHONY: build/dev/tests/world/world
build/dev/tests/world/world:
	@scripts/install-deps test
	@cmake --preset dev --log-level=WARNING >/dev/null
	@cmake --build build/dev -j $(JOBS) --target $(notdir $@) >/dev/null

bench-service: ## the service beside its peers and floors, twenty minutes; BENCH_SCALE=0.2 for less, BENCH_ROWS=create,idle
	@scripts/install-deps bench
	@scripts/bench service $(FLAGS)

bench-brokers: ## 100,000 timers to each broker, with an outage in the middle
	@scripts/install-deps brokers
	@tests/brokers/kafka/fetch
	@scripts/bench brokers

asan: ## the tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@scripts/install-deps test
	@scripts/test asan

tsan: ## the tests with threads under ThreadSanitizer
	@scripts/install-deps test
	@scripts/test tsan

fuzz: ## six seconds of each fuzz target, starting from its corpus
	@scripts/install-deps test
	@scripts/test fuzz -R '_fuzz$$'

fuzz-long: ## each fuzz target for SECONDS (60), with its findings; FLAGS=json for some of them
	@scripts/install-deps test
	@scripts/fuzz $(SECONDS) $(FLAGS)

coverage: ## every test, and the share of lines they run, in build/coverage/index.html
	@scripts/install-deps test
	@scripts/coverage

lint: ## clang-format without changes, clang-tidy, the tidy tests
	@scripts/install-deps lint
	@scripts/lint

analyze: ## lint with clang's analyzer, which takes minutes
	@scripts/install-deps lint
	@scripts/lint --analyze

fmt: ## format every C file
	@scripts/install-deps lint
	@git ls-files -co --exclude-standard '*.c' '*.h' | xargs clang-format-14 -i

site: ## the documents as a static site with search, in build/site; links are checked
	@scripts/install-deps site
	@scripts/site

docs: ## the generated files: settings, metrics, overview of the API, exported symbols
	@scripts/reference --map lib/libtickwheel.map
	@$(MAKE) --no-print-directory build
	@build/release/bin/tickwheeld --print-config-docs > docs/configuration.md
	@build/release/bin/tickwheeld --print-metrics-docs > docs/metrics.md
	@build/release/bin/tickwheeld --print-routes | scripts/overview docs/api.md
	@build/release/bin/tickwheeld --print-config-example > packaging/tickwheeld.conf

install: build ## install everything under PREFIX (default /usr/local)
	@cmake --preset release --log-level=WARNING -DCMAKE_INSTALL_PREFIX="$(PREFIX)" >/dev/null
	@cmake --build build/release -j $(JOBS) --target tickwheel tickwheel_shared manual pages
	@cmake --install build/release

install-lib: lib ## install the library alone: headers, static and shared, pkg-config, CMake package, manual
	@cmake --install build/lib

packages: ## Debian packages for the release of Debian that runs here, in build/packages
	@scripts/install-deps packages
	@scripts/packages

image: ## an OCI image of the daemon from these packages, in build/image, without a container engine
	@scripts/install-deps image
	@scripts/packages
	@scripts/image

chart: ## the Helm chart, checked and packed as build/tickwheel-VERSION.tgz
	@scripts/chart

dist: ## the sources as build/tickwheel-VERSION.tar.gz
	@scripts/dist

clean: ## remove the build folders; data stays
	@rm -rf build
