"""Statements played in a fresh instance, and what was answered, line by line as psql's messages read."""

from __future__ import annotations

from pathlib import Path

from pgrepl.backend import open_session
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store.opening import open_catalog
from pgrepl.ground.errors import PgError, Report
from pgrepl.statements.run import run

NO_WAIT = {"synchronous_commit": "off"}  # for the disk, which would be a good part of the tests' time


class Instance:
    """An instance with the databases `pub` and `sub`; a session for each database and role that is asked for."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.catalog = open_catalog(folder / "catalog.db")
        self._sessions: dict[tuple[str, str], Session] = {}
        self._lines: list[str] = []
        self.play("postgres", "CREATE DATABASE pub", "CREATE DATABASE sub")

    def session(self, database: str, user: str = "postgres") -> Session:
        key = (database, user)
        if key not in self._sessions:
            self._sessions[key] = open_session(self.catalog, database, user, on_report=self._tell, settings=NO_WAIT)
        return self._sessions[key]

    def _tell(self, report: Report) -> None:
        self._lines += lines_of(report)

    def play(self, database: str, *statements: str, user: str = "postgres") -> list[str]:
        """The messages, tags and rows (columns parted by `|`) of the statements."""
        self._lines = []
        for statement in statements:
            try:
                for result in run(self.session(database, user), statement):
                    if result.columns is None:
                        self._lines.append(str(result.tag))
                    self._lines += ["|".join("" if value is None else value for value in row) for row in result.rows]
            except PgError as error:
                self._lines += lines_of(error.report)
        return self._lines

    def as_role(self, role: str, database: str, *statements: str) -> list[str]:
        """The same with SET ROLE, so that the role needs not log in."""
        self.play(database, f'SET ROLE "{role}"')
        answer = self.play(database, *statements)
        self.play(database, "RESET ROLE")
        self._lines = answer
        return answer


def lines_of(report: Report) -> list[str]:
    lines = [f"{report.severity}:  {report.message}"]
    if report.detail:
        lines.append(f"DETAIL:  {report.detail}")
    if report.hint:
        lines.append(f"HINT:  {report.hint}")
    return lines
