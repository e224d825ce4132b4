"""Conflicts beside a real 18: their kinds, counts, and what the log says, in both ways of applying."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pgrepl.replication.wire import message_files
from tests.harness.database import by_columns, by_message
from tests.harness.pair import Pair
from tests.postgres.replicas import SETTINGS, RealReplicas
from tests.postgres.server import Server, new_server

KINDS = (
    "insert_exists update_origin_differs update_exists update_missing delete_origin_differs delete_missing"
    " multiple_unique_conflicts"
).split()
TABLES = (
    "CREATE TABLE t (a int PRIMARY KEY, b text, c int UNIQUE, d numeric(6,2), e timestamp, f boolean)",
    "CREATE TABLE f (a int, b text)",
    "CREATE TABLE p (a int, b text, PRIMARY KEY (a), UNIQUE (a, b)) PARTITION BY RANGE (a)",
    "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10)",
    "CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (20)",
)
LONG = "'" + "long " * 20 + "'"


def by_origin(name: str, *texts: str) -> Iterator[tuple[str, str]]:
    """What the subscriber says as if it came from elsewhere."""
    for function in ("create", "session_setup"):
        yield "sub", f"SELECT pg_replication_origin_{function}('{name}')"
    yield from (("sub", text) for text in texts)
    yield "sub", "SELECT pg_replication_origin_session_reset()"


# what is said where; then the subscriber catches up
STEPS: tuple[tuple[tuple[str, str], ...], ...] = (
    (
        (
            "pub",
            "INSERT INTO t SELECT g, 'v' || g, g, g + 0.5, '2026-01-02 03:04:05', g < 1 FROM generate_series(1, 9) g",
        ),
        ("pub", "INSERT INTO f SELECT g, 'v' || g FROM generate_series(1, 3) g"),
        ("pub", "INSERT INTO p SELECT g, 'v' || g FROM generate_series(1, 19, 3) g"),
    ),
    (
        ("sub", "DELETE FROM t WHERE a IN (1, 2)"),
        ("sub", "UPDATE t SET b = 'mine' WHERE a IN (3, 4, 5)"),
        ("sub", "DELETE FROM f WHERE a = 1"),
        ("sub", "DELETE FROM p WHERE a IN (1, 13)"),
        ("sub", "UPDATE p SET b = NULL WHERE a = 4"),
        ("pub", f"UPDATE t SET b = {LONG} WHERE a = 1"),
        ("pub", "DELETE FROM t WHERE a = 2"),
        ("pub", "UPDATE t SET b = NULL, d = 7 WHERE a = 3"),
        ("pub", "UPDATE t SET b = 'again' WHERE a = 3"),
        ("pub", "DELETE FROM t WHERE a = 4"),
        ("pub", "UPDATE t SET a = 50 WHERE a = 5"),
        ("pub", "UPDATE t SET a = 11 WHERE a = 1"),
        ("pub", "UPDATE p SET b = 'x' WHERE a = 1"),
        ("pub", "DELETE FROM p WHERE a = 13"),
        ("pub", "UPDATE p SET b = 'y' WHERE a = 4"),
    ),
    (("pub", "UPDATE f SET b = 'x' WHERE a = 1"), ("pub", "DELETE FROM f WHERE a = 1")),
    (
        *by_origin("there", "UPDATE t SET b = 'theirs' WHERE a = 7"),
        *by_origin("gone", "UPDATE t SET b = 'theirs' WHERE a = 8", "UPDATE p SET b = 'theirs' WHERE a = 16"),
        ("sub", "SELECT pg_replication_origin_drop('gone')"),
        ("pub", "UPDATE t SET b = 'x' WHERE a > 6"),
        ("pub", "DELETE FROM t WHERE a IN (7, 8)"),
        ("pub", "DELETE FROM p WHERE a = 16"),
    ),
    (
        *by_origin("elsewhere", "UPDATE f SET b = 'theirs' WHERE a = 2"),
        ("pub", "UPDATE f SET b = 'x' WHERE a = 2"),
        ("pub", "DELETE FROM f WHERE a = 3"),
    ),
)
REJECTED: tuple[tuple[str, str, str], ...] = (
    ("INSERT INTO t (a) VALUES (100)", "INSERT INTO t (a, c) VALUES (100, 100)", "DELETE FROM t WHERE a = 100"),
    ("INSERT INTO t (a, c) VALUES (101, 77)", "UPDATE t SET c = 77 WHERE a = 6", "DELETE FROM t WHERE a = 101"),
    (
        "INSERT INTO t (a, c) VALUES (102, 102), (103, 103)",
        "INSERT INTO t (a, c) VALUES (102, 103)",
        "DELETE FROM t WHERE a > 101",
    ),
    ("INSERT INTO p VALUES (15, 'here')", "INSERT INTO p VALUES (15, 'there')", "DELETE FROM p WHERE a = 15"),
)  # fmt: skip

Said = tuple[str, str]


def plain(message: str, detail: str | None) -> Said:
    detail = re.sub(r"in transaction \d+( at [^.]*(\.\d+)?[+-]\d+)?", "in transaction N", detail or "")
    return message, re.sub(r'origin "pg_\d+"', 'origin "pg_N"', re.sub(r" at \d{4}-[^\n]*?\.(?=\n|$)", ".", detail))


@pytest.fixture(scope="module")
def real18() -> Iterator[list[list[Said]]]:
    """What a real 18 says: of each step, of each rejected row, and its counts."""
    server = new_server(18, SETTINGS + "track_commit_timestamp = on\n")
    try:
        real = Heard(server)
        yield list(play_real(real))
        real.close()
    finally:
        server.stop()


class Heard(RealReplicas):
    """Remembers the conflicts that workers have told."""

    def __init__(self, server: Server) -> None:
        self.conflicts: list[Said] = []
        super().__init__(server)

    def _logged(self) -> Iterator[dict[str, Any]]:
        for entry in super()._logged():
            if entry["message"].startswith("conflict detected"):
                self.conflicts.append(plain(entry["message"], entry.get("detail")))
            yield entry


def play_real(real: Heard) -> Iterator[list[Said]]:
    def heard() -> list[Said]:
        list(real._logged())
        found, real.conflicts = real.conflicts, []
        return found

    for text in TABLES:
        for where in ("pub", "sub"):
            real.run(where, text)
    real.run("pub", "ALTER TABLE f REPLICA IDENTITY FULL")
    real.run("pub", "CREATE PUBLICATION p FOR ALL TABLES")
    real.run("pub", "SELECT pg_create_logical_replication_slot('s', 'pgoutput')")
    real.run(
        "sub",
        f"CREATE SUBSCRIPTION s CONNECTION '{real.conninfo('pub')}' PUBLICATION p WITH (create_slot = false,"
        " slot_name = s, copy_data = false, disable_on_error)",
    )
    for step in STEPS:
        for where, text in step:
            assert real.run(where, text)[0] == "done", text
        assert real.catch_up("s") == []
        yield heard()
    for before, there, after in REJECTED:
        assert real.run("sub", before)[0] == "done"
        assert real.run("pub", there)[0] == "done"
        said: list[Said] = []
        until = time.monotonic() + 60
        while real.rows("sub", "SELECT subenabled FROM pg_subscription") == [("t",)] or not said:
            said += heard()
            assert time.monotonic() < until
            time.sleep(0.01)
        yield said
        real.run("sub", after)
        real.run("sub", "ALTER SUBSCRIPTION s ENABLE")
        assert real.catch_up("s") == []
    (counts,) = real.rows(
        "sub", f"SELECT {', '.join(f'confl_{kind}' for kind in KINDS)} FROM pg_stat_subscription_stats"
    )
    yield [(kind, number) for kind, number in zip(KINDS, counts, strict=True)]


def play_ours(pair: Pair) -> Iterator[list[Said]]:
    def heard() -> list[Said]:
        return [plain(r.message, r.detail) for r in pair.log.reports if r.message.startswith("conflict detected")]

    for text in TABLES:
        pair.both(text)
    pair.pub("ALTER TABLE f REPLICA IDENTITY FULL", "CREATE PUBLICATION p FOR ALL TABLES")
    pair.subscribe(options="WITH (copy_data = false, conflict_log = on)")
    for step in STEPS:
        for where, text in step:
            (pair.pub if where == "pub" else pair.sub)(text)
        assert pair.catch_up() == []
        yield heard()
    for before, there, after in REJECTED:
        pair.sub(before)
        pair.pub(there)
        assert len(pair.catch_up()) == 1
        yield heard()
        pair.sub(after)
        assert pair.catch_up() == []
    pair.sub("SET pgrepl.postgres_version = 18")
    (counts,) = pair.sub(f"SELECT {', '.join(f'confl_{kind}' for kind in KINDS)} FROM pg_stat_subscription_stats")
    yield [(kind, number or "") for kind, number in zip(KINDS, counts, strict=True)]


@pytest.mark.parametrize("way", ["by message", "by columns", "in parts", "as 18"])
def test_conflicts_are_those_of_18(
    real18: list[list[Said]], way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way == "in parts":  # of three messages
        monkeypatch.setattr(message_files, "MESSAGE_BYTES", (64 << 20) // 3 - 500)
    pair = Pair(tmp_path)
    try:
        (by_columns if way in ("by columns", "in parts") else by_message)(pair.sub)
        if way == "as 18":
            pair.sub("ALTER DATABASE sub SET pgrepl.postgres_version = 18")
        for ours, theirs in zip(play_ours(pair), real18, strict=True):
            assert json.dumps(ours, indent=1) == json.dumps(theirs, indent=1)
        assert pair.sub.ways()["apply"] == (0 if way in ("by message", "as 18") else 7)
    finally:
        pair.close()
