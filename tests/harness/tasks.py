"""Tasks of Spark without Spark: pickled, and played here as an executor plays them, without a session."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import pytest

from pgrepl.engine import on_spark
from pgrepl.engine.choice import Choice, Engine
from pgrepl.engine.task import done, packed
from pgrepl.replication.publisher.lake import stream_columns

FILES = "pgrepl.replication.publisher.files"


def played_here(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The parts that are played."""
    seen: list[Any] = []

    def play(parts: Sequence[Any], kernel: Any) -> list[Any]:
        seen.extend(parts)
        tasks, shared = packed(kernel, parts)
        return [pickle.loads(done(task, shared))[1] for task in tasks]

    monkeypatch.setattr(on_spark, "run_parts", play)
    monkeypatch.setattr(on_spark, "parallelism", lambda: 2)
    monkeypatch.setattr(stream_columns, "is_warm", lambda: True)
    return seen


def files_by_tasks(monkeypatch: pytest.MonkeyPatch, size: int) -> list[Any]:
    """Files of changes are read by tasks, in parts of so many bytes, without Spark. The tasks that are played."""
    divide_files(monkeypatch, size)
    return played_here(monkeypatch)


def divide_files(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Spark reads files of changes, in parts of so many bytes."""
    few_bytes_by_columns(monkeypatch)
    monkeypatch.setattr(
        f"{FILES}.publisher.choose_files", lambda session, size, rows: Choice(Engine.SPARK, "the test", rows, size)
    )
    monkeypatch.setattr(f"{FILES}.batch_spark.SIZE", size)


def few_bytes_by_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of changes are read by columns, however small they are."""
    monkeypatch.setattr(f"{FILES}.publisher.BYTES_OF_CHANGE", 0)
