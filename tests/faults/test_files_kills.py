"""A worker that reads files of changes is killed at every step: each transaction is applied once and whole, and each
record that cannot be read is written to the rejects once."""

from __future__ import annotations

import json
import random
import signal
from pathlib import Path

import pytest

from pgrepl.replication.wire import messages
from tests.faults.replication import Replicas
from tests.faults.test_replication_kills import LAKE_STEPS, STEPS
from tests.harness.database import Rows
from tests.harness.tasks import few_bytes_by_columns


class FromFiles(Replicas):
    """A subscriber whose changes come from files; each transaction adds one to a counter, and a row with it."""

    def __init__(self, folder: Path) -> None:
        self.publisher = self.subscriber = folder / "catalog.db"
        self.landing, self.rejects = folder / "landing", folder / "rejects"
        self.landing.mkdir()
        for name in ("pub", "sub"):
            self.pub(f"CREATE DATABASE {name}", "postgres")
        for play in (self.pub, self.sub):
            play("CREATE TABLE c (a int PRIMARY KEY, n int); CREATE TABLE t (a int PRIMARY KEY, b text)")
        self.pub("CREATE PUBLICATION p FOR ALL TABLES")
        self.sub("INSERT INTO c VALUES (1, 0)")
        self.sub(
            "CREATE SUBSCRIPTION s CONNECTION 'files=landing format=jsonl dbname=pub on_error=rejects' PUBLICATION p"
        )
        self.count = self.files = 0
        self.bad: list[tuple[str, int]] = []

    def write(self, chance: random.Random) -> None:
        """Some transactions, and records that cannot be read."""
        self.files += 1
        path = self.landing / f"{self.files:03}.json"
        records: list[object] = []
        for _ in range(chance.randrange(2, 5)):
            self.count += 1
            n = self.count
            records += [
                {"op": "insert", "table": "t", "xid": n, "new": {"a": str(n), "b": "x"}},
                {"op": "update", "table": "c", "xid": n, "new": {"a": "1", "n": str(n)}},
            ]
            if chance.random() < 0.5:
                records.append({"op": "insert", "table": "t", "xid": n, "new": {"a": "none"}})
                self.bad.append((path.name, len(records)))
        path.write_text("".join(json.dumps(record) + "\n" for record in records))

    def check_whole(self) -> None:
        (((n,),), rows) = (self.sub("SELECT n FROM c"), self._rows())
        assert rows == [(str(a),) for a in range(1, int(n or 0) + 1)]

    def _rows(self) -> Rows:
        return self.sub("SELECT a FROM t ORDER BY a")

    def check_all(self) -> None:
        assert len(self._rows()) == self.count
        self.check_whole()
        told = [json.loads(line) for line in self.rejects.read_text().splitlines()]
        assert [(Path(each["file"]).name, each["record"]) for each in told] == self.bad
        assert self.sub("SELECT rejected FROM pgrepl_stat_subscription_files") == [(str(len(self.bad)),)]


@pytest.mark.slow
@pytest.mark.parametrize("columns", [False, True], ids=["by message", "by columns"])
def test_killed_at_each_step(tmp_path: Path, columns: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if columns:
        few_bytes_by_columns(monkeypatch)
    files, chance = FromFiles(tmp_path), random.Random(1)
    if columns:
        files.sub("ALTER SYSTEM SET pgrepl.local_rows = 0")
    by_message = {"apply.portion", "apply.received"}
    of_others = {"apply.flushed", *(name for name in STEPS if name.startswith("copy."))}
    wanted = [name for name in [*STEPS, *LAKE_STEPS] if name not in of_others and not (columns and name in by_message)]
    assert len(wanted) > 5
    for name in [*wanted, *(["columns.staged"] if columns else [])]:
        monkeypatch.setattr(messages, "PORTION", 1 if name == "apply.portion" else 100_000)
        files.write(chance)
        ended = files.apply(name)
        assert ended in (-signal.SIGKILL, 0), name
        files.check_whole()
        if name in ("apply.committed", "commit.begin", "commit.end", "columns.staged"):
            assert ended == -signal.SIGKILL, name
    files.write(chance)
    assert files.apply() == 0
    files.check_all()
