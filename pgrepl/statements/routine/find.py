"""The routine that a statement names, with or without its argument types (LookupFuncWithArgs)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog.namespace import schema_or_none
from pgrepl.catalog.routines import is_user_routine, routine_row
from pgrepl.catalog.tables import pg_proc
from pgrepl.errors import PgError, unsupported
from pgrepl.expr import lookup, typefacts
from pgrepl.expr.calls import procs_named
from pgrepl.expr.scope import Scope
from pgrepl.expr.typenames import type_name_text, type_of_name_or_none
from pgrepl.sql.nodes import ObjectType, RoutineName
from pgrepl.types.builtin import Proc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pgrepl.catalog.session import Session

_KINDS = {ObjectType.FUNCTION: "fw", ObjectType.PROCEDURE: "p", ObjectType.ROUTINE: "fpwa"}


def find_routine(session: Session, kind: ObjectType, wanted: RoutineName) -> pg_proc:
    """The routine, which must be a user's."""
    found = find_routine_or_none(session, kind, wanted)
    if isinstance(found, PgError):
        raise found
    return found


def find_routine_or_none(session: Session, kind: ObjectType, wanted: RoutineName) -> pg_proc | PgError:
    """The routine, or the error that it does not exist. Others are raised."""
    name = ".".join(wanted.name)
    word = kind.value
    schema, _ = lookup.split_name(session, wanted.name)
    if schema is not None and schema_or_none(session, schema) is None:
        return PgError("3F000", f'schema "{schema}" does not exist')
    procs = procs_named(Scope(session), wanted.name)
    if wanted.parameters is None:
        return _only(session, kind, name, [p for p in procs if p.kind in _KINDS[kind]])
    types: list[int] = []
    for parameter in wanted.parameters:
        if not parameter.is_input:
            continue
        try:
            typoid = type_of_name_or_none(session, parameter.type_name)
        except PgError as error:
            if error.sqlstate != "3F000":
                raise
            return error  # its schema does not exist
        if typoid is None:
            return PgError("42704", f'type "{type_name_text(parameter.type_name)}" does not exist')
        types.append(typoid)
    found = next((p for p in procs if list(p.argtypes) == types), None)
    if found is None and kind is not ObjectType.FUNCTION:
        found = _by_all_arguments(session, procs, wanted)
    signature = f"{name}({', '.join(typefacts.type_text(session, t) for t in types)})"
    if found is None:
        return PgError("42883", f"{word} {signature} does not exist")
    if found.kind not in _KINDS[kind]:
        raise PgError("42809", f"{signature} is not a {word}")
    return _row(session, found)


def _by_all_arguments(session: Session, procs: Sequence[Proc], wanted: RoutineName) -> Proc | None:
    """A procedure by the types of all its parameters, written without modes."""
    if wanted.parameters is None or any(parameter.mode != "d" for parameter in wanted.parameters):
        return None
    types = [type_of_name_or_none(session, parameter.type_name) for parameter in wanted.parameters]
    return next((p for p in procs if p.kind == "p" and list(p.allargtypes or ()) == types), None)


def _only(session: Session, kind: ObjectType, name: str, procs: Sequence[Proc]) -> pg_proc | PgError:
    distinct: dict[tuple[int, ...], Proc] = {}
    for proc in procs:
        distinct.setdefault(proc.argtypes, proc)
    word = kind.value
    if not distinct:
        return PgError("42883", f'could not find a {word} named "{name}"')
    if len(distinct) > 1:
        raise PgError(
            "42725",
            f'{word} name "{name}" is not unique',
            hint=f"Specify the argument list to select the {word} unambiguously.",
        )
    return _row(session, next(iter(distinct.values())))


def _row(session: Session, proc: Proc) -> pg_proc:
    row = routine_row(session, proc.oid) if is_user_routine(proc.oid) else None
    if row is None:
        raise unsupported(f"changing the built-in function {proc.name}")
    return row
