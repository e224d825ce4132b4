"""CREATE and ALTER PUBLICATION; CREATE, ALTER and DROP SUBSCRIPTION."""

from __future__ import annotations

from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.sql.building import build
from pgrepl.sql.building.names import Indirection, qualified_relation
from pgrepl.sql.nodes import (
    AlterPublicationAction,
    AlterPublicationStmt,
    CreatePublicationStmt,
    DefElem,
    Expr,
    PublicationObj,
    PublicationObjKind,
    PublicationTable,
    RangeVar,
)

_TABLE = PublicationObjKind.TABLE
_SCHEMA = PublicationObjKind.TABLES_IN_SCHEMA
_CURRENT_SCHEMA = PublicationObjKind.TABLES_IN_CUR_SCHEMA


@frozen
class _Object:
    """A publication object as written. kind None: it continues the list of the object before it.

    A location of 0 is PostgreSQL's own: where it leaves the field unset, its cursor stands at the first character.
    """

    kind: PublicationObjKind | None
    location: int
    name: str | None = None
    table: PublicationTable | None = None


@frozen
class _All:
    """ALL TABLES, with the tables that EXCEPT leaves out, or ALL SEQUENCES."""

    kind: str
    location: int
    excepted: tuple[RangeVar, ...] = ()


# ------------------------------------------------------------------------------------------------ objects


def _table(relation: RangeVar, columns: list[str] | None, where: Expr | None) -> PublicationTable:
    return PublicationTable(relation, where, None if columns is None else tuple(columns))


@build
def publication_table(location: int, relation: RangeVar, columns: list[str] | None, where: Expr | None) -> _Object:
    return _Object(_TABLE, 0, table=_table(relation, columns, where))


@build
def publication_schema(location: int, name: str) -> _Object:
    return _Object(_SCHEMA, location, name)


@build
def publication_current_schema(location: int) -> _Object:
    return _Object(_CURRENT_SCHEMA, location)


@build
def publication_name(location: int, name: str, columns: list[str] | None, where: Expr | None) -> _Object:
    if columns is None and where is None:
        return _Object(None, location, name)
    return _Object(None, location, table=_table(RangeVar(name, location=location), columns, where))


@build
def publication_qualified_name(
    location: int, name: str, indirection: Indirection, columns: list[str] | None, where: Expr | None
) -> _Object:
    relation = qualified_relation(location, name, indirection)
    return _Object(None, location, table=_table(relation, columns, where))


@build
def publication_relation(location: int, relation: RangeVar, columns: list[str] | None, where: Expr | None) -> _Object:
    return _Object(None, 0, table=_table(relation, columns, where))


@build
def publication_current_schema_name(location: int) -> _Object:
    return _Object(None, location)


def carried_over(objects: list[_Object]) -> tuple[PublicationObj, ...]:
    """Give each object without a key word the kind of the one before it (as preprocess_pubobj_list does)."""
    if objects[0].kind is None:
        raise PgError(
            "42601",
            "invalid publication object list",
            detail="One of TABLE or TABLES IN SCHEMA must be specified before a standalone table or schema name.",
            location=objects[0].location,
        )
    done: list[PublicationObj] = []
    kind = _TABLE
    for item in objects:
        done.append(_as_table(item) if (item.kind or kind) is _TABLE else _as_schema(item))
        kind = done[-1].kind
    return tuple(done)


def _as_table(item: _Object) -> PublicationObj:
    if item.table is None:
        if item.name is None:
            raise PgError("42601", "invalid table name", location=item.location)
        return PublicationObj(_TABLE, table=_table(RangeVar(item.name, location=item.location), None, None))
    return PublicationObj(_TABLE, table=item.table)


def _as_schema(item: _Object) -> PublicationObj:
    if item.table is not None:
        fault = "invalid schema name"
        if item.table.columns is not None:
            fault = "column specification not allowed for schema"
        if item.table.where is not None:
            fault = "WHERE clause not allowed for schema"
        raise PgError("42601", fault, location=item.location)
    return PublicationObj(_CURRENT_SCHEMA if item.name is None else _SCHEMA, item.name, location=item.location)


@build
def publication_all_tables(location: int) -> _All:
    return _All("TABLES", location)


@build
def publication_all_tables_except(location: int, excepted: tuple[RangeVar, ...]) -> _All:
    return _All("TABLES", location, excepted)


@build
def publication_all_sequences(location: int) -> _All:
    return _All("SEQUENCES", location)


@build
def except_another_table(
    location: int, others: tuple[RangeVar, ...], _: None, relation: RangeVar
) -> tuple[RangeVar, ...]:
    return (*others, relation)


def _together(everything: list[_All]) -> tuple[bool, bool, tuple[PublicationObj, ...]]:
    """Are all tables meant, and all sequences? And the tables that are left out (preprocess_pub_all_objtype_list)."""
    named: set[str] = set()
    excepted: list[PublicationObj] = []
    for clause in everything:
        if clause.kind in named:
            raise PgError(
                "42601",
                "invalid publication object list",
                detail=f"ALL {clause.kind} can be specified only once.",
                location=clause.location,
            )
        named.add(clause.kind)
        excepted += [
            PublicationObj(PublicationObjKind.EXCEPT_TABLE, table=PublicationTable(relation))
            for relation in clause.excepted
        ]
    return "TABLES" in named, "SEQUENCES" in named, tuple(excepted)


# ------------------------------------------------------------------------------------------------ statements


@build
def create_publication_for_all(
    location: int, name: str, everything: list[_All], options: list[DefElem]
) -> CreatePublicationStmt:
    tables, sequences, excepted = _together(everything)
    return CreatePublicationStmt(name, excepted, tables, sequences, tuple(options))


@build
def create_publication_for_objects(
    location: int, name: str, objects: list[_Object], options: list[DefElem]
) -> CreatePublicationStmt:
    return CreatePublicationStmt(name, carried_over(objects), options=tuple(options))


@build
def alter_publication_set_all(location: int, name: str, everything: list[_All]) -> AlterPublicationStmt:
    tables, sequences, excepted = _together(everything)
    return AlterPublicationStmt(name, AlterPublicationAction.SET, excepted, tables, sequences)


@build
def alter_publication(
    location: int, name: str, objects: list[_Object], action: AlterPublicationAction
) -> AlterPublicationStmt:
    return AlterPublicationStmt(name, action, carried_over(objects))
