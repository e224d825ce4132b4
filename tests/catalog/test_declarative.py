"""A system table is declared as the class of its rows."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pgrepl.catalog.store import declarative
from pgrepl.catalog.store.declarative import Int4, SystemRow, Varchar, VersionedRow


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """What a test declares is no table of a catalog."""
    yield
    for each in [each for each in declarative.every if each.name.startswith("declared_")]:
        declarative.every.remove(each)


def test_a_row_knows_its_columns() -> None:
    class declared_plain(SystemRow, key=("a",)):
        a: Int4
        b: Varchar | None

    row = declared_plain((1, "x"))
    assert (row.a, row.b, tuple(row)) == (1, "x", (1, "x"))
    assert row._asdict() == {"a": 1, "b": "x"}
    assert row._replace(b=None) == declared_plain((1, None))
    assert repr(row) == "declared_plain(a=1, b='x')"
    with pytest.raises(AttributeError):
        row.a = 2


def test_a_versioned_row_has_its_snapshots_around_its_columns() -> None:
    class declared_versioned(VersionedRow, key=("a",)):
        a: Int4

    row = declared_versioned((7, 1, 3, None))
    assert (row.row_version, row.a, row.begin_snapshot, row.end_snapshot) == (7, 1, 3, None)
    assert tuple(declared_versioned.__table__.columns) == row._fields


def test_the_empty_catalog_has_the_tables_that_are_declared(tmp_path: Path) -> None:
    from pgrepl.catalog.store import ddl

    def made(path: Path) -> list[tuple[str, str]]:
        with closing(sqlite3.connect(path)) as file:
            return file.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()

    ddl.main(tmp_path / "empty.db")
    assert made(declarative.EMPTY_FILE) == made(tmp_path / "empty.db"), "run make tables"


@pytest.mark.parametrize("is_sqlite", [True, False])
def test_statements_are_worded_as_sqlalchemy_words_them(*, is_sqlite: bool) -> None:
    """For each system table: what is asked of it with `store` means what SQLAlchemy's own compiler makes of it."""
    from sqlalchemy import and_, bindparam, or_, select
    from sqlalchemy.dialects import postgresql, sqlite

    from pgrepl.catalog.store.ddl import tables
    from pgrepl.catalog.store.declarative import AS_OF, Statement

    made_by: Any = sqlite.dialect if is_sqlite else postgresql.dialect
    dialect = made_by(paramstyle="qmark")
    cores = {table.name: table for table in tables(is_sqlite=is_sqlite)}
    for declared in declarative.every:
        core, name = cores[declared.name], list(declared.columns)[-1 - 2 * declared.versioned]
        column = core.c[name]
        marks = [bindparam(mark, type_=column.type) for mark in ("x", "y", "z")]
        wanted = select(core).where(column == marks[0], column.in_(marks[1:]), column.is_not(None))
        shape = ((name, 1), (name, 2), (name, -1))
        if declared.versioned:
            now, begin, end = bindparam("s"), core.c.begin_snapshot, core.c.end_snapshot
            past = wanted.where(and_(begin <= now, or_(end.is_(None), end > now)))
            own = Statement("select", declared, (AS_OF,), shape, is_sqlite=is_sqlite)
            assert _plain(own.sql) == _plain(str(past.compile(dialect=dialect)))
            wanted = wanted.where(end.is_(None))
        own = Statement("select", declared, (), shape, is_sqlite=is_sqlite)
        assert _plain(own.sql) == _plain(str(wanted.compile(dialect=dialect)))
        assert own.names == [f"w_{name}", f"w_{name}_0", f"w_{name}_1"]


def _plain(text: str) -> str:
    """Without quotes, names of tables before columns, casts of parameters, and brackets."""
    text = re.sub(r"::[A-Z]+( WITH TIME ZONE)?(\(\d+\))?", "", text)
    return " ".join(re.sub(r'"|[()]|\b\w+\.', " ", text).split()).replace(" ,", ",")


VALUES = {
    "Json": [None, ["é", 1], {}, [], "null"], "Lsn": [None, 0, 2**63, 2**64 - 1], "Bool": [None, True, False],
    "Truth": [None, True, False], "Text": [None, "", "'\"%?"], "Float8": [None, 1.5, float("inf")], "Int8": [None, -5],
}  # fmt: skip


@pytest.mark.parametrize("kind", VALUES)
def test_a_value_comes_back_as_it_was_stored(kind: str) -> None:
    from pgrepl.catalog.store.declarative import Statement

    table = declarative.SystemTable(
        "declared_values", {"n": "Int4", "v": f"{kind} | None"}, (), (), None, versioned=False
    )
    insert = Statement("insert", table, ("n", "v"), (), is_sqlite=True)
    select = Statement("select", table, (), (("n", 1),), is_sqlite=True)
    with closing(sqlite3.connect(":memory:")) as link:
        link.execute("CREATE TABLE declared_values (n, v)")
        for number, value in enumerate(VALUES[kind]):
            link.execute(insert.sql, insert.bind({"n": number, "v": value}))
            ((_, found),) = link.execute(select.sql, select.bind({"w_n": number}))
            for place, read in select.readers:
                assert place == 1
                found = found if found is None else read(found)
            assert (found, type(found)) == (value, type(value))
