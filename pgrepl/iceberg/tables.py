"""Which tables a role sees as Iceberg tables, where they are, and their options (`ALTER TABLE … SET (iceberg.version =
3)`).

The schema `public` of database `shop` is the namespace `shop`, another schema `sales` is `shop.sales`. A reader of
files reads all rows: a table with row security is seen by those only to whom that does not apply.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pgrepl.catalog.facts import roles
from pgrepl.catalog.facts.acl import (
    ObjectKind,
    has_column_privilege,
    has_privilege,
    has_table_privilege,
    permission_denied,
)
from pgrepl.catalog.facts.namespace import is_temporary, schema_or_none, schemas
from pgrepl.catalog.facts.relation import Relation, find_relation, range_var, relation
from pgrepl.catalog.facts.relation_parts import inheritors, is_active, not_supported
from pgrepl.catalog.facts.roles import is_superuser
from pgrepl.catalog.session.parameters import split_identifiers
from pgrepl.catalog.store.store import NOT_NULL, one, rows
from pgrepl.catalog.store.tables import pg_class, pg_namespace
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.lake.define.types import PUBLIC, quoted
from pgrepl.lake.sql import of_inlined
from pgrepl.lake.table import LakeTable, lake_table

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session


@frozen
class Options:
    version: int | None = None  # of Iceberg's format; None: 2, or 3 where a file needs it
    omits_time: bool = False  # columns of type time are left out: Spark refuses tables with one


def options_of(texts: Sequence[str] | None) -> Options:
    given = dict(text.partition("=")[::2] for text in texts or ())
    version = given.get("iceberg.version", "auto").lower()
    return Options(None if version == "auto" else int(version), given.get("iceberg.time", "keep").lower() == "omit")


# --- sql --------------------------------------------------------------------------------------------------------------


TABLE_UUID = "SELECT table_uuid FROM ducklake_table WHERE table_id = ? AND end_snapshot IS NULL"
VIEW_UUID = "SELECT view_uuid FROM ducklake_view WHERE view_id = ? AND end_snapshot IS NULL"
COLUMNS = (
    "SELECT column_id, column_name, column_type, parent_column, initial_default, begin_snapshot, end_snapshot"
    " FROM ducklake_column WHERE table_id = ? ORDER BY column_order, begin_snapshot"
)
NEXT_ROW_ID = "SELECT next_row_id FROM ducklake_table_stats WHERE table_id = ?"
# what tells whether the rows or columns that were there at a snapshot are others; paths are unique in all times of a
# catalog
_STATE = (
    "SELECT count(*), sum(id), max(began), count(ended), sum(ended), max(ended), max(path) FROM (SELECT {0} AS id,"
    " begin_snapshot AS began, CASE WHEN end_snapshot <= ? THEN end_snapshot END AS ended, {1} AS path FROM {2}"
    " begin_snapshot <= ?) AS there"
)
STATES = tuple(
    _STATE.format(key, path, f"{table} WHERE table_id = ? AND")
    for key, path, table in (
        ("data_file_id", "path", "ducklake_data_file"),
        ("delete_file_id", "path", "ducklake_delete_file"),
        ("column_id", "column_name", "ducklake_column"),
    )
)
_OF_TABLE = "FROM {0} WHERE table_id = ?"
_CHANGED = " UNION ".join(
    f"SELECT {column} AS at {_OF_TABLE.format(table)} AND {column} IS NOT NULL"
    for table, columns in (
        ("ducklake_data_file", ("begin_snapshot", "end_snapshot", "partial_max")),
        ("ducklake_delete_file", ("begin_snapshot", "end_snapshot", "partial_max")),
        ("ducklake_column", ("begin_snapshot", "end_snapshot")),
    )
    for column in columns
)
CHANGES = f"SELECT at FROM ({_CHANGED}) AS changes ORDER BY at DESC LIMIT ?"
CHANGES_PARAMETERS = 8  # of them are the table
# of what has not ended at a snapshot, that which has changed after another one
_CHANGED_SINCE = "(end_snapshot IS NULL OR end_snapshot > ?) AND (begin_snapshot > ? OR end_snapshot > ?)"
DATA_FILES = (
    "SELECT data_file_id, begin_snapshot, end_snapshot, path, path_is_relative, record_count, file_size_bytes,"
    " row_id_start, mapping_id, partial_max, file_format, encryption_key FROM ducklake_data_file"
    f" WHERE table_id = ? AND {_CHANGED_SINCE} ORDER BY data_file_id"
)
DELETE_FILES = (
    "SELECT delete_file_id, data_file_id, begin_snapshot, end_snapshot, path, path_is_relative, delete_count,"
    " file_size_bytes, format, partial_max, encryption_key FROM ducklake_delete_file"
    f" WHERE table_id = ? AND {_CHANGED_SINCE} ORDER BY delete_file_id"
)
FILES_WITHOUT = (
    "SELECT data_file_id FROM ducklake_data_file f"
    " WHERE table_id = ? AND (end_snapshot IS NULL OR end_snapshot > ?) AND NOT EXISTS (SELECT 1"
    " FROM ducklake_file_column_stats s WHERE s.data_file_id = f.data_file_id AND s.column_id = ?)"
)
STATISTICS = (  # by the index of files, which are few; that of tables would find those of all files
    "SELECT data_file_id, column_id, column_size_bytes, null_count, min_value, max_value, contains_nan"
    " FROM ducklake_file_column_stats WHERE data_file_id BETWEEN ? AND ? AND table_id + 0 = ?"
)
NAMES = (
    "SELECT mapping_id, source_name, target_field_id, parent_column, column_id, is_partition"
    " FROM ducklake_name_mapping WHERE mapping_id = ?"
)


def snapshots(count: int) -> str:
    """Those of so many snapshots that are there: their times, which files were to come, and commit_extra_info."""
    places = ", ".join("?" * count)
    return (
        "SELECT s.snapshot_id, s.snapshot_time, s.next_file_id, c.commit_extra_info FROM ducklake_snapshot s"
        " LEFT JOIN ducklake_snapshot_changes c ON c.snapshot_id = s.snapshot_id"
        f" WHERE s.snapshot_id IN ({places}) ORDER BY s.snapshot_id"
    )


def inlined_state(name: str, prefix: str) -> str:
    return of_inlined(_STATE.format("row_id", "0", f"{quoted(name)} WHERE"), prefix)


def inlined_deletes_state(name: str) -> str:
    return f"SELECT count(*), sum(row_id), max(begin_snapshot) FROM {quoted(name)} WHERE begin_snapshot <= ?"


SNAPSHOT_TIME = "SELECT snapshot_time FROM ducklake_snapshot WHERE snapshot_id = ?"


def inlined_changes(name: str, prefix: str) -> str:
    """The last snapshots that changed inlined rows."""
    table = quoted(name)
    return of_inlined(
        f"SELECT at FROM (SELECT begin_snapshot AS at FROM {table} UNION"
        f" SELECT end_snapshot AS at FROM {table} WHERE end_snapshot IS NOT NULL) AS changes ORDER BY at DESC LIMIT ?",
        prefix,
    )


def inlined_delete_changes(name: str) -> str:
    return f"SELECT DISTINCT begin_snapshot FROM {quoted(name)} ORDER BY 1 DESC LIMIT ?"


def inlined_rows(name: str, prefix: str) -> str:
    return of_inlined(f"SELECT * FROM {quoted(name)} WHERE {_CHANGED_SINCE}", prefix)


def inlined_deletes(name: str) -> str:
    return f"SELECT file_id, row_id, begin_snapshot FROM {quoted(name)} WHERE begin_snapshot > ?"


Namespace = tuple[str, ...]
_SYSTEM = ("pg_catalog", "information_schema", "pg_toast")


@frozen
class Described:
    """A table, as of the read transaction in which it was found."""

    session: Session  # of the table's database
    namespace: Namespace
    name: str
    relid: int  # pg_class.oid
    uuid: str
    members: tuple[LakeTable, ...]  # one table, with those that inherit from it; or the leaves of a partitioned one
    snapshot: int  # the catalog's last
    options: Options

    @property
    def full_name(self) -> str:
        return ".".join((*self.namespace, self.name))

    @property
    def is_tree(self) -> bool:
        """Has it the rows of other tables?"""
        return [member.oid for member in self.members] != [self.relid]


def namespaces(session: Session, parent: Namespace = ()) -> list[Namespace]:
    """The namespaces in `parent`: of none, the databases that the role may connect to; of a database its schemas."""
    if not parent:
        return [(str(row.datname),) for row in roles.databases(session) if _may_connect(session, row.oid)]
    there = _database(session, parent[0]) if len(parent) == 1 else None
    if there is None:
        return []
    return [(parent[0], str(row.nspname)) for row in schemas(there) if row.nspname != PUBLIC and _may_use(there, row)]


def has_namespace(session: Session, namespace: Namespace) -> bool:
    return _schema(session, namespace) is not None or (
        len(namespace) == 1 and _database(session, namespace[0]) is not None
    )


def tables(session: Session, namespace: Namespace) -> list[str]:
    """The names of the namespace's tables that the role may read whole."""
    place = _schema(session, namespace)
    if place is None:
        return []
    there, schema = place
    every = rows(there, pg_class, datid=there.database_oid, relnamespace=schema.oid)
    return sorted(str(row.relname) for row in every if _is_there(there, row))


def find(session: Session, namespace: Namespace, name: str) -> Described | None:
    """The table; None: there is none that the role may read whole."""
    place = _schema(session, namespace)
    if place is None:
        return None
    there, schema = place
    row = one(there, pg_class, datid=there.database_oid, relnamespace=schema.oid, relname=name)
    if row is None or not _is_there(there, row):
        return None
    members = _members(there, row)
    query = VIEW_UUID if row.relkind == "p" else TABLE_UUID
    ((uuid,),) = there.link.execute(query, (row.table_id,))
    last = there.transaction.numbering.last_snapshot()
    return Described(there, namespace, name, row.oid, str(uuid), members, last, options_of(row.reloptions))


def every(session: Session, database: str) -> list[Described]:
    """All tables of a database that the role may read whole."""
    places = ((database,), *namespaces(session, (database,)))
    described = (find(session, namespace, name) for namespace in places for name in tables(session, namespace))
    return [table for table in described if table is not None]


def named(session: Session, name: str) -> Described:
    """The table of that name, `orders` or `sales.orders`, in the session's database."""
    parts = split_identifiers(name, ".")
    if not parts:
        raise PgError("42602", f'invalid name syntax: "{name}"')
    named_relation = find_relation(session, range_var(parts))
    schema = () if named_relation.schema == PUBLIC else (named_relation.schema,)
    table = find(session, (session.database.name, *schema), named_relation.name)
    if table is None:
        raise _refused(session, named_relation)
    return table


def _refused(session: Session, target: Relation) -> PgError:
    """Why the relation is no Iceberg table for the role."""
    if target.is_system:
        return PgError("42809", f'"{target.name}" cannot be an Iceberg table', detail="It is a system catalog.")
    if target.kind in ("r", "m", "p") and target.persistence != "t":
        if not has_table_privilege(session, target, "SELECT"):
            return permission_denied(target)
        if is_active(session, target):
            return PgError("42501", f'row-level security is enabled for table "{target.name}"',
                           detail="Readers of Iceberg read all rows.")  # fmt: skip
        if not target.populated:
            return PgError("55000", f'materialized view "{target.name}" has not been populated')
        return PgError("0A000", f'table "{target.name}" cannot be an Iceberg table',
                       detail="It has no partitions, or tables below it number their columns differently.",
                       hint="Take these. Those made by CREATE TABLE ... PARTITION OF agree.")  # fmt: skip
    return PgError("42809", f'"{target.name}" cannot be an Iceberg table', detail=not_supported(target.kind))


def of_everyone(session: Session) -> Iterator[tuple[Namespace, str]]:
    """All relations of the instance that any role may see as tables."""
    names = {row.oid: str(row.datname) for row in roles.databases(session)}
    schemas_of = {(row.datid, row.oid): str(row.nspname) for row in rows(session, pg_namespace)}
    for row in rows(session, pg_class, table_id=NOT_NULL):
        schema = schemas_of.get((row.datid, row.relnamespace))
        if schema is not None and row.datid in names:
            yield (names[row.datid], *(() if schema == PUBLIC else (schema,))), str(row.relname)


def _database(session: Session, name: str) -> Session | None:
    """A session of the database, if the role may connect to it."""
    row = roles.database_or_none(session, name)
    return None if row is None or not _may_connect(session, row.oid) else session.in_database(row.oid)


def _may_connect(session: Session, oid: int) -> bool:
    row = next(row for row in roles.databases(session) if row.oid == oid)
    return bool(row.datallowconn) and not row.datistemplate and has_privilege(
        session, ObjectKind.DATABASE, row, "CONNECT"
    )  # fmt: skip


def _may_use(session: Session, row: pg_namespace) -> bool:
    name = str(row.nspname)
    if name in _SYSTEM or is_temporary(name):
        return False
    return has_privilege(session, ObjectKind.SCHEMA, row, "USAGE")


def _schema(session: Session, namespace: Namespace) -> tuple[Session, pg_namespace] | None:
    """A session of the namespace's database, and its schema, if the role may use both."""
    if len(namespace) not in (1, 2) or namespace[1:] == (PUBLIC,):
        return None
    there = _database(session, namespace[0])
    row = None if there is None else schema_or_none(there, namespace[1] if len(namespace) == 2 else PUBLIC)
    return (there, row) if there is not None and row is not None and _may_use(there, row) else None


def _is_there(session: Session, row: pg_class) -> bool:
    """Is the relation a table that the role may read whole?"""
    if row.relkind not in ("r", "m", "p") or row.table_id is None or row.relpersistence == "t":
        return False
    if not row.relispopulated or not (is_superuser(session) or _may_read(session, relation(session, row.oid))):
        return False
    if row.relkind != "p" and not row.relhassubclass:
        return True
    members = _members(session, row)
    return bool(members) and _agree(members)


def _members(session: Session, row: pg_class) -> tuple[LakeTable, ...]:
    """The tables with the relation's rows."""
    below = (relation(session, oid) for oid in inheritors(session, row.oid))
    return tuple([lake_table(session, member.oid) for member in below if member.kind in ("r", "m")])


def _may_read(session: Session, target: Relation) -> bool:
    if is_active(session, target):
        return False
    return has_table_privilege(session, target, "SELECT") or (
        bool(target.columns)
        and all(has_column_privilege(session, target, column.num, "SELECT") for column in target.columns)
    )


def _agree(members: Sequence[LakeTable]) -> bool:
    """Have all of them the first one's columns, with the same ids?"""
    first, *others = [{(c.column_id, c.name, c.type, c.fields) for c in member.columns} for member in members]
    return all(first <= other for other in others)
