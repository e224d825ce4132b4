"""Large tables of a server are copied by processes, which end with the program, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from pgrepl.replication.publisher.postgres.copy_workers import readers
from tests.harness.dose import dose
from tests.harness.forked import pgrepl
from tests.harness.programs import eventually, started
from tests.postgres.served import Served

several = pytest.mark.skipif(readers() < 2 or sys.platform != "linux", reason="one reader")
ON_ONE = pytest.mark.parametrize("publishing", [18], indirect=True)  # what depends on no version
ROWS = 40_000
OURS = "application_name LIKE 'pgrepl%' AND datname = current_database()"
HASH = "SELECT count(*), sum(a), md5(string_agg(md5(b || coalesce(c::text, '')), '' ORDER BY a)) FROM t"


def filled(served: Served, key: str = "PRIMARY KEY") -> None:
    served.both(f"CREATE TABLE t (a int {key}, b text, c timestamptz)")
    served.sub("ALTER DATABASE sub SET pgrepl.copy_range_size = '256kB'")
    served.pub(
        "INSERT INTO t SELECT g, repeat('row ' || g, 5), CASE WHEN g % 3 > 0 THEN timestamptz '2024-01-01' + g * "
        f"interval '1 s' END FROM generate_series(1, {ROWS}) g; ANALYZE t"
    )
    served.pub("CREATE PUBLICATION p FOR TABLE t")
    served.subscribe_only()


def sync(served: Served) -> tuple[str, ...]:
    return ("sync", "--catalog", str(served.folder / "catalog.db"), "-d", "sub")


def below(pid: int) -> list[int]:
    """The processes under one."""
    found: list[int] = []
    for each in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            if int((each / "stat").read_text().rpartition(")")[2].split()[1]) == pid:
                found += [int(each.name), *below(int(each.name))]
    return found


def copying(process: subprocess.Popen[str]) -> list[int]:
    """The processes under one that copies: the one that waits, and its workers."""
    found: list[int] = []

    def are_there() -> bool:
        found[:] = below(process.pid)
        return len(found) > readers()

    eventually(are_there)
    return found


def none_is_left(pids: list[int]) -> bool:
    return not any(Path(f"/proc/{pid}").exists() for pid in pids)


@several
@pytest.mark.parametrize("key", dose(["PRIMARY KEY", ""], 2), ids=["ranges", "pages"])
def test_processes_copy_what_threads_copy(served: Served, key: str) -> None:
    filled(served, key)
    with started(*sync(served)) as process:
        pids = copying(process)
        assert process.wait() == 0
        eventually(lambda: none_is_left(pids))
    by_processes = served.same(HASH)
    served.sub("DROP SUBSCRIPTION s")
    served.sub("ALTER DATABASE sub SET pgrepl.copy_range_size = '1GB'")
    served.sub("TRUNCATE t")
    served.subscribe_only()
    assert served.catch_up() == []
    assert served.same(HASH) == by_processes


@several
@ON_ONE
def test_a_killed_process_is_replaced_by_threads(served: Served) -> None:
    filled(served)
    with started(*sync(served)) as process:
        os.kill(copying(process)[-1], signal.SIGKILL)
        assert process.wait() == 0
    served.same(HASH)


@several
@ON_ONE
@pytest.mark.parametrize(
    "number",
    [signal.SIGKILL, *(pytest.param(each, marks=pytest.mark.slow) for each in (signal.SIGINT, signal.SIGTERM))],
)
def test_they_end_with_their_parent(served: Served, number: signal.Signals) -> None:
    filled(served)
    with started(*sync(served)) as process:
        pids = copying(process)
        process.send_signal(number)
        process.wait()
        eventually(lambda: none_is_left(pids))
    eventually(lambda: served.pub(f"SELECT count(*) FROM pg_stat_activity WHERE {OURS}") == [("0",)])
    assert pgrepl(*sync(served)).returncode == 0
    served.same(HASH)


@several
@ON_ONE
def test_a_row_that_is_wrong_is_told_and_what_is_finished_stays(served: Served) -> None:
    filled(served)
    served.sub(f"ALTER TABLE t ADD CHECK (a <> {ROWS - 7})")
    done = pgrepl(*sync(served))
    assert done.returncode != 0
    assert f"Failing row contains ({ROWS - 7}, " in done.stderr
    assert served.sub("SELECT srsubstate FROM pg_subscription_rel") == [("d",)]
    ((count,),) = served.sub("SELECT count(*) FROM t")
    assert ROWS // 2 < int(count or 0) < ROWS
    served.pub(f"DELETE FROM t WHERE a = {ROWS - 7}")
    assert pgrepl(*sync(served)).returncode == 0
    served.same(HASH)


def test_a_small_table_has_no_process(served: Served) -> None:
    filled(served)
    served.sub("ALTER DATABASE sub RESET pgrepl.copy_range_size")
    with started(*sync(served)) as process:
        most = 0
        while process.poll() is None:
            most = max(most, len(below(process.pid)))
        assert process.returncode == 0
    assert most <= 1
    served.same(HASH)
