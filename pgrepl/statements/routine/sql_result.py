"""The result of a function in SQL: whether its last statement fits, and how a row becomes the result
(check_sql_fn_retval)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.errors import PgError
from pgrepl.expr import typefacts
from pgrepl.expr.casts import Context as CastContext
from pgrepl.expr.coerce import coerce_to_target
from pgrepl.expr.collate import assign_collations
from pgrepl.expr.context import Context
from pgrepl.expr.evaluate import compile
from pgrepl.expr.routine_results import row_of
from pgrepl.expr.scope import Scope
from pgrepl.expr.tree import Column, Expr, Var
from pgrepl.sql.nodes import CoercionForm
from pgrepl.types import oids
from pgrepl.types.builtin import type_by_oid
from pgrepl.types.record import Record

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.catalog.tables import pg_proc

Shape = Callable[[tuple[Any, ...]], Any]
_SCALARS = "bderm"  # pg_type.typtype


def shape_of(
    session: Session,
    routine: pg_proc,
    result: int,
    argtypes: Sequence[int],
    columns: Sequence[Column] | None,
    defined: Sequence[Column] | None,
) -> Shape:
    """The function that makes the result of a row of the last statement, whose columns are given; None: it returns no
    rows. `defined`: the columns of the call's column definition list."""
    if result == oids.VOID:
        return lambda row: None
    declared = typefacts.type_text(session, routine.prorettype)
    if columns is None:
        raise _mismatch(declared, "Function's final statement must be SELECT or INSERT/UPDATE/DELETE/MERGE RETURNING.")
    kind = type_by_oid(result)
    if not typefacts.is_row(result) and kind is not None and kind.typtype in _SCALARS:
        return _scalar(session, result, columns, declared)
    if not typefacts.is_row(result):
        text = typefacts.type_text(session, result)
        raise PgError("42P13", f"return type {text} is not supported for SQL functions")
    if len(columns) == 1 and routine.prokind != "p":
        whole = _cast(session, columns[0], 1, result, -1)
        if whole is not None:
            return whole
    row = row_of(session, routine, argtypes) or defined
    if row is None:
        types, names = [c.type for c in columns], [c.name for c in columns]
        return lambda values: Record(values, types, names)
    return _row(session, row, columns, declared)


def _scalar(session: Session, result: int, columns: Sequence[Column], declared: str) -> Shape:
    if len(columns) != 1:
        raise _mismatch(declared, "Final statement must return exactly one column.")
    cast = _cast(session, columns[0], 1, result, -1)
    if cast is None:
        raise _mismatch(declared, f"Actual return type is {typefacts.type_text(session, columns[0].type)}.")
    return cast


def _row(session: Session, row: Sequence[Column], columns: Sequence[Column], declared: str) -> Shape:
    wanted = [column for column in row if not column.dropped]
    casts: list[Shape] = []
    for number, column in enumerate(columns, 1):
        if number > len(wanted):
            raise _mismatch(declared, "Final statement returns too many columns.")
        target = wanted[number - 1]
        cast = _cast(session, column, number, target.type, target.typmod)
        if cast is None:
            given, asked = typefacts.type_text(session, column.type), typefacts.type_text(session, target.type)
            raise _mismatch(declared, f"Final statement returns {given} instead of {asked} at column {number}.")
        casts.append(cast)
    if len(columns) < len(wanted):
        raise _mismatch(declared, "Final statement returns too few columns.")
    types, names = [c.type for c in wanted], [c.name for c in wanted]
    return lambda values: Record([cast(values) for cast in casts], types, names)


def _cast(session: Session, column: Column, number: int, target: int, typmod: int) -> Shape | None:
    """The function that casts a column of a row; None: there is no assignment cast."""
    var: Expr = Var(column.type, typmod=column.typmod, collation=column.collation, attnum=number)
    typed = coerce_to_target(
        Scope(session), var, column.type, target, typmod, CastContext.ASSIGNMENT, CoercionForm.IMPLICIT_CAST, -1
    )
    if typed is None:
        return None
    if typed is var:
        place = number - 1
        return lambda row: row[place]
    return compile(assign_collations(typed), Context(session))


def _mismatch(declared: str, detail: str) -> PgError:
    return PgError("42P13", f"return type mismatch in function declared to return {declared}", detail=detail)
