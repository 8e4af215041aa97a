# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
FAST := $(wildcard $(addprefix tests/,test_architecture.py loss collapse core config data/augment partition models objective methods training))
# Wheels alone, whose digests the file names: no stranger's code runs while they are installed.
HASHED := --disable-pip-version-check --quiet --require-hashes --only-binary :all: --no-deps --requirement

.PHONY: help install demo check test lint types fast-tests tests test-deployment logged-deployment browser slurm docs package coverage quotes format bench torture clean

help:  ## list the commands
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

$(INSTALLED): pyproject.toml $(wildcard locks/*.txt)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install $(HASHED) locks/dev.txt
# PyTorch without CUDA, if pip is configured with a place that has it
	$(BIN)/pip install $(HASHED) locks/torch-cpu.txt 2> /dev/null || $(BIN)/pip install $(HASHED) locks/torch.txt
# In a folder of its own: its torchvision may be of another build than PyTorch, which other packages would stumble over
	$(BIN)/pip install $(HASHED) locks/timm.txt --upgrade --target $(VENV)/timm
	$(BIN)/pip install --disable-pip-version-check --quiet --no-deps --no-build-isolation --editable .
	$(BIN)/pip check --disable-pip-version-check
	@touch $@

install: $(INSTALLED)  ## prepare .venv with all that demo and tests need; nothing when it is up to date

demo: install  ## train with and without FedDecorr on embedded data and write a report (about a minute)
	$(BIN)/feddecorr demo

check: install  ## lint, strict types and the fast laws: what to run after every change (less than two minutes)
	@$(MAKE) --no-print-directory --jobs 2 lint types fast-tests

test: install browser slurm  ## lint, strict types and the whole test suite (about a quarter of an hour on two cores)
	@$(MAKE) --no-print-directory --jobs 4 lint types tests logged-deployment

lint: install  ## style and common mistakes
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install  ## strict static types
	$(BIN)/mypy

fast-tests: install  ## the laws of the numerical core
	$(BIN)/pytest $(FAST)

# Tests run side by side: each of them computes with one thread.
fast-tests tests test-deployment: export OMP_NUM_THREADS := 1

tests: install browser  ## the test suite, in parallel; all but the next
	$(BIN)/pytest --ignore tests/flower --ignore tests/clusters

test-deployment: install slurm  ## federations on Flower, sweeps on Ray and Slurm; the longest first, which mostly waits
	$(BIN)/pytest -n 3 --dist loadfile --no-loadscope-reorder \
		tests/flower/test_network.py tests/flower/test_*.py tests/clusters/test_*.py

# It mostly waits, so `make test` runs it at the same time as the rest, and shows its output in one piece.
logged-deployment: install
	@mkdir -p build; $(MAKE) --no-print-directory test-deployment > build/test-deployment.txt 2>&1; code=$$?; \
		cat build/test-deployment.txt; exit $$code

browser:  ## install Chromium, in which the tests open the report (Debian, as root); nothing if it is there
	command -v chromium || { apt-get update && apt-get install --yes --no-install-recommends chromium; }

slurm:  ## install Slurm, of which the tests start one of one node (Debian, as root); nothing if it is there
	command -v slurmctld || { apt-get update && apt-get install --yes --no-install-recommends slurm-wlm munge; }

docs: install  ## the documentation's site, in build/site/html: pages, gallery and reference (a few minutes)
	$(BIN)/python docs/site/website.py

package: install  ## wheel and sdist in dist, tried in a fresh environment of every Python 3.11 to 3.13 that is found
	$(BIN)/python -m release.package

coverage: export SOURCES := $(CURDIR)/src/feddecorr
# One test limits the size of files, which coverage's own meet.
coverage: install browser  ## the whole suite again, counting lines and branches; lists what no test reaches (half an hour)
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest --ignore tests/flower --ignore tests/clusters \
		--deselect tests/torture/test_torture.py::test_a_limit_of_file_sizes_ends_a_run_with_what_helps
	$(BIN)/coverage run -m pytest -n 3 --dist loadfile tests/flower tests/clusters
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage html --quiet
	$(BIN)/coverage report

quotes: install  ## write into the pages what they quote of the recorded results
	$(BIN)/python -m benchmarks.quotes

format: install  ## rewrite the sources in the project's style
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: install  ## speed and memory in one table, next to what is recorded (about ten minutes)
	$(BIN)/python -m benchmarks.table

torture: install  ## kills, limits, broken input, long lives, bare environments (hours; records into results/)
	$(BIN)/python -m benchmarks.torture.every_write --record results/torture_every_write.json
	$(BIN)/python -m benchmarks.torture.random_kills --record results/torture_random_kills.json
	$(BIN)/python -m benchmarks.torture.hostile_directories --record results/torture_hostile_directories.json
	$(BIN)/python -m benchmarks.torture.limits --record results/torture_limits.json
	$(BIN)/python -m benchmarks.torture.broken_inputs --record results/torture_broken_inputs.json
	$(BIN)/python -m benchmarks.torture.messages --record results/torture_messages.json
	$(BIN)/pip install $(HASHED) locks/torture.txt
	$(BIN)/python -m benchmarks.torture.guided_inputs --record results/torture_guided_inputs.json
	$(BIN)/python -m benchmarks.torture.long_life --record results/torture_long_life.json
	$(BIN)/python -m benchmarks.torture.bare_environment --record results/torture_bare_environment.json
	$(BIN)/python -m benchmarks.hostile_clients --record results/hostile_clients.json

clean:  ## remove the environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache build dist
