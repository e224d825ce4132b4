"""Set-returning functions that Spark has: generate_series of whole numbers, and unnest."""

from __future__ import annotations

from pgrepl.errors import Declined
from pgrepl.expr import tree
from pgrepl.expr.spark.sql import form_type
from pgrepl.expr.tree import Expr, Rte
from pgrepl.expr.walk import returns_set
from pgrepl.query.bounds import value_of
from pgrepl.query.engine_choice import MANY, is_whole_series, length_of, series_ends
from pgrepl.query.spark.job import Text
from pgrepl.query.spark.level import Level
from pgrepl.types import oids
from pgrepl.types.builtin import proc_by_oid


def plain_series(level: Level, entry: Rte) -> Text | None:
    """generate_series of constants, as rows that Spark generates; None: a short series, or another function."""
    if len(entry.functions) != 1 or entry.ordinality:
        return None
    function = entry.functions[0]
    ends = series_ends(function, level.job.context)
    if ends is None or length_of(*ends) < MANY:
        return None
    start, stop, step = ends
    end = stop + (1 if step > 0 else -1)
    if not -(2**63) <= end < 2**63:
        return None
    kind = form_type(function.type)
    return Text(f"SELECT CAST(id AS {kind}) AS c1 FROM range({start}, {end}, {step})", (kind,))


def lateral_series(level: Level, entry: Rte) -> Text:
    """A set-returning function whose arguments are columns of the entries before it."""
    if len(entry.functions) != 1:
        raise Declined("functions side by side over columns")
    (function,) = entry.functions
    array, kind = as_array(level, function)
    if entry.ordinality:
        return Text(
            "SELECT e.value AS c1, CAST(e.place + 1 AS BIGINT) AS c2"
            f" FROM (SELECT posexplode({array}) AS (place, value)) AS e",
            (kind, "BIGINT"),
        )
    return Text(f"SELECT explode({array}) AS c1", (kind,))


def as_array(level: Level, function: Expr) -> tuple[str, str]:
    """The array of values that a set-returning call returns for one row, and the type of its elements."""
    if not isinstance(function, tree.FuncExpr):
        raise Declined("an operator that returns a set")
    if any(returns_set(arg) for arg in function.args):
        raise Declined("a set-returning function of another")
    if not function.retset:
        kind = form_type(function.type)
        return f"array({level.form(function)})", kind
    series = _series(function)
    if series is not None:
        kind = form_type(function.type)
        start, stop, *rest = [level.form(arg) for arg in series.args]
        step = rest[0] if rest else f"CAST(1 AS {kind})"
        if rest:
            constant = value_of(series.args[2], level.job.context)
            if not constant:
                raise Declined("generate_series with a step that is not constant")
            ends = f"{start} <= {stop}" if constant > 0 else f"{start} >= {stop}"
        else:
            ends = f"{start} <= {stop}"
        return f"CASE WHEN {ends} THEN sequence({start}, {stop}, {step}) ELSE CAST(array() AS ARRAY<{kind}>) END", kind
    proc = proc_by_oid(function.func)
    if proc is not None and proc.src == "array_unnest":
        kind = form_type(function.type)
        return level.form(function.args[0]), kind
    raise Declined(f"set-returning function {proc.name if proc is not None else function.func} over columns")


def _series(expr: Expr) -> tree.FuncExpr | None:
    if not isinstance(expr, tree.FuncExpr) or expr.type not in (oids.INT4, oids.INT8):
        return None
    return expr if is_whole_series(expr) and not any(map(_named, expr.args)) else None


def _named(arg: Expr) -> bool:
    return isinstance(arg, tree.NamedArg)
