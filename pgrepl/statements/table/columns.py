"""New columns before they are stored in pg_attribute: their type, collation and storage, and types that are refused.
And changes of those that are stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pgrepl.catalog.facts.relation import Relation
from pgrepl.catalog.facts.user_types import check_usage
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store import store
from pgrepl.catalog.store.tables import pg_attribute
from pgrepl.expr.analyse import lookup
from pgrepl.expr.analyse.casts import column_collation, type_of_name
from pgrepl.expr.tree import Expr as TypedExpr
from pgrepl.ground.errors import PgError, unsupported
from pgrepl.sql.nodes import ColumnDef, Expr, TypeName
from pgrepl.types.builtin import type_by_oid
from pgrepl.types.oids import FIRST_USER_OID
from pgrepl.types.user_types import RowArray

MAX_COLUMNS = 1600
SYSTEM_COLUMNS = {"tableoid": -6, "cmax": -5, "xmax": -4, "cmin": -3, "xmin": -2, "ctid": -1}
SYSTEM_NAMES = {number: name for name, number in SYSTEM_COLUMNS.items()}

_STORAGES = {"plain": "p", "external": "e", "extended": "x", "main": "m"}
_COMPRESSIONS = {"pglz": "p", "lz4": "l"}


@dataclass(slots=True)
class NewColumn:
    """A column to be created. It is changed as constraints and the columns of parents are merged into it."""

    name: str
    type_name: TypeName | None = None  # None: a partition's column options, whose type is its parent's
    type: int = 0
    typmod: int = -1
    collation: int = 0
    ndims: int = 0
    setof: bool = False
    not_null: bool = False
    raw_default: Expr | None = None
    cooked_default: TypedExpr | None = None
    identity: str = ""
    generated: str = ""
    storage: str = ""
    storage_name: str | None = None
    compression: str = ""
    compression_name: str | None = None
    is_local: bool = True
    inhcount: int = 0
    identity_sequence: int = 0


def new_column(session: Session, column: ColumnDef) -> NewColumn:
    """A column as it was written, its type looked up, as transformColumnType and BuildDescForRelation do."""
    new = NewColumn(column.name, column.type_name, storage_name=column.storage, compression_name=column.compression)
    if column.type_name is None:
        return new
    set_type(session, new, column.type_name, column.collation, column.collation_location)
    return new


def set_type(
    session: Session, column: NewColumn, type_name: TypeName, collation: tuple[str, ...] = (), location: int = -1
) -> None:
    column.type_name = type_name
    column.type, column.typmod = type_of_name(session, type_name)
    if column.type >= FIRST_USER_OID:
        check_usage(session, column.type)
    column.ndims = len(type_name.array_bounds)
    column.setof = type_name.setof
    column.collation = column_collation(session, collation, location, column.type)


def column_of_type(
    name: str, type_: int, typmod: int, collation: int, *, ndims: int = 0, not_null: bool = False
) -> NewColumn:
    """A column like an existing one, as makeColumnDef makes it."""
    return NewColumn(name, None, type_, typmod, collation, ndims=ndims, not_null=not_null)


def refuse_duplicates(columns: Sequence[NewColumn]) -> None:
    """Refuse two columns of one name in a definition; the message names the first that has a double."""
    names = [column.name for column in columns]
    if len(set(names)) < len(names):
        double = next(name for name in names if names.count(name) > 1)
        raise PgError("42701", f'column "{double}" specified more than once')


def finish(session: Session, columns: Sequence[NewColumn]) -> None:
    """Check and complete the columns as BuildDescForRelation does: SETOF, compression, storage."""
    for column in columns:
        if column.setof:
            raise PgError("42P16", f'column "{column.name}" cannot be declared SETOF')
        if column.type_name is not None and column.type_name.typmods:
            # the modifier is read again, and again warned of, this time with no place in the statement
            type_of_name(session, replace(column.type_name, location=-1))
        if column.compression_name is not None:
            column.compression = compression_of(session, column.type, column.compression_name)
        if not column.storage:
            column.storage = storage_of(session, column.type, column.storage_name or "default")


def type_storage(type_: int) -> str:
    type_row = type_by_oid(type_)
    return type_row.storage if type_row is not None else "x"  # a row type


def storage_of(session: Session, type_: int, name: str) -> str:
    """PLAIN, EXTERNAL, EXTENDED, MAIN or DEFAULT for a column of this type, as GetAttributeStorage does."""
    word = name.lower()
    storage = type_storage(type_) if word == "default" else _STORAGES.get(word)
    if storage is None:
        raise PgError("22023", f'invalid storage type "{name}"')
    if storage != "p" and type_storage(type_) == "p":
        raise PgError("0A000", f"column data type {lookup.type_text(session, type_)} can only have storage PLAIN")
    return storage


def compression_of(session: Session, type_: int, name: str) -> str:
    """The letter of a compression method, which the type must support (GetAttributeCompression); "" is the default."""
    if name == "default":
        return ""
    if type_storage(type_) == "p":
        raise PgError("0A000", f"column data type {lookup.type_text(session, type_)} does not support compression")
    method = _COMPRESSIONS.get(name.lower())
    if method is None:
        raise PgError("22023", f'invalid compression method "{name}"')
    return method


def compression_name(method: str) -> str:
    return next(name for name, letter in _COMPRESSIONS.items() if letter == method)


def storage_name(storage: str) -> str:
    return next(name for name, letter in _STORAGES.items() if letter == storage).upper()


def check_names_and_types(session: Session, columns: Sequence[NewColumn], kind: str) -> None:
    """Raises for column names and types that a relation cannot have (CheckAttributeNamesTypes)."""
    if len(columns) > MAX_COLUMNS:
        raise too_many_columns()
    if kind not in "vc":
        for column in columns:
            if column.name in SYSTEM_COLUMNS:
                raise system_column_conflict(column.name)
    seen: set[str] = set()
    for column in columns:
        if column.name in seen:
            raise PgError("42701", f'column name "{column.name}" specified more than once')
        seen.add(column.name)
    for column in columns:
        check_type(session, column.name, column.type, column.collation, stored=kind != "v")
        check_virtual(column)


def check_virtual(column: NewColumn) -> None:
    """Refuse what no virtual column can be: types of users, as CheckAttributeType does."""
    if column.generated != "v":
        return
    type_row = type_by_oid(column.type)
    if type_row is not None and type_row.typtype == "d":
        raise PgError("0A000", f'virtual generated column "{column.name}" cannot have a domain type')
    if column.type >= FIRST_USER_OID:
        raise PgError(
            "0A000",
            f'virtual generated column "{column.name}" cannot have a user-defined type',
            detail="Virtual generated columns that make use of user-defined types are not yet supported.",
        )


def too_many_columns() -> PgError:
    return PgError("54011", f"tables can have at most {MAX_COLUMNS} columns")


def system_column_conflict(name: str) -> PgError:
    return PgError("42701", f'column name "{name}" conflicts with a system column name')


def check_type(
    session: Session,
    name: str,
    type_: int,
    collation: int,
    *,
    rowtypes: tuple[int, ...] = (),
    partition_key: bool = False,
    stored: bool = True,
) -> None:
    """Refuse a type no column can have, as CheckAttributeType does. `rowtypes` are those of the relation itself. No
    lake stores arrays of a table's rows, whose columns may change."""
    type_row = type_by_oid(type_)
    what = f"partition key column {name}" if partition_key else f'column "{name}"'
    if type_row is None or (type_row.typtype == "c" and type_row.relid):
        _check_row_type(session, type_, rowtypes, partition_key=partition_key)
    elif type_row.typtype == "p":
        raise PgError("42P16", f"{what} has pseudo-type {lookup.type_text(session, type_)}")
    elif type_row.typtype == "d":
        check_type(session, name, type_row.basetype, collation, rowtypes=rowtypes, partition_key=partition_key)
    elif stored and isinstance(type_, RowArray):
        raise unsupported(f"a column of type {lookup.type_text(session, type_)}")
    elif lookup.element(type_):
        check_type(session, name, lookup.element(type_), collation, rowtypes=rowtypes, partition_key=partition_key)
    if not collation and lookup.is_collatable(type_):
        raise PgError(
            "42P16",
            f"no collation was derived for {what} with collatable type {lookup.type_text(session, type_)}",
            hint="Use the COLLATE clause to set the collation explicitly.",
        )


def _check_row_type(session: Session, type_: int, rowtypes: tuple[int, ...], *, partition_key: bool) -> None:
    """A table's row type as a column: its columns must have allowed types, and it must not contain itself."""
    element = lookup.element(type_)
    if element:
        type_ = element
    if type_ in rowtypes:
        raise PgError("42P16", f"composite type {lookup.type_text(session, type_)} cannot be made a member of itself")
    for attribute in lookup.row_attributes(session, type_):
        if not attribute.dropped:
            check_type(session, attribute.name, attribute.type, attribute.collation, rowtypes=(*rowtypes, type_))


def attribute_values(relid: int, number: int, column: NewColumn) -> dict[str, Any]:
    """The pg_attribute row of a column."""
    return {
        "attrelid": relid,
        "attname": column.name,
        "atttypid": column.type,
        "attnum": number,
        "atttypmod": column.typmod,
        "attndims": column.ndims,
        "attstorage": column.storage,
        "attcompression": column.compression,
        "attnotnull": column.not_null,
        "atthasdef": False,
        "atthasmissing": False,
        "attidentity": column.identity,
        "attgenerated": column.generated,
        "attisdropped": False,
        "attislocal": column.is_local,
        "attinhcount": column.inhcount,
        "attcollation": column.collation,
    }


def name_is_free(session: Session, rel: Relation, name: str, *, if_not_exists: bool = False) -> bool:
    """Whether a column of that name can be added (check_for_column_name_collision)."""
    if name in SYSTEM_COLUMNS and rel.kind not in "vc":
        raise system_column_conflict(name)
    if rel.attribute(name) is None:
        return True
    text = f'column "{name}" of relation "{rel.name}" already exists'
    if not if_not_exists:
        raise PgError("42701", text)
    session.notice("NOTICE", f"{text}, skipping", sqlstate="42701")
    return False


def set_attribute(session: Session, relid: int, attnum: int, **values: object) -> None:
    store.update(session, pg_attribute, {"attrelid": relid, "attnum": attnum}, **values)
