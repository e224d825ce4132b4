"""The server log: reports of workers, as a PostgreSQL server writes them with its usual log_line_prefix.

2026-05-04 12:00:01.123 UTC [4242] ERROR:  duplicate key value violates unique constraint "t_pkey"
2026-05-04 12:00:01.123 UTC [4242] DETAIL:  Key (a)=(1) already exists.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from pgrepl.catalog.locks import lock_file
from pgrepl.ground.errors import PgError, Report

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session


class ServerLog:
    """A log file, or standard error."""

    def __init__(self, path: Path | None) -> None:
        self.path = path

    def check(self) -> None:
        """Raise unless the log can be written."""
        if self.path is None:
            return
        try:
            os.close(self._open())
        except OSError as problem:
            raise PgError("58030", f'could not open log file "{self.path}": {problem.strerror}') from problem

    def _open(self) -> int:
        assert self.path is not None
        return os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def log(self, message: str, *, detail: str | None = None) -> None:
        self.report(Report("LOG", "00000", message, detail))

    def warning(self, message: str, *, detail: str | None = None) -> None:
        self.report(Report("WARNING", "01000", message, detail))

    def error(self, error: PgError) -> None:
        self.report(error.report)

    def report(self, report: Report, statement: str | None = None) -> None:
        """Write one report in one piece, because several processes may write the same file. `statement`: for the line
        STATEMENT."""
        text = "".join(line + "\n" for line in _lines(report, statement))
        if self.path is None:
            _write(sys.stderr, text)
            return
        with suppress(OSError):  # a full disk ends neither a session nor a worker
            descriptor = self._open()
            try:
                os.write(descriptor, text.encode())
            finally:
                os.close(descriptor)


class LogOf(ServerLog):
    """The log, filtered by a session's log_min_messages."""

    def __init__(self, log: ServerLog, session: Session) -> None:
        super().__init__(log.path)
        self.server_log = log
        self._session = session

    def hears(self, severity: str) -> bool:
        """Whether a severity is logged."""
        return reaches(severity, self._session.settings.get("log_min_messages"))

    def report(self, report: Report, statement: str | None = None) -> None:
        if self.hears(report.severity):
            self.server_log.report(report, statement)


_LEVELS = ("DEBUG5", "DEBUG4", "DEBUG3", "DEBUG2", "DEBUG1", "INFO", "NOTICE", "WARNING", "ERROR", "LOG", "FATAL",
           "PANIC")  # fmt: skip


def reaches(severity: str, least: str) -> bool:
    """Whether a severity is at least another one (is_log_level_output): LOG stands between ERROR and FATAL."""
    return _LEVELS.index(_level(severity)) >= _LEVELS.index(_level(least.upper()))


def _level(severity: str) -> str:
    return "DEBUG1" if severity == "DEBUG" else severity


def log_beside(session: Session) -> ServerLog:
    """The log of an instance: `catalog.db.log`; standard error where the catalog is not a file."""
    path = session.catalog.path
    return ServerLog(None if path is None else path.with_name(path.name + ".log"))


def _write(stream: TextIO, text: str) -> None:
    stream.write(text)
    stream.flush()


def _lines(report: Report, statement: str | None) -> list[str]:
    now = datetime.now(timezone.utc)
    prefix = f"{now:%Y-%m-%d %H:%M:%S}.{now.microsecond // 1000:03d} UTC [{lock_file.worker_pid()}] "
    severity = "DEBUG" if report.severity.startswith("DEBUG") else report.severity
    place = report.position or report.internal_position
    at = f" at character {place}" if place else ""
    lines = [f"{prefix}{severity}:  {_continued(report.message)}{at}"]
    for name, text in (
        ("DETAIL", report.detail),
        ("HINT", report.hint),
        ("CONTEXT", report.context),
        ("STATEMENT", statement),
    ):
        if text:
            lines.append(f"{prefix}{name}:  {_continued(text)}")
    return lines


def _continued(text: str) -> str:
    return text.replace("\n", "\n\t")
