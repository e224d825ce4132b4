"""Routines as text: pg_get_functiondef, pg_get_function_arguments …"""

from __future__ import annotations

from collections.abc import Callable

from pgrepl.catalog.routines import routine
from pgrepl.catalog.session import Session
from pgrepl.expr import routine_text
from pgrepl.expr.context import Call
from pgrepl.expr.functions.registry import Family
from pgrepl.types.builtin import Proc

implements = Family()

_MAX_NAME = 63  # bytes


def _of_routine(name: str, text: Callable[[Session, Proc], str | None]) -> None:
    def answer(call: Call, oid: int) -> str | None:
        found = routine(call.session, oid)
        return None if found is None else text(call.session, found)

    implements(name, context=True)(answer)


_of_routine(
    "pg_get_function_arguments", lambda session, proc: routine_text.arguments_text(session, proc, defaults=True)
)
_of_routine("pg_get_function_identity_arguments", routine_text.arguments_text)
_of_routine("pg_get_function_result", routine_text.result_text)
_of_routine("pg_get_functiondef", lambda session, proc: routine_text.definition(session, proc.oid))
_of_routine("pg_get_function_sqlbody", lambda session, proc: routine_text.body_text(session, proc.oid))


@implements("pg_get_function_arg_default", context=True)
def pg_get_function_arg_default(call: Call, oid: int, number: int) -> str | None:
    found = routine(call.session, oid)
    return None if found is None else routine_text.default_text(call.session, found, number)


@implements("nameconcatoid")
def nameconcatoid(name: str, oid: int) -> str:
    """The name and the OID, shortened in the name, as information_schema tells routines apart."""
    suffix = f"_{oid}"
    kept = name.encode()[: _MAX_NAME - len(suffix)].decode(errors="ignore")
    return kept + suffix
