"""COPY FROM STDIN over the connection: messages that have arrived together are read together."""

from __future__ import annotations

import random
import socket
from threading import Thread

import pytest

from pgrepl.ground.errors import PgError
from pgrepl.server.channel import Channel, ConnectionLost, CopyIn
from tests.harness.wire import message


def received(sent: bytes, cuts: list[int]) -> tuple[list[bytes], str]:
    """The pieces that COPY reads of what a client sends, cut at these places, and how it ends."""
    ours, theirs = socket.socketpair()

    def send() -> None:
        for start, end in zip([0, *cuts], [*cuts, len(sent)], strict=True):
            theirs.sendall(sent[start:end])
        theirs.close()

    sender = Thread(target=send)
    sender.start()
    pieces: list[bytes] = []
    try:
        for piece in CopyIn(Channel(ours)):
            pieces.append(piece)
        end = "done"
    except PgError as error:
        end = error.message
    except ConnectionLost:
        end = "lost"
    finally:
        sender.join()
        ours.close()
    return pieces, end


@pytest.mark.parametrize("seed", range(8))
def test_rows_come_whole_however_they_are_cut(seed: int) -> None:
    luck = random.Random(seed)
    rows = [luck.randbytes(luck.choice((0, 1, 7, 40, 3000, 70_000))) for _ in range(200)]
    others = [message(luck.choice((b"H", b"S")), b"") if luck.random() < 0.05 else b"" for _ in rows]
    sent = b"".join([message(b"d", row) + other for row, other in zip(rows, others, strict=True)]) + message(b"c", b"")
    cuts = sorted(luck.randrange(len(sent)) for _ in range(20))
    pieces, end = received(sent, cuts)
    assert (b"".join(pieces), end) == (b"".join(rows), "done")


@pytest.mark.parametrize(
    ("last", "end"),
    [
        (message(b"f", b"enough\0"), "COPY from stdin failed: enough"),
        (message(b"Q", b"SELECT 1\0"), "unexpected message type 0x51 during COPY from stdin"),
        (b"d\0\0\0\3abc", "invalid message length"),
        (b"d\x7f\xff\xff\xffabc", "invalid message length"),
        (b"d\0\0\0\x09abc", "lost"),
        (b"d\0\0", "lost"),
        (b"", "lost"),
    ],
)
def test_rows_before_an_error_are_read_first(last: bytes, end: str) -> None:
    pieces, found = received(message(b"d", b"one\n") + message(b"d", b"two\n") + last, [])
    assert (b"".join(pieces), found) == (b"one\ntwo\n", end)


def test_small_messages_that_have_arrived_are_one_piece() -> None:
    rows = message(b"d", b"1\t2\n") * 1000
    pieces, end = received(rows + message(b"c", b""), [])
    assert (b"".join(pieces), end) == (b"1\t2\n" * 1000, "done")
    assert len(pieces) <= 50
