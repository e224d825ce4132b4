"""The history of subscribed tables: replaying their changes, and the versions of their rows, give each state that the
publisher had."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from pgrepl.replication.wire import message_files
from tests.harness.database import Database, by_columns, by_message
from tests.harness.pair import Pair

T = "CREATE TABLE t (a int PRIMARY KEY, b text, c numeric(8,2))"
Table = list[tuple[str | None, ...]]


@pytest.fixture(params=["by message", "by columns", "in parts"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[Database], None]:
    """How changes are applied; a part has three messages."""
    if request.param == "in parts":
        monkeypatch.setattr(message_files, "MESSAGE_BYTES", (64 << 20) // 3 - 500)
    return by_message if request.param == "by message" else by_columns


def subscribe(pair: Pair, kept: str, table: str = T, options: str = "") -> None:
    pair.both(table)
    pair.pub("CREATE PUBLICATION p FOR TABLE t")
    pair.subscribe(options=f"WITH (history = {kept}{options})")


# --- random workloads -------------------------------------------------------------------------------------------------


def transaction(dice: random.Random) -> str:
    """Some changes of few rows, so that a row is often changed again."""
    done = []
    for _ in range(dice.randint(1, 6)):
        key, other = dice.randint(1, 9), dice.randint(10, 99)
        done.append(
            dice.choice(
                [
                    f"INSERT INTO t VALUES ({key}, 'i{other}', {other}) ON CONFLICT DO NOTHING",
                    f"INSERT INTO t VALUES ({key}, 'i{other}', NULL) ON CONFLICT (a) DO UPDATE SET b = 'u{other}'",
                    f"UPDATE t SET b = 'v{other}', c = {other} WHERE a <= {key}",
                    f"UPDATE t SET a = a + 20 WHERE a = {key} AND NOT EXISTS (SELECT FROM t WHERE a = {key + 20})",
                    f"DELETE FROM t WHERE a = {key}",
                    f"DELETE FROM t WHERE a > {key + 20}",
                ]
            )
        )
    if dice.random() < 0.1:
        done.insert(dice.randint(0, len(done)), "TRUNCATE t")
    return f"BEGIN; {'; '.join(done)}; COMMIT"


def replayed(log: Table, lsn: str) -> Table:
    """The table after the changes up to an LSN, by what the log's rows say."""
    rows: dict[str | None, tuple[str | None, ...]] = {}
    for operation, at, old, *new in log:
        if number(at) > number(lsn):
            break
        if operation == "truncate":
            rows.clear()
        if operation in ("update", "delete"):
            del rows[old]
        if operation in ("insert", "update", "copy"):
            assert new[0] not in rows
            rows[new[0]] = tuple(new)
    return sorted(rows.values())


def number(lsn: str | None) -> int:
    high, low = str(lsn).split("/")
    return int(high, 16) << 32 | int(low, 16)


def check(pair: Pair, states: dict[str, Table], kept: str) -> None:
    name = "t_history" if kept == "changes" else "t_history_changes"
    log = pair.sub(f"SELECT operation, lsn, old_a, a, b, c FROM {name} ORDER BY lsn, change")
    for lsn, there in states.items():
        assert replayed(log, lsn) == there, lsn
        at = f"valid_from_lsn <= '{lsn}' AND (valid_to_lsn > '{lsn}' OR valid_to_lsn IS NULL)"
        if kept == "versions":
            assert sorted(pair.sub(f"SELECT a, b, c FROM t_history WHERE {at}")) == there, lsn
        assert sorted(pair.sub(f"SELECT a, b, c FROM t_at('{lsn}'::pg_lsn)")) == there, lsn


def work(pair: Pair, dice: random.Random, rounds: int, states: dict[str, Table]) -> None:
    """Transactions, of which a few together are a batch."""
    for _ in range(rounds):
        for _ in range(dice.randint(1, 5)):
            pair.pub(transaction(dice))
            ((lsn,),) = pair.pub("SELECT pg_current_wal_lsn()")
            states[str(lsn)] = sorted(pair.pub("SELECT a, b, c FROM t"))
        assert pair.catch_up() == []
        assert sorted(pair.sub("SELECT a, b, c FROM t")) == sorted(pair.pub("SELECT a, b, c FROM t"))


@pytest.mark.parametrize("kept", ["changes", "versions"])
def test_the_past_is_what_the_publisher_had(pair: Pair, way: Callable[[Database], None], kept: str) -> None:
    dice = random.Random(f"{kept} {way.__name__}")
    pair.pub(T, "INSERT INTO t SELECT g, 'first', g FROM generate_series(1, 5) g")
    pair.sub(T)
    way(pair.sub)
    pair.pub("CREATE PUBLICATION p FOR TABLE t")
    pair.subscribe(options=f"WITH (history = {kept})")
    states: dict[str, Table] = {}
    work(pair, dice, 4, states)
    check(pair, states, kept)
    if way is by_columns:
        assert pair.sub.ways()["apply"]
