"""A system table is declared as the class of its rows; the SQLAlchemy table is made when somebody first asks for it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

import pytest

from pgrepl.catalog import declarative
from pgrepl.catalog.declarative import Int4, SystemRow, Varchar, VersionedRow


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """What a test declares is no table of a catalog."""
    yield
    for each in [each for each in declarative.every if each.name.startswith("declared_")]:
        declarative.every.remove(each)
        if each.name in declarative.metadata.tables:
            declarative.metadata.remove(each.core())


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
    assert [column.name for column in declared_versioned.__table__.core().columns] == list(row._fields)


def test_several_threads_ask_for_a_table_at_once() -> None:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    problems: list[BaseException] = []
    try:
        for number in range(20):
            columns = {f"c{n}": "Int4" for n in range(30)}
            table = declarative.SystemTable(f"declared_at_once_{number}", columns, (), (), None, versioned=False)
            declarative.every.append(table)
            together = threading.Barrier(4)

            def ask() -> None:
                together.wait()  # noqa: B023  the threads have ended before the next round
                try:
                    assert table.core().c.c1.name == "c1"  # noqa: B023
                except BaseException as problem:
                    problems.append(problem)

            threads = [threading.Thread(target=ask) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    finally:
        sys.setswitchinterval(before)
    assert problems == []
