"""The languages of routines (pg_language). A language is one object, imported with its first routine."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from pgrepl.catalog.routines import LANGUAGE_NAMES
from pgrepl.errors import PgError, unsupported

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.catalog.tables import pg_proc
    from pgrepl.expr.context import Call
    from pgrepl.rows.changes import Row
    from pgrepl.rows.trigger_data import TriggerData


class Language(Protocol):
    """A language of routines: it checks and calls them. `routine` is a row of pg_proc."""

    def validate(self, session: Session, routine: pg_proc) -> None:
        """Check a routine that has just been stored. Its body is checked only if check_function_bodies is on."""

    def call(self, session: Session, routine: pg_proc, args: Sequence[Any], call: Call) -> Any:
        """Run the routine. `args` are the values of its input parameters; `call` has their actual types, where the
        declared ones are polymorphic, and that of the result. Returns a value (a Record for a row), or, if it returns
        a set, an iterable of values. A procedure returns the Record of its output parameters, or None."""

    def call_trigger(self, session: Session, routine: pg_proc, data: TriggerData) -> Row | None:
        """Call the routine for a trigger (see TriggerData for what it returns)."""


# the module and the name of each Language
LANGUAGES: dict[str, tuple[str, str]] = {
    "sql": ("pgrepl.statements.routine.sql_language", "SQL"),
    "plpgsql": ("pgrepl.statements.routine.plpgsql_language", "PLPGSQL"),
}


def language_oid(name: str) -> int:
    """The OID of a language that routines can be written in (get_language_oid)."""
    found = next((oid for oid, known in LANGUAGE_NAMES.items() if known == name), None)
    if found is None:
        raise PgError("42704", f'language "{name}" does not exist')
    if name in ("internal", "c"):
        raise unsupported(f"LANGUAGE {name}")
    return found


def language_of(routine: pg_proc) -> Language | None:
    """The language of a routine; None: routines in it can be created, but not called."""
    return _language(routine.prolang)


@cache
def _language(oid: int) -> Language | None:
    place = LANGUAGES.get(LANGUAGE_NAMES[oid])
    if place is None:
        return None
    module, name = place
    language: Language = getattr(import_module(module), name)
    return language
