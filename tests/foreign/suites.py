"""The suites: what they need, what of their source is played, and how they are told where the server is."""

from __future__ import annotations

from pathlib import Path

from pgrepl.frozen import frozen

PLUGIN = "foreign_plugin"

# what SQLAlchemy's package has for dialects of others
_SQLALCHEMY_FILES = {
    "conftest.py": 'import pytest\n\npytest.register_assert_rewrite("sqlalchemy.testing.assertions")\n\n'
    "from sqlalchemy.testing.plugin.pytestplugin import *\n",
    "test_suite.py": "from sqlalchemy.testing.suite import *\n",
    "setup.cfg": "[sqla_testing]\nrequirement_cls=sqlalchemy.testing.requirements:SuiteRequirements\n"
    "profile_file=profiles.txt\n[db]\n",
}
# SQLAlchemy's suite begins with CREATE EXTENSION citext and hstore; tests of them are skipped where they are not
_NO_EXTENSIONS = """import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session):
    from sqlalchemy.dialects.postgresql import provision

    provision._extensions.clear()
"""


@frozen
class Suite:
    """A suite that pytest plays. `takes`: the files and folders of its source that are copied; without a source `files`
    are written instead. In `arguments` and `variables` stand {host}, {port}, {database} and {uri}."""

    needs: tuple[str, ...]  # for pip
    takes: tuple[str, ...]
    arguments: tuple[str, ...]  # for pytest
    variables: dict[str, str]
    schemas: tuple[str, ...] = ()  # made beforehand
    files: dict[str, str] | None = None  # None: a source has to be given
    plugin: str = ""  # of pytest

    def put(self, source: Path | None) -> dict[str, str]:
        """The files to write where it is played."""
        if source is None and self.files is None:
            raise SystemExit("the package comes without its tests: name a folder with its source")
        return {PLUGIN + ".py": self.plugin, **((self.files or {}) if source is None else {})}


SUITES = {
    "psycopg": Suite(
        needs=("psycopg[binary,pool]", "anyio", "pproxy", "dnspython"),
        takes=("tests", "pyproject.toml"),
        arguments=("tests", "-m", "not slow and not timing and not dns", "--ignore", "tests/test_typing.py"),
        variables={"PSYCOPG_TEST_DSN": "host={host} port={port} user=postgres dbname={database}"},
    ),
    "sqlalchemy": Suite(
        needs=("sqlalchemy", "psycopg[binary]"),
        takes=("test", "setup.cfg", "pyproject.toml"),
        arguments=("test/dialect/postgresql", "test/dialect/test_suite.py", "--dburi", "{uri}"),
        variables={},
        schemas=("test_schema", "test_schema_2"),
        files=_SQLALCHEMY_FILES,
        plugin=_NO_EXTENSIONS,
    ),
    "asyncpg": Suite(
        needs=("asyncpg", "uvloop", "distro"),
        takes=("tests",),
        arguments=("tests", "--ignore", "tests/test__sourcecode.py", "--ignore", "tests/test__environment.py"),
        variables={"PGHOST": "{host}", "PGPORT": "{port}", "PGUSER": "postgres", "PGDATABASE": "{database}"},
    ),
}
