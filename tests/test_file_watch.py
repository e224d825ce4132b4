"""Waiting until a file changes, with inotify and without."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgrepl.ground import threads
from pgrepl.ground.threads import FileWatch


@pytest.fixture(params=["inotify", "looking"])
def watch(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FileWatch]:
    if request.param == "looking":
        monkeypatch.setattr(threads, "_inotify", lambda folder: None)
    made = FileWatch(tmp_path, ("a", "a-wal"))
    yield made
    made.close()


def test_a_file_that_changes_comes_or_is_replaced_ends_the_wait(watch: FileWatch, tmp_path: Path) -> None:
    for change in (
        lambda: (tmp_path / "a").write_text("x"),
        lambda: (tmp_path / "a").open("a").write("more"),
        lambda: (tmp_path / "a-wal").write_text("x"),
        lambda: (tmp_path / "new").write_text("another") and (tmp_path / "new").rename(tmp_path / "a"),
    ):
        assert not watch.wait(0.0)
        timer = threading.Timer(0.05, change)
        timer.start()
        assert watch.wait(60.0)
        timer.join()
        while watch.wait(0.0):  # a file that comes and is written is told more than once
            pass


def test_other_files_do_not_end_it_and_a_call_does(watch: FileWatch, tmp_path: Path) -> None:
    (tmp_path / "b").write_text("x")
    assert not watch.wait(0.05)
    threading.Timer(0.05, watch.wake).start()
    assert not watch.wait(60.0)
