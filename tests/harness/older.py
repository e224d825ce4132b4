"""A catalog as older formats had it."""

from __future__ import annotations

import sqlite3


def without_format_16(link: sqlite3.Connection) -> None:
    """Take away what format 16 has brought: a role, and constraints that are not enforced, and with periods."""
    link.execute("DELETE FROM pg_authid WHERE oid = 6392")
    for column in ("conenforced", "conperiod"):
        link.execute(f"ALTER TABLE pg_constraint DROP COLUMN {column}")


def without_format_15(link: sqlite3.Connection) -> None:
    """Take away what formats 15 and 16 have brought: generated columns, sequences and exceptions of publications,
    foreign servers, histories."""
    without_format_16(link)
    for column in ("subsequences", "subserver", "subretaindeadtuples", "submaxretention", "subhistory"):
        link.execute(f"ALTER TABLE pg_subscription DROP COLUMN {column}")
    for column in ("puballsequences", "pubgencols"):
        link.execute(f"ALTER TABLE pg_publication DROP COLUMN {column}")
    link.execute("ALTER TABLE pg_publication_rel DROP COLUMN prexcept")
    link.execute("ALTER TABLE pg_subscription_rel DROP COLUMN srissequence")
    for name in ("pg_foreign_server", "pg_user_mapping"):
        link.execute(f"DROP TABLE {name}")


def without_format_14(link: sqlite3.Connection) -> None:
    """Take away what formats 14 to 16 have brought."""
    without_format_15(link)
    link.execute("ALTER TABLE pg_subscription DROP COLUMN subconflictlog")
    link.execute("DROP TABLE pgrepl_conflict")


def without_format_11(link: sqlite3.Connection) -> None:
    """Take away what formats 11 to 15 have brought: what status tells of subscriptions, and conflicts."""
    without_format_14(link)
    link.execute("ALTER TABLE pg_replication_origin DROP COLUMN caught_up")
    link.execute("ALTER TABLE pgrepl_subscription_error DROP COLUMN hint")


def without_format_9(link: sqlite3.Connection) -> None:
    """Take away what formats 9 to 15 have brought: types, routines, triggers, materialized views, and so on."""
    without_format_11(link)
    link.execute("ALTER TABLE pg_class DROP COLUMN relispopulated")
    link.execute("DROP INDEX pg_constraint_ix2")
    link.execute("ALTER TABLE pg_constraint DROP COLUMN contypid")
    for name in ("pg_type", "pg_enum", "pg_proc", "pg_trigger", "pg_default_acl"):
        link.execute(f"DROP TABLE {name}")
