"""An hour of a follower of a hundred tables that do not change, in a minute: what it does now and then, it does sixty
times as often."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import deque

import pytest

from tests.harness.programs import ROOT, environment
from tests.postgres.served import Served

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("publishing", [18], indirect=True)]
SPEED = 60  # simulated seconds in one
MINUTES = 60  # simulated ones, each with a sample
TABLES = 100
LATE = 2.0  # seconds; in those of the simulation, twelve times wal_receiver_status_interval
PERCENT = 1.0  # of a core

FOLLOWER = f"""
import gc, json, os, sys, threading, time
from pgrepl.catalog.locks import lock_file
from pgrepl.cli import main
from pgrepl.replication.publisher.postgres import publisher
from pgrepl.replication.subscriber import dangers, lease, worker

real = publisher.Feedback
publisher.Feedback = lambda start, interval, timeout, now: real(start, interval / {SPEED}, timeout, now)
worker._LOOK /= {SPEED}
lease.WHILE_COPYING /= {SPEED}
lock_file.SIGN_OF_LIFE /= {SPEED}
dangers.INTERVAL /= {SPEED}

def sample():
    while True:
        time.sleep(60 / {SPEED})
        gc.collect()
        with open("/proc/self/statm") as statm:
            kilobytes = int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 10
        files, cpu = len(os.listdir("/proc/self/fd")), time.process_time()
        sample = [sys.getallocatedblocks(), kilobytes, threading.active_count(), files, cpu]
        print("sample", json.dumps(sample), flush=True)

threading.Thread(target=sample, daemon=True).start()
sys.exit(main(["apply", "--catalog", sys.argv[1], "-d", "sub", "--follow", "--interval", str(1 / {SPEED})]))
"""


def test_an_idle_hour_takes_no_memory_and_the_slot_is_never_behind(served: Served) -> None:
    served.both("; ".join(f"CREATE TABLE t{number} (a int PRIMARY KEY, b text)" for number in range(TABLES)))
    served.pub("CREATE TABLE elsewhere (a text)")
    names = ", ".join(f"t{number}" for number in range(TABLES))
    served.pub(f"INSERT INTO t1 VALUES (1, 'x'); CREATE PUBLICATION p FOR TABLE {names}")
    served.pub(f"ALTER DATABASE {served.database} SET wal_sender_timeout = '4s'")
    served.subscribe()
    served.sub("ALTER SYSTEM SET autovacuum_naptime = '1s'")
    with subprocess.Popen(
        [sys.executable, "-c", FOLLOWER, str(served.folder / "catalog.db")],
        env=environment(),
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        samples: list[list[float]] = []
        ends: deque[tuple[float, str]] = deque()  # of the log, and when it was there
        confirmed = f"SELECT confirmed_flush_lsn >= '{{}}' FROM pg_replication_slots WHERE slot_name = '{served.slot}'"
        while len(samples) < MINUTES:
            line = process.stdout.readline()
            assert line, process.wait()
            if not line.startswith("sample "):
                continue
            samples.append(json.loads(line.removeprefix("sample ")))
            served.pub("INSERT INTO elsewhere SELECT repeat('x', 1000) FROM generate_series(1, 100)")
            ((end,),) = served.pub("SELECT pg_current_wal_insert_lsn()")
            ends.append((time.monotonic(), str(end)))
            while len(ends) > 1 and ends[1][0] < time.monotonic() - LATE:
                ends.popleft()
            if ends[0][0] < time.monotonic() - LATE:
                assert served.pub(confirmed.format(ends[0][1])) == [("t",)]
        process.send_signal(signal.SIGINT)
    print(*samples, sep="\n")  # where an assertion fails
    warm = MINUTES // 4
    blocks, kilobytes, threads, files, cpu = zip(*samples[warm:], strict=True)
    first, last = slice(warm), slice(-warm, None)
    assert min(blocks[last]) < min(blocks[first]) + 500  # autovacuum may be at work in a sample
    assert max(kilobytes[last]) < max(kilobytes[first]) + 1024
    assert min(threads[last]) <= min(threads[first]) and min(files[last]) <= min(files[first])
    assert (cpu[-1] - cpu[0]) / (60 * len(cpu)) < PERCENT / 100
    served.pub("INSERT INTO t99 VALUES (1, 'behind it')")
    assert served.catch_up() == []
    assert served.sub("SELECT b FROM t99") == [("behind it",)]
