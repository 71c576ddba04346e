# make demo   answers from a real model, on a fresh machine with Python 3.11 or newer
# make test   every test
# make check  what CI asks beside the tests: style, types, layers, packages
# make lowest the tests again, with the lowest versions that the packages declare
# make bench  speed, memory and quality against other libraries: an hour; with ARGS=--quick ten minutes
# make clean  removes what these make

PYTHON ?= python3
VENV := .venv
PIP := $(VENV)/bin/python -m pip --disable-pip-version-check
INTEGRATIONS := $(patsubst %/pyproject.toml,%,$(wildcard integrations/*/pyproject.toml))
PACKAGES := . $(INTEGRATIONS)

.PHONY: demo test check lowest lowest-engine bench clean
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

# Each in an environment of its own: the adapters' lowest versions don't go together.
lowest: lowest-engine $(addprefix lowest-,$(notdir $(INTEGRATIONS)))

LOWEST = $(VENV)/lowest/$(@:lowest-%=%)
LOWEST_PIP = $(LOWEST)/bin/python -m pip --disable-pip-version-check install --quiet

lowest-engine: $(VENV)/bin/python
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST_PIP) --editable . -r tests/lowest.txt
	$(LOWEST)/bin/python -m pytest tests -m 'not weights' --ignore tests/together --ignore tests/test_examples.py $(ARGS)

lowest-%: integrations/%/tests/lowest.txt $(VENV)/bin/python
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST_PIP) --editable . --editable integrations/$* -r $<
	$(LOWEST)/bin/python -m pytest integrations/$* $(ARGS)

# Installed as users do, with its modules compiled to bytecode, which a start would do otherwise.
bench: $(VENV)/bench/installed
	$(VENV)/bench/bin/python -m pip --disable-pip-version-check install --quiet --no-deps --force-reinstall .
	$(VENV)/bench/bin/python -m benchmarks $(ARGS)

clean:
	rm -rf $(VENV) .demo .benchmarks dist

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

# Of its own, since the other libraries bring PyTorch.
$(VENV)/bench/installed: benchmarks/requirements.txt pyproject.toml | $(VENV)/bin/python
	@echo "Installing the engine and the libraries it is compared with into $(VENV)/bench …"
	$(PYTHON) -m venv $(VENV)/bench
	$(VENV)/bench/bin/python -m pip --disable-pip-version-check install --quiet . -r $<
	@touch $@
