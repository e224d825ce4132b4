"""CREATE, ALTER and DROP COLLATION (collationcmds.c). What orders text by code point is there; other locales, and ICU,
are refused by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.acl import check_owner
from pgrepl.catalog.facts.depend import record_dependency
from pgrepl.catalog.facts.namespace import (
    ANY_ENCODING,
    UTF8,
    check_create,
    collation_in_schema,
    collation_row,
    schema_for_creation,
    schema_name,
    schema_or_none,
)
from pgrepl.catalog.facts.roles import resolve_role
from pgrepl.catalog.store import store
from pgrepl.catalog.store.system import BOOTSTRAP_SUPERUSER, PG_COLLATION, PG_NAMESPACE, ObjectAddress
from pgrepl.catalog.store.tables import pg_collation
from pgrepl.expr.analyse import lookup
from pgrepl.expr.analyse.casts import collation_of_name, comparing_collation
from pgrepl.ground.errors import PgError, unsupported
from pgrepl.query.result import Result
from pgrepl.sql.location import conflicting, get_boolean, get_qualified_name, get_string
from pgrepl.sql.nodes import (
    AlterCollationStmt,
    AlterObjectSchemaStmt,
    AlterOwnerStmt,
    DefElem,
    DefineStmt,
    DropStmt,
    RenameStmt,
)
from pgrepl.statements.deletion import check_may_drop, check_may_give, check_may_move, depend_on_schema, drop_objects
from pgrepl.types.builtin import Collation, collation_by_oid
from pgrepl.types.oids import DEFAULT_COLLATION

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.sql.nodes import RangeVar

Names = tuple[str, ...]

_OPTIONS = ("from", "locale", "lc_collate", "lc_ctype", "provider", "deterministic", "rules", "version")
_PROVIDERS = {"builtin": "b", "icu": "i", "libc": "c"}
_BUILTIN_LOCALES = {"C": "C", "C.UTF-8": "C.UTF-8", "C.UTF8": "C.UTF-8"}
_VERSION = "1"  # of the provider builtin
_LIBC_LOCALES = ("c", "posix", "c.utf-8", "c.utf8")


# --- CREATE ---------------------------------------------------------------------------------------------------------


def create_collation(stmt: DefineStmt, session: Session) -> Result:
    """CREATE COLLATION (DefineCollation)."""
    schema, name = lookup.split_name(session, stmt.name)
    namespace = schema_for_creation(session, schema)
    given = _read(stmt.options)
    source = stmt.source if stmt.source is not None else given.get("from")
    values = _defined(session, given) if source is None else _copied(session, source)
    if (there := _there(session, namespace, name, values["collencoding"])) is not None:
        if not stmt.if_not_exists:
            raise PgError("42710", f"{there} already exists")
        session.notice("NOTICE", f"{there} already exists, skipping", sqlstate="42710")
        return Result("CREATE COLLATION")
    oid = store.new_oid(session)
    store.insert(
        session, pg_collation, datid=session.database_oid, oid=oid, collname=name, collnamespace=namespace,
        collowner=session.role, **values,
    )  # fmt: skip
    record_dependency(session, ObjectAddress(PG_COLLATION, oid), ObjectAddress(PG_NAMESPACE, namespace))
    return Result("CREATE COLLATION")


def _read(options: tuple[DefElem, ...]) -> dict[str, Any]:
    given: dict[str, DefElem] = {}
    for option in options:
        if option.name not in _OPTIONS:
            message = f'collation attribute "{option.name}" not recognized'
            raise PgError("42601", message, location=option.location)
        if option.name in given:
            conflicting(option)
        given[option.name] = option
    redundant = "conflicting or redundant options"
    if "locale" in given and ("lc_collate" in given or "lc_ctype" in given):
        detail = "LOCALE cannot be specified together with LC_COLLATE or LC_CTYPE."
        raise PgError("42601", redundant, detail=detail)
    if "from" in given and len(options) != 1:
        raise PgError("42601", redundant, detail="FROM cannot be specified together with any other options.")
    readers = {"from": get_qualified_name, "deterministic": get_boolean}
    return {name: readers.get(name, get_string)(option) for name, option in given.items()}


def _copied(session: Session, source: Names) -> dict[str, Any]:
    oid = comparing_collation(session, source)
    if oid == DEFAULT_COLLATION:
        raise PgError("42P17", 'collation "default" cannot be copied')
    row = collation_row(session, oid)
    if row is not None:
        return {name: value for name, value in row._asdict().items() if name in _COPIED}
    collation = collation_by_oid(oid)
    assert collation is not None
    return _values(collation)


_COPIED = (
    "collprovider", "collisdeterministic", "collencoding", "collcollate", "collctype", "colllocale", "collicurules",
    "collversion",
)  # fmt: skip


def _values(collation: Collation) -> dict[str, Any]:
    return {name: getattr(collation, name.replace("collis", "coll").removeprefix("coll")) for name in _COPIED}


def _defined(session: Session, given: dict[str, Any]) -> dict[str, Any]:
    provider = _PROVIDERS.get(given.get("provider", "libc").lower())
    if provider is None:
        raise PgError("42P17", f"unrecognized collation provider: {given['provider']}")
    if provider == "i":
        raise unsupported("collation provider icu")
    values: dict[str, Any] = {
        "collprovider": provider, "collisdeterministic": True, "collencoding": UTF8, "collcollate": None,
        "collctype": None, "colllocale": None, "collicurules": None, "collversion": given.get("version"),
    }  # fmt: skip
    if provider == "b":
        values |= _builtin_locale(given)
    else:
        values["collcollate"] = given.get("lc_collate", given.get("locale"))
        values["collctype"] = given.get("lc_ctype", given.get("locale"))
        for name in ("lc_collate", "lc_ctype"):
            if values[f"coll{name.removeprefix('lc_')}"] is None:
                raise PgError("42P17", f'parameter "{name}" must be specified')
    if not given.get("deterministic", True):
        raise PgError("0A000", "nondeterministic collations not supported with this provider")
    if "rules" in given:
        raise PgError("42P17", "ICU rules cannot be specified unless locale provider is ICU")
    for locale in filter(None, (values["collcollate"], values["collctype"])):
        if locale.lower() not in _LIBC_LOCALES:
            raise unsupported(f'locale "{locale}"')
    return values


def _builtin_locale(given: dict[str, Any]) -> dict[str, Any]:
    """The locale of the provider `builtin`, which must be known (builtin_validate_locale)."""
    if "locale" not in given:
        raise PgError("42P17", 'parameter "locale" must be specified')
    locale = _BUILTIN_LOCALES.get(given["locale"])
    if locale is None:
        raise PgError("42809", f'invalid locale name "{given["locale"]}" for builtin provider')
    encoding = ANY_ENCODING if locale == "C" else UTF8
    return {"colllocale": locale, "collencoding": encoding, "collversion": given.get("version", _VERSION)}


def _there(session: Session, namespace: int, name: str, encoding: int) -> str | None:
    """The words for a collation of this name that is in the schema already."""
    if not collation_in_schema(session, namespace, name):
        return None
    return f'collation "{name}"' + (' for encoding "UTF8"' if encoding != ANY_ENCODING else "")


# --- ALTER ----------------------------------------------------------------------------------------------------------


def _parts(name: RangeVar | None) -> Names:
    assert name is not None
    return tuple(part for part in (name.catalog, name.schema, name.name) if part is not None)


def _own(session: Session, oid: int) -> pg_collation:
    """The row of a user's collation, which the role must own."""
    row = collation_row(session, oid)
    if row is None:
        collation = collation_by_oid(oid)
        assert collation is not None
        check_owner(session, "collation", collation.name, BOOTSTRAP_SUPERUSER)
        raise unsupported(f"changing the built-in collation {collation.name}")
    check_owner(session, "collation", row.collname, row.collowner)
    return row


def rename_collation(stmt: RenameStmt, session: Session) -> Result:
    row = _own(session, collation_of_name(session, _parts(stmt.relation)))
    check_create(session, row.collnamespace)
    _refuse_same(session, row.collnamespace, stmt.new_name)
    store.update(session, pg_collation, {"oid": row.oid}, collname=stmt.new_name)
    return Result("ALTER COLLATION")


def _refuse_same(session: Session, namespace: int, name: str) -> None:
    """Raises for a collation of the same name (IsThereCollationInNamespace)."""
    oid = collation_in_schema(session, namespace, name)
    if oid:
        known = collation_row(session, oid)
        encoding = ANY_ENCODING if known is None else known.collencoding
        there = _there(session, namespace, name, encoding)
        raise PgError("42710", f'{there} already exists in schema "{schema_name(session, namespace)}"')


def give_collation(stmt: AlterOwnerStmt, session: Session) -> Result:
    oid = collation_of_name(session, stmt.name)
    new_owner = resolve_role(session, stmt.new_owner)
    row = collation_row(session, oid)
    change_collation_owner(session, row or _own(session, oid), new_owner)
    return Result("ALTER COLLATION")


def change_collation_owner(session: Session, row: pg_collation, owner: int) -> None:
    if row.collowner != owner:
        check_may_give(session, "collation", row.collname, row.collowner, row.collnamespace, owner)
        store.update(session, pg_collation, {"oid": row.oid}, collowner=owner)


def set_collation_schema(stmt: AlterObjectSchemaStmt, session: Session) -> Result:
    oid = collation_of_name(session, _parts(stmt.relation))
    namespace = schema_for_creation(session, stmt.new_schema)
    row = _own(session, oid)
    check_may_move(session, row.collnamespace, namespace)
    if namespace != row.collnamespace:
        _refuse_same(session, namespace, row.collname)
        store.update(session, pg_collation, {"oid": oid}, collnamespace=namespace)
        depend_on_schema(session, ObjectAddress(PG_COLLATION, row.oid), namespace)
    return Result("ALTER COLLATION")


def refresh_collation(stmt: AlterCollationStmt, session: Session) -> Result:
    """As AlterCollation does. Of the locales that are here only those of the provider builtin have a version."""
    oid = collation_of_name(session, stmt.name)
    if oid == DEFAULT_COLLATION:
        message = "cannot refresh version of default collation"
        raise PgError("0A000", message, hint="Use ALTER DATABASE ... REFRESH COLLATION VERSION instead.")
    row = _own(session, oid)
    actual = _VERSION if row.collprovider == "b" else None
    if (row.collversion is None) is not (actual is None):
        raise PgError("XX000", "invalid collation version change")
    if row.collversion == actual:
        session.notice("NOTICE", "version has not changed")
    else:
        session.notice("NOTICE", f"changing version from {row.collversion} to {actual}")
        store.update(session, pg_collation, {"oid": row.oid}, collversion=actual)
    return Result("ALTER COLLATION")


# --- DROP -----------------------------------------------------------------------------------------------------------


def drop_collations(stmt: DropStmt, session: Session) -> Result:
    """DROP COLLATION (RemoveObjects)."""
    addresses = []
    for parts in stmt.names:
        if stmt.missing_ok and (missing := _missing(session, parts)) is not None:
            session.notice("NOTICE", f"{missing} does not exist, skipping")
            continue
        oid = collation_of_name(session, parts)
        row = collation_row(session, oid)
        owner, namespace = (BOOTSTRAP_SUPERUSER, 0) if row is None else (row.collowner, row.collnamespace)
        check_may_drop(session, "collation", ".".join(parts), owner, namespace)
        addresses.append(ObjectAddress(PG_COLLATION, int(oid)))
    if addresses:
        drop_objects(session, addresses, cascade=stmt.cascade)
    return Result("DROP COLLATION")


def _missing(session: Session, parts: Names) -> str | None:
    """What does not exist; None: the collation exists."""
    if len(parts) > 1 and schema_or_none(session, parts[-2]) is None:
        return f'schema "{parts[-2]}"'
    try:
        collation_of_name(session, parts)
    except PgError as error:
        if error.sqlstate != "42704":
            raise
        return f'collation "{".".join(parts)}"'
    return None
