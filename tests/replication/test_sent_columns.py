"""pgoutput's bytes of many changes, written by whole columns: those that are written one by one."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pgrepl.catalog.session.transaction import reading
from pgrepl.ground.errors import PgError
from pgrepl.replication.decoding import SlotDecoder
from pgrepl.replication.publisher import slots
from pgrepl.replication.wire import pgoutput_write
from pgrepl.replication.wire.pgoutput_write import MessageColumn
from pgrepl.server.replication import sender
from tests.harness.pair import Pair
from tests.harness.programs import eventually

TYPES = (
    "i int8, b boolean, n numeric, m numeric(9,3), f float8, d date, z timestamptz, u uuid, j jsonb, y bytea, a int[]"
)
VALUES = (
    "(1, 'x', 5, true, 1.50, 7, 0.1, '2024-02-29', '2024-01-01 12:00:00.5+02', gen_random_uuid(), '{\"a\": [1]}',"
    " 'é', '{1,NULL}')",
    "(2, '', -5, false, 'NaN', NULL, 'infinity', 'infinity', '0044-03-15 BC', NULL, 'null', '', '{}')",
    "(3, NULL, NULL, NULL, NULL, -7.125, '-0', '0001-01-01', NULL, NULL, NULL, NULL, NULL)",
)


@pytest.fixture
def ready(pair: Pair) -> Pair:
    pair.pub(f"CREATE TABLE t (k int PRIMARY KEY, v text, {TYPES})")
    pair.pub("CREATE TABLE w (k int, v text); ALTER TABLE w REPLICA IDENTITY FULL")
    pair.pub("CREATE PUBLICATION p FOR TABLE t, w WHERE (k % 7 <> 3)")
    pair.pub("SELECT pg_create_logical_replication_slot('s', 'pgoutput')")
    return pair


def decoder(pair: Pair) -> tuple[SlotDecoder, int, int]:
    session = pair.pub.session
    row = slots.slot_or_none(session, "s")
    assert row is not None
    given = [("proto_version", "1"), ("publication_names", "p")]
    made = SlotDecoder(session, row, given, session.text_style, session)
    return made, row.confirmed_flush_lsn or 0, slots.current_lsn(session)


def lines(found: Iterator[tuple[int, bytes]]) -> list[tuple[int, str]]:
    return [(lsn, data.hex(" ")) for lsn, data in found]


def one_by_one(pair: Pair) -> Iterator[tuple[int, bytes]]:
    with reading(pair.pub.session):
        made, start, end = decoder(pair)
        for _, found in made.portions(start, end, None):
            for lsn, _, data in found:
                yield lsn, data


def changes(pair: Pair, least: int = 0) -> Iterator[list[tuple[int, bytes]] | MessageColumn]:
    """What a walsender sends, the changes of transactions or columns. `least`: changes are not sent by columns."""
    pair.pub(f"SET pgrepl.local_rows = {least}")
    with reading(pair.pub.session):
        made, start, end = decoder(pair)
        for found in made.changes(start, end, None):
            yield [(lsn, data) for lsn, _, data in found[1]] if isinstance(found, tuple) else found
    pair.pub("RESET pgrepl.local_rows")


def by_columns(pair: Pair) -> Iterator[tuple[int, bytes]]:
    for found in changes(pair):
        if isinstance(found, list):  # of a transaction with definitions of its own
            yield from found
        else:
            yield from zip(found.lsn.tolist(), found.data.to_pylist(), strict=True)


@pytest.mark.parametrize("most", [1, 1 << 16])
def test_all_kinds_of_values_and_messages(ready: Pair, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(pgoutput_write, "MOST", most)
    monkeypatch.setattr(pgoutput_write, "FIRST", most)
    pub = ready.pub
    for values in VALUES:
        pub(f"INSERT INTO t VALUES {values}")
    pub(
        "BEGIN; UPDATE t SET v = 'ü' WHERE k < 3; INSERT INTO w VALUES (1, 'w'), (1, NULL);"
        " DELETE FROM t WHERE k = 1; COMMIT"
    )
    pub("BEGIN; DELETE FROM w WHERE v IS NULL; TRUNCATE w; INSERT INTO w VALUES (4, 'again'); COMMIT")
    pub("INSERT INTO w VALUES (5, 'after'), (3, 'hidden'); UPDATE w SET k = k + 7; UPDATE w SET k = 3 WHERE k = 12")
    pub("BEGIN; TRUNCATE t, w; COMMIT; INSERT INTO t (k) VALUES (9), (10); UPDATE t SET k = k + 10")
    assert lines(by_columns(ready)) == lines(one_by_one(ready))


@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in range(2, 40))])
def test_random_changes(ready: Pair, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(pgoutput_write, "FIRST", chance.randrange(1, 9))
    monkeypatch.setattr(pgoutput_write, "MOST", chance.randrange(1, 30))
    for _ in range(12):
        body = []
        for _ in range(chance.randrange(1, 4)):
            table, key = chance.choice("ttwww"), chance.randrange(20)
            body.append(
                chance.choice(
                    [
                        f"INSERT INTO {table} (k, v) SELECT g + coalesce((SELECT max(k) FROM {table}), 0), 'v' || g"
                        f" FROM generate_series(1, {chance.randrange(1, 9)}) g",
                        f"UPDATE {table} SET v = v || '{key}' WHERE k % 5 = {key % 5}",
                        f"UPDATE {table} SET k = -k WHERE k % 5 = {key % 5}",
                        f"DELETE FROM {table} WHERE k % 9 = {key % 9}",
                        "TRUNCATE w" if chance.random() < 0.3 else f"UPDATE w SET v = NULL WHERE k < {key}",
                    ]
                )
            )
        try:
            ready.pub(f"BEGIN; {'; '.join(body)}; COMMIT" if chance.random() < 0.6 else "; ".join(body))
        except PgError:  # a key that is there
            ready.pub("ROLLBACK")
    assert lines(by_columns(ready)) == lines(one_by_one(ready))


@pytest.mark.parametrize(
    "body", ["TRUNCATE w; TRUNCATE w", "INSERT INTO w VALUES (6); ALTER TABLE w ADD z int; INSERT INTO w VALUES (8)"]
)
def test_columns_go_on_behind_a_transaction_with_definitions_of_its_own(ready: Pair, body: str) -> None:
    many = "INSERT INTO w SELECT g, 'x' FROM generate_series({}, {}) g"
    for text in (many.format(100, 399), f"BEGIN; {body}; COMMIT", "INSERT INTO w VALUES (9)", many.format(400, 699)):
        ready.pub(text)
    assert lines(by_columns(ready)) == lines(one_by_one(ready))
    assert [isinstance(found, list) for found in changes(ready)] == [False, True, False]
    ready.pub(f"BEGIN; {body.replace('z', 'y')}; COMMIT")
    ready.pub("INSERT INTO w VALUES (9)")
    assert [isinstance(found, list) for found in changes(ready, 99)] == [False, True, False, True, True]


def test_rows_as_values(ready: Pair) -> None:
    pub = ready.pub
    pub("CREATE TYPE c AS (a int, b text, d date, r regclass)", "SET datestyle = 'German'")
    pub("ALTER TABLE w ADD COLUMN c c, ADD COLUMN l c[]")
    row = "ROW(g, '\"a,\\ ' || g, date '2024-02-29' + g, 'w')::c"
    pub(f"INSERT INTO w SELECT g, 'x', {row}, ARRAY[NULL, {row}] FROM generate_series(1, 9) g")
    pub("UPDATE w SET c = NULL WHERE k < 4", "UPDATE w SET c.b = '', l[1] = c WHERE k > 5", "DELETE FROM w WHERE k = 8")
    pub("BEGIN; TRUNCATE w; ALTER TYPE c ADD ATTRIBUTE z int; COMMIT", "INSERT INTO w VALUES (5, 'y', '(,,,,7)', '{}')")
    assert lines(by_columns(ready)) == lines(one_by_one(ready))
    assert not any(isinstance(found, list) for found in changes(ready))
    assert sum(b"08.03.2024,w,)" in data for _, data in by_columns(ready)) == 3


def test_the_subscriber_hears_of_its_publisher_while_a_batch_is_read(
    ready: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[bytes] = []
    channel = SimpleNamespace(send=lambda kind, body: heard.append(kind + body[:1]), flush=lambda: None)
    monkeypatch.setattr(sender, "SPEAK", 0.01)
    with sender.Sender(cast(Any, SimpleNamespace(channel=channel, session=ready.pub.session))).speaking():
        eventually(lambda: len(heard) > 2)
    assert set(heard) == {b"dk"}
    told = len(heard)
    time.sleep(0.03)
    assert len(heard) == told


@pytest.mark.parametrize("are_dropped", [False, True])
def test_labels_of_before_they_were_renamed(ready: Pair, are_dropped: bool) -> None:
    """Wherever an enum is in a value, also of a type that is gone; tests/postgres/test_replication_sending.py asks a
    server."""
    pub = ready.pub
    pub("CREATE TYPE mood AS ENUM ('low', 'high')", "CREATE TYPE c AS (m mood, l mood[])", "CREATE TABLE x (m mood)")
    pub("INSERT INTO w VALUES (0)", "ALTER TABLE w ADD n mood DEFAULT 'low', ADD m mood, ADD c c, ADD l mood[]")
    pub("ALTER TABLE w ADD x x")
    for old, new in (("low", "middle"), ("high", "low"), ("middle", "last")):
        row = f"'{old}', ROW('{old}', '{{{old}}}')::c, '{{{old}}}', ROW('{old}')::x"
        pub(f"INSERT INTO w SELECT g, '', '{old}', {row} FROM generate_series(1, 9) g", "UPDATE w SET k = k + 10")
        pub("DELETE FROM w WHERE k > 15", f"ALTER TYPE mood RENAME VALUE '{old}' TO '{new}'")
    if are_dropped:
        pub("DROP TABLE w, x", "DROP TYPE c", "DROP TYPE mood")
    found = list(by_columns(ready))
    assert lines(iter(found)) == lines(one_by_one(ready))
    assert not any(isinstance(each, list) for each in changes(ready))
    sent = b"".join(data for _, data in found if data[:1] == b"I")
    assert [label for label in ("low", "middle", "high", "last") if label.encode() in sent] == ["low", "middle", "high"]
