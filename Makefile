# make demo   the main job on a real example, and its result
# make quick  each room a little, without Spark: the inner loop (tests/quick.txt)
# make test   everything that must hold: ruff, mypy, vulture, pytest
# make lint   ruff, mypy and vulture (dead code) alone
# make bench  what is measured, beside what it is measured against
# make mutants  small changes to the code that decides, one at a time: a test has to notice each (tests/mutants)
# make compat the oldest and the newest releases of the libraries, each in an environment of its own
# make release the last commit as sdist, wheel, image file, formula, bill of materials and checksums in dist/, checked
# make docs   the documentation as a site in build/site
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# a command is a process of its own, and so are hundreds of tests: none of them compiles pgrepl again
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo quick test tests lint mutants bench compat release docs tables clean

# the release of pyspark that all tests are known to pass with, as in pyproject.toml's test
PYSPARK := 'pyspark<4.2'

# the grammar's tables and the empty catalog are made when the package is installed
GRAMMAR := hatch_build.py pgrepl/catalog/store/ddl.py pgrepl/sql/make_tables.py pgrepl/sql/keywords.py $(wildcard grammar/*.lark grammar/plpgsql/*.lark)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "pgrepl needs Python 3.10 or newer; this is " + sys.version.split()[0])'
	@$(PYTHON) -m venv $(VENV)

$(BIN)/pgrepl: pyproject.toml $(GRAMMAR) | $(BIN)/python
	@$(BIN)/pip install -qq --disable-pip-version-check --editable '.[demo]' $(PYSPARK)
	@touch $@

# all of it in one go: each installation makes the tables. Tests import a part of all these modules, and compile that
$(VENV)/.test: pyproject.toml $(GRAMMAR) | $(BIN)/python
	@$(BIN)/pip install -qq --disable-pip-version-check --no-compile --editable '.[demo,test]' $(PYSPARK)
	@touch $@ $(BIN)/pgrepl

demo: $(BIN)/pgrepl
	@PATH="$(CURDIR)/$(BIN):$$PATH" bash examples/demo.sh
	@PATH="$(CURDIR)/$(BIN):$$PATH" bash examples/large.sh

mutants: $(VENV)/.test
	$(BIN)/python -m tests.mutants

lint: $(VENV)/.test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m tests.house.dead_code

# two more than the usual two cores: some of them wait for a server, a JVM or the disk
# a test that waits for ever is named with where it waits, and fails
PYTEST := $(BIN)/pytest -n 4 --dist loadfile --no-loadscope-reorder -o faulthandler_timeout=600 \
	-o faulthandler_exit_on_timeout=true --max-worker-restart 0

quick: $(VENV)/.test
	$(PYTEST) @tests/quick.txt

# mypy and vulture take one core for a minute: the tests begin on the other meanwhile
test: $(VENV)/.test
	@$(MAKE) --no-print-directory --jobs 2 lint tests

tests: $(VENV)/.test
	$(PYTEST)

bench: $(VENV)/.test
	$(BIN)/python -m benchmarks

compat:
	PYTHON=$(PYTHON) tests/compat.sh oldest
	PYTHON=$(PYTHON) tests/compat.sh newest

release: $(VENV)/.test
	$(BIN)/python release/make.py

# in an environment of its own: nothing that pgrepl needs is in it
docs:
	$(PYTHON) release/site.py

tables: $(VENV)/.test
	$(BIN)/python -m pgrepl.sql.make_tables
	$(BIN)/python -m pgrepl.catalog.store.ddl

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build
