"""The places of a cursor's rows, for WHERE CURRENT OF (execCurrentOf)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pgrepl.expr.tree import Query, RangeRef, Target, Var
from pgrepl.query.rowset import passing_rows
from pgrepl.query.tables import is_user_table
from pgrepl.types import oids

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

Row = Sequence[Any]


class Standing:
    """tableoid and ctid of each row in each of the tables."""

    def __init__(self, is_marked: bool) -> None:
        self.is_marked = is_marked  # rows are locked: of these tables alone
        self.relids: list[int] = []
        self.places: list[Row] = []  # of each row that is known

    def noted(self, rows: Iterator[Row], width: int) -> Iterator[Row]:
        """The rows without their places, which are noted."""
        for row in rows:
            if self.relids:
                self.places.append(row[width:])
                row = row[:width]
            yield row


def placed_rows(session: Session, query: Query) -> tuple[Standing, Iterator[Row]]:
    """The rows of a cursor's query, and where they stand as they are read."""
    standing = Standing(bool(query.row_marks))
    placed = _with_places(query, standing)

    def rows() -> Iterator[Row]:
        yield from standing.noted(iter(passing_rows(session, placed)), len(query.columns))

    return standing, rows()


def _with_places(query: Query, standing: Standing) -> Query:
    """The query with tableoid and ctid of each table whose rows the cursor stands on, behind its columns."""
    found = _scanned(query)
    if not found:
        return query
    targets = list(query.targets)
    resno = max((target.resno for target in targets), default=0)
    visible = [target for target in targets if not target.junk]
    junk = [target for target in targets if target.junk]
    more = []
    for varno in found:
        standing.relids.append(query.rtable[varno - 1].relid)
        for attnum, typoid in ((-6, oids.OID), (-1, oids.TID)):
            resno += 1
            more.append(Target(Var(typoid, varno=varno, attnum=attnum), "?column?", resno))
    return replace(query, targets=(*visible, *more, *junk))


def _scanned(query: Query) -> list[int]:
    """The tables of which each row of the query is a row: those that are locked, or the only one (execCurrentOf)."""
    plain = not (
        query.group or query.grouping_sets or query.having is not None or query.windows or query.has_aggregates
        or query.distinct is not None or query.set_operation is not None or query.has_target_srfs
    )  # fmt: skip
    if not plain:
        return []
    if query.row_marks:
        marked = dict.fromkeys(mark.varno for mark in query.row_marks)
        return [varno for varno in marked if is_user_table(query.rtable[varno - 1])]
    only = query.from_[0] if len(query.from_) == 1 else None
    if not isinstance(only, RangeRef) or not is_user_table(query.rtable[only.varno - 1]):
        return []
    return [only.varno]
