# make demo   answers from a real model, on a fresh machine with Python 3.11 or newer
# make test   every test
# make check  what CI asks beside the tests: style, types, layers, packages
# make clean  removes what these make

PYTHON ?= python3
VENV := .venv
PIP := $(VENV)/bin/python -m pip --disable-pip-version-check
INTEGRATIONS := $(patsubst %/pyproject.toml,%,$(wildcard integrations/*/pyproject.toml))
PACKAGES := . $(INTEGRATIONS)

.PHONY: demo test check clean
.DELETE_ON_ERROR:

demo: $(VENV)/demo.installed
	$(VENV)/bin/python examples/offline_rag.py $(ARGS)

test: $(VENV)/test.installed
	$(VENV)/bin/python -m pytest $(ARGS)

check: $(VENV)/test.installed
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports --no-logo
	$(VENV)/bin/python tests/packages.py $(PACKAGES)

clean:
	rm -rf $(VENV) .demo dist

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "needs Python 3.11 or newer: make PYTHON=python3.11 …")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/demo.installed: $(VENV)/bin/python pyproject.toml integrations/langchain/pyproject.toml examples/requirements.txt
	@echo "Installing the engine, its LangChain adapter and what the demo needs into $(VENV) …"
	$(PIP) install --quiet --editable . --editable ./integrations/langchain -r examples/requirements.txt
	@touch $@

$(VENV)/test.installed: $(VENV)/bin/python $(addsuffix /pyproject.toml,$(PACKAGES)) examples/requirements.txt
	$(PIP) install --quiet --upgrade 'pip>=25.1'
	$(PIP) install --quiet $(addprefix --editable ,$(PACKAGES)) --group dev -r examples/requirements.txt
	@touch $@
