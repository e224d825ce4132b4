"""Look-ups of schemas, and the search path; of routines, operators and collations (PostgreSQL's namespace.c).

Analysis and evaluation know PostgreSQL's own routines and operators, and those of users, as `types.builtin.Proc` and
`Operator`. All collations compare by code point; a user's is one of PostgreSQL's own under another name.
"""

from __future__ import annotations

from collections import defaultdict
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.acl import ObjectKind, check_execute, check_privilege, has_privilege
from pgrepl.catalog.facts.roles import role_display
from pgrepl.catalog.session.parameters import split_identifiers
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import one, rows
from pgrepl.catalog.store.system import CATALOG_NAMESPACE, FIRST_NORMAL_OID, PLPGSQL_LANGUAGE
from pgrepl.ground.errors import PgError
from pgrepl.sql.keywords import quote_identifier, quote_qualified
from pgrepl.types import builtin
from pgrepl.types.builtin import Operator, Proc

if TYPE_CHECKING:
    from pgrepl.catalog.session.context import CatalogSession

QUALIFIED = (("search_path", ""),)  # settings with which definitions name the schemas of what they use


def schemas(session: CatalogSession) -> list[tables.pg_namespace]:
    """The schemas of the database by name."""
    listed = rows(session, tables.pg_namespace, datid=session.database_oid)
    return sorted(listed, key=lambda row: str(row.nspname))


def schema_or_none(session: CatalogSession, name: str) -> tables.pg_namespace | None:
    return one(session, tables.pg_namespace, datid=session.database_oid, nspname=name)


def schema_by_name(session: CatalogSession, name: str) -> tables.pg_namespace:
    """The schema, whatever privileges the role has (get_namespace_oid)."""
    row = schema_or_none(session, name)
    if row is None:
        raise PgError("3F000", f'schema "{name}" does not exist')
    return row


def schema_row(session: CatalogSession, oid: int) -> tables.pg_namespace | None:
    return one(session, tables.pg_namespace, datid=session.database_oid, oid=oid)


def schema_name(session: CatalogSession, oid: int) -> str:
    row = schema_row(session, oid)
    if row is None:
        raise PgError("3F000", f"schema with OID {oid} does not exist")
    return str(row.nspname)


TEMPORARY = "pg_temp"  # each session's name for its own temporary schema


def temporary_schema(session: CatalogSession) -> int:
    """The session's schema for temporary relations; 0: it has none yet, or its creation was rolled back."""
    oid = session.temporary_schema
    return oid if oid and schema_row(session, oid) is not None else 0


def is_temporary(name: str) -> bool:
    """Is this the schema of some session's temporary relations? (isAnyTempNamespace)"""
    return name.startswith(("pg_temp_", "pg_toast_temp_"))


def explicit_schema(
    session: CatalogSession, name: str, *, missing_ok: bool = False, location: int | None = None
) -> int:
    """The schema of that name, which must exist and grant the role USAGE (LookupExplicitNamespace). 0: missing, and
    `missing_ok`."""
    if name == TEMPORARY and (own := temporary_schema(session)):
        return own
    key = ("explicit schema", name, session.role)
    known: int | None = session.derived.get(key)
    if known is not None:
        return known
    row = schema_or_none(session, name)
    if row is None:
        if missing_ok:
            return 0
        raise PgError("3F000", f'schema "{name}" does not exist', location=location)
    if row.oid != session.temporary_schema:
        check_privilege(session, ObjectKind.SCHEMA, row, "USAGE", name)
    oid = session.derived[key] = int(row.oid)
    return oid


@lru_cache(64)
def _listed(search_path: str) -> tuple[str, ...]:
    return tuple(split_identifiers(search_path) or ())


def _named_schemas(session: CatalogSession) -> list[int]:
    """The schemas of search_path that exist and may be used, pg_catalog only if search_path names it."""
    path = session.settings.get("search_path")
    key = ("search_path", path, session.role)
    known = session.derived.get(key)
    if known is not None:
        return known  # type: ignore[no-any-return]
    namespaces: list[int] = []
    for listed in _listed(path):
        if listed == TEMPORARY:
            if (own := temporary_schema(session)) and own not in namespaces:
                namespaces.append(own)
            continue
        name = role_display(session, session.role) if listed == "$user" else listed
        row = schema_or_none(session, name)
        if row is None or row.oid in namespaces:
            continue
        if has_privilege(session, ObjectKind.SCHEMA, row, "USAGE", session.role):
            namespaces.append(int(row.oid))
    session.derived[key] = namespaces
    return namespaces


def search_path(session: CatalogSession) -> list[int]:
    """The schemas in which an unqualified name is looked up, in order: first the temporary schema, then pg_catalog,
    unless search_path names them."""
    named = _named_schemas(session)
    path = named if CATALOG_NAMESPACE in named else [CATALOG_NAMESPACE, *named]
    own = temporary_schema(session)
    return [own, *path] if own and own not in path else path


def current_schemas(session: CatalogSession, implicit: bool) -> list[str]:
    """current_schemas(bool)."""
    oids = search_path(session) if implicit else _named_schemas(session)
    return [schema_name(session, oid) for oid in oids]


def creation_schema(session: CatalogSession, *, location: int | None = None) -> int:
    """The schema of a new object with an unqualified name: the first of search_path that exists."""
    named = _named_schemas(session)
    if not named:
        raise PgError("3F000", "no schema has been selected to create in", location=location)
    return named[0]


def creates_temporary(session: CatalogSession) -> bool:
    """Is pg_temp the first schema of search_path, so that new relations are temporary?"""
    return _listed(session.settings.get("search_path"))[:1] == (TEMPORARY,)


def check_create(session: CatalogSession, namespace: int, role: int | None = None) -> None:
    """Raise unless the role (the current one) may create objects in the schema."""
    row = schema_row(session, namespace)
    assert row is not None
    if not has_privilege(session, ObjectKind.SCHEMA, row, "CREATE", role):
        raise PgError("42501", f"permission denied for schema {row.nspname}")


def schema_for_creation(session: CatalogSession, schema: str | None) -> int:
    """The schema of a new object: the named one, else the first of search_path; the role needs CREATE on it."""
    if schema is None:
        oid = creation_schema(session)
    else:
        oid = int(schema_by_name(session, schema).oid)
    if oid != session.temporary_schema:
        check_create(session, oid)
    return oid


ANY_ENCODING, UTF8 = -1, 6  # of collencoding


class UserCollation(int):
    name: str

    def __new__(cls, oid: int, name: str) -> UserCollation:
        collation = super().__new__(cls, oid)
        collation.name = name
        return collation

    def __reduce__(self) -> Any:
        return UserCollation, (int(self), self.name)


def is_user_collation(oid: int) -> bool:
    return oid >= FIRST_NORMAL_OID


def described(session: CatalogSession, oid: int) -> int:
    """The OID with its name, if it is a user's collation."""
    if not is_user_collation(oid) or isinstance(oid, UserCollation):
        return oid
    row = collation_row(session, oid)
    return oid if row is None else UserCollation(oid, row.collname)


def collation_row(session: CatalogSession, oid: int) -> tables.pg_collation | None:
    return one(session, tables.pg_collation, datid=session.database_oid, oid=oid)


def collation_rows(session: CatalogSession) -> list[tables.pg_collation]:
    """The users' collations of the database in OID order."""
    return sorted(rows(session, tables.pg_collation, datid=session.database_oid), key=lambda row: int(row.oid))


def collation_in_schema(session: CatalogSession, namespace: int, name: str) -> int:
    """The collation of this name in a schema; 0: there is none."""
    if namespace == CATALOG_NAMESPACE:
        known = builtin.collation_by_name(name)
        if known is not None:
            return known.oid
    row = one(session, tables.pg_collation, datid=session.database_oid, collnamespace=namespace, collname=name)
    return 0 if row is None else UserCollation(row.oid, row.collname)


def collation_in_path(session: CatalogSession, name: str) -> int:
    """The first collation of this name in search_path, the temporary schema left out; 0: there is none."""
    for namespace in search_path(session):
        oid = collation_in_schema(session, namespace, name) if namespace != session.temporary_schema else 0
        if oid:
            return oid
    return 0


def name_and_schema(session: CatalogSession, oid: int) -> tuple[str, int] | None:
    """The name of a collation and the OID of its schema; None: there is no such collation."""
    known = builtin.collation_by_oid(oid)
    if known is not None:
        return known.name, CATALOG_NAMESPACE
    row = collation_row(session, oid) if is_user_collation(oid) else None
    return None if row is None else (row.collname, row.collnamespace)


def is_collation_visible(session: CatalogSession, oid: int) -> bool | None:
    """Whether the bare name finds it (CollationIsVisible); None: there is no such collation."""
    named = name_and_schema(session, oid)
    return None if named is None else collation_in_path(session, named[0]) == oid


def collation_text(session: CatalogSession, oid: int) -> str | None:
    """The quoted name, with the schema if the bare name does not find it (generate_collation_name)."""
    named = name_and_schema(session, oid)
    if named is None:
        return None
    return quote_identifier(named[0]) if is_collation_visible(session, oid) else qualified_collation(session, oid)


def qualified_collation(session: CatalogSession, oid: int) -> str:
    """The quoted name of a collation that exists, with its schema."""
    named = name_and_schema(session, oid)
    assert named is not None
    return quote_qualified(schema_name(session, named[1]), named[0])


# --- operators --------------------------------------------------------------------------------------------------------


def is_user_operator(oid: int) -> bool:
    return oid >= FIRST_NORMAL_OID


def operator_row(session: CatalogSession, oid: int) -> tables.pg_operator | None:
    """The row of a user's operator; None: there is none of that OID in the database."""
    return one(session, tables.pg_operator, datid=session.database_oid, oid=oid)


def operator_rows(session: CatalogSession) -> list[tables.pg_operator]:
    """The users' operators of the database in OID order."""
    return sorted(rows(session, tables.pg_operator, datid=session.database_oid), key=lambda row: int(row.oid))


def operator(session: CatalogSession, oid: int) -> Operator | None:
    if not is_user_operator(oid):
        return builtin.operator_by_oid(oid)
    row = operator_row(session, oid)
    return None if row is None else _as_operator(session, row)


def namespace_of(session: CatalogSession, oid: int) -> int:
    """The schema of an operator that exists."""
    row = operator_row(session, oid) if is_user_operator(oid) else None
    return CATALOG_NAMESPACE if row is None else row.oprnamespace


def operators_called(session: CatalogSession, name: str, namespace: int = 0) -> list[Operator]:
    """The operators of this name in one schema; or in those of search_path, in its order."""
    own = _own(session).get(name)
    if own is None:
        return builtin.operators_by_name(name) if namespace in (0, CATALOG_NAMESPACE) else []
    operators: list[Operator] = []
    for schema in (namespace,) if namespace else search_path(session):
        if schema == CATALOG_NAMESPACE:
            operators += builtin.operators_by_name(name)
        if schema != session.temporary_schema or namespace:
            operators += own.get(schema, ())
    return operators


def has_user_operators(session: CatalogSession, name: str) -> bool:
    return name in _own(session)


def is_operator_visible(session: CatalogSession, operator: Operator) -> bool:
    """Whether the bare name finds it: another with its operands may come earlier in search_path (OperatorIsVisible)."""
    named = operators_called(session, operator.name)
    first = next((o for o in named if (o.left, o.right) == (operator.left, operator.right)), None)
    return first is not None and first.oid == operator.oid


def operator_text(session: CatalogSession, oid: int) -> str:
    """The symbol of an operator that exists, with its schema."""
    row = operator(session, oid)
    assert row is not None
    return f"{quote_identifier(schema_name(session, namespace_of(session, oid)))}.{row.name}"


def _own(session: CatalogSession) -> dict[str, dict[int, list[Operator]]]:
    """The users' operators by name and schema."""
    known: dict[str, dict[int, list[Operator]]] | None = session.derived.get(("operators",))
    if known is None:
        known = session.derived["operators",] = defaultdict(lambda: defaultdict(list))
        for row in operator_rows(session):
            known[row.oprname][row.oprnamespace].append(_as_operator(session, row))
    return known


def _as_operator(session: CatalogSession, row: tables.pg_operator) -> Operator:
    return Operator(
        row.oid, row.oprname, row.oprkind, row.oprcanmerge, row.oprcanhash, session.type_of(row.oprleft),
        session.type_of(row.oprright), session.type_of(row.oprresult), row.oprcom, row.oprnegate, row.oprcode,
        row.oprrest, row.oprjoin,
    )  # fmt: skip


# --- routines ---------------------------------------------------------------------------------------------------------


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


def check_may_execute(session: CatalogSession, oid: int) -> None:
    """Raise unless the current role has EXECUTE on the routine; on PostgreSQL's own everybody has it."""
    row = routine_row(session, oid) if is_user_routine(oid) else None
    if row is not None:
        check_execute(session, row)


def routine_rows(session: CatalogSession) -> list[tables.pg_proc]:
    """The users' routines of the database in OID order."""
    routines = rows(session, tables.pg_proc, datid=session.database_oid)
    return [_with_types(session, row) for row in sorted(routines, key=lambda row: int(row.oid))]


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
    proc = builtin.proc_in(oid, session.settings.release)
    if proc is not None or not is_user_routine(oid):
        return proc
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
    return [*builtin.procs_named(name, session.settings.release), *(as_proc(session, row) for row in own)]


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
