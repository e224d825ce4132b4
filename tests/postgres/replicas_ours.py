"""The same databases in a catalog of ours, with the interface of replicas.RealReplicas."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from pgrepl.ground.errors import PgError
from pgrepl.statements.run import run
from tests.harness.database import Database, ask, by_columns, by_message, visit
from tests.harness.pair import Pair
from tests.postgres.replicas import Answer, Failure, Rows, failure


class OurReplicas:
    """The databases of a fresh catalog. `by_spark`: workers leave to Spark whatever it can do, however small.
    `release`: the one that is spoken."""

    def __init__(self, *, by_spark: bool = False, release: int = 17) -> None:
        self._release = release
        self._folder = Path(tempfile.mkdtemp())
        with visit(self._folder / "catalog.db") as first:
            ask(first, "ALTER SYSTEM SET max_prepared_transactions = 10")
        self._pair = Pair(self._folder)
        self._databases = {"pub": self._pair.pub, "sub": self._pair.sub}
        self._set_way = by_columns if by_spark else by_message
        for name in self._databases:
            self._prepare(name)

    def _prepare(self, where: str) -> None:
        database = self._databases[where]
        self._set_way(database)
        if self._release != 17:
            database(f"ALTER DATABASE {where} SET pgrepl.postgres_version = {self._release}")
            database(f"SET pgrepl.postgres_version = {self._release}")

    def _database(self, where: str) -> Database:
        if where not in self._databases:
            self._databases[where] = Database(self._folder, where, new=True)
            self._prepare(where)
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
        database = self._database(at)
        database.catch_up()
        reports = database.log.reports
        return [failure(r.message, r.detail, r.context) for r in reports if r.severity in ("ERROR", "FATAL")]

    def quiet(self) -> None:
        """Nothing happens here by itself."""

    def close(self) -> None:
        for name, database in self._databases.items():
            if name not in ("pub", "sub"):
                database.close()
        self._pair.close()
        shutil.rmtree(self._folder)
