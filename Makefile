# Every target works from a fresh clone: the first one that needs it makes .venv, a second run starts at once.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
COMPILED := $(wildcard src/tidelog/wire/*.pyx src/tidelog/wire/*.pxi src/tidelog/wire/*.pxd src/tidelog/wire/*.h)
PYTEST := $(BIN)/python -m pytest
# More workers than this spend their time starting.
WORKERS := -n auto --maxprocesses 4
# Each begins with tests that follow each other, so that what a module shares is made once.
PARALLEL := $(WORKERS) --dist worksteal
# The tests of a module stay together where they share a node of Apache Kafka.
BY_MODULE := $(WORKERS) --dist loadfile
WITHOUT_JAVA := --ignore tests/interop --ignore tests/spark
# Workers, commands and Spark's tasks are processes by the hundred: none compiles Python again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test lint check interop suites sim mutants chaos bench bench-spark clean

help: ## this list
	@echo "Tidelog: a Kafka-compatible replicated log in Python"
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo "Each makes its own .venv. Another interpreter: make PYTHON=python3.13 ..."

demo: $(INSTALLED) ## show what works today, in under a minute
	@$(BIN)/tidelog demo

test: $(INSTALLED) ## every test that needs nothing but Python, and Spark's where there is Java
	$(PYTEST) $(PARALLEL) $(WITHOUT_JAVA)
	$(PYTEST) tests/spark

check: lint ## what to run before a commit: lint and fast tests
	TIDELOG_QUICK=1 $(PYTEST) $(PARALLEL) $(WITHOUT_JAVA) -q -m "not slow"

lint: $(INSTALLED) ## style, types and architecture
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

interop: $(INSTALLED) ## against Apache Kafka 4.3.1 and real clients (Java, Maven, Go, kcat)
	@$(BIN)/python tests/interop/tools.py
	$(PYTEST) $(BY_MODULE) tests/interop

suites: $(INSTALLED) ## on each supported version of PySpark, in environments of their own (Java)
	@$(BIN)/python tests/interop/tools.py java
	@$(BIN)/python -m tests.suites

sim: $(INSTALLED) ## 300 simulated clusters, broken on purpose; some 5 minutes
	$(BIN)/tidelog simulate --seeds $(or $(SEEDS),1-300)

mutants: $(INSTALLED) ## seeds of the simulator that find each planted bug, searched afresh
	$(BIN)/python -m tests.sim.test_mutants

chaos: $(INSTALLED) ## kill, pause and cut off real nodes under load, for 3 minutes; longer: make chaos SECONDS=3600
	$(BIN)/python -m tests.chaos --seconds $(or $(SECONDS),180) $(if $(SEED),--seed $(SEED)) $(if $(APACHE),--apache)

bench: $(INSTALLED) ## the benchmarks, one after the other; fails where a target is missed
	@missed=; for benchmark in benchmarks/*.py; do echo "== $$benchmark"; $(BIN)/python $$benchmark || missed="$$missed $$benchmark"; done; \
	[ -z "$$missed" ] || { echo "missed a target:$$missed"; exit 1; }

bench-spark: $(INSTALLED) ## Spark reads and writes beside its own Kafka connector (Java, Maven); fails likewise
	@$(BIN)/python tests/interop/tools.py java mvn
	@$(BIN)/python -m benchmarks.spark

clean: ## remove .venv and everything built or cached
	rm -rf $(VENV) build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .cache
	rm -f src/tidelog/wire/*.so src/tidelog/wire/_records.c
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamp is touched last, so an interrupted installation is done again. A .venv that lacks pip or
# is too old (made by another tool, or broken half-way) is made anew.
$(INSTALLED): pyproject.toml setup.py requirements.txt $(COMPILED)
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) not found: Tidelog needs Python 3.11 or newer (Debian: apt install python3 python3-venv)"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$$($(PYTHON) --version) is too old: Tidelog needs Python 3.11 or newer; name one with make PYTHON=python3.11"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "$(PYTHON) cannot make virtual environments; install its venv module (Debian: apt install python3-venv)"; exit 1; }
	@$(BIN)/python -c 'import pip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || $(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@
