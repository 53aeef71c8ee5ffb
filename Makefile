# Everything runs from .venv in this folder; both commands set it up on a fresh machine.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo credit-demo test test-fast test-hostile test-durability test-busy test-gpu test-trl test-verl lint types docs pinhole pinhole-half card results bench browser clean

demo: .venv/installed
	@mkdir -p out
	$(BIN)/vtrace explain --target answer --html out/report.html --png out/figure.png --json out/attribution.json
	@echo "Open out/report.html in a browser: the picture, the words, and what the answer relied on."

# From both starts of the experiment. Small batches are faster on one thread than on several.
credit-demo: .venv/installed-trl
	OMP_NUM_THREADS=1 $(BIN)/python scripts/credit_demo.py --start half-trained
	OMP_NUM_THREADS=1 $(BIN)/python scripts/credit_demo.py --start noisy

# One process per core, one thread each: on a CPU that is faster than several threads in one process.
PYTEST := $(BIN)/python -m pytest
PARALLEL := -n auto --maxprocesses 8 --dist loadfile

test: .venv/installed-dev lint types browser
	$(PYTEST) $(PARALLEL)

test-fast: .venv/installed-dev
	$(PYTEST) $(PARALLEL) -m "not slow and not browser"

# `make test` has a part of both.
test-hostile: .venv/installed-dev
	VTRACE_HOSTILE=10000 $(PYTEST) -n auto --maxprocesses 8 tests/hostile

test-durability: .venv/installed-dev
	VTRACE_KILLS=50 $(PYTEST) -n auto --maxprocesses 2 tests/durability

# Tests that must not depend on the speed of the machine, while four busy loops run.
BUSY := $(BIN)/python scripts/busy.py 4 -- $(PYTEST) $(PARALLEL)
test-busy: .venv/installed-dev browser
	$(BUSY) tests/browser tests/serve tests/cli tests/tracing/test_conversation.py tests/benchmarks/test_dry_run.py
	$(BUSY) -m browser tests/viewer tests/scripts

# With one GPU, or two: the same numbers as on a CPU. What cannot run is skipped, and the reason is printed.
test-gpu: .venv/installed-dev
	$(PYTEST) -rs tests/gpu

# The oldest and the newest TRL that the extra allows, each in an environment of its own.
TRL_OLDEST := 1.0.0
TRL_TESTS := tests/credit/test_trl.py tests/credit/test_trl_models.py
test-trl: .venv-trl-oldest/installed .venv-trl-newest/installed
	OMP_NUM_THREADS=1 .venv-trl-oldest/bin/python -m pytest $(TRL_TESTS)
	OMP_NUM_THREADS=1 .venv-trl-newest/bin/python -m pytest $(TRL_TESTS)

# verl allows older transformers only, so it has an environment of its own.
VERL_PYTEST := OMP_NUM_THREADS=1 .venv-verl/bin/python -m pytest -o filterwarnings=
test-verl: .venv-verl/installed
	$(VERL_PYTEST) tests/attribution/test_pipeline.py tests/credit/test_credit.py tests/credit/test_verl_batch.py
	$(VERL_PYTEST) tests/credit/test_verl.py

lint: .venv/installed-dev
	$(BIN)/ruff check src tests bench scripts examples
	$(BIN)/ruff format --check src tests bench scripts examples

types: .venv/installed-dev
	$(BIN)/mypy

# The viewer is tested in a real Chromium: the one that is there, or Debian's.
browser:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || \
	 (apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium) >/dev/null 2>&1 || \
	 echo "No Chromium, and none could be installed: tests of the viewer are skipped."

pinhole: .venv/installed
	$(BIN)/python -m vtrace.pinhole.train --model pinhole
	$(BIN)/python -m vtrace.pinhole.train --model pinhole-internvl
	$(MAKE) card

# Pinhole stopped early: what reinforcement learning starts from.
pinhole-half: .venv/installed
	$(BIN)/python -m vtrace.pinhole.train --work build/pinhole-half --until reason:700 --out src/vtrace/pinhole/checkpoint_half

card: .venv/installed
	$(BIN)/python -m vtrace.pinhole.card --model pinhole
	$(BIN)/python -m vtrace.pinhole.card --model pinhole-internvl

results: .venv/installed
	$(BIN)/python scripts/results.py

docs: .venv/installed
	$(BIN)/python scripts/cli_reference.py > docs/cli.md.new && mv docs/cli.md.new docs/cli.md

bench: .venv/installed
	$(BIN)/python bench/overhead.py

# Every set-up path goes through constraints.txt: with an open range, pip would fetch the newest torch there is.
.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	@touch $@

.venv/installed-dev: .venv/installed
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

.venv/installed-trl: .venv/installed
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[trl]'
	@touch $@

.venv-trl-oldest/installed .venv-trl-newest/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(@D)
	sed '$(if $(findstring oldest,$@),s/^trl==.*/trl==$(TRL_OLDEST)/)' constraints.txt > $(@D)/constraints.txt
	$(@D)/bin/python -m pip install --quiet --constraint $(@D)/constraints.txt torch
	$(@D)/bin/python -m pip install --quiet --constraint $(@D)/constraints.txt --editable '.[trl]' pytest beartype
	@touch $@

.venv-verl/installed: pyproject.toml constraints-verl.txt
	$(PYTHON) -m venv .venv-verl
	.venv-verl/bin/python -m pip install --quiet --constraint constraints-verl.txt torch
	.venv-verl/bin/python -m pip install --quiet --constraint constraints-verl.txt --editable '.[verl]' pytest beartype
	@touch $@

clean:
	rm -rf .venv .venv-trl-* .venv-verl out build
