"""Conflicts: their counts in both ways of applying, what is kept of them, and what becomes of rejected changes."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from pgrepl.ground.errors import PgError
from pgrepl.replication.wire import message_files
from tests.harness.database import Database, by_columns, by_message
from tests.harness.dose import dose
from tests.harness.pair import Pair
from tests.harness.trio import Trio

T = "CREATE TABLE t (a int PRIMARY KEY, b text, c int UNIQUE)"
KEPT = "WITH (conflict_log = on)"
COUNTS = (
    "SELECT confl_insert_exists, confl_update_origin_differs, confl_update_exists, confl_update_missing,"
    " confl_delete_origin_differs, confl_delete_missing, confl_multiple_unique_conflicts"
    " FROM pgrepl_stat_subscription_conflicts"
)
ROWS = "SELECT conflict_type, state, key, local_row, remote_row FROM pgrepl_conflicts ORDER BY id"


def ready(pair: Pair, options: str = KEPT, table: str = T) -> None:
    pair.both(table)
    pair.pub("CREATE PUBLICATION p FOR TABLE t")
    pair.subscribe(options=options)


def logged(pair: Pair) -> list[tuple[str, str | None]]:
    return [(r.message, r.detail) for r in pair.log.reports if "conflict" in r.message]


@pytest.fixture(params=["by message", "by columns", "in parts"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[Database], None]:
    """How changes are applied; a part has three messages."""
    if request.param == "in parts":
        monkeypatch.setattr(message_files, "MESSAGE_BYTES", (64 << 20) // 3 - 500)
    return by_message if request.param == "by message" else by_columns


def test_rows_that_are_missing_or_of_others_are_counted_logged_and_kept(
    pair: Pair, way: Callable[[Database], None]
) -> None:
    ready(pair)
    way(pair.sub)
    pair.pub("INSERT INTO t SELECT g, 'v' || g, g FROM generate_series(1, 6) g")
    assert pair.catch_up() == []
    pair.sub("DELETE FROM t WHERE a IN (1, 2)")
    pair.sub("UPDATE t SET b = 'mine' WHERE a IN (3, 4)")
    pair.pub(
        "BEGIN; UPDATE t SET b = 'x' WHERE a = 1; DELETE FROM t WHERE a = 2; UPDATE t SET b = 'y' WHERE a = 3; COMMIT"
    )
    pair.pub("DELETE FROM t WHERE a = 4; UPDATE t SET b = 'z' WHERE a IN (3, 5)")
    pair.pub("UPDATE t SET a = 100 WHERE a = 1")
    assert pair.catch_up() == []
    assert pair.sub("SELECT a, b FROM t ORDER BY a") == [("3", "z"), ("5", "z"), ("6", "v6")]
    assert pair.sub(COUNTS) == [("0", "1", "0", "2", "1", "1", "0")]
    assert pair.sub(ROWS) == [
        ("update_missing", "noted", '{"a": 1}', None, '{"a": 1, "b": "x", "c": 1}'),
        ("delete_missing", "noted", '{"a": 2}', None, None),
        ("update_origin_differs", "noted", '{"a": 3}', '{"a": 3, "b": "mine", "c": 3}', '{"a": 3, "b": "y", "c": 3}'),
        ("delete_origin_differs", "noted", '{"a": 4}', '{"a": 4, "b": "mine", "c": 4}', None),
        ("update_missing", "noted", '{"a": 1}', None, '{"a": 100, "b": "x", "c": 1}'),
    ]
    said = logged(pair)
    assert [message for message, _ in said] == [
        f'conflict detected on relation "public.t": conflict={kind}' for (kind, *_) in pair.sub(ROWS)
    ]
    assert said[0][1] == ("Could not find the row to be updated.\nRemote row (1, x, 1); replica identity (a)=(1).")
    assert pair.sub.ways()["apply"] == (2 if way is by_columns else 0)


def test_a_rejected_row_is_discarded_while_the_rest_of_its_transaction_is_applied(pair: Pair) -> None:
    ready(pair)
    pair.sub("INSERT INTO t VALUES (2, 'local', 20), (3, 'local', 30)")
    pair.pub(
        "BEGIN; INSERT INTO t VALUES (1, 'x', 1); INSERT INTO t VALUES (2, 'z', 2);"
        " INSERT INTO t VALUES (4, 'y', 30); COMMIT"
    )
    for _ in range(2):  # it is met at each attempt, and kept once
        assert len(pair.catch_up()) == 1
    assert pair.sub(ROWS) == [
        ("insert_exists", "stopped", '{"a": 2}', '{"a": 2, "b": "local", "c": 20}', '{"a": 2, "b": "z", "c": 2}')
    ]
    assert pair.sub(COUNTS) == [("2", "0", "0", "0", "0", "0", "0")]
    (said,) = logged(pair)
    assert said[0] == 'conflict detected on relation "public.t": conflict=insert_exists'
    assert command(pair, "discard", "1") == (1, "discarded 1 conflict\n")
    assert [row[:2] for row in pair.sub(ROWS)] == [("insert_exists", "discarding"), ("insert_exists", "stopped")]
    code, said_of_it = command(pair, "retry", "2", "--set", "c=31")
    assert code == 0 and "1 transaction with 2 changes applied" in said_of_it
    assert pair.sub("SELECT * FROM t ORDER BY a") == [
        ("1", "x", "1"), ("2", "local", "20"), ("3", "local", "30"), ("4", "y", "31"),
    ]  # fmt: skip
    assert [row[:2] for row in pair.sub(ROWS)] == [("insert_exists", "discarded"), ("insert_exists", "retried")]
    assert command(pair, "retry", "2")[0] == 1


def test_a_row_that_several_others_keep_out_is_one_conflict(pair: Pair) -> None:
    ready(pair)
    pair.pub("INSERT INTO t VALUES (5, 'five', 5)")
    assert pair.catch_up() == []
    pair.sub("INSERT INTO t VALUES (1, 'a', 10), (2, 'b', 20)")
    pair.pub("INSERT INTO t VALUES (1, 'x', 20)")
    assert len(pair.catch_up()) == 1
    pair.sub("DELETE FROM t WHERE a IN (1, 2); INSERT INTO t VALUES (7, 'a', 70)")
    pair.pub("UPDATE t SET c = 70 WHERE a = 5")
    assert len(pair.catch_up()) == 1
    assert [row[:2] for row in pair.sub(ROWS)] == [
        ("multiple_unique_conflicts", "applied"),
        ("update_exists", "stopped"),
    ]
    assert pair.sub(COUNTS) == [("0", "0", "1", "0", "0", "0", "1")]
    pair.sub("DELETE FROM t WHERE a = 7")
    assert pair.catch_up() == []
    assert [row[1] for row in pair.sub(ROWS)] == ["applied", "applied"]


def test_changes_of_a_skipped_transaction_are_played_again(pair: Pair) -> None:
    ready(pair)
    pair.pub("INSERT INTO t VALUES (1, 'one', 1), (2, 'two', 2)")
    assert pair.catch_up() == []
    pair.sub("INSERT INTO t VALUES (3, 'local', 3)")
    pair.pub(
        "BEGIN; UPDATE t SET b = 'uno' WHERE a = 1; DELETE FROM t WHERE a = 2;"
        " INSERT INTO t VALUES (3, 'tre', 30); COMMIT"
    )
    ((_, _, context),) = pair.catch_up()
    pair.sub(f"ALTER SUBSCRIPTION s SKIP (lsn = '{(context or '').rpartition(' ')[2]}')")
    assert pair.catch_up() == []
    assert pair.sub(ROWS) == [
        ("skipped", "skipped", '{"a": 1}', None, '{"a": 1, "b": "uno", "c": 1}'),
        ("skipped", "skipped", '{"a": 2}', None, None),
        ("skipped", "skipped", None, None, '{"a": 3, "b": "tre", "c": 30}'),
    ]
    assert pair.sub("SELECT b FROM t ORDER BY a") == [("one",), ("two",), ("local",)]
    first = int(pair.sub("SELECT min(id) FROM pgrepl_conflicts")[0][0] or 0)
    one, two, three = (str(first + n) for n in range(3))
    assert command(pair, "retry", one, two, three)[0] == 1  # 3 is still there
    assert pair.sub("SELECT b FROM t ORDER BY a") == [("uno",), ("local",)]
    assert command(pair, "retry", three, "--set", "a=4", "--set-null", "b") == (0, f"conflict {three}: applied\n")
    assert pair.sub("SELECT a, b FROM t ORDER BY a") == [("1", "uno"), ("3", "local"), ("4", None)]
    assert [row[1] for row in pair.sub(ROWS)] == ["retried"] * 3
    assert command(pair, "list") == (0, "no conflicts\n")


@pytest.mark.parametrize(
    "way", ["by message", "by columns", pytest.param("in parts", marks=pytest.mark.slow)], indirect=True
)
def test_a_batch_of_many_conflicts_keeps_the_first_and_counts_all(pair: Pair, way: Callable[[Database], None]) -> None:
    ready(pair)
    way(pair.sub)
    pair.pub("INSERT INTO t SELECT g, 'v' || g, g FROM generate_series(1, 1500) g")
    assert pair.catch_up() == []
    pair.sub("DELETE FROM t WHERE a <= 1400")
    pair.pub("DELETE FROM t WHERE a <= 1450")
    assert pair.catch_up() == []
    assert pair.sub(COUNTS) == [("0", "0", "0", "0", "0", "1400", "0")]
    assert pair.sub("SELECT count(*), max(key ->> 'a') FROM pgrepl_conflicts") == [("1000", "999")]
    assert "400 more conflicts are counted, but neither logged nor kept" in pair.log.messages("LOG")


def test_the_parameter_is_shown_where_it_is_used(pair: Pair) -> None:
    ready(pair, options="")
    assert "conflict" not in dumped(pair)
    pair.sub("ALTER SUBSCRIPTION s SET (conflict_log = on)")
    assert "conflict_log = true" in dumped(pair)
    pair.pub("DELETE FROM t; INSERT INTO t VALUES (1, 'x', 1)")
    assert pair.catch_up() == []
    pair.sub("DELETE FROM t; ALTER SUBSCRIPTION s SET (conflict_log = off)")
    pair.pub("UPDATE t SET b = 'y'")
    assert pair.catch_up() == []
    assert pair.sub(COUNTS) == [("0", "0", "0", "1", "0", "0", "0")]  # which is counted in any case
    assert pair.sub(ROWS) == []
    with pytest.raises(PgError, match="conflict_log requires a Boolean value"):
        pair.sub("ALTER SUBSCRIPTION s SET (conflict_log = maybe)")


def dumped(pair: Pair) -> str:
    from pgrepl.catalog.facts.subscription import subscription_facts
    from pgrepl.catalog.session.transaction import reading
    from pgrepl.statements.definitions.replication import _options  # type: ignore[attr-defined]

    with reading(pair.sub.session):
        (facts,) = subscription_facts(pair.sub.session)
        return ", ".join(_options(facts, 17))


def command(pair: Pair, *words: str) -> tuple[int, str]:
    """`pgrepl conflicts …` in this process, beside the sessions that are open: its exit code, and what it prints."""
    from contextlib import redirect_stdout
    from io import StringIO

    from pgrepl.shell.commands.status import conflicts_group
    from pgrepl.shell.commands.subcommand import run

    pair.sub.leave()
    with redirect_stdout(StringIO()) as out:
        code = run(conflicts_group, [*words, "--catalog", str(pair.folder / "catalog.db"), "-d", "sub"])
    return code, out.getvalue()


@pytest.mark.parametrize("seed", dose(range(2), 2, 1))
def test_random_conflicts_are_the_same_by_both_ways(trio: Trio, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    if seed % 2:
        monkeypatch.setattr(message_files, "MESSAGE_BYTES", (64 << 20) // 3 - 500)
    for database in (trio.pub, trio.sub):
        database(f"ALTER DATABASE {database.name} SET pgrepl.engine = local")
    trio.everywhere("CREATE TABLE t (a int PRIMARY KEY, b text, c int)")
    trio.pub("CREATE PUBLICATION p FOR TABLE t")
    trio.pub("INSERT INTO t SELECT g, 'v' || g, g FROM generate_series(1, 40) g")
    trio.subscribe(options=KEPT)
    for _ in range(5):
        low = chance.randrange(30)
        trio.at_subscribers(f"DELETE FROM t WHERE a BETWEEN {low} AND {low + 4}")
        trio.at_subscribers(f"UPDATE t SET b = 'mine' WHERE a % 7 = {low % 7}")
        for _ in range(chance.randrange(1, 4)):
            statements = [
                f"UPDATE t SET b = b || 'x' WHERE a % 3 = {low % 3}",
                f"DELETE FROM t WHERE a % 11 = {low % 11}",
                f"UPDATE t SET a = a + 100 WHERE a % 13 = {low % 13} AND a < 100",
                f"DELETE FROM t WHERE a = {low}; INSERT INTO t VALUES ({low}, 'o', 1); DELETE FROM t WHERE a = {low}",
            ]
            trio.pub(f"BEGIN; {'; '.join(chance.sample(statements, 2))}; COMMIT")
        if chance.random() < 0.2:
            trio.pub("TRUNCATE t; INSERT INTO t SELECT g, 'new', g FROM generate_series(1, 40) g")
        assert trio.compare_ways("t") == []
        assert trio.sub(COUNTS + " WHERE subname = 's'") == trio.other(COUNTS + " WHERE subname = 'o'")
        assert trio.sub(ROWS) == trio.other(ROWS)
    assert trio.sub.ways()["apply"] >= 3
    assert int(trio.sub("SELECT count(*) FROM pgrepl_conflicts")[0][0] or 0) > 8
