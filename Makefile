# All that a developer or a first visitor types. Each target does its own set-up; the second time
# it costs nothing: .venv/.installed is newer than the two files that say what to install.

PYTHON ?=
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# `make demo SECONDS=60` and `SECONDS=60 make demo` are the same to make.
SECONDS ?= 120
FOREVER ?=
SUMMARY ?=
CONFIG ?=
ARGS ?=

DEMO_ARGS := --seconds $(SECONDS)
ifneq ($(filter-out 0 no false,$(FOREVER)),)
DEMO_ARGS += --forever
endif
ifneq ($(SUMMARY),)
DEMO_ARGS += --summary '$(SUMMARY)'
endif
ifneq ($(CONFIG),)
DEMO_ARGS += --config '$(CONFIG)'
endif

.DEFAULT_GOAL := help
.PHONY: help setup java demo test test-fast check format bench clean
.DELETE_ON_ERROR:

help: ## Show this help
	@echo "make <target>, where target is one of"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "Variables: SECONDS=$(SECONDS) FOREVER=1 SUMMARY=file.json CONFIG=file.toml (demo), ARGS=... (test), PYTHON=..."

setup: $(STAMP) java ## Make the virtual environment and install what is needed

$(STAMP): pyproject.toml constraints.txt
	@echo "setting up $(VENV) (the first time only)"
	@python="$$(scripts/find_python.sh '$(PYTHON)')" && { "$$python" -m venv $(VENV) || { \
		echo "bundle-controller: $$python cannot make $(VENV); on Debian: apt-get install python3-venv." >&2; \
		exit 1; }; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

java: # Spark needs it; says in one sentence what is missing
	@scripts/check_java.sh

demo: java $(STAMP) ## Watch the job balance a small simulated cluster (SECONDS, FOREVER, SUMMARY)
	@$(BIN)/bundlectl demo $(DEMO_ARGS)

test: java $(STAMP) ## Run all tests (ARGS="-k word" for some of them)
	@$(BIN)/python -m pytest $(ARGS)

test-fast: $(STAMP) ## Run the tests that need no Spark and little time
	@$(BIN)/python -m pytest -m "not spark and not slow" $(ARGS)

check: $(STAMP) ## Check style, types, layers and house rules
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m pytest -q tests/test_tidy.py

format: $(STAMP) ## Put the code into the common form
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .

# Scripts that can be run say so; the others are what they share.
BENCHES = $(patsubst bench/%.py,%,$(shell grep -l '^if __name__ == "__main__"' bench/*.py))

bench: java $(STAMP) ## Run the benchmarks; each prints its figures as min/median/max
	@set -e; for name in $(BENCHES); do echo "== python -m bench.$$name"; \
		$(BIN)/python -m bench.$$name; done

clean: ## Remove what builds and tests left behind (not the checkpoints, not data/)
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis \
		.import_linter_cache spark-warehouse metastore_db derby.log
	find controller streaming tests bench -name __pycache__ -type d -prune -exec rm -rf {} +
