"""A catalog as older formats had it."""

from __future__ import annotations

import sqlite3


def without_format_9(link: sqlite3.Connection) -> None:
    """Take away what formats 9 and 10 have brought: types, routines, triggers, materialized views, and so on."""
    link.execute("ALTER TABLE pg_class DROP COLUMN relispopulated")
    link.execute("DROP INDEX pg_constraint_ix2")
    link.execute("ALTER TABLE pg_constraint DROP COLUMN contypid")
    for name in ("pg_type", "pg_enum", "pg_proc", "pg_trigger", "pg_default_acl"):
        link.execute(f"DROP TABLE {name}")
