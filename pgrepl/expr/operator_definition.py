"""The CREATE OPERATOR statement of a user's operator, as pg_dump words it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog.operators import operator, operator_text
from pgrepl.expr.typefacts import type_text
from pgrepl.types.oids import REGPROC

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.catalog.tables import pg_operator


def create_operator(session: Session, row: pg_operator) -> str:
    """A commutator or negator that is not there yet becomes a shell, which its own statement fills in."""
    parts = [f"FUNCTION = {session.object_name(REGPROC, row.oprcode)}"]
    for word, typoid in (("LEFTARG", row.oprleft), ("RIGHTARG", row.oprright)):
        if typoid:
            parts.append(f"{word} = {type_text(session, session.type_of(typoid))}")
    for word, other in (("COMMUTATOR", row.oprcom), ("NEGATOR", row.oprnegate)):
        if other and operator(session, other) is not None:
            parts.append(f"{word} = OPERATOR({operator_text(session, other)})")
    parts += [word for word, flag in (("MERGES", row.oprcanmerge), ("HASHES", row.oprcanhash)) if flag]
    for word, function in (("RESTRICT", row.oprrest), ("JOIN", row.oprjoin)):
        if function:
            parts.append(f"{word} = {session.object_name(REGPROC, function)}")
    listed = ",\n    ".join(parts)
    return f"CREATE OPERATOR {operator_text(session, row.oid)} (\n    {listed}\n);"


def signature(session: Session, row: pg_operator) -> str:
    """The name with the types of its operands, as ALTER and DROP take it."""
    operands = [type_text(session, session.type_of(t)) if t else "NONE" for t in (row.oprleft, row.oprright)]
    return f"{operator_text(session, row.oid)} ({', '.join(operands)})"
