"""The language PL/pgSQL (pl_handler.c)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.ground.errors import PgError
from pgrepl.plpgsql.function import call_function, call_trigger, check_types, compiled_function, forget, stand_in
from pgrepl.statements.routine.parameters import transposed
from pgrepl.types import oids

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.catalog.store.tables import pg_proc
    from pgrepl.expr.functions.registry import Call
    from pgrepl.rows.changes import Row
    from pgrepl.rows.triggers import TriggerData


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
