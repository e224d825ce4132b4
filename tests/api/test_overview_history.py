"""The ring beside a catalog stays small, outlives what is torn, and tells an hour and a day."""

from __future__ import annotations

from math import isnan, nan
from pathlib import Path

import pytest

from pgrepl.api import overview_history
from pgrepl.api.overview_history import History, Point, history_path

NAMES = ("shop", "s")
BEGIN = 1_800_000_000.0


def fill(history: History, minutes: int, names: tuple[str, str] = NAMES) -> float:
    for minute in range(minutes):
        history.add({names: Point(BEGIN + 60 * minute, minute, 10.0 * minute, nan, 100.0 * minute)})
    return BEGIN + 60 * (minutes - 1)


def test_an_hour_and_a_day(tmp_path: Path) -> None:
    path = tmp_path / "ring"
    history = History(path)
    now = fill(history, 3000)
    for found in (history, History(path)):  # and one that reads what the other has written
        hour, day = (points for points, _, _ in found.spans(now, *NAMES))
        assert [point.seconds for point in hour] == list(range(2939, 3000))
        assert len(day) in (144, 145) and day[-1].at > now - 600
        assert day[0].at <= now - 86400 + 600
        assert found.rate(*NAMES, now) == pytest.approx(100 / 60)
        assert found.hour("shop", "other", now) == [] and found.rate("shop", "other", now) is None
        assert isnan(hour[-1].retained)


def test_a_days_point_is_the_worst_of_its_minutes() -> None:
    history = History(None)
    for minute in range(21):
        history.add({NAMES: Point(BEGIN + 60 * minute, 99.0 if minute == 15 else 0.0, 0.0, 0.0, 0.0)})
    assert [point.seconds for point in history.spans(BEGIN + 1200, *NAMES)[1][0]] == [0.0, 0.0, 99.0]


def test_points_that_come_often_are_not_kept(tmp_path: Path) -> None:
    history = History(tmp_path / "ring")
    for second in range(120):
        history.add({NAMES: Point(BEGIN + second, 1.0)})
    assert len(history.hour(*NAMES, BEGIN + 120)) <= 3
    history.add({NAMES: Point(BEGIN - 5000, 2.0)})  # a clock that was set back
    assert history.hour(*NAMES, BEGIN - 5000)[-1].seconds == 2.0


def test_the_file_stays_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview_history, "_SLOTS", 50)
    path = tmp_path / "ring"
    history = History(path)
    for minute in range(200):
        points = {("shop", f"s{number}"): Point(BEGIN + 60 * minute, minute) for number in range(3)}
        history.add(points)
    assert path.stat().st_size <= 150 * overview_history._RECORD.size
    assert path.stat().st_mode & 0o777 == 0o600
    again = History(path)
    assert [point.seconds for point in again.hour("shop", "s1", BEGIN + 60 * 199)][-10:] == list(range(190, 200))
    again.add({("shop", "s1"): Point(BEGIN + 60 * 200, 200)})
    assert History(path).hour("shop", "s1", BEGIN + 60 * 200)[-1].seconds == 200
    assert overview_history._SIZE < 2_000_000


def test_what_is_torn_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "ring"
    now = fill(History(path), 30)
    size = overview_history._RECORD.size
    content = bytearray(path.read_bytes())
    content[5 * size + 20 : 5 * size + 40] = b"\0" * 20
    content[7 * size] ^= 1
    path.write_bytes(content)
    assert [point.seconds for point in History(path).hour(*NAMES, now)] == [n for n in range(30) if n not in (5, 7)]
    path.write_bytes(b"no ring at all" * 1000)
    assert History(path).hour(*NAMES, now) == []
    path.write_bytes(content[: 3 * size + 7])
    assert len(History(path).hour(*NAMES, now)) == 3


def test_a_folder_that_cannot_be_written_keeps_nothing_back(tmp_path: Path) -> None:
    history = History(tmp_path / "no" / "ring")
    now = fill(history, 5)
    assert len(history.hour(*NAMES, now)) == 5


def test_where_it_is() -> None:
    assert history_path("a/catalog.db") == Path("a/catalog.db.history")
    assert history_path(None) is None and history_path("postgresql://host/db") is None
