"""A dump, played in an empty instance, makes the same objects: a dump of those is the same script."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pgrepl.backend import open_session
from pgrepl.catalog.opening import open_catalog
from pgrepl.catalog.session import Session
from pgrepl.catalog.transaction import reading
from pgrepl.statements.dump.replication import dump_publications, dump_subscriptions
from pgrepl.statements.dump.schema import dump_schema
from pgrepl.statements.run import run
from tests.query.make_queries import SCHEMA

MORE = """
CREATE TABLE "Odd t" ("A b" int);
COMMENT ON TABLE "Odd t" IS 'it''s';
CREATE SUBSCRIPTION s1 CONNECTION 'dbname=x password=''q''' PUBLICATION a, "B"
    WITH (connect = false, slot_name = NONE, streaming = parallel, two_phase, origin = none);
"""


@pytest.fixture
def sessions(tmp_path: Path) -> Iterator[list[Session]]:
    catalogs = [open_catalog(tmp_path / f"{name}.db") for name in ("first", "second")]
    made = [open_session(catalog) for catalog in catalogs]
    yield made
    for session in made:
        session.close()
    for catalog in catalogs:
        catalog.close()


def dumped(session: Session) -> str:
    with reading(session):
        return "\n".join([*dump_schema(session), *dump_publications(session), *dump_subscriptions(session)])


def test_a_dump_of_what_a_dump_made_is_the_same(sessions: list[Session]) -> None:
    first, second = sessions
    for text in (SCHEMA.read_text("utf-8"), MORE):
        list(run(first, text))
    list(run(second, "CREATE ROLE catalogs_owner; CREATE ROLE catalogs_reader"))
    script = dumped(first)
    list(run(second, script))
    assert dumped(second) == script


def test_column_privileges_statistics_and_subscriptions_are_dumped(sessions: list[Session]) -> None:
    session = sessions[0]
    for text in (SCHEMA.read_text("utf-8"), MORE):
        list(run(session, text))
    lines = dumped(session).splitlines()
    for line in (
        "ALTER TABLE ONLY s.t ALTER COLUMN id SET STATISTICS 50;",
        "ALTER TABLE ONLY s.t ALTER COLUMN c SET STORAGE EXTERNAL;",
        "GRANT UPDATE(n) ON TABLE s.t TO catalogs_reader;",
        "CREATE SUBSCRIPTION s1 CONNECTION 'dbname=x password=''q''' PUBLICATION a, \"B\" WITH (connect = false, "
        "slot_name = NONE, streaming = parallel, two_phase = on, origin = none);",
    ):
        assert line in lines
