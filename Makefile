# Two commands do everything on a machine with only Python and make:
#   make demo    runs the main job
#   make test    lints, type-checks and runs the tests and the examples in docstrings (under 15 minutes on two cores)
# make docs builds the documentation site (docs/_build/html), and two more go further, as .ci/run does:
#   make test-heavy      the slow tests: thousands of random problems, simulations, real data under several BLAS kernels
#   make test-numerical  what depends on rounding, under the BLAS kernel that OPENBLAS_CORETYPE names
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# One BLAS thread per process: more of them only fight over the cores that the tests share.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1
JOBS ?= 2

.PHONY: demo docs test-oldest test test-heavy test-numerical search lint bench clean

$(BIN)/.runtime: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[all]"
	touch $@

$(BIN)/.dev: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	touch $@ $(BIN)/.runtime

demo: $(BIN)/.runtime
	mkdir -p demo
	$(BIN)/python examples/demo.py
	$(BIN)/fairmargin frontier --demo -o demo/report.html

$(BIN)/.docs: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[docs]"
	touch $@

# Warnings are errors, the gallery is run, and every internal link is checked. Nothing is fetched from the network.
docs: $(BIN)/.docs
	$(BIN)/python -m sphinx -W --keep-going -q -j auto -b html docs docs/_build/html
	$(BIN)/python docs/check_site.py docs/_build/html

lint: $(BIN)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal --durations 20 -m "not slow and not heavy and not cluster"
	$(BIN)/python -m pytest -q -m "cluster and not slow and not heavy" tests

# make test-heavy ARGS="--fuzz-size 100000" runs a night's worth of random problems, "--fuzz-first 10000" others
test-heavy: $(BIN)/.dev
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "slow or heavy" tests $(ARGS)

# Other cases for the properties than those that every run draws; what it finds becomes a test of its own
search: $(BIN)/.dev
	$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal -m hypothesis --hypothesis-profile search $(or $(TESTS),tests)

# OpenBLAS chooses its kernel by the processor, and every kernel rounds in its own way: OPENBLAS_CORETYPE=Prescott make
# test-numerical runs what depends on that under another one, and OPENBLAS_NUM_THREADS=2 with more threads.
test-numerical: $(BIN)/.dev
	$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal -m "numerical and not slow and not heavy and not cluster" $(or $(TESTS),tests)

# The oldest versions that pyproject.toml allows, in an environment of their own.
OLDEST := .venv-oldest
$(OLDEST)/.ready: pyproject.toml packaging/oldest.py
	test -x $(OLDEST)/bin/python || $(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python packaging/oldest.py > $(OLDEST)/oldest.txt
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check -r $(OLDEST)/oldest.txt \
		"polars==1.0" "pyarrow==15.0" "pytest>=8.0" "hypothesis>=6.100" -e .
	touch $@

test-oldest: $(OLDEST)/.ready
	$(OLDEST)/bin/python -m pytest -q -m "not slow and not heavy and not data" $(or $(TESTS),tests/test_categories.py \
		tests/test_decisions.py tests/test_frames.py tests/test_io.py tests/test_losses.py tests/test_metrics.py \
		tests/test_sensitive.py tests/test_ties.py)

# The benchmarks have an environment of their own, with the peers. One that cannot be installed is reported.
BENCH := .venv-bench
$(BENCH)/.ready: bench/requirements.txt pyproject.toml
	test -x $(BENCH)/bin/python || $(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/python -m pip install --quiet --disable-pip-version-check -e ".[data,plot]" psutil
	grep -v '^#' bench/requirements.txt | while read peer; do \
		$(BENCH)/bin/python -m pip install --quiet --disable-pip-version-check "$$peer" || echo "no $$peer"; done
	touch $@

# make bench ARGS=--quick takes under 3 minutes, make bench ARGS="--only speed" repeats one section
bench: $(BENCH)/.ready
	$(BENCH)/bin/python bench/run.py $(ARGS)

clean:
	rm -rf $(VENV) $(BENCH) $(OLDEST) demo results docs/_build docs/gallery docs/reference/generated .pytest_cache .mypy_cache .ruff_cache .hypothesis
