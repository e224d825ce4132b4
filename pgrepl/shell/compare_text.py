"""What `pgrepl compare` and `pgrepl repair` print: lines for a person, or JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.types.lsn import lsn_text

if TYPE_CHECKING:
    from pgrepl.replication.comparison.compare import Comparison
    from pgrepl.replication.comparison.found import Difference, TableComparison
    from pgrepl.replication.comparison.repair import Repaired

_LONGEST = 60  # characters of a value


def lines(found: Comparison, most: int | None = None) -> Iterator[str]:
    """`most`: differences that are shown of a table."""
    yield f'subscription "{found.subscription}": compared at {lsn_text(found.lsn)}'
    for table in found.tables:
        yield from _table(table, most)


def _table(found: TableComparison, most: int | None) -> Iterator[str]:
    if found.error is not None:
        yield f"{found.name}: could not be told: {found.error.message}"
        for label, text in (("DETAIL", found.error.report.detail), ("HINT", found.error.report.hint)):
            if text:
                yield f"  {label}:  {text}"
        return
    if found.is_equal:
        yield f"{found.name}: equal, {_counted(found.rows_here, 'row')}"
    else:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in found.counts.items() if count)
        least = "" if found.is_complete else "at least "
        there, here = f"{found.rows_there:,}", f"{found.rows_here:,}"
        yield f"{found.name}: {least}{kinds}, of {there} rows at the publisher and {here} here"
    if found.known:
        yield f"  left out: {found.known:,} of {found.pieces:,} pieces, which were equal before"
    for text in found.unjudged:
        yield f"  not compared: {text}"
    for each in found.differences[:most]:
        yield f"  {each.kind:<9}  {_named(found, each)}{''.join(_columns(found, each))}"
    if most is not None and len(found.differences) > most:
        yield f"  and {len(found.differences) - most:,} more"
    if not found.is_complete:
        yield f"  and more, in {_counted(len(found.differing), 'piece')} that differ"


def _named(found: TableComparison, difference: Difference) -> str:
    names = found.key or found.columns
    values = dict(zip(found.columns, difference.texts, strict=True))
    return ", ".join(f"{name}={_value(values[name])}" for name in names)


def _columns(found: TableComparison, difference: Difference) -> Iterator[str]:
    if difference.here is None or difference.there is None:
        return
    for number, place in enumerate(difference.differing()):
        here, there = _value(difference.here[place]), _value(difference.there[place])
        yield f"{': ' if not number else '; '}{found.columns[place]} is {here} instead of {there}"


def _value(text: str | None) -> str:
    if text is None:
        return "NULL"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def repaired_line(done: Repaired) -> str:
    counts = f"{_counted(done.inserted, 'row')} inserted, {done.deleted:,} deleted, {done.updated:,} updated"
    slot = "" if done.new_slot is None else f'; the subscription goes on from its new slot "{done.new_slot}"'
    return f"repaired at {lsn_text(done.lsn)}: {counts}{slot}"


# --- JSON -------------------------------------------------------------------------------------------------------------


def as_json(found: Comparison, **more: Any) -> str:
    answer = {
        "subscription": found.subscription,
        "lsn": lsn_text(found.lsn),
        "snapshot": found.snapshot,
        "equal": found.is_equal if found.is_told else None,
        **more,
        "tables": [_table_facts(table) for table in found.tables],
    }
    return json.dumps(answer, ensure_ascii=False, indent=2)


def repaired_facts(done: Repaired | None) -> dict[str, Any] | None:
    if done is None:
        return None
    counts = {"inserted": done.inserted, "deleted": done.deleted, "updated": done.updated}
    return {"lsn": lsn_text(done.lsn), **counts, "new_slot": done.new_slot}


def _table_facts(found: TableComparison) -> dict[str, Any]:
    if found.error is not None:
        report = found.error.report
        error = {
            "sqlstate": found.error.sqlstate,
            "message": report.message,
            "detail": report.detail,
            "hint": report.hint,
        }
        return {"table": found.name, "equal": None, "error": error}
    return {
        "table": found.name,
        "equal": found.is_equal,
        "publisher_rows": found.rows_there,
        "subscriber_rows": found.rows_here,
        **found.counts,
        "complete": found.is_complete,
        "pieces": found.pieces,
        "left_out": found.known,
        "not_compared": list(found.unjudged),
        "key": list(found.key),
        "differences": [_facts(found.columns, found.key, each) for each in found.differences],
    }


def _facts(columns: Sequence[str], key: Sequence[str], difference: Difference) -> dict[str, Any]:
    values = dict(zip(columns, difference.texts, strict=True))
    facts: dict[str, Any] = {"kind": difference.kind, "key": {name: values[name] for name in key or columns}}
    if difference.here is not None and difference.there is not None:
        facts["columns"] = {
            columns[place]: {"publisher": difference.there[place], "subscriber": difference.here[place]}
            for place in difference.differing()
        }
    return facts
