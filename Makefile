# Two commands for a bare machine with Python and make: `make demo` and `make test`.
# Everything is installed into .venv here; remove it to start afresh.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo listen test faults interop bench quality check format clean

demo: $(VENV)/.demo ## play the spoken sample as a microphone and read along over MCP
	@$(BIN)/python -m tests.demo

listen: $(VENV)/.demo ## the same with the real microphone, until Ctrl-C
	@$(BIN)/python -m tests.demo --microphone

test: $(VENV)/.dev ## run all tests
	@$(BIN)/python -m tests.requirements
	@$(BIN)/python -m pytest

faults: $(VENV)/.dev ## kill, fill, unplug and flood at length, about an hour and a half; says what it counted
	@$(BIN)/python -m tests.requirements
	@AMBIENT_FAULTS=long $(BIN)/python -m pytest -s tests/faults

interop: $(VENV)/.dev ## let programs that nobody here wrote look at ambient mcp
	@$(BIN)/python -m tests.interop.clients
	@$(BIN)/python -m tests.interop.tools

bench: $(VENV)/.dev ## print the figures; measure only while nothing else runs
	@$(BIN)/python -m tests.bench start
	@$(BIN)/python -m tests.bench reading
	@$(BIN)/python -m tests.bench live

quality: $(VENV)/.dev ## fail if the text of the bench's recordings got worse
	@$(BIN)/python -m tests.bench quality

check: $(VENV)/.dev ## format, lint and types; changes nothing
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(VENV)/.dev ## mend what the formatter and the linter can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove what the other targets made
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Ambient needs Python 3.11 or newer; say which: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
	  { echo "python venv is missing; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }

$(VENV)/.demo: $(VENV)/bin/python pyproject.toml
	@echo "installing into $(VENV) (a few minutes the first time) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[tiny-en]'
	@touch $@

$(VENV)/.dev: $(VENV)/bin/python pyproject.toml
	@echo "installing into $(VENV) (a few minutes the first time) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[tiny-en,dev]'
	@touch $@ $(VENV)/.demo
