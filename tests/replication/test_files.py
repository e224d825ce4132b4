"""Subscriptions to files of changes: what is sent, positions, files that change, rejects, batches that are given."""

from __future__ import annotations

import gzip
import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from pgrepl.ground.errors import PgError
from pgrepl.replication.log import ServerLog
from pgrepl.replication.publisher.files import memory
from pgrepl.replication.publisher.files.listing import listed
from pgrepl.replication.publisher.files.memory import GivenBatch
from pgrepl.replication.subscriber.launcher import Launcher
from pgrepl.replication.subscriber.status import subscription_status
from pgrepl.replication.wire import messages
from pgrepl.shell.commands.status import status_row, status_text
from tests.harness.database import Database, Rows, by_columns, by_message
from tests.harness.dose import dose
from tests.harness.pair import Pair
from tests.harness.tasks import few_bytes_by_columns, files_by_tasks


class Landing:
    """A folder with files of changes as pgrepl's own JSON lines, and the databases that declare and subscribe."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self.folder = pair.folder / "landing"
        self.folder.mkdir()
        self.rejects = pair.folder / "rejects.json"

    def declare(self, table: str = "CREATE TABLE t (a int PRIMARY KEY, b text)", publication: str = "TABLE t") -> None:
        self.pair.both(table)
        self.pair.pub(f"CREATE PUBLICATION p FOR {publication}")

    def subscribe(self, options: str = "", files: str = "landing", parameters: str = "") -> None:
        """And read what is there."""
        self.pair.sub.subscribe("p", f"files={files} format=jsonl dbname=pub {options}", parameters)
        self.pair.catch_up()

    def write(self, name: str, *records: dict[str, Any], end: str = "\n") -> Path:
        path = self.folder / name
        path.write_text("\n".join(json.dumps(record) for record in records) + end)
        return path

    def rows(self, table: str = "t") -> Rows:
        return self.pair.sub(f"SELECT * FROM {table} ORDER BY 1")

    def error(self) -> str:
        """That with which the files stop the subscription now."""
        ((message, _, _),) = self.pair.catch_up()
        return message


def insert(a: int | str, b: str | None = "x", *, table: str = "t", **more: Any) -> dict[str, Any]:
    return {"op": "insert", "table": table, "new": {"a": str(a), "b": b}, **more}


def update(new: dict[str, Any], old: dict[str, Any] | None = None, *, table: str = "t", **more: Any) -> dict[str, Any]:
    return {"op": "update", "table": table, "new": new, **({} if old is None else {"old": old}), **more}


def delete(old: dict[str, Any], *, table: str = "t", **more: Any) -> dict[str, Any]:
    return {"op": "delete", "table": table, "old": old, **more}


@pytest.fixture
def landing(pair: Pair) -> Landing:
    return Landing(pair)


@pytest.fixture(params=["by message", "by columns", "by tasks"])
def way(request: pytest.FixtureRequest, landing: Landing, monkeypatch: pytest.MonkeyPatch) -> str:
    """Small batches are applied by messages, large ones by columns, which tasks may have read: all mean the same."""
    if request.param == "by tasks":
        files_by_tasks(monkeypatch, 100)
        by_columns(landing.pair.sub)
    elif request.param == "by columns":
        few_bytes_by_columns(monkeypatch)
        by_columns(landing.pair.sub)
    else:
        by_message(landing.pair.sub)
    return str(request.param)


# --- what is sent ---------------------------------------------------------------------------------------------------


def test_filters_and_column_lists_decide_what_is_sent(landing: Landing, way: str) -> None:
    """A row that enters the filter is inserted, one that leaves it deleted; a key that changes is found by the old."""
    landing.declare("CREATE TABLE t (a int PRIMARY KEY, b text, c text)", "TABLE t (a, b) WHERE (a > 10)")
    landing.pair.sub("ALTER TABLE t ALTER c SET DEFAULT 'here'")
    landing.write("1", *[insert(n, f"b{n}") for n in (5, 11, 12, 13, 14)])
    landing.subscribe()
    landing.write(
        "2",
        update({"a": "11", "b": "new"}),
        update({"a": "20", "b": "b5"}, {"a": "5"}),
        update({"a": "6", "b": "b12"}, {"a": "12"}),
        update({"a": "30"}, {"a": "13"}),
        delete({"a": "14", "b": "not asked"}),
        delete({"a": "7"}),
    )
    assert landing.pair.catch_up() == []
    assert landing.rows() == [("11", "new", "here"), ("20", "b5", "here"), ("30", "b13", "here")]
    done = landing.pair.sub("SELECT engine FROM pgrepl_stat_engine WHERE work = 'apply' AND datname = 'sub'")
    assert done == ([("columns",)] if way != "by message" else [])


def test_types_are_read_as_their_input_functions_read_them(landing: Landing, way: str) -> None:
    table = """CREATE TABLE t (a int PRIMARY KEY, n numeric, m numeric(38,10), f float8, o bool, d date,
        w timestamptz, j jsonb, r text[], i interval, y bytea, u uuid, c char(3), v varchar(4), e real)"""
    landing.declare(table)
    values = {
        "a": " 0x1F ", "n": "12345678901234567890.12345678901234567890", "m": "1234567890123456789012345678.0123456789",
        "f": "1e-300", "o": "yes", "d": "20240229", "w": "2024-02-29 12:00:00.1234567+02", "j": '{"b": 1, "a": [1.10]}',
        "r": "{a,NULL,\"b c\"}", "i": "1 day 2 hours", "y": "\\xdeadbeef", "u": "{A0EEBC99-9C0B4EF8-BB6D6BB9-BD380A11}",
        "c": "x", "v": "abc ", "e": "0.1",
    }  # fmt: skip
    landing.write("1", {"op": "insert", "table": "t", "new": values})
    landing.subscribe()
    names, literals = ", ".join(values), ", ".join(f"'{value}'" for value in values.values())
    landing.pair.sub("CREATE TABLE typed (LIKE t)", f"INSERT INTO typed ({names}) VALUES ({literals})")
    assert landing.rows() == landing.pair.sub("SELECT * FROM typed")


def test_partitions_are_sent_as_their_root_or_as_themselves(landing: Landing, way: str) -> None:
    pair = landing.pair
    pair.pub(
        "CREATE TABLE t (a int PRIMARY KEY, b text) PARTITION BY RANGE (a)",
        "CREATE TABLE low PARTITION OF t FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE high PARTITION OF t DEFAULT",
        "CREATE PUBLICATION root FOR TABLE t WITH (publish_via_partition_root)",
        "CREATE PUBLICATION leaves FOR TABLE t",
    )
    pair.sub("CREATE TABLE t (a int PRIMARY KEY, b text)")
    pair.sub("CREATE TABLE low (LIKE t INCLUDING ALL)", "CREATE TABLE high (LIKE t INCLUDING ALL)")
    landing.write(
        "1", insert(1), insert(2, table="low"), insert(20), insert(3), update({"a": "30", "b": "x"}, {"a": "3"}),
        update({"a": "1", "b": "y"}), delete({"a": "20"}),
    )  # fmt: skip
    for name in ("root", "leaves"):
        pair.sub.subscribe(name, "files=landing format=jsonl dbname=pub", name=name)
    assert pair.catch_up() == []
    assert landing.rows() == [("1", "y"), ("2", "x"), ("30", "x")]
    assert (landing.rows("low"), landing.rows("high")) == ([("1", "y"), ("2", "x")], [("30", "x")])


@pytest.mark.parametrize("seed", dose(range(3), 12))
def test_files_and_the_lake_end_the_same(
    landing: Landing, way: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a lake sends, and what test_decoding has written of it into files, makes the same rows after each batch."""
    monkeypatch.setattr(messages, "PORTION", 8)
    pair, chance = landing.pair, random.Random(seed)
    tables = (
        "CREATE TABLE t (a int PRIMARY KEY, b text, n numeric(8,2))",
        "CREATE TABLE u (b text)",
        "CREATE TABLE p (a int PRIMARY KEY, b text) PARTITION BY RANGE (a)",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (50)",
        "CREATE TABLE p2 PARTITION OF p DEFAULT",
    )
    pair.pub(*tables, "ALTER TABLE u REPLICA IDENTITY FULL")
    pair.sub(*tables)
    pair.pub("CREATE PUBLICATION p FOR TABLE t (a, b) WHERE (a % 5 <> 0), u, p WITH (publish_via_partition_root)")
    pair.pub("SELECT pg_create_logical_replication_slot('all', 'test_decoding')")
    other = Database(pair.folder, "other", new=True)
    other(*tables)
    if way != "by message":
        by_columns(other)
    pair.subscribe()
    other.subscribe("p", "files=landing format=test_decoding dbname=pub")
    for number in range(6):
        for _ in range(chance.randrange(1, 4)):
            pair.pub("BEGIN; " + "; ".join(_statements(chance)) + "; COMMIT")
        sent = pair.pub("SELECT data FROM pg_logical_slot_get_changes('all', NULL, NULL)")
        text = "".join(f"{line}\n" for (line,) in sent).encode()
        if number % 2:
            (landing.folder / f"{number}.gz").write_bytes(gzip.compress(text))
        else:
            (landing.folder / f"{number}.txt").write_bytes(text)
        assert (pair.catch_up(), other.catch_up()) == ([], [])
        for table in ("t", "u", "p"):
            query = f"SELECT * FROM {table} ORDER BY {table}"
            assert other(query) == pair.sub(query), (number, table, text.decode())
    other.leave()
    other.close()


def _statements(chance: random.Random) -> list[str]:
    key = chance.randrange(100)
    return chance.sample(
        [
            f"INSERT INTO t SELECT g, 'n', g / 8.0 FROM generate_series({key}, {key + 20}) g"
            f" WHERE NOT EXISTS (SELECT FROM t WHERE a = g)",
            f"UPDATE t SET b = b || {key} WHERE a % 7 = {key % 7}",
            f"UPDATE t SET a = a + 1000 WHERE a = {key} AND NOT EXISTS (SELECT FROM t WHERE a = {key + 1000})",
            f"DELETE FROM t WHERE a % 9 = {key % 9}",
            f"INSERT INTO u VALUES ('x'), (NULL), ('it''s {key}')",
            f"UPDATE u SET b = 'y' || {key} WHERE b = 'x'",
            "DELETE FROM u WHERE b IS NULL",
            f"INSERT INTO p VALUES ({key}, 'p') ON CONFLICT (a) DO NOTHING",
            f"UPDATE p SET a = a + 50 WHERE a = {key % 50} AND NOT EXISTS (SELECT FROM p WHERE a = {key % 50 + 50})",
            "TRUNCATE u",
            "TRUNCATE p",
        ],
        4,
    )


# --- transactions and positions -------------------------------------------------------------------------------------


def test_a_file_is_one_transaction_unless_records_say_otherwise(landing: Landing, way: str) -> None:
    """So a conflict undoes all of a file, and only one transaction of another; SKIP names its end."""
    landing.declare()
    landing.pair.sub("INSERT INTO t VALUES (3, 'mine')")
    landing.write("1", insert(1, xid=7), insert(2, xid=7), insert(3, xid=8), insert(4, xid=8), insert(5, xid=9))
    landing.subscribe()
    assert [row[0] for row in landing.rows()] == ["1", "2", "3"]
    ((_, _, context),) = landing.pair.log.errors
    assert context is not None and context.endswith("in transaction 8, finished at 1/4")
    landing.pair.sub("ALTER SUBSCRIPTION s SKIP (lsn = '1/4')")
    assert landing.pair.catch_up() == []
    assert [row[0] for row in landing.rows()] == ["1", "2", "3", "5"]
    landing.write("2", insert(6), insert(3))
    ((_, _, context),) = landing.pair.catch_up()
    assert context is not None and context.endswith("in a transaction finished at 2/2")
    assert [row[0] for row in landing.rows()] == ["1", "2", "3", "5"]
    landing.pair.sub("ALTER SUBSCRIPTION s SKIP (lsn = '2/2')")
    landing.write("3", insert(7))
    assert landing.pair.catch_up() == []
    assert [row[0] for row in landing.rows()] == ["1", "2", "3", "5", "7"]


def test_status_says_how_many_files_wait(landing: Landing) -> None:
    landing.declare()
    landing.write("1", insert(1))
    landing.subscribe()

    def behind() -> str:
        (found,) = subscription_status(landing.pair.sub.session, everywhere=False)
        return status_row(found)[-1].splitlines()[0]

    assert behind() == "0 files"
    landing.write("2", insert(2), insert(1))
    assert behind() == "1 file"
    landing.write("3", insert(3))
    assert behind() == "2 files"
    assert len(landing.pair.catch_up()) == 1
    assert behind() == "2 files"


def test_a_file_that_is_being_written_is_read_up_to_its_last_whole_transaction(landing: Landing, way: str) -> None:
    landing.declare()
    path = landing.write("1", insert(1, xid=1), insert(2, xid=2), insert(3, xid=2), end="")
    landing.subscribe()
    assert landing.rows() == [("1", "x")]
    with path.open("a") as file:
        file.write("\n" + json.dumps(insert(4, xid=3)) + '\n{"op": "ins')
    assert landing.pair.catch_up() == []
    assert [row[0] for row in landing.rows()] == ["1", "2", "3"]
    with path.open("a") as file:
        file.write(json.dumps(insert(5, xid=3)).removeprefix('{"op": "ins') + "\n")
    assert landing.pair.catch_up() == []
    assert [row[0] for row in landing.rows()] == ["1", "2", "3", "4", "5"]


def test_a_transaction_with_marks_may_go_on_in_the_next_file(landing: Landing, way: str) -> None:
    landing.declare()
    landing.write("1", {"op": "begin", "xid": 1}, insert(1, xid=1))
    landing.subscribe()
    assert landing.rows() == []
    landing.write("2", insert(2, xid=1), {"op": "commit", "xid": 1})
    assert landing.pair.catch_up() == []
    assert landing.rows() == [("1", "x"), ("2", "x")]


def test_a_file_that_changes_or_disappears_or_comes_too_late_is_named(landing: Landing) -> None:
    landing.declare()
    paths = [landing.write(f"{n}.json", insert(n)) for n in (1, 3, 5)]
    landing.subscribe()
    assert len(landing.rows()) == 3
    content = paths[1].read_text()
    paths[1].write_text(content.replace('"x"', '"y"'))
    os.utime(paths[1], ns=(1, 1))
    assert 'file "3.json" has changed after it was read' in landing.error()
    paths[1].write_text(content)
    assert landing.pair.catch_up() == []  # another time, but the same bytes
    paths[0].rename(landing.folder / "_1.json")
    assert 'file "1.json" has disappeared after it was read' in landing.error()
    shown = status_text(subscription_status(landing.pair.sub.session, everywhere=False))
    assert shown.count("disappeared") == 1
    (landing.folder / "_1.json").rename(paths[0])
    late = landing.write("2.json", insert(2))
    assert 'file "2.json" has come too late' in landing.error()
    late.rename(landing.folder / "6.json")
    assert landing.pair.catch_up() == []
    assert len(landing.rows()) == 4
    paths[0].unlink()
    landing.pair.sub("ALTER SUBSCRIPTION s CONNECTION 'files=landing format=jsonl dbname=pub removed=allow'")
    landing.write("7.json", insert(7))
    assert landing.pair.catch_up() == []
    assert len(landing.rows()) == 5


def test_the_full_load_of_dms_comes_before_its_changes(landing: Landing) -> None:
    """Names of changes begin with digits, and sort before LOAD."""
    landing.declare()
    landing.folder.joinpath("LOAD00000001.csv").write_text("1,old\n2,old\n")
    landing.folder.joinpath("LOAD00000002.csv").write_text("3,old\n")
    folder = landing.folder / "2021"  # DatePartitionEnabled
    folder.mkdir()
    folder.joinpath("20210101-000000001.csv").write_text("U,1,new\nD,2,\n")
    landing.pair.sub.subscribe("p", "files=landing format=dms table=t dbname=pub")
    assert landing.pair.catch_up() == []
    assert landing.rows() == [("1", "new"), ("3", "old")]
    folder.joinpath("20210102-000000001.csv").write_text("U,3,new\n")
    assert landing.pair.catch_up() == []
    assert landing.rows() == [("1", "new"), ("3", "new")]
    landing.folder.joinpath("LOAD00000003.csv").write_text("4,old\n")
    assert 'file "LOAD00000003.csv" has come too late' in landing.error()


def test_of_many_files_the_older_ones_are_remembered_together(
    landing: Landing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "MOST", 3)
    landing.declare()
    for n in range(10, 20):
        landing.write(f"{n}.json", insert(n))
    landing.subscribe()
    landing.write("20.json", insert(20))
    assert landing.pair.catch_up() == []
    assert len(landing.rows()) == 11
    landing.write("11.json", insert(111))
    assert landing.error() != ""
    landing.write("11.json", insert(11))
    assert landing.pair.catch_up() == []
    landing.write("105.json", insert(105))
    assert "are not what they were when they were read" in landing.error()
    landing.pair.sub("ALTER SUBSCRIPTION s SET (slot_name = 's')")  # the files are accepted as they are
    landing.write("21.json", insert(21))
    assert landing.pair.catch_up() == []
    assert len(landing.rows()) == 12


# --- records that cannot be read ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("record", "reason"),
    dose(
        [
            (insert("one"), 'column "a": invalid input syntax for type integer: "one"'),
            (insert(1, table="nosuch"), 'relation "public.nosuch" does not exist in database "pub"'),
            (insert(2, c="3") | {"new": {"a": "2", "d": "3"}}, 'column "d" of relation "public.t" does not exist'),
            (delete({"b": "x"}), 'column "a" of the replica identity is missing'),
            (update({"b": "x"}), 'column "a" of the replica identity is missing'),
            ({"op": "upsert", "table": "t", "new": {}}, 'it has no "op"'),
            (insert(3, "\0"), 'column "b": invalid byte sequence for encoding "UTF8": 0x00'),
            (insert(3, "\ud800"), "invalid JSON: Unicode low surrogate must follow a high surrogate"),
        ],
        3,
    ),
)
def test_a_record_that_cannot_be_read_stops_or_goes_to_the_rejects(
    landing: Landing, way: str, record: dict[str, Any], reason: str
) -> None:
    landing.declare()
    landing.write("1", insert(8, xid=1), insert(9, xid=2), record | {"xid": 2}, insert(10, xid=3))
    landing.subscribe()
    assert landing.rows() == [("8", "x")]
    place = f"{landing.folder / '1'}, record 3"
    assert landing.error().startswith(
        f"could not receive data from files of changes: ERROR:  could not read {place}: {reason}"
    )
    connection = f"files=landing format=jsonl dbname=pub on_error={landing.rejects}"
    landing.pair.sub(f"ALTER SUBSCRIPTION s CONNECTION '{connection}'")
    assert landing.pair.catch_up() == []
    assert [row[0] for row in landing.rows()] == ["8", "9", "10"]
    (line,) = landing.rejects.read_text().splitlines()
    told = json.loads(line)
    assert (told["file"], told["record"]) == (str(landing.folder / "1"), 3)
    assert reason in told["reason"]
    assert landing.pair.sub("SELECT subname, files, last_file, rejected FROM pgrepl_stat_subscription_files") == [
        ("s", "1", "1", "1")
    ]


def test_undeclared_columns_may_be_ignored(landing: Landing, way: str) -> None:
    landing.declare()
    landing.write("1", {"op": "insert", "table": "t", "new": {"a": "1", "b": "x", "more": "y"}})
    landing.subscribe("undeclared_columns=ignore")
    assert (landing.pair.log.errors, landing.rows()) == ([], [("1", "x")])


# --- statements -----------------------------------------------------------------------------------------------------


def test_there_is_no_slot_and_no_copy(landing: Landing) -> None:
    pair = landing.pair
    landing.declare()
    pair.pub("INSERT INTO t VALUES (100, 'not copied')")
    pair.sub.notices.clear()
    landing.subscribe()
    assert pair.sub.notices == []
    assert pair.sub("SELECT srsubstate FROM pg_subscription_rel") == [("r",)]
    assert pair.pub("SELECT count(*) FROM pg_replication_slots") == [("0",)]
    pair.both("CREATE TABLE u (a int PRIMARY KEY, b text)")
    pair.pub("ALTER PUBLICATION p ADD TABLE u")
    pair.sub("ALTER SUBSCRIPTION s REFRESH PUBLICATION")
    landing.write("1", insert(1, table="u"))
    assert pair.catch_up() == []
    assert landing.rows("u") == [("1", "x")]
    pair.sub("ALTER SUBSCRIPTION s DISABLE")
    landing.write("2", insert(2, table="u"))
    assert (pair.catch_up(), len(landing.rows("u"))) == ([], 1)
    pair.sub("ALTER SUBSCRIPTION s ENABLE")
    assert (pair.catch_up(), len(landing.rows("u"))) == ([], 2)
    for path in landing.folder.iterdir():
        path.unlink()
    pair.sub.leave()
    pair.sub("DROP SUBSCRIPTION s")
    assert pair.sub("SELECT count(*) FROM pgrepl_stat_subscription_files") == [("0",)]


def test_a_connection_string_that_is_wrong_is_refused_by_the_statement(landing: Landing) -> None:
    landing.declare()

    def says(connection: str) -> str:
        return landing.pair.sub.says(f"CREATE SUBSCRIPTION s CONNECTION '{connection}' PUBLICATION p")

    assert 'connection option "format" is missing' in says("files=landing dbname=pub")
    assert 'unrecognized format "xml"' in says("files=landing format=xml dbname=pub")
    assert 'could not open file "' in says("files=nowhere format=jsonl dbname=pub")
    assert "names no host" in says("files=landing format=jsonl dbname=pub host=example.com")
    assert 'database "nosuch" does not exist' in says("files=landing format=jsonl dbname=nosuch")
    assert 'invalid connection option "format"' in says("format=jsonl dbname=pub")
    assert 'invalid value for connection option "removed"' in says("files=landing format=jsonl dbname=pub removed=yes")


def test_options_that_are_wrong_are_refused_where_nobody_connects(landing: Landing) -> None:
    """connect = false and ALTER SUBSCRIPTION … CONNECTION look neither for the files nor for the database."""
    landing.declare()
    sub = landing.pair.sub
    create = "CREATE SUBSCRIPTION {} CONNECTION '{}' PUBLICATION p WITH (connect = false{})"
    sub(create.format("there", "files=nowhere format=jsonl dbname=nosuch", ""))
    for options, told in {
        "files=landing": 'connection option "format" is missing',
        "format=jsonl files=": 'invalid value for connection option "files": ""',
        "files=landing format=xml": 'unrecognized format "xml"',
        "files=landing format=debezium nosuch=1": 'format "debezium" has no option "nosuch"',
        "files=landing format=csv delimiter=ab": 'option "delimiter" must be a single one-byte character',
        "files=landing format=jsonl removed=yes": 'invalid value for connection option "removed": "yes"',
        "files=landing format=jsonl table=": 'invalid value for connection option "table": ""',
        "files=landing format=jsonl host=example.com": "the connection string names no host",
        "files=landing format=jsonl port=5433": "the connection string names no host",
        "files=landing format=jsonl host=a,b port=1,2,3": "could not match 3 port numbers to 2 hosts",
        "files=landing format=jsonl on_error=": 'invalid value for connection option "on_error": ""',
        "files=landing format=jsonl on_error=s3://bucket/rejects": 'rejected records cannot be written to "s3://bucket',
        "files=landing format=jsonl on_error=landing/a/rejects": "files of changes are read there",
        "files=landing/*.json format=jsonl on_error=./landing/rejects.json": "files of changes are read there",
    }.items():
        assert told in sub.says(create.format("s", f"dbname=pub {options}", "")), options
        assert told in sub.says(f"ALTER SUBSCRIPTION there CONNECTION 'dbname=pub {options}'"), options
    for on_error in ("landing/_rejects", "rejects", "landing/rejects.txt"):
        sub(f"ALTER SUBSCRIPTION there CONNECTION 'files=landing/*.json format=jsonl on_error={on_error}'")
    for option in ("two_phase", "failover"):
        refused = f"{option} is not supported for files of changes"
        assert refused in sub.says(create.format("s", "files=landing format=jsonl dbname=pub", f", {option}"))
        sub(create.format(f"with_{option}", "dbname=pub", f", {option}"))
        files = "files=landing format=jsonl dbname=pub"
        assert refused in sub.says(f"ALTER SUBSCRIPTION with_{option} CONNECTION '{files}'")


def test_only_roles_that_may_read_files_subscribe_to_them(landing: Landing) -> None:
    landing.declare()
    pair = landing.pair
    pair.sub("CREATE ROLE joe LOGIN REPLICATION PASSWORD 'x'", "GRANT pg_create_subscription TO joe")
    pair.sub("GRANT CREATE ON DATABASE sub TO joe", "SET SESSION AUTHORIZATION joe")
    create = (
        "CREATE SUBSCRIPTION s CONNECTION 'files=landing format=jsonl dbname=pub user=joe password=x' PUBLICATION p"
        " WITH (connect = false)"
    )
    assert pair.sub.says(create).startswith("permission denied to read files of changes")
    pair.sub(
        "RESET SESSION AUTHORIZATION", "GRANT pg_read_server_files TO joe", "SET SESSION AUTHORIZATION joe", create
    )


# --- batches that are given -----------------------------------------------------------------------------------------


def test_a_batch_that_was_interrupted_goes_on_when_it_is_given_again(landing: Landing) -> None:
    """And another one in its place is refused; once it is through, the next one is taken."""
    landing.declare()
    landing.subscribe(files="-")
    sub = landing.pair.sub
    sub("INSERT INTO t VALUES (3, 'mine')")
    one = landing.write("one", insert(1, xid=1), insert(3, xid=2), insert(4, xid=3))
    other = landing.write("other", insert(5, xid=1))
    assert "duplicate key" in str(_applied(sub, one))
    assert "is not the batch that was interrupted" in str(_applied(sub, other))
    sub("DELETE FROM t WHERE a = 3")
    assert _applied(sub, one) is None
    assert [row[0] for row in landing.rows()] == ["1", "3", "4"]
    assert _applied(sub, other) is None
    assert [row[0] for row in landing.rows()] == ["1", "3", "4", "5"]
    cut = landing.write("cut", {"op": "begin", "xid": 1}, insert(6, xid=1))
    assert "ends within a transaction" in str(_applied(sub, cut))


def _applied(sub: Database, batch: Path) -> PgError | None:
    """`pgrepl apply s --from`: its error."""
    given = GivenBatch(str(batch))
    launcher = Launcher(sub.session, ServerLog(None), names=["s"], given=given)
    try:
        (found,) = launcher.subscriptions()
        return launcher.worker(found).round().error
    finally:
        launcher.close()
        given.close()


def test_a_column_says_the_order_of_records(landing: Landing, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are."""
    monkeypatch.setattr("pgrepl.replication.publisher.files.cursor.PORTION", 3)
    landing.declare()
    records = [{"a": 1, "b": f"b{n}", "what": "update" if n else "insert", "n": n} for n in range(10)]
    random.Random(1).shuffle(records)
    (landing.folder / "1").write_text("".join(json.dumps(record) + "\n" for record in records))
    landing.pair.sub.subscribe("p", "files=landing format=jsonl dbname=pub op=what order=n table=t")
    assert landing.pair.catch_up() == []
    assert landing.rows() == [("1", "b9")]


# --- where files are ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("location", "names"),
    [
        ("", ["2024/01/a.json", "2024/02/b.json", "b.json", "c.txt"]),
        ("*.json", ["b.json"]),
        ("**/*.json", ["2024/01/a.json", "2024/02/b.json", "b.json"]),
        ("2024/*/a.json", ["2024/01/a.json"]),
        ("[!b]*.txt", ["c.txt"]),
        ("b.json", ["b.json"]),
        ("_hidden", ["x.json"]),
        ("none*", []),
    ],
)
def test_a_location_is_a_folder_a_file_or_a_pattern(tmp_path: Path, location: str, names: list[str]) -> None:
    for name in ("b.json", "2024/02/b.json", "2024/01/a.json", "_hidden/x.json", ".part", "c.txt", "2024/_tmp"):
        path = tmp_path / "files" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    found = listed(str(tmp_path / "files" / location))
    assert [each.name if location != "2024/*/a.json" else f"2024/{each.name}" for each in found] == names


def test_columns_of_the_declaring_database_are_followed(landing: Landing, way: str) -> None:
    landing.declare()
    landing.write("1.json", *[insert(n) for n in range(20)])
    landing.subscribe(parameters="WITH (schema_changes = tables)")
    landing.pair.pub("ALTER TABLE t RENAME COLUMN b TO c; ALTER TABLE t ADD COLUMN d int")
    landing.pair.pub("CREATE TABLE u (a int PRIMARY KEY, b text); ALTER PUBLICATION p ADD TABLE u")
    landing.write(
        "2.json", {"op": "insert", "table": "t", "new": {"a": "99", "c": "y", "d": "7"}}, insert(1, table="u")
    )
    assert landing.pair.catch_up() == []
    assert landing.pair.sub("SELECT c, d FROM t WHERE a > 18 ORDER BY a") == [("x", None), ("y", "7")]
    assert landing.rows("u") == [("1", "x")]


def test_columns_of_domains_are_decoded_as_their_base_types(landing: Landing, way: str) -> None:
    for domain in ("price AS numeric(10,2)", "day AS date", "cost AS price"):
        landing.pair.both(f"CREATE DOMAIN {domain}")
    landing.declare("CREATE TABLE t (a int PRIMARY KEY, b price, c day, d cost)")
    after = {"a": 1, "b": "BNI=", "c": 19782, "d": {"scale": 1, "value": "Dw=="}}
    event = {"op": "c", "before": None, "after": after, "source": {"schema": "public", "table": "t"}}
    landing.write("1", event)
    landing.pair.sub.subscribe("p", "files=landing format=debezium dbname=pub")
    assert landing.pair.catch_up() == []
    assert landing.rows() == [("1", "12.34", "2024-02-29", "1.50")]


def test_a_table_that_waits_for_a_copy_stops_a_subscription_that_is_altered_to_files(landing: Landing) -> None:
    landing.declare()
    sub = landing.pair.sub
    sub.subscribe("p", "dbname=pub", "WITH (enabled = false)")
    sub("ALTER SUBSCRIPTION s SET (slot_name = NONE)")
    sub("ALTER SUBSCRIPTION s CONNECTION 'files=landing format=jsonl dbname=pub'")
    sub("ALTER SUBSCRIPTION s SET (slot_name = 's')")
    sub("ALTER SUBSCRIPTION s ENABLE")
    assert landing.error() == (
        'could not start initial contents copy for table "public.t": '
        'ERROR:  files of changes have no copy of table "public.t"'
    )


def test_files_have_no_slot_to_fail_over(landing: Landing) -> None:
    landing.declare()
    landing.subscribe(parameters="WITH (enabled = false)")
    with pytest.raises(PgError, match="failover is not supported for files of changes"):
        landing.pair.sub("ALTER SUBSCRIPTION s SET (failover = true)")
    landing.pair.sub("ALTER SUBSCRIPTION s SET (failover = false)")
