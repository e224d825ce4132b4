"""The command tag of every kind of statement."""

from __future__ import annotations

import pytest

from pgrepl.sql.parser import parse
from pgrepl.sql.statements import command_tag
from tests.sql.corpus import STATEMENTS
from tests.sql.ddl_corpus import STATEMENTS as DEFINITIONS
from tests.sql.one import node


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        ("SELECT 1", "SELECT"),
        ("VALUES (1)", "SELECT"),
        ("SELECT 1 INTO t", "SELECT"),
        ("INSERT INTO t VALUES (1)", "INSERT"),
        ("UPDATE t SET a = 1", "UPDATE"),
        ("DELETE FROM t", "DELETE"),
        ("TRUNCATE t", "TRUNCATE TABLE"),
        ("COPY t FROM STDIN", "COPY"),
        ("EXPLAIN SELECT 1", "EXPLAIN"),
        ("VACUUM", "VACUUM"),
        ("ANALYSE t", "ANALYZE"),
        ("CREATE TABLE t ()", "CREATE TABLE"),
        ("CREATE TABLE t AS SELECT 1", "CREATE TABLE AS"),
        ("CREATE TABLE t AS EXECUTE q", "CREATE TABLE AS"),
        ("CREATE UNIQUE INDEX ON t (a)", "CREATE INDEX"),
        ("CREATE RECURSIVE VIEW v (a) AS SELECT 1", "CREATE VIEW"),
        ("CREATE SEQUENCE q", "CREATE SEQUENCE"),
        ("CREATE SCHEMA s", "CREATE SCHEMA"),
        ("CREATE DATABASE d", "CREATE DATABASE"),
        ("CREATE PUBLICATION p", "CREATE PUBLICATION"),
        ("CREATE SUBSCRIPTION s CONNECTION '' PUBLICATION p", "CREATE SUBSCRIPTION"),
        ("CREATE USER joe", "CREATE ROLE"),
        ("CREATE GROUP g", "CREATE ROLE"),
        ("ALTER TABLE t ADD a int", "ALTER TABLE"),
        ("ALTER TABLE t RENAME a TO b", "ALTER TABLE"),
        ("ALTER TABLE t RENAME CONSTRAINT a TO b", "ALTER TABLE"),
        ("ALTER TABLE t SET SCHEMA s", "ALTER TABLE"),
        ("ALTER TABLE ALL IN TABLESPACE a SET TABLESPACE b", "ALTER TABLE"),
        ("ALTER VIEW v RENAME a TO b", "ALTER VIEW"),
        ("ALTER VIEW v RENAME TO w", "ALTER VIEW"),
        ("ALTER INDEX i RENAME TO j", "ALTER INDEX"),
        ("ALTER INDEX i DEPENDS ON EXTENSION e", "ALTER INDEX"),
        ("ALTER SEQUENCE q RESTART", "ALTER SEQUENCE"),
        ("ALTER SEQUENCE q OWNER TO joe", "ALTER SEQUENCE"),
        ("ALTER MATERIALIZED VIEW m RENAME a TO b", "ALTER MATERIALIZED VIEW"),
        ("ALTER PUBLICATION p SET (publish = '')", "ALTER PUBLICATION"),
        ("ALTER PUBLICATION p OWNER TO joe", "ALTER PUBLICATION"),
        ("ALTER SUBSCRIPTION s RENAME TO r", "ALTER SUBSCRIPTION"),
        ("ALTER SUBSCRIPTION s ENABLE", "ALTER SUBSCRIPTION"),
        ("ALTER DATABASE d SET x = 5", "ALTER DATABASE"),
        ("ALTER DATABASE d REFRESH COLLATION VERSION", "ALTER DATABASE"),
        ("ALTER ROLE joe SET x = 5", "ALTER ROLE"),
        ("ALTER GROUP g ADD USER joe", "ALTER ROLE"),
        ("ALTER USER joe RENAME TO jim", "ALTER ROLE"),
        ("ALTER FUNCTION f STABLE", "ALTER FUNCTION"),
        ("DROP TABLE t", "DROP TABLE"),
        ("DROP INDEX CONCURRENTLY i", "DROP INDEX"),
        ("DROP PUBLICATION p", "DROP PUBLICATION"),
        ("DROP SUBSCRIPTION s", "DROP SUBSCRIPTION"),
        ("DROP USER joe", "DROP ROLE"),
        ("DROP DATABASE d", "DROP DATABASE"),
        ("DROP OWNED BY joe", "DROP OWNED"),
        ("DROP FUNCTION f", "DROP FUNCTION"),
        ("REASSIGN OWNED BY a TO b", "REASSIGN OWNED"),
        ("GRANT SELECT ON t TO joe", "GRANT"),
        ("GRANT a TO b", "GRANT ROLE"),
        ("REVOKE SELECT ON t FROM joe", "REVOKE"),
        ("REVOKE a FROM b", "REVOKE ROLE"),
        ("COMMENT ON TABLE t IS 'x'", "COMMENT"),
        ("COMMENT ON FUNCTION f() IS 'x'", "COMMENT"),
        ("SET x = 5", "SET"),
        ("SET TRANSACTION READ ONLY", "SET"),
        ("SET CONSTRAINTS ALL DEFERRED", "SET CONSTRAINTS"),
        ("RESET x", "RESET"),
        ("RESET ALL", "RESET"),
        ("SHOW x", "SHOW"),
        ("DISCARD TEMPORARY", "DISCARD TEMP"),
        ("BEGIN", "BEGIN"),
        ("START TRANSACTION", "START TRANSACTION"),
        ("END", "COMMIT"),
        ("ABORT", "ROLLBACK"),
        ("ROLLBACK TO a", "ROLLBACK"),
        ("SAVEPOINT a", "SAVEPOINT"),
        ("RELEASE a", "RELEASE"),
        ("PREPARE TRANSACTION 'x'", "PREPARE TRANSACTION"),
        ("COMMIT PREPARED 'x'", "COMMIT PREPARED"),
        ("ROLLBACK PREPARED 'x'", "ROLLBACK PREPARED"),
        ("LOCK t", "LOCK TABLE"),
    ],
)
def test_tags(text: str, tag: str) -> None:
    assert command_tag(node(text)) == tag


def test_every_statement_has_one() -> None:
    tags = {command_tag(raw.stmt) for text in STATEMENTS + DEFINITIONS for raw in parse(text)}
    assert len(tags) > 120
    assert all(tag == tag.upper() and not tag.endswith(" ") for tag in tags)
