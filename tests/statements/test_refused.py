"""What is not there is refused with SQLSTATE 0A000 and its name."""

from __future__ import annotations

import pytest

from pgrepl.ground.errors import PgError
from pgrepl.sql.nodes import UnsupportedStmt
from pgrepl.sql.parser import parse
from pgrepl.statements.run import run
from tests.harness.played import Instance
from tests.sql.ddl_corpus import OUTSIDE, lines


def test_every_statement_outside_the_dialect(instance: Instance) -> None:
    wrong = []
    for text in lines(OUTSIDE):
        stmt = parse(text)[0].stmt
        assert isinstance(stmt, UnsupportedStmt)
        with pytest.raises(PgError) as refused:
            list(run(instance.session("pub"), text))
        if (refused.value.sqlstate, refused.value.message) != ("0A000", f"{stmt.what} is not supported"):
            wrong.append((text, refused.value.sqlstate, refused.value.message))
    assert wrong == []


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("SELECT point '(1,2)'", "type point is not supported"),
        ("SELECT '1'::money", "type money is not supported"),
        ("SELECT to_tsvector('a')", "function to_tsvector(text) is not supported"),
        ("INSERT INTO u VALUES ('(1,1),(0,0)')", "type box is not supported"),
        ("CREATE TABLE x (a tsvector DEFAULT 'x')", "type tsvector is not supported"),
        ("CREATE TABLE x (a int4range, EXCLUDE USING gist (a WITH &&))", "EXCLUDE is not supported"),
        ("SELECT mxid_age('5')", "function mxid_age(xid) is not supported"),
        ("SELECT lo_create(1)", "function lo_create(oid) is not supported"),
        ("CREATE TABLE x OF y", "CREATE TABLE OF is not supported"),
        ("CREATE TYPE x", "CREATE TYPE is not supported"),
        ("ALTER TABLE t ENABLE RULE x", "ENABLE RULE is not supported"),
        ("ALTER TRIGGER x ON t DEPENDS ON EXTENSION y", "ALTER TRIGGER DEPENDS ON is not supported"),
        ("ALTER TABLE t OF y", "ALTER TABLE OF is not supported"),
        ("ALTER TABLE t NOT OF", "ALTER TABLE NOT OF is not supported"),
        ("CLUSTER t", "CLUSTER is not supported"),
        ("CREATE STATISTICS s ON a, b FROM t", "CREATE STATISTICS is not supported"),
        ("GRANT USAGE ON LANGUAGE sql TO PUBLIC", "GRANT ON LANGUAGE is not supported"),
        ("SELECT 'a' < 'B' COLLATE \"en-x-icu\"", 'collation "en-x-icu" is not supported'),
        ('SELECT c FROM v ORDER BY c COLLATE pg_catalog."de-AT-x-icu"', 'collation "de-AT-x-icu" is not supported'),
        ("SELECT 'a' < 'B' COLLATE unicode", 'collation "unicode" is not supported'),
        ('CREATE TABLE x (a text COLLATE "de-x-icu")', 'collation "de-x-icu" is not supported'),
        ("ALTER TABLE v ALTER c TYPE text COLLATE unicode", 'collation "unicode" is not supported'),
        ('CREATE DOMAIN x AS text COLLATE "de-x-icu"', 'collation "de-x-icu" is not supported'),
        ("CREATE TYPE x AS (a text COLLATE unicode)", 'collation "unicode" is not supported'),
        ('CREATE INDEX ON v (c COLLATE "de-x-icu")', 'collation "de-x-icu" is not supported'),
        ("CREATE TABLE x (a text) PARTITION BY LIST (a COLLATE unicode)", 'collation "unicode" is not supported'),
        ("CREATE TYPE x AS RANGE (subtype = text, collation = unicode)", 'collation "unicode" is not supported'),
        (
            "INSERT INTO v VALUES ('x') ON CONFLICT (c COLLATE unicode) DO NOTHING",
            'collation "unicode" is not supported',
        ),
        ('DO $$ DECLARE a text COLLATE "de-x-icu"; BEGIN END $$', 'collation "de-x-icu" is not supported'),
        ('CREATE COLLATION x FROM "de-x-icu"', 'collation "de-x-icu" is not supported'),
        ("CREATE COLLATION x FROM unicode", 'collation "unicode" is not supported'),
        ("CREATE COLLATION x (provider = icu, locale = 'de')", "collation provider icu is not supported"),
        ("CREATE COLLATION x (locale = 'de_DE.utf8')", 'locale "de_DE.utf8" is not supported'),
    ],
)
def test_the_name_of_what_is_refused(statement: str, message: str, instance: Instance) -> None:
    instance.play("pub", "CREATE TABLE t (a int, b int)", "CREATE TABLE u (a box)", "CREATE TABLE v (c text)")
    with pytest.raises(PgError) as refused:
        list(run(instance.session("pub"), statement))
    assert (refused.value.sqlstate, refused.value.message) == ("0A000", message)


def test_collations_that_nothing_is_compared_by_are_found_or_not(instance: Instance) -> None:
    assert instance.play(
        "pub", "SELECT to_regcollation('\"de-x-icu\"') IS NULL, 'unicode'::regcollation", 'DROP COLLATION "de-x-icu"'
    ) == ["t|unicode", 'ERROR:  collation "de-x-icu" for encoding "UTF8" does not exist']
