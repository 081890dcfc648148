# keepstep. `make demo` shows it; `make test` proves it. Both set up what they need, once.

PYTHON ?= python3
VENV := .venv
PLAIN := .venv-plain
# Tests of code that has another way to do its work where hyperscan, pystack or a framework is missing.
NATIVE_TESTS := tests/analyze tests/cli tests/parse tests/sources tests/test_frameworks_blocked.py tests/test_extend.py tests/test_readme.py --ignore tests/parse/test_no_pattern_is_slow.py --ignore tests/parse/test_long_lines.py
OLD := .venv-old
LOWEST := .venv-lowest
LOCKER := .venv-lock
GUESTS := .venv-guests
DOCS := .venv-docs
GUESTS_PINS := lab/src/keepstep_lab/guests/requirements.txt
OLD_FRAMEWORKS := torch==2.5.1 tensorflow-cpu==2.18.0 jax==0.4.35
BIN := $(VENV)/bin
JOBS ?= 2
# Many tests wait for processes: with one worker more the cores have less to wait for.
WORKERS ?= $(shell expr $(JOBS) + 1)
FUZZ_SECONDS ?= 600
# A test that stands still ends its worker, with the stacks of all threads, and the others go on.
STANDS_STILL := -o faulthandler_timeout=400 -o faulthandler_exit_on_timeout=true
# On Linux a plain `pip install torch` brings CUDA along (gigabytes); a CPU build serves here. To take one from
# elsewhere: make setup PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu
TORCH ?= torch==2.13.0
# Everything else is pinned with hashes in requirements/, which `make lock` writes. Only keepstep itself and its lab are installed without.
PINNED := -m pip install -q --no-deps --require-hashes -r
ITSELF := -m pip install -q --no-deps --no-build-isolation -e . -e ./lab
UV := uv==0.13.7
LOCK := pip compile -q --upgrade --universal --python-version 3.10 --generate-hashes --no-annotate --no-header --no-emit-package keepstep
DEBIAN := ripgrep zstd gdb iproute2 iptables faketime

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PYTHONDONTWRITEBYTECODE := 1

.PHONY: help setup demo test test-all lint unit plain fuzz mutants lowest dist-check lock lab lab-old guests bench checkpoint-faults silent-faults fault-storm goodput-storm first-screens threshold-swings shrink-series shrink-lab docs clean

help:
	@echo 'make demo    a real two-worker training is checked, crashes, is explained, comes back and finishes'
	@echo 'make test    lint, types, import contracts, all tests; then once more without native parts and frameworks'
	@echo 'make test-all also the long tests: near relatives of those that make test runs'
	@echo 'make setup   only set up $(VENV) (the others do it by themselves)'
	@echo 'make fuzz    throw ten minutes of hostile input at each reader (two hours; FUZZ_SECONDS=60 for less)'
	@echo 'make mutants put small faults into the heart, one at a time, and list those that no test notices (half an hour)'
	@echo 'make lowest  run the tests that need no framework with the lowest versions of the dependencies that pyproject.toml allows'
	@echo 'make dist-check  build the wheel and the sdist, and try both on every Python from 3.10 to 3.13 that is here'
	@echo 'make lock    write requirements/*.txt anew, with the newest versions and their hashes'
	@echo 'make lab     break real trainings in every way that the lab knows, and score what keepstep says (an hour)'
	@echo 'make lab-old a part of it with framework versions of two years ago (downloads gigabytes)'
	@echo 'make guests  run programs in the idiom of other libraries, healthy and broken, with and without keepstep (hours, gigabytes)'
	@echo 'make bench   measure the promises with numbers'
	@echo 'make checkpoint-faults  flip bits in checkpoints and kill saves, with and without the guard (an hour)'
	@echo 'make silent-faults  change bits in replicas of models that train, and count what the guard finds (FAULTS=300: hours)'
	@echo 'make fault-storm  one storm of faults under keepstep run, torchrun and a plain restart loop (ten minutes)'
	@echo 'make goodput-storm  how much of the time that 20 faults cost has an explanation'
	@echo 'make first-screens  count in how many broken runs the first screens of top and watch name rank and cause'
	@echo 'make threshold-swings  count the alerts of values that swing around the usual limits (as root; a quarter of an hour)'
	@echo 'make shrink-series  make programs with planted bugs smaller, and count those that fail for another reason (hours)'
	@echo 'make shrink-lab     make scenarios of the lab smaller, drawn by a seed (hours)'
	@echo 'make docs    write the pages that are made from code, and build the site into site/ (offline, once set up)'
	@echo 'make clean   remove everything that was made here, the environments too'

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml lab/pyproject.toml src/keepstep.pth requirements/dev.txt
	@./tools/debian-packages $(DEBIAN)
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python $(PINNED) requirements/dev.txt
	$(BIN)/python -m pip install -q '$(TORCH)'
	$(BIN)/python $(ITSELF)
	@touch $@

# The same code where PyPI has no wheels of hyperscan and pystack, and no framework is installed.
$(PLAIN)/.ready: pyproject.toml lab/pyproject.toml requirements/plain.txt
	@test -x $(PLAIN)/bin/python || $(PYTHON) -m venv $(PLAIN)
	$(PLAIN)/bin/python $(PINNED) requirements/plain.txt
	$(PLAIN)/bin/python $(ITSELF)
	@touch $@

# The lowest versions that pyproject.toml allows. What runs the tests is as new as everywhere.
$(LOWEST)/.ready: pyproject.toml lab/pyproject.toml requirements/plain.txt tools/lowest_versions.py
	@test -x $(LOWEST)/bin/python || $(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python $(PINNED) requirements/plain.txt
	$(LOWEST)/bin/python -m tools.lowest_versions > $(LOWEST)/lowest.txt
	$(LOWEST)/bin/python -m pip install -q -r $(LOWEST)/lowest.txt
	$(LOWEST)/bin/python $(ITSELF)
	@touch $@

demo: setup
	@$(BIN)/python -m examples.demo.run

test: lint unit plain
	@echo 'make test: all passed'

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

unit: setup
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal -m 'not long' --durations=25 $(STANDS_STILL)

test-all: lint plain setup
	$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal

plain: $(PLAIN)/.ready
	@for name in hyperscan pystack tensorflow torch jax; do \
	  ! $(PLAIN)/bin/python -c "import $$name" 2>/dev/null || { echo "$(PLAIN) must not have $$name"; exit 1; }; \
	done
	$(PLAIN)/bin/python -m pytest -q -n $(JOBS) --dist worksteal -m 'not frameworks and not long' $(STANDS_STILL) $(NATIVE_TESTS)

# `make test` tries each target on a few inputs; this one goes on with new ones. What fails is printed, as small as it gets.
fuzz: setup
	KEEPSTEP_FUZZ_SECONDS=$(FUZZ_SECONDS) $(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal tests/fuzz

# The modules and their tests are in tools/mutations.toml. `MUTANTS=keepstep.story.clocks` tries one, `SAMPLE=1000` all of its mutants.
MUTANTS ?=
SAMPLE ?= 25
mutants: setup
	$(BIN)/python -m tools.mutations $(MUTANTS) --sample $(SAMPLE) --jobs $(JOBS)

lowest: $(LOWEST)/.ready
	$(LOWEST)/bin/python -m pytest -q -n $(JOBS) --dist worksteal -m 'not frameworks' tests/parse tests/base tests/model tests/signals tests/story tests/rules tests/analyze tests/sources tests/store tests/render tests/cli

dist-check: setup
	$(BIN)/python -m tools.dist_check

lock:
	@test -x $(LOCKER)/bin/uv || { $(PYTHON) -m venv $(LOCKER) && $(LOCKER)/bin/python -m pip install -q '$(UV)'; }
	$(LOCKER)/bin/uv $(LOCK) --extra dev --overrides requirements/overrides.in pyproject.toml requirements/frameworks.in requirements/build.in -o requirements/dev.txt
	$(LOCKER)/bin/uv $(LOCK) --extra test --no-emit-package hyperscan --no-emit-package pystack pyproject.toml requirements/build.in -o requirements/plain.txt
	$(LOCKER)/bin/uv $(LOCK) requirements/docs.in -o requirements/docs.txt

# All scenarios for real, then the table of the docs. About an hour on two cores.
lab: setup
	$(BIN)/keepstep lab score --jobs $(JOBS) --markdown docs/lab.md
	$(BIN)/keepstep lab score --jobs $(JOBS) --with guard --markdown docs/lab-guard.md
	$(BIN)/keepstep lab score --jobs $(JOBS) --with run --markdown docs/lab-run.md

# The same jobs on framework versions of two years ago: messages and hooks differ between versions.
$(OLD)/.ready:
	@test -x $(OLD)/bin/python || $(PYTHON) -m venv $(OLD)
	$(OLD)/bin/python -m pip install -q $(OLD_FRAMEWORKS)
	$(OLD)/bin/python -m pip install -q --no-deps tf_keras==2.18.0
	@# the guard runs in these too; its companion looks at stacks with what keepstep itself needs
	$(OLD)/bin/python -m pip install -q -e .
	@touch $@

lab-old: setup $(OLD)/.ready
	$(BIN)/keepstep lab score --quick --jobs $(JOBS) --python $(OLD)/bin/python --markdown docs/lab-old.md
	$(BIN)/keepstep lab score --jobs $(JOBS) --python $(OLD)/bin/python --with guard --markdown docs/lab-guard-old.md

# Other people's kinds of programs need their libraries: an environment of its own, pinned. PyTorch first, then the rest
# without their dependencies (all are in the list), so that no CUDA arrives. DeepSpeed is built here; without it its guest is skipped.
$(GUESTS)/.ready: $(GUESTS_PINS)
	@test -x $(GUESTS)/bin/python || $(PYTHON) -m venv $(GUESTS)
	$(GUESTS)/bin/python -m pip install -q '$(TORCH)' setuptools wheel
	$(GUESTS)/bin/python -m pip install -q --no-deps -r $(GUESTS_PINS)
	$(GUESTS)/bin/python -m pip install -q -e . -e ./lab
	DS_BUILD_OPS=0 $(GUESTS)/bin/python -m pip install -q --no-build-isolation --no-deps deepspeed==0.19.8 || echo 'DeepSpeed did not install: its guest is skipped'
	@touch $@

guests: $(GUESTS)/.ready
	$(GUESTS)/bin/keepstep lab guests score --jobs 1 --markdown docs/guests.md

bench: setup
	@$(BIN)/python -c 'import drain3, pyflakes' 2>/dev/null || $(BIN)/python -m pip install -q -e '.[bench]'
	$(BIN)/python -m benchmarks.logs
	$(BIN)/python -m benchmarks.many_ranks
	$(BIN)/python -m benchmarks.grades
	$(BIN)/python -m benchmarks.network_check
	$(BIN)/python -m benchmarks.guard
	$(BIN)/python -m benchmarks.comeback
	$(BIN)/python -m benchmarks.nodes
	$(BIN)/python -m benchmarks.agents
	$(BIN)/python -m benchmarks.data_files
	$(BIN)/python -m benchmarks.code_files

# Orbax is counted where it can be imported.
FLIPS ?= 200
KILLS ?= 10
FAULTS ?= 20
checkpoint-faults: setup
	$(BIN)/python -m benchmarks.checkpoint_faults --flips $(FLIPS) --kills $(KILLS)

silent-faults: setup
	$(BIN)/python -m benchmarks.silent_faults --rounds $(FAULTS)

fault-storm: setup
	$(BIN)/python -m benchmarks.fault_storm

goodput-storm: setup
	$(BIN)/python -m benchmarks.goodput_storm

first-screens: setup
	$(BIN)/python -m benchmarks.first_screens --lab 60

threshold-swings: setup
	$(BIN)/python -m benchmarks.threshold_swings

# Programs with a planted bug, made smaller by real trials: hours on two cores.
shrink-series: setup
	$(BIN)/python -m benchmarks.shrink_series --cases 6 --seed 1

shrink-lab: setup
	$(BIN)/python -m benchmarks.shrink_lab --cases 24 --seed 1 --budget 8m

docs: setup $(DOCS)/.ready
	$(BIN)/python -m keepstep.render.rules_docs docs/rules tests/rules/fires
	$(BIN)/python -m tools.readme_report
	$(BIN)/python -m tools.redaction_score --write
	$(BIN)/python -m tools.row_tables
	@rm -rf $(DOCS)/reports
	@$(BIN)/python -m tools.report_schema $(DOCS)/reports
	$(DOCS)/bin/python -m tools.site $(DOCS)/reports

# MkDocs and its theme, in an environment of their own. A built site fetches nothing, and neither does building it.
$(DOCS)/.ready: requirements/docs.txt
	@test -x $(DOCS)/bin/python || $(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python $(PINNED) requirements/docs.txt
	@touch $@

clean:
	rm -rf $(VENV) $(PLAIN) $(OLD) $(GUESTS) $(LOWEST) $(LOCKER) $(DOCS) .venv-nvrx site docs/rules .demo .keepstep dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
