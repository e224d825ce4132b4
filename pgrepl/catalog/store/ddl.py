"""CREATE TABLE and CREATE INDEX of the system tables, by SQLAlchemy, for SQLite and for PostgreSQL; and the checks of
catalog.db by `pgrepl verify`: SQLite's own, sums over the rows, references between them, and forms of values.

SQLAlchemy takes longer to load than most commands run: a new file starts as a copy of `empty.db`, which is made with
the package.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    JSON,
    TEXT,
    UUID,
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Double,
    Index,
    Integer,
    MetaData,
    SmallInteger,
    String,
    Table,
    text,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.schema import CreateIndex, CreateTable
from sqlalchemy.types import TypeEngine

from pgrepl.catalog.store import declarative, sql
from pgrepl.catalog.store.connection import PG_SCHEMA
from pgrepl.catalog.store.ducklake import LAKE_VERSION, NEW_COLUMNS, VERSIONS

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.catalog.store.connection import CatalogConnection
    from pgrepl.catalog.store.declarative import SystemTable

_TYPES: dict[str, TypeEngine[Any]] = {
    "Bool": Boolean(),
    "Char": String(1),
    "Float8": Double(),
    "Int2": SmallInteger(),
    "Int4": Integer(),
    "Int8": BigInteger(),
    "Json": JSON(),
    "Lsn": BigInteger(),
    "Moment": DateTime(timezone=True),
    "Oid": BigInteger(),  # unsigned 32 bits in PostgreSQL
    "Text": TEXT(),
    "Truth": Boolean(),
    "Uuid": UUID(),
    "Varchar": String(),
}
# as DuckDB makes the columns of a DuckLake in SQLite
_IN_SQLITE: dict[str, TypeEngine[Any]] = {"Moment": String(), "Truth": BigInteger(), "Uuid": String()}


@cache
def tables(*, is_sqlite: bool) -> list[Table]:
    """All system tables, with their indexes."""
    metadata = MetaData()
    return [_made(table, metadata, is_sqlite=is_sqlite) for table in declarative.every]


def _made(declared: SystemTable, metadata: MetaData, *, is_sqlite: bool) -> Table:
    types = {**_TYPES, **_IN_SQLITE} if is_sqlite else _TYPES
    columns: list[Column[Any]] = []
    for name in declared.columns:
        if name == "row_version":
            columns.append(Column(name, Integer, primary_key=True, autoincrement=True))
        else:
            required = declared.versioned and name == "begin_snapshot"
            columns.append(Column(name, types[declared.kind(name)], nullable=not required))
    table = Table(declared.name, metadata, *columns, info={"versioned": declared.versioned})
    current = "end_snapshot IS NULL" if declared.versioned else None
    if declared.key:
        _index(f"{table.name}_key", table, declared.key, current, unique=True)
    for number, names in enumerate(declared.indexes, 1):
        _index(f"{table.name}_ix{number}", table, names, current)
    if declared.acl is not None:
        _index(f"{table.name}_acl", table, ("end_snapshot",), f"{declared.acl} IS NOT NULL AND {current}")
    return table


def _index(name: str, table: Table, columns: tuple[str, ...], rows: str | None, *, unique: bool = False) -> None:
    condition = None if rows is None else text(rows)
    parts = [table.c[c] if c in table.c else text(c) for c in columns]  # a column, or an expression over one
    Index(name, *parts, unique=unique, sqlite_where=condition, postgresql_where=condition)


@cache
def _statements(*, is_sqlite: bool) -> dict[str, list[str]]:
    """The statements that make each table and its indexes, by the table's name."""
    made_by: Any = sqlite.dialect if is_sqlite else postgresql.dialect
    dialect = made_by()
    statements = {}
    for table in tables(is_sqlite=is_sqlite):
        indexes = sorted(table.indexes, key=lambda index: str(index.name))  # a set: each build makes the same file
        parts: list[Any] = [CreateTable(table), *map(CreateIndex, indexes)]
        statements[table.name] = [str(statement.compile(dialect=dialect)) for statement in parts]
    return statements


def main(path: Path = declarative.EMPTY_FILE) -> None:
    """Write `empty.db`: all system tables, without rows."""
    from pgrepl.catalog.store import ducklake, tables  # noqa: F401 - they declare them

    new = path.with_suffix(f".{os.getpid()}")
    new.unlink(missing_ok=True)
    with closing(sqlite3.connect(new, isolation_level=None)) as link:
        link.execute("PRAGMA synchronous = OFF")
        link.execute("BEGIN")
        for statements in _statements(is_sqlite=True).values():
            for statement in statements:
                link.execute(statement)
        link.execute("COMMIT")
    new.replace(path)  # whole at every moment: another process may be reading


def create(link: CatalogConnection) -> None:
    """Make the system tables that are not there."""
    listed = (
        "SELECT name FROM sqlite_master" if link.is_sqlite else "SELECT tablename FROM pg_tables WHERE schemaname = ?"
    )
    there = {row[0] for row in link.execute(listed, () if link.is_sqlite else (PG_SCHEMA,))}
    for name, statements in _statements(is_sqlite=link.is_sqlite).items():
        if name not in there:
            for statement in statements:
                link.execute(statement)


def index_anew(link: CatalogConnection) -> None:
    """Give each system table the indexes that it has today: an older pgrepl had others, by the same names too."""
    there = "SELECT name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL AND tbl_name = ?"
    if not link.is_sqlite:
        there = "SELECT indexname FROM pg_indexes WHERE schemaname = current_schema AND tablename = ?"
    for name, (_, *indexes) in _statements(is_sqlite=link.is_sqlite).items():
        for (index,) in link.execute(there, (name,)):
            if not index.endswith("_pkey"):
                link.execute(f'DROP INDEX "{index}"')
        for statement in indexes:
            link.execute(statement)


def sqlite_type(column: Column[Any]) -> str:
    made_by: Any = sqlite.dialect
    return column.type.compile(made_by())


if __name__ == "__main__":
    main()


_MOST = 100  # of one kind

# table and column → the table and column that have its values; 0 and NULL refer to nothing
_REFERENCES = (
    ("pg_namespace", "datid", "pg_database", "oid"), ("pg_namespace", "nspowner", "pg_authid", "oid"),
    ("pg_namespace", "schema_id", "ducklake_schema", "schema_id"),
    ("pg_class", "datid", "pg_database", "oid"), ("pg_class", "relnamespace", "pg_namespace", "oid"),
    ("pg_class", "relowner", "pg_authid", "oid"),
    ("pg_attribute", "attrelid", "pg_class", "oid"), ("pg_attrdef", "adrelid", "pg_class", "oid"),
    ("pg_constraint", "conrelid", "pg_class", "oid"), ("pg_constraint", "confrelid", "pg_class", "oid"),
    ("pg_constraint", "conindid", "pg_class", "oid"), ("pg_constraint", "conparentid", "pg_constraint", "oid"),
    ("pg_index", "indexrelid", "pg_class", "oid"), ("pg_index", "indrelid", "pg_class", "oid"),
    ("pg_inherits", "inhrelid", "pg_class", "oid"), ("pg_inherits", "inhparent", "pg_class", "oid"),
    ("pg_partitioned_table", "partrelid", "pg_class", "oid"), ("pg_rewrite", "ev_class", "pg_class", "oid"),
    ("pg_sequence", "seqrelid", "pg_class", "oid"), ("pg_trigger", "tgrelid", "pg_class", "oid"),
    ("pg_trigger", "tgconstraint", "pg_constraint", "oid"),
    ("pg_database", "datdba", "pg_authid", "oid"), ("pg_auth_members", "roleid", "pg_authid", "oid"),
    ("pg_auth_members", "member", "pg_authid", "oid"), ("pg_auth_members", "grantor", "pg_authid", "oid"),
    ("pg_publication", "datid", "pg_database", "oid"), ("pg_publication", "pubowner", "pg_authid", "oid"),
    ("pg_publication_rel", "prpubid", "pg_publication", "oid"), ("pg_publication_rel", "prrelid", "pg_class", "oid"),
    ("pg_publication_namespace", "pnpubid", "pg_publication", "oid"),
    ("pg_publication_namespace", "pnnspid", "pg_namespace", "oid"),
    ("pg_subscription", "subdbid", "pg_database", "oid"), ("pg_subscription", "subowner", "pg_authid", "oid"),
    ("pg_subscription_rel", "srsubid", "pg_subscription", "oid"), ("pg_subscription_rel", "srrelid", "pg_class", "oid"),
    ("pg_replication_slot", "datoid", "pg_database", "oid"),
    ("ducklake_table", "schema_id", "ducklake_schema", "schema_id"),
    ("ducklake_view", "schema_id", "ducklake_schema", "schema_id"),
    ("ducklake_column", "table_id", "ducklake_table", "table_id"),
    ("ducklake_data_file", "table_id", "ducklake_table", "table_id"),
    ("ducklake_delete_file", "table_id", "ducklake_table", "table_id"),
    ("ducklake_delete_file", "data_file_id", "ducklake_data_file", "data_file_id"),
    ("ducklake_file_column_stats", "data_file_id", "ducklake_data_file", "data_file_id"),
    ("ducklake_table_stats", "table_id", "ducklake_table", "table_id"),
    ("ducklake_table_column_stats", "table_id", "ducklake_table", "table_id"),
    ("ducklake_inlined_data_tables", "table_id", "ducklake_table", "table_id"),
    ("ducklake_inlined_data_tables", "table_name", "sqlite_master", "name"),
    ("ducklake_schema_versions", "table_id", "ducklake_table", "table_id"),
)  # fmt: skip
_COUNTERS = (  # the query for the next number, and the columns with those that were given out
    ("SELECT next_oid FROM pgrepl_instance",
     (("pg_class", "oid"), ("pg_publication", "oid"), ("pg_subscription", "oid"), ("pg_constraint", "oid"))),
    (sql.NEXT_FILE_ID,
     (("ducklake_data_file", "data_file_id"), ("ducklake_delete_file", "delete_file_id"))),
    (sql.NEXT_CATALOG_ID,
     (("ducklake_table", "table_id"), ("ducklake_schema", "schema_id"), ("ducklake_view", "view_id"))),
)  # fmt: skip


def catalog_problems(session: Session) -> Iterator[str]:
    """A sentence for each problem, found in a transaction that reads."""
    session.transaction.require_read()
    if session.catalog.is_sqlite:
        yield from _of_sqlite(session)
        wrong = list(_layouts(session))
        yield from wrong
        if wrong:
            return  # the queries below might fail
        yield from _sums(session)
        yield from _values(session)
    yield from _metadata(session)
    yield from _references(session)
    yield from _snapshots(session)
    yield from _counters(session)


def _tables() -> list[Any]:
    """The tables that pgrepl makes."""
    return list(tables(is_sqlite=True))


_METADATA = {"version": VERSIONS, "encrypted": ("false",)}


def _metadata(session: Session) -> Iterator[str]:
    options = dict(session.link.execute(sql.OPTIONS_OF_LAKE))
    for key, value in _METADATA.items():
        if options.get(key) not in value:
            yield f"ducklake_metadata says {options.get(key)!r} of {key} instead of {value[0]!r}"
    if "data_path" not in options:
        yield "ducklake_metadata does not say where the files are"


def _sums(session: Session) -> Iterator[str]:
    for name in declarative.disagreeing(session.link, declarative.every):
        yield f"the rows of {name} are not as they were written"


def _layouts(session: Session) -> Iterator[str]:
    """Tables, columns and indexes that are missing or different."""
    link = session.link
    is_newer = dict(link.execute(sql.OPTIONS_OF_LAKE)).get("version") != LAKE_VERSION
    for table in _tables():
        columns = {(row[1], row[2]) for row in link.execute(f'PRAGMA table_info("{table.name}")')}
        if is_newer:
            columns -= {(name, kind) for name, kind in map(str.split, NEW_COLUMNS.get(table.name, ()))}
        wanted = {(column.name, sqlite_type(column)) for column in table.columns}
        if columns != wanted:
            odd = ", ".join(sorted(" ".join(column) for column in columns ^ wanted))
            yield f"table {table.name} " + (f"has other columns: {odd}" if columns else "is missing")
        there = {row[1] for row in link.execute(f'PRAGMA index_list("{table.name}")')}
        for index in table.indexes:
            if index.name not in there:
                yield f"index {index.name} is missing"


def _of_sqlite(session: Session) -> Iterator[str]:
    for (said,) in session.link.execute(f"PRAGMA integrity_check({_MOST})"):
        if said != "ok":
            yield f"SQLite: {said}"


_KINDS = {"BIGINT": "integer", "INTEGER": "integer", "SMALLINT": "integer", "BOOLEAN": "integer"}


def _values(session: Session) -> Iterator[str]:
    """Values that are not of their column's type, or not JSON where they should be."""
    link = session.link
    for table in _tables():
        for column in table.columns:
            declared = sqlite_type(column)
            kind = _KINDS.get(declared, "text" if declared != "DOUBLE" else "real")
            name = f'"{column.name}"'
            wrong = f"typeof({name}) NOT IN ('null', '{kind}')"
            if declared == "BOOLEAN":
                wrong += f" OR {name} NOT IN (0, 1)"
            if kind == "real":
                wrong = f"typeof({name}) NOT IN ('null', 'real', 'integer')"
            for (count,) in link.execute(f"SELECT count(*) FROM {table.name} WHERE {wrong}"):
                if count:
                    yield f"{table.name}.{column.name} has {count} values that are no {kind}"
            if declared == "JSON":
                for (text,) in link.execute(f"SELECT {name} FROM {table.name} WHERE typeof({name}) = 'text'"):
                    if not _is_json(text):
                        yield f"{table.name}.{column.name} has a value that is not JSON"


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _is_time(value: Any) -> bool:
    text = str(value)
    try:
        datetime.fromisoformat(text + ":00" if re.search(r"[+-]\d\d\Z", text) else text)
    except ValueError:
        return False
    return True


def _references(session: Session) -> Iterator[str]:
    link = session.link
    for table, column, target, key in _REFERENCES:
        if target == "sqlite_master" and not link.is_sqlite:
            continue
        here = _current(table)
        there = " AND t.end_snapshot IS NULL" if _current(table) and _current(target) else ""
        nothing = "" if key.endswith("_id") or key == "name" else f" AND c.{column} <> 0"
        for (value,) in link.execute(
            f"SELECT DISTINCT c.{column} FROM {table} c WHERE c.{column} IS NOT NULL{nothing}{here.replace('x.', 'c.')}"
            f" AND NOT EXISTS (SELECT 1 FROM {target} t WHERE t.{key} = c.{column}{there}) LIMIT {_MOST}"
        ):
            yield f"{table}.{column} refers to {value}, which is not in {target}"


_OF_DUCKLAKE = ("ducklake_schema", "ducklake_table", "ducklake_view", "ducklake_column")


def _current(table: str) -> str:
    """The condition for current rows of a table that keeps older ones."""
    versioned = {system_table.name for system_table in _tables() if system_table.info["versioned"]}
    return " AND x.end_snapshot IS NULL" if table in versioned or table in _OF_DUCKLAKE else ""


_CHANGE = re.compile(r"(?:^|,)([^:,\"]+):")
_CHANGES = frozenset((  # DuckLake's words for what a snapshot did
    "created_schema", "created_table", "created_view", "created_scalar_macro", "created_table_macro",
    "dropped_schema", "dropped_table", "dropped_view", "dropped_scalar_macro", "dropped_table_macro",
    "altered_table", "altered_view", "inserted_into_table", "deleted_from_table", "compacted_table",
    "inlined_insert", "inlined_delete", "inline_flush", "flushed_inlined", "merge_adjacent", "rewrite_delete",
))  # fmt: skip


def _snapshots(session: Session) -> Iterator[str]:
    link = session.link
    last, count, distinct = link.execute(sql.NUMBERS_OF_SNAPSHOTS)[0]
    if last is None:
        yield "ducklake_snapshot is empty"
        return
    if count != distinct:
        yield "ducklake_snapshot has a snapshot twice"
    for (number,) in link.execute(sql.CHANGES_WITHOUT_SNAPSHOT, (_MOST,)):
        yield f"ducklake_snapshot_changes has snapshot {number}, which is not in ducklake_snapshot"
    for table in _tables():
        names = {column.name for column in table.columns}
        if "begin_snapshot" not in names or table.name == "pgrepl_inlined":
            continue
        ends = " OR end_snapshot < begin_snapshot OR end_snapshot > {0}" if "end_snapshot" in names else ""
        for (wrong,) in link.execute(
            f"SELECT count(*) FROM {table.name} WHERE begin_snapshot IS NULL OR begin_snapshot < 0"
            f" OR begin_snapshot > {last}{ends.format(last)}"
        ):
            if wrong:
                yield f"{table.name} has {wrong} rows of snapshots that never were"
    yield from _endings(session)
    for number, when, changes, extra in link.execute(sql.EVERY_CHANGE):
        if extra is not None and not _is_json(extra):
            yield f"ducklake_snapshot_changes has no JSON in commit_extra_info of snapshot {number}"
        for change in _CHANGE.findall(changes or ""):
            if change not in _CHANGES:
                yield f'ducklake_snapshot_changes has the unknown word "{change}" of snapshot {number}'
        if not _is_time(when):
            yield f"ducklake_snapshot has no time of snapshot {number}"


def _endings(session: Session) -> Iterator[str]:
    """Files that ended at a snapshot which does not say that it changed the table."""
    link = session.link
    for table, key in (("ducklake_data_file", "data_file_id"), ("ducklake_delete_file", "delete_file_id")):
        for number, table_id, end, changed in link.execute(sql.ended_files(table, key)):
            changes = [change.rpartition(":")[2] for change in (changed or "").split(",")]
            if str(table_id) not in changes:
                yield f"{table} has file {number} end at snapshot {end}, which did not change its table"


def _counters(session: Session) -> Iterator[str]:
    link = session.link
    for question, given in _COUNTERS:
        answer = link.execute(question)
        if not answer or answer[0][0] is None:
            yield f"there is no answer to {question}"
            continue
        for table, column in given:
            highest = link.execute(f"SELECT max({column}) FROM {table}")[0][0]
            if highest is not None and highest >= answer[0][0]:
                yield f"{table}.{column} is {highest}, but the next number to give out is {answer[0][0]}"
    if link.execute("SELECT count(*) FROM pgrepl_instance")[0][0] != 1:
        yield "pgrepl_instance has not exactly one row"
