"""Outer joins of catalogs that add nothing are left out, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgrepl.expr.analyse.analyze import analyze_query
from pgrepl.query.local.pull_up import pulled_up
from pgrepl.sql.nodes import SelectStmt
from pgrepl.sql.parser import parse
from tests.harness.played import Instance


@pytest.mark.parametrize(
    ("query", "left"),
    [
        ("{all} LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND a.attnum = d.adnum", "a"),
        ("SELECT a.attname FROM pg_type t RIGHT JOIN pg_attribute a ON t.oid = a.atttypid AND t.typname ~ 'x'", "a"),
        ("{all} LEFT JOIN (pg_type t JOIN pg_namespace n ON typnamespace = n.oid) ON {t}", "a"),
        ("{all} LEFT JOIN pg_type t ON {t} LEFT JOIN pg_namespace n ON n.oid = typnamespace", "a"),
        (
            "SELECT n.oid FROM pg_attribute a LEFT JOIN pg_type t ON {t} LEFT JOIN pg_namespace n ON n.oid = typowner",
            "atn",
        ),
        ("{all} LEFT JOIN pg_type t ON {t} WHERE t.typname IS NULL", "at"),
        ("{all} LEFT JOIN pg_type t ON {t}, LATERAL (SELECT t.typname FROM pg_am LIMIT 1) l", "atl"),
        ("{all} LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid", "ad"),
        ("{all} LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = d.oid::int", "ad"),
        ("{all} LEFT JOIN pg_type t ON t.oid > a.atttypid", "at"),
        ("{all} LEFT JOIN pg_type t ON t.oid IS NOT DISTINCT FROM a.atttypid", "at"),
        ("{all} LEFT JOIN (pg_type t JOIN pg_namespace n ON true) ON {t}", "atn"),
        ("{all} LEFT JOIN (pg_type t LEFT JOIN pg_cast n ON n.oid = t.oid) ON n.oid = a.atttypid", "atn"),
        ("{all} LEFT JOIN (pg_type t JOIN pg_cast n ON n.oid = t.oid AND 1 / n.oid::int > 0) ON {t}", "atn"),
        ("{all} FULL JOIN pg_type t ON {t}", "at"),
        ("{all} JOIN pg_type t ON {t}", "at"),
    ],
)
def test_joins_that_add_nothing_are_left_out(shared: Instance, query: str, left: str) -> None:
    (statement,) = parse(query.format(all="SELECT a.attname FROM pg_attribute a", t="t.oid = a.atttypid"))
    assert isinstance(statement.stmt, SelectStmt)
    session = shared.session("pub")
    session.transaction.begin_statement()
    merged = pulled_up(session, analyze_query(session, statement.stmt))
    session.transaction.end_statement()
    assert sorted(entry.name for entry in merged.rtable) == sorted(left)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Instance:
    return Instance(Path(tmp_path_factory.mktemp("shared")))
