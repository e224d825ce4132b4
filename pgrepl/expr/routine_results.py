"""The columns of what a user's routine returns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pgrepl.catalog.routines import as_proc
from pgrepl.expr import typefacts
from pgrepl.expr.compiler import out_columns
from pgrepl.expr.lookup import row_attributes
from pgrepl.expr.polymorphic import resolve
from pgrepl.expr.tree import Column
from pgrepl.types import oids

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.catalog.tables import pg_proc


def row_of(session: Session, routine: pg_proc, argtypes: Sequence[int]) -> tuple[Column, ...] | None:
    """The columns that the result has as a row; None: it is a scalar, or a record of unknown columns."""
    if routine.prorettype == oids.RECORD:
        found = out_columns(as_proc(session, routine))
        if found is None:
            return None
        types, names = found
        actual = [resolve(session, argtypes, routine.proargtypes, typoid)[1] for typoid in types]
        return tuple(
            Column(name or f"column{number}", typoid, -1, typefacts.collation(typoid))
            for number, (name, typoid) in enumerate(zip(names, actual, strict=True), 1)
        )
    if typefacts.is_complex(routine.prorettype):
        base = typefacts.base(routine.prorettype)
        return tuple(Column(a.name, a.type, a.typmod, a.collation, a.dropped) for a in row_attributes(session, base))
    return None
