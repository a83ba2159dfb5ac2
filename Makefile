# Every target is one line into a script of docker/ that can be run by itself. `make help` lists them.
VARIANT ?= cpu
ENGINE ?= auto
BASE ?= debian
PYTHON ?= python3
PYTHONS ?= 3.10 3.11 3.13
TORCHES ?= 2.10.0 2.13.0 2.15.0

FLAGS = --engine "$(ENGINE)" --variant "$(VARIANT)" --base "$(BASE)"
RUN = @$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("error: $(PYTHON) is Python %d.%d, 3.11 or newer is needed: make PYTHON=python3.11 ..." % sys.version_info[:2])' && $(PYTHON)

.PHONY: help wheel test test-matrix reproduce verify index publish fetch image shell lock lint format clean
help:  ## this list
	@echo "make TARGET [VARIABLE=value ...]"
	@sed -nE 's/^([a-z-]+):.*## (.*)/  \1\t\2/p' Makefile | expand -t 16
	@echo "VARIABLES (and their values now)"
	@echo "  VARIANT=$(VARIANT)      cpu (cuda is still to come)"
	@echo "  ENGINE=$(ENGINE)      docker, podman, host; auto takes the first that answers"
	@echo "  BASE=$(BASE)      debian: hash-locked packages; manylinux: PyPA's image by digest"
	@echo "  PYTHON=$(PYTHON)   runs the scripts; 3.11 or newer (ENGINE=host: 3.11)"
	@echo "  PYTHONS, TORCHES   pairs for test-matrix: $(PYTHONS) / $(TORCHES)"

wheel:  ## build, repair, check and test a wheel; it appears in dist/ when all that went well
	$(RUN) docker/make_wheel.py wheel $(FLAGS)

test:  ## the op tests against the wheel of dist/ (built if absent), then the tests of the pipeline
	$(RUN) docker/make_wheel.py test $(FLAGS)
	$(RUN) docker/make_wheel.py test-pipeline

test-matrix:  ## the op tests against the same wheel file on other Pythons and torches
	$(RUN) docker/matrix.py --pythons "$(PYTHONS)" --torches "$(TORCHES)"

reproduce:  ## two builds that differ in place, time, user, ...: equal bytes, or a report of what differs
	$(RUN) docker/reproduce.py $(FLAGS)

verify:  ## rebuild WHEEL=... from the commit that it records: identical, or a report
	$(RUN) docker/verify.py --engine "$(ENGINE)" "$(WHEEL)"

index:  ## dist/simple-root, a static package index that pip and uv install from
	$(RUN) docker/index.py

publish:  ## upload a clean, reproduced wheel with twine (to REPOSITORY_URL=..., or as twine is configured)
	$(RUN) docker/publish.py --repository-url "$(REPOSITORY_URL)"

fetch:  ## download every locked input into .cache/ and verify it; the only step with a network
	$(RUN) docker/fetch.py

image:  ## the build and test images
	$(RUN) docker/images.py $(FLAGS)

shell:  ## an interactive clean container with the project under /project
	$(RUN) docker/images.py $(FLAGS) --shell

lock:  ## regenerate every lock file (Debian or Ubuntu machine)
	$(RUN) docker/lock.py

lint:  ## ruff, clang-format, shellcheck, without changing anything
	$(RUN) docker/lint.py

format:  ## the same, mending what can be mended
	$(RUN) docker/lint.py --fix

clean:  ## remove build products; downloads and images stay
	rm -rf build dist *.egg-info .cache/out .cache/source .pytest_cache .ruff_cache
	find customops tests docker -name __pycache__ -prune -exec rm -rf {} +
	rm -f customops/*.so
