# Two commands do everything on a machine with only Python and make:
#   make demo    runs the main job
#   make test    lints, type-checks and runs every test
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# One BLAS thread a process: more of them only fight over the cores that the tests share.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1
JOBS ?= 2

.PHONY: demo test lint fast bench clean

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
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal

fast: $(BIN)/.dev
	$(BIN)/python -m pytest -n $(JOBS) -m "not slow"

bench: $(BIN)/.dev
	$(BIN)/python bench/run.py

clean:
	rm -rf $(VENV) demo results .pytest_cache .mypy_cache .ruff_cache .hypothesis
