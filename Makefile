# Every target calls `env` first; once that is done nothing here needs the network.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help env book html slides pdf execute lab export check bench bench-full test lint format clean

BIN := .venv/bin
PY := $(BIN)/python
SCRIPTS := "book/web/**/*.js" "book/_ext/*.cjs" "tests/web/*.mjs" "studies/*.mjs"
export PYTHONUNBUFFERED := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# threads that wait for each other leave a busy machine's cores to others soon
export GOMP_SPINCOUNT ?= 1000

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 18

env: .venv/.locked .venv/.project node_modules/.installed .venv/.browser ## install everything, once

# A half-made environment of an interrupted run is mended: pip goes on where it stopped, a broken one is made anew.
.venv/.locked: requirements.lock
	@if ! $(PY) -m pip --version >/dev/null 2>&1; then \
	  found=; \
	  for name in $${PYTHON:-} python3.11 python3.12 python3.13 python3; do \
	    if "$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found=$$name; break; fi; \
	  done; \
	  test -n "$$found" || { echo "make env: no Python 3.11 or later found; name one with PYTHON=..." >&2; exit 1; }; \
	  echo "making .venv with $$found"; rm -rf .venv; "$$found" -m venv .venv; \
	fi
	@echo "installing the packages of requirements.lock"
	@$(PY) -m pip install --progress-bar off -r requirements.lock | { grep -vE '^(Requirement already|Looking in)' || true; }
	@touch $@

.venv/.project: pyproject.toml .venv/.locked
	@$(PY) -m pip install --quiet --no-deps -e .
	@touch $@

node_modules/.installed: package.json
	@command -v npm >/dev/null || { echo "make env: npm is needed (Node.js 18 or later)" >&2; exit 1; }
	@npm install --no-package-lock --no-audit --no-fund --loglevel=error
	@touch $@

.venv/.browser: .venv/.locked
	@found() { $(PY) -c 'import sys; from tools.browser import chromium_path; sys.exit(not chromium_path())'; }; \
	if ! found && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "installing chromium"; \
	  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium; } >/dev/null || true; \
	fi; \
	found || echo "no chromium found: the browser tests will be skipped"
	@touch $@

book: env ## execute the chapters that changed, then render: _build/html
	@$(PY) -m tools.export --check
	@$(PY) -m tools.build --execute

html: env ## render the stored outputs: _build/html
	@$(PY) -m tools.build

slides: html ## slides for three lessons, as pages and as PDF: _build/slides
	@$(PY) -m tools.slides

pdf: env ## the whole book as one file to print, and the evening's chapters: _build/book.pdf, _build/evening.pdf
	@$(PY) -m tools.pdf

execute: env ## run chapters and store their outputs: make execute CH=59 (all without CH; REFRESH=1 renews timings, too)
	@$(PY) -m tools.execute $(or $(CH),--all)

lab: env ## open Jupyter in book/; saving a chapter exports it
	@$(BIN)/jupyter lab --config=tools/lab.py --notebook-dir=book

export: env ## write annotated/ from the chapters
	@$(PY) -m tools.export

check: env ## a minute before a commit: what changed since SINCE (or CH=33), and what that can break
	@$(PY) -m tools.check --changed $(if $(SINCE),--since $(SINCE)) $(if $(CH),--chapter $(CH))

bench: env ## compare speed and memory with other systems: some ten minutes, recorded in data/runs
	@$(PY) -m benchmarks

bench-full: html ## train on Multi30k first (25 minutes), then every table
	@$(PY) -m benchmarks quality training decoding memory gains kernels page

lint: env ## ruff, Prettier, and whether notebooks and package are as they should be
	@$(PY) -m tools.check --style

format: env ## let ruff, Prettier and the notebook cleaner put right what they can
	@status=0; \
	$(PY) -m tools.clean || status=1; \
	$(PY) -m tools.export || status=1; \
	$(BIN)/ruff format --quiet . || status=1; \
	$(BIN)/ruff check --fix --quiet . || status=1; \
	$(BIN)/ruff format --quiet . || status=1; \
	node_modules/.bin/prettier --write --log-level=warn $(SCRIPTS) || status=1; \
	exit $$status

test: env ## everything: lint, unit tests, chapters, the site in a browser
	@$(PY) -m tools.check

clean: ## remove what can be made again, except the environment
	@rm -rf _build .cache .pytest_cache .ruff_cache .hypothesis build
	@find . -name __pycache__ -not -path './.venv/*' -not -path './node_modules/*' -prune -exec rm -rf {} +
