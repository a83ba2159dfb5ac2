# Every target calls one script of docker/, which also runs by itself. `make help` lists the targets.
VARIANT ?= cpu
ENGINE ?= auto
BASE ?= debian
PYTHON ?= python3
CUDA_ARCHS ?=
PYTHONS ?= 3.10 3.11 3.13
TORCHES ?= 2.10.0 2.13.0 2.15.0
PROJECT ?= .
ARCH ?=
CACHE ?=

FLAGS = --engine "$(ENGINE)" --variant "$(VARIANT)" --base "$(BASE)" --arch "$(ARCH)"
given = $(if $(filter file undefined,$(origin $(1))),,$($(1)))
PAIRS = --project "$(PROJECT)" --pythons "$(call given,PYTHONS)" --torches "$(call given,TORCHES)"
BUILD_FLAGS = $(FLAGS) --cuda-archs "$(CUDA_ARCHS)" $(PAIRS)
EMULATED = --seconds "$(or $(SECONDS),60)" --seed "$(or $(SEED),0)" --one-in "$(or $(ONE_IN),1)" --torches "$(call given,TORCHES)" $(if $(WHEEL),--wheel "$(WHEEL)")
RUN = @exec sh docker/python.sh "$(PYTHON)"

export BUNDLE  # docker/fetch.py takes every input from it
export TEST_OPTIONS  # pytest gets them beside the project's own: -k, to run some of the tests
export V  # 1: the commands of compilers, which docker/image/short.sh shortens

.PHONY: help wheel objects audit-cache farm test test-ways test-gpu sanitize sanitize-cpu bench test-matrix reproduce verify index publish audit fuzz report new-extension docs figures test-docs fetch bundle image shell lock lint types format clean
help:  ## this list
	@echo "make TARGET [VARIABLE=value ...]; durations and disk space are of measured runs"
	@sed -nE 's/^##@ (.*)/\1/p; s/^([a-z-]+):.*## (.*)/  \1\t\2/p' Makefile | expand -t 16
	@echo "variables: VARIANT=$(VARIANT): or cuda, one wheel for CPU, CUDA 12, CUDA 13; CUDA_ARCHS=\"90 cuda13:90\" builds less; PROJECT=$(PROJECT): whose wheel"
	@echo "  ENGINE=$(ENGINE): docker, podman, host; BASE=$(BASE): or manylinux; PYTHON=$(PYTHON); V=1: commands; ARCH=aarch64; CACHE=s3://BUCKET"
	$(if $(filter .,$(PROJECT)),,$(RUN) docker/image/project.py "$(PROJECT)")

##@ use: what a wheel does on this machine
test-gpu:  ## the op tests on this machine's GPUs, with the wheel of dist/; PYTHON needs torch, pytest, hypothesis, scipy
	@bash docker/test-gpu.sh "$(PYTHON)"

bench:  ## time every op and its peers, into benchmarks/results; PYTHON needs customops and torch
	$(RUN) benchmarks

test-matrix:  ## the op tests against the same wheel file on other PYTHONS and TORCHES; 5 to 7 GB a pair
	$(RUN) docker/matrix.py --project "$(PROJECT)" --pythons "$(PYTHONS)" --torches "$(TORCHES)"

##@ build
wheel:  ## build, repair, check and test a wheel into dist/; two cores: 10 to 15 min, VARIANT=cuda from nothing 18 to 34
	$(RUN) docker/make_wheel.py wheel $(BUILD_FLAGS) --cache "$(CACHE)"

objects:  ## compile a part of the objects into a shared CACHE, for `make wheel CACHE=...`: SHARD=1/4 is the first of four
	$(RUN) docker/objects.py objects --shard "$(SHARD)" $(BUILD_FLAGS) --cache "$(CACHE)"

farm:  ## try BUILDERS=3 that share a cache, on this machine: one is killed, one lies; root, redis-server; docs/farm.md
	$(RUN) docker/farm.py --builders "$(or $(BUILDERS),3)" $(if $(JSON),--json "$(JSON)") $(BUILD_FLAGS)

image:  ## the build and test images; 2.6 GB for the CPU
	$(RUN) docker/images.py $(FLAGS)

shell:  ## an interactive clean container with the project under /project
	$(RUN) docker/images.py $(FLAGS) --shell --project "$(PROJECT)"

new-extension:  ## a project of your own with one op, CPU and CUDA: NAME=myops DEST=../myops
	$(RUN) docker/new_extension.py --name "$(NAME)" --dest "$(DEST)"

fetch:  ## download every locked input to .cache/ (0.7 GB) and verify it; the only step with a network
	$(RUN) docker/fetch.py $(PAIRS) --arch "$(ARCH)"

bundle:  ## every locked input in BUNDLE=build/inputs.tar; `make wheel BUNDLE=...` needs no network then
	$(RUN) docker/bundle.py $(PAIRS) --arch "$(ARCH)" $(if $(BUNDLE),"$(BUNDLE)")

##@ check
test:  ## the op tests against the wheel of dist/ (built if absent), then the pipeline's; ARCH=aarch64: ARM's, by qemu
	$(if $(and $(ARCH),$(filter .,$(PROJECT))),$(RUN) docker/emulated.py --arch "$(ARCH)" $(EMULATED),$(RUN) docker/make_wheel.py test $(BUILD_FLAGS))
	$(if $(ARCH),,$(if $(filter .,$(PROJECT)),$(RUN) docker/make_wheel.py test-pipeline))

test-ways:  ## the op tests against the JIT and the CMake build, and the tests of all three builds
	$(RUN) docker/ways.py

sanitize:  ## the op tests on GPUs under compute-sanitizer, four tools (TOOLS=memcheck: one); ONE_IN=20: one test in 20
	@bash docker/test-gpu.sh --sanitize "$(PYTHON)"

sanitize-cpu:  ## the CPU library under ASan and UBSan: random calls for SECONDS=20 an instruction set; op tests, one in ONE_IN=20
	$(RUN) docker/sanitize_cpu.py --seconds "$(or $(SECONDS),20)" --seed "$(or $(SEED),0)" --one-in "$(or $(ONE_IN),20)"

fuzz:  ## for SECONDS=60 each: what reads wheels, ELF, device code, .deb, locks, the index; TARGET=elf does one
	$(RUN) docker/fuzz.py --seconds "$(or $(SECONDS),60)" --target "$(TARGET)"

reproduce:  ## two builds that differ in place, time, user, ...: the same bytes, or a report of what differs
	$(RUN) docker/reproduce.py $(BUILD_FLAGS)

report:  ## what WHEEL=... holds and where it works; REQUIRE="torch>=2.10 glibc<=2.28 sm_90", AGAINST=python3.12, JSON=1
	$(RUN) docker/wheel_report.py "$(WHEEL)" $(if $(REQUIRE),--require "$(REQUIRE)") $(if $(AGAINST),--against "$(AGAINST)") $(if $(JSON),--json)

verify:  ## rebuild WHEEL=... from its recorded commit (on a tag, origin/main or TRUST=ref): identical, or a report
	$(RUN) docker/verify.py --project "$(PROJECT)" --engine "$(ENGINE)" --trust "$(TRUST)" --attestation "$(ATTESTATION)" --repository "$(REPOSITORY)" "$(WHEEL)"

##@ release
index:  ## dist/simple-root, a static package index that pip and uv install from
	$(RUN) docker/index.py --dist "$(PROJECT)/dist"

publish:  ## upload a clean, reproduced wheel with twine (to REPOSITORY_URL=..., or as twine is configured)
	$(RUN) docker/publish.py --project "$(PROJECT)" --repository-url "$(REPOSITORY_URL)"

audit-cache:  ## compile K=20 random objects of a shared CACHE again, here, and compare: who stored a wrong one is named
	$(RUN) docker/objects.py audit-cache --count "$(or $(K),20)" $(BUILD_FLAGS) --cache "$(CACHE)"

audit:  ## scan the SBOM of WHEEL=... (all of dist/) for known vulnerabilities
	$(RUN) docker/audit.py $(if $(WHEEL),"$(WHEEL)")

##@ develop
docs:  ## the site of docs/, into build/site; a broken link is an error
	$(RUN) docker/docs.py

figures:  ## write every table and plot of README.md and docs/ from benchmarks/results/
	$(RUN) docker/docs.py figures

test-docs:  ## figures are up to date, and each page of the site looks right in headless Chromium; 3 min
	$(RUN) docker/docs.py test

lint:  ## ruff, clang-format, shellcheck, without changing anything
	$(RUN) docker/lint.py

types:  ## mypy --strict over customops/, with the torch that builds the wheel; 20 s
	$(RUN) docker/lint.py --types

format:  ## lint, fixing what can be fixed
	$(RUN) docker/lint.py --fix

lock:  ## PROJECT=...: lock its requirements; otherwise every lock file (Debian or Ubuntu machine)
	$(RUN) $(if $(filter .,$(PROJECT)),docker/lock.py,docker/lock_project.py --engine "$(ENGINE)" --variant "$(VARIANT)" $(PAIRS))

clean:  ## remove build products; downloads and images stay
	rm -rf build dist *.egg-info .cache/out .cache/source .cache/tmp .pytest_cache .ruff_cache
	find customops tests docker -name __pycache__ -prune -exec rm -rf {} +
	rm -f customops/*.so customops/_cuda.json
