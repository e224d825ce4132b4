"""Random histories of several sessions: what each statement answers, which ones wait, and for how long.

A history is a list of steps (session, statement). A step is sent when its session is not waiting; then every session
either has answered or waits for a lock, and what is seen then is written down. The same steps are played here, where
each session has a thread, and on a real server.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import psycopg

from pgrepl.backend import open_session
from pgrepl.catalog.locks.lock_table import LockTable
from pgrepl.catalog.locks.locks import find_deadlock
from pgrepl.catalog.store.opening import open_catalog
from pgrepl.ground.errors import PgError
from pgrepl.statements.run import run

TABLES = (
    "DROP TABLE IF EXISTS c, p, t",
    "CREATE TABLE p (id int PRIMARY KEY, v int)",
    "CREATE TABLE c (id int PRIMARY KEY, p int REFERENCES p ON DELETE CASCADE, v int)",
    "CREATE TABLE t (k int, v int)",
    "INSERT INTO p SELECT g, 0 FROM generate_series(1, 5) g",
    "INSERT INTO c VALUES (1, 1, 0), (2, 2, 0)",
    "INSERT INTO t SELECT g, 0 FROM generate_series(1, 6) g",
)
STATE = ("SELECT * FROM p ORDER BY id", "SELECT * FROM c ORDER BY id", "SELECT * FROM t ORDER BY k, v")
_PATIENCE = 60.0  # seconds for a step
_DEADLOCK_TIMEOUT = "1ms"  # so that who closes a circle is the one that finds it

Step = tuple[int, str]


@dataclass(frozen=True)
class Answer:
    """What a statement gave: its tag and rows, or SQLSTATE and message."""

    tag: str
    rows: tuple[tuple[str | None, ...], ...] = ()


class Player(Protocol):
    def execute(self, text: str) -> Answer: ...

    def is_waiting(self) -> bool:
        """Does it wait for a lock, and not in a circle that is about to be broken?"""
        ...

    def close(self) -> None: ...


# --- histories ------------------------------------------------------------------------------------------------------


LEVELS = ("READ COMMITTED", "READ COMMITTED", "READ COMMITTED", "REPEATABLE READ")
DEPENDENCIES = "read/write dependencies among transactions"


def history(seed: int, levels: Sequence[str] = LEVELS, *, merges: bool = False) -> list[Step]:
    rng = random.Random(seed)
    count = rng.choice([2, 2, 3, 3, 4])
    steps: list[Step] = []
    inside = [False] * count
    points = [0] * count
    for _ in range(rng.randint(8, 24)):
        session = rng.randrange(count)
        if not inside[session] and rng.random() < 0.85:
            steps.append((session, f"BEGIN ISOLATION LEVEL {rng.choice(levels)}"))
            inside[session], points[session] = True, 0
        elif inside[session] and rng.random() < 0.12:
            steps.append((session, rng.choice(["COMMIT", "COMMIT", "ROLLBACK"])))
            inside[session] = False
        elif inside[session] and rng.random() < 0.15:
            if points[session] and rng.random() < 0.6:
                steps.append((session, f"ROLLBACK TO s{points[session]}"))
            else:
                points[session] += 1
                steps.append((session, f"SAVEPOINT s{points[session]}"))
        else:
            steps.append((session, merge(rng) if merges and rng.random() < 0.5 else statement(rng)))
    return steps


def statement(rng: random.Random) -> str:
    key, other = rng.randint(1, 3), rng.randint(1, 6)
    strength = rng.choice(["UPDATE", "NO KEY UPDATE", "SHARE", "KEY SHARE"])
    wait = rng.choice(["", "", " NOWAIT", " SKIP LOCKED"])
    where = rng.choice(
        [f"id = {key}", f"id IN ({key}, {other})", f"v > {rng.randint(0, 2)}", f"v = {rng.randint(0, 2)}"]
    )
    plain = where.replace("id", "k")
    return rng.choice(
        [
            f"UPDATE p SET v = v + 1 WHERE {where}",
            f"UPDATE t SET v = v + 1 WHERE {plain}",
            f"UPDATE t SET v = v + {rng.randint(1, 3)} WHERE {plain} RETURNING k, v",
            f"UPDATE p SET id = {other} WHERE id = {key}",
            f"DELETE FROM p WHERE {where}",
            f"DELETE FROM t WHERE {plain}",
            f"DELETE FROM c WHERE {where}",
            f"INSERT INTO p VALUES ({other}, {key})",
            f"INSERT INTO p VALUES ({other}, {key}) ON CONFLICT DO NOTHING",
            f"INSERT INTO p VALUES ({other}, 1) ON CONFLICT (id) DO UPDATE SET v = p.v + 1 RETURNING v",
            f"INSERT INTO c VALUES ({rng.randint(1, 9)}, {other}, 0)",
            f"INSERT INTO t VALUES ({key}, {other})",
            f"UPDATE c SET p = {other} WHERE {where}",
            f"SELECT * FROM p WHERE {where} ORDER BY id FOR {strength}{wait}",
            f"SELECT * FROM t WHERE {plain} ORDER BY k, v FOR {strength}{wait}",
            f"SELECT id FROM p ORDER BY id LIMIT 2 FOR {strength}{wait}",
            f"SELECT p.id, c.id FROM p, c WHERE c.p = p.id ORDER BY 1, 2 FOR {strength} OF c{wait}",
            "UPDATE t SET v = 9 WHERE k = (SELECT k FROM t WHERE v < 9 ORDER BY k LIMIT 1 FOR UPDATE SKIP LOCKED)"
            " RETURNING k",
            f"WITH gone AS (DELETE FROM t WHERE {plain} RETURNING k) SELECT count(*) FROM gone",
            "SELECT sum(v), count(*) FROM t",
            "SELECT sum(v), count(*) FROM p",
        ]
    )


def merge(rng: random.Random) -> str:
    key, other = rng.randint(1, 3), rng.randint(1, 6)
    return rng.choice(
        [
            f"MERGE INTO p USING (VALUES ({key}, {other})) s (a, b) ON p.id = s.a WHEN MATCHED AND v > 1 THEN DELETE"
            " WHEN MATCHED THEN UPDATE SET v = v + b WHEN NOT MATCHED THEN INSERT VALUES (s.a, b)",
            f"MERGE INTO p USING (VALUES ({key}), ({other + 6})) s (a) ON p.id = s.a"
            " WHEN MATCHED THEN UPDATE SET v = v + 1 WHEN NOT MATCHED THEN INSERT VALUES (s.a, 0)",
            f"MERGE INTO t USING (VALUES ({key}, {other})) s (a, b) ON t.k = s.a"
            " WHEN MATCHED AND t.v > 0 THEN UPDATE SET v = v + b WHEN MATCHED THEN UPDATE SET v = 1",
            f"MERGE INTO t USING (VALUES ({key}, {other})) s (a, b) ON t.v = s.a"
            " WHEN MATCHED THEN UPDATE SET v = v + 1 WHEN NOT MATCHED THEN DO NOTHING",
            f"MERGE INTO t USING (SELECT id, v FROM p) s ON t.k = s.id"
            f" WHEN MATCHED AND s.id = {key} THEN UPDATE SET v = s.v",
            f"MERGE INTO c USING p ON c.p = p.id AND p.id = {key} WHEN MATCHED THEN UPDATE SET v = p.v",
            f"MERGE INTO t USING (VALUES ({key})) s (a) ON k = a WHEN MATCHED AND v > 3 THEN DO NOTHING"
            " WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (a, 1)",
        ]
    )


# --- playing --------------------------------------------------------------------------------------------------------


class _Worker:
    """A session and the thread that speaks to it."""

    def __init__(self, player: Player) -> None:
        self.player = player
        self._sent: str | None = None
        self._answer: Answer | None = None
        self._go = threading.Condition()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._ends = False
        self._thread.start()

    def _work(self) -> None:
        while True:
            with self._go:
                while self._sent is None and not self._ends:
                    self._go.wait()
                if self._ends:
                    return
                text = self._sent
                assert text is not None
            answer = self.player.execute(text)
            with self._go:
                self._answer, self._sent = answer, None

    def send(self, text: str) -> None:
        with self._go:
            self._sent, self._answer = text, None
            self._go.notify()

    @property
    def is_busy(self) -> bool:
        return self._sent is not None

    def answer(self) -> Answer | None:
        answer, self._answer = self._answer, None
        return answer

    def end(self) -> None:
        with self._go:
            self._ends = True
            self._go.notify()
        self._thread.join(5)


def play(players: list[Player], steps: list[Step]) -> list[str]:
    """What was seen: a line for each answer, and for each statement that waits."""
    workers = [_Worker(player) for player in players]
    seen: list[str] = []
    rest = list(steps)
    try:
        while rest:
            session, text = rest.pop(0)
            if workers[session].is_busy:
                continue
            seen.append(f"{session}: {text}")
            workers[session].send(text)
            seen += _settled(workers)
        # who does not wait ends first, so that everybody comes to an end
        for _ in workers:
            for number, worker in enumerate(workers):
                if not worker.is_busy:
                    worker.send("COMMIT")
                    seen += _settled(workers, quiet=number)
    finally:
        for worker in workers:
            worker.end()
    return seen


def _settled(workers: list[_Worker], quiet: int | None = None) -> Iterator[str]:
    """Wait until everybody has answered or waits for a lock."""
    deadline = time.monotonic() + _PATIENCE
    calm = 0
    while calm < 3:
        busy = [worker for worker in workers if worker.is_busy]
        calm = calm + 1 if all(worker.player.is_waiting() for worker in busy) else 0
        if not busy:
            break
        assert time.monotonic() < deadline, "a statement neither answers nor waits"
        time.sleep(0.001)
    for number, worker in enumerate(workers):
        answer = worker.answer()
        if answer is not None and (number != quiet or answer.tag not in ("COMMIT", "ROLLBACK")):
            yield f"{number}→ {answer.tag} {list(answer.rows) if answer.rows else ''}".rstrip()
        elif worker.is_busy:
            yield f"{number} waits"


# --- here -----------------------------------------------------------------------------------------------------------


class Ours:
    def __init__(self, path: Path) -> None:
        catalog = open_catalog(path)
        self._session = open_session(catalog)
        assert catalog.path is not None
        self._table = LockTable(catalog.path)
        list(run(self._session, f"SET deadlock_timeout = '{_DEADLOCK_TIMEOUT}'"))

    def execute(self, text: str) -> Answer:
        try:
            result = list(run(self._session, text))[-1]
        except PgError as error:
            return Answer(f"{error.report.sqlstate} {error.report.message}")
        return Answer(result.tag or "", tuple(tuple(row) for row in result.rows))

    def is_waiting(self) -> bool:
        holder = self._session.transaction.locks.holder
        if holder is None or not self._table.exists():
            return False
        waiting = [waiter for waiter in self._table.waiters() if waiter.holder == holder.id]
        return any(map(self._table.blockers, waiting)) and not find_deadlock(self._table, holder.id)

    def close(self) -> None:
        self._session.close()
        self._table.close()


# --- a server -------------------------------------------------------------------------------------------------------


class Servers:
    def __init__(self, conninfo: str, watcher: Any) -> None:
        self._link = psycopg.connect(conninfo, autocommit=True, prepare_threshold=None)
        self._watcher = watcher
        self._pid = self._link.info.backend_pid
        self._link.execute(f"SET deadlock_timeout = '{_DEADLOCK_TIMEOUT}'")

    def execute(self, text: str) -> Answer:
        try:
            cursor = self._link.execute(text.encode())
        except psycopg.Error as error:
            return Answer(f"{error.sqlstate} {error.diag.message_primary}")
        tag = cursor.statusmessage or ""
        if cursor.description is None:
            return Answer(tag)
        rows = tuple(tuple(None if v is None else str(v) for v in row) for row in cursor.fetchall())
        return Answer(tag, rows)

    def is_waiting(self) -> bool:
        blockers = self._blockers(self._pid)
        if not blockers:
            return False
        seen: set[int] = set()
        while blockers:
            pid = blockers.pop()
            if pid == self._pid:
                return False  # a circle: it will be broken
            if pid not in seen:
                seen.add(pid)
                blockers += self._blockers(pid)
        return True

    def _blockers(self, pid: int) -> list[int]:
        found = self._watcher.execute("SELECT pg_blocking_pids(%s)", (pid,)).fetchone()
        return list(found[0]) if found and found[0] else []

    def close(self) -> None:
        self._link.close()


class Side:
    """Four sessions and one more that sees to the tables."""

    def __init__(self, made: Callable[[], Player]) -> None:
        self._own = made()
        self._own.execute(f"SET lock_timeout = '{_PATIENCE}s'")  # a session that is still in a transaction
        self._players = [made() for _ in range(4)]

    def outcome(self, steps: list[Step]) -> list[str]:
        """What was seen, and what the tables hold at the end."""
        for text in TABLES:
            made = self._own.execute(text)
            assert not made.tag.startswith("55P03"), made
        return [*play(self._players, steps), *(str(self._own.execute(text)) for text in STATE)]

    def close(self) -> None:
        for player in (*self._players, self._own):
            player.close()
