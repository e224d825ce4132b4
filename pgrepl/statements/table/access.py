"""Tablespace and access method of a table. There is one of each."""

from __future__ import annotations

from collections.abc import Sequence

from pgrepl.catalog.relation import Relation
from pgrepl.errors import PgError

HEAP = 2  # pg_am


def check_tablespace(name: str | None, *, partitioned: bool) -> None:
    """Refuse any tablespace but pg_default."""
    if name is None:
        return
    if name == "pg_global":
        raise PgError("22023", "only shared relations can be placed in pg_global tablespace")
    if name != "pg_default":
        raise PgError("42704", f'tablespace "{name}" does not exist')
    if partitioned:
        raise PgError("0A000", "cannot specify default tablespace for partitioned relations")


def table_access_method(name: str) -> int:
    """As get_table_am_oid does."""
    from pgrepl.types.builtin import access_method_by_name

    found = access_method_by_name(name)
    if found is None:
        raise PgError("42704", f'access method "{name}" does not exist')
    if found.type != "t":
        raise PgError("55000", f'access method "{name}" is not of type TABLE')
    return found.oid


def chosen_access_method(name: str | None, partitioned: bool, parents: Sequence[Relation]) -> int:
    if name is not None:
        return table_access_method(name)
    if parents and parents[0].access_method:
        return parents[0].access_method
    return 0 if partitioned else HEAP
