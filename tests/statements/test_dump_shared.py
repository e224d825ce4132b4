"""Roles, databases and settings in a dump: played in an empty instance, it makes the same, to the letter."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from pgrepl.backend import open_session
from pgrepl.catalog.session.transaction import reading
from pgrepl.catalog.store.opening import open_catalog
from pgrepl.ground.errors import PgError
from pgrepl.sql.keywords import quote_identifier, quote_literal
from pgrepl.statements.definitions.shared import dump_shared
from pgrepl.statements.run import run
from tests.harness.dose import dose
from tests.harness.forked import pgrepl

NAMES = ("ann", "Bob's", 'a "quoted" one', "group", "dots.and spaces", "Ö", "x" * 63)
SETTINGS = (
    ("work_mem", ["'8MB'", "123"]),
    ("search_path", ['"$user", public', "a", '\'Odd, one\', "with ""quotes"""', "''"]),
    ("datestyle", ["'ISO, DMY'", "iso, mdy"]),
    ("my.own", ["'a b''c'", "'back\\slash'", "1.50", "on"]),
    ("statement_timeout", ["'1min'", "0"]),
)


def made(seed: int) -> list[str]:
    """Statements, of which some may fail."""
    pick = random.Random(seed)
    roles = [quote_identifier(name) for name in pick.sample(NAMES, 4)]
    databases = [quote_identifier(name) for name in pick.sample(("shop", "It's", "a=b", "re ports"), 2)]
    attributes = ("SUPERUSER", "CREATEDB", "CREATEROLE", "NOINHERIT", "LOGIN", "REPLICATION", "BYPASSRLS",
                  "CONNECTION LIMIT 3", "PASSWORD 'secret'", "VALID UNTIL '2031-05-06 07:08:09+02'")  # fmt: skip
    found = [f"CREATE ROLE {role} {' '.join(pick.sample(attributes, pick.randrange(5)))}" for role in roles]
    for _ in range(8):
        options = pick.sample(("ADMIN TRUE", "INHERIT FALSE", "SET FALSE", "INHERIT TRUE"), pick.randrange(3))
        role, member = pick.choice([*roles, "pg_monitor"]), pick.choice(roles)
        by = f" GRANTED BY {pick.choice(roles)}" if pick.random() < 0.4 else ""
        found.append(f"GRANT {role} TO {member}{' WITH ' if options else ''}{', '.join(options)}{by}")
    for database in databases:
        found.append(f"CREATE DATABASE {database} OWNER {pick.choice(roles)} {pick.choice(['', 'CONNECTION LIMIT 5'])}")
        found.append(f"GRANT {pick.choice(['CREATE', 'TEMP', 'ALL'])} ON DATABASE {database} TO {pick.choice(roles)}")
        found.append(f"REVOKE {pick.choice(['CONNECT', 'ALL'])} ON DATABASE {database} FROM PUBLIC")
        found.append(f"COMMENT ON DATABASE {database} IS {quote_literal(pick.choice(NAMES))}")
        found.append(f"ALTER DATABASE {database} {pick.choice(['IS_TEMPLATE true', 'ALLOW_CONNECTIONS false'])}")
    for _ in range(8):
        name, values = pick.choice(SETTINGS)
        role = pick.choice([*roles, "ALL"])
        in_database = pick.choice(["", f" IN DATABASE {pick.choice(databases)}"])
        found.append(f"ALTER ROLE {role}{in_database} SET {name} TO {pick.choice(values)}")
        name, values = pick.choice(SETTINGS)
        found.append(f"ALTER DATABASE {pick.choice([*databases, 'template1'])} SET {name} TO {pick.choice(values)}")
        name, values = pick.choice(SETTINGS)
        found.append(f"ALTER SYSTEM SET {name} = {pick.choice(values)}")
    found.append(f"COMMENT ON ROLE {roles[0]} IS 'it''s'")
    found.append(f"COMMENT ON DATABASE postgres IS {pick.choice(['NULL', quote_literal('mine')])}")
    return found


def dumped(folder: Path, statements: Sequence[str], *, some_fail: bool) -> tuple[list[str], int]:
    """The dump of a new instance in which these have been run, and how many of them succeeded."""
    done = 0
    with closing(open_catalog(folder)) as catalog, closing(open_session(catalog)) as session:
        for statement in statements:
            try:
                list(run(session, statement))
                done += 1
            except PgError:
                if not some_fail:
                    raise
        with reading(session):
            return list(dump_shared(session)), done


@pytest.mark.parametrize("seed", dose(range(12), 4))
def test_a_dump_of_what_a_dump_made_is_the_same(seed: int, tmp_path: Path) -> None:
    first, done = dumped(tmp_path / "first.db", made(seed), some_fail=True)
    assert done > 25
    assert dumped(tmp_path / "second.db", first, some_fail=False) == (first, len(first))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1300))
def test_long(seed: int, tmp_path: Path) -> None:
    test_a_dump_of_what_a_dump_made_is_the_same(seed, tmp_path)


def test_an_empty_instance_has_nothing_of_its_own(tmp_path: Path) -> None:
    assert dumped(tmp_path / "catalog.db", (), some_fail=False)[0] == [
        "ALTER ROLE postgres WITH SUPERUSER INHERIT CREATEROLE CREATEDB LOGIN REPLICATION BYPASSRLS;"
    ]


def test_only_a_superuser_may(tmp_path: Path) -> None:
    assert pgrepl("-qc", "CREATE ROLE ann LOGIN", cwd=tmp_path).returncode == 0
    done = pgrepl("dump", "--globals", "-U", "ann", cwd=tmp_path)
    assert (done.stdout, done.returncode) == ("", 1)
    assert done.stderr.startswith("ERROR:  permission denied to dump roles\n")


EVERYTHING = r"""
CREATE ROLE ann LOGIN PASSWORD 'secret';
CREATE DATABASE shop OWNER ann;
CREATE DATABASE "it's = odd";
CREATE DATABASE nothing_in_it;
\c shop
CREATE SCHEMA s AUTHORIZATION ann;
CREATE TABLE s.t (a int PRIMARY KEY);
CREATE PUBLICATION p FOR TABLES IN SCHEMA s;
\c "dbname='it\'s = odd'"
CREATE TABLE t (a int);
"""


def test_everything_is_made_again_by_a_script(tmp_path: Path) -> None:
    assert pgrepl("-q", "-v", "ON_ERROR_STOP=1", cwd=tmp_path, script=EVERYTHING).returncode == 0
    done = pgrepl("dump", "--all", cwd=tmp_path)
    assert "SCRAM-SHA-256" in done.stdout and "\\connect shop\n" in done.stdout
    assert "\\connect nothing_in_it" not in done.stdout and "CREATE TABLE public.t" in done.stdout
    assert "SCRAM-SHA-256" not in pgrepl("dump", "--globals", "--no-role-passwords", cwd=tmp_path).stdout
    (tmp_path / "all.sql").write_text(done.stdout)
    played = pgrepl("--catalog", "new.db", "-q", "-v", "ON_ERROR_STOP=1", "-f", "all.sql", cwd=tmp_path)
    assert (played.stderr, played.returncode) == ("", 0)
    assert pgrepl("dump", "--all", "--catalog", "new.db", cwd=tmp_path).stdout == done.stdout
