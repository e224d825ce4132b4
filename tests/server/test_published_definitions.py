"""schema_changes = all between two lakes with a server between them: the walsender tells definitions in the order of
changes, as within one instance."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgrepl.replication.conninfo import parse_conninfo
from pgrepl.replication.publisher.postgres.link import link_to
from pgrepl.replication.publisher.postgres.slots import retained
from tests.harness.database import Database, Errors, HeardLog, Rows
from tests.harness.dose import dose
from tests.harness.serving import Serving, serving
from tests.replication import test_definitions as within

Play = Callable[[Any], None]


class ServedPair:
    """A database of a served lake and one of another instance, with the interface of harness.pair.Pair."""

    def __init__(self, lake: Serving, folder: Path, name: str) -> None:
        self.conninfo = f"host=127.0.0.1 port={lake.port} user=postgres dbname={name}"
        lake.ask(f"CREATE DATABASE {name}")
        self._link = psycopg.connect(self.conninfo, autocommit=True, prepare_threshold=None)
        self.sub = Database(folder, "sub", new=True)

    @property
    def log(self) -> HeardLog:
        return self.sub.log

    def pub(self, *statements: str) -> Rows:
        """The rows of the last statement, as text."""
        with self._link.cursor() as cursor:
            for text in statements:
                cursor.execute(text.encode())
            found = cursor.pgresult
            assert found is not None
            rows = [[found.get_value(r, c) for c in range(found.nfields)] for r in range(found.ntuples)]
        return [tuple([None if v is None else bytes(v).decode() for v in row]) for row in rows]

    def both(self, text: str) -> None:
        self.pub(text)
        self.sub(text)

    def subscribe(self, publications: str = "p", options: str = "") -> None:
        self.sub.subscribe(publications, self.conninfo, options)
        self.sub.catch_up()

    def catch_up(self) -> Errors:
        return self.sub.catch_up()

    def close(self) -> None:
        self.sub("DROP SUBSCRIPTION s")
        self.sub.close()
        self._link.close()


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("lake")) as served:
        yield served


@pytest.fixture
def pair(lake: Serving, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[ServedPair]:
    made = ServedPair(lake, tmp_path, re.sub(r"\W", "_", request.node.name))
    yield made
    made.close()


def random(seed: int) -> Play:
    return lambda pair: within.random_definitions(pair, seed, 10 if seed else 2)


PLAYS: dict[str, Play] = {
    "random 0": random(0),
    "by columns": within.test_many_changes_between_definitions_go_by_columns,
    "names and drops": within.test_names_and_drops_of_tables,
    "set later": within.test_what_is_new_since_it_was_set_is_followed,
    **{f"random {seed}": random(seed) for seed in range(100, 110)},
}


@pytest.mark.parametrize("play", dose(PLAYS, len(PLAYS)))
def test_definitions_arrive(pair: ServedPair, play: str) -> None:
    PLAYS[play](pair)


def test_a_look_at_what_its_slot_retains_is_no_error_there(pair: Any, lake: Serving) -> None:
    within.following(pair)
    before = len(lake.log)
    with closing(link_to(parse_conninfo(pair.conninfo))) as link:
        found = retained(link, "s")
    assert found is not None
    assert found.seconds is None
    assert "ERROR" not in lake.log[before:]


def test_a_subscriber_that_does_not_ask_is_told_none(pair: Any) -> None:
    within.following(pair)
    pair.pub("ALTER TABLE t ALTER COLUMN a SET DEFAULT 4; SELECT pg_logical_emit_message(true, 'mine', 'x')")
    peek = (
        "SELECT chr(get_byte(data, 0)) FROM pg_logical_slot_peek_binary_changes('s', NULL, NULL,"
        " 'proto_version', '1', 'publication_names', 'p'{})"
    )
    assert [kind for (kind,) in pair.pub(peek.format("")) if kind == "M"] == []
    assert [kind for (kind,) in pair.pub(peek.format(", 'messages', 'true'")) if kind == "M"] == ["M"]
    assert [kind for (kind,) in pair.pub(peek.format(", 'definitions', 'true'")) if kind == "M"] == ["M"]
    assert [k for (k,) in pair.pub(peek.format(", 'definitions', 'true', 'messages', 'on'")) if k == "M"] == ["M"] * 2
