"""The file of locks is never synced: after a power cut it is thrown away."""

from __future__ import annotations

import random
import signal
from pathlib import Path

import pytest

from pgrepl.catalog.locks import lock_file
from pgrepl.catalog.locks.lock_file import path_of
from pgrepl.catalog.locks.lock_table import LockKind, LockRequest, LockTable, RowMode
from pgrepl.ground import interrupts
from pgrepl.ground.errors import PgError


def test_a_file_of_an_earlier_start_of_the_machine_is_thrown_away(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = LockTable(path)
    before.enter(1, "client backend", lock_file.new_token(), 5)
    before.close()
    assert LockTable(path).holders() != {}
    monkeypatch.setattr(lock_file, "boot", lambda: "another")
    after = LockTable(path)
    assert after.holders() == {}
    after.enter(1, "client backend", lock_file.new_token(), 5)
    assert len(LockTable(path).holders()) == 1


@pytest.mark.parametrize("length", [0, 100, 5000])
def test_a_damaged_file_is_thrown_away(path: Path, length: int) -> None:
    table = LockTable(path)
    table.enter(1, "client backend", lock_file.new_token(), 5)
    table.close()
    content = path_of(path).read_bytes()
    path_of(path).write_bytes(content[:length] + b"\xa5" * (len(content) - length))
    assert LockTable(path).holders() == {}


def test_locks_that_do_not_fit_on_the_disk(path: Path) -> None:
    """The error names the cause, and nothing is locked."""
    table = LockTable(path)
    holder = table.enter(1, "client backend", lock_file.new_token(), 5).id
    link = table.open()
    link.execute(f"PRAGMA max_page_count = {link.execute('PRAGMA page_count').fetchone()[0]}")
    with pytest.raises(PgError) as caught:
        table.take(holder, [LockRequest(LockKind.ROW, 16384, row, RowMode.UPDATE) for row in range(1000)], 0)
    assert str(caught.value) == f'file "{path_of(path)}" cannot be used: database or disk is full'
    assert table.held() == []


def test_an_interrupt_leaves_no_transaction_open(path: Path) -> None:
    """It would keep all other sessions from their locks."""
    chance, ended = random.Random(1), 0
    table, other = LockTable(path), LockTable(path)
    holder, beside = (each.enter(1, "client backend", lock_file.new_token(), 5).id for each in (table, other))
    wanted = [LockRequest(LockKind.ROW, 16384, row, RowMode.UPDATE) for row in range(3)]
    before = signal.signal(signal.SIGALRM, lambda *_: interrupts.interrupt(interrupts.user_request()))
    try:
        for _ in range(300):
            try:
                signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.00005, 0.001))
                for _ in range(10_000):
                    table.take(holder, wanted, 0)
                    table.end_transaction(holder)
                    interrupts.check_for_interrupts()
            except PgError as error:
                assert error.sqlstate == "57014", error
                ended += 1
            else:
                signal.setitimer(signal.ITIMER_REAL, 0)
            interrupts.begin()
            assert not table.open().in_transaction
    finally:
        signal.signal(signal.SIGALRM, before)
    assert ended > 200
    table.end_transaction(holder)
    assert other.take(beside, wanted, 0) is None
