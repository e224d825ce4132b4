"""A file as a query: the table's columns by number, over an entry of FROM that stands for the rows of the file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.expr.defaults import null_of
from pgrepl.expr.tree import Column, Const, Expr, Query, RangeRef, Rte, RteKind, Target, Var
from pgrepl.types import oids

if TYPE_CHECKING:
    from pgrepl.query.outside import OutsideRows
    from pgrepl.writing.copy.target import CopyTarget

_NAME = "*FILE*"


def file_query(target: CopyTarget, columns: Sequence[Column], exprs: Mapping[int, Expr], rows: OutsideRows) -> Query:
    """`columns` are those of the file, `exprs` the values of the table's columns, by attnum. The WHERE condition sees
    these values."""
    entry = Rte(RteKind.VALUES, _NAME, tuple(columns), alias=_NAME, rows=rows)
    outputs = []
    for column in target.relation.attributes:
        value = exprs.get(column.num)
        if value is None:
            value = Const(oids.INT4) if column.dropped else null_of(column)
        outputs.append(Target(value, column.name, column.num))
    query = Query(tuple(outputs), (entry,), (RangeRef(1),))
    if target.where is None:
        return query
    inner = Rte(RteKind.SUBQUERY, _NAME, query.columns, alias=_NAME, subquery=query)
    passed = tuple(replace(output, expr=_var(output.expr, output.resno)) for output in outputs)
    return Query(passed, (inner,), (RangeRef(1),), target.where)


def _var(expr: Expr, number: int) -> Var:
    return Var(expr.type, typmod=expr.typmod, collation=expr.collation, varno=1, attnum=number)
