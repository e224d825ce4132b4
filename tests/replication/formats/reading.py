"""Reads bytes as a file of a format."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pgrepl.replication.formats.event import BadRecord, ChangeEvent, ColumnTypes, EventBlock, events_in
from pgrepl.replication.formats.registry import reader

_FRACTION = re.compile(r"(?<=^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\.\d+")
DATA = Path(__file__).parent / "data"
FILE = "in.txt"


def read(form: str, data: bytes | str, types: ColumnTypes | None = None, **options: str) -> list[ChangeEvent | str]:
    """The events; an error is its message. Both ways of reading must find the same."""
    text = data.encode() if isinstance(data, str) else data
    one_by_one = _all(lambda: reader(form, options, types).read(io.BytesIO(text), FILE))
    by_columns = _all(lambda: reader(form, options, types).blocks(io.BytesIO(text), FILE))
    assert by_columns == one_by_one
    return one_by_one


def _all(start: Callable[[], Any]) -> list[ChangeEvent | str]:
    found: list[ChangeEvent | str] = []
    events = start()
    while True:
        try:
            event = next(events)
        except StopIteration:
            return found
        except BadRecord as problem:
            found.append(f"{problem.sqlstate}: {problem}")
        else:
            found += [_plain(each) for each in (events_in(event) if isinstance(event, EventBlock) else [event])]


def _plain(event: ChangeEvent) -> ChangeEvent:
    """Timestamps without zeros at the end of their fractions: columns have them."""
    return replace(event, new=_row(event.new), old=_row(event.old))


def _row(row: Mapping[str, str | None] | None) -> dict[str, str | None] | None:
    if row is None:
        return None
    return {name: value and _FRACTION.sub(_shorter, value) for name, value in row.items()}


def _shorter(found: re.Match[str]) -> str:
    return found[0].rstrip("0").rstrip(".")


def changes(form: str, data: bytes | str, types: ColumnTypes | None = None, **options: str) -> list[Any]:
    """Each event as a tuple of what a test looks at: kind, table, new, old."""
    return [
        event if isinstance(event, str) else (event.kind, _name(event), event.new, event.old)
        for event in read(form, data, types, **options)
    ]


def _name(event: ChangeEvent) -> str | None:
    return event.table if event.schema is None else f"{event.schema}.{event.table}"


def typed(**columns: tuple[int, int]) -> ColumnTypes:
    """One table for all names."""
    known: Mapping[str, tuple[int, int]] = columns
    return lambda schema, table: known
