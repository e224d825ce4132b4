"""What stands in a new catalog is what initdb of PostgreSQL 17 leaves."""

from __future__ import annotations

from pgrepl.catalog.facts.acl import acl_text
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.session.transaction import reading
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import rows


def test_databases(session: Session) -> None:
    with reading(session):
        found = [
            (d.oid, d.datname, d.datistemplate, d.datallowconn, acl_text(session, d.datacl))
            for d in rows(session, tables.pg_database)
        ]
    template = ["=c/postgres", "postgres=CTc/postgres"]
    assert sorted(found) == [
        (1, "template1", True, True, template),
        (4, "template0", True, False, template),
        (5, "postgres", False, True, None),
    ]


def test_roles_and_their_memberships(session: Session) -> None:
    with reading(session):
        roles = {r.oid: r.rolname for r in rows(session, tables.pg_authid)}
        members = [(roles[m.member], roles[m.roleid], roles[m.grantor]) for m in rows(session, tables.pg_auth_members)]
    assert roles == {
        10: "postgres",
        3373: "pg_monitor",
        3374: "pg_read_all_settings",
        3375: "pg_read_all_stats",
        3377: "pg_stat_scan_tables",
        4200: "pg_signal_backend",
        4544: "pg_checkpoint",
        4550: "pg_use_reserved_connections",
        4569: "pg_read_server_files",
        4570: "pg_write_server_files",
        4571: "pg_execute_server_program",
        6171: "pg_database_owner",
        6181: "pg_read_all_data",
        6182: "pg_write_all_data",
        6304: "pg_create_subscription",
        6337: "pg_maintain",
        6392: "pg_signal_autovacuum_worker",
    }
    assert sorted(members) == [
        ("pg_monitor", "pg_read_all_settings", "postgres"),
        ("pg_monitor", "pg_read_all_stats", "postgres"),
        ("pg_monitor", "pg_stat_scan_tables", "postgres"),
    ]


def test_schemas_of_each_database(session: Session) -> None:
    with reading(session):
        found = {n.oid: (n.nspname, acl_text(session, n.nspacl)) for n in rows(session, tables.pg_namespace, datid=5)}
    assert found == {
        11: ("pg_catalog", ["postgres=UC/postgres", "=U/postgres"]),
        99: ("pg_toast", None),
        2200: ("public", ["pg_database_owner=UC/pg_database_owner", "=U/pg_database_owner"]),
        13134: ("information_schema", ["postgres=UC/postgres", "=U/postgres"]),
    }
