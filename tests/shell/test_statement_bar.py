"""What a person sees while a statement takes long."""

import io
import threading

from pgrepl.shell.progress import StatementBar
from tests.harness.programs import PATIENCE, eventually


class Screen(io.StringIO):
    """A terminal that remembers what was written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.drawn = threading.Event()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if "Spark: 3 of 8 tasks" in text:
            self.drawn.set()
        return super().write(text)


def bars() -> list[threading.Thread]:
    """That are at work."""
    return [thread for thread in threading.enumerate() if thread.name == "statement bar"]


def test_a_long_statement_shows_how_far_spark_is_and_leaves_no_trace(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    screen = Screen()
    with StatementBar(screen, tasks=lambda: (3, 8), patience=0):
        assert screen.drawn.wait(PATIENCE)
    assert screen.getvalue().endswith("\x1b[2K")  # the line is erased
    assert bars() == []


def test_a_short_statement_shows_nothing(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    screen = Screen()
    with StatementBar(screen, tasks=lambda: (3, 8), patience=60):
        pass
    assert screen.getvalue() == ""


def test_nothing_is_drawn_on_a_dumb_terminal_or_in_a_file(monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    screen = Screen()
    with StatementBar(screen, tasks=lambda: (3, 8), patience=0):
        eventually(lambda: not bars())
    assert screen.getvalue() == ""
    monkeypatch.setenv("TERM", "xterm")
    file = io.StringIO()
    with StatementBar(file, tasks=lambda: (3, 8), patience=0):
        eventually(lambda: not bars())
    assert file.getvalue() == ""
