# Everything runs from .venv in this folder; both commands set it up on a fresh machine.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo credit-demo package-test test test-fast test-transformers test-hostile test-durability test-busy test-gpu test-torchvision test-trl test-verl lint types docs pinhole pinhole-half card results bench peers browser clean

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

# Another transformers than that of constraints.txt, in an environment of its own: the oldest that pyproject.toml allows,
# or the newest there is with TRANSFORMERS= on the command line. Families that came later are not in the oldest one.
TRANSFORMERS ?= ==5.5.0
TRANSFORMERS_TESTS := tests/attribution tests/tracing tests/methods tests/report tests/lvlm/test_seam.py \
 tests/lvlm/test_delta_rule.py tests/lvlm/test_load.py
test-transformers:
	$(PYTHON) -m venv .venv-transformers
	sed -E '/^(transformers|tokenizers|huggingface_hub|trl)==/d' constraints.txt > .venv-transformers/constraints.txt
	.venv-transformers/bin/python -m pip install --quiet --constraint .venv-transformers/constraints.txt torch
	.venv-transformers/bin/python -m pip install --quiet --constraint .venv-transformers/constraints.txt --editable . \
	 'transformers$(TRANSFORMERS)' pytest beartype pyarrow hypothesis
	OMP_NUM_THREADS=1 .venv-transformers/bin/python -m pytest -m "not slow and not browser" $(TRANSFORMERS_TESTS)

# verl allows older transformers only, so it has an environment of its own.
VERL_PYTEST := OMP_NUM_THREADS=1 .venv-verl/bin/python -m pytest -o filterwarnings=
# Also timm, which needs it, and what has to run with torchvision as without it. The torchvision of PyPI is built for
# CUDA; the plugin lets it be imported beside the CPU build of PyTorch.
WITH_TORCHVISION := llama4 or cohere2_vision or kimi_k25 or molmo2 or lfm2_vl or nemotron_h_omni or minimax_m3_vl or fast_vlm or perception_lm or pinhole or TestRefusals
test-torchvision: .venv/installed .torchvision/installed
	PYTHONPATH=.torchvision:tests $(BIN)/python -m pytest -q -p support.torchvision_cpu tests/lvlm/test_families.py tests/lvlm/test_probing.py -k "$(WITH_TORCHVISION)"

.torchvision/installed: constraints.txt
	$(BIN)/python -m pip install --quiet --no-deps --target .torchvision torchvision==0.28.0 timm==1.0.31
	@touch $@

test-verl: .venv-verl/installed
	$(VERL_PYTEST) tests/attribution/test_pipeline.py tests/credit/test_credit.py tests/credit/test_verl_batch.py
	$(VERL_PYTEST) tests/credit/test_verl.py

# Build the wheel and the sdist, install the wheel into an environment of its own, and use it outside this folder.
package-test: .venv/installed-dev
	$(BIN)/python scripts/package_test.py

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

# The reference pages that come from the code, and the site. Strict: a warning is an error.
docs: .venv/installed-docs
	$(BIN)/python scripts/reference.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "Open site/index.html in a browser."

bench: .venv/installed
	$(BIN)/python bench/overhead.py

# Other packages beside ours, in an environment of their own: they bring many dependencies.
peers: .venv-peers/installed
	.venv-peers/bin/python bench/peers.py

# Every set-up path goes through constraints.txt: with an open range, pip would fetch the newest torch there is.
.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	@touch $@

.venv/installed-dev: .venv/installed
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

.venv/installed-docs: .venv/installed
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
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

.venv-peers/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet --constraint constraints.txt torch
	.venv-peers/bin/python -m pip install --quiet --constraint constraints.txt --editable '.[peers]'
	@touch $@

clean:
	rm -rf .venv .venv-trl-* .venv-verl .venv-peers .venv-transformers out build site
