"""Enum functions: enum_first, enum_last, enum_range."""

from __future__ import annotations

from pgrepl.errors import PgError
from pgrepl.expr.context import Call
from pgrepl.expr.functions.registry import Family
from pgrepl.types.arrays import PgArray, array_of
from pgrepl.types.builtin import base_type
from pgrepl.types.names import format_type
from pgrepl.types.text import read_text
from pgrepl.types.user_types import described

implements = Family()


def _labels(call: Call) -> tuple[int, list[str]]:
    """The enum of the first argument, whose value does not count, and its labels in order."""
    enum = base_type(call.argtypes[0])
    known = described(enum)
    if known is None:
        raise PgError("0A000", "could not determine actual enum type")
    return enum, [label.name for label in known.labels]


def _end(call: Call, place: int) -> str:
    enum, labels = _labels(call)
    if not labels:
        raise PgError("55000", f"enum {format_type(enum)} contains no values")
    found: str = read_text(labels[place], enum)  # refuses a new label that is not committed
    return found


@implements("enum_first", context=True)
def enum_first(call: Call, value: str | None) -> str:
    return _end(call, 0)


@implements("enum_last", context=True)
def enum_last(call: Call, value: str | None) -> str:
    return _end(call, -1)


@implements("enum_range_all", context=True)
def enum_range_all(call: Call, value: str | None) -> PgArray:
    return enum_range_bounds(call, None, None)


@implements("enum_range_bounds", context=True)
def enum_range_bounds(call: Call, lower: str | None, upper: str | None) -> PgArray:
    """The labels from one to another; NULL stands for the first or the last."""
    enum, labels = _labels(call)
    first = 0 if lower is None else labels.index(lower)
    last = len(labels) - 1 if upper is None else labels.index(upper)
    return array_of(enum, [read_text(label, enum) for label in labels[first : last + 1]])
