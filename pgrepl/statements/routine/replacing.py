"""The properties of a routine that CREATE OR REPLACE must leave as they are: callers rely on them (ProcedureCreate)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.errors import PgError
from pgrepl.expr import stored
from pgrepl.expr.catalog_names import text_of
from pgrepl.types import oids

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.catalog.tables import pg_proc

_KINDS = {"f": "a function", "p": "a procedure"}


def check_replaceable(session: Session, old: pg_proc, new: pg_proc) -> None:
    if old.prokind != new.prokind:
        raise PgError("42809", "cannot change routine kind", detail=f'"{old.proname}" is {_KINDS[old.prokind]}.')
    drop = "DROP PROCEDURE" if old.prokind == "p" else "DROP FUNCTION"
    hint = f"Use {drop} {text_of(session, oids.REGPROCEDURE, old.oid)} first."
    if old.prorettype != new.prorettype or old.proretset != new.proretset:
        message = "cannot change return type of existing function"
        if old.prokind == "p":
            message = "cannot change whether a procedure has output parameters"
        raise PgError("42P13", message, hint=hint)
    if new.prorettype == oids.RECORD and _outputs(old) != _outputs(new):
        raise PgError(
            "42P13",
            "cannot change return type of existing function",
            detail="Row type defined by OUT parameters is different.",
            hint=hint,
        )
    for before, after in zip(_input_names(old), _input_names(new), strict=True):
        if before and before != after:
            raise PgError("42P13", f'cannot change name of input parameter "{before}"', hint=hint)
    _check_defaults(session, old, new, hint)


def outputs_of(routine: pg_proc) -> list[tuple[str, int]]:
    """Names and types of the output parameters."""
    modes, types = routine.proargmodes or (), routine.proallargtypes or ()
    names = routine.proargnames or [""] * len(types)
    return [(name, typoid) for mode, typoid, name in zip(modes, types, names, strict=True) if mode in ("o", "b", "t")]


def _outputs(routine: pg_proc) -> list[tuple[str, int]]:
    """As build_function_result_tupdesc_d names them; a single one makes no row, unless it is a procedure's."""
    found = [(name or f"column{number}", typoid) for number, (name, typoid) in enumerate(outputs_of(routine), 1)]
    return found if len(found) > 1 or routine.prokind == "p" else []


def _input_names(routine: pg_proc) -> list[str]:
    names = routine.proargnames
    if names is None:
        return [""] * int(routine.pronargs)
    modes = routine.proargmodes or ["i"] * len(names)
    return [name for name, mode in zip(names, modes, strict=True) if mode in ("i", "b", "v")]


def _check_defaults(session: Session, old: pg_proc, new: pg_proc, hint: str) -> None:
    before, after = old.proargdefaults or [], new.proargdefaults or []
    if len(before) > len(after):
        raise PgError("42P13", "cannot remove parameter defaults from existing function", hint=hint)
    for one, other in zip(before, after[len(after) - len(before) :], strict=True):
        if stored.from_json(one, session).type != stored.from_json(other, session).type:
            raise PgError("42P13", "cannot change data type of existing parameter default value", hint=hint)
