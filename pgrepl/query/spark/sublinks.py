"""Subqueries inside expressions.

Spark's IN with a subquery is never NULL. So it is used in conditions alone, where NULL is as good as false. Elsewhere
true, false and NULL are tested one after the other.
"""

from __future__ import annotations

from typing import Any

from pgrepl.errors import Declined
from pgrepl.expr import spark as expressions
from pgrepl.expr import tree
from pgrepl.expr.spark import Sql
from pgrepl.expr.tree import Expr
from pgrepl.expr.walk import walk_deep
from pgrepl.query.shape import depends, hashable_equalities
from pgrepl.query.spark.job import Text
from pgrepl.query.spark.level import Level
from pgrepl.sql.nodes import BoolOp, SubLinkType
from pgrepl.types import oids


def condition(level: Level, expr: Expr) -> str:
    """A condition for WHERE, in which NULL counts as false."""
    if isinstance(expr, tree.BoolExpr):
        if expr.op is not BoolOp.NOT:
            word = " AND " if expr.op is BoolOp.AND else " OR "
            return "(" + word.join(condition(level, arg) for arg in expr.args) + ")"
        (arg,) = expr.args
        if isinstance(arg, tree.SubLink):
            found = _in(level, arg)
            return f"(NOT {found})" if found is not None else level.form(expr)
    if isinstance(expr, tree.SubLink):
        found = _in(level, expr)
        if found is not None:
            return found
    return level.form(expr)


def sublink(level: Level, link: tree.SubLink) -> Sql:
    """A subquery as a value."""
    if link.query is None:
        raise Declined("an empty subquery")
    if link.kind is SubLinkType.EXISTS:
        return Sql(f"EXISTS ({_text(level, link).text})", "BOOLEAN")
    if link.kind is SubLinkType.EXPR:
        text = _text(level, link)
        return Sql(f"({text.text})", text.types[0])
    if link.kind is SubLinkType.ARRAY:
        return _array(level, link)
    if link.kind in (SubLinkType.ANY, SubLinkType.ALL):
        return _quantified(level, link)
    raise Declined("a comparison of rows with a subquery")


def _text(level: Level, link: tree.SubLink) -> Text:
    assert link.query is not None
    return level.inside(link.query).text()


def _array(level: Level, link: tree.SubLink) -> Sql:
    """ARRAY(SELECT …): the order of its rows is known only once it has been executed."""
    from pgrepl.query.local.sublinks import array_of_rows

    assert link.query is not None
    if depends(link.query):
        raise Declined("an array of a subquery that depends on the row")
    if level.job.apart is None:
        return expressions.to_value(tree.Const(link.type), level.names, level.job.statement)
    value = array_of_rows(link, level.job.apart(level.job.session, link.query))
    return expressions.to_value(tree.Const(link.type, value=value), level.names, level.job.statement)


def _in(level: Level, link: tree.SubLink) -> str | None:
    """`x IN (…)` for a condition, if the test is a plain equality."""
    if link.kind is not SubLinkType.ANY or link.test is None:
        return None
    pairs = _equalities(link.test)
    if pairs is None:
        return None
    text = _text(level, link)
    alias = level.job.name("q")
    names = _with_columns(level, text, alias)
    own = [level.key(expr) for expr, _ in pairs]
    other = [expressions.equal_key(level.flat(expr), names, level.job.statement) for _, expr in pairs]
    columns = ", ".join(f"{key} AS k{n}" for n, key in enumerate(other, 1))
    left = own[0] if len(own) == 1 else f"({', '.join(own)})"
    return f"({left} IN (SELECT {columns} FROM ({text.text}) AS {alias}))"


def _equalities(test: Expr) -> list[tuple[Expr, Expr]] | None:
    """The test's pairs of operands, if Spark compares them all as they are."""
    pairs = hashable_equalities(test)
    for own, other in pairs or ():
        if _has_params(own) or (own.type != other.type and not {own.type, other.type} <= oids.INTEGERS):
            return None
    return pairs


def _has_params(expr: Expr) -> bool:
    return any(isinstance(node, tree.Param) for node, _ in walk_deep(expr))


def _quantified(level: Level, link: tree.SubLink) -> Sql:
    """op ANY is true if the test is true for some row, else NULL if it is NULL for some, else false; op ALL is its
    mirror image."""
    assert link.test is not None
    text = _text(level, link)
    alias = level.job.name("q")
    names = _with_columns(level, text, alias)
    test = expressions.to_sql(level.flat(link.test), names, level.job.statement)
    some = f"EXISTS (SELECT 1 FROM ({text.text}) AS {alias} WHERE "
    pairs = _equalities(link.test)
    if link.kind is SubLinkType.ANY and pairs is not None and len(pairs) == 1:
        ((own, other),) = pairs
        mine = level.form(own)
        column = expressions.to_sql(level.flat(other), names, level.job.statement)
        unknown = f"({mine} IS NULL AND {some}true)) OR {some}{column} IS NULL)"
    else:
        unknown = f"{some}({test}) IS NULL)"
    if link.kind is SubLinkType.ANY:
        return Sql(f"CASE WHEN {some}{test}) THEN true WHEN {unknown} THEN NULL ELSE false END", "BOOLEAN")
    return Sql(f"CASE WHEN {some}NOT {test}) THEN false WHEN {unknown} THEN NULL ELSE true END", "BOOLEAN")


def _with_columns(level: Level, text: Text, alias: str) -> Any:
    """Names of an expression over this level and a subquery's columns."""

    def names(node: Expr) -> str | Sql | None:
        if isinstance(node, tree.Param):
            kind = text.types[node.number - 1]
            return Sql(f"{alias}.c{node.number}", kind)
        return level.names(node)

    return names
