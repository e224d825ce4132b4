"""Changes that tasks read and apply where the data, and the files of changes, are in an object store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pgrepl.catalog.store.opening import open_catalog
from pgrepl.engine import choice
from pgrepl.engine import spark as lake_spark
from pgrepl.engine.choice import Choice, Engine
from pgrepl.replication.publisher.lake import stream_columns
from pgrepl.replication.wire import message_files
from tests.harness.tasks import divide_files, played_here
from tests.harness.trio import Trio


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Parts of some messages, as tasks of a cluster: what they leave for each other is in the data folder."""
    monkeypatch.setattr(message_files, "MESSAGE_BYTES", (64 << 20) // 12 - 500)
    monkeypatch.setattr(lake_spark, "is_elsewhere", lambda: True)
    for user in (choice, stream_columns):
        monkeypatch.setattr(user, "choose_parts", lambda session, rows: Choice(Engine.SPARK, "the test", rows))
    return played_here(monkeypatch)


@pytest.fixture
def trio(tmp_path: Path, bucket: Any) -> Any:
    folder = tmp_path / "trio"
    folder.mkdir()
    open_catalog(folder / "catalog.db", data_path=f"s3://{bucket.name}/lake").close()
    made = Trio(folder)
    yield made
    made.close()


@pytest.mark.slow  # test_elsewhere.py changes rows there, test_parts.py applies by tasks
def test_changes_are_applied_by_tasks_in_an_object_store(trio: Trio, bucket: Any, tasks: list[Any]) -> None:
    trio.everywhere("CREATE TABLE t (a int PRIMARY KEY, b text, UNIQUE (b))")
    trio.pub("CREATE PUBLICATION p FOR TABLE t")
    trio.pub("INSERT INTO t SELECT g, 'v' || g FROM generate_series(1, 60) g")
    trio.subscribe()
    del tasks[:]
    trio.pub("UPDATE t SET b = b || '!' WHERE a % 3 = 0; DELETE FROM t WHERE a % 10 = 0")
    trio.pub("INSERT INTO t SELECT g, 'w' || g FROM generate_series(300, 310) g; UPDATE t SET a = a + 1000 WHERE a < 9")
    assert trio.compare_ways("t") == []
    kinds = {type(task).__name__ for task in tasks}
    assert {"RangeToRead", "PartToApply", "DeletesToMerge", "ValuesToCheck"} <= kinds
    assert not [key for key in bucket.all_keys() if key.endswith((".arrow", ".heads", ".codes", ".positions"))]


@pytest.mark.slow
def test_files_of_changes_in_an_object_store_are_read_by_tasks(
    trio: Trio, bucket: Any, tasks: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    trio.everywhere("CREATE TABLE t (a int PRIMARY KEY, b text)")
    trio.pub("CREATE PUBLICATION p FOR TABLE t")
    events = [{"op": "c", "after": {"a": n, "b": f"v{n}"}, "source": {"table": "t", "txId": n // 7}} for n in range(40)]
    text = "".join(f"{json.dumps(event)}\n" for event in events)
    bucket.put("landing/1.json", text.encode())
    divide_files(monkeypatch, 1000)
    trio.sub.subscribe("p", f"files=s3://{bucket.name}/landing format=debezium dbname=pub")
    assert trio.catch_up() == []
    assert trio.sub("SELECT count(*), sum(a), max(b) FROM t") == [("40", "780", "v9")]
    assert len([task for task in tasks if type(task).__name__ == "PartsToRead"]) > 2
