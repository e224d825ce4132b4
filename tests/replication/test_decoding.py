"""Changes that slots give away, as text and as messages of the protocol."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pgrepl.backend import open_session
from pgrepl.replication.wire.messages import Message, TruncateMessage
from pgrepl.replication.wire.pgoutput_read import Relations, transactions
from pgrepl.statements.run import run
from tests.harness.played import Instance
from tests.postgres.play import play_pgrepl

HERE = Path(__file__).parent
OPTIONS = "'include-xids', '0', 'skip-empty-xacts', '1'"


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[Instance]:
    made = Instance(tmp_path)
    yield made
    made.catalog.close()


def test_slots_print_what_postgresql_17_printed(tmp_path: Path) -> None:
    printed = play_pgrepl((HERE / "decoding.sql").read_text("utf-8"), tmp_path)
    assert printed.splitlines() == (HERE / "decoding.out").read_text("utf-8").splitlines()


def test_changes_are_got_once_and_peeked_often(instance: Instance) -> None:
    instance.play(
        "pub", "CREATE TABLE t (a int)", "SELECT pg_create_logical_replication_slot('s', 'test_decoding')",
        "INSERT INTO t VALUES (1)",
    )  # fmt: skip
    seen = ["BEGIN", "table public.t: INSERT: a[integer]:1", "COMMIT"]
    peek, get = (f"SELECT data FROM pg_logical_slot_{f}_changes('s', NULL, NULL, {OPTIONS})" for f in ("peek", "get"))
    assert instance.play("pub", peek, peek, get, get) == [*seen, *seen, *seen]


def test_changes_end_with_the_transaction_that_reaches_the_lsn(instance: Instance) -> None:
    instance.play("pub", "CREATE TABLE t (a int)", "SELECT pg_create_logical_replication_slot('s', 'test_decoding')")
    (first,) = instance.play("pub", "INSERT INTO t VALUES (1)", "SELECT pg_current_wal_lsn()")[1:]
    instance.play("pub", "INSERT INTO t VALUES (2)")
    get = "SELECT data FROM pg_logical_slot_get_changes('s', {}, NULL, 'skip-empty-xacts', '1', 'include-xids', '0')"
    assert instance.play("pub", get.format(f"'{first}'")) == ["BEGIN", "table public.t: INSERT: a[integer]:1", "COMMIT"]
    assert instance.play("pub", "SELECT confirmed_flush_lsn FROM pg_replication_slots") == [first]
    assert instance.play("pub", get.format("NULL")) == ["BEGIN", "table public.t: INSERT: a[integer]:2", "COMMIT"]


def test_a_slot_of_another_database_gives_nothing(instance: Instance) -> None:
    instance.play("pub", "SELECT pg_create_logical_replication_slot('s', 'test_decoding')")
    assert instance.play("sub", "SELECT * FROM pg_logical_slot_peek_changes('s', NULL, NULL)") == [
        'ERROR:  replication slot "s" was not created in this database'
    ]


def test_changes_of_other_databases_and_uncommitted_ones_are_not_seen(instance: Instance) -> None:
    instance.play("pub", "CREATE TABLE t (a int)", "SELECT pg_create_logical_replication_slot('s', 'test_decoding')")
    instance.play("sub", "CREATE TABLE t (a int)", "INSERT INTO t VALUES (1)")
    peek = f"SELECT data FROM pg_logical_slot_peek_changes('s', NULL, NULL, {OPTIONS})"
    assert instance.play("pub", "BEGIN", "INSERT INTO t VALUES (2)", peek, "ROLLBACK", peek) == [
        "BEGIN",
        "INSERT 0 1",
        "ROLLBACK",
    ]


def test_xids_timestamps_and_lsns(instance: Instance) -> None:
    instance.play("pub", "CREATE TABLE t (a int)", "SELECT pg_create_logical_replication_slot('s', 'test_decoding')")
    instance.play("pub", "BEGIN", "INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (2)", "COMMIT")
    first, one, two, last = instance.play(
        "pub", "SELECT lsn, xid, data FROM pg_logical_slot_peek_changes('s', NULL, NULL, 'include-timestamp', 'on')"
    )
    (xid,) = {line.split("|")[1] for line in (first, one, two, last)}
    lsns = [line.split("|")[0] for line in (first, one, two, last)]
    assert first.endswith(f"|BEGIN {xid}") and f"|COMMIT {xid} (at 20" in last
    assert lsns[0] == lsns[1] < lsns[2] < lsns[3]


def test_a_temporary_slot_goes_with_its_session_and_with_an_error(instance: Instance) -> None:
    make = "SELECT slot_name FROM pg_create_logical_replication_slot('tmp', 'test_decoding', true)"
    there = "SELECT temporary, active, active_pid = pg_backend_pid() FROM pg_replication_slots"
    session = open_session(instance.catalog, "pub")
    (made,) = run(session, make)
    assert made.rows == [("tmp",)]
    assert instance.play("pub", there) == ["t|t|t"]
    session.close()
    assert instance.play("pub", there, make, there) == ["tmp", "t|t|t"]
    assert instance.play("pub", "SELECT 1/0", there) == ["ERROR:  division by zero"]


def test_messages_of_the_protocol_are_read_by_the_subscribers_decoder(instance: Instance) -> None:
    instance.play(
        "pub", "CREATE TABLE t (a int PRIMARY KEY, b text)", "CREATE TABLE u (a int PRIMARY KEY)",
        "CREATE PUBLICATION p FOR TABLE t WHERE (a > 1), u",
        "SELECT pg_create_logical_replication_slot('s', 'pgoutput')",
        "BEGIN", "INSERT INTO t VALUES (1, 'x'), (2, NULL)", "UPDATE t SET a = 3 WHERE a = 2", "DELETE FROM t",
        "TRUNCATE t, u RESTART IDENTITY", "COMMIT",
    )  # fmt: skip
    got = instance.play(
        "pub",
        "SELECT encode(data, 'hex') FROM pg_logical_slot_get_binary_changes('s', NULL, NULL, 'proto_version', '1', "
        "'publication_names', 'p')",
    )
    messages = [bytes.fromhex(line) for line in got]
    assert b"".join(message[:1] for message in messages) == b"BRIUDRRTC"
    (transaction,) = transactions(messages, Relations())
    inserted, updated, deleted, truncated = transaction.messages
    assert isinstance(inserted, Message) and isinstance(updated, Message) and isinstance(deleted, Message)
    assert (inserted.operation, inserted.relation.qualified_name, inserted.new) == ("insert", "public.t", ("2", None))
    assert [(c.name, c.is_key) for c in inserted.relation.columns] == [("a", True), ("b", False)]
    assert (updated.operation, updated.old, updated.new) == ("update", ("2", None), ("3", None))
    assert (deleted.operation, deleted.old) == ("delete", ("3", None))
    assert isinstance(truncated, TruncateMessage) and truncated.restart_identity and not truncated.cascade
    assert [relation.name for relation in truncated.relations] == ["t", "u"]


def test_logical_messages_print_what_postgresql_17_printed(tmp_path: Path) -> None:
    printed = play_pgrepl((HERE / "emit_message.sql").read_text("utf-8"), tmp_path)
    assert printed.splitlines() == (HERE / "emit_message.out").read_text("utf-8").splitlines()


def test_messages_of_other_databases_are_not_seen(instance: Instance) -> None:
    instance.play("pub", "SELECT pg_create_logical_replication_slot('s', 'test_decoding')")
    for transactional in ("true", "false"):
        instance.play("sub", f"SELECT pg_logical_emit_message({transactional}, 'a', 'b')")
    peek = f"SELECT data FROM pg_logical_slot_peek_changes('s', NULL, NULL, {OPTIONS})"
    assert instance.play("pub", peek, peek.replace(", 'skip-empty-xacts', '1'", "")) == []


def test_a_message_of_a_session_with_an_origin_is_not_local(instance: Instance) -> None:
    """Also one that is sent at once, outside of a transaction."""
    instance.play(
        "pub", "SELECT pg_create_logical_replication_slot('s', 'test_decoding')",
        "SELECT pg_replication_origin_create('there')", "SELECT pg_replication_origin_session_setup('there')",
        "SELECT pg_logical_emit_message(false, 'p', 'from there')", "SELECT pg_replication_origin_session_reset()",
        "SELECT pg_logical_emit_message(false, 'p', 'from here')",
    )  # fmt: skip
    look = "SELECT count(*) FROM pg_logical_slot_peek_changes('s', NULL, NULL, 'only-local', '{}') WHERE data ~ '^mess'"
    assert instance.play("pub", look.format("0"), look.format("1")) == ["2", "1"]


@pytest.mark.parametrize(
    ("version", "streaming", "need"),
    [("1", "on", "streaming, need 2"), ("3", "parallel", "parallel streaming, need 4"), ("1", "off", None)],
)
def test_streaming_needs_its_version(instance: Instance, version: str, streaming: str, need: str | None) -> None:
    instance.play("pub", "SELECT pg_create_logical_replication_slot('s', 'pgoutput')", "CREATE PUBLICATION p")
    options = f"'publication_names', 'p', 'proto_version', '{version}', 'streaming', '{streaming}'"
    (said,) = instance.play("pub", f"SELECT data FROM pg_logical_slot_peek_binary_changes('s', NULL, NULL, {options})")[
        :1
    ] or [""]
    assert said == (f"ERROR:  requested proto_version={version} does not support {need} or higher" if need else "")


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("-1", 'proto_version "-1" out of range'),
        ("4294967296", 'proto_version "4294967296" out of range'),
        ("99999999999999999999", "invalid proto_version"),
        ("1 ", "invalid proto_version"),
        (" ", "invalid proto_version"),
        ("", "client sent proto_version=0 but server only supports protocol 1 or higher"),
        (" +5", "client sent proto_version=5 but server only supports protocol 4 or lower"),
    ],
)
def test_the_version_is_read_as_strtoul_does(instance: Instance, version: str, said: str) -> None:
    instance.play("pub", "SELECT pg_create_logical_replication_slot('s', 'pgoutput')")
    options = f"'publication_names', 'p', 'proto_version', '{version}'"
    answer = instance.play("pub", f"SELECT data FROM pg_logical_slot_peek_binary_changes('s', NULL, NULL, {options})")
    assert answer[0] == f"ERROR:  {said}"
