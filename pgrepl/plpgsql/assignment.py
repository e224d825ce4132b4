"""Values into variables: casts, NOT NULL, rows (exec_assign_value, exec_move_row, exec_cast_value)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.expr.analyse import lookup
from pgrepl.expr.analyse.casts import Context
from pgrepl.expr.analyse.coerce import IMPLICIT_CAST, coerce_to_target
from pgrepl.expr.analyse.scope import Scope
from pgrepl.expr.evaluate import evaluate
from pgrepl.expr.tree import CoerceViaIO, Expr, Variable
from pgrepl.ground.errors import PgError
from pgrepl.plpgsql.datums import Column, DataType, Rec, RecField, Row, Var
from pgrepl.plpgsql.frame import Frame, field_of, missing_type, no_field
from pgrepl.types import oids
from pgrepl.types.style import Record

if TYPE_CHECKING:
    from pgrepl.plpgsql.frame import Code


def cast(code: Code, value: Any, source: int, source_typmod: int, target: int, typmod: int) -> Any:
    """The value as one of the target type (exec_cast_value)."""
    if source == target and typmod in (-1, source_typmod):
        return value
    key = (source, source_typmod, target, typmod)
    function = code.casts.get(key)
    if function is None:
        function = code.casts[key] = _cast(code, *key)
    return function((value,))


def _cast(code: Code, source: int, source_typmod: int, target: int, typmod: int) -> Callable[[Any], Any]:
    value = Variable(source, typmod=source_typmod, collation=lookup.collation(source))
    if source == oids.RECORD and lookup.is_complex(target):
        columns = columns_of(code, target)
        return lambda env: None if env[0] is None else _as_row(code, env[0], columns)
    coerced: Expr | None = None
    if source not in (oids.UNKNOWN, oids.RECORD):
        scope = Scope(code.session)
        coerced = coerce_to_target(scope, value, source, target, typmod, Context.PLPGSQL, IMPLICIT_CAST, -1)
    if coerced is None:
        coerced = CoerceViaIO(target, arg=value)
    return evaluate.compile(coerced, code.context, _the_value)


def _the_value(node: Expr) -> Callable[[Any], Any] | None:
    return (lambda env: env[0]) if isinstance(node, Variable) else None


def columns_of(code: Code, typoid: int) -> list[Column]:
    """The columns of a named row type."""
    known = code.row_types.get(typoid)
    if known is None:
        attributes = lookup.row_attributes(code.session, lookup.base(typoid))
        known = code.row_types[typoid] = [(a.name, a.type, a.typmod) for a in attributes if not a.dropped]
    return known


def _as_row(code: Code, record: Record, columns: Sequence[Column]) -> Record:
    """A record as a row of these columns, each value cast."""
    given = list(zip(record, record.types, strict=True))
    values = [
        cast(code, *given[n], -1, typoid, typmod) if n < len(given) else None
        for n, (_, typoid, typmod) in enumerate(columns)
    ]
    return Record(values, [typoid for _, typoid, _ in columns], [name for name, _, _ in columns])


# --- variables --------------------------------------------------------------------------------------------------------


def assign(frame: Frame, number: int, value: Any, source: int, typmod: int = -1) -> None:
    """A value into a variable (exec_assign_value)."""
    datum = frame.code.function.datums[number]
    if isinstance(datum, Var):
        value = cast(frame.code, value, source, typmod, datum.type.oid, datum.type.typmod)
        if value is None and datum.not_null:
            raise null_value(datum)
        frame[number] = value
    elif isinstance(datum, RecField):
        _assign_field(frame, datum, value, source, typmod)
    elif value is None:
        if isinstance(datum, Rec) and datum.not_null:
            raise null_value(datum)
        move_row(frame, datum, (), None)
    else:
        if not (source == oids.RECORD or lookup.is_complex(source)):
            what = "a record" if isinstance(datum, Rec) else "a row"
            raise PgError("42804", f"cannot assign non-composite value to {what} variable")
        move_row(frame, datum, row_columns(frame, value, source), value)


def row_columns(frame: Frame, value: Any, source: int) -> list[Column]:
    """The columns of a row value."""
    if source != oids.RECORD:
        return columns_of(frame.code, source)
    return [(name, typoid, -1) for name, typoid in zip(value.names, value.types, strict=True)]


def null_value(datum: Var | Rec) -> PgError:
    return PgError("22004", f'null value cannot be assigned to variable "{datum.name}" declared NOT NULL')


def _assign_field(frame: Frame, field: RecField, value: Any, source: int, typmod: int) -> None:
    record = frame.code.function.datums[field.record]
    assert isinstance(record, Rec)
    row = frame[record.number]
    columns = columns_of(frame.code, record.type.oid) if record.type.oid != oids.RECORD else ()
    place = next((n for n, column in enumerate(columns) if column[0] == field.name), -1)
    if place >= 0:
        _, typoid, wanted = columns[place]
    else:
        typoid, wanted, _, place = field_of(frame, record, field.name)
    value = cast(frame.code, value, source, typmod, typoid, wanted)
    if row is None:
        row = Record([None] * len(columns), [c[1] for c in columns], [c[0] for c in columns])
    if place >= len(row):  # the type has got the field since the row was assigned
        raise no_field(record, field.name)
    values = list(row)
    values[place] = value
    frame[record.number] = _checked(frame, record, Record(values, row.types, row.names))


def _checked(frame: Frame, target: Rec, row: Record | None) -> Record | None:
    """The row, which obeys the constraints of a domain over a composite type (domain_check)."""
    base = lookup.base(target.type.oid)
    return row if base == target.type.oid else cast(frame.code, row, base, -1, target.type.oid, -1)


def move_row(frame: Frame, target: Rec | Row, columns: Sequence[Column], row: Sequence[Any] | None) -> None:
    """A row into a record variable or a list of targets; None: no row (exec_move_row)."""
    if isinstance(target, Row):
        for n, number in enumerate(target.targets):
            if row is None or n >= len(columns):
                assign(frame, number, None, oids.UNKNOWN)
            else:
                assign(frame, number, row[n], columns[n][1], columns[n][2])
        return
    if row is None and not columns:
        frame[target.number] = _checked(frame, target, None)
        return
    given = row if row is not None else (None,) * len(columns)
    if target.type.oid == oids.RECORD:
        frame[target.number] = Record(given, [c[1] for c in columns], [c[0] for c in columns])
        return
    if row is None and target.not_null:
        raise null_value(target)
    if target.type.is_gone:
        raise missing_type(target.type)
    wanted = columns_of(frame.code, target.type.oid)
    values = [
        cast(frame.code, given[n], columns[n][1], columns[n][2], typoid, typmod)
        if n < len(columns)
        else cast(frame.code, None, oids.UNKNOWN, -1, typoid, typmod)
        for n, (_, typoid, typmod) in enumerate(wanted)
    ]
    frame[target.number] = _checked(frame, target, Record(values, [c[1] for c in wanted], [c[0] for c in wanted]))


def check_alike(code: Code, given: Sequence[Column], wanted: Sequence[int], message: str) -> None:
    """Whether a row's columns have these types; no value is cast (convert_tuples_by_position)."""
    for number, ((_, one, _), other) in enumerate(zip(given, wanted, strict=False), 1):
        if one != other:
            texts = [lookup.type_text(code.session, typoid) for typoid in (one, other)]
            detail = f"Returned type {texts[0]} does not match expected type {texts[1]} in column {number}."
            raise PgError("42804", message, detail=detail)
    if len(given) != len(wanted):
        detail = f"Number of returned columns ({len(given)}) does not match expected column count ({len(wanted)})."
        raise PgError("42804", message, detail=detail)


def default_value(frame: Frame, kind: DataType) -> Any:
    """NULL as a variable without a default has it: a domain may refuse it."""
    return cast(frame.code, None, oids.UNKNOWN, -1, kind.oid, kind.typmod)
