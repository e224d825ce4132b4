"""The rows of a binary COPY, read many at once from the connection's socket: what is cut is what libpq gives, whatever
the rows hold, and the connection goes on as libpq knows it."""

from __future__ import annotations

import os
import random
import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from pgrepl.replication.conninfo import parse_conninfo
from pgrepl.replication.publisher.postgres.copy_rows import _joined, binary_rows
from pgrepl.replication.publisher.postgres.link import Link, link_to
from pgrepl.replication.publisher.protocol import PublisherError
from tests.postgres.served import Served

ON_ONE = pytest.mark.parametrize("publishing", [16], indirect=True)


@pytest.fixture
def link(served: Served) -> Iterator[Link]:
    link = link_to(parse_conninfo(served.conninfo))
    yield link
    link.close()


def rows(parts: Iterator[tuple[bytes, object]], width: int) -> list[tuple[bytes | None, ...]]:
    found = []
    for data, at in parts:
        for place in at.tolist():  # type: ignore[attr-defined]
            (count,) = struct.unpack_from(">h", data, place)
            assert count == width
            values, place = [], place + 2
            for _ in range(width):
                (size,) = struct.unpack_from(">i", data, place)
                values.append(None if size < 0 else data[place + 4 : place + 4 + size])
                place += 4 + max(size, 0)
            found.append(tuple(values))
    return found


# a row of one field with the bytes of a message of such a row inside; texts of d; a row larger than any buffer; none
QUESTIONS = {
    "false rows": (
        "SELECT g, decode('640000001a0002', 'hex') || repeat('d', g % 40)::bytea || decode('00000001000261', 'hex') "
        "FROM generate_series(1, 3000) g",
        2,
    ),
    "whole false rows": (
        "SELECT decode('64' || lpad(to_hex(14), 8, '0') || '0001' || '00000004' || '61626364', 'hex') || "
        "decode('64' || lpad(to_hex(14), 8, '0') || '0001' || '00000004' || '61626364', 'hex') "
        "FROM generate_series(1, 1000)",
        1,
    ),
    "large rows": ("SELECT g, repeat('d', g * 30000) FROM generate_series(1, 12) g", 2),
    "NULLs": ("SELECT NULLIF(g % 3, 0), NULLIF('d', 'd'), g FROM generate_series(1, 500) g", 3),
    "no rows": ("SELECT 1 WHERE false", 1),
    "no columns": ("SELECT FROM generate_series(1, 5)", 0),
    "many columns": ("SELECT " + ", ".join(f"g + {n}" for n in range(256)) + " FROM generate_series(1, 50) g", 256),
}


@ON_ONE
@pytest.mark.parametrize("size", [100, 5000, 1 << 20])
@pytest.mark.parametrize("name", QUESTIONS)
def test_rows_are_those_of_libpq(link: Link, name: str, size: int) -> None:
    query, width = QUESTIONS[name]
    command = f"COPY ({query}) TO STDOUT (FORMAT binary)"
    assert rows(binary_rows(link, command, size), width) == rows(_joined(link, command, size), width)
    assert link.value("SELECT 'next'") == "next"


class Cut(Link):
    """A connection whose answers come in pieces of any length."""

    here: socket.socket
    there: socket.socket

    @property
    def socket(self) -> int:
        return self.here.fileno()

    def serve(self, descriptor: int) -> None:
        """Pass the server's bytes on, a few at a time."""
        dice = random.Random(7)
        while True:
            try:
                self.there.sendall(os.read(descriptor, dice.randint(1, 300)))
            except BlockingIOError:
                if self._past is None:
                    return


@ON_ONE
def test_messages_may_be_cut_anywhere(served: Served) -> None:
    link = link_to(parse_conninfo(served.conninfo))
    link.__class__ = Cut
    assert isinstance(link, Cut)
    link.here, link.there = socket.socketpair()
    link.here.setblocking(False)
    query, width = QUESTIONS["false rows"]
    command = f"COPY ({query}) TO STDOUT (FORMAT binary)"
    parts = binary_rows(link, command, 4000)
    passing = threading.Timer(0.1, link.serve, (link._opened.socket,))
    passing.start()
    found = rows(parts, width)
    passing.join()
    assert found == rows(_joined(link, command, 4000), width)
    for each in (link, link.here, link.there):
        each.close()


@ON_ONE
def test_an_error_amid_the_rows_has_libpqs_words(link: Link) -> None:
    query = "SELECT 1 / (20000 - g) FROM generate_series(1, 30000) g"
    told = []
    for way in (binary_rows, _joined):
        with pytest.raises(PublisherError) as caught:
            for _ in way(link, f"COPY ({query}) TO STDOUT (FORMAT binary)", 1000):
                pass
        told.append((caught.value.sqlstate, str(caught.value)))
        assert link.value("SELECT 'next'") == "next"
    assert told[0] == told[1] == ("22012", "ERROR:  division by zero")


@ON_ONE
def test_what_is_not_read_to_its_end_is_out_of_the_way_of_the_next_command(link: Link) -> None:
    endless = "COPY (SELECT repeat('d', 1000) FROM generate_series(1, 1000000)) TO STDOUT (FORMAT binary)"
    for _ in range(2):
        next(binary_rows(link, endless, 10_000))
        assert link.value("SELECT 'next'") == "next"


@ON_ONE
def test_a_server_that_goes_away_amid_the_rows(served: Served, link: Link) -> None:
    endless = "COPY (SELECT repeat('d', 1000) FROM generate_series(1, 1000000)) TO STDOUT (FORMAT binary)"
    coming = binary_rows(link, endless, 10_000)
    next(coming)
    served.pub(f"SELECT pg_terminate_backend({link.backend}, 10000)")
    with pytest.raises(PublisherError) as caught:
        for _ in coming:
            pass
    assert caught.value.sqlstate in ("08006", "57P01")
    assert not link.is_open
    with pytest.raises(PublisherError):
        link.value("SELECT 1")


@ON_ONE
def test_another_thread_interrupts(link: Link) -> None:
    command = "COPY (SELECT pg_sleep(60), g FROM generate_series(1, 2) g) TO STDOUT (FORMAT binary)"
    threading.Timer(0.2, link.interrupt).start()
    with pytest.raises(PublisherError) as caught:
        list(binary_rows(link, command, 1000))
    assert caught.value.sqlstate == "57014"
