"""The objects that a routine depends on: its schema, the types of its parameters, what its defaults and its standard
body use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog.classes import PG_CLASS, PG_NAMESPACE, PG_PROC, ObjectAddress
from pgrepl.catalog.depend import forget_dependencies, record_dependency
from pgrepl.expr import stored
from pgrepl.expr.dml.mapping import query_of
from pgrepl.expr.routines import body_of
from pgrepl.expr.tree import Query
from pgrepl.statements.dependencies import record_expressions, record_query_parts, record_types

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.catalog.tables import pg_proc


def record_uses(session: Session, routine: pg_proc, *, replaced: bool) -> None:
    self = ObjectAddress(PG_PROC, routine.oid)
    if replaced:
        forget_dependencies(session, self)
    record_dependency(session, self, ObjectAddress(PG_NAMESPACE, routine.pronamespace))
    record_types(session, self, [routine.prorettype, *(routine.proallargtypes or routine.proargtypes)])
    if routine.prosqlbody is not None:
        parts = body_of(session, routine.prosqlbody)
        changing = [part for part in parts if not isinstance(part, Query)]
        record_query_parts(
            session,
            self,
            [part if isinstance(part, Query) else query_of(part) for part in parts],
            [ObjectAddress(PG_CLASS, part.relid, number) for part in changing for number in part.named],
        )
    record_expressions(session, self, [stored.from_json(data, session) for data in routine.proargdefaults or ()])
