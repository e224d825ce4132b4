"""A subscriber that others read: each transaction it received is sent on as one of its own, with all of its changes."""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgrepl.replication.wire import messages
from tests.harness.dose import dose
from tests.harness.nodes import Node
from tests.harness.pair import Pair

T = "CREATE TABLE t (id int, v text)"


class Cascade:
    """P → S → C."""

    def __init__(self, folder: Path) -> None:
        self.p, self.s, self.c = (Node(folder / name, new=True) for name in ("p", "s", "c"))

    def connect(self, tables: tuple[str, str, str], publish: str = "") -> None:
        for node, table in zip((self.p, self.s, self.c), tables, strict=True):
            node(*table.split(";"))
        self.p(f"CREATE PUBLICATION p FOR ALL TABLES {publish}")
        self.s(f"CREATE PUBLICATION p FOR ALL TABLES {publish}")
        for node, to in ((self.s, self.p), (self.c, self.s)):
            node.subscribe("p", f"host={to.folder} dbname=shop")
            assert node.catch_up() == []

    def close(self) -> None:
        for node in (self.p, self.s, self.c):
            node.close()


@pytest.fixture
def cascade(tmp_path: Path) -> Iterator[Cascade]:
    made = Cascade(tmp_path)
    yield made
    made.close()


def test_a_delete_stops_who_has_no_key_though_its_row_was_inserted_in_the_same_batch(cascade: Cascade) -> None:
    key = "CREATE TABLE t (id int PRIMARY KEY, v text)"
    cascade.connect((key, key, T))
    cascade.p("INSERT INTO t VALUES (1, 'a'), (2, 'b')", "DELETE FROM t WHERE id = 2")
    assert cascade.s.catch_up() == []
    assert [message for message, _, _ in cascade.c.catch_up()] == [
        'logical replication target relation "public.t" has neither REPLICA IDENTITY index nor PRIMARY KEY '
        "and published relation does not have REPLICA IDENTITY FULL"
    ]
    assert cascade.c("SELECT id FROM t ORDER BY id") == [("1",), ("2",)]


def test_an_insert_before_a_truncate_meets_the_row_that_has_its_key(cascade: Cascade) -> None:
    key = "CREATE TABLE t (id int PRIMARY KEY, v text)"
    cascade.connect((key, key, key))
    cascade.c("INSERT INTO t VALUES (7, 'own')")
    cascade.p("INSERT INTO t VALUES (7, 'a')", "TRUNCATE t", "INSERT INTO t VALUES (8, 'b')")
    assert cascade.s.catch_up() == []
    assert [message for message, _, _ in cascade.c.catch_up()] == [
        'duplicate key value violates unique constraint "t_pkey"'
    ]


WORK = (
    "INSERT INTO t VALUES (1, 'one'), (2, 'two'), (3, 'three')",
    "BEGIN; UPDATE t SET v = 'changed' WHERE id = 2; UPDATE t SET v = 'again' WHERE id = 2;"
    " DELETE FROM t WHERE id = 3; COMMIT",
    "BEGIN; INSERT INTO u VALUES (1); INSERT INTO t VALUES (4, 'four'); INSERT INTO u VALUES (2);"
    " DELETE FROM u WHERE a = 1; UPDATE t SET id = 5 WHERE id = 4; UPDATE t SET id = 6 WHERE id = 5; COMMIT",
    "BEGIN; INSERT INTO t VALUES (7, 'gone'); TRUNCATE t, u; INSERT INTO t VALUES (7, 'there'); COMMIT",
    "BEGIN; DELETE FROM t; INSERT INTO t VALUES (7, 'new'); COMMIT",
    "UPDATE t SET v = v",
)
SEEN = """\
BEGIN
table public.t: INSERT: id[integer]:1 v[text]:'one'
table public.t: INSERT: id[integer]:2 v[text]:'two'
table public.t: INSERT: id[integer]:3 v[text]:'three'
COMMIT
BEGIN
table public.t: UPDATE: id[integer]:2 v[text]:'changed'
table public.t: UPDATE: id[integer]:2 v[text]:'again'
table public.t: DELETE: id[integer]:3
COMMIT
BEGIN
table public.u: INSERT: a[integer]:1
table public.t: INSERT: id[integer]:4 v[text]:'four'
table public.u: INSERT: a[integer]:2
table public.u: DELETE: a[integer]:1
table public.t: UPDATE: old-key: id[integer]:4 new-tuple: id[integer]:5 v[text]:'four'
table public.t: UPDATE: old-key: id[integer]:5 new-tuple: id[integer]:6 v[text]:'four'
COMMIT
BEGIN
table public.t: INSERT: id[integer]:7 v[text]:'gone'
table public.t, public.u: TRUNCATE: (no-flags)
table public.t: INSERT: id[integer]:7 v[text]:'there'
COMMIT
BEGIN
table public.t: DELETE: id[integer]:7
table public.t: INSERT: id[integer]:7 v[text]:'new'
COMMIT
BEGIN
table public.t: UPDATE: id[integer]:7 v[text]:'new'
COMMIT
"""


def look(pair: Pair) -> str:
    found = pair.sub(
        "SELECT data FROM pg_logical_slot_get_changes('look', NULL, NULL, 'include-xids', '0', 'skip-empty-xacts', '1')"
    )
    return "".join(f"{data}\n" for (data,) in found)


def connect(pair: Pair) -> None:
    pair.both("CREATE TABLE t (id int PRIMARY KEY, v text); CREATE TABLE u (a int PRIMARY KEY)")
    pair.pub("CREATE PUBLICATION p FOR ALL TABLES")
    pair.subscribe()


@pytest.mark.parametrize("portion", [1, 2, messages.PORTION])
def test_every_change_of_every_transaction_is_seen(pair: Pair, monkeypatch: pytest.MonkeyPatch, portion: int) -> None:
    monkeypatch.setattr(messages, "PORTION", portion)
    connect(pair)
    pair.sub("SELECT pg_create_logical_replication_slot('look', 'test_decoding')")
    for text in WORK:
        pair.pub(text)
    assert pair.catch_up() == []
    assert look(pair) == SEEN
    assert pair.sub("SELECT * FROM t") == pair.pub("SELECT * FROM t") == [("7", "new")]


@pytest.mark.parametrize("rows", dose([1000000000, 10], 2))
def test_large_transactions_are_seen_whole(pair: Pair, rows: int) -> None:
    """Rows in files, whose order among others is told apart from them."""
    connect(pair)
    pair.sub("SELECT pg_create_logical_replication_slot('look', 'test_decoding')")
    pair.sub(f"SET pgrepl.engine = local; SET pgrepl.local_rows = {rows}")
    pair.pub("SELECT pg_create_logical_replication_slot('there', 'test_decoding')")
    pair.pub("INSERT INTO t SELECT g, 'v' || g FROM generate_series(1, 100) g")
    pair.pub(
        "BEGIN; UPDATE t SET v = 'w' WHERE id % 3 = 0; DELETE FROM t WHERE id % 5 = 0;"
        "INSERT INTO t SELECT g, 'x' FROM generate_series(5, 100, 5) g; UPDATE t SET id = id + 1000; COMMIT"
    )
    assert pair.catch_up() == []
    there = pair.pub("SELECT data FROM pg_logical_slot_get_changes('there', NULL, NULL, 'include-xids', '0')")
    assert look(pair) == "".join(f"{data}\n" for (data,) in there)
    assert len(there) == 2 + 100 + 2 + 33 + 20 + 20 + 100


def test_without_a_reader_a_batch_is_one_transaction(pair: Pair) -> None:
    connect(pair)
    pair.sub("CREATE PUBLICATION q FOR TABLE t WITH (publish = 'insert')")
    before = pair.sub.session.link.execute("SELECT max(snapshot_id) FROM ducklake_snapshot")[0][0]
    for text in ("INSERT INTO t VALUES (1, 'a')", "UPDATE t SET v = 'b'", "INSERT INTO t VALUES (2, 'c')"):
        pair.pub(text)
    published = pair.sub.session.link.execute("SELECT max(snapshot_id) FROM ducklake_snapshot")[0][0]
    assert pair.catch_up() == []
    assert published - before == 3
    assert pair.sub.session.link.execute("SELECT max(snapshot_id) FROM ducklake_snapshot")[0][0] == published + 1
    pair.sub("SELECT pg_create_logical_replication_slot('look', 'test_decoding')")  # sees what comes after it
    pair.pub("DELETE FROM t WHERE id = 1")
    assert pair.catch_up() == []
    assert look(pair) == "BEGIN\ntable public.t: DELETE: id[integer]:1\nCOMMIT\n"


def random_work(chance: random.Random) -> str:
    low = chance.randrange(30)
    return chance.choice(
        (
            f"INSERT INTO t SELECT g, 'v' FROM generate_series({low}, {low + chance.randrange(25)}) g"
            " ON CONFLICT (id) DO UPDATE SET v = t.v || 'u'",
            f"UPDATE t SET v = v || '{low}' WHERE id % 4 = {low % 4}",
            f"DELETE FROM t WHERE id BETWEEN {low} AND {low + chance.randrange(15)}",
            f"UPDATE t SET id = id + 100 WHERE id = {low} AND NOT EXISTS (SELECT FROM t x WHERE x.id = {low + 100})",
            f"DELETE FROM t WHERE id = {low}; INSERT INTO t VALUES ({low}, 'again')",
            f"INSERT INTO u SELECT g FROM generate_series({low * 100}, {low * 100 + 15}) g ON CONFLICT DO NOTHING",
            "UPDATE u SET a = a WHERE a % 100 < 4; DELETE FROM u WHERE a % 7 = 3",
            "TRUNCATE u",
        )
    )


@pytest.mark.parametrize("seed", dose(range(100), 100))
def test_what_a_publisher_shows_its_subscriber_shows(pair: Pair, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Both have the same slot; both show the same."""
    chance = random.Random(seed)
    monkeypatch.setattr(messages, "PORTION", chance.choice((3, 40, 100_000)))
    connect(pair)
    pair.sub("SELECT pg_create_logical_replication_slot('look', 'test_decoding')")
    pair.pub("SELECT pg_create_logical_replication_slot('there', 'test_decoding')")
    for _ in range(8):
        for _ in range(chance.randrange(1, 5)):
            work = "; ".join(random_work(chance) for _ in range(chance.randrange(1, 5)))
            pair.pub(f"BEGIN; {work}; COMMIT")
        assert pair.catch_up() == []
        there = pair.pub("SELECT data FROM pg_logical_slot_get_changes('there', NULL, NULL, 'skip-empty-xacts', '1',"
                         " 'include-xids', '0')")  # fmt: skip
        assert look(pair) == "".join(f"{data}\n" for (data,) in there)
        if chance.random() < 0.4:
            pair.sub("VACUUM FULL t, u")


def test_what_is_sent_on_says_where_and_when_it_was_committed_first(pair: Pair) -> None:
    connect(pair)
    pair.sub("CREATE PUBLICATION q FOR TABLE t")
    pair.sub("SELECT pg_create_logical_replication_slot('look', 'pgoutput')")
    pair.pub("SELECT pg_create_logical_replication_slot('there', 'test_decoding')")
    pair.pub("INSERT INTO t VALUES (1, 'a')")
    time.sleep(0.01)
    assert pair.catch_up() == []
    options = "'proto_version', '1', 'publication_names', 'q'"
    found = pair.sub(
        f"SELECT encode(data, 'hex') FROM pg_logical_slot_get_binary_changes('look', NULL, NULL, {options})"
    )
    begin, origin, *_ = [bytes.fromhex(str(data)) for (data,) in found]
    ((name, lsn),) = pair.sub("SELECT external_id, remote_lsn - '0/0' FROM pg_replication_origin_status")
    assert origin == b"O" + struct.pack("!q", int(str(lsn))) + str(name).encode() + b"\0"
    commit = pair.pub(
        "SELECT data FROM pg_logical_slot_get_changes('there', NULL, NULL, 'include-timestamp', '1')"
        " WHERE data LIKE 'COMMIT%(at%' LIMIT 1"
    )[0][0]
    when = str(commit).partition("(at ")[2].rstrip(")")
    assert pair.pub(f"SELECT extract(epoch FROM timestamptz '{when}') - 946684800") == [
        (f"{struct.unpack('!q', begin[9:17])[0] / 1_000_000:.6f}",)
    ]
