"""The language PL/pgSQL (pl_handler.c), and errors in a body shown in the text of CREATE FUNCTION."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pgrepl.ground.errors import PgError
from pgrepl.plpgsql.call import call_function, call_trigger
from pgrepl.plpgsql.function import check_types, compiled_function, forget, stand_in
from pgrepl.types import oids

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.catalog.store.tables import pg_proc
    from pgrepl.expr.functions.registry import Call
    from pgrepl.rows.changes import Row
    from pgrepl.rows.triggers import TriggerData


@contextmanager
def transposed(session: Session, source: str, context: str | None = None) -> Iterator[None]:
    """An error with a place in `source` gets its place in the running statement, where `source` is a string constant;
    one without a place gets the CONTEXT, if there is one."""
    try:
        yield
    except PgError as error:
        position = error.report.position
        if position is None:
            raise error if context is None else error.with_context(context) from None
        place = _place_in_statement(session.query, source, position)
        if place is None:
            error.inside(source)
        else:
            error.report = replace(error.report, position=place)
        raise


def _place_in_statement(statement: str, source: str, position: int) -> int | None:
    """The place of a character of the body in the statement, if the body occurs once as a string constant
    (match_prosrc_to_query)."""
    found: int | None = None
    for start, char in enumerate(statement):
        place = None
        if char == "$":
            delimiter = statement.find("$", start + 1)
            if delimiter > 0 and statement.startswith(source + statement[start : delimiter + 1], delimiter + 1):
                place = delimiter + 1 + position
        elif char == "'":
            place = _place_in_literal(statement, start + 1, source, position)
        if place is not None:
            if found is not None:
                return None
            found = place
    return found


def _place_in_literal(statement: str, start: int, source: str, position: int) -> int | None:
    """The same for a constant in quotes, in which quotes and backslashes may be doubled (match_prosrc_to_literal)."""
    at, place = start, None
    for number, char in enumerate(source, 1):
        if number == position:
            place = at + 1
        if statement[at : at + 1] == "\\" or statement[at : at + 2] == "''":
            at += 1
        if statement[at : at + 1] != char:
            return None
        at += 1
    if position == len(source) + 1:
        place = at + 1
    return place if statement[at : at + 1] == "'" and statement[at + 1 : at + 2] != "'" else None


class PlpgsqlLanguage:
    def validate(self, session: Session, routine: pg_proc) -> None:
        """Checks a routine in PL/pgSQL when it is made (plpgsql_validator)."""
        forget(session, routine)
        check_types(session, routine)
        if not session.settings.value("check_function_bodies"):
            return
        with transposed(session, routine.prosrc):
            argtypes = [stand_in(typoid) for typoid in routine.proargtypes]
            compiled_function(session, routine, argtypes, stand_in(routine.prorettype))

    def call(self, session: Session, routine: pg_proc, args: Sequence[Any], call: Call) -> Any:
        if routine.prorettype == oids.TRIGGER:
            raise PgError(
                "0A000",
                "trigger functions can only be called as triggers",
                context=f'compilation of PL/pgSQL function "{routine.proname}" near line 1',
            )
        return call_function(session, routine, args, call)

    def call_trigger(self, session: Session, routine: pg_proc, data: TriggerData) -> Row | None:
        return call_trigger(session, routine, data)


PLPGSQL = PlpgsqlLanguage()
