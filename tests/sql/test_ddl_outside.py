"""What is outside the dialect is read whole, and named by its command tag."""

from __future__ import annotations

import re

import pytest

from pgrepl.ground.errors import Report
from pgrepl.sql.nodes import UnsupportedStmt
from pgrepl.sql.parser import parse
from tests.sql.ddl_corpus import OUTSIDE, lines
from tests.sql.one import node


@pytest.mark.parametrize(
    ("start", "what"),
    [
        ("CREATE OR REPLACE TRUSTED PROCEDURAL LANGUAGE x", "CREATE LANGUAGE"),
        ("CREATE DEFAULT CONVERSION c FOR 'a' TO 'b' FROM f", "CREATE CONVERSION"),
        ("CREATE TYPE t (input = f, output = g)", "CREATE TYPE"),
        ("ALTER TYPE t SET (send = f)", "ALTER TYPE"),
        ("ALTER OPERATOR FAMILY f USING btree DROP OPERATOR 1 (int)", "ALTER OPERATOR FAMILY"),
        ("ALTER FOREIGN TABLE f ADD a int", "ALTER FOREIGN TABLE"),
        ("ALTER INDEX i DEPENDS ON EXTENSION e", "ALTER INDEX DEPENDS ON"),
        ("ALTER TABLE ALL IN TABLESPACE a SET TABLESPACE b", "ALTER TABLE ALL IN TABLESPACE"),
        ("ALTER LARGE OBJECT 5 OWNER TO joe", "ALTER LARGE OBJECT"),
        ("DROP OPERATOR CLASS c USING btree", "DROP OPERATOR CLASS"),
        ("IMPORT FOREIGN SCHEMA a FROM SERVER s INTO b", "IMPORT FOREIGN SCHEMA"),
        ("SECURITY LABEL ON TABLE t IS 'x'", "SECURITY LABEL"),
    ],
)
def test_the_name_of_what_is_refused(start: str, what: str) -> None:
    assert node(start) == UnsupportedStmt(what, 0)


_MODIFIERS = re.compile(r"OR REPLACE |DEFAULT (?=CONV)|TRUSTED |PROCEDURAL |(?<=CONSTRAINT )c ")
_NAMED_MORE_FULLY = {"ALTER FUNCTION DEPENDS ON", "ALTER TRIGGER DEPENDS ON"}


@pytest.mark.parametrize("statement", lines(OUTSIDE))
def test_every_statement_outside_the_dialect_is_named_by_its_words(statement: str) -> None:
    found = node(statement)
    assert isinstance(found, UnsupportedStmt)
    assert found.what in _NAMED_MORE_FULLY or _MODIFIERS.sub("", statement).startswith(found.what)


def test_a_notice_does_not_stop_the_parse() -> None:
    said: list[Report] = []
    text = "CREATE OPERATOR CLASS c FOR TYPE int USING btree AS OPERATOR 1 < RECHECK"
    [raw] = parse(text, said.append)
    assert raw.stmt == UnsupportedStmt("CREATE OPERATOR CLASS", 0)
    message = "RECHECK is no longer required"
    assert said == [Report("NOTICE", "0A000", message, hint="Update your data type.", position=66)]
