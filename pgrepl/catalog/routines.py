"""Look-ups of functions and procedures: PostgreSQL's own, and those of the database's users (pg_proc).

Analysis and evaluation know a routine as `types.builtin.Proc`, whoever made it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog import tables
from pgrepl.catalog.classes import FIRST_NORMAL_OID, PLPGSQL_LANGUAGE
from pgrepl.catalog.namespace import schema_row
from pgrepl.catalog.store import one, rows
from pgrepl.types import builtin
from pgrepl.types.builtin import Proc

if TYPE_CHECKING:
    from pgrepl.catalog.context import CatalogSession

INTERNAL_LANGUAGE = 12
C_LANGUAGE = 13
SQL_LANGUAGE = builtin.SQL
LANGUAGE_NAMES = {INTERNAL_LANGUAGE: "internal", C_LANGUAGE: "c", SQL_LANGUAGE: "sql", PLPGSQL_LANGUAGE: "plpgsql"}


def is_user_routine(oid: int) -> bool:
    return oid >= FIRST_NORMAL_OID


def routine_row(session: CatalogSession, oid: int) -> tables.pg_proc | None:
    """The row of a user's routine; None: there is none of that OID in the database."""
    row = one(session, tables.pg_proc, datid=session.database_oid, oid=oid)
    return None if row is None else _with_types(session, row)


def routine_rows(session: CatalogSession) -> list[tables.pg_proc]:
    """The users' routines of the database in OID order."""
    found = rows(session, tables.pg_proc, datid=session.database_oid)
    return [_with_types(session, row) for row in sorted(found, key=lambda row: int(row.oid))]


def written_routines(session: CatalogSession) -> list[tables.pg_proc]:
    """Those that users have written: the constructors of ranges come with their types."""
    return [row for row in routine_rows(session) if row.prolang != INTERNAL_LANGUAGE]


def _with_types(session: CatalogSession, row: tables.pg_proc) -> tables.pg_proc:
    """The row with descriptions of the users' types in it."""
    types = [row.prorettype, row.provariadic, *row.proargtypes, *(row.proallargtypes or ())]
    if all(typoid < FIRST_NORMAL_OID for typoid in types):
        return row
    return row._replace(
        prorettype=session.type_of(row.prorettype),
        provariadic=session.type_of(row.provariadic),
        proargtypes=list(map(session.type_of, row.proargtypes)),
        proallargtypes=None if row.proallargtypes is None else list(map(session.type_of, row.proallargtypes)),
    )


def routine(session: CatalogSession, oid: int) -> Proc | None:
    """A routine by its OID."""
    found = builtin.proc_by_oid(oid)
    if found is not None or not is_user_routine(oid):
        return found
    key = ("routine", oid)
    known: Proc | None = session.derived.get(key)
    if known is None:
        row = routine_row(session, oid)
        if row is None:
            return None
        known = session.derived[key] = as_proc(session, row)
    return known


def routines_named(session: CatalogSession, name: str) -> list[Proc]:
    """The routines of this name in all schemas of the database."""
    own = rows(session, tables.pg_proc, datid=session.database_oid, proname=name)
    return [*builtin.procs.named(name), *(as_proc(session, row) for row in own)]


def as_proc(session: CatalogSession, row: tables.pg_proc) -> Proc:
    """A user's routine in the form of the built-in ones. The trees of its defaults stay in the row."""
    schema = schema_row(session, row.pronamespace)
    row = _with_types(session, row)
    return Proc(
        oid=row.oid,
        name=row.proname,
        schema=schema.nspname if schema is not None else "",
        lang=row.prolang,
        variadic=session.type_of(row.provariadic),
        kind=row.prokind,
        strict=row.proisstrict,
        leakproof=row.proleakproof,
        retset=row.proretset,
        volatile=row.provolatile,
        parallel=row.proparallel,
        cost=row.procost,
        rows=row.prorows,
        nargs=row.pronargs,
        ndefaults=len(row.proargdefaults or ()),
        rettype=session.type_of(row.prorettype),
        argtypes=tuple(map(session.type_of, row.proargtypes)),
        allargtypes=None if row.proallargtypes is None else tuple(map(session.type_of, row.proallargtypes)),
        argmodes=None if row.proargmodes is None else "".join(row.proargmodes),
        argnames=None if row.proargnames is None else tuple(row.proargnames),
        defaults=(),
        src=row.prosrc,
        support=0,
    )
