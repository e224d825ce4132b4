"""Window definitions: WINDOW w AS (…) and OVER (…) (transformWindowDefinitions)."""

from __future__ import annotations

from collections.abc import Sequence

from pgrepl.errors import PgError
from pgrepl.expr import typefacts
from pgrepl.expr.casts import Context
from pgrepl.expr.clauses import check_no_columns
from pgrepl.expr.coerce import can_coerce_one, coerce_to_specific
from pgrepl.expr.grouping_sets import transform_group
from pgrepl.expr.kinds import ExprKind
from pgrepl.expr.scope import Scope
from pgrepl.expr.sorting import TargetList, transform_sort
from pgrepl.expr.transform import transform
from pgrepl.expr.tree import Expr, SortGroup, Window
from pgrepl.expr.walk import location_of
from pgrepl.sql import nodes
from pgrepl.sql.nodes import WindowDef, WindowFrame
from pgrepl.types import builtin, oids

_IN_RANGE = 3  # BTINRANGE_PROC


def transform_windows(scope: Scope, definitions: Sequence[WindowDef], targets: TargetList) -> list[Window]:
    windows: list[Window] = []
    for definition in definitions:
        windows.append(_window(scope, definition, targets, windows))
    return windows


def _window(scope: Scope, definition: WindowDef, targets: TargetList, known: Sequence[Window]) -> Window:
    name, refname, location = definition.name, definition.refname, definition.location
    if name is not None and any(w.name == name for w in known):
        raise PgError("42P20", f'window "{name}" is already defined', location=location)
    base = None
    if refname is not None:
        base = next((w for w in known if w.name == refname), None)
        if base is None:
            raise PgError("42704", f'window "{refname}" does not exist', location=location)
    order = transform_sort(scope, definition.order, targets, ExprKind.WINDOW_ORDER, by_expression=True)
    partition, _ = transform_group(
        scope, definition.partition, targets, order, ExprKind.WINDOW_PARTITION, by_expression=True
    )
    copied_order = False
    if base is not None:
        if partition:
            message = f'cannot override PARTITION BY clause of window "{refname}"'
            raise PgError("42P20", message, location=location)
        if order and base.order:
            message = f'cannot override ORDER BY clause of window "{refname}"'
            raise PgError("42P20", message, location=location)
        partition = list(base.partition)
        if not order:
            order, copied_order = list(base.order), True
        if base.explicit_frame:
            bare = name is None and not definition.order and definition.frame is None
            raise PgError(
                "42P20",
                f'cannot copy window "{refname}" because it has a frame clause',
                hint="Omit the parentheses in this OVER clause." if bare else None,
                location=location,
            )
    frame = definition.frame
    if frame is None:
        return Window(name, refname, tuple(partition), tuple(order), copied_order=copied_order)
    start, end = _offsets(scope, frame, order, targets, location)
    return Window(
        name,
        refname,
        tuple(partition),
        tuple(order),
        frame.mode,
        frame.start,
        frame.end if frame.end is not None else "CURRENT ROW",
        frame.end is not None,
        start,
        end,
        frame.exclude,
        explicit_frame=True,
        copied_order=copied_order,
    )


def _offsets(
    scope: Scope, frame: WindowFrame, order: Sequence[SortGroup], targets: TargetList, location: int
) -> tuple[Expr | None, Expr | None]:
    offsets = (frame.start_offset, frame.end_offset)
    if frame.mode == "RANGE" and any(offset is not None for offset in offsets):
        if len(order) != 1:
            message = "RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY column"
            raise PgError("42P20", message, location=location)
    if frame.mode == "GROUPS" and not order:
        raise PgError("42P20", "GROUPS mode requires an ORDER BY clause", location=location)
    start, end = (_offset(scope, frame.mode, offset, order) for offset in offsets)
    return start, end


_KINDS = {
    "ROWS": ExprKind.WINDOW_FRAME_ROWS,
    "RANGE": ExprKind.WINDOW_FRAME_RANGE,
    "GROUPS": ExprKind.WINDOW_FRAME_GROUPS,
}


def _offset(scope: Scope, mode: str, raw: nodes.Expr | None, order: Sequence[SortGroup]) -> Expr | None:
    """As transformFrameOffset does."""
    if raw is None:
        return None
    expr = transform(scope, raw, _KINDS[mode])
    target = oids.INT8 if mode != "RANGE" else _range_offset_type(scope, expr, order[0])
    expr = coerce_to_specific(scope, expr, target, mode)
    check_no_columns(expr, mode)
    return expr


def _range_offset_type(scope: Scope, expr: Expr, key: SortGroup) -> int:
    """The type of a RANGE offset: the one that the sort column's in_range function takes."""
    member = next((a for a in builtin.amops_of_operator(key.sortop) if a.purpose == "s"), None)
    family, column = (member.family, member.lefttype) if member is not None else (0, 0)
    wanted = [
        p.righttype for p in builtin.amprocs if p.family == family and p.lefttype == column and p.number == _IN_RANGE
    ]
    column_text = typefacts.type_text(scope.session, column)
    preferred = expr.type if expr.type != oids.UNKNOWN else column
    message = f"RANGE with offset PRECEDING/FOLLOWING {{}} for column type {column_text}"
    if not wanted:
        raise PgError("0A000", message.format("is not supported"), location=location_of(expr))
    fitting = [t for t in wanted if can_coerce_one(expr.type, t, Context.IMPLICIT, scope)]
    offset_text = f" and offset type {typefacts.type_text(scope.session, expr.type)}"
    if not fitting:
        raise PgError(
            "0A000",
            message.format("is not supported") + offset_text,
            hint="Cast the offset value to an appropriate type.",
            location=location_of(expr),
        )
    if len(fitting) > 1 and preferred not in fitting:
        raise PgError(
            "0A000",
            message.format("has multiple interpretations") + offset_text,
            hint="Cast the offset value to the exact intended type.",
            location=location_of(expr),
        )
    return preferred if preferred in fitting else fitting[0]
