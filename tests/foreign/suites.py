"""The suites: what they need, what of their source is played, and how they are told where the server is."""

from __future__ import annotations

from pgrepl.ground.frozen import frozen

PLUGIN = "foreign_plugin"

# SQLAlchemy's suite begins with CREATE EXTENSION citext and hstore; tests of them are skipped where they are not
_NO_EXTENSIONS = """import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session):
    from sqlalchemy.dialects.postgresql import provision

    provision._extensions.clear()
"""


@frozen
class Suite:
    """A suite that pytest plays. `takes`: the files and folders of its source that are copied. In `arguments` and
    `variables` stand {host}, {port}, {database} and {uri}."""

    needs: tuple[str, ...]  # for pip; the first of them is what is tested
    takes: tuple[str, ...]
    arguments: tuple[str, ...]  # for pytest
    variables: dict[str, str]
    schemas: tuple[str, ...] = ()  # made beforehand
    plugin: str = ""  # of pytest
    is_distributed: bool = True  # is the suite in the source distribution?


SUITES = {
    "psycopg": Suite(
        needs=("psycopg[binary,pool]", "anyio", "pproxy", "dnspython"),
        takes=("tests", "pyproject.toml"),
        arguments=("tests", "-m", "not slow and not timing and not dns", "--ignore", "tests/test_typing.py"),
        variables={"PSYCOPG_TEST_DSN": "host={host} port={port} user=postgres dbname={database}"},
        is_distributed=False,
    ),
    "sqlalchemy": Suite(
        needs=("sqlalchemy", "psycopg[binary]"),
        takes=("test", "lib", "setup.cfg", "pyproject.toml"),
        arguments=("test/dialect/postgresql", "test/dialect/test_suite.py", "--dburi", "{uri}"),
        variables={},
        schemas=("test_schema", "test_schema_2"),
        plugin=_NO_EXTENSIONS,
    ),
    "asyncpg": Suite(
        needs=("asyncpg", "uvloop", "distro"),
        takes=("tests",),
        arguments=("tests", "--ignore", "tests/test__sourcecode.py", "--ignore", "tests/test__environment.py"),
        variables={"PGHOST": "{host}", "PGPORT": "{port}", "PGUSER": "postgres", "PGDATABASE": "postgres"},
    ),
}
