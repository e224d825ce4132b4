"""A query that asks for some relations, types or functions reads their rows of the system catalogs only."""

from __future__ import annotations

from typing import Any

import pytest

from pgrepl.query.local import hash_joins, joins, scans
from pgrepl.query.system import base_tables
from tests.harness.played import Instance

TABLES = (
    "CREATE TABLE t (a int PRIMARY KEY, b text DEFAULT 'x')",
    "CREATE TYPE e AS ENUM ('v')",
    "CREATE TABLE u (t text, e e)",
    "CREATE VIEW w AS SELECT a + 1 AS n FROM t",
    "CREATE FUNCTION f(int) RETURNS int LANGUAGE sql RETURN $1 + 1",
)
QUERIES = (
    "SELECT attname FROM pg_attribute WHERE attrelid = 't'::regclass ORDER BY attnum",
    "SELECT attname FROM pg_attribute WHERE 'w'::regclass = attrelid AND attnum > 0",
    "SELECT attname FROM pg_attribute WHERE attrelid IN ('u'::regclass, 't'::regclass, 1259) AND attnum = 2",
    "SELECT attname FROM pg_attribute WHERE attrelid = 't'::regclass AND attrelid = 'u'::regclass",
    "SELECT attname FROM pg_attribute WHERE attrelid = 99999999",
    "SELECT c.relname, attname FROM pg_attribute a JOIN pg_class c ON a.attrelid = c.oid WHERE relname IN ('t', 'u')"
    " AND attnum > 0 ORDER BY 1, attnum",
    "SELECT relname, attname FROM pg_class c LEFT JOIN pg_attribute a ON attrelid = c.oid AND attname = 'e'"
    " WHERE relname IN ('t', 'u') ORDER BY 1",
    "SELECT relname, attname FROM pg_attribute a RIGHT JOIN pg_class c ON attrelid = c.oid AND attname = 'e'"
    " WHERE relname IN ('t', 'u') ORDER BY 1",
    "SELECT attname, typname FROM pg_namespace n JOIN pg_class c ON n.oid = relnamespace JOIN pg_attribute a"
    " ON attrelid = c.oid JOIN pg_type y ON y.oid = atttypid WHERE nspname = 'public' AND relname = 'u' AND attnum > 0"
    " ORDER BY 1",
    "SELECT relname, (SELECT count(*) FROM pg_attribute a WHERE a.attrelid = c.oid AND attnum > 0) FROM pg_class c"
    " WHERE relnamespace = 'public'::regnamespace ORDER BY 1",
    "SELECT relname, n, (SELECT count(*) FROM pg_class d JOIN pg_attribute ON attrelid = d.oid WHERE d.oid = c.oid)"
    " FROM pg_class c, generate_series(1, 5) n WHERE relnamespace = 'public'::regnamespace ORDER BY 1, 2",
    "SELECT relname FROM pg_class c WHERE relname IN ('t', 'u') AND relkind = 'r'"
    " AND EXISTS (SELECT FROM pg_attribute WHERE attrelid = c.oid AND attname = 'b')",
    "SELECT attname FROM pg_attribute WHERE attrelid = (SELECT oid FROM pg_class WHERE relname = 'w') AND attnum > 0",
    "SELECT v, attname FROM (VALUES ('t'::regclass), ('u'), (NULL)) v (v) JOIN pg_attribute ON attrelid = v"
    " WHERE attnum = 1 ORDER BY 2",
    "SELECT attname FROM unnest(ARRAY['t'::regclass, 'u']) o JOIN pg_attribute ON attrelid = o"
    " WHERE attnum = 1 ORDER BY 1",
    "SELECT relname, relkind, relhastriggers FROM pg_class WHERE oid IN ('t'::regclass, 'pg_class'::regclass)",
    "SELECT relname FROM pg_class WHERE oid = 't_pkey'::regclass",
    "SELECT typname, typtype, typcategory FROM pg_type WHERE oid IN ('e'::regtype, 'u'::regtype, 23, 'e[]'::regtype)"
    " ORDER BY 1",
    "SELECT proname FROM pg_proc WHERE oid IN ('f(int)'::regprocedure, 1598, 99999999) ORDER BY 1",
    "SELECT proname, typname FROM pg_type y JOIN pg_proc p ON p.oid = typinput WHERE y.oid IN (25, 'e'::regtype)"
    " ORDER BY 1",
    "SELECT max(attrelid::regclass::text) FROM pg_attribute WHERE attrelid = 't'::regclass OR attrelid = 'u'::regclass",
)
NOT_BOUND = ("attrelid = (SELECT", " OR ")


def refuse_all(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on only rows with some OIDs may be read of a catalog."""
    read = base_tables.KEYED[name]

    def some(session: Any, only: Any) -> Any:
        assert only is not None, "all rows are read"
        return read(session, only)

    monkeypatch.setitem(base_tables.KEYED, name, some)


def test_rows_of_some_oids_are_those_of_all_rows(instance: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    instance.play("pub", *TABLES)
    limits = ((scans, "FEW"), (scans, "READS"), (joins, "READS"), (hash_joins, "FEW"), (hash_joins, "READS"))
    with monkeypatch.context() as whole:
        for module, limit in limits:
            whole.setattr(module, limit, -1)
        expected = [instance.play("pub", query) for query in QUERIES]
    assert [instance.play("pub", query) for query in QUERIES] == expected
    instance.play(
        "pub", "CREATE SCHEMA another", "CREATE TABLE another.x ()"
    )  # rows that were read before are kept no longer
    for name in ("pg_attribute", "pg_proc"):
        refuse_all(name, monkeypatch)
    for query, answer in zip(QUERIES, expected, strict=True):
        if not any(part in query for part in NOT_BOUND):
            assert (query, instance.play("pub", query)) == (query, answer)
    instance.play("pub", "DROP TABLE another.x")
    for name in ("pg_class", "pg_type"):
        refuse_all(name, monkeypatch)
    assert instance.play("pub", "SELECT relname FROM pg_class WHERE oid = 't'::regclass") == ["t"]
    assert instance.play("pub", "SELECT typname FROM pg_type WHERE oid = 25") == ["text"]
    with pytest.raises(AssertionError):
        instance.play("pub", "SELECT typname FROM pg_type WHERE typname = 'text'")
