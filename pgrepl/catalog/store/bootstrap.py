"""The contents of a new catalog, as initdb makes them; migration of an older one; and what changes in a copy of one."""

from __future__ import annotations

import secrets
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timezone
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, Any

from pgrepl import __version__
from pgrepl.catalog.store import declarative, ducklake, sql, tables
from pgrepl.catalog.store.connection import FORMAT_VERSION, PG_SCHEMA
from pgrepl.catalog.store.declarative import Statement
from pgrepl.catalog.store.system import (
    BOOTSTRAP_SUPERUSER,
    DATABASES,
    FIRST_NORMAL_OID,
    INITIAL_ACL,
    PG_DATABASE,
    PG_NAMESPACE,
    PUBLIC_NAMESPACE,
    ROLE_SIGNAL_AUTOVACUUM,
    SCHEMAS,
)
from pgrepl.ground.errors import PgError

if TYPE_CHECKING:
    from pgrepl.catalog.store.connection import CatalogConnection
    from pgrepl.catalog.store.declarative import SystemRow

_POSTGRES_SCHEMA = 1  # the DuckLake schema of the database postgres
_PREDEFINED_ROLES = {
    6171: "pg_database_owner",
    6181: "pg_read_all_data",
    6182: "pg_write_all_data",
    3373: "pg_monitor",
    3374: "pg_read_all_settings",
    3375: "pg_read_all_stats",
    3377: "pg_stat_scan_tables",
    4569: "pg_read_server_files",
    4570: "pg_write_server_files",
    4571: "pg_execute_server_program",
    4200: "pg_signal_backend",
    4544: "pg_checkpoint",
    6337: "pg_maintain",
    4550: "pg_use_reserved_connections",
    6304: "pg_create_subscription",
    ROLE_SIGNAL_AUTOVACUUM: "pg_signal_autovacuum_worker",
}
_MONITOR_MEMBERSHIPS = {10226: 3374, 10227: 3375, 10228: 3377}  # pg_auth_members OID: what pg_monitor is a member of


def create(link: CatalogConnection, data_path: str) -> None:
    """Make all tables in a new file, and fill them."""
    _empty_file().backup(link.driver)
    link.begin(write=True)
    _fill(link, data_path)
    declarative.sum_up(link, declarative.every)
    link.commit()


@cache
def _empty_file() -> sqlite3.Connection:
    return sqlite3.connect(f"{declarative.EMPTY_FILE.as_uri()}?mode=ro&immutable=1", uri=True, check_same_thread=False)


def _fill(link: CatalogConnection, data_path: str) -> None:
    for row_class, values in _contents(data_path):
        _insert(link, row_class, values)


def _insert(link: CatalogConnection, row_class: type[SystemRow], values: Sequence[dict[str, Any]]) -> None:
    for names, rows in groupby(values, tuple):
        statement = Statement("insert", row_class.__table__, names, (), is_sqlite=link.is_sqlite)
        link.execute_many(statement.sql, [statement.bind(row) for row in rows])


def create_on_server(link: CatalogConnection, data_path: str | None) -> bool:
    """Make the catalog in a schema of a PostgreSQL database, unless it is there. Of two processes that do so at
    once, one waits for the other. True: it was made now."""
    from pgrepl.catalog.store import ddl

    link.begin(write=True)
    exists = link.execute("SELECT to_regclass(%s)", (f"{PG_SCHEMA}.pgrepl_instance",))[0][0] is not None
    if exists:
        link.rollback()
        return False
    if link.execute("SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = %s", (PG_SCHEMA,)):
        link.rollback()
        raise PgError(
            "42809",
            f'catalog "{link.catalog.name}" has a schema "{PG_SCHEMA}" that is not a pgrepl catalog',
            severity="FATAL",
        )
    data_path = require_data_path(link, data_path)
    link.execute(f"CREATE SCHEMA {PG_SCHEMA}")
    ddl.create(link)
    _fill(link, data_path)
    # DuckDB would keep each type of inlined rows in another way here than in a file
    link.execute(sql.INSERT_OPTION, ("data_inlining_row_limit", "0"))
    link.commit()
    return True


def require_data_path(link: CatalogConnection, data_path: str | None) -> str:
    if data_path is not None:
        return data_path
    link.rollback()
    raise PgError(
        "55000",
        f'catalog "{link.catalog.name}" needs a place for the data of its tables',
        hint="Name a folder that all who use the catalog reach: --data-path, or PGREPL_DATA_PATH.",
        severity="FATAL",
    )


def _contents(data_path: str) -> list[tuple[type[SystemRow], list[dict[str, Any]]]]:
    now = datetime.now(timezone.utc).isoformat(sep=" ")
    return [
        (tables.pgrepl_instance, [{
            "format_version": FORMAT_VERSION, "system_identifier": _system_identifier(), "next_oid": FIRST_NORMAL_OID,
            "created_by": f"pgrepl {__version__}", "change_count": 0, "lake_schema_version": 0,
        }]),
        (ducklake.ducklake_metadata, [
            {"key": key, "value": value}
            for key, value in ducklake.metadata(f"pgrepl {__version__}", data_path).items()
        ]),
        (ducklake.ducklake_schema, [
            {"schema_id": number, "schema_uuid": str(uuid.uuid4()), "begin_snapshot": 0, "end_snapshot": None,
             "schema_name": name, "path": path, "path_is_relative": True}
            for number, name, path in ((0, "main", "main/"), (_POSTGRES_SCHEMA, "postgres", ""))
        ]),
        (ducklake.ducklake_snapshot, [{
            "snapshot_id": 0, "snapshot_time": now, "schema_version": 0, "next_catalog_id": 2, "next_file_id": 0,
        }]),
        (ducklake.ducklake_snapshot_changes, [{
            "snapshot_id": 0, "changes_made": 'created_schema:"main",created_schema:"postgres"',
        }]),
        (tables.pg_authid, _roles()),
        (tables.pg_auth_members, [
            {"oid": oid, "roleid": role, "member": 3373, "grantor": BOOTSTRAP_SUPERUSER, "admin_option": False,
             "inherit_option": True, "set_option": True}
            for oid, role in _MONITOR_MEMBERSHIPS.items()
        ]),
        (tables.pg_database, [
            {"oid": oid, "datname": name, "datdba": BOOTSTRAP_SUPERUSER, "encoding": 6, "datlocprovider": "c",
             "datistemplate": template, "datallowconn": allow, "datconnlimit": -1, "datcollate": "C.UTF-8",
             "datctype": "C.UTF-8", "datacl": INITIAL_ACL if template else None}
            for oid, (name, template, allow, _comment) in DATABASES.items()
        ]),
        (tables.pg_shdescription, [
            {"objoid": oid, "classoid": PG_DATABASE, "description": comment}
            for oid, (_name, _template, _allow, comment) in DATABASES.items()
        ]),
        (tables.pg_namespace, [row for oid in DATABASES for row in schemas_of_database(oid)]),
        (tables.pg_description, [row for oid in DATABASES for row in comments_of_database(oid)]),
    ]  # fmt: skip


def schemas_of_database(database: int) -> list[dict[str, Any]]:
    return [
        {"datid": database, "oid": oid, "nspname": name, "nspowner": owner, "nspacl": acl,
         "begin_snapshot": 0, "end_snapshot": None,
         "schema_id": _POSTGRES_SCHEMA if (database, oid) == (5, PUBLIC_NAMESPACE) else None}
        for oid, (name, owner, acl, _comment) in SCHEMAS.items()
    ]  # fmt: skip


def comments_of_database(database: int) -> list[dict[str, Any]]:
    return [
        {"datid": database, "objoid": oid, "classoid": PG_NAMESPACE, "objsubid": 0, "description": comment}
        for oid, (_name, _owner, _acl, comment) in SCHEMAS.items()
        if comment is not None
    ]


def _roles() -> list[dict[str, Any]]:
    def role(oid: int, name: str, everything: bool) -> dict[str, Any]:
        return {
            "oid": oid, "rolname": name, "rolsuper": everything, "rolinherit": True, "rolcreaterole": everything,
            "rolcreatedb": everything, "rolcanlogin": everything, "rolreplication": everything,
            "rolbypassrls": everything, "rolconnlimit": -1, "rolpassword": None, "rolvaliduntil": None,
        }  # fmt: skip

    return [role(BOOTSTRAP_SUPERUSER, "postgres", True)] + [role(o, n, False) for o, n in _PREDEFINED_ROLES.items()]


def _system_identifier() -> int:
    """A new system identifier: the time and random bits, 63 in all (BootStrapXLOG)."""
    now = time.time_ns()
    seconds, micros = now // 1_000_000_000, now // 1000 % 1_000_000
    return (seconds & 0x7FFF_FFFF) << 32 | micros << 12 | secrets.randbits(12)


# --- migration --------------------------------------------------------------------------------------------------------


_Column = tuple[str, str, Any]  # name, type, value in the rows that are there
BROUGHT = {
    1: "definitions",
    2: "the lake: DuckLake's tables in the same database",
    3: "who works: workers, senders, leases",
    4: "how far copies have come",
    5: "checksums; which publisher a subscription follows",
    6: "prepared transactions",
    7: "which files of changes were read",
    8: "whether subscriptions follow definitions, and what is known of the publishers'",
    9: "triggers, types of users, materialized views",
    10: "default privileges",
    11: "the hints of errors that stop subscriptions; operators, collations and ranges of users",
    12: "ranges of tables that are copied in pieces",
    13: "how far a walsender's subscriber has written and applied",
    14: "where workers wait for who compares; conflicts as rows",
    15: "generated columns, sequences and exceptions of publications; foreign servers; histories of tables",
    16: "constraints that are not enforced, and temporal keys",
}


def migrate(link: CatalogConnection, data_path: str, keep: Callable[[int], None] = lambda version: None) -> None:
    """Migrate the catalog in one transaction; of several processes, the first does it. Before anything is changed
    `keep` is told the old format, and nobody else writes meanwhile."""
    from pgrepl.catalog.store import ddl

    link.begin(write=True)
    version = link.execute("SELECT format_version FROM pgrepl_instance")[0][0]
    if version < FORMAT_VERSION:
        keep(version)
    if version == 1:
        _give_it_a_lake(link, data_path)
    if version < FORMAT_VERSION:
        if version < 11:
            _tell_of_subscriptions(link, version)
        link.execute("DROP TABLE IF EXISTS pgrepl_walsender")  # format 13 has more positions of each
        # of formats 3 to 16: workers, copies, checksums, prepared transactions, files of changes, types, privileges,
        # operators, ranges that are copied, walsenders, meetings, conflicts, foreign servers
        ddl.create(link)
        _remember_publishers(link)
        if version < 6:
            link.execute("ALTER TABLE pg_replication_slot ADD COLUMN two_phase_at BIGINT")
        _have_parameters(link, version)
        if version < 9:
            _populate(link)
            _have_user_types(link)
        _have_what_18_has(link)
        if link.is_sqlite and not link.execute("SELECT 1 FROM pgrepl_sum"):
            declarative.sum_up(link, declarative.every)
            link.execute("INSERT INTO pgrepl_adopted (snapshot_id) VALUES (0)")  # nobody has remembered it
        ddl.index_anew(link)
        link.execute(f"UPDATE pgrepl_instance SET format_version = {FORMAT_VERSION}")
    if link.is_sqlite:
        link.execute(f"PRAGMA user_version = {FORMAT_VERSION}")
    link.commit()


def _remember_publishers(link: CatalogConnection) -> None:
    """Format 5 has the publisher of each subscription. A worker fills in the publishers of older subscriptions."""
    link.execute(
        "INSERT INTO pgrepl_publisher (subid, system_identifier) SELECT oid, '' FROM pg_subscription"
        " WHERE oid NOT IN (SELECT subid FROM pgrepl_publisher)"
    )


_SUBSCRIPTIONS: dict[int, tuple[_Column, ...]] = {
    8: (("subschemachanges", "VARCHAR(1)", "n"),),
    14: (("subconflictlog", "BOOLEAN", False),),
    15: (
        ("subsequences", "BOOLEAN", False),
        ("subserver", "BIGINT", 0),
        ("subretaindeadtuples", "BOOLEAN", False),
        ("submaxretention", "INTEGER", 0),
        ("subhistory", "VARCHAR(1)", "n"),
    ),
}


def _have_parameters(link: CatalogConnection, version: int) -> None:
    """Format 8 has the parameter schema_changes, format 14 conflict_log, format 15 history and those of PostgreSQL
    19, with generated columns and all sequences of publications, and the tables that they leave out."""
    brought = [column for since, columns in _SUBSCRIPTIONS.items() if version < since for column in columns]
    _add_columns(link, tables.pg_subscription, brought)
    if version < 15:
        _add_columns(
            link, tables.pg_publication, [("puballsequences", "BOOLEAN", False), ("pubgencols", "VARCHAR(1)", "n")]
        )
        _add_columns(link, tables.pg_publication_rel, [("prexcept", "BOOLEAN", False)])
        _add_columns(link, tables.pg_subscription_rel, [("srissequence", "BOOLEAN", False)])


def _add_columns(link: CatalogConnection, table: type[SystemRow], columns: Sequence[_Column]) -> None:
    """Add columns with a value for the rows that are there. Their checksum counts, too."""
    name = table.__name__
    for column, kind, value in columns:
        link.execute(f"ALTER TABLE {name} ADD COLUMN {column} {kind}")
        if value is not None:
            link.execute(f"UPDATE {name} SET {column} = ?", (value,))
    _sum_again(link, table)


def _sum_again(link: CatalogConnection, table: type[SystemRow]) -> None:
    if link.is_sqlite and link.execute("SELECT 1 FROM pgrepl_sum"):
        link.execute("DELETE FROM pgrepl_sum WHERE table_name = ?", (table.__name__,))
        declarative.sum_up(link, [table.__table__])


def _populate(link: CatalogConnection) -> None:
    """Format 9 has materialized views, which may be without data."""
    _add_columns(link, tables.pg_class, [("relispopulated", "BOOLEAN", True)])


def _have_user_types(link: CatalogConnection) -> None:
    """Format 9 has the user's types; a constraint may be one of a domain."""
    _add_columns(link, tables.pg_constraint, [("contypid", "BIGINT", None)])


def _have_what_18_has(link: CatalogConnection) -> None:
    """Format 16 has a role, and constraints that are NOT ENFORCED, WITHOUT OVERLAPS and PERIOD."""
    _insert(link, tables.pg_authid, [role for role in _roles() if role["oid"] == ROLE_SIGNAL_AUTOVACUUM])
    _sum_again(link, tables.pg_authid)
    _add_columns(link, tables.pg_constraint, [("conenforced", "BOOLEAN", True), ("conperiod", "BOOLEAN", False)])


def _tell_of_subscriptions(link: CatalogConnection, version: int) -> None:
    """Format 11 has the hints of errors that stop subscriptions, which not all catalogs of format 3 kept, the time of
    their last change, and the pieces of running copies."""
    link.execute("DROP TABLE IF EXISTS pgrepl_copy")
    link.execute("ALTER TABLE pg_replication_origin ADD COLUMN caught_up VARCHAR")
    if version < 4:
        link.execute("DROP TABLE IF EXISTS pgrepl_subscription_error")
        link.execute("DROP TABLE IF EXISTS pgrepl_worker")  # it did not count rows
    else:
        link.execute("ALTER TABLE pgrepl_subscription_error ADD COLUMN hint TEXT")


def _give_it_a_lake(link: CatalogConnection, data_path: str) -> None:
    """Format 1 had definitions, but no lake. The first session writes DuckLake's rows (lake_schema_version is
    NULL)."""
    from pgrepl.catalog.store import ddl

    for table, column in (
        ("pg_namespace", "schema_id"),
        ("pg_class", "table_id"),
        ("pg_attribute", "column_id"),
        ("pgrepl_instance", "lake_schema_version"),
    ):
        link.execute(f"ALTER TABLE {table} ADD COLUMN {column} BIGINT")
    ddl.create(link)
    link.execute(sql.INSERT_MAIN_SCHEMA, (str(uuid.uuid4()), True))
    link.execute_many(sql.INSERT_OPTION, list(ducklake.metadata(f"pgrepl {__version__}", data_path).items()))


# --- copied -----------------------------------------------------------------------------------------------------------


Settings = Sequence[tuple[str, str]]  # of the instance, as in pgrepl_setting


def empty(link: CatalogConnection, tables: Iterable[str]) -> None:
    """Remove all rows of some tables."""
    for table in tables:
        link.execute(sql.delete_every(table))


def forget_processes(link: CatalogConnection) -> None:
    """Forget who works in the original."""
    empty(link, sql.OF_PROCESSES)
    link.execute(sql.NO_ACTIVE_SLOTS)


def keep_synced_slots(link: CatalogConnection, now: str) -> None:
    """Keep the slots that a standby synchronizes with the primary's."""
    link.execute(sql.DELETE_UNSYNCED_SLOTS)
    link.execute(sql.SYNC_SLOTS, (now,))


def synced_slots(link: CatalogConnection) -> list[str]:
    return [name for (name,) in link.execute(sql.SYNCED_SLOTS)]


def settings(link: CatalogConnection) -> list[tuple[str, str]]:
    return [(str(name), str(value)) for name, value in link.execute(sql.SETTINGS)]


def change_settings(link: CatalogConnection, wanted: Settings) -> None:
    """Put these in place of all settings."""
    link.execute(sql.delete_every("pgrepl_setting"))
    link.execute_many(sql.INSERT_SETTING, wanted)
