"""Loads what nearly every session needs, before the first backend is forked: backends share its memory, and start in
milliseconds."""

from __future__ import annotations

import tempfile

from pgrepl.api.opened import OpenedSession

_STATEMENTS = (
    "CREATE TABLE t (a int PRIMARY KEY, b text, c numeric(9,2) DEFAULT 1, d timestamptz DEFAULT now())",
    "INSERT INTO t (a, b) VALUES (1, 'x'), (2, NULL) ON CONFLICT DO NOTHING RETURNING a",
    "UPDATE t SET b = b || 'y', c = c + 1 WHERE a = 1",
    "SELECT a, count(*), sum(c) FROM t x WHERE EXISTS (SELECT FROM t y WHERE y.a = x.a) GROUP BY a ORDER BY 1",
    "SELECT c.relname, n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_index i ON"
    " i.indrelid = c.oid WHERE c.relname ~ '^t$' AND pg_table_is_visible(c.oid)",
    "CREATE PUBLICATION p FOR TABLE t WHERE (a > 1)",
    "SELECT pg_create_logical_replication_slot('s', 'pgoutput')",
    "DELETE FROM t WHERE a = 2",
    "SELECT pg_logical_slot_get_binary_changes('s', NULL, NULL, 'proto_version', '1', 'publication_names', 'p')",
    "VACUUM t",  # into a file
    "SELECT b FROM t WHERE a = 1",
    "BEGIN ISOLATION LEVEL REPEATABLE READ",
    # what a subscriber asks
    "SELECT array_length(gpt.attrs, 1) = c.relnatts, pg_get_expr(gpt.qual, gpt.relid) FROM pg_publication p, LATERAL"
    " pg_get_publication_tables(p.pubname) gpt, pg_class c WHERE c.oid = gpt.relid AND p.pubname IN ('p')",
    "SELECT a.attname, a.attnum = ANY(i.indkey) FROM pg_attribute a LEFT JOIN pg_index i ON i.indexrelid ="
    " pg_get_replica_identity_index('t'::regclass) WHERE a.attnum > 0::int2 AND a.attrelid = 't'::regclass",
    "COPY t (a, b) TO '/dev/null'",
    "COMMIT",
)


def load() -> None:
    """Run some usual statements in a catalog of their own, and load what copies by whole columns."""
    import pyarrow.compute
    import pyarrow.parquet  # noqa: F401

    from pgrepl.query import table_columns  # noqa: F401
    from pgrepl.server import process_title
    from pgrepl.statements.describe import prepare

    process_title.setter()
    with tempfile.TemporaryDirectory(prefix="pgrepl-") as folder:
        opened = OpenedSession(f"{folder}/catalog.db", "postgres", "postgres")
        try:
            for statement in _STATEMENTS:
                for result in opened.run(statement):
                    list(result.rows)
            prepare(opened.session, "SELECT b FROM t WHERE a = $1")
        finally:
            opened.close()
