"""Rows of a table in Python, without a JVM: for what is small, and for looking up keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.lake.bounds import Bound
    from pgrepl.lake.table import LakeTable


def rows(
    session: Session,
    table: LakeTable,
    attnums: Sequence[int],
    bounds: Sequence[Bound] = (),
    places: bool = False,
    snapshot: int | None = None,
) -> Iterator[tuple[Any, ...]]:
    """The rows of the table at the snapshot (None: as the running transaction sees it, its own writes included), in
    stable order: a tuple of the columns asked for, in that order, and last the Place if `places`.

    Rows outside the bounds may be among them: bounds only save work.
    """
    raise NotImplementedError


def lookup(
    session: Session,
    table: LakeTable,
    attnums: Sequence[int],
    keys: Sequence[tuple[Any, ...]],
    want: Sequence[int] = (),
    snapshot: int | None = None,
) -> list[tuple[int, tuple[Any, ...]]]:
    """The rows whose columns `attnums` equal one of `keys`: the key's number, the `want` columns and last the Place.

    Keys are compared as the types' default equality does (numeric 1.0 = 1, bpchar without trailing blanks). A key
    with NULL matches nothing; a key given twice is answered twice.
    """
    raise NotImplementedError
