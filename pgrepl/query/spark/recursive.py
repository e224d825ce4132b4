"""WITH RECURSIVE, round by round: Spark runs the second term over the last round's rows until a round adds no row.

Between the rounds this process fetches the rows. A recursion over small tables, or under a LIMIT that may have to end
it, is Declined.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.engine import choose
from pgrepl.errors import Declined
from pgrepl.expr.opclasses import check_recursive_union
from pgrepl.expr.spark.sql import form_type
from pgrepl.expr.tree import Column, Cte, SetOperation
from pgrepl.query.engine_choice import extent_of
from pgrepl.query.shape import sees_outside
from pgrepl.query.spark.fetch import batches
from pgrepl.query.spark.level import Level, WithQuery
from pgrepl.query.spark.setops import side
from pgrepl.query.spark.shipped import ship
from pgrepl.types.values import row_hash_form

if TYPE_CHECKING:
    from collections.abc import Iterator

Row = tuple[Any, ...]

_SMALL = 500_000  # a recursive query that reads fewer rows is executed in this process


def recursive_query(level: Level, cte: Cte) -> WithQuery:
    job, operation = level.job, cte.query.set_operation
    _check(level, cte)
    assert isinstance(operation, SetOperation)
    check_recursive_union(job.session, operation)
    columns = operation.columns
    types = tuple(form_type(c.type, c.typmod) for c in columns)
    working = job.frame(ship(columns, _numbers(columns), ()))
    inner = level.inside(cte.query)
    first = side(inner, operation.left, columns)
    level.ctes[cte.name] = WithQuery(working, types)
    again = side(inner, operation.right, columns)
    every: list[Row] = []
    if job.apart is not None:
        seen: set[Any] | None = None if operation.all else set()
        found = _fresh(_rows(level, first, columns), columns, seen)
        while found:
            every += found
            job.replace_frame(working, ship(columns, _numbers(columns), found))
            found = _fresh(_rows(level, again, columns), columns, seen)
    return WithQuery(job.frame(ship(columns, _numbers(columns), every)), types)


def _check(level: Level, cte: Cte) -> None:
    operation = cte.query.set_operation
    if cte.search is not None or cte.cycle is not None or cte.query.ctes:
        raise Declined("SEARCH, CYCLE or WITH in a recursive query")
    if not isinstance(operation, SetOperation) or sees_outside(cte.query):
        raise Declined("a recursive query that depends on the row")
    around: Level | None = level
    while around is not None:
        if around.query.limit is not None:
            raise Declined("a recursive query under a LIMIT")
        around = around.parent
    session, context = level.job.session, level.job.context
    if not choose(session, lambda: extent_of(session, cte.query, context), limit=_SMALL).on_spark:
        raise Declined("a recursive query over few rows")


def _numbers(columns: Sequence[Column]) -> list[int]:
    return list(range(1, len(columns) + 1))


def _rows(level: Level, text: str, columns: Sequence[Column]) -> Iterator[Row]:
    frame = level.job.run(level.job.with_list() + text)
    for batch in batches(frame, columns, level.job.session.catalog.data_path, whole=True):
        yield from batch


def _fresh(rows: Iterable[Row], columns: Sequence[Column], seen: set[Any] | None) -> list[Row]:
    """The new rows; all of them in UNION ALL."""
    if seen is None:
        return list(rows)
    form = row_hash_form(column.type for column in columns)
    found = []
    for row in rows:
        key = form(row)
        if key not in seen:
            seen.add(key)
            found.append(row)
    return found
