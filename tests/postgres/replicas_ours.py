"""The same two databases in a catalog of ours, with the interface of replicas.RealReplicas."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from pgrepl.commands.run import run
from pgrepl.errors import PgError
from tests.postgres.replicas import Answer, Failure, Rows, failure
from tests.replication.conftest import Pair


class OurReplicas:
    """Databases `pub` and `sub` of a fresh catalog; `settings` are for the workers' sessions."""

    conninfo = "dbname=pub"

    def __init__(self, settings: dict[str, str] | None = None) -> None:
        self._folder = Path(tempfile.mkdtemp())
        self._pair = Pair(self._folder)
        for name, value in (settings or {}).items():
            self.run("sub", f"SET {name} = '{value}'")

    def run(self, where: str, text: str) -> Answer:
        session = (self._pair.pub if where == "pub" else self._pair.sub).session
        try:
            *_, last = run(session, text)
        except PgError as error:
            return ("error", error.sqlstate, error.message, error.report.detail)
        return ("done", last.tag)

    def rows(self, where: str, text: str) -> Rows:
        return list((self._pair.pub if where == "pub" else self._pair.sub)(text))

    def catch_up(self, subscription: str) -> list[Failure]:
        """Let the enabled subscriptions have everything; the errors."""
        self._pair.catch_up()
        return [failure(r.message, r.detail, r.context) for r in self._pair.log.reports if r.severity == "ERROR"]

    def quiet(self) -> None:
        """Nothing happens here by itself."""

    def close(self) -> None:
        self._pair.close()
        shutil.rmtree(self._folder)
