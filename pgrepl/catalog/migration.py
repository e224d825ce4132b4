"""Migration of a catalog that an older pgrepl made, when it is opened."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

from pgrepl import __version__
from pgrepl.catalog import ddl, declarative, ducklake, sql, sums, tables
from pgrepl.catalog.connection import FORMAT_VERSION

if TYPE_CHECKING:
    from pgrepl.catalog.connection import CatalogConnection

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
}


def migrate(link: CatalogConnection, data_path: str, keep: Callable[[int], None] = lambda version: None) -> None:
    """Migrate the catalog in one transaction; of several processes, the first does it. Before anything is changed
    `keep` is told the old format, and nobody else writes meanwhile."""
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
        # of formats 3 to 14: workers, copies, checksums, prepared transactions, files of changes, types, privileges,
        # operators, ranges that are copied, walsenders, meetings, conflicts
        ddl.create(link)
        _remember_publishers(link)
        if version < 6:
            link.execute("ALTER TABLE pg_replication_slot ADD COLUMN two_phase_at BIGINT")
        if version < 14:
            _have_parameters(link, version)
        if version < 9:
            _populate(link)
            _have_user_types(link)
        if link.is_sqlite and not link.execute("SELECT 1 FROM pgrepl_sum"):
            sums.sum_up(link, declarative.every)
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


def _have_parameters(link: CatalogConnection, version: int) -> None:
    """Format 8 has the parameter schema_changes, format 14 conflict_log. Their checksum counts, too."""
    if version < 8:
        link.execute("ALTER TABLE pg_subscription ADD COLUMN subschemachanges VARCHAR(1)")
        link.execute("UPDATE pg_subscription SET subschemachanges = 'n'")
    link.execute("ALTER TABLE pg_subscription ADD COLUMN subconflictlog BOOLEAN")
    link.execute("UPDATE pg_subscription SET subconflictlog = ?", (False,))
    if link.is_sqlite and link.execute("SELECT 1 FROM pgrepl_sum"):
        link.execute("DELETE FROM pgrepl_sum WHERE table_name = 'pg_subscription'")
        sums.sum_up(link, [tables.pg_subscription.__table__])


def _populate(link: CatalogConnection) -> None:
    """Format 9 has materialized views, which may be without data."""
    link.execute("ALTER TABLE pg_class ADD COLUMN relispopulated BOOLEAN")
    link.execute("UPDATE pg_class SET relispopulated = ?", (True,))
    if link.is_sqlite and link.execute("SELECT 1 FROM pgrepl_sum"):
        link.execute("DELETE FROM pgrepl_sum WHERE table_name = 'pg_class'")
        sums.sum_up(link, [tables.pg_class.__table__])


def _have_user_types(link: CatalogConnection) -> None:
    """Format 9 has the user's types; a constraint may be one of a domain."""
    link.execute("ALTER TABLE pg_constraint ADD COLUMN contypid BIGINT")
    if link.is_sqlite and link.execute("SELECT 1 FROM pgrepl_sum"):
        link.execute("DELETE FROM pgrepl_sum WHERE table_name = 'pg_constraint'")
        sums.sum_up(link, [tables.pg_constraint.__table__])


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
    for table, column in (
        ("pg_namespace", "schema_id"),
        ("pg_class", "table_id"),
        ("pg_attribute", "column_id"),
        ("pgrepl_instance", "lake_schema_version"),
    ):
        link.execute(f"ALTER TABLE {table} ADD COLUMN {column} BIGINT")
    ddl.create(link)
    link.execute(sql.INSERT_MAIN_SCHEMA, (str(uuid.uuid4()), True))
    link.execute_many(
        sql.INSERT_OPTION,
        list(ducklake.metadata(f"pgrepl {__version__}", data_path).items()),
    )
