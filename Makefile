# Every target sets up what it needs, once, in .venv. Run `make help` for a list.

PYTHON ?= python3
ARGS ?=

BIN := .venv/bin
READY := .venv/.ready
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules --no-print-directory
# Tests start hundreds of programs, each of which would compile all of its modules again.
unexport PYTHONDONTWRITEBYTECODE
.PHONY: help demo test test-all check bench crds build charts format lock clean kubernetes

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(READY) ## Roll a change out on a simulated fleet, and watch it
	@$(BIN)/echelon demo $(ARGS)

test: $(READY) ## Run the tests, minutes of them; ARGS="tests/hub -k watch" narrows them down
	@$(BIN)/python -m tests.environment
	@echo "==> tests"
	@$(BIN)/python -m pytest -q -n auto --dist worksteal $(ARGS)

test-all: $(READY) kubernetes ## Run them with real Kubernetes, and simulations for as long as they are worth it
	@ECHELON_FULL=1 ECHELON_REQUIRE_KUBERNETES=1 $(MAKE) test

kubernetes: $(READY) ## Build the Kubernetes programs that tests compare with, where there is Go
	@if [ -n "$${KUBEBUILDER_ASSETS:-}" ]; then echo "==> Kubernetes: the programs in $$KUBEBUILDER_ASSETS"; \
	elif ! $(BIN)/python tools/kubernetes/build.py --check >/dev/null 2>&1; then \
	  echo "==> building Kubernetes for the tests (a quarter of an hour, once)"; \
	  $(BIN)/python tools/kubernetes/build.py >/dev/null; fi

check: $(READY) ## Check style, types and the direction of imports
	@echo "==> ruff";         $(BIN)/ruff check --quiet . && $(BIN)/ruff format --quiet --check .
	@echo "==> mypy";         $(BIN)/mypy --no-error-summary
	@echo "==> import-linter"; $(BIN)/lint-imports --no-cache >.venv/imports.txt || { cat .venv/imports.txt; exit 1; }

bench: $(READY) ## Measure: the hub, the runtime, decisions, a fleet of a thousand
	@$(BIN)/python -m bench $(ARGS)

crds: $(READY) ## Print the CRDs that a hub needs and the policies about them, for kubectl apply
	@$(BIN)/echelon crds $(ARGS)

build: $(READY) ## Build the wheel, in dist
	@$(BIN)/python -m hatchling build --target wheel $(ARGS)

charts: $(READY) ## Write the Helm charts and the page of metrics anew
	@$(BIN)/python tools/charts.py

format: $(READY) ## Format the code and fix what can be fixed
	@$(BIN)/ruff check --quiet --fix . ; $(BIN)/ruff format .

lock: $(READY) ## Write requirements.txt anew from pyproject.toml
	@$(BIN)/uv pip compile --quiet --no-header --generate-hashes --all-extras --group dev \
	  --python-version 3.11 --universal pyproject.toml --output-file requirements.txt $(ARGS)
	@$(BIN)/uv pip compile --quiet --no-header --no-annotate --generate-hashes --extra fast --extra cel \
	  --python-version 3.11 --universal --constraint requirements.txt pyproject.toml --output-file container/requirements.txt
	@echo "requirements.txt is written; the next make installs it"

clean: ## Remove everything that is not source
	@rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Set-up, redone when what is to be installed has changed. The stamp comes last, so a broken set-up is begun again.
$(READY): requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "error: Echelon needs Python 3.11 or newer, and '$(PYTHON)' is $$($(PYTHON) --version 2>&1 || true)."; \
	  echo "       Name another: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; } >&2
	@$(BIN)/python -c '' 2>/dev/null || { echo "==> making .venv"; $(PYTHON) -m venv --clear .venv; }
	@echo "==> installing the locked dependencies"
	@$(PIP) install --no-compile --no-deps --require-hashes -r requirements.txt
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@
