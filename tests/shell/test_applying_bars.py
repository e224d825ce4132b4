"""What workers show on a terminal: bars with rows and rates, log lines above them, tables that fit."""

from __future__ import annotations

import io

from rich.console import Console
from rich.progress import Progress

from pgrepl.api.rounds import applied_of
from pgrepl.catalog.facts.activity import Copying
from pgrepl.replication.subscriber.attach import Round
from pgrepl.replication.subscriber.lease import Applied, Streamed
from pgrepl.shell.commands.subcommand import rich_table
from pgrepl.shell.progress import Above, Bars, progress


def terminal(width: int) -> Console:
    return Console(file=io.StringIO(), width=width, height=20, force_terminal=True, color_system=None)


def written(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def shown(console: Console, drawn: Progress) -> str:
    """The bars as they are now."""
    before = len(written(console))
    drawn.refresh()
    return written(console)[before:]


def test_bars_come_after_a_moment_with_rows_and_rate_and_go() -> None:
    console = terminal(100)
    now = 1000.0
    with progress(console) as drawn:
        drawn.get_time = lambda: now
        bars = Bars(drawn)
        bars.copying("s", "public.t")
        copying = Copying(1, tuples_total=4000)
        bars.rows("s", "public.t", copying)
        assert "public.t" not in shown(console, drawn)
        now += 1
        assert "s public.t" in shown(console, drawn)
        copying.add(1500, 9000)
        bars.rows("s", "public.t", copying)
        now += 1
        assert "1,500 rows, " in shown(console, drawn)
        assert [(task.completed, task.total) for task in drawn.tasks] == [(1500, 4000)]
        bars.copied("s", "public.t", 4000)
        assert drawn.tasks == []
        bars.applying("s")
        bars.applied("s", 10, Streamed(10, 30, 20, Applied(1, 700, 20)))
        assert [(task.fields["seen"].split(",")[0], task.completed, task.total) for task in drawn.tasks] == [
            ("700 changes", 10, 20)
        ]
        bars.applied("s", 10, Streamed(20, 30, 30, Applied(1, 300, 30)))
        assert drawn.tasks == []
        bars.copying("s", "public.broken")
        bars.summary(applied_of("", "s", Round(transactions=2, changes=1000, lsn=30)))
        assert drawn.tasks == []
    said = [line.rstrip() for line in written(console).splitlines() if "subscription" in line]
    assert [line[line.index("subscription") :] for line in said] == [
        'subscription "s": table public.t copied, 4000 rows',
        'subscription "s": 2 transactions with 1000 changes applied, up to 0/1E',
    ]
    assert written(console).rfind("\x1b[?25h") > written(console).rfind("\x1b[?25l")  # the cursor is there again


def test_what_is_logged_stays_in_one_piece() -> None:
    console = terminal(40)
    above = Above(console, io.StringIO())
    line = "2026-05-04 12:00:01.123 UTC [4242] ERROR:  [bold]a long one that no terminal of this width has room for"
    above.write(line[:50])
    assert written(console) == ""
    above.write(line[50:] + "\n")
    assert written(console) == line + "\n"


def test_a_table_that_is_too_wide_stands_upright() -> None:
    rows = [("sub", "s", "t r", ""), ("sub", "[s2]", "u i", "08006: gone")]
    headers = ("Database", "Subscription", "Tables", "Last error")
    for width, lines in ((100, 7), (30, 11)):
        console = terminal(width)
        console.print(rich_table(console, "Subscriptions", headers, rows))
        assert len(written(console).splitlines()) == lines, written(console)
        assert all(len(line) <= width for line in written(console).splitlines())
        assert "[s2]" in written(console)
