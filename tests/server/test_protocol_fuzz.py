"""Messages that no client sends: mutated, cut off, with wrong lengths; slow clients, half connections, floods of them.

Each ends in an error of PostgreSQL or a closed connection. The log has no traceback, the postmaster keeps neither
descriptors nor memory nor processes, and another session goes on as if nothing were there.
"""

from __future__ import annotations

import os
import random
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.harness.programs import PATIENCE, eventually
from tests.harness.serving import Serving, serving
from tests.harness.wire import START, SYNC, bind, execute, message, parse, text

PROCESSES = 4  # the launcher, the host of Spark, the session beside, and the spare


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    settings = ("-c", "max_connections=20", "-c", "authentication_timeout=2s")
    with serving(tmp_path_factory.mktemp("fuzzed"), *settings) as found:
        found.ask("CREATE TABLE t (a int PRIMARY KEY, b text)")
        found.ask("INSERT INTO t VALUES (1, 'x')")
        yield found


ENDS = b"ZEIC123GTnDstd"  # kinds with which an answer to a sequence that is cut off may end
GOOD = (
    message(b"Q", text("SELECT 1; SELECT a FROM t")),
    message(b"Q", text("COPY t TO STDOUT")),
    message(b"Q", text("COPY t FROM STDIN")) + message(b"d", b"7\tx\n") + message(b"f", text("no")),
    message(b"Q", text("BEGIN")) + message(b"Q", text("SELECT 1/0")) + message(b"Q", text("ROLLBACK")),
    message(b"Q", text("LISTEN c; NOTIFY c, 'x'; SELECT pg_try_advisory_lock(1)")),
    parse("", "SELECT $1::int + 1, $2::text", 23, 25) + bind("", "", b"5", None) + execute("", 0) + SYNC,
    parse("s", "SELECT a FROM t WHERE a = $1") + message(b"D", b"S" + text("s")) + SYNC,
    bind("p", "s", struct.pack("!i", 1), formats=(1,)) + message(b"D", b"P" + text("p")) + message(b"H", b"") + SYNC,
    execute("p", 1) + message(b"C", b"P" + text("p")) + message(b"C", b"S" + text("s")) + SYNC,
    message(b"F", struct.pack("!IHHH", 1, 0, 0, 0)),
    message(b"d", b"x") + message(b"c", b""),
    message(b"p", text("secret")),
)  # fmt: skip


def mutated(chance: random.Random, data: bytes) -> bytes:
    """The bytes with a change that a broken or hostile client could make."""
    found = bytearray(data)
    at = chance.randrange(len(found))
    match chance.randrange(7):
        case 0:
            found[at] = chance.randrange(256)
        case 1:
            del found[at:]
        case 2:
            del found[at : at + chance.randrange(1, 8)]
        case 3:
            found[at:at] = chance.randbytes(chance.randrange(1, 8))
        case 4:  # a length
            found[1:5] = struct.pack("!I", chance.choice((0, 3, 4, 5, 10_005, 1 << 30, (1 << 30) + 4, 0xFFFF_FFFF)))
        case 5:  # a count or a length inside
            found[at : at + 2] = chance.choice((b"\xff\xff", b"\x7f\xff", b"\0\0", b"\x80\0"))
        case _:
            found[0] = chance.choice(b"QPBDECSHXFdcfpzR\0")
    return bytes(found)


def connected(served: Serving) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(PATIENCE)
    connection.connect(f"{served.folder}/.s.PGSQL.{served.port}")
    return connection


def last_kind(data: bytes) -> bytes:
    """The kind of the last of an answer's messages, which has to be complete."""
    at = 0
    kind = b""
    while at < len(data):
        kind = data[at : at + 1]
        (length,) = struct.unpack_from("!I", data, at + 1)
        assert kind in b"123ACDEGHIKNRSTWZcdnstv" and length >= 4, data[at:]
        at += length + 1
    assert at == len(data), data
    return kind


def fuzz(served: Serving, chance: random.Random, messages: int) -> None:
    """Send so many messages over as many connections as they last."""
    sent = 0
    while sent < messages:
        wanted = [chance.choice(GOOD) for _ in range(chance.randrange(1, 12))]
        broken = [mutated(chance, each) if chance.random() < 0.5 else each for each in wanted]
        start = START if chance.random() < 0.9 else mutated(chance, START)
        data = start + b"".join(broken)
        sent += len(broken) + 1
        with connected(served) as connection:
            answer = bytearray()
            try:
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
                while piece := connection.recv(1 << 16):
                    answer += piece
            except (BrokenPipeError, ConnectionResetError):  # it was closed while there was more to read
                continue
            if start == START:
                assert last_kind(bytes(answer)) in ENDS, data


def resources(served: Serving) -> tuple[int, int]:
    """The postmaster's open files, and the memory that it keeps, in pages."""
    process = Path(f"/proc/{served.process.pid}")
    return len(os.listdir(process / "fd")), int((process / "statm").read_text().split()[1])


def children(served: Serving) -> int:
    return len(Path(f"/proc/{served.process.pid}/task/{served.process.pid}/children").read_text().split())


@pytest.fixture
def unharmed(served: Serving) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """A session beside, which must not notice anything; and what must be as before at the end."""
    with served.connect() as beside:
        beside.execute("CREATE TEMPORARY TABLE mine AS SELECT 1 AS a")
        beside.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        seen = beside.execute("SELECT count(*) FROM t").fetchall()
        eventually(lambda: children(served) == PROCESSES)
        files, memory = resources(served)
        yield beside
        eventually(lambda: children(served) == PROCESSES)
        assert resources(served)[0] == files
        assert resources(served)[1] < memory + 1000
        assert beside.execute("SELECT count(*) FROM t").fetchall() == seen
        beside.execute("COMMIT")
        assert beside.execute("TABLE mine").fetchall() == [(1,)]
    assert "Traceback" not in served.log
    assert "internal error" not in served.log


def test_mutated_messages(served: Serving, unharmed: object) -> None:
    fuzz(served, random.Random(17), 150)


@pytest.mark.slow
def test_many_mutated_messages(served: Serving, unharmed: object) -> None:
    fuzz(served, random.Random(time.time_ns()), 100_000)


def test_slow_and_silent_clients_are_sent_away(served: Serving, unharmed: psycopg.Connection[object]) -> None:
    """A start that comes byte by byte, half a start, and one half of a connection that is closed."""
    connections = [connected(served) for _ in range(4)]
    connections[1].sendall(START[:7])
    connections[2].shutdown(socket.SHUT_WR)
    try:
        for byte in START[:-1]:
            connections[0].sendall(bytes([byte]))
        assert unharmed.execute("SELECT 1").fetchall() == [(1,)]
        for each in connections:
            each.settimeout(PATIENCE)
            answer = each.recv(1 << 16)
            assert answer == b"" or b"canceling authentication due to timeout" in answer
    finally:
        for each in connections:
            each.close()


@pytest.mark.slow
def test_a_flood_of_connections_leaves_room_for_who_is_there(
    served: Serving, unharmed: psycopg.Connection[object]
) -> None:
    flood = [connected(served) for _ in range(60)]
    for each in flood[:30]:
        each.sendall(START)
    assert unharmed.execute("SELECT 2").fetchall() == [(2,)]
    answers = []
    for each in flood[:30]:
        answers.append(each.recv(1 << 16))
    refused = [each for each in answers if b"sorry, too many clients already" in each or each == b""]
    assert refused and len(refused) < 30
    for each in flood:
        each.close()
    eventually(lambda: children(served) == PROCESSES)
    assert served.ask("SELECT 3") == [(3,)]
