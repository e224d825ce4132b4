"""The same databases in a catalog of ours, with the interface of replicas.RealReplicas."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from pgrepl.commands.run import run
from pgrepl.errors import PgError
from pgrepl.replication.catch_up import CatchUp
from tests.postgres.replicas import Answer, Failure, Rows, failure
from tests.replication.conftest import Database, HeardLog, Pair


class OurReplicas:
    """The databases of a fresh catalog; `settings` are those of each session."""

    def __init__(self, settings: dict[str, str] | None = None) -> None:
        self._folder = Path(tempfile.mkdtemp())
        self._pair = Pair(self._folder)
        self._databases = {"pub": self._pair.pub, "sub": self._pair.sub}
        self._settings = settings or {}
        for name in self._databases:
            self._set(name)

    def _set(self, where: str) -> None:
        for name, value in self._settings.items():
            self.run(where, f"SET {name} = '{value}'")

    def _database(self, where: str) -> Database:
        if where not in self._databases:
            self._pair.pub(f"CREATE DATABASE {where}")
            self._databases[where] = Database(self._folder, where)
            self._set(where)
        return self._databases[where]

    def conninfo(self, where: str) -> str:
        return f"dbname={where}"

    def run(self, where: str, text: str) -> Answer:
        try:
            *_, last = run(self._database(where).session, text)
        except PgError as error:
            return ("error", error.sqlstate, error.message, error.report.detail)
        return ("done", last.tag)

    def rows(self, where: str, text: str) -> Rows:
        return list(self._database(where)(text))

    def catch_up(self, subscription: str, at: str = "sub") -> list[Failure]:
        """Let the enabled subscriptions have everything; the errors."""
        log = HeardLog()
        CatchUp(self._database(at).session, log).now()
        return [failure(r.message, r.detail, r.context) for r in log.reports if r.severity in ("ERROR", "FATAL")]

    def quiet(self) -> None:
        """Nothing happens here by itself."""

    def close(self) -> None:
        for name, database in self._databases.items():
            if name not in ("pub", "sub"):
                database.session.close()
                database.session.catalog.close()
        self._pair.close()
        shutil.rmtree(self._folder)
