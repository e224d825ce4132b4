"""Window functions: Spark's own, and aggregates over a frame.

Frames that Spark lacks are refused: EXCLUDE, GROUPS with an offset, offsets that are not constants. So are wrong
arguments of ntile() and nth_value(), which are errors only where there are rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pgrepl.expr import tree
from pgrepl.expr.arrow.program import refuse
from pgrepl.expr.exchange.aggregates import aggregate, equal_key, sort_item
from pgrepl.expr.exchange.compiler import NOT_CONSTANT, Compiler
from pgrepl.expr.exchange.sql import Sql, cast, form_type
from pgrepl.ground.errors import PgError
from pgrepl.types import oids
from pgrepl.types.builtin import proc_by_oid


def over(window: tree.Window, targets: Sequence[tree.Target], compiler: Compiler, *, ranked: bool = False) -> str:
    """The OVER clause: ` OVER (PARTITION BY … ORDER BY … ROWS …)`. Ranking functions (`ranked`) take no frame."""
    by_resno = {target.resno: target.expr for target in targets}
    parts = []
    if window.partition:
        keys = [equal_key(by_resno[key.resno], compiler) for key in window.partition]
        parts.append("PARTITION BY " + ", ".join(keys))
    items = [sort_item(by_resno[key.resno], key, compiler) for key in window.order]
    if ranked or window.frame_mode == "ROWS":
        items = items or ["1"]  # Spark wants an order
    if items:
        parts.append("ORDER BY " + ", ".join(items))
    if not ranked:
        parts.append(_frame(window, by_resno, compiler, bool(window.order)))
    return f" OVER ({' '.join(part for part in parts if part)})"


def _frame(window: tree.Window, by_resno: dict[int, tree.Expr], compiler: Compiler, ordered: bool) -> str:
    if window.exclude is not None:
        raise refuse("a window frame with EXCLUDE")
    plain = {"UNBOUNDED PRECEDING", "UNBOUNDED FOLLOWING", "CURRENT ROW"}
    if window.frame_mode == "GROUPS" and not {window.frame_start, window.frame_end} <= plain:
        raise refuse("a window frame of GROUPS")
    mode = "ROWS" if window.frame_mode == "ROWS" else "RANGE"
    if not ordered and mode == "RANGE":  # all rows are peers
        return ""
    if mode == "RANGE" and not {window.frame_start, window.frame_end} <= plain:
        _check_range(window, by_resno)
    start = _bound(window.frame_start, window.start_offset, compiler, "starting", mode)
    end = _bound(window.frame_end, window.end_offset, compiler, "ending", mode)
    return f"{mode} BETWEEN {start} AND {end}"


def _check_range(window: tree.Window, by_resno: dict[int, tree.Expr]) -> None:
    """Check a RANGE offset: Spark adds it to the key, which must be a single integer without NULLs."""
    key = by_resno[window.order[0].resno]
    if key.type not in oids.INTEGERS:
        raise refuse("a window frame of RANGE with an offset over this type")


def _bound(bound: str, offset: tree.Expr | None, compiler: Compiler, which: str, mode: str) -> str:
    if offset is None:
        return bound
    value = compiler.constant(offset)
    if value is None:
        raise PgError("22004", f"frame {which} offset must not be null")
    if not isinstance(value, int) or value >= 2**31 or (value < 0 and mode == "RANGE"):
        raise refuse("a window frame with this offset")
    if value < 0:
        raise PgError("22013", f"frame {which} offset must not be negative")
    return f"{value} {bound}"


def is_ranked(node: tree.WindowFunc) -> bool:
    """Whether a function ignores the frame."""
    proc = proc_by_oid(node.func)
    return not node.is_aggregate and proc is not None and proc.src in _RANKED


def window_function(node: tree.WindowFunc, over: str, compiler: Compiler) -> Sql:
    if node.is_aggregate:
        return aggregate(node, compiler, over)
    proc = proc_by_oid(node.func)
    assert proc is not None
    write = {**_RANKED, **_FRAMED}.get(proc.src)
    if write is None or node.filter is not None:
        raise refuse(f"window function {proc.name}")
    return write(node, compiler, over)


Made = Callable[[tree.WindowFunc, Compiler, str], Sql]


def _place(function: str, result: str) -> Made:
    return lambda node, compiler, over: Sql(cast(f"{function}(){over}", result), result)


def _ntile(node: tree.WindowFunc, compiler: Compiler, over: str) -> Sql:
    count = compiler.constant(node.args[0])
    if count is None:
        return Sql("CAST(NULL AS INT)", "INT", null=True)
    if count is NOT_CONSTANT or count <= 0:
        raise refuse("ntile of this number")
    return Sql(f"ntile({count}){over}", "INT")


def _shifted(function: str) -> Made:
    """lag() and lead(). The row is read as a struct, because the default is evaluated only where there is no such
    row."""

    def make(node: tree.WindowFunc, compiler: Compiler, over: str) -> Sql:
        step = compiler.constant(node.args[1]) if len(node.args) > 1 else 1
        if step is NOT_CONSTANT:
            raise refuse(f"{function} by a number that is not a constant")
        result = form_type(node.type, node.typmod)
        if step is None:
            return Sql(cast("NULL", result), result, null=True)
        text = cast(compiler.text(node.args[0]), result)
        value = f"{function}(named_struct('v', {text}), {step}){over}"
        if len(node.args) < 3:
            return Sql(f"{value}.v", result)
        default = cast(compiler.text(node.args[2]), result)
        return Sql(f"CASE WHEN {value} IS NULL THEN {default} ELSE {value}.v END", result)

    return make


def _edge(function: str) -> Made:
    def make(node: tree.WindowFunc, compiler: Compiler, over: str) -> Sql:
        value = compiler.value(node.args[0])
        return Sql(f"{function}({value.text}){over}", value.type)

    return make


def _nth_value(node: tree.WindowFunc, compiler: Compiler, over: str) -> Sql:
    number = compiler.constant(node.args[1])
    result = form_type(node.type, node.typmod)
    if number is None:
        return Sql(cast("NULL", result), result, null=True)
    if number is NOT_CONSTANT or number <= 0:
        raise refuse("nth_value of this number")
    return Sql(f"nth_value({compiler.text(node.args[0])}, {number}){over}", result)


_RANKED: dict[str, Made] = {
    "window_row_number": _place("row_number", "BIGINT"),
    "window_rank": _place("rank", "BIGINT"),
    "window_dense_rank": _place("dense_rank", "BIGINT"),
    "window_percent_rank": _place("percent_rank", "DOUBLE"),
    "window_cume_dist": _place("cume_dist", "DOUBLE"),
    "window_ntile": _ntile,
    "window_lag": _shifted("lag"),
    "window_lag_with_offset": _shifted("lag"),
    "window_lag_with_offset_and_default": _shifted("lag"),
    "window_lead": _shifted("lead"),
    "window_lead_with_offset": _shifted("lead"),
    "window_lead_with_offset_and_default": _shifted("lead"),
}
_FRAMED: dict[str, Made] = {
    "window_first_value": _edge("first_value"),
    "window_last_value": _edge("last_value"),
    "window_nth_value": _nth_value,
}
