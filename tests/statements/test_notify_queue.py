"""NOTIFY warns of a queue that fills up."""

from __future__ import annotations

from pathlib import Path

from pgrepl.backend import open_session
from pgrepl.catalog.store.opening import open_catalog
from pgrepl.ground.errors import Report
from pgrepl.statements.run import run


def test_a_queue_that_is_half_full_warns_of_the_listener_that_is_behind(tmp_path: Path) -> None:
    catalog = open_catalog(tmp_path / "catalog.db")
    first = open_session(catalog)
    list(run(first, "ALTER SYSTEM SET max_notify_queue_pages = 64"))
    first.close()
    told: list[Report] = []
    listener, notifier = open_session(catalog), open_session(catalog, on_report=told.append)
    list(run(listener, "LISTEN c"))
    list(run(notifier, "SELECT pg_notify('c', repeat('x', 7900) || n) FROM generate_series(1, 40) n"))
    assert told == []
    list(run(notifier, "NOTIFY c"))
    list(run(notifier, "NOTIFY c"))
    assert told == [
        Report(
            "WARNING",
            "01000",
            "NOTIFY queue is 60% full",
            f"The server process with PID {listener.pid} is among those with the oldest transactions.",
            "The NOTIFY queue cannot be emptied until that process ends its current transaction.",
        )
    ]
    listener.close()
    notifier.close()
    catalog.close()
