# Two commands matter: `make run` and `make test`. Each sets up what it needs, once.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
RUN_READY := $(VENV)/.run-ready
MADE := $(VENV)/.made
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt  # holds for build tools too

.PHONY: help run test lint types imports unit browser beside docs bench soak vectors clean

help:  ## say what can be made
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/' | expand -t 16

run: $(RUN_READY)  ## set up, then five made-up clinics at work, and the console
	@$(BIN)/cloister demo

test: $(READY)  ## set up, then run every check
	@tools/install-system-packages postgresql nats-server nodejs npm iproute2 chromium
	@tools/install-solid-server >/dev/null
	@tools/install-axe >/dev/null
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory -j 2 --output-sync=target unit beside

lint: $(READY)  ## style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)  ## mypy, strict
	$(BIN)/mypy

imports: $(READY)  ## packages import downwards only
	$(BIN)/lint-imports --no-logo

unit: $(READY)  ## tests and doctests
	$(BIN)/pytest -n 2 --ignore=tests/browser

# In a process of their own: Playwright keeps an event loop running.
browser: $(READY)  ## the console in chromium
	$(BIN)/pytest tests/browser

# What runs beside the unit tests, which wait more than they compute; it is over before they come to
# the services, whose tests look at times.
beside: $(READY)
	@$(MAKE) --no-print-directory types
	@$(MAKE) --no-print-directory imports
	@$(MAKE) --no-print-directory docs
	@$(MAKE) --no-print-directory browser

docs: $(READY)  ## the documentation site, warnings are errors
	@rm -rf docs/generated
	$(BIN)/sphinx-build -q -E -W --keep-going -j 2 -b html docs docs/_build/html
	@echo "docs: docs/_build/html/index.html"

bench: $(READY)  ## every benchmark, with the figures that the documents quote
	@$(BIN)/cloister bench all

soak: $(READY)  ## one hour of a federation whose services are killed and stopped; its figures
	@$(BIN)/cloister bench soak --json

vectors:  ## fetch English word vectors for experiments, once (118 MB)
	@tools/fetch-word-vectors

clean:  ## remove everything that make made
	rm -rf $(VENV) docs/_build docs/generated .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# The marker is written last: a .venv that was left half made is made again.
$(MADE):
	@tools/check-python $(PYTHON)
	@$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(RUN_READY): $(MADE) pyproject.toml constraints.txt
	@echo "Installing Cloister into $(VENV) ..."
	@$(BIN)/pip install -qq -e ".[console]"
	@echo "Compiling kernels, once ..."
	@$(BIN)/python -m cloister.app.demo.compiling
	@touch $@

$(READY): $(MADE) pyproject.toml constraints.txt
	@echo "Installing Cloister and its development tools into $(VENV) ..."
	@$(BIN)/pip install -qq -e ".[dev]"
	@touch $@
