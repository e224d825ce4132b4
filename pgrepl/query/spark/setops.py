"""UNION, INTERSECT and EXCEPT.

If Spark's equality of the values is PostgreSQL's, Spark's own operations are used. Otherwise the rows of both sides are
grouped by keys, and counted: `INTERSECT ALL` keeps the smaller number of each, `EXCEPT ALL` the difference.
"""

from __future__ import annotations

from pgrepl.expr import spark as expressions
from pgrepl.expr import tree
from pgrepl.expr.casts import Context as CastContext
from pgrepl.expr.coerce import coerce_to_target
from pgrepl.expr.scope import Scope
from pgrepl.expr.spark import Sql
from pgrepl.expr.spark.sql import form_type
from pgrepl.expr.tree import Column, RangeRef, SetOperation
from pgrepl.query.spark.job import Text
from pgrepl.query.spark.level import Level
from pgrepl.sql.nodes import CoercionForm, SetOp


def set_operation(level: Level) -> Text:
    assert level.query.set_operation is not None
    return _part(level, level.query.set_operation)


def _part(level: Level, part: SetOperation | RangeRef) -> Text:
    if isinstance(part, RangeRef):
        nested = level.query.rtable[part.varno - 1].subquery
        assert nested is not None
        return level.inside(nested).text()
    left, right = side(level, part.left, part.columns), side(level, part.right, part.columns)
    types = tuple(form_type(c.type, c.typmod) for c in part.columns)
    if not part.columns or all(_is_plain(level, column) for column in part.columns):
        word = f"{_WORDS[part.op]}{' ALL' if part.all else ''}"
        return Text(f"({left}) {word} ({right})", types)
    return Text(_counted(level, part, left, right), types)


def side(level: Level, part: SetOperation | RangeRef, columns: tuple[Column, ...]) -> str:
    """One side of an operation, with these columns."""
    return _as_columns(level, _part(level, part), _columns(level, part), columns)


_WORDS = {SetOp.UNION: "UNION", SetOp.INTERSECT: "INTERSECT", SetOp.EXCEPT: "EXCEPT"}


def _columns(level: Level, part: SetOperation | RangeRef) -> tuple[Column, ...]:
    if isinstance(part, SetOperation):
        return part.columns
    nested = level.query.rtable[part.varno - 1].subquery
    assert nested is not None
    return nested.columns


def _as_columns(level: Level, text: Text, given: tuple[Column, ...], wanted: tuple[Column, ...]) -> str:
    """One side with the lake forms of the operation's columns: an integer beside a numeric becomes one."""
    alias = level.job.name("x")
    columns = text.columns(alias)
    if not wanted:
        return text.text

    def names(node: tree.Expr) -> Sql | None:
        return columns[node.attnum] if isinstance(node, tree.Var) else None

    scope = Scope(level.job.session)
    items = []
    for number, (own, column) in enumerate(zip(given, wanted, strict=True), 1):
        expr: tree.Expr = tree.Var(own.type, typmod=own.typmod, collation=own.collation, attnum=number)
        if own.type != column.type:
            form = CoercionForm.IMPLICIT_CAST
            cast = coerce_to_target(scope, expr, own.type, column.type, column.typmod, CastContext.IMPLICIT, form, -1)
            expr = expr if cast is None else cast
        value = expressions.to_value(expr, names, level.job.statement)
        items.append(f"{expressions.to_form(value, column.type, column.typmod)} AS c{number}")
    return f"SELECT {', '.join(items)} FROM ({text.text}) AS {alias}"


def _key(level: Level, column: Column, text: str) -> str:
    holder = tree.Var(column.type, typmod=column.typmod, collation=column.collation, attnum=1)

    def names(node: tree.Expr) -> Sql | None:
        return Sql(text, form_type(column.type, column.typmod)) if isinstance(node, tree.Var) else None

    return expressions.equal_key(holder, names, level.job.statement)


def _is_plain(level: Level, column: Column) -> bool:
    return _key(level, column, "c") == "c"


def _counted(level: Level, part: SetOperation, left: str, right: str) -> str:
    if part.op is SetOp.UNION and part.all:
        return f"({left}) UNION ALL ({right})"
    alias = level.job.name("y")
    keys = ", ".join(_key(level, column, f"{alias}.c{n}") for n, column in enumerate(part.columns, 1))
    names = [f"c{n}" for n in range(1, len(part.columns) + 1)]
    both = f"(SELECT *, 1 AS l FROM ({left})) UNION ALL (SELECT *, 0 AS l FROM ({right}))"
    first = ", ".join(
        f"coalesce(any_value({alias}.{n}) FILTER (WHERE {alias}.l = 1), any_value({alias}.{n})) AS {n}" for n in names
    )
    counted = f"SELECT {first}, sum({alias}.l) AS m, sum(1 - {alias}.l) AS n FROM ({both}) AS {alias} GROUP BY {keys}"
    listed = ", ".join(f"z.{name}" for name in names)
    if part.op is SetOp.UNION:
        return f"SELECT {listed} FROM ({counted}) AS z"
    if not part.all:
        test = "z.n > 0" if part.op is SetOp.INTERSECT else "z.n = 0"
        return f"SELECT {listed} FROM ({counted}) AS z WHERE z.m > 0 AND {test}"
    number = "least(z.m, z.n)" if part.op is SetOp.INTERSECT else "z.m - z.n"
    return (
        f"SELECT {listed} FROM ({counted}) AS z LATERAL VIEW explode(sequence(1L, {number})) v AS i WHERE {number} > 0"
    )
