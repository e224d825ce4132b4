"""CREATE TABLE of a dump: columns with defaults, checks, inheritance, partition key."""

from __future__ import annotations

from collections.abc import Iterator

from pgrepl.catalog.inheritance import parents
from pgrepl.catalog.relation import Attribute, Relation, relation
from pgrepl.catalog.session import Session
from pgrepl.catalog.store import rows
from pgrepl.catalog.tables import pg_constraint
from pgrepl.expr.defaults import default_text
from pgrepl.expr.definitions import (
    constraint_definition,
    options_text,
    partition_key_definition,
)
from pgrepl.expr.type_definition import collate_clause
from pgrepl.expr.typefacts import type_text
from pgrepl.sql.quote import quote_identifier
from pgrepl.statements.dump import naming
from pgrepl.types.builtin import type_by_oid


def create_table(session: Session, table: Relation) -> str:
    """A partition has all its columns and checks itself: it is attached later."""
    parts = [column_definition(session, table, c) for c in table.columns if is_printed(table, c)]
    for row in rows(session, pg_constraint, conrelid=table.oid):
        if row.contype == "c" and (row.conislocal or table.is_partition) and row.convalidated:
            parts.append(f"CONSTRAINT {quote_identifier(row.conname)} {constraint_definition(session, row.oid)}")
    unlogged = "UNLOGGED " if table.persistence == "u" else ""
    body = "".join(f"\n    {part}," for part in parts)[:-1]
    text = f"CREATE {unlogged}TABLE {naming.qualified(table)} ({body}\n)"
    text += _parents(session, table)
    key = partition_key_definition(session, table.oid) if table.kind == "p" else None
    if key is not None:
        text += f"\nPARTITION BY {key}"
    if table.options:
        text += f"\nWITH ({options_text(table.options)})"
    return text + ";"


_STORAGE = {"p": "PLAIN", "e": "EXTERNAL", "m": "MAIN", "x": "EXTENDED"}
_COMPRESSION = {"p": "pglz", "l": "lz4"}


def is_printed(table: Relation, column: Attribute) -> bool:
    """Is the column in CREATE TABLE (shouldPrintColumn)? Inherited ones are not."""
    return column.is_local or table.is_partition


def column_settings(session: Session, table: Relation) -> Iterator[str]:
    """Settings of columns that `create_table` leaves out: NOT NULL and the default of an inherited column, statistics,
    storage, compression."""
    for column in table.columns:
        kind = type_by_oid(column.type)
        prefix = f"ALTER TABLE ONLY {naming.qualified(table)} ALTER COLUMN {quote_identifier(column.name)} SET"
        if not is_printed(table, column):
            if column.notnull and not any(c.notnull for c in _inherited(session, table, column)):
                yield f"{prefix} NOT NULL;"
            default = default_of(session, table, column)
            if default is not None and not column.generated:
                yield f"{prefix} DEFAULT {default};"
        if column.stattarget is not None and column.stattarget >= 0:
            yield f"{prefix} STATISTICS {column.stattarget};"
        if kind is not None and column.storage != kind.storage:
            yield f"{prefix} STORAGE {_STORAGE[column.storage]};"
        if column.compression:
            yield f"{prefix} COMPRESSION {_COMPRESSION[column.compression]};"


def _parents(session: Session, table: Relation) -> str:
    if table.is_partition:
        return ""
    names = [naming.qualified(relation(session, parent)) for parent in parents(session, table.oid)]
    return f"\nINHERITS ({', '.join(names)})" if names else ""


def _inherited(session: Session, table: Relation, column: Attribute) -> list[Attribute]:
    """The columns of the parents that the column is inherited from."""
    named = [c for parent in parents(session, table.oid) for c in relation(session, parent).columns]
    return [c for c in named if c.name == column.name]


def default_of(session: Session, table: Relation, column: Attribute) -> str | None:
    """The column's default; NULL hides that of a parent (flagInhAttrs)."""
    if column.has_default:
        return default_text(session, table.oid, column.num)
    hides = any(c.has_default and not c.generated for c in _inherited(session, table, column))
    return "NULL" if hides else None


def column_definition(session: Session, table: Relation, column: Attribute) -> str:
    text = f"{quote_identifier(column.name)} {type_text(session, column.type, column.typmod)}"
    text += collate_clause(session, column.type, column.collation)
    default = default_of(session, table, column)
    if default is not None:
        text += f" GENERATED ALWAYS AS ({default}) STORED" if column.generated else f" DEFAULT {default}"
    return text + (" NOT NULL" if column.notnull else "")
