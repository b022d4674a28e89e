# `make` lists the targets. demo and test set themselves up; the second time they start at once.

.DEFAULT_GOAL := help
SHELL := /bin/sh
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# The first Python that is new enough; PYTHON=... chooses another.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && \
	{ echo "$$p"; break; }; done)

SECONDS ?= 120
FOREVER ?=
SUMMARY ?=

.PHONY: help setup demo demo-kafka test test-kafka test-fast check bench chaos chaos-kafka explore clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo "  make demo SECONDS=60 FOREVER=1 SUMMARY=summary.json"

setup: $(STAMP) ## virtual environment with everything in it

$(STAMP): pyproject.toml constraints.txt
	@[ -n "$(PYTHON)" ] && \
	"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	|| { echo "bundle-controller needs Python 3.11 or newer: install one, or name it with" \
	"make PYTHON=/path/to/python." >&2; exit 1; }
	@[ -x $(BIN)/python ] || "$(PYTHON)" -m venv $(VENV) \
	|| { echo "No virtual environment could be made: on Debian, apt-get install python3-venv." >&2; \
	exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	-c constraints.txt -e '.[dev,kafka]'
	@touch $@

demo: $(STAMP) ## the real job and simulated brokers, two minutes
	@$(BIN)/bundlectl demo --seconds "$(SECONDS)" \
	$(if $(filter-out 0,$(FOREVER)),--forever) $(if $(SUMMARY),--summary "$(SUMMARY)")

demo-kafka: $(STAMP) ## the same on a real Kafka broker, fetched (44 MB, once) and started here
	@$(BIN)/bundlectl demo --kafka --seconds "$(SECONDS)" \
	$(if $(filter-out 0,$(FOREVER)),--forever) $(if $(SUMMARY),--summary "$(SUMMARY)")

test: $(STAMP) ## all tests that need no server
	@$(BIN)/bundlectl java
	$(BIN)/python -m pytest -m "not kafka and not chaos"

test-kafka: $(STAMP) ## tests on a real Kafka broker, fetched (44 MB, once) and started here
	@$(BIN)/bundlectl jars --broker >/dev/null
	$(BIN)/python -m pytest -m kafka

test-fast: $(STAMP) ## tests without Spark and without the slow ones
	$(BIN)/python -m pytest -m "not slow and not spark and not kafka and not chaos"

check: $(STAMP) ## lint, format, types, layers, house rules
	$(BIN)/ruff check --no-cache .
	$(BIN)/ruff format --no-cache --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/test_tidy.py

BENCHES := transport_append step strategies decide trigger latency

bench: $(STAMP) ## measurements; figures depend on the machine, ratios less
	@$(BIN)/bundlectl java
	@for name in $(foreach b,$(BENCHES),$(if $(wildcard bench/$(b).py),$(b))); do \
	echo "== bench.$$name"; $(BIN)/python -m "bench.$$name" || exit 1; done
	$(BIN)/python -m bench.trigger --brokers 1000

SEEDS ?= 10000
FIRST ?= 0

chaos: $(STAMP) ## the fault simulator: SEEDS runs from seed FIRST on
	$(BIN)/python -m controller.sim.chaos --seeds "$(SEEDS)" --first "$(FIRST)"

chaos-kafka: $(STAMP) ## brokers and controllers that die or sleep, on a real Kafka broker
	@$(BIN)/bundlectl jars --broker >/dev/null
	$(BIN)/python -m pytest -m chaos

explore: $(STAMP) ## every state of a small cluster, all scopes
	$(BIN)/python -m controller.sim.explore --full

clean: ## everything that can be made again, except checkpoints and data
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
