# Steelyard: everything here needs Python 3.11 or newer, make and a package index, nothing else.
#
#   make demo          set up and run the main job on this machine (result in demo-out/)
#   make test          set up, lint and run every test; one that fails is run once more, and named
#   make lint          ruff, mypy, import rules
#   make bench         run benchmarks/*.py   (B=name for one of them, QUICK=1 for a short run)
#   make up            start a server on this machine
#   make requirements  write docs/requirements.md: each requirement with the tests that prove it
#   make failures      induce failures, and write how they were told apart into docs/*/failures.md
#   make mutants       put each listed fault into the core and see which test notices
#   make soak          the long runs that `make test` leaves out
#
# PYTHON=/path/to/python3 chooses the interpreter, ARGS=... goes to the command behind a target.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2
ARGS ?=
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input install --quiet --progress-bar off
say = printf '==> %s\n'

.PHONY: help .venv demo test lint bench up requirements failures soak mutants
# Installing and testing share one environment and one machine: the targets of one call run in turn.
.NOTPARALLEL:

help:
	@sed -n 's/^#   make/  make/p' Makefile

# The environment. Two stamps, so that `make demo` installs no test tools; each is renewed when
# pyproject.toml changes, and both live in the folder they speak of.
.venv: $(VENV)/.test

$(VENV)/.core: pyproject.toml tools/venv.sh
	@$(say) "installing steelyard into $(VENV) (a minute or less)"
	@PYTHON="$${PYTHON:-}" bash tools/venv.sh $(VENV)
	@$(PIP) -e .
	@touch $@
	@$(say) "packages in $(VENV): $$($(BIN)/python -m pip --disable-pip-version-check list --format=freeze | wc -l)"

$(VENV)/.test: $(VENV)/.core
	@$(say) "installing the test tools into $(VENV)"
	@$(PIP) -e '.[test]'
	@touch $@

demo: $(VENV)/.core
	@$(say) "running the main job on this machine"
	@$(BIN)/steelyard demo $(ARGS)

up: $(VENV)/.core
	@$(BIN)/steelyard up $(ARGS)

lint: $(VENV)/.test
	@$(say) "ruff check"
	@$(BIN)/ruff check .
	@$(say) "mypy --strict"
	@$(BIN)/mypy
	@$(say) "import rules"
	@$(BIN)/lint-imports

test: lint
	@$(say) "pytest with $(WORKERS) workers"
	@$(BIN)/python -m pytest -n $(WORKERS) --reruns 1 -rsR $(ARGS)

soak: $(VENV)/.test
	@$(say) "the long runs"
	@$(BIN)/python -m pytest -m soak --timeout=0 -rs $(ARGS)

requirements: $(VENV)/.test
	@$(say) "docs/requirements.md"
	@$(BIN)/python -m tools.requirements

mutants: $(VENV)/.test
	@$(say) "faults of the core, each with the test that notices"
	@$(BIN)/python -m pytest -m "soak or not soak" tests/mutants -v --timeout=0 $(ARGS)

failures: $(VENV)/.test
	@$(say) "docs/en/failures.md, docs/zh/failures.md"
	@$(BIN)/python -m tools.failures

bench: $(VENV)/.test
	@shopt -s nullglob; \
	files=(benchmarks/$(or $(B),*).py); found=0; \
	for file in "$${files[@]}"; do \
	  case "$$file" in */_*|*/support.py) continue;; esac; \
	  found=1; $(say) "$$file"; \
	  $(BIN)/python "$$file" $(if $(filter 1 yes true,$(QUICK)),--quick) $(ARGS); \
	done; \
	if [ $$found = 0 ]; then echo "no benchmark named '$(or $(B),*)' in benchmarks/" >&2; exit 2; fi
