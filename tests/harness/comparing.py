"""Compares and repairs a subscription of a test's database."""

from __future__ import annotations

from typing import Any

from pgrepl.api.replication import comparer
from pgrepl.catalog.session.session import Session
from pgrepl.replication.comparison.compare import Comparer, Comparison, Options
from pgrepl.replication.comparison.found import Progress
from pgrepl.replication.comparison.repair import Repaired, Repairer

Found = list[tuple[str, str, dict[str, str | None], dict[str, tuple[str | None, str | None]]]]


def compare(session: Session, name: str = "s", **options: Any) -> Comparison:
    with comparer(session, name, Options(**options), Progress(), None, everywhere=False, kind=Comparer) as made:
        return made.compare()


def repair(session: Session, name: str = "s", between: Any = lambda: None, **options: Any) -> Repaired | None:
    """Repair what is found; `between` the look and the repair something is done."""
    with comparer(session, name, Options(**options), Progress(), None, everywhere=False, kind=Repairer) as made:
        found = made.look()
        between()
        return None if found.is_equal and made.new_slot is None else made.repair(found)


def differences(found: Comparison) -> Found:
    """Table, kind, key, and what differs: as it is here, and as it ought to be."""
    listed: Found = []
    for table in found.tables:
        assert table.error is None, table.error
        for each in table.differences:
            values = dict(zip(table.columns, each.texts, strict=True))
            key = {name: values[name] for name in table.key or table.columns}
            assert (each.here is None, each.there is None) == (each.kind == "missing", each.kind == "extra")
            columns = {
                table.columns[n]: (each.here[n], each.there[n])
                for n in each.differing()
                if each.here is not None and each.there is not None
            }
            listed.append((table.name, each.kind, key, columns))
    return sorted(listed, key=str)


def is_equal(session: Session, name: str = "s", **options: Any) -> bool:
    found = compare(session, name, **options)
    return differences(found) == [] and found.is_equal and found.is_told
