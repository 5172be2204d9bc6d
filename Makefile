# Two commands do everything on a machine with only Python and make:
#   make demo    runs the main job
#   make test    lints, type-checks and runs all tests and the examples in docstrings
# and two more go further, as .ci/run does:
#   make test-heavy      thousands of random problems, real data under several BLAS kernels
#   make test-kernels    what depends on rounding, under each of OpenBLAS's kernels and with two threads
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# One BLAS thread a process: more of them only fight over the cores that the tests share.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1
JOBS ?= 2

.PHONY: demo test test-heavy test-kernels lint fast bench clean

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

lint: $(BIN)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not heavy"

# make test-heavy ARGS="--fuzz-size 100000" runs a night's worth of random problems
test-heavy: $(BIN)/.dev
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m heavy tests $(ARGS)

# OpenBLAS chooses its kernel by the processor, and every kernel rounds in its own way. Any x86-64 processor of the last
# ten years can run the first two; the third needs AVX-512.
KERNELS ?= Prescott Haswell $(shell grep -q avx512f /proc/cpuinfo 2>/dev/null && echo SkylakeX)
NUMERICAL ?= -m "numerical and not slow and not heavy" tests
TWO_THREADS := tests/test_solvers.py tests/test_estimators.py tests/test_single_precision.py tests/test_reference.py
test-kernels: $(BIN)/.dev
	for kernel in $(KERNELS); do echo "OPENBLAS_CORETYPE=$$kernel"; \
		OPENBLAS_CORETYPE=$$kernel $(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal $(NUMERICAL) || exit 1; done
	OMP_NUM_THREADS=2 OPENBLAS_NUM_THREADS=2 $(BIN)/python -m pytest -q -n 1 -m "not heavy" $(TWO_THREADS)

fast: $(BIN)/.dev
	$(BIN)/python -m pytest -n $(JOBS) -m "not slow and not heavy"

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
	rm -rf $(VENV) $(BENCH) demo results .pytest_cache .mypy_cache .ruff_cache .hypothesis
