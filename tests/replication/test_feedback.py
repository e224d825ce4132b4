"""What a receiver tells a walsender, and when: no server, no clock."""

from __future__ import annotations

import pytest

from pgrepl.replication.publisher.postgres.slots import TIMED_OUT, Feedback
from pgrepl.replication.publisher.protocol import PublisherError
from pgrepl.replication.wire.pgoutput import STATUS


def positions(message: bytes | None) -> tuple[int, int, bool] | None:
    """Written, flushed, and whether an answer is asked for."""
    if message is None:
        return None
    kind, written, flushed, applied, _, asks = STATUS.unpack(message)
    assert kind == b"r" and applied == flushed
    return written, flushed, bool(asks)


def told(interval: float = 10.0, timeout: float | None = None) -> Feedback:
    made = Feedback(100, interval, timeout, 0.0)
    assert positions(made.due(0.0)) == (100, 100, False)
    return made


def test_a_flushed_position_is_told_at_once_a_written_one_after_a_moment() -> None:
    made = told()
    assert made.due(1.0) is None and made.wait(1.0) == 9.0
    made.flushed = made.written = 120
    assert made.wait(1.0) == 0.0 and positions(made.due(1.0)) == (120, 120, False)
    made.written = 130
    assert made.due(1.001) is None and 0 < made.wait(1.001) < 0.01
    assert positions(made.due(1.01)) == (130, 120, False)


def test_positions_are_told_again_after_the_interval_and_when_the_server_asks() -> None:
    made = told()
    assert made.due(9.9) is None and positions(made.due(10.0)) == (100, 100, False)
    assert made.due(10.1) is None
    made.answer()
    assert made.wait(10.1) == 0.0 and positions(made.due(10.1)) == (100, 100, False)
    never = told(interval=0)
    assert never.due(1e6) is None and never.wait(1e6) > 60


def test_a_silent_server_is_asked_once_and_then_given_up() -> None:
    made = told(interval=0, timeout=60)
    assert made.due(29.0) is None and made.wait(29.0) == 1.0
    assert positions(made.due(30.0)) == (100, 100, True)
    assert made.due(31.0) is None and made.wait(31.0) == 29.0
    made.hear(59.0)
    assert made.due(88.0) is None and positions(made.due(89.0)) == (100, 100, True)
    with pytest.raises(PublisherError, match=TIMED_OUT):
        made.due(119.0)
