"""The contents of a new catalog: the roles, databases, schemas and comments that PostgreSQL 17's initdb makes, and an
empty DuckLake with a schema for the database postgres."""

from __future__ import annotations

import secrets
import sqlite3
import time
import uuid
from datetime import datetime, timezone
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, Any

from pgrepl import __version__
from pgrepl.catalog import declarative, ducklake, sql, sums, tables
from pgrepl.catalog.classes import (
    BOOTSTRAP_SUPERUSER,
    CATALOG_NAMESPACE,
    FIRST_NORMAL_OID,
    INFORMATION_SCHEMA,
    PG_DATABASE,
    PG_NAMESPACE,
    PUBLIC_NAMESPACE,
    ROLE_DATABASE_OWNER,
    TOAST_NAMESPACE,
)
from pgrepl.catalog.connection import FORMAT_VERSION, PG_SCHEMA
from pgrepl.catalog.statement import Statement
from pgrepl.errors import PgError

if TYPE_CHECKING:
    from pgrepl.catalog.connection import CatalogConnection
    from pgrepl.catalog.declarative import SystemRow

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
}
_MONITOR_MEMBERSHIPS = {10226: 3374, 10227: 3375, 10228: 3377}  # pg_auth_members OID: what pg_monitor is a member of
_DATABASES = {
    5: ("postgres", False, True, "default administrative connection database"),
    1: ("template1", True, True, "default template for new databases"),
    4: ("template0", True, False, "unmodifiable empty database"),
}
INITIAL_COMMENTS: dict[str, str] = {name: comment for name, _, _, comment in _DATABASES.values()}
INITIAL_ACL = ["=c/10", "10=CTc/10"]  # of template0 and template1
SCHEMAS = {
    TOAST_NAMESPACE: ("pg_toast", BOOTSTRAP_SUPERUSER, None, "reserved schema for TOAST tables"),
    CATALOG_NAMESPACE: ("pg_catalog", BOOTSTRAP_SUPERUSER, ["10=UC/10", "=U/10"], "system catalog schema"),
    PUBLIC_NAMESPACE: ("public", ROLE_DATABASE_OWNER, ["6171=UC/6171", "=U/6171"], "standard public schema"),
    INFORMATION_SCHEMA: ("information_schema", BOOTSTRAP_SUPERUSER, ["10=UC/10", "=U/10"], None),
}


def create(link: CatalogConnection, data_path: str) -> None:
    """Make all tables in a new file, and fill them."""
    _empty_file().backup(link.driver)
    link.begin(write=True)
    _fill(link, data_path)
    sums.sum_up(link, declarative.every)
    link.commit()


@cache
def _empty_file() -> sqlite3.Connection:
    return sqlite3.connect(f"{declarative.EMPTY_FILE.as_uri()}?mode=ro&immutable=1", uri=True, check_same_thread=False)


def _fill(link: CatalogConnection, data_path: str) -> None:
    for row_class, values in _contents(data_path):
        for names, rows in groupby(values, tuple):
            statement = Statement("insert", row_class.__table__, names, (), is_sqlite=link.is_sqlite)
            link.execute_many(statement.sql, [statement.bind(row) for row in rows])


def create_on_server(link: CatalogConnection, data_path: str | None) -> bool:
    """Make the catalog in a schema of a PostgreSQL database, unless it is there. Of two processes that do so at
    once, one waits for the other. True: it was made now."""
    from pgrepl.catalog import ddl

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
            for oid, (name, template, allow, _comment) in _DATABASES.items()
        ]),
        (tables.pg_shdescription, [
            {"objoid": oid, "classoid": PG_DATABASE, "description": comment}
            for oid, (_name, _template, _allow, comment) in _DATABASES.items()
        ]),
        (tables.pg_namespace, [row for oid in _DATABASES for row in schemas_of_database(oid)]),
        (tables.pg_description, [row for oid in _DATABASES for row in comments_of_database(oid)]),
    ]  # fmt: skip


def schemas_of_database(database: int, snapshot: int = 0) -> list[dict[str, Any]]:
    return [
        {"datid": database, "oid": oid, "nspname": name, "nspowner": owner, "nspacl": acl,
         "begin_snapshot": snapshot, "end_snapshot": None,
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
